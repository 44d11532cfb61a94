//go:build race

package kafkatest

// Raced reports whether the race detector watches. Code without goroutines is ten times slower then, and the detector
// finds nothing in it. Its long tests do less then: `make test-full` runs them in full without the detector.
const Raced = true
