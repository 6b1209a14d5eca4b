package ts_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/ts"
)

// TestHints: a query without results names what does not exist, with the nearest existing name. A
// query whose names all exist has no hints.
func TestHints(t *testing.T) {
	for _, shards := range []int{1, 3} {
		t.Run(fmt.Sprint("shards=", shards), func(t *testing.T) {
			r := newRig(t, shards)
			if shards > 1 {
				spread(t, r, "n")
			}
			s := storeOf(r, "n")
			for i := range 5 {
				write(t, s, ts.Point{
					Measurement: "requests", Tags: map[string]string{"host": fmt.Sprintf("web-%d", i), "region": "eu"},
					Fields: map[string]float64{"value": 1, "bytes": 2}, Time: at(0),
				})
			}
			write(t, s, point("a", 0, 1))
			must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{Downsample: []ts.Downsample{{Every: time.Minute}}}))
			for query, want := range map[string][]string{
				"reqests":                       {`unknown measurement "reqests" (did you mean "requests"?)`},
				"REQUESTS | sum()":              {`unknown measurement "REQUESTS" (did you mean "requests"?)`},
				"temperature":                   {`unknown measurement "temperature"`},
				"floql":                         {`unknown measurement "floql"`},
				"cpuu:1m:max":                   {`unknown measurement "cpuu" (did you mean "cpu"?)`},
				"cpu:2m:max":                    {`measurement "cpu" has no rollup "2m" (did you mean "1m"?)`},
				"cpu:1m:max":                    nil,
				"requests{hsot=web-1}":          {`measurement "requests" has no tag "hsot" (did you mean "host"?)`},
				"requests{hsot=~web-*} | avg()": {`measurement "requests" has no tag "hsot" (did you mean "host"?)`},
				"requests{host=web1}":           {`tag "host" of "requests" has no value "web1" (did you mean "web-1"?)`},
				"requests{host=database-7}":     {`tag "host" of "requests" has no value "database-7"`},
				"requests{host=~db-*}":          nil,
				"requests{hsot!=web-1}[1s]":     nil, // as if the filter were not there
				"requests{hsot=\"\"}[1s]":       nil,
				"requests[1s]":                  nil, // all exist, but have no points of the last second
				"requests{host=web-1}[1s]":      nil,
				"requests | field(valeu)":       {`measurement "requests" has no field "valeu" (did you mean "value"?)`},
				"requests{host=web1, regoin=eu} | field(byte)": {
					`measurement "requests" has no field "byte" (did you mean "bytes"?)`,
					`tag "host" of "requests" has no value "web1" (did you mean "web-1"?)`,
					`measurement "requests" has no tag "regoin" (did you mean "region"?)`,
				},
				"requests | sum() | join(/, (reqests | sum()))":  {`unknown measurement "reqests" (did you mean "requests"?)`},
				"reqests | sum() | join(/, (reqests | count()))": {`unknown measurement "reqests" (did you mean "requests"?)`},
				`requests{host=~"web.*"}`: {
					`host=~"web.*" selects no series: patterns are globs, not regular expressions, so that . is a dot and * is any characters`,
				},
			} {
				result, err := s.Query(t.Context(), query)
				if err != nil || len(result.Series) > 0 || !slices.Equal(result.Hints, want) {
					t.Errorf("%s: %v, %q, want %q", query, err, result.Hints, want)
				}
			}
			result, err := s.Query(t.Context(), fmt.Sprintf("requests{host=~web-*}[%d..%d]", at(0).UnixMilli(), at(1).UnixMilli()))
			if err != nil || len(result.Series) != 10 || result.Hints != nil {
				t.Errorf("a query with results: %v, %d series, hints %q", err, len(result.Series), result.Hints)
			}
			if result, err = storeOf(r, "nowhere").Query(t.Context(), "cpu"); err != nil || len(result.Hints) != 1 {
				t.Errorf("a namespace that does not exist: %v, %q", err, result.Hints)
			}
		})
	}
}

// TestHintsAreBounded: with more names than a page, measurements that begin like the unknown one
// are suggested, and a value beyond those listed still counts as existing.
func TestHintsAreBounded(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	var batch []ts.Point
	for i := range engine.MaxPageItems + 1 {
		batch = append(batch, ts.Point{
			Measurement: fmt.Sprintf("a%05d", i), Fields: map[string]float64{"value": 1}, Time: at(0),
		}, point(fmt.Sprintf("h%05d", i), 0, 1))
	}
	write(t, s, append(batch, ts.Point{Measurement: "requests", Fields: map[string]float64{"value": 1}, Time: at(0)})...)
	for query, want := range map[string]string{
		"reqests":          `[unknown measurement "reqests" (did you mean "requests"?)]`,
		"equests":          `[unknown measurement "equests"]`,
		"cpu{host=h01000}": `[]`,
		"cpu{host=x00999}": `[tag "host" of "cpu" has no value "x00999" (did you mean "h00999"?)]`,
	} {
		if result, err := s.Query(t.Context(), query); err != nil || fmt.Sprint(result.Hints) != want {
			t.Errorf("%s: %v, %s, want %s", query, err, result.Hints, want)
		}
	}
}
