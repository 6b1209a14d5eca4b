package machinetest

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"
)

var writeLimits = flag.Bool("write-limits", false, "write LIMITS.md anew")

// Bound is a row of LIMITS.md: numbers from Least to Most are accepted. math.MinInt64 and
// math.MaxInt64 mean no bound.
type Bound struct {
	What        string
	Least, Most int64
}

// Bounds returns the rows of limits.
func Bounds(limits []Limit) (all []Bound) {
	for _, l := range limits {
		all = append(all, Bound{l.Name, l.Least, l.Most})
	}
	return all
}

// DocumentLimits checks that LIMITS.md, in the package's folder, has the limits that the caller has
// tried. With -write-limits it writes the file.
func DocumentLimits(t *testing.T, name string, bounds []Bound) {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b,
		"# Limits of %s\n\nEach row is tried by the tests of the package at its ends and one beyond. What is beyond is refused with "+
			"an error that names it.\n\n", name)
	b.WriteString("| What | From | To |\n|---|---:|---:|\n")
	for _, l := range bounds {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", l.What, number(l.Least, math.MinInt64), number(l.Most, math.MaxInt64))
	}
	if *writeLimits {
		if err := os.WriteFile("LIMITS.md", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("LIMITS.md"); err != nil || !bytes.Equal(got, b.Bytes()) {
		t.Errorf("LIMITS.md is not what the table of the tests says (%v): go test -run '^%s$' -write-limits", err, t.Name())
	}
}

// number formats a number with commas, or as "" if it means no bound.
func number(n, none int64) string {
	if n == none {
		return ""
	}
	sign, digits := "", strconv.FormatInt(n, 10)
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
