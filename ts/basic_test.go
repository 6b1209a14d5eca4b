package ts_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/ts"
)

func TestWrite(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	write(t, s, point("a", 1000, 1.5), point("b", 1000, 2.5), point("a", 2000, 3))
	write(t, s, point("a", 2000, 4), point("c", 500, -1)) // a known series and a new one
	check(t, r, "cpu host=a; value 1000 1.5", "cpu host=a; value 2000 4", "cpu host=b; value 1000 2.5", "cpu host=c; value 500 -1")
	r.Restart()
	write(t, s, point("b", 3000, 7))
	check(t, r, "cpu host=a; value 1000 1.5", "cpu host=a; value 2000 4", "cpu host=b; value 1000 2.5", "cpu host=b; value 3000 7",
		"cpu host=c; value 500 -1")
	m, err := s.Get(t.Context(), "cpu")
	if err != nil || m.Series != 3 || m.Points != 6 || len(m.Fields) != 1 || m.Fields[0] != (ts.Field{Name: "value", Type: ts.Float}) ||
		!m.Oldest.Equal(at(500)) || !m.Newest.Equal(at(3000)) {
		t.Errorf("Measurement = %+v, %v", m, err)
	}
}

func TestWriteLine(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	const lines = `# a comment
cpu,host=a value=1.5,n=3i 1000000000000
cpu,host=a value= 1000000000000
mem,b=2,a=1 free=7,text="x",ok=t 1000000001000

cpu value=nan 1000000001000
mem,a=1,b=2 free=8 1000000002000
log,a=1 text="only" 1000000002000
`
	result, err := s.WriteLine(t.Context(), strings.NewReader(lines), ts.Milliseconds)
	if err != nil || result.Written != 3 || result.Refused != 3 || result.Strings != 1 {
		t.Errorf("WriteLine = %+v, %v, want 3 written, 3 refused", result, err)
	}
	for i, line := range []int{3, 6, 8} {
		if i >= len(result.Errors) || result.Errors[i].At != line {
			t.Errorf("errors are %v, want line %d at %d", result.Errors, line, i)
		}
	}
	check(t, r, "cpu host=a; n 0 3", "cpu host=a; value 0 1.5", "mem a=1;b=2; free 1000 7", "mem a=1;b=2; free 2000 8",
		"mem a=1;b=2; ok 1000 1")
	m, err := s.Get(t.Context(), "mem")
	if err != nil || m.Series != 1 {
		t.Errorf("Measurement = %+v, %v, want one series: tags may come in any order", m, err)
	}
}

// TestNoGarbageOfPoints: allocations for writing a known series do not grow with its points.
func TestNoGarbageOfPoints(t *testing.T) {
	s := storeOf(newRig(t, 1), "n")
	batch := func(steps int) string {
		var b strings.Builder
		for i := range steps {
			fmt.Fprintf(&b, "cpu,host=a value=%d.5 %d\n", i, 1_000_000_000_000+i)
		}
		return b.String()
	}
	allocs := func(text string) float64 {
		return testing.AllocsPerRun(5, func() { must(s.WriteLine(t.Context(), strings.NewReader(text), ts.Milliseconds)) })
	}
	few, many := batch(100), batch(5000)
	allocs(many)
	if a, b := allocs(few), allocs(many); b > a+200 {
		t.Errorf("%v allocations for 100 points and %v for 5,000", a, b)
	}
}
