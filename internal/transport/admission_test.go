package transport

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
	"github.com/floedb/floe/kv"
)

// TestManyWaits: waiting calls of a client may exceed the limit of other calls, and those are still
// served. Beyond 4,096 they used to get ErrBusy.
func TestManyWaits(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	r.well(c)
	const waiting = maxInFlight + 500
	ctx, cancel := context.WithCancel(t.Context())
	var waiters sync.WaitGroup
	for range waiting {
		waiters.Go(func() {
			if _, err := engine.StoreOf[kv.Store](engine.NewRouter(c), "well", 0).Wait(ctx, "never"); !errors.Is(err, context.Canceled) {
				t.Errorf("wait: %v", err)
			}
		})
	}
	await(t, "waiters", func() bool {
		s, err := r.host.Stats()
		return err != nil || s.Waiting == waiting || t.Failed()
	})
	r.well(c)
	cancel()
	waiters.Wait()
	r.well(c)
	await(t, "the end of the calls", func() bool {
		r.peer.tally.mu.Lock()
		defer r.peer.tally.mu.Unlock()
		return r.peer.tally.lasts == 0 && r.peer.tally.underWay == 0
	})
}

// TestLargeReads: large reads are bounded until their answers are queued for sending; small reads
// proceed.
func TestLargeReads(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	store := engine.StoreOf[kv.Store](engine.NewRouter(c), "well", 0)
	if _, err := store.Put(t.Context(), "large", make([]byte, 50<<10)); err != nil {
		t.Fatal(err)
	}
	r.well(c)
	page := func(ctx context.Context, door engine.Door) error {
		_, err := engine.StoreOf[kv.Store](engine.NewRouter(door), "well", 0).Page(ctx, kv.Prefix("large"))
		return err
	}
	r.peer.readers = engine.NewReaders(2 * engine.LargeRead)
	var ends []func()
	for range 2 {
		ctx, end := r.peer.readers.Begin(t.Context())
		if err := page(ctx, r.host); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	late, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := engine.StoreOf[kv.Store](engine.NewRouter(c), "well", 0).Page(late, kv.Prefix("large")); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("one large read too many: %v, want that it waits", err)
	}
	r.well(c)
	ends[0]()
	for range 3 { // each releases its slot
		if err := page(t.Context(), c); err != nil {
			t.Errorf("with a slot: %v", err)
		}
	}
	ends[1]()
}

// TestTally: waiting calls and other calls have separate limits, which errors name.
func TestTally(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		tally := newTally("this node", 2, 3)
		n := map[bool]int{false: 2, true: 3}[lasting]
		for range n {
			if err := tally.add(lasting, 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := tally.add(lasting, 1); !errors.Is(err, engine.ErrBusy) {
			t.Errorf("one call too many, lasting %t: %v, want ErrBusy", lasting, err)
		} else {
			t.Log(err)
		}
		if err := tally.add(!lasting, 1); err != nil {
			t.Errorf("a call of the other kind: %v", err)
		}
		tally.remove(lasting, 1)
		if err := tally.add(lasting, 1); err != nil {
			t.Errorf("a call after one has ended: %v", err)
		}
	}
}

// TestTallyLines: a call without a slot waits briefly, the namespaces of waiting calls take turns,
// and no call waits in too long a line.
func TestTallyLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, flood, other = 8, 1, 2
		tally := newTally("this node", places, 0)
		tally.alone = true // a namespace may use all slots, so that only the turn counts
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for tally.add(false, flood) == nil {
		}
		if tally.underWay != places {
			t.Fatalf("%d of %d places are taken", tally.underWay, places)
		}
		began, got, gone := time.Now(), make(chan int, 100), make(chan error, 100)
		take := func(ctx context.Context, namespace int) {
			go func() {
				if err := tally.take(ctx, false, uint64(namespace)); err != nil {
					gone <- err
				} else {
					got <- namespace
				}
			}()
			synctest.Wait()
		}
		for range waitersOf*places - 2 {
			take(t.Context(), flood)
		}
		take(ctx, other)
		take(t.Context(), other)
		take(t.Context(), other)
		if err := <-gone; !errors.Is(err, engine.ErrBusy) || time.Since(began) > 0 {
			t.Errorf("behind %d calls: %v after %v, want ErrBusy at once", waitersOf*places, err, time.Since(began))
		}
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("a call that was cancelled: %v", err)
		}
		for _, want := range []int{flood, other, flood} {
			tally.remove(false, flood)
			if n := <-got; n != want {
				t.Errorf("a call of namespace %d is next, want %d", n, want)
			}
		}
		<-time.After(placeTime)
		synctest.Wait()
		if left := waitersOf*places - 4; len(gone) != left || len(got) > 0 || tally.inLines > 0 || tally.lines.Len() > 0 {
			t.Errorf("%d calls have gone after %v, want %d; %d wait", len(gone), placeTime, left, tally.inLines)
		}
		if err := <-gone; !errors.Is(err, engine.ErrBusy) {
			t.Errorf("a call that has waited: %v", err)
		}
	})
}

// TestTallyOfNamespaces: however many calls a namespace has, there is room for those of another,
// also on a node's stream. On a client's stream one namespace may use all slots.
func TestTallyOfNamespaces(t *testing.T) {
	of := func(kind uint8, body []byte) uint64 {
		q := request{kind: kind, body: body}
		return q.namespace()
	}
	put := engine.Command{Machine: engine.MachineKV, Kind: 1, Namespace: "flood", Body: []byte("abc")}
	flood := of(askPropose, put.AppendTo(nil))
	if got := of(askTake, appendTake(nil, engine.Take{Command: put, Wait: time.Hour})); got != flood {
		t.Error("a take is not of the namespace of its command")
	}
	if got := of(askQuery, engine.AppendQuery(nil, &toy.Counter{Namespace: "flood", Name: "abc"})); got != flood {
		t.Error("a query is not of its namespace")
	}
	put.Namespace = "other"
	other := of(askPropose, put.AppendTo(nil))
	if of(askStats, nil) != 0 || of(askPropose, []byte{1}) == flood || other == flood {
		t.Error("what is of no namespace, or of another, is of the flood's")
	}
	for _, lasting := range []bool{false, true} {
		for _, alone := range []bool{false, true} {
			tally := newTally("this node", 100, 100)
			tally.alone = alone
			n := 0
			for tally.add(lasting, flood) == nil {
				n++
			}
			if want := map[bool]int{false: 75, true: 100}[alone]; n != want {
				t.Errorf("a namespace has %d of 100 calls, want %d", n, want)
			}
			if err := tally.add(lasting, other); (err != nil) != alone {
				t.Errorf("beside it another one gets %v", err)
			}
			for range n {
				tally.remove(lasting, flood)
			}
			tally.remove(lasting, other)
			if len(tally.callsBy)+len(tally.waitsBy) > 1 {
				t.Errorf("calls that have ended are remembered: %v, %v", tally.callsBy, tally.waitsBy)
			}
		}
	}
}

// TestMemory: a request for more than is left waits until memory is released; an address gets no
// more than its share.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(100, 60)
		if err := m.take(t.Context(), "a", 60); err != nil {
			t.Fatal(err)
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		for _, c := range []struct {
			who string
			n   int64
			ok  bool
		}{{"a", 1, false}, {"b", 41, false}, {"b", 40, true}, {"c", 1, false}} {
			if err := m.take(done, c.who, c.n); (err == nil) != c.ok {
				t.Errorf("take %d for %s: %v", c.n, c.who, err)
			}
		}
		taken := make(chan error, 1)
		go func() { taken <- m.take(t.Context(), "a", 50) }()
		synctest.Wait()
		m.giveBack("a", 60)
		if err := <-taken; err != nil {
			t.Fatal(err)
		}
		m.giveBack("a", 50)
		m.giveBack("b", 40)
		if m.used != 0 || len(m.by) != 0 {
			t.Errorf("%d bytes are left over, of %v", m.used, m.by)
		}
	})
}

// TestUnfinishedFrames begins many large frames from one address and finishes none. They take no
// more than the address's share, and small requests are served. Three connections with 60 such
// frames used to take 2.65 GB.
func TestUnfinishedFrames(t *testing.T) {
	r := newRig(t)
	honest := r.dial()
	r.well(honest)
	const frames, size = 60, maxRequest
	testShare := r.peer.frames.share
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var client *http.Client
	for i := range frames {
		if i%4 == 0 { // unread data fills the window of a connection
			client = r.http()
		}
		s := r.stream(client, pathDoor)
		s.open(roleClient)
		go func() { // unread data does not take memory
			_, _ = s.w.Write(partsOf(make([]byte, size))[:size/2])
		}()
	}
	await(t, "frames", func() bool {
		r.peer.frames.mu.Lock()
		defer r.peer.frames.mu.Unlock()
		return r.peer.frames.used > testShare-size
	})
	r.well(honest)
	r.peer.frames.mu.Lock()
	used := r.peer.frames.used
	r.peer.frames.mu.Unlock()
	runtime.ReadMemStats(&after)
	t.Logf("%d MiB of frames, %d MiB of heap", used>>20, (after.HeapAlloc-min(before.HeapAlloc, after.HeapAlloc))>>20)
	if used > testShare {
		t.Errorf("unfinished frames take %d bytes, the share is %d", used, testShare)
	}
}
