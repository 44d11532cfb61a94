//go:build !race && !short

package quantile

// slower divides the number of cases of a property.
const slower = 1
