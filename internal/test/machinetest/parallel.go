package machinetest

import (
	"flag"
	"strconv"
)

// AtOnce lets n tests that call t.Parallel run at once regardless of the number of processors,
// since most of them wait. The flag -parallel overrides it. It is for TestMain.
func AtOnce(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
