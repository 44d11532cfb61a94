//go:build !race

package schemas

// slower divides the numbers of large or random tests.
const slower = 1
