package engine

import (
	"errors"
	"math"
	"slices"
	"testing"
)

// TestWakeUpIsPassedOn: a wake-up meant for one waiter was lost when that one gave up at the same moment.
func TestWakeUpIsPassedOn(t *testing.T) {
	h := newHub()
	a, b := &waiter{c: make(chan struct{}, 1)}, &waiter{c: make(chan struct{}, 1)}
	for _, w := range []*waiter{a, b} {
		if err := h.subscribe(w, 1); err != nil {
			t.Fatal(err)
		}
	}
	h.notify(1, 1)
	h.unsubscribe(a)
	select {
	case <-b.c:
	default:
		t.Error("the first waiter was woken and left; the second still sleeps")
	}
}

// TestTooManyWaiters checks that a query which would be one too many is refused, and that one which waits already may wait for more.
func TestTooManyWaiters(t *testing.T) {
	h := newHub()
	a, b := &waiter{c: make(chan struct{}, 1)}, &waiter{c: make(chan struct{}, 1)}
	h.count.Store(MaxWaiters - 1)
	if err := h.subscribe(a, 1); err != nil {
		t.Fatal(err)
	}
	if err := h.subscribe(b, 1); !errors.Is(err, ErrBusy) {
		t.Errorf("subscribe of one too many = %v, want ErrBusy", err)
	}
	h.unsubscribe(b)
	if err := h.subscribe(a, 2); err != nil {
		t.Errorf("subscribe to a second topic = %v", err)
	}
	h.unsubscribe(a)
	if err := h.subscribe(b, 1); err != nil {
		t.Errorf("subscribe when there is room = %v", err)
	}
}

// awake returns which of the waiters have been woken, and lets them sleep again.
func awake(waiters ...*waiter) (names []int) {
	for i, w := range waiters {
		select {
		case <-w.c:
			names = append(names, i)
		default:
		}
	}
	return names
}

// TestTurns checks that waiters are woken in the order in which they began to wait, whenever they came back.
func TestTurns(t *testing.T) {
	h := newHub()
	var waiters []*waiter
	for _, since := range []int64{20, 10, 30, 10} {
		w := &waiter{c: make(chan struct{}, 1), since: since}
		if err := h.subscribe(w, 1); err != nil {
			t.Fatal(err)
		}
		waiters = append(waiters, w)
	}
	for _, want := range []int{1, 3, 0, 2} {
		h.notify(1, 1)
		if got := awake(waiters...); !slices.Equal(got, []int{want}) {
			t.Fatalf("woken: %d, want %d", got, want)
		}
		h.unsubscribe(waiters[want])
	}
}

// TestRemind checks that somebody else is woken when the one who was told of something may be gone, but only once.
func TestRemind(t *testing.T) {
	h := newHub()
	a, b := &waiter{c: make(chan struct{}, 1)}, &waiter{c: make(chan struct{}, 1)}
	for _, w := range []*waiter{a, b} {
		if err := h.subscribe(w, 1); err != nil {
			t.Fatal(err)
		}
	}
	h.remind(math.MaxInt)
	if got := awake(a, b); got != nil {
		t.Fatalf("woken though nothing was claimed: %d", got)
	}
	h.claim(1)
	h.unsubscribe(a)
	h.remind(math.MaxInt)
	if got := awake(a, b); !slices.Equal(got, []int{1}) {
		t.Errorf("woken after a claim: %d, want 1", got)
	}
	h.remind(math.MaxInt)
	if got := awake(a, b); got != nil {
		t.Errorf("woken again: %d", got)
	}
	var more []*waiter
	for range 4 {
		w := &waiter{c: make(chan struct{}, 1)}
		if err := h.subscribe(w, 1); err != nil {
			t.Fatal(err)
		}
		more = append(more, w)
		h.claim(1)
	}
	h.remind(1)
	h.remind(2)
	if got := awake(append(more, b)...); len(got) != 3 {
		t.Errorf("woken after one and two of four claims: %d", got)
	}
	h.remind(math.MaxInt)
	h.remind(math.MaxInt)
	if got := awake(append(more, b)...); len(got) != 1 || len(h.claimed) != 0 {
		t.Errorf("woken after the last of four claims: %d, %d topics are left", got, len(h.claimed))
	}
}

// TestWithin checks that who notifies a topic reaches those within it, so many of each, as long as somebody waits for them.
func TestWithin(t *testing.T) {
	h := newHub()
	var waiters []*waiter
	for _, topic := range []Topic{1, 1, 2} {
		w := &waiter{c: make(chan struct{}, 1), parent: 9}
		if err := h.subscribe(w, topic); err != nil {
			t.Fatal(err)
		}
		waiters = append(waiters, w)
	}
	h.notify(9, -1)
	if got := awake(waiters...); got != nil {
		t.Errorf("woken by the topic around theirs: %d", got)
	}
	h.notifyWithin(9, 1)
	if got := awake(waiters...); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("woken within: %d, want the first of each topic", got)
	}
	for _, w := range waiters {
		h.unsubscribe(w)
	}
	if len(h.within) > 0 || len(h.topics) > 0 {
		t.Errorf("left when nobody waits: %v, %v", h.within, h.topics)
	}
}
