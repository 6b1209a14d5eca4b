package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/floedb/floe/internal/wait"
)

// TestChangesWakePrefixes: every change of a namespace used to wake all queries waiting for one.
// With 1,000 queries, each for its own prefix, a change wakes one of them, which receives the
// number of the change.
func TestChangesWakePrefixes(t *testing.T) {
	h := wait.NewHub()
	x := &Executor{hub: h}
	subscribe := func(namespace, prefix string) (*View, *wait.Waiter) {
		v := &View{x: x, machine: MachineKV, now: func() int64 { return 0 }}
		if before, err := v.WaitOnPrefix(namespace, []byte(prefix)); before != 0 || err != nil {
			t.Fatalf("WaitOnPrefix: %d, %v", before, err)
		}
		return v, v.waiter
	}
	var views []*View
	var waiters []*wait.Waiter
	for i := range 1000 {
		v, w := subscribe("n", fmt.Sprintf("user/%04d/", i))
		views, waiters = append(views, v), append(waiters, w)
	}
	_, other := subscribe("m", "user/")
	wake := Waker{h, MachineKV}
	for i := range 1000 {
		wake.Changed(&Change{Name: "n", LSN: LSN(10 + i), Key: fmt.Appendf(nil, "user/%04d/name", i)})
		wake.Changed(&Change{Name: "n", LSN: 5000, Key: fmt.Appendf(nil, "user/%04d", i)})
		wake.Changed(&Change{Name: "n", LSN: 6000, Key: fmt.Appendf(nil, "user/%04d/", i)})
		if got := woken(waiters...); len(got) != 1 || got[0] != i {
			t.Fatalf("a change of %d has woken %v", i, got)
		}
		before, err := views[i].WaitOnPrefix("n", fmt.Appendf(nil, "user/%04d/", i))
		if want := LSN(10 + i); before != want || err != nil {
			t.Fatalf("woken by change %d, %v, want the first one, %d", before, err, want)
		}
	}
	if got := woken(other); len(got) > 0 {
		t.Error("a query for another namespace has been woken")
	}
}

// woken returns the indexes of the waiters that have been woken, and receives their notifications.
func woken(waiters ...*wait.Waiter) (indexes []int) {
	for i, w := range waiters {
		select {
		case <-w.Woken():
			indexes = append(indexes, i)
		default:
		}
	}
	return indexes
}

// TestScanOfRowsEnds: a query without pages that visits too many rows is refused, even if the rows
// are small.
func TestScanOfRowsEnds(t *testing.T) {
	v := View{x: &Executor{table: newTable(nil)}, scan: scan{ctx: t.Context(), rows: MaxScanRows - 1}}
	if !v.looksAt() || v.looksAt() || !errors.Is(v.scan.err, ErrInvalid) {
		t.Errorf("at the limit of rows: %v", v.scan.err)
	}
}
