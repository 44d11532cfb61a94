//go:build !race && !short

package study

// short is the seeds of TestStudyInShort.
const short = 3
