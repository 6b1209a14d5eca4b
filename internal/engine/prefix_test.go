package engine

import (
	"context"
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
	if value, ok, err := v.Get([]byte("k")); value != nil || ok || !errors.Is(err, ErrInvalid) {
		t.Errorf("a row beyond the limit is %q, %t, %v", value, ok, err)
	}
	for _, at := range []scan{{rows: MaxScanRows}, {bytes: MaxScanBytes}} {
		beyond := at
		beyond.rows, beyond.bytes = beyond.rows+beyond.rows/MaxScanRows, beyond.bytes+beyond.bytes/MaxScanBytes
		endless := beyond
		if endless.endless = true; at.exceeds() || !beyond.exceeds() || endless.exceeds() {
			t.Errorf("%+v: exceeds %t, one more %t, without a limit %t", at, at.exceeds(), beyond.exceeds(), endless.exceeds())
		}
	}
	for _, c := range []struct {
		rows, bytes int
		want        bool
	}{{fullScanRows - 1, fullScanBytes - 1, false}, {fullScanRows, 0, true}, {0, fullScanBytes, true}} {
		if v := (View{scan: scan{rows: c.rows, bytes: c.bytes}}); v.Full() != c.want {
			t.Errorf("a view with %d rows and %d bytes is full: %t", c.rows, c.bytes, !c.want)
		}
	}
	// Whether the caller still waits is checked every scanCheck rows.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	gone := View{scan: scan{ctx: ctx}}
	for row := 1; row <= scanCheck; row++ {
		if ok := gone.looksAt(); ok != (row < scanCheck) {
			t.Fatalf("row %d: %t, %v", row, ok, gone.scan.err)
		}
	}
	if all := (View{}); !all.looksAt() || all.scan.rows != 0 {
		t.Error("a view without a caller counts rows")
	}
}

// TestTopics: topics differ by machine, namespace and name.
func TestTopics(t *testing.T) {
	topics := map[Topic]bool{}
	for _, m := range []MachineID{1, 2} {
		for _, ns := range []string{"a", "ab", "abc"} {
			topics[TopicOf(m, ns, []byte("abc"[len(ns):]))] = true
		}
	}
	if len(topics) != 6 {
		t.Errorf("%d topics of 6 names", len(topics))
	}
}
