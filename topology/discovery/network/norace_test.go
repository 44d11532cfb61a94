//go:build !race && !short

package network

// slower divides the numbers of large tests.
const slower = 1
