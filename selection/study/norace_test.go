//go:build !race

package study

// short is the seeds of TestStudyInShort.
const short = 3
