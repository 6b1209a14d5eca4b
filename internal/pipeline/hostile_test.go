package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestHostileRecords: a record that becomes very much more is an error record, whatever it is made of, and takes 64 MiB at most meanwhile; a batch of such is
// refused as a whole, to be taken in parts.
func TestHostileRecords(t *testing.T) {
	const most = 64 << 20
	numbers := "[" + strings.TrimSuffix(strings.Repeat("1,", 100_000), ",") + "]"
	nested := strings.Repeat("[", 90) + strings.TrimSuffix(strings.Repeat("1,", 400_000), ",") + strings.Repeat("]", 90)
	lists := "[" + strings.TrimSuffix(strings.Repeat("[1,1,1,1,1,1,1,1,1,1],", 40_000), ",") + "]"
	pad := strings.Repeat("x", 4000)
	doubling := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString("  - { type: map, a: $, b: $ }\n")
		}
		return b.String()
	}
	for _, test := range []struct{ name, operators, value string }{
		{"elements that grow", "  - { type: flatmap, array_field: a }\n  - { type: map, of: $, pad: " + pad + " }\n", `{"a":` + numbers + `}`},
		{"many elements", "  - { type: flatmap, array_field: a }\n", `{"a":[` + strings.TrimSuffix(strings.Repeat("1,", 500_000), ",") + `]}`},
		{"lists of lists", "  - { type: flatmap, array_field: a }\n  - { type: map, l: $ }\n  - { type: flatmap, array_field: l }\n", `{"a":` + lists + `}`},
		{"deep lists", strings.Repeat("  - { type: flatmap, array_field: $ }\n", 91), nested},
		{"doubles", doubling(60), `{"a":1}`},
		{"doubles of much", doubling(10), `{"a":` + numbers + `}`},
	} {
		src := "name: x\nsources: [{name: in, stream: {name: in, partitions: all}}]\nsinks: [{name: out, stream: out}]\noperators:\n" + test.operators
		job, problems := Parse([]byte(src))
		if job == nil {
			t.Fatalf("%s: %v", test.name, problems)
		}
		p, err := Compile(job, numbersOf(job))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 50} {
			batch := make([]Record, n)
			for i := range batch {
				batch[i] = Record{Key: []byte("k"), Value: []byte(test.value)}
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			tick := p.NewTick(newMemory(), nil, Limits{}, MinTime)
			err := tick.Add(context.Background(), batch)
			runtime.ReadMemStats(&after)
			used := after.TotalAlloc - before.TotalAlloc
			what := fmt.Sprintf("%s, %d records: %d MiB, %d failures, %d writes, %v", test.name, n, used>>20, len(tick.Failures()), len(tick.Writes()), err)
			switch {
			case used > most: // ever allocated, garbage included
				t.Errorf("%s: want less", what)
			case n == 1 && (err != nil || len(tick.Failures()) != 1 || len(tick.Writes()) != 0 || !strings.Contains(tick.Failures()[0].Reason, "larger than")):
				t.Errorf("%s: want a failure", what)
			case n == 1 && string(tick.Failures()[0].Record.Value) != test.value:
				t.Errorf("%s: the record is not as it was", what)
			case n > 1 && !errors.Is(err, ErrBatch):
				t.Errorf("%s: want ErrBatch", what)
			}
		}
	}
}
