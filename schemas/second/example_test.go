package second_test

import (
	"fmt"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/schemas/second"
)

// JSON shows a record whose type does not matter.
func ExampleJSON() {
	value, err := schemas.Marshal(&schemas.Watermark{
		Collector: 3, IntervalStart: 1_700_000_010_000,
		IntervalMs: 10_000,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	name, text, err := second.JSON(value)
	fmt.Println(name, string(text), err)
	// Output: weir.v1.Watermark {"collector":3,"interval_ms":10000,"interval_start":1700000010000} <nil>
}
