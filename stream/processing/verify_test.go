package processing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream/processing"
)

// newVerified returns a stage whose job has rows of all kinds, and the job's home.
func newVerified(t *testing.T) (*rig, engine.ShardID) {
	t.Helper()
	s := newSpread(t, 2)
	id := s.submit(keyedSums)
	sell := func() {
		for i := range int64(16) {
			s.sell("in", sale{fmt.Sprint("w", i), s.Now() + i, i})
		}
	}
	sell()
	s.settle()
	if _, err := s.jobs.Savepoints(id).Create(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.settle()
	sell()
	home, _ := processing.Lane(id)
	for n := range engine.ShardID(2) { // the output of one is read by none, and that of the other is in flight
		s.Deliver()
		door := &once{&disturbed{rig: s, shard: engine.ShardID(home) ^ n ^ 1, at: -2}}
		for _, duty := range s.Executor(door.shard).Duties(1, func() engine.LeadDoor { return door }) {
			_ = duty.Run(context.Background(), duty.Lead)
		}
	}
	return s, engine.ShardID(home)
}

// rowIn returns a row of a kind, and its shard, preferably the first one.
func (s *rig) rowIn(kind byte, first engine.ShardID) (shard engine.ShardID, row machinetest.Row) {
	s.t.Helper()
	for _, shard := range []engine.ShardID{first, first ^ 1} {
		for _, row := range s.Rows(shard) {
			if row.Machine == engine.MachineProcessing && row.Key[0] == kind {
				return shard, row
			}
		}
	}
	s.t.Fatalf("there is no row of kind %c", kind)
	return 0, row
}

// TestBrokenDefinition: a job with an unreadable definition is not reported as missing.
func TestBrokenDefinition(t *testing.T) {
	s := newRig(t, 1)
	id := s.submit(filtered)
	row := s.rowOf('d')
	row.Value = []byte{0xff}
	s.Tamper(0, row)
	if _, err := s.jobs.Get(context.Background(), id); err == nil || errors.Is(err, processing.ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
}

// TestVerifyReports damages one row at a time: Verify must report it.
func TestVerifyReports(t *testing.T) {
	type damaged struct {
		kind   byte
		damage func(row machinetest.Row) machinetest.Row
		want   string
	}
	all := make(map[string]damaged)
	for name, d := range processing.Damages {
		all[name] = damaged{d.Kind, func(row machinetest.Row) machinetest.Row {
			row.Value = d.Change(row.Value)
			return row
		}, d.Want}
	}
	for _, kind := range "jdtbhip" {
		all[fmt.Sprintf("garbage in %c", kind)] = damaged{byte(kind), func(row machinetest.Row) machinetest.Row {
			row.Value = []byte{0xff}
			return row
		}, fmt.Sprintf("%x", kind)}
	}
	for _, kind := range "ack" {
		all[fmt.Sprintf("garbage in %c", kind)] = damaged{byte(kind), func(row machinetest.Row) machinetest.Row {
			row.Value = []byte{0xff}
			return row
		}, fmt.Sprintf("%x", kind)}
	}
	for _, kind := range "jdtqbhilacpk" { // next to the row, so that nothing is lost
		all[fmt.Sprintf("a longer key of %c", kind)] = damaged{byte(kind), func(row machinetest.Row) machinetest.Row {
			row.Key = append(slices.Clone(row.Key), 1)
			return row
		}, "processing: "}
	}
	for kind, cut := range map[rune]int{'l': len("sums") + 1, 'a': 1, 'c': 1, 's': 20} {
		all[fmt.Sprintf("a short key of %c", kind)] = damaged{byte(kind), func(row machinetest.Row) machinetest.Row {
			row.Key = row.Key[:len(row.Key)-cut]
			return row
		}, fmt.Sprintf("processing: row %x", kind)}
	}
	for _, kind := range "jdtqbhilacsp" { // of a missing job
		all[fmt.Sprintf("%c of no job", kind)] = damaged{byte(kind), func(row machinetest.Row) machinetest.Row {
			row.Key = slices.Clone(row.Key)
			at := 3
			if kind == 'l' {
				at = len(row.Key) - 1
			}
			row.Key[at]++
			return row
		}, "processing: "}
	}
	for _, kind := range "jdtblapkhi" {
		all[fmt.Sprintf("%c is lost", kind)] = damaged{byte(kind), func(row machinetest.Row) machinetest.Row {
			row.Value = nil
			return row
		}, "processing: "}
	}
	for name, d := range all {
		t.Run(name, func(t *testing.T) {
			s, home := newVerified(t)
			shard, row := s.rowIn(d.kind, home)
			s.Tamper(shard, d.damage(row))
			if found := strings.Join(s.Problems(shard), "\n"); !strings.Contains(found, d.want) {
				t.Errorf("found %q, want %q", found, d.want)
			}
		})
	}
}

// TestDamages: the report of Verify for each damaged row, as listed in a script.
func TestDamages(t *testing.T) {
	machinetest.RunDamages(t, "testdata/damages", engine.MachineProcessing, processing.RowKinds, func(t *testing.T) *machinetest.Rig {
		s, _ := newVerified(t)
		return s.Rig
	})
}
