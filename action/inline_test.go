package action

import (
	"fmt"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestInlineSets: action rows of earlier builds, which contain all sets of labels, can be read, and
// their runs continue. They are rewritten in the current form.
func TestInlineSets(t *testing.T) {
	for _, n := range []int{1, 2, 5, maxSets} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := defaultSpec
			s.retainRuns = 3
			w, _ := plain(t, s)
			set := func(i int) []byte {
				if i == 0 {
					return nil
				}
				return []byte(labels(map[string]string{"n": fmt.Sprint(i)}))
			}
			invoke := func() {
				for i := range n {
					w.mustInvoke(protocol.Invoke{Labels: set(i), Priority: uint8(i % 3)})
					w.mustInvoke(protocol.Invoke{Labels: set(i), Priority: uint8(i % 2), ConcurrencyKey: fmt.Sprint(i % 4)})
				}
			}
			carryOut := func(i, want int) {
				t.Helper()
				session := w.open(group{string(set(i)), []string{"a"}})
				got := w.take(session, 100)
				if len(got) < want {
					t.Fatalf("%d runs of set %d, want %d", len(got), i, want)
				}
				for _, g := range got {
					if string(g.labels) != string(set(i)) && len(g.labels) > 0 {
						t.Fatalf("a run with labels %q for %q", g.labels, set(i))
					}
					w.end(session, end{ref: g.ref, attempt: 1, how: completed})
				}
			}
			invoke()
			carryOut(n-1, 2)
			if n == maxSets {
				w.r.Verify()
			}
			invoke()
			inline(w)
			q := runsQuery{namespace: "n", name: "a", before: 1 << 60, limit: 1, maxBytes: 1 << 20}
			if err := w.r.Query(t.Context(), 0, &q); err != nil || (q.items[0].Labels["n"] != "") != (n > 1) {
				t.Fatalf("listed: %v, %+v", err, q.items)
			}
			if found := w.r.Problems(0); len(found) > 0 {
				t.Fatalf("Verify of rows as they were: %q", found)
			}
			for i := range n { // workers with labels also take runs without labels
				carryOut(i, 2)
			}
			w.mustInvoke(protocol.Invoke{Labels: set(1)})
			carryOut(1, 1)
			if found := w.r.Problems(0); len(found) > 0 {
				t.Fatalf("Verify: %q", found)
			}
		})
	}
}

// inline writes the action's row as earlier builds did.
func inline(w *world) {
	w.t.Helper()
	var actions []machinetest.Row
	sets, names := make(map[byte]labelSet), labelsRow{}
	for _, row := range w.r.Rows(0) {
		switch k := row.Key; {
		case row.Machine != engine.MachineAction:
		case k[0] == rowAction:
			actions = append(actions, row)
		case k[0] == rowSet && len(k) == numberAt:
			names = must(decode(row.Value, (*labelsRow).code))
		case k[0] == rowSet:
			sets[k[numberAt]] = must(decode(row.Value, (*labelSet).code))
		default:
			continue
		}
		if row.Machine == engine.MachineAction {
			w.r.Tamper(0, machinetest.Row{Machine: row.Machine, Key: row.Key})
		}
	}
	for _, row := range actions {
		r := must(decode(row.Value, (*record).code))
		for i := range r.sets[1:] {
			r.sets[i+1] = sets[byte(i+1)]
			r.sets[i+1].labels = names.labels[i]
		}
		w.r.Tamper(0, machinetest.Row{Machine: row.Machine, Key: row.Key, Value: encode(nil, &r, codeOld)})
	}
	w.r.Restart()
}

// codeOld lays out a row of version 1.
func codeOld(r *record, c *codec.Coder) {
	v := byte(1)
	c.Byte(&v)
	c.Uvarint(&r.id)
	r.definition.code(c)
	for _, v := range [...]*int64{
		&r.pending, &r.running, &r.completed, &r.failed, &r.cancelled, &r.timedOut, &r.unconfirmed, &r.delayed, &r.kept, &r.took,
		&r.allowed,
	} {
		c.Varint(v)
	}
	c.Uvarint(&r.turn)
	c.Uvarint(&r.served)
	for _, v := range [...]*int64{&r.nextDelayed, &r.nextEnded, &r.nextKey, &r.timer} {
		c.Deadline(v)
	}
	c.Bool(&r.sweep)
	c.String(&r.sweepKey)
	c.Uvarint(&r.cancelFrom)
	codec.List(c, &r.sets, func(c *codec.Coder, s *labelSet) {
		c.String(&s.labels)
		s.codeQueues(c)
	})
	c.Bool(&r.mapped)
	for i := range r.sets {
		c.Varint(&r.sets[i].runs)
	}
	c.Deadline(&r.handover)
	c.Deadline(&r.nextExpiry)
}
