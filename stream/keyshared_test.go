package stream_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// leave removes the consumer from its group.
func (c consumer) leave() {
	c.t.Helper()
	if err := c.s.Leave(c.t.Context(), c.stream, c.group, c.name); err != nil {
		c.t.Errorf("Leave of %s: %v", c.name, err)
	}
}

// replayed checks that replicas which drop their caches after each entry, or never, reach the same
// state.
func replayed(r *machinetest.Rig) {
	r.Replay(func() int { return 1 }, func() bool { return true })
	r.Replay(func() int { return 100 }, func() bool { return false })
}

// TestKeySharedNoAckFreesKeys: a redelivered record that needed no acknowledgement used to leave
// its key busy, in memory only. A replica restarted since then continued with the key, while one
// that kept running held it back forever.
func TestKeySharedNoAckFreesKeys(t *testing.T) {
	r, s := newStore(t)
	keyed(t, s, "x:1")
	a, _ := consumers(t, s, stream.KeyShared, stream.Backoff(0, 0))
	a.nack(a.want("x:1"))
	a.want("x:1#2", stream.NoAck())
	r.Verify()
	keyed(t, s, "x:2")
	a.ack(1, a.want("x:2")...)
	replayed(r)
}

// TestKeySharedNoAckWithHeldRecords: records held behind a failed record are delivered after it,
// with nothing to acknowledge.
func TestKeySharedNoAckWithHeldRecords(t *testing.T) {
	r, s := newStore(t)
	keyed(t, s, "x:1")
	a, _ := consumers(t, s, stream.KeyShared, stream.Backoff(0, 0))
	a.nack(a.want("x:1"), stream.Delay(5*time.Second))
	keyed(t, s, "x:2", "x:3")
	a.want("")
	r.Advance(5000)
	a.want("x:1#2", stream.NoAck(), stream.Limit(1))
	a.want("x:2 x:3", stream.NoAck())
	replayed(r)
}

// TestKeySharedNoAckTakesAllByAndBy: held records of a key beyond the limit of a read used to wait
// for an acknowledgement that never came.
func TestKeySharedNoAckTakesAllByAndBy(t *testing.T) {
	r, s := newStore(t)
	create(t, s, "log")
	a, b := consumers(t, s, stream.KeyShared, stream.Backoff(0, 0))
	a.want("")
	b.want("")
	var texts []string
	for i := range 5 {
		texts = append(texts, fmt.Sprintf("x:%d", i), fmt.Sprintf("y:%d", i))
	}
	keyed(t, s, texts...)
	// The consumer that reads first leaves the other's records held.
	got := make(map[string]string)
	for range 10 {
		for _, c := range []consumer{a, b} {
			ds, _ := c.read(stream.NoAck(), stream.Limit(2))
			for _, d := range ds {
				got[d.Key] += " " + string(d.Payload)
			}
			r.Verify()
		}
	}
	// The same again, held by a busy key.
	keyed(t, s, "z:0")
	first, owner := a.read()
	holder := a
	if owner == "" {
		holder = b
		first, _ = b.read()
	}
	keyed(t, s, "z:1", "z:2", "z:3", "z:4", "z:5")
	holder.want("")
	holder.ack(1, first...)
	for range 3 {
		ds, _ := holder.read(stream.NoAck(), stream.Limit(2))
		for _, d := range ds {
			got[d.Key] += " " + string(d.Payload)
		}
	}
	for k, want := range map[string]string{"x": " x:0 x:1 x:2 x:3 x:4", "y": " y:0 y:1 y:2 y:3 y:4", "z": " z:1 z:2 z:3 z:4 z:5"} {
		if got[k] != want {
			t.Errorf("of key %s%s were delivered, want%s", k, got[k], want)
		}
	}
	replayed(r)
}

// TestKeySharedKeepsOrderWhateverTheDelay: a new record used to be delivered together with an
// earlier one of its key, while a record between them still waited for redelivery.
func TestKeySharedKeepsOrderWhateverTheDelay(t *testing.T) {
	for _, how := range []string{"new", "held", "leave", "silence"} {
		t.Run(how, func(t *testing.T) {
			r, s := newStore(t)
			keyed(t, s, "x:1", "x:2")
			a, b := consumers(t, s, stream.KeyShared, stream.Backoff(0, 0), stream.MaxAttempts(0))
			ds := a.want("x:1 x:2")
			a.nack(ds[1:], stream.Delay(10*time.Minute))
			reader := a
			switch how {
			case "new", "held":
				a.nack(ds[:1], stream.Delay(time.Second))
				if how == "held" {
					keyed(t, s, "x:3")
					a.want("")
				}
				r.Advance(1000)
			case "leave":
				a.leave()
				reader = b
			case "silence":
				r.Advance(100_000)
				reader = b
			}
			if how != "held" {
				keyed(t, s, "x:3")
			}
			ds = reader.want("x:1#2")
			reader.want("")
			reader.ack(1, ds...)
			reader.want("")
			r.Restart()
			reader.want("")
			r.Advance(600_000)
			reader.ack(1, reader.want("x:2#2")...)
			reader.ack(1, reader.want("x:3")...)
			replayed(r)
		})
	}
}

// TestKeySharedOrderWithNoAck: records that need no acknowledgement do not overtake earlier records
// of their key either, whichever consumer holds those.
func TestKeySharedOrderWithNoAck(t *testing.T) {
	r, s := newStore(t)
	keyed(t, s, "x:1", "x:2", "x:3")
	a, _ := consumers(t, s, stream.KeyShared, stream.Backoff(0, 0))
	ds := a.want("x:1 x:2 x:3")
	a.nack(ds[1:2], stream.Delay(10*time.Second)) // x:3 is returned with it
	keyed(t, s, "x:4", "y:1")
	a.want("y:1", stream.NoAck())
	a.ack(1, ds[0])
	a.want("", stream.NoAck())
	r.Advance(10_000)
	a.want("x:2#2 x:3#2 x:4", stream.NoAck())
	if info, err := s.Groups("log").Get(t.Context(), "g"); err != nil || info.Pending() != 0 || info.Lag() != 0 {
		t.Errorf("Group = %+v, %v", info, err)
	}
	replayed(r)
}

// TestReadsPassOverTheRecordsOfOthers: each read used to scan all records of other consumers that
// wait for redelivery.
func TestReadsPassOverTheRecordsOfOthers(t *testing.T) {
	const pending = 6000
	r, s, a, b := manyPending(t, stream.KeyShared, pending)
	a.want("")
	b.want("") // it owns half of the keys from now on
	for _, p := range pendingOf(t, s) {
		if n, err := s.Nack(t.Context(), "log", "g", []stream.Ref{p.Ref}, stream.Delay(0)); n != 1 || err != nil {
			t.Fatalf("Nack = %d, %v", n, err)
		}
	}
	for {
		if ds, _ := b.read(stream.Limit(1000)); len(ds) == 0 {
			break
		}
	}
	r.Executor(0).ForgetEfforts()
	a.read(stream.Limit(1))
	for range 10 {
		keyed(t, s, "new:1")
		a.read(stream.Limit(1))
		b.read(stream.Limit(1))
	}
	for _, e := range r.Efforts() {
		if e.Command == "stream read group" && e.Rows > 50 {
			t.Errorf("a read of one record, with thousands of another consumer waiting, took too much: %v", e)
		}
	}
}

// pendingOf returns the pending records of group g of the log.
func pendingOf(t *testing.T, s *stream.Store) (all []stream.PendingRecord) {
	t.Helper()
	for p, err := range s.Pending("log", "g").All(t.Context(), stream.Limit(1000)) {
		must(t, err)
		all = append(all, p)
	}
	return all
}

// TestLagOfTrimmedHeldRecords: records trimmed while held behind a record of their key are not lag.
// They used to count until the key was free, so an alert for the group did not clear.
func TestLagOfTrimmedHeldRecords(t *testing.T) {
	for _, n := range []int{5, 1500} { // with many records not each one is visited
		_, s := newStore(t)
		texts := []string{"x:0"}
		for i := range n {
			texts = append(texts, fmt.Sprintf("x:%d", i+1))
		}
		keyed(t, s, texts...)
		a, b := consumers(t, s, stream.KeyShared, stream.Backoff(0, 0))
		a.want("x:0", stream.Limit(1))
		b.want("") // reads the others, which are held
		lag := func() int64 {
			t.Helper()
			info, err := s.Groups("log").Get(t.Context(), "g")
			if err != nil {
				t.Fatal(err)
			}
			return info.Lag()
		}
		if got := lag(); got != int64(n) {
			t.Errorf("%d records wait, the lag is %d", n, got)
		}
		for _, left := range []int64{2, 0} {
			if _, err := s.Trim(t.Context(), "log", stream.MaxLen(left)); err != nil {
				t.Fatal(err)
			}
			if got := lag(); got != left {
				t.Errorf("%d of %d held records are left, the lag is %d", left, n, got)
			}
		}
	}
}
