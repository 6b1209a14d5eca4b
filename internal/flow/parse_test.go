package flow

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestBad runs testdata/bad.txt: definitions, and exactly what is said about them.
func TestBad(t *testing.T) {
	cases := 0
	datadriven.RunTest(t, "testdata/bad.txt", func(t *testing.T, d *datadriven.TestData) string {
		cases++
		got, problems := Parse([]byte(d.Input))
		var out strings.Builder
		bad := false
		for _, p := range problems {
			bad = bad || p.Severity == Error
			fmt.Fprintf(&out, "%d %v %s: %s\n", p.Line, p.Severity, p.Code, p.Message)
		}
		if (got == nil) != bad || len(problems) == 0 {
			t.Errorf("%s: definition %v with %v", d.Pos, got, problems)
		}
		checkProblems(t, []byte(d.Input), problems)
		return out.String()
	})
	if cases < 60 {
		t.Errorf("%d bad definitions, want 60", cases)
	}
}
