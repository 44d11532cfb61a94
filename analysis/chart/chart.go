// Package chart draws figures as SVG. It knows numbers and texts, and nothing of weir.
package chart
