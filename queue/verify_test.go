package queue_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
)

// newFilledRig has queues with messages in every state, dead letters, dedup keys, and one that was deleted and is not forgotten yet.
func newFilledRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, 1)
	for _, op := range append(someOps(),
		queue.EnqueueOp("gone", nil, queue.DedupKey("g")), queue.DeleteOp("gone"),
		queue.EnqueueOp("q", []byte("second fresh")), queue.EnqueueOp("q", []byte("until"), queue.Delay(time.Hour)),
	) {
		if out := r.entry(0, command(t, op))[0]; out.Err != nil {
			t.Fatal(out.Err)
		}
	}
	r.verify()
	return r
}

const queueRow = "\x00\x00\x03"

// find returns a row of the machine by how its key begins.
func (r *rig) find(prefix string) (k, value []byte) {
	r.t.Helper()
	for _, row := range rows(r.t, r.db, 0) {
		if row.machine == byte(engine.MachineQueue) && bytes.HasPrefix(row.key, []byte(prefix)) {
			return append([]byte(queueRow), row.key...), row.value
		}
	}
	r.t.Fatalf("there is no row %q", prefix)
	return nil, nil
}

func (r *rig) set(k, value []byte) {
	r.t.Helper()
	must(0, r.db.Set(k, value, pebble.NoSync))
}

// remove removes the first row of a kind.
func (r *rig) remove(prefix string) {
	r.t.Helper()
	k, _ := r.find(prefix)
	must(0, r.db.Delete(k, pebble.NoSync))
}

// change changes the value of the first row of a kind.
func (r *rig) change(prefix string, f func(value []byte) []byte) {
	r.t.Helper()
	k, value := r.find(prefix)
	r.set(k, f(slices.Clone(value)))
}

// move changes the key of the first row of a kind.
func (r *rig) move(prefix string, f func(k []byte) []byte) {
	r.t.Helper()
	k, value := r.find(prefix)
	r.remove(prefix)
	r.set(f(slices.Clone(k)), value)
}

// last changes the last byte.
func last(b []byte) []byte {
	b[len(b)-1] ^= 1
	return b
}

// TestVerifyReports damages rows: Verify has to say so.
func TestVerifyReports(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(r *rig)
		want   string
	}{
		"unknown kind":            {func(r *rig) { r.set([]byte(queueRow+"z"), nil) }, "row 7a is of no known kind"},
		"unknown kind in front":   {func(r *rig) { r.set([]byte(queueRow+"a"), nil) }, "row 61 is of no known kind"},
		"short":                   {func(r *rig) { r.set([]byte(queueRow+"m1"), nil) }, "too short"},
		"queue garbage":           {func(r *rig) { r.change("q", func(v []byte) []byte { return v[:3] }) }, "malformed"},
		"queue lost":              {func(r *rig) { r.remove("q") }, "which is no queue"},
		"queue renamed":           {func(r *rig) { r.move("q\x00\x00\x00\x00q", last) }, "has no timer at"},
		"message lost":            {func(r *rig) { r.remove("m") }, "its row counts"},
		"message garbage":         {func(r *rig) { r.change("m", func(v []byte) []byte { v[0] = 9; return v }) }, "version 9"},
		"message changed":         {func(r *rig) { r.change("m", func(v []byte) []byte { return append(v, 'x') }) }, "bytes: its row counts"},
		"message of nobody":       {func(r *rig) { r.move("m", func(k []byte) []byte { k[4] = 9; return k }) }, "which is no queue"},
		"message of another seq":  {func(r *rig) { r.move("m", func(k []byte) []byte { k[len(k)-1] = 200; return k }) }, "the last message is"},
		"message elsewhere":       {func(r *rig) { r.move("m", func(k []byte) []byte { k[12] = 0; return k }) }, "before the mark"},
		"lease lost":              {func(r *rig) { r.remove("l") }, "leased: its row counts"},
		"lease garbage":           {func(r *rig) { r.change("l", func(v []byte) []byte { return v[:2] }) }, "lease row: malformed"},
		"lease of no message":     {func(r *rig) { r.move("l", last) }, "is of no message"},
		"lease of another number": {func(r *rig) { r.change("l", func(v []byte) []byte { v[5]--; return v }) }, "memory differs from the lease"},
		"lease of more attempts":  {func(r *rig) { r.change("l", func(v []byte) []byte { v[2] = 9; return v }) }, "attempts at most"},
		"ready lost":              {func(r *rig) { r.remove("r") }, "is ready: false, delayed: false"},
		"ready twice":             {func(r *rig) { k, _ := r.find("d"); r.set(slices.Concat([]byte(queueRow+"r"), k[4:12], k[20:]), nil) }, "is ready: true, delayed: true"},
		"ready with a value":      {func(r *rig) { r.change("r", func(v []byte) []byte { return []byte("x") }) }, "is before the mark"},
		"ready of no message":     {func(r *rig) { r.move("r", last) }, "is ready: false"},
		"delay lost":              {func(r *rig) { r.remove("d") }, "delayed: its row counts"},
		"delay moved":             {func(r *rig) { r.move("d", func(k []byte) []byte { k[12] = 0; return k }) }, "is before the mark"},
		"dead letter lost":        {func(r *rig) { r.remove("x") }, "dead: its row counts"},
		"dead letter garbage":     {func(r *rig) { r.change("x", func(v []byte) []byte { return v[:1] }) }, "dead letter row"},
		"dead letter moved":       {func(r *rig) { r.move("x", last) }, "dead letter 0: "},
		"death lost":              {func(r *rig) { r.remove("y") }, "is not in the index"},
		"death twice":             {func(r *rig) { k, _ := r.find("y"); r.set(last(k), nil) }, "in the index by time"},
		"key lost":                {func(r *rig) { r.remove("k") }, "-1 more dedup keys than ends"},
		"key garbage":             {func(r *rig) { r.change("k", func(v []byte) []byte { return v[:1] }) }, "dedup row"},
		"end of a key lost":       {func(r *rig) { r.remove("j") }, "would never be forgotten"},
		"grave lost":              {func(r *rig) { r.remove("g") }, "which was not deleted"},
		"grave with a value":      {func(r *rig) { r.change("g", func([]byte) []byte { return []byte("x") }) }, "is no deleted queue"},
		"leases counted wrongly":  {func(r *rig) { r.change("i", last) }, "messages are leased, row 69 counts"},
		"leases not counted":      {func(r *rig) { r.remove("i") }, "no row counts them"},
		"timer of nobody": {func(r *rig) {
			r.set([]byte("\x00\x00\x00t\xff\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00qnobody"), nil)
		}, `queue "nobody": has a timer`},
		"timer without meaning": {func(r *rig) {
			r.set([]byte("\x00\x00\x00t\xff\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00z"), nil)
		}, "which means nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFilledRig(t)
			c.damage(r)
			if said := strings.Join(r.problems(), "\n"); !strings.Contains(said, c.want) {
				t.Errorf("Verify reports\n%s\nwant %q", said, c.want)
			}
		})
	}
}
