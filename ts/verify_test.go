package ts_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// newFilledRig has blocks, pages of a measurement and of a rollup, deleted series, and dirty
// buckets.
func newFilledRig(t *testing.T) *machinetest.Rig {
	t.Helper()
	r := newRig(t, 1)
	s := storeOf(r, "n")
	must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: 72 * time.Hour, Downsample: []ts.Downsample{{Every: time.Minute}}}))
	must(0, s.SetSeriesLimit(t.Context(), 100))
	write(t, s, point("a", -2*hour, 1), point("b", -2*hour, 2), point("b", 0, 3))
	r.Advance(10 * minute)
	write(t, s, point("a", 9*minute, 4), point("c", 14*minute, 5))
	r.Advance(6 * minute)
	must(s.Series("cpu").Delete(t.Context(), map[string]string{"host": "b"}))
	write(t, s, point("a", 15*minute, 6))
	r.Verify()
	return r
}

// damaged is a rig for changing rows.
type damaged struct{ *machinetest.Rig }

// find returns the first row of a kind.
func (r damaged) find(kind string) machinetest.Row {
	for _, row := range r.Rows(0) {
		if row.Machine == engine.MachineTS && bytes.HasPrefix(row.Key, []byte(kind)) {
			return row
		}
	}
	panic("there is no row " + kind)
}

func (r damaged) set(k, value []byte) {
	r.Tamper(0, machinetest.Row{Machine: engine.MachineTS, Key: k, Value: append([]byte{}, value...)})
}

func (r damaged) remove(kind string) {
	r.Tamper(0, machinetest.Row{Machine: engine.MachineTS, Key: r.find(kind).Key})
}

// change changes the value of the first row of a kind.
func (r damaged) change(kind string, f func(value []byte) []byte) {
	row := r.find(kind)
	r.set(row.Key, f(slices.Clone(row.Value)))
}

// move changes the key of the first row of a kind.
func (r damaged) move(kind string, f func(k []byte) []byte) {
	row := r.find(kind)
	r.remove(kind)
	r.set(f(slices.Clone(row.Key)), row.Value)
}

// erasure returns the key of a deletion of a range.
func (r damaged) erasure() []byte {
	return slices.Concat([]byte("e"), r.find("s").Key[1:9], []byte{0, 0, 0, 0, 0, 0, 0, 5})
}

func last(b []byte) []byte {
	b[len(b)-1] ^= 1
	return b
}

func cut(b []byte) []byte { return b[:len(b)-1] }

// TestVerifyReports damages rows; Verify must report each damage.
func TestVerifyReports(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(r damaged)
		want   string
	}{
		"unknown kind":        {func(r damaged) { r.set([]byte("z"), nil) }, "is of an unknown kind"},
		"short":               {func(r damaged) { r.set([]byte("g1"), nil) }, "too short"},
		"measurement lost":    {func(r damaged) { r.remove("m") }, "which is not a measurement"},
		"measurement garbage": {func(r damaged) { r.change("m", cut) }, "malformed"},
		"name lost":           {func(r damaged) { r.remove("n") }, "name or content row is missing"},
		"name of another":     {func(r damaged) { r.change("n", last) }, "name or content row is missing"},
		"content garbage":     {func(r damaged) { r.change("c", cut) }, "content row is missing"},
		"policy garbage":      {func(r damaged) { r.change("y", cut) }, "malformed"},
		"limit garbage":       {func(r damaged) { r.change("l", func(b []byte) []byte { return append(b, 0) }) }, "malformed"},
		"series lost":         {func(r damaged) { r.remove("s") }, "series: its row counts"},
		"series changed":      {func(r damaged) { r.change("s", last) }, "is not found by"},
		"hash lost":           {func(r damaged) { r.remove("h") }, "is not found by its tags"},
		"hash more":           {func(r damaged) { r.set(last(r.find("h").Key), []byte{0}) }, "hashes of"},
		"posting lost":        {func(r damaged) { r.remove("p") }, "is not found by tag"},
		"posting more":        {func(r damaged) { r.move("p", last) }, "posting"},
		"value lost":          {func(r damaged) { r.remove("v") }, "its row counts"},
		"value count":         {func(r damaged) { r.change("v", func([]byte) []byte { return []byte{9} }) }, "its row counts 9"},
		"tag count":           {func(r damaged) { r.change("d", last) }, "its row counts"},
		"fingerprint": {func(r damaged) { r.change("f", func(b []byte) []byte { b[0] ^= 1; return b }) },
			"a different fingerprint"},
		"fingerprints lost": {func(r damaged) { r.remove("f") }, "fingerprints of"},
		"block lost":        {func(r damaged) { r.remove("b") }, "bytes of blocks, its row says"},
		"block garbage":     {func(r damaged) { r.change("b", cut) }, "block"},
		"block of sealed":   {func(r damaged) { r.move("b", func(k []byte) []byte { k[16] = 1; return k }) }, "is not between"},
		"partition lost":    {func(r damaged) { r.remove("q") }, "has no partition"},
		"chunk lost":        {func(r damaged) { r.remove("g") }, "its row counts"},
		"chunk garbage":     {func(r damaged) { r.change("g", cut) }, "chunk"},
		"chunk moved":       {func(r damaged) { r.move("g", last) }, "begins with"},
		"chunk of another":  {func(r damaged) { r.move("g", func(k []byte) []byte { k[18] ^= 1; return k }) }, "partition"},
		"dirty garbage":     {func(r damaged) { r.change("x", cut) }, "dirty buckets"},
		"dirty of no tier":  {func(r damaged) { r.move("x", func(k []byte) []byte { k[10] = 7; return k }) }, "dirty buckets"},
		"deletion lost":     {func(r damaged) { r.remove("t") }, "deleted series, its row counts"},
		"retiring": {func(r damaged) { r.set(slices.Concat([]byte("r"), r.find("t").Key[1:]), []byte{1}) },
			"being retired"},
		"unsealed":                {func(r damaged) { r.change("u", last) }, "unsealed bytes, their row counts"},
		"series with a short key": {func(r damaged) { r.move("s", cut) }, "is too short"},
		"series garbage":          {func(r damaged) { r.change("s", cut) }, "series 0 of 3"},
		"fingerprints garbage":    {func(r damaged) { r.change("f", cut) }, "ts fingerprints row"},
		"deleted and there": {func(r damaged) { r.set(slices.Concat([]byte("t"), r.find("s").Key[1:]), []byte{1}) },
			"is deleted but exists"},
		"deletion of a range":      {func(r damaged) { r.set(r.erasure(), []byte{1, 0, 0}) }, "1 deletions of ranges, its row counts 0"},
		"deletion of a range lost": {func(r damaged) { r.set(r.erasure(), []byte{9}) }, "deletion of a range 65"},
		"unsealed garbage": {func(r damaged) { r.change("u", func([]byte) []byte { return []byte{0x80} }) },
			"row of unsealed bytes"},
		"partition garbage": {func(r damaged) { r.change("q", cut) }, "ts partition row"},
		"chunk with a long key": {func(r damaged) { r.move("g", func(k []byte) []byte { return append(k, 0) }) },
			"its key has 43 bytes"},
		"chunk of another field": {func(r damaged) { r.move("g", func(k []byte) []byte { k[20] = 7; return k }) }, "field 7 of 1"},
		"chunk without its field": {func(r damaged) { r.move("g", func(k []byte) []byte { k[20] = 7; return k }) },
			"has no points of its field"},
		"chunk of another generation": {func(r damaged) { r.move("g", func(k []byte) []byte { k[29] ^= 1; return k }) },
			"chunks of generations that are not in its row"},
		"chunk of no tier": {func(r damaged) {
			tier := func(k []byte) []byte { k[10] = 7; return k }
			r.move("q", tier)
			r.move("g", tier)
		}, "has no tier"},
		"timer lost": {func(r damaged) {
			for _, row := range r.Rows(0) {
				if row.Machine == 0 && row.Key[0] == 't' && engine.MachineID(row.Key[9]) == engine.MachineTS {
					r.Tamper(0, machinetest.Row{Key: row.Key})
				}
			}
		}, "has no timer at"},
		"timer without reason": {func(r damaged) {
			r.Tamper(0, machinetest.Row{Key: []byte("t\xff\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00z"), Value: []byte{}})
		}, "timer with unknown token"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFilledRig(t)
			c.damage(damaged{r})
			if said := strings.Join(r.Problems(0), "\n"); !strings.Contains(said, c.want) {
				t.Errorf("Verify reports\n%s\nwant %q", said, c.want)
			}
		})
	}
}
