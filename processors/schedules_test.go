//go:build !race

package processors

const fewer = 1
