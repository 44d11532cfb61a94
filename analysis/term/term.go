// Package term writes reports for terminals. It is the only one that puts escape sequences into an output, so it cleans
// every datum itself.
package term

import (
	_ "github.com/dustin/go-humanize" // prefixes of units
	_ "github.com/gdamore/tcell/v2"   // the screen of weir top
	_ "github.com/rivo/uniseg"        // how many cells a text takes
)
