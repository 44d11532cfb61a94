// Program example writes the observations of the worked example in docs/selection.md as CSV. They are of a made-up
// application on six machines. Usage: example >run.csv. `make selection-example` runs it.
package main

import (
	"bufio"
	"log"
	"os"

	"github.com/weirhpc/weir/selection/study"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	if err := study.WriteCSV(out, study.Example()); err != nil {
		log.Fatalf("writing the example: %v", err)
	}
	if err := out.Flush(); err != nil {
		log.Fatalf("writing the example: %v", err)
	}
}
