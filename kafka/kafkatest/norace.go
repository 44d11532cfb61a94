//go:build !race

package kafkatest

// Raced reports whether the race detector watches.
const Raced = false
