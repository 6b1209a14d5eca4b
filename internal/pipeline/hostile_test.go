package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestHostileRecords: a record that becomes very much more is an error record, whatever it is made
// of, and takes 64 MiB at most meanwhile; a batch of such is refused as a whole, to be taken in
// parts.
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
		{"elements that grow", "  - { type: flatmap, array_field: a }\n  - { type: map, of: $, pad: " + pad + " }\n",
			`{"a":` + numbers + `}`},
		{"many elements", "  - { type: flatmap, array_field: a }\n", `{"a":[` + strings.TrimSuffix(strings.Repeat("1,", 500_000), ",") +
			`]}`},
		{"lists of lists", "  - { type: flatmap, array_field: a }\n  - { type: map, l: $ }\n  - { type: flatmap, array_field: l }\n",
			`{"a":` + lists + `}`},
		{"deep lists", strings.Repeat("  - { type: flatmap, array_field: $ }\n", 91), nested},
		{"doubles", doubling(60), `{"a":1}`},
		{"doubles of much", doubling(10), `{"a":` + numbers + `}`},
	} {
		src := "name: x\nsources: [{name: in, stream: {name: in, partitions: all}}]\nsinks: [{name: out, stream: out}]\noperators:\n" +
			test.operators
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
			what := fmt.Sprintf("%s, %d records: %d MiB, %d failures, %d writes, %v", test.name, n, used>>20, len(tick.Failures()),
				len(tick.Writes()), err)
			switch {
			case used > most: // ever allocated, garbage included
				t.Errorf("%s: want less", what)
			case n == 1 && (err != nil || len(tick.Failures()) != 1 || len(tick.Writes()) != 0 ||
				!strings.Contains(tick.Failures()[0].Reason, "larger than")):
				t.Errorf("%s: want a failure", what)
			case n == 1 && string(tick.Failures()[0].Record.Value) != test.value:
				t.Errorf("%s: the record is not as it was", what)
			case n > 1 && !errors.Is(err, ErrBatch):
				t.Errorf("%s: want ErrBatch", what)
			}
		}
	}
}

// TestRepeatedRecords: a definition has room for thousands of parts, each of which may be as large
// as the record. What they make is bounded while it is made: once a record of 1 MiB took 31 GiB and
// a minute.
func TestRepeatedRecords(t *testing.T) {
	const most = 128 << 20
	value := []byte(`{"s":"` + strings.Repeat("x", 1<<20-10) + `"}`)
	members := func(format string) (all string) {
		for i := range 1000 {
			all += fmt.Sprintf("f%d: %s, ", i, format)
		}
		return strings.TrimSuffix(all, ", ")
	}
	parts := `"` + strings.Repeat("${$.s}", 3000) + `"`
	for _, test := range []struct{ name, operator, sink, say string }{
		{"members of a map", "type: map, fields: {" + members("$.s") + "}", "stream: out", "larger than 16 MiB"},
		{"elements of a list", "type: map, fields: {a: [" + strings.TrimSuffix(strings.Repeat("$.s, ", 1000), ", ") + "]}", "stream: out",
			"larger than 16 MiB"},
		{"expressions of a map", "type: map, fields: {" + members(`"expr: s"`) + "}", "stream: out", "larger than 16 MiB"},
		{"members that are set", "type: set, fields: {" + members("s") + "}", "stream: out", "larger than 16 MiB"},
		{"parts of a text", "type: map, fields: {a: " + parts + "}", "stream: out", "larger than 16 MiB"},
		{"parts of a key", "type: keyby, key_expression: " + parts, "stream: out", "longer than 65536 bytes"},
		{"parts of a key of dedup", "type: dedup, key: " + parts, "stream: out", "longer than 65536 bytes"},
		{"parts of a key of a lookup", "type: kv_lookup, lookup_key: " + parts + ", on_missing: pass", "stream: out",
			"longer than 65536 bytes"},
		{"parts of a key of a message", "type: passthrough", "stream: {name: out, key: " + parts + "}", "longer than 65536 bytes"},
		{"parts of a key in KV", "type: passthrough", "kv: {key: " + parts + "}", "longer than 65536 bytes"},
	} {
		job, problems := Parse([]byte("name: x\nsources: [{stream: in}]\noperators: [{name: a, " + test.operator + "}]\nsinks: [{" +
			test.sink + "}]\n"))
		if job == nil {
			t.Fatalf("%s: %v", test.name, problems)
		}
		p, err := Compile(job, numbersOf(job))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		tick := p.NewTick(newMemory(), nil, Limits{}, MinTime)
		err = tick.Add(context.Background(), []Record{{Value: value}})
		runtime.ReadMemStats(&after)
		if f := tick.Failures(); err != nil || len(f) != 1 || len(tick.Writes()) != 0 || !strings.Contains(f[0].Reason, test.say) ||
			string(f[0].Record.Value) != string(value) {
			t.Errorf("%s: %d writes, %d failures, %v", test.name, len(tick.Writes()), len(f), err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > most { // garbage included
			t.Errorf("%s: %d MiB", test.name, used>>20)
		}
	}
}

// TestLargeLookups: a batch that finds more in KV than a tick may hold is taken in parts, before
// all has been read; a lookup that filters keeps nothing of it.
func TestLargeLookups(t *testing.T) {
	for mode, want := range map[string]error{"enrich": ErrBatch, "filter": nil} {
		p, state := jobOf(t, "{name: l, type: kv_lookup, lookup_key: $.t, mode: "+mode+"}")
		var values []string
		for i := range 1000 {
			values = append(values, fmt.Sprintf(`{"t":%d}`, i))
		}
		asked := 0
		tick := p.NewTick(state, func(_ context.Context, _ string, keys []string) ([][]byte, error) {
			found := make([][]byte, len(keys))
			for i := range found {
				found[i] = make([]byte, 1<<20)
				asked++
			}
			return found, nil
		}, Limits{}, MinTime)
		if err := tick.Add(context.Background(), valued(t, p, values...)); !errors.Is(err, want) || want != nil && asked > 100 ||
			want == nil && len(tick.Writes()) != 1000 {
			t.Errorf("%s: %v, %d values, %d writes", mode, err, asked, len(tick.Writes()))
		}
	}
}

// TestDearRules: rules and fields whose evaluation is within its bound, a thousand times, are a
// failure of the record beyond that of all together. A classifier passes the record on; a batch of
// several is refused as a whole, to be taken in parts.
func TestDearRules(t *testing.T) {
	rules := func(condition string) string {
		var b strings.Builder
		for i := range maxRules {
			fmt.Fprintf(&b, "{condition: '"+condition+"', tag: t%d}, ", i, i%30)
		}
		return "{name: x, type: classify, rules: [" + b.String() + "], default_tag: other}"
	}
	fields := func(value string) string {
		var b strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&b, "f%d: '"+value+"', ", i, i)
		}
		return "{name: x, type: map, fields: {" + b.String() + "}}"
	}
	large := strings.Repeat("a", 1<<20)
	for _, test := range []struct {
		name, operators string
		value           string
		writes          int
	}{
		{"patterns", rules(`expr: $.s matches "(a|b)*c%d"`), `{"s":"` + large[:60<<10] + `"}`, 1},
		{"comparisons", rules("json: t=x%d"), `{"s":"` + large + `"}`, 1},
		{"expressions", fields(`expr: len($.s) + %d`), `{"s":"` + large + `"}`, 0},
		{"paths", fields("$.f%d"), `{"s":"` + large + `"}`, 0},
		{"texts", fields("x${$.f%d}"), `{"s":"` + large + `"}`, 0},
	} {
		p, _ := jobOf(t, test.operators)
		for _, n := range []int{1, 20} {
			tick := p.NewTick(newMemory(), nil, Limits{}, MinTime)
			rec := Record{Value: []byte(test.value)}
			err := tick.Add(context.Background(), slices.Repeat([]Record{rec}, n))
			if n > 1 {
				if !errors.Is(err, ErrBatch) {
					t.Errorf("%s: %d records: %v, want ErrBatch", test.name, n, err)
				}
				continue
			}
			failures := tick.Failures()
			if err != nil || len(failures) != 1 || tick.Counts()[0].Errors != 1 || len(tick.Writes()) != test.writes ||
				!strings.Contains(failures[0].Reason, "takes too long") || !tick.Tired() {
				t.Errorf("%s: %v, %d failures, %d writes, tired %t", test.name, err, len(failures), len(tick.Writes()), tick.Tired())
			}
		}
	}
}
