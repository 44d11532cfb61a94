//go:build !race && !short

package schemas

// slower divides the numbers of large or random tests.
const slower = 1
