//go:build !race

package source

// poolsForget reports whether a sync.Pool forgets what it holds.
const poolsForget = false
