//go:build !race

package processors

const defaultSchedules = 10_000
