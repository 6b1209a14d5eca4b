package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// megabyte is about the largest value of a node with default limits.
const megabyte = 1<<20 - 200

// sized returns the size of a case: small by default, and full, the original size, with -long.
func sized(small, full int) int {
	if *longFlag {
		return full
	}
	return small
}

// measureLarge is measure that also reports the peak memory of the process, where the system
// provides it.
func (n *costNode) measureLarge(what string, f func()) map[string]engine.Effort {
	n.t.Helper()
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // resets the peak
	before := resident()
	all := n.measure(what, f)
	n.t.Logf("%s: resident %s before, %s at most", what, before, resident())
	runtime.KeepAlive(n)
	return all
}

func resident() string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "unknown"
}

// checkEntries reports an entry that wrote more than one command may.
func checkEntries(t *testing.T, all map[string]engine.Effort) {
	t.Helper()
	if e := all["entry"]; e.Rows > engine.MaxCommandRows || e.Bytes > engine.MaxCommandBytes+fewBytes {
		t.Errorf("too much at once: %v", e)
	}
}

// fewBytes is how far a refused command's count may exceed the limit: the size of the write that
// reached it.
const fewBytes = 17 << 20

// usedUp appends records of a megabyte, and has one consumer read them on their last attempt.
func (n *costNode) usedUp(count int) {
	n.t.Helper()
	payload := bytes.Repeat([]byte("r"), megabyte)
	n.each(count, func(ctx context.Context, _ int) error {
		_, err := n.logs.Append(ctx, "jobs", stream.Message{Payload: payload})
		return err
	})
	for got := 0; got < count; {
		ds, err := n.logs.ReadGroup(n.t.Context(), "jobs", "g", "c", stream.Limit(1000), stream.MaxAttempts(1),
			stream.AckTimeout(time.Hour), stream.Backoff(0, 0))
		n.must(err)
		got += len(ds)
	}
}

// TestLeavingWithGigabytes: a consumer with 4,300 records of a megabyte, all on their last attempt,
// leaves a group or is lost. This used to write over 4 GiB in one command, and the node failed
// whenever it was opened.
func TestLeavingWithGigabytes(t *testing.T) {
	count := sized(24, 4300)
	for _, left := range []bool{true, false} {
		t.Run(fmt.Sprint("left=", left), func(t *testing.T) {
			n := openCostNode(t, 0)
			n.usedUp(count)
			all := n.measureLarge(fmt.Sprintf("%d records of a megabyte", count), func() {
				if left {
					n.must(n.logs.Leave(t.Context(), "jobs", "g", "c"))
				} else {
					n.clock.ahead.Add((5 * time.Hour).Milliseconds())
				}
			})
			checkEntries(t, all)
			st, err := n.logs.Groups("jobs").Get(t.Context(), "g")
			n.must(err)
			dead, err := n.logs.Get(t.Context(), "jobs.dlq")
			if left && (st.Pending() != count || !errors.Is(err, stream.ErrNotFound)) ||
				!left && (st.Pending() != 0 || dead.Records() != int64(count)) {
				t.Errorf("%d pending, %d dead letters, %v", st.Pending(), dead.Records(), err)
			}
			if fire := all["engine fire"]; fire.Bytes > 6<<20 {
				t.Errorf("too much at once: %v", fire)
			}
		})
	}
}

// TestLeasesOfMegabytesEndTogether: 600 leases of a megabyte used to write 2.2 GB in one command.
func TestLeasesOfMegabytesEndTogether(t *testing.T) {
	count := sized(24, 600)
	n := openCostNode(t, 0)
	n.must(n.queue.Configure(t.Context(), "q", queue.Settings{MaxAttempts: 1}))
	payload := bytes.Repeat([]byte("m"), megabyte)
	n.each(count, func(ctx context.Context, _ int) error {
		_, err := n.queue.Enqueue(ctx, "q", payload)
		return err
	})
	for got := 0; got < count; {
		ms, err := n.queue.Dequeue(t.Context(), "q", queue.Max(1000), queue.Lease(time.Hour))
		n.must(err)
		got += len(ms)
	}
	all := n.measureLarge(fmt.Sprintf("%d leases of a megabyte", count), n.leap(2*time.Hour))
	checkEntries(t, all)
	if fire := all["engine fire"]; fire.Bytes > 6<<20 {
		t.Errorf("too much at once: %v", fire)
	}
	if st, err := n.queue.Get(t.Context(), "q"); err != nil || st.Dead != int64(count) {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestDeletesBeyondTombstonesAtOnce: 60 concurrent transactions of 1,000 deletes each run in a
// namespace with the maximum number of tombstones. Eight used to take 12 s, and 60 never ended,
// because each delete searched for the oldest tombstone past all removed ones.
func TestDeletesBeyondTombstonesAtOnce(t *testing.T) {
	const tombstones, each = 100_000, 1000
	transactions := sized(8, 60)
	n := openCostNode(t, 0)
	txn := func(ctx context.Context, op func(key string) engine.Operation, from int) error {
		txn := engine.NewTxn(n.router, "default", DefaultMaxValue)
		for k := range each {
			txn.Do(op(fmt.Sprintf("key%07d", from+k)))
		}
		_, err := txn.Commit(ctx)
		return err
	}
	put := func(k string) engine.Operation { return kv.PutOp(k, []byte("v")) }
	del := func(k string) engine.Operation { return kv.DeleteOp(k) }
	n.each(tombstones/each, func(ctx context.Context, i int) error {
		if err := txn(ctx, put, i*each); err != nil {
			return err
		}
		return txn(ctx, del, i*each)
	})
	n.each(transactions, func(ctx context.Context, i int) error { return txn(ctx, put, tombstones+i*each) })
	all := n.measureLarge(fmt.Sprintf("%d transactions of %d deletes", transactions, each), func() {
		done := make(chan error, transactions)
		for i := range transactions {
			go func() { done <- txn(t.Context(), del, tombstones+i*each) }()
		}
		for range transactions {
			n.must(<-done)
		}
	})
	checkEntries(t, all)
	if e := all["engine transaction"]; e.Count < int64(transactions) || e.Looks > 12*each || e.Iters > 10 || e.Steps > 20*each {
		t.Errorf("more than a few looks and steps for each of %d deletes: %v", each, e)
	}
	q := engine.NamespaceQuery{Name: "default"}
	if err := n.host.Query(t.Context(), 0, &q); err != nil || q.Info.Counts.DeadKeys != tombstones || q.Info.Counts.Keys != 0 {
		t.Errorf("%+v, %v", q.Info.Counts, err)
	}
}

// refusedTxn checks that a transaction is refused for the size of its writes, before it has written
// more than allowed.
func (n *costNode) refusedTxn(what string, txn *engine.Txn) {
	n.t.Helper()
	var err error
	all := n.measureLarge(what, func() { _, err = txn.Commit(n.t.Context()) })
	var which *engine.TxnError
	if !errors.As(err, &which) || !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(engine.MaxCommandBytes)) {
		n.t.Errorf("%s: %v, want a refusal that names the limit", what, err)
	}
	checkEntries(n.t, all)
}

// TestLargeDeletesAreRefused: 275 deletes of 16 MiB each, in one transaction of a few KB, used to
// write over 4 GiB; 1,000 of a megabyte took 17 s.
func TestLargeDeletesAreRefused(t *testing.T) {
	for _, c := range []struct{ size, small, full int }{{16<<20 - 200, 8, 275}, {megabyte, 80, 1000}} {
		t.Run(fmt.Sprint(c.size>>20), func(t *testing.T) {
			count := sized(c.small, c.full)
			n := openCostNode(t, LargestMaxValue)
			value := bytes.Repeat([]byte("v"), c.size)
			n.each(count, func(ctx context.Context, i int) error {
				_, err := n.kv.Put(ctx, fmt.Sprint("key", i), value)
				return err
			})
			txn := engine.NewTxn(n.router, "default", LargestMaxValue)
			for i := range count {
				txn.Do(kv.DeleteOp(fmt.Sprint("key", i)))
			}
			n.refusedTxn(fmt.Sprintf("%d deletes of %d bytes", count, c.size), txn)
			n.each(count, func(ctx context.Context, i int) error {
				_, err := n.kv.Get(ctx, fmt.Sprint("key", i))
				return err
			})
		})
	}
}

// TestManyChangesOfALargeDocumentAreRefused: 1,000 changes of one document of a megabyte used to
// take 22 s and 2.6 GB.
func TestManyChangesOfALargeDocumentAreRefused(t *testing.T) {
	const changes = 1000
	n := openCostNode(t, 0)
	doc := fmt.Appendf(nil, `{"s":"%s"}`, bytes.Repeat([]byte("d"), 1<<20-100))
	_, err := n.kv.Put(t.Context(), "doc", doc)
	n.must(err)
	txn := engine.NewTxn(n.router, "default", DefaultMaxValue)
	for i := range changes {
		txn.Do(kv.JSONSetOp("doc", "n", fmt.Append(nil, i)))
	}
	n.refusedTxn(fmt.Sprintf("%d changes of a document of %d bytes", changes, len(doc)), txn)
	if e, err := n.kv.Get(t.Context(), "doc"); err != nil || !bytes.Equal(e.Value, doc) {
		t.Errorf("the document has %d bytes, %v", len(e.Value), err)
	}
}
