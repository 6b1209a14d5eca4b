package wait

import (
	"fmt"
	"testing"
)

// TestPrefixesOfAllLengths checks that a change wakes the queries for all prefixes of its key, and
// that nothing is left when no query waits any longer.
func TestPrefixesOfAllLengths(t *testing.T) {
	h := NewHub()
	change := func(key string) { h.NotifyPrefixes(9, []byte(key), 2) }
	change("abc")
	var waiters []*Waiter
	for _, prefix := range []string{"abcd", "", "ab", "abc", "a", "ab", "b"} {
		w := NewWaiter(0)
		for range 2 {
			if _, err := h.SubscribePrefix(w, 9, []byte(prefix)); err != nil {
				t.Fatal(err)
			}
		}
		waiters = append(waiters, w)
	}
	for key, want := range map[string]string{"abc": "[1 2 3 4 5]", "": "[1]", "b": "[1 6]", "abcde": "[0 1 2 3 4 5]", "x": "[1]"} {
		change(key)
		if got := fmt.Sprint(awake(waiters...)); got != want {
			t.Errorf("a change of %q has woken %s, want %s", key, got, want)
		}
	}
	h.Unsubscribe(waiters[2]) // the other query for "ab" stays
	change("abc")
	if got := fmt.Sprint(awake(waiters...)); got != "[1 3 4 5]" {
		t.Errorf("woken after one query has left: %s", got)
	}
	if !h.HasPrefixes() {
		t.Error("no prefixes while queries wait for them")
	}
	for _, w := range waiters {
		h.Unsubscribe(w)
	}
	if len(h.lengths) > 0 || len(h.lines) > 0 || h.HasPrefixes() || h.Waiting() != 0 {
		t.Errorf("left without waiters: %d lengths, %d lines, %d prefixes", len(h.lengths), len(h.lines), h.prefixes.Load())
	}
}

// TestTooManyPrefixes: a query for a prefix counts towards MaxWaiters.
func TestTooManyPrefixes(t *testing.T) {
	h := NewHub()
	h.waiters.Store(MaxWaiters)
	if _, err := h.SubscribePrefix(NewWaiter(0), 9, []byte("a")); err == nil || h.HasPrefixes() {
		t.Errorf("SubscribePrefix of one too many = %v", err)
	}
}

// TestFirstChange checks that a query receives the first change since it subscribed, once.
func TestFirstChange(t *testing.T) {
	h := NewHub()
	w := NewWaiter(0)
	for _, want := range []uint64{0, 5, 0} {
		if got, err := h.SubscribePrefix(w, 9, []byte("a")); got != want || err != nil {
			t.Fatalf("SubscribePrefix = %d, %v, want %d", got, err, want)
		}
		if want == 0 {
			h.NotifyPrefixes(9, []byte("ab"), 5)
			h.NotifyPrefixes(9, []byte("ac"), 6)
		}
		if want == 5 {
			h.NotifyPrefixes(9, []byte("b"), 7)
		}
	}
}
