// Package findings keeps the final findings of topic findings in the archive, for ever.
package findings
