package engine

import (
	"errors"
	"fmt"
	"testing"
)

// TestChangesWakePrefixes: every change of a namespace used to wake all who wait for one. With 1,000 queries for prefixes of their own, one of 1,000 keys
// wakes one of them, and each hears which change it was.
func TestChangesWakePrefixes(t *testing.T) {
	h := newHub()
	x := &Executor{hub: h}
	wait := func(namespace, prefix string) (*View, *waiter) {
		v := &View{x: x, machine: MachineKV, now: func() int64 { return 0 }}
		if before, err := v.WaitOnPrefix(namespace, []byte(prefix)); before != 0 || err != nil {
			t.Fatalf("WaitOnPrefix: %d, %v", before, err)
		}
		return v, v.waiter
	}
	var views []*View
	var waiters []*waiter
	for i := range 1000 {
		v, w := wait("n", fmt.Sprintf("user/%04d/", i))
		views, waiters = append(views, v), append(waiters, w)
	}
	_, other := wait("m", "user/")
	wake := Waker{h, MachineKV}
	for i := range 1000 {
		wake.Changed(&Change{Name: "n", LSN: LSN(10 + i), Key: fmt.Appendf(nil, "user/%04d/name", i)})
		wake.Changed(&Change{Name: "n", LSN: 5000, Key: fmt.Appendf(nil, "user/%04d", i)})
		wake.Changed(&Change{Name: "n", LSN: 6000, Key: fmt.Appendf(nil, "user/%04d/", i)})
		if got := awake(waiters...); len(got) != 1 || got[0] != i {
			t.Fatalf("a change of %d has woken %v", i, got)
		}
		before, err := views[i].WaitOnPrefix("n", fmt.Appendf(nil, "user/%04d/", i))
		if want := LSN(10 + i); before != want || err != nil {
			t.Fatalf("woken by change %d, %v, want the first one, %d", before, err, want)
		}
	}
	if got := awake(other); len(got) > 0 {
		t.Error("a query for another namespace has been woken")
	}
}

// TestPrefixesOfAllLengths: whoever waits for a prefix of a key is woken, however long it is, and nothing is left when nobody waits any more.
func TestPrefixesOfAllLengths(t *testing.T) {
	h := newHub()
	x := &Executor{hub: h}
	wake := Waker{h, MachineKV}
	wake.Changed(&Change{Name: "n", LSN: 1, Key: []byte("abc")})
	var waiters []*waiter
	for _, prefix := range []string{"abcd", "", "ab", "abc", "a", "ab", "b"} {
		v := View{x: x, machine: MachineKV, now: func() int64 { return 0 }}
		for range 2 {
			if _, err := v.WaitOnPrefix("n", []byte(prefix)); err != nil {
				t.Fatal(err)
			}
		}
		waiters = append(waiters, v.waiter)
	}
	for key, want := range map[string]string{"abc": "[1 2 3 4 5]", "": "[1]", "b": "[1 6]", "abcde": "[0 1 2 3 4 5]", "x": "[1]"} {
		wake.Changed(&Change{Name: "n", LSN: 2, Key: []byte(key)})
		if got := fmt.Sprint(awake(waiters...)); got != want {
			t.Errorf("a change of %q has woken %s, want %s", key, got, want)
		}
	}
	h.unsubscribe(waiters[2]) // the other one for "ab" stays
	wake.Changed(&Change{Name: "n", LSN: 2, Key: []byte("abc")})
	if got := fmt.Sprint(awake(waiters...)); got != "[1 3 4 5]" {
		t.Errorf("after one has left %s are woken", got)
	}
	for _, w := range waiters {
		h.unsubscribe(w)
	}
	if len(h.lengths) > 0 || len(h.topics) > 0 || h.prefixes.Load() != 0 || h.count.Load() != 0 {
		t.Errorf("left when nobody waits: %d lengths, %d topics, %d prefixes", len(h.lengths), len(h.topics), h.prefixes.Load())
	}
}

// TestScanOfRowsEnds: a query that has no pages and looks at too many rows, small ones too, is refused.
func TestScanOfRowsEnds(t *testing.T) {
	v := View{x: &Executor{table: newTable(nil)}, scan: scan{ctx: t.Context(), rows: MaxScanRows - 1}}
	if !v.looksAt() || v.looksAt() || !errors.Is(v.scan.err, ErrInvalid) {
		t.Errorf("at the limit of rows: %v", v.scan.err)
	}
}
