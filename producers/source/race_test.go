//go:build race

package source

// poolsForget: the race detector makes each sync.Pool forget some of what it holds, so calls into a library allocate.
const poolsForget = true
