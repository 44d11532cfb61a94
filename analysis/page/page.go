// Package page writes reports as HTML documents: one file, without script, that asks for nothing.
package page
