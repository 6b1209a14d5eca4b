package queue_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/queue"
)

// newFilledRig has queues with messages in every state, dead letters and dedup keys. One queue is
// deleted but not forgotten yet.
func newFilledRig(t *testing.T) *machinetest.Rig {
	t.Helper()
	r := newRig(t, 1)
	for _, op := range append(someOps(),
		queue.EnqueueOp("gone", nil, queue.DedupKey("g")), queue.DeleteOp("gone"),
		queue.EnqueueOp("q", []byte("second fresh")), queue.EnqueueOp("q", []byte("until"), queue.Delay(time.Hour)),
	) {
		if out := r.Entry(0, command(t, op))[0]; out.Err != nil {
			t.Fatal(out.Err)
		}
	}
	r.Verify()
	return r
}

// damaged is a rig for changing rows.
type damaged struct{ *machinetest.Rig }

// find returns the first row of the machine whose key has the prefix.
func (r damaged) find(prefix string) machinetest.Row {
	for _, row := range r.Rows(0) {
		if row.Machine == engine.MachineQueue && bytes.HasPrefix(row.Key, []byte(prefix)) {
			return row
		}
	}
	panic("there is no row " + prefix)
}

func (r damaged) set(k, value []byte) {
	r.Tamper(0, machinetest.Row{Machine: engine.MachineQueue, Key: k, Value: append([]byte{}, value...)})
}

// remove removes the first row of a kind.
func (r damaged) remove(prefix string) {
	r.Tamper(0, machinetest.Row{Machine: engine.MachineQueue, Key: r.find(prefix).Key})
}

// change changes the value of the first row of a kind.
func (r damaged) change(prefix string, f func(value []byte) []byte) {
	row := r.find(prefix)
	r.set(row.Key, f(slices.Clone(row.Value)))
}

// move changes the key of the first row of a kind.
func (r damaged) move(prefix string, f func(k []byte) []byte) {
	row := r.find(prefix)
	r.remove(prefix)
	r.set(f(slices.Clone(row.Key)), row.Value)
}

// timer sets a timer that is due at once.
func (r damaged) timer(token string) {
	k := append([]byte("t\xff\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00"), token...)
	r.Tamper(0, machinetest.Row{Key: k, Value: []byte{}})
}

// last changes the last byte of b.
func last(b []byte) []byte {
	b[len(b)-1] ^= 1
	return b
}

// TestVerifyReports damages rows; Verify must report each damage.
func TestVerifyReports(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(r damaged)
		want   string
	}{
		"unknown kind":          {func(r damaged) { r.set([]byte("z"), nil) }, "row 7a is of an unknown kind"},
		"unknown kind in front": {func(r damaged) { r.set([]byte("a"), nil) }, "row 61 is of an unknown kind"},
		"short":                 {func(r damaged) { r.set([]byte("m1"), nil) }, "too short"},
		"queue garbage":         {func(r damaged) { r.change("q", func(v []byte) []byte { return v[:3] }) }, "malformed"},
		"queue lost":            {func(r damaged) { r.remove("q") }, "which is no queue"},
		"queue renamed":         {func(r damaged) { r.move("q\x00\x00\x00\x00q", last) }, "has no timer at"},
		"message lost":          {func(r damaged) { r.remove("m") }, "its row counts"},
		"message garbage":       {func(r damaged) { r.change("m", func(v []byte) []byte { v[0] = 9; return v }) }, "version 9"},
		"message changed": {func(r damaged) { r.change("m", func(v []byte) []byte { return append(v, 'x') }) },
			"bytes: its row counts"},
		"message of nobody": {func(r damaged) { r.move("m", func(k []byte) []byte { k[1] = 9; return k }) }, "which is no queue"},
		"message of another seq": {func(r damaged) { r.move("m", func(k []byte) []byte { k[len(k)-1] = 200; return k }) },
			"the last message is"},
		"message elsewhere": {func(r damaged) { r.move("m", func(k []byte) []byte { k[9] = 0; return k }) },
			"does not have message 0-"},
		"message of no lane": {func(r damaged) { r.move("m", func(k []byte) []byte { k[9] = 1; return k }) },
			"that its row does not know"},
		"message of another kind": {func(r damaged) { r.move("n", func(k []byte) []byte { k[0] = 'm'; return k }) }, "flags 0x1"},
		"delivery told of twice": {func(r damaged) { k := r.find("l"); r.set(append([]byte("o"), k.Key[1:]...), k.Value) },
			"has 2 rows that tell of it"},
		"lease lost":          {func(r damaged) { r.remove("l") }, "leased: its row counts"},
		"lease garbage":       {func(r damaged) { r.change("l", func(v []byte) []byte { return v[:2] }) }, "lease row: malformed"},
		"lease of no message": {func(r damaged) { r.move("l", last) }, "rows of deliveries that are of no message"},
		"lease of another number": {func(r damaged) { r.change("l", func(v []byte) []byte { v[5]--; return v }) },
			"memory differs from the lease"},
		"lease of more attempts": {func(r damaged) { r.change("l", func(v []byte) []byte { v[2] = 9; return v }) }, "attempts at most"},
		"ready lost":             {func(r damaged) { r.remove("r") }, "is ready: false, delayed: false"},
		"ready twice": {func(r damaged) { k := r.find("d").Key; r.set(slices.Concat([]byte("r"), k[1:9], k[17:]), nil) },
			"is ready: true, delayed: true"},
		"ready with a value":     {func(r damaged) { r.change("r", func(v []byte) []byte { return []byte("x") }) }, "is before the mark"},
		"ready of no message":    {func(r damaged) { r.move("r", last) }, "is ready: false"},
		"delay lost":             {func(r damaged) { r.remove("d") }, "delayed: its row counts"},
		"delay moved":            {func(r damaged) { r.move("d", func(k []byte) []byte { k[9] = 0; return k }) }, "is before the mark"},
		"dead letter lost":       {func(r damaged) { r.remove("x") }, "dead: its row counts"},
		"dead letter garbage":    {func(r damaged) { r.change("x", func(v []byte) []byte { return v[:1] }) }, "dead letter row"},
		"dead letter moved":      {func(r damaged) { r.move("x", last) }, "dead letter 0: "},
		"death lost":             {func(r damaged) { r.remove("y") }, "is not in the index"},
		"death twice":            {func(r damaged) { r.set(last(r.find("y").Key), nil) }, "in the index by time"},
		"key lost":               {func(r damaged) { r.remove("k") }, "-1 more dedup keys than ends"},
		"key garbage":            {func(r damaged) { r.change("k", func(v []byte) []byte { return v[:1] }) }, "dedup row"},
		"end of a key lost":      {func(r damaged) { r.remove("j") }, "would never be forgotten"},
		"grave lost":             {func(r damaged) { r.remove("g") }, "which was not deleted"},
		"grave with a value":     {func(r damaged) { r.change("g", func([]byte) []byte { return []byte("x") }) }, "is no deleted queue"},
		"leases counted wrongly": {func(r damaged) { r.change("i", last) }, "messages are leased, row 69 counts"},
		"leases not counted":     {func(r damaged) { r.remove("i") }, "no row counts them"},
		"timer of nobody":        {func(r damaged) { r.timer("qnobody") }, `queue "nobody": has a timer`},
		"timer without meaning":  {func(r damaged) { r.timer("z") }, "timer with unknown token"},
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

// TestRequeueIntoEmptyQueue: an emptied queue has forgotten its priorities, and learns that of a
// dead letter again when it is requeued.
func TestRequeueIntoEmptyQueue(t *testing.T) {
	r := newRig(t, 1)
	for _, op := range []engine.Operation{queue.EnqueueOp("q", nil, queue.Priority(7)), queue.DequeueOp("q"),
		queue.NackOp("q", []queue.Receipt{"1-2"}, queue.ToDLQ()), queue.RequeueOp("q", 1)} {
		if out := r.Entry(0, command(t, op))[0]; out.Err != nil {
			t.Fatal(out.Err)
		}
	}
	r.Verify()
	if got, err := storeOf(r, "n").Messages("q").Get(t.Context(), 1); err != nil || got.State != queue.Ready {
		t.Errorf("Message = %+v, %v, want it ready", got, err)
	}
}
