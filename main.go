// Command weir is continuous job performance monitoring for supercomputers. Its sub-commands, in folder commands, only
// wire the parts together; each part is a package of its own.
package main

import (
	"github.com/weirhpc/weir/commands"
)

func main() { commands.Main() }
