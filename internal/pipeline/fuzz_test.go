package pipeline

import (
	"bytes"
	"context"
	"errors"
	"testing"
)

// FuzzParse: no definition makes Parse panic; what it accepts compiles, and takes any record, which
// is written, dropped or told as a failure.
func FuzzParse(f *testing.F) {
	for _, operators := range []string{
		`{type: filter, condition: "json:$.n>1"}`, `{type: set, x: n + 1}`, `{type: flatmap, array_field: a}`,
		`{name: d, type: dedup, key: $.id, ttl_ms: 5}`,
		`{type: keyby, key_expression: $.k}, {name: w, type: aggregate, function: sum, field: n, window: sliding, window_size: 2, slide: 1, allowed_lateness: 1}`,
		`{name: s, type: aggregate, function: distinct, field: n, window: session, gap: 1}`,
		`{name: m, type: aggregate, aggregates: [{name: a, function: sum, field: n}, {name: b, function: last, field: m}], window: sliding, window_size: 70, slide: 1}`,
		`{name: c, type: aggregate, function: percentile, field: n, window: count, window_size: 2}`,
		`{type: classify, rules: [{condition: "n > 1", tag: big}], default_tag: small}`, `{type: map, fields: {a: $.n, b: 7}}`,
	} {
		f.Add([]byte("name: x\nsources: [{stream: {name: in, partitions: all}, event_time: $.t}]\noperators: ["+operators+
			"]\nsinks: [{stream: out}, {kv: {key: $.id}}]\n"), []byte(`{"id":"a","k":"b","n":2,"t":5,"a":[1,{"b":2}]}`))
	}
	f.Fuzz(func(t *testing.T, definition, value []byte) {
		job, problems := Parse(definition)
		if job == nil {
			if len(problems) == 0 {
				t.Error("a definition is none, and nothing is wrong with it")
			}
			return
		}
		p, err := Compile(job, numbersOf(job))
		if err != nil {
			t.Fatalf("a definition that is accepted does not compile: %v", err)
		}
		lookup := func(_ context.Context, _ string, keys []string) ([][]byte, error) {
			return make([][]byte, len(keys)), nil
		}
		tick := p.NewTick(newMemory(), lookup, Limits{}, MinTime)
		rec := Record{Key: []byte("k"), Value: value, EventTime: 5, Origin: Origin{ID: ID{Millis: 5}}}
		if err := tick.Add(t.Context(), []Record{rec, rec}); err != nil && !errors.Is(err, ErrBatch) {
			t.Fatal(err)
		} else if err != nil {
			return
		}
		if next, err := tick.Advance(t.Context(), EndOfTime, nil); err != nil || next != nil {
			t.Errorf("Advance without limits stops at %x, %v", next, err)
		}
	})
}

// FuzzPosition: a position is what it was made of; nothing else is one that makes anything panic.
func FuzzPosition(f *testing.F) {
	f.Add(position{[]uint16{1, 7}, 9, 1000, []byte("rest")}.append(nil))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := readPosition(b)
		if err != nil {
			return
		}
		again, err := readPosition(p.append(nil))
		if err != nil || again.number != p.number || again.watermark != p.watermark || !bytes.Equal(again.rest, p.rest) ||
			len(again.done) != len(p.done) {
			t.Errorf("%+v becomes %+v, %v", p, again, err)
		}
		if _, err := Renumber(b, map[uint16]uint16{1: 2}); err != nil {
			t.Error(err)
		}
	})
}
