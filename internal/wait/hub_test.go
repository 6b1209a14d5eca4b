package wait

import (
	"math"
	"slices"
	"testing"
)

// TestWakeUpIsPassedOn: a notification of one waiter was lost when that waiter left at the same
// time.
func TestWakeUpIsPassedOn(t *testing.T) {
	h := NewHub()
	a, b := NewWaiter(0), NewWaiter(0)
	for _, w := range []*Waiter{a, b} {
		if err := h.Subscribe(w, 1); err != nil {
			t.Fatal(err)
		}
	}
	h.Notify(1, 1)
	h.Unsubscribe(a)
	select {
	case <-b.c:
	default:
		t.Error("the first waiter was woken and left; the second was not woken")
	}
}

// TestTooManyWaiters checks that one query more than MaxWaiters is refused, and that a query which
// waits already may subscribe to another topic.
func TestTooManyWaiters(t *testing.T) {
	h := NewHub()
	a, b := NewWaiter(0), NewWaiter(0)
	h.waiters.Store(MaxWaiters - 1)
	if err := h.Subscribe(a, 1); err != nil {
		t.Fatal(err)
	}
	if err := h.Subscribe(b, 1); err == nil {
		t.Error("Subscribe of one too many succeeded")
	}
	h.Unsubscribe(b)
	if err := h.Subscribe(a, 2); err != nil {
		t.Errorf("Subscribe to a second topic = %v", err)
	}
	h.Unsubscribe(a)
	if err := h.Subscribe(b, 1); err != nil {
		t.Errorf("Subscribe when there is room = %v", err)
	}
}

// awake returns the indexes of the waiters that have been woken, and receives their notifications.
func awake(waiters ...*Waiter) (names []int) {
	for i, w := range waiters {
		select {
		case <-w.c:
			names = append(names, i)
		default:
		}
	}
	return names
}

// TestTurns checks that waiters are woken in the order of the times since which they wait.
func TestTurns(t *testing.T) {
	h := NewHub()
	var waiters []*Waiter
	for _, since := range []int64{20, 10, 30, 10, 40, 25, 15} {
		w := NewWaiter(since)
		if err := h.Subscribe(w, 1); err != nil {
			t.Fatal(err)
		}
		waiters = append(waiters, w)
	}
	for _, want := range []int{1, 3, 6, 0, 5, 2, 4} {
		h.Notify(1, 1)
		if got := awake(waiters...); !slices.Equal(got, []int{want}) {
			t.Fatalf("woken: %d, want %d", got, want)
		}
		h.Unsubscribe(waiters[want])
	}
}

// TestBackground checks that waits of floe itself are woken by their topics and do not count.
func TestBackground(t *testing.T) {
	h := NewHub()
	a, b := NewWaiter(0), NewWaiter(0)
	a.Background, b.Background = true, true
	h.waiters.Store(MaxWaiters)
	h.parked.Store(MaxWaiters)
	for _, w := range []*Waiter{a, b} {
		for topic := range Topic(3) {
			if err := h.Subscribe(w, 1+topic); err != nil {
				t.Fatal(err)
			}
		}
	}
	if h.HasQueries() {
		t.Error("a background wait counts")
	}
	for topic := range Topic(3) {
		if h.Notify(1+topic, -1); !slices.Equal(awake(a, b), []int{0, 1}) {
			t.Errorf("topic %d does not wake both", 1+topic)
		}
	}
	h.Notify(4, -1)
	if got := awake(a, b); got != nil {
		t.Errorf("another topic has woken %d", got)
	}
	h.Unsubscribe(a)
	if got := h.backgroundTopics(); !slices.Equal(got, []Topic{1, 2, 3}) {
		t.Errorf("topics %d after one waiter has left", got)
	}
	for topic := range Topic(3) {
		if h.Notify(1+topic, -1); !slices.Equal(awake(a, b), []int{1}) {
			t.Errorf("topic %d does not wake the waiter that is left", 1+topic)
		}
	}
	h.Unsubscribe(b)
	if got := h.backgroundTopics(); len(got) > 0 || !h.idle(1) {
		t.Errorf("topics %d after both have left", got)
	}
}

// TestNotifyAll checks that all waiters of all topics are woken.
func TestNotifyAll(t *testing.T) {
	h := NewHub()
	var waiters []*Waiter
	for i := range 4 {
		w := NewWaiter(0)
		if err := h.Subscribe(w, Topic(1+i/2)); err != nil {
			t.Fatal(err)
		}
		waiters = append(waiters, w)
	}
	if h.NotifyAll(); !slices.Equal(awake(waiters...), []int{0, 1, 2, 3}) {
		t.Error("not all are awake")
	}
}

// TestRenotify checks that each offer wakes another waiter, once.
func TestRenotify(t *testing.T) {
	h := NewHub()
	a, b := NewWaiter(0), NewWaiter(0)
	for _, w := range []*Waiter{a, b} {
		if err := h.Subscribe(w, 1); err != nil {
			t.Fatal(err)
		}
	}
	h.Renotify(math.MaxInt)
	if got := awake(a, b); got != nil {
		t.Fatalf("woken without an offer: %d", got)
	}
	h.Offer(1)
	h.Unsubscribe(a)
	h.Renotify(math.MaxInt)
	if got := awake(a, b); !slices.Equal(got, []int{1}) {
		t.Errorf("woken after an offer: %d, want 1", got)
	}
	h.Renotify(math.MaxInt)
	if got := awake(a, b); got != nil {
		t.Errorf("woken again: %d", got)
	}
	var more []*Waiter
	for range 4 {
		w := NewWaiter(0)
		if err := h.Subscribe(w, 1); err != nil {
			t.Fatal(err)
		}
		more = append(more, w)
		h.Offer(1)
	}
	h.Renotify(1)
	h.Renotify(2)
	if got := awake(append(more, b)...); len(got) != 3 {
		t.Errorf("woken after one and two of four offers: %d", got)
	}
	h.Renotify(math.MaxInt)
	h.Renotify(math.MaxInt)
	if got := awake(append(more, b)...); len(got) != 1 || len(h.offers) != 0 {
		t.Errorf("woken after the last of four offers: %d, %d topics are left", got, len(h.offers))
	}
}

// TestWithin checks that NotifyWithin wakes so many waiters of each topic within a parent.
func TestWithin(t *testing.T) {
	h := NewHub()
	var waiters []*Waiter
	for _, topic := range []Topic{1, 1, 2} {
		w := NewWaiter(0)
		w.Parent = 9
		if err := h.Subscribe(w, topic); err != nil {
			t.Fatal(err)
		}
		waiters = append(waiters, w)
	}
	h.Notify(9, -1)
	if got := awake(waiters...); got != nil {
		t.Errorf("woken by a notification of the parent itself: %d", got)
	}
	h.NotifyWithin(9, 1)
	if got := awake(waiters...); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("woken within: %d, want the first of each topic", got)
	}
	for _, w := range waiters {
		h.Unsubscribe(w)
	}
	if len(h.within) > 0 || len(h.lines) > 0 {
		t.Errorf("left without waiters: %v, %v", h.within, h.lines)
	}
}
