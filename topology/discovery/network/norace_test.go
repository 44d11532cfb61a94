//go:build !race

package network

// slower divides the numbers of large tests.
const slower = 1
