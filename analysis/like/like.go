// Package like compares jobs: which ones used their hardware as a given one did, and which metrics move together.
package like
