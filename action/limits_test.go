package action

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// plain returns a world with an action.
func plain(t testing.TB, s spec, names ...string) (w *world, session uint64) {
	t.Helper()
	w = newWorld(t, rand.New(rand.NewPCG(1, 1)))
	w.register("a", s)
	return w, w.open(group{labels(map[string]string{"gpu": "a"}), append([]string{"a"}, names...)})
}

func (w *world) mustInvoke(v protocol.Invoke) protocol.Ref {
	w.t.Helper()
	v.Name = "a"
	i, err := w.invoke(v)
	if err != nil {
		w.t.Fatal(err)
	}
	return i.Ref
}

func (w *world) take(session uint64, n int) []taken {
	w.t.Helper()
	got, err := w.work(workBody{session: session, wants: []want{{0, "w", n}}})
	if err != nil {
		w.t.Fatal(err)
	}
	return got.taken
}

func (w *world) end(session uint64, e end) verdict {
	w.t.Helper()
	got, err := w.work(workBody{session: session, ends: []end{e}})
	if err != nil {
		w.t.Fatal(err)
	}
	return got.verdicts[0]
}

// TestKeyAcrossSets: the limit of runs per key covers all sets of labels, and the sets of a key are
// served in turn. Each set used to have its own limit.
func TestKeyAcrossSets(t *testing.T) {
	s := defaultSpec
	s.maxPerKey = 1
	w, session := plain(t, s)
	sets := [][]byte{nil, []byte(labels(map[string]string{"gpu": "a"}))}
	for range 6 {
		for _, set := range sets {
			w.mustInvoke(protocol.Invoke{ConcurrencyKey: "k", Labels: set})
		}
	}
	counts := make(map[string]int)
	for range 6 {
		got := w.take(session, 10)
		if len(got) != 1 {
			t.Fatalf("%d runs of the key are begun at once", len(got))
		}
		counts[string(got[0].labels)]++
		for _, set := range sets { // arrive during a run
			w.mustInvoke(protocol.Invoke{ConcurrencyKey: "k", Labels: set})
		}
		if more := w.take(session, 10); len(more) > 0 {
			t.Fatalf("%d runs of the key are begun beside one", len(more))
		}
		w.end(session, end{ref: got[0].ref, attempt: got[0].attempt, how: completed})
	}
	if counts[""] != 3 || counts[string(sets[1])] != 3 {
		t.Errorf("the sets of labels had %v", counts)
	}
}

// TestLateResultOfSnoozed: an attempt that did not count has the same number as the next one. Its
// late result used to be taken for that of the next one.
func TestLateResultOfSnoozed(t *testing.T) {
	for _, how := range []how{snoozed, released} {
		w, session := plain(t, defaultSpec)
		w.mustInvoke(protocol.Invoke{})
		first := w.take(session, 1)[0]
		if v := w.end(session, end{ref: first.ref, attempt: first.attempt, begun: first.begun, how: how}); v != accepted {
			t.Fatal(v)
		}
		second := w.take(session, 1)[0]
		if first.attempt != 1 || second.attempt != 1 || first.begun == second.begun {
			t.Fatalf("attempts %d and %d, begun %d and %d times", first.attempt, second.attempt, first.begun, second.begun)
		}
		for one, want := range map[*taken]verdict{&first: overtaken, &second: accepted} {
			if want == overtaken {
				if v := w.end(session, end{ref: one.ref, attempt: one.attempt, begun: one.begun, how: completed}); v != want {
					t.Errorf("the result of the first attempt: %v", v)
				}
				_, err := w.do(kindTouch, body(touchRun, "",
					touchBody{session: session, ref: one.ref, attempt: one.attempt, begun: one.begun, extend: 1000}))
				if !errors.Is(err, ErrConflict) {
					t.Errorf("Extend of the first attempt: %v", err)
				}
			}
		}
		if v := w.end(session, end{ref: second.ref, attempt: second.attempt, begun: second.begun, how: completed}); v != accepted {
			t.Errorf("the result of the second attempt: %v", v)
		}
	}
}

// TestKeyAfterItsDay: an idempotency key is valid while its run has not ended, and for 24 h after
// its creation. The keys of longer runs used to stay valid, and inputs were compared with those of
// expired keys.
func TestKeyAfterItsDay(t *testing.T) {
	s := defaultSpec
	s.timeout = maxMillis
	w, session := plain(t, s)
	first := w.mustInvoke(protocol.Invoke{IdempotencyKey: "k", Input: []byte("1")})
	run := w.take(session, 1)[0]
	w.r.Advance(idempotencyMillis + 1000)
	if again := w.mustInvoke(protocol.Invoke{IdempotencyKey: "k", Input: []byte("1")}); again != first {
		t.Errorf("the key of a run that has not ended made another one")
	}
	w.end(session, end{ref: run.ref, attempt: 1, how: completed})
	second := w.mustInvoke(protocol.Invoke{IdempotencyKey: "k", Input: []byte("2")})
	if second == first {
		t.Errorf("the key of a run that has ended, made a day ago, made none")
	}
	if third := w.mustInvoke(protocol.Invoke{IdempotencyKey: "k", Input: []byte("2")}); third != second {
		t.Errorf("the key of the second run made another one")
	}
	w.r.Pass(idempotencyMillis) // the timer has not fired yet
	run = w.take(session, 1)[0]
	w.end(session, end{ref: run.ref, attempt: 1, how: completed})
	if third := w.mustInvoke(protocol.Invoke{IdempotencyKey: "k", Input: []byte("3")}); third == second {
		t.Errorf("the key of the second run made none after a day")
	}
}

// TestLongestTimes: the longest durations do not overflow, counted in ms or in ns.
func TestLongestTimes(t *testing.T) {
	if got := duration(millis(math.MaxInt64)); got != math.MaxInt64 {
		t.Errorf("the longest time is %v", got)
	}
	w, session := plain(t, spec{timeout: maxMillis, maxRetries: 5, backoffMin: maxMillis, backoffMax: maxMillis, retainFor: maxMillis,
		retainRuns: 10})
	w.mustInvoke(protocol.Invoke{})
	w.mustInvoke(protocol.Invoke{Delay: maxMillis})
	got := w.take(session, 10)
	if len(got) != 1 || duration(got[0].timeout) != math.MaxInt64 {
		t.Fatalf("%+v", got)
	}
	if _, err := w.do(kindTouch, body(touchRun, "",
		touchBody{session: session, ref: got[0].ref, extend: millis(math.MaxInt64)})); err != nil {
		t.Error(err)
	}
	w.r.Advance(1000)
	if v := w.end(session, end{ref: got[0].ref, attempt: 1, how: failed, delay: -1}); v != accepted {
		t.Error(v)
	}
	q := infoQuery{namespace: "n", name: "a"}
	if err := w.r.Query(t.Context(), 0, &q); err != nil || q.info.Timeout != math.MaxInt64 || q.info.BackoffMax != math.MaxInt64 ||
		q.info.RetainFor != math.MaxInt64 {
		t.Errorf("%+v, %v", q.info, err)
	}
}

// TestRateOfOne: a rate with a Burst of 1 is reached, although the log counts in milliseconds and
// takes arrive at any time. 5,000 per second used to give 665.
func TestRateOfOne(t *testing.T) {
	for _, c := range []struct{ limit, every int64 }{{5000, 1}, {5000, 7}, {300, 3}, {7, 9}} {
		s := defaultSpec
		s.rate = rate{c.limit, 1000, 1}
		w, session := plain(t, s)
		for range c.limit + c.limit/10 + 100 {
			w.mustInvoke(protocol.Invoke{MaxAttempts: 1})
		}
		begun := int64(0)
		for at := int64(0); at < 1000; at += c.every {
			for more := true; more; {
				got := w.take(session, maxTaken)
				more = len(got) == maxTaken
				for i := range got {
					w.end(session, end{ref: got[i].ref, attempt: 1, how: completed})
				}
				begun += int64(len(got))
			}
			w.r.Pass(c.every)
		}
		if least, most := c.limit*97/100, c.limit+1+c.limit*rateSlackMillis/1000; begun < least || begun > most {
			t.Errorf("%d a second, taken every %d ms: %d were begun, want %d to %d", c.limit, c.every, begun, least, most)
		}
	}
}

// TestSetsAreUsedAgain: the number of a set of labels without runs is reused for another set. An
// action used to have 64 sets in its lifetime.
func TestSetsAreUsedAgain(t *testing.T) {
	s := defaultSpec
	s.retainRuns = 10
	w, _ := plain(t, s)
	set := func(n int) []byte { return []byte(labels(map[string]string{"n": fmt.Sprint(n)})) }
	for n := range 5 * maxSets {
		ref := w.mustInvoke(protocol.Invoke{Labels: set(n), ConcurrencyKey: "k"})
		session := w.open(group{labels(map[string]string{"n": fmt.Sprint(n)}), []string{"a"}})
		if got := w.take(session, 10); len(got) != 1 || got[0].ref != ref || string(got[0].labels) != string(set(n)) {
			t.Fatalf("set %d: %+v", n, got)
		}
		how := completed
		if n%3 == 0 {
			if _, err := w.do(kindCancel, encode(nil, &protocol.Cancel{Ref: ref}, (*protocol.Cancel).Code)); err != nil {
				t.Fatal(err)
			}
		}
		w.end(session, end{ref: ref, attempt: 1, how: how})
		w.r.Pass(1)
	}
	var last error
	for n := range maxSets + 1 {
		_, last = w.invoke(protocol.Invoke{Name: "a", Labels: set(1000 + n)})
	}
	if !errors.Is(last, ErrInvalid) {
		t.Errorf("a set more than %d that runs have: %v", maxSets, last)
	}
	if q := (runsQuery{namespace: "n", name: "a", before: math.MaxUint64, limit: 1000, maxBytes: 1 << 20}); w.r.Query(t.Context(), 0,
		&q) != nil || len(q.items) < maxSets-1 {
		t.Errorf("%d runs", len(q.items))
	} else {
		for _, r := range q.items {
			if r.Labels["n"] == "" {
				t.Errorf("run %+v has lost its labels", r)
			}
		}
	}
	w.r.Verify()
}

// TestBufferedAfterTimeout: a buffered tick also begins when the previous run ends because its
// worker is silent or too slow. Such an end identifies the run by less than an ordinary one.
func TestBufferedAfterTimeout(t *testing.T) {
	r := machinetest.New(t, 1, table())
	a := newActions(t, r, "n")
	a.register("a")
	if err := a.store.Schedules("a").Set(t.Context(), "s", ScheduleSpec{Every: time.Hour, Overlap: OverlapBuffer}); err != nil {
		t.Fatal(err)
	}
	r.Advance(3600_000)
	for range 1 + defaultRetries {
		r.Advance(defaultBackoffMax)
		if got, err := a.store.Await(t.Context(), "w", []string{"a"}); err != nil || len(got) != 1 {
			t.Fatalf("Await = %v, %v", got, err)
		}
		if _, err := a.store.Extend(t.Context(), a.runsOf("a")[0].ID, "w", 10*time.Minute); err != nil {
			t.Fatal(err)
		}
		r.Advance(600_000) // 02:46:40 to 03:46:40 in total, so that one tick comes meanwhile
	}
	if runs := a.runsOf("a"); len(runs) != 2 || runs[0].Status != TimedOut || runs[1].Status != Pending {
		t.Errorf("%+v", runs)
	}
}

// TestReplaceBeginsFirst: a tick of a disabled action leaves the run that it would replace. It used
// to end that run and begin none.
func TestReplaceBeginsFirst(t *testing.T) {
	r := machinetest.New(t, 1, table())
	a := newActions(t, r, "n")
	a.register("a")
	if err := a.store.Schedules("a").Set(t.Context(), "s", ScheduleSpec{Every: time.Hour, Overlap: OverlapReplace}); err != nil {
		t.Fatal(err)
	}
	r.Advance(2 * 3600_000)
	before := a.runsOf("a")
	a.change(kindEnable, "a", false)
	r.Advance(3600_000)
	after := a.runsOf("a")
	if n := len(before); n == 0 || len(after) != n || after[n-1].Status != Pending {
		t.Errorf("%d runs, then %+v", len(before), after)
	}
	a.change(kindEnable, "a", true)
	r.Advance(3600_000)
	if again := a.runsOf("a"); len(again) != len(after)+1 || again[len(after)-1].Status != Cancelled {
		t.Errorf("of an action that is enabled again: %+v", again)
	}
}

// TestClockLeap: setting the clock forward makes no process silent. A process with three heartbeats
// per lease keeps its runs; one without heartbeats loses them.
func TestClockLeap(t *testing.T) {
	s := defaultSpec
	s.timeout = maxMillis
	w, session := plain(t, s)
	w.r.Advance(0)
	w.mustInvoke(protocol.Invoke{})
	run := w.take(session, 1)[0]
	for _, leap := range []int64{60_000, 400 * 24 * 3600_000} {
		for range 5 {
			q := heartbeatQuery{namespace: "n", session: session, reconcile: true}
			if err := w.r.Query(t.Context(), 0, &q); err != nil {
				t.Fatalf("it is heard of: %v", err)
			}
			w.r.Advance(leaseMillis / 3)
			w.r.Leap(leap)
			w.r.Advance(0)
		}
	}
	if _, err := w.do(kindTouch, body(touchRun, "",
		touchBody{session: session, ref: run.ref, attempt: 1, extend: maxMillis / 2})); err != nil {
		t.Errorf("the clock was set: %v", err)
	}
	for range 3 {
		w.r.Advance(leaseMillis / 3)
	}
	q := heartbeatQuery{namespace: "n", session: session, reconcile: true}
	if err := w.r.Query(t.Context(), 0, &q); !errors.Is(err, ErrConflict) {
		t.Errorf("a silent session: %v", err)
	}
}

// TestSessionElsewhere: a session is not found from a namespace that does not exist.
func TestSessionElsewhere(t *testing.T) {
	w, session := plain(t, defaultSpec)
	for _, namespace := range []string{"other", "n"} {
		err := w.r.Query(t.Context(), 0, &heartbeatQuery{namespace: namespace, session: session, reconcile: true})
		if (err == nil) != (namespace == "n") {
			t.Errorf("a heartbeat from namespace %q: %v", namespace, err)
		}
	}
}

// TestHalt: a node that stood still, as on a halted machine, does not count a process as silent
// that could not reach it meanwhile. One that is silent from then on loses its runs a lease later.
func TestHalt(t *testing.T) {
	s := defaultSpec
	s.timeout = maxMillis
	w, session := plain(t, s)
	w.mustInvoke(protocol.Invoke{})
	w.take(session, 1)
	w.r.Advance(0)
	heartbeat := func() error {
		return w.r.Query(t.Context(), 0, &heartbeatQuery{namespace: "n", session: session, reconcile: true})
	}
	for range 3 {
		w.r.Advance(10_000)
		if err := heartbeat(); err != nil {
			t.Fatal(err)
		}
	}
	for _, halt := range []int64{45_000, 3600_000} {
		w.r.Advance(halt)
		w.r.Advance(leaseMillis - 1)
		if err := heartbeat(); err != nil {
			t.Fatalf("%d ms after a halt of %d: %v", leaseMillis-1, halt, err)
		}
		w.r.Advance(0)
	}
	for range 3 {
		w.r.Advance(leaseMillis / 3)
	}
	if err := heartbeat(); !errors.Is(err, ErrConflict) {
		t.Errorf("a silent session: %v", err)
	}
}

// TestLimitsOfAProcess: the workers of a process have up to 100 sets of labels and handlers, with
// 1,000 names in total, and up to 1,000 runs per shard.
func TestLimitsOfAProcess(t *testing.T) {
	names := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint(i))
		}
		return all
	}
	var sets, named pool
	for n := range maxGroups + 2 {
		g := group{labels(map[string]string{"n": fmt.Sprint(min(n, maxGroups))}), names(1)}
		if n == maxGroups+1 {
			g.labels = labels(map[string]string{"n": "7"}) // already known
		}
		if err := sets.join(&source{}, g); errors.Is(err, ErrInvalid) != (n == maxGroups) {
			t.Errorf("set %d: %v", n+1, err)
		}
	}
	for i, n := range []int{998, 1, 1, 1} {
		if err := named.join(&source{}, group{fmt.Sprint(i), names(n)}); errors.Is(err, ErrInvalid) != (i == 3) {
			t.Errorf("%d names more: %v", n, err)
		}
	}
	w, session := plain(t, defaultSpec)
	for range maxHeld + 2 {
		w.mustInvoke(protocol.Invoke{})
	}
	var got []taken
	for range maxHeld/maxTaken + 1 {
		got = append(got, w.take(session, maxTaken)...)
	}
	if len(got) != maxHeld {
		t.Errorf("a process has %d runs, want %d", len(got), maxHeld)
	}
	w.end(session, end{ref: got[0].ref, attempt: 1, how: completed})
	if got := w.take(session, 2); len(got) != 1 {
		t.Errorf("one ended, and %d were taken", len(got))
	}
}

// TestTakeOfFullProcess: a take of a process with 1,000 runs waits until one has ended, although
// runs are ready all the time.
func TestTakeOfFullProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, session := plain(t, defaultSpec)
		var got []taken
		for range maxHeld + 1 {
			w.mustInvoke(protocol.Invoke{})
		}
		for len(got) < maxHeld {
			got = append(got, w.take(session, maxTaken)...)
		}
		op := takeRuns.Op("", workBody{session: session, wants: []want{{0, "w", 5}}}, nil)
		op.Command.Namespace = "n"
		answer := make(chan worked)
		go func() {
			b, err := w.r.Take(t.Context(), 0, engine.Take{Command: op.Command, Wait: time.Hour})
			if err != nil {
				t.Error(err)
			}
			res, err := takeRuns.Decode(b)
			if err != nil {
				t.Error(err)
			}
			answer <- res
		}()
		synctest.Wait()
		select {
		case res := <-answer:
			t.Errorf("a process with %d runs gets %d more", maxHeld, len(res.taken))
		default:
		}
		before := time.Now()
		w.end(session, end{ref: got[0].ref, attempt: 1, how: completed})
		if res := <-answer; len(res.taken) != 1 || time.Since(before) > 0 {
			t.Errorf("%d are taken, %v after one has ended", len(res.taken), time.Since(before))
		}
	})
}

// TestAvailableAt: a run whose delay ends early is available from then on. RunNow ends a delay, and
// so does Retry of a run cancelled during it. It used to show the end of the delay.
func TestAvailableAt(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		w, session := plain(t, defaultSpec)
		ref := w.mustInvoke(protocol.Invoke{Delay: 3600_000})
		w.r.Advance(1000)
		kind := kindRunNow
		if cancelled {
			kind = kindRetry
			if _, err := w.do(kindCancel, encode(nil, &protocol.Cancel{Ref: ref}, (*protocol.Cancel).Code)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.do(kind, body(retryRun, "", ref)); err != nil {
			t.Fatal(err)
		}
		now := w.r.Now()
		for range 2 { // pending, then running
			w.r.Pass(10)
			q := runQuery{namespace: "n", ref: ref}
			if err := w.r.Query(t.Context(), 0, &q); err != nil || q.run.AvailableAt.UnixMilli() != now {
				t.Errorf("cancelled %t: a %s run is available at %v, %v; want %v", cancelled, q.run.Status, q.run.AvailableAt, err, now)
			}
			w.take(session, 1)
		}
	}
}

// TestExpireOfGivenBack: an attempt that is given back does not count, so the run expires unless
// another worker begins it in time. If the expiry passed while a worker had the run, it was begun
// in time and goes on. It used to fail, with what its handler had done so far.
func TestExpireOfGivenBack(t *testing.T) {
	give := map[string]func(w *world, session uint64, got taken){
		"release": func(w *world, session uint64, got taken) {
			w.end(session, end{ref: got.ref, attempt: 1, how: released})
		},
		"close": func(w *world, session uint64, _ taken) {
			if _, err := w.do(kindClose, body(closeSession, "", sessionBody{session: session})); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, back := range give {
		for _, late := range []bool{false, true} {
			w, session := plain(t, defaultSpec)
			ref := w.mustInvoke(protocol.Invoke{Expires: 10_000})
			w.r.Advance(1000)
			got := w.take(session, 1)[0]
			if w.r.Advance(1000); late {
				w.r.Advance(20_000)
			}
			back(w, session, got)
			w.r.Advance(20_000)
			want := Failed
			if late {
				want = Pending
			}
			q := runQuery{namespace: "n", ref: ref}
			if err := w.r.Query(t.Context(), 0, &q); err != nil || q.run.Status != want {
				t.Errorf("%s, late %t: the run is %s (%s), %v; want %s", name, late, q.run.Status, q.run.Code, err, want)
			}
			if again := w.open(group{"", []string{"a"}}); late && len(w.take(again, 1)) != 1 {
				t.Errorf("%s: the run is not begun again", name)
			}
		}
	}
}

// TestLimitLoweredForManyKeys: a limit per key that is lowered holds at once for the keys whose
// lanes are updated only later, because a command updates a limited number of them.
func TestLimitLoweredForManyKeys(t *testing.T) {
	spec := defaultSpec
	spec.maxPerKey = 2
	w, session := plain(t, spec)
	take := func(slots int) []taken {
		t.Helper()
		res, err := w.work(workBody{session: session, wants: []want{{0, "w", slots}}})
		if err != nil {
			t.Fatal(err)
		}
		return res.taken
	}
	const full, others = 10, 2500
	for i := range 2 * full {
		w.mustInvoke(protocol.Invoke{ConcurrencyKey: fmt.Sprint("z", i%full), Priority: 1})
	}
	if got := take(full); len(got) != full {
		t.Fatalf("%d runs taken, want one of each key", len(got))
	}
	for i := range others {
		w.mustInvoke(protocol.Invoke{ConcurrencyKey: fmt.Sprint("a", i), Priority: 100})
	}
	spec.maxPerKey = 1
	w.register("a", spec)
	if got := take(2); len(got) != 2 || got[0].key != "a0" || got[1].key != "a1" {
		t.Errorf("%+v are taken, want runs of the first keys without one", got)
	}
	w.r.Verify()
	w.r.Advance(0)
	if got := take(maxTaken); len(got) != maxTaken || got[0].key != "a2" {
		t.Errorf("%d runs are taken next, want %d of other keys", len(got), maxTaken)
	}
}

// TestDeleteOfManyRuns: all runs of a deleted action are cancelled, in several commands.
func TestDeleteOfManyRuns(t *testing.T) {
	w, session := plain(t, defaultSpec)
	const waiting, delayed = 1000, 1000
	var last protocol.Ref
	for range delayed {
		last = w.mustInvoke(protocol.Invoke{Delay: 1_000_000})
	}
	held := w.mustInvoke(protocol.Invoke{})
	if res, err := w.work(workBody{session: session, wants: []want{{0, "w", 1}}}); err != nil || len(res.taken) != 1 {
		t.Fatalf("work = %+v, %v", res, err)
	}
	for range waiting {
		w.mustInvoke(protocol.Invoke{})
	}
	s, ctx := engine.StoreOf[Store](w.r.Router(), "n", 1<<20), t.Context()
	if err := s.Delete(ctx, "a", Force()); err != nil {
		t.Fatal(err)
	}
	status := func(ref protocol.Ref) Status {
		t.Helper()
		run, err := s.Runs().Get(ctx, runLocation{0, ref}.id())
		if err != nil {
			t.Fatal(err)
		}
		return run.Status
	}
	if is := status(last); is != Pending {
		t.Errorf("the last delayed run is %v at once, want pending: the test has too few runs", is)
	}
	w.r.Advance(0)
	for _, ref := range w.all {
		if is := status(ref); is != Cancelled {
			t.Fatalf("run %v is %v, want cancelled", ref, is)
		}
	}
	if run, err := s.Runs().Get(ctx, runLocation{0, held}.id()); err != nil || !run.Cancelling || run.Error != "the action was deleted" {
		t.Errorf("the run that a worker holds: %+v, %v", run, err)
	}
}

// TestRetryOfInvokedRuns: runs that another machine waits for cannot be retried; those of a
// schedule can.
func TestRetryOfInvokedRuns(t *testing.T) {
	w := &world{t: t, r: machinetest.New(t, 1, table(), callerTable(1000)), of: make(map[protocol.Ref]uint64)}
	w.register("step", defaultSpec)
	s, ctx := engine.StoreOf[Store](w.r.Router(), "n", 1<<20), t.Context()
	fail := func() RunID {
		t.Helper()
		tasks, err := s.Await(ctx, "w", []string{"step"})
		if err != nil || len(tasks) != 1 {
			t.Fatalf("Await = %+v, %v", tasks, err)
		}
		if err := s.Fail(ctx, tasks[0].Run, "w", "no"); err != nil {
			t.Fatal(err)
		}
		return tasks[0].Run
	}
	cmd := engine.Command{Machine: engine.MachineTest, Kind: callerStart, Namespace: "n", Body: []byte{1}}
	if _, err := w.r.Propose(ctx, 0, cmd); err != nil {
		t.Fatal(err)
	}
	if err := s.Retry(ctx, fail()); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "belongs to its invoker") {
		t.Errorf("Retry = %v", err)
	}
	if err := s.Schedules("step").Set(ctx, "s", ScheduleSpec{Every: time.Hour, Overlap: OverlapBuffer}); err != nil {
		t.Fatal(err)
	}
	w.r.Advance(60 * 60_000)
	run := fail()
	if err := s.Retry(ctx, run); err != nil {
		t.Errorf("Retry of the run of a schedule = %v", err)
	}
	if got, err := s.Runs().Get(ctx, run); err != nil || got.Status != Pending {
		t.Errorf("then it is %+v, %v", got, err)
	}
}

// TestLostSession: the attempts of a session without heartbeats fail. Their runs are retried, and
// the session is gone.
func TestLostSession(t *testing.T) {
	spec := defaultSpec
	spec.timeout, spec.maxRetries, spec.backoffMin, spec.backoffMax = maxMillis, 1, 0, 0
	w, session := plain(t, spec)
	s, ctx := engine.StoreOf[Store](w.r.Router(), "n", 1<<20), t.Context()
	ref, cancelled := w.mustInvoke(protocol.Invoke{}), w.mustInvoke(protocol.Invoke{})
	expire := func(session uint64) error {
		cmd := engine.Command{Machine: engine.MachineAction, Kind: kindExpire, Namespace: "n",
			Body: codec.EncodeFields(nil, &sessionBody{session: session}, (*sessionBody).code)}
		return w.r.Entry(0, engine.Fenced(1, cmd))[0].Err
	}
	for attempt, then := range []Run{{Status: Pending, Attempt: 1}, {Status: Failed, Attempt: 2}} {
		res, err := w.work(workBody{session: session, wants: []want{{0, "w", 2}}})
		if err != nil || len(res.taken) != 2-attempt {
			t.Fatalf("%+v, %v", res, err)
		}
		if attempt == 0 {
			if err := s.Cancel(ctx, runLocation{0, cancelled}.id(), ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := expire(session); err != nil {
			t.Fatal(err)
		}
		got, err := s.Runs().Get(ctx, runLocation{0, ref}.id())
		if err != nil || got.Status != then.Status || got.Attempt != then.Attempt || got.Code != CodeWorkerLost {
			t.Errorf("the run is %+v, %v", got, err)
		}
		if got, err := s.Runs().Get(ctx, runLocation{0, cancelled}.id()); err != nil || got.Status != Cancelled || got.Cancelling {
			t.Errorf("the cancelled run is %+v, %v", got, err)
		}
		groups := []group{{"", []string{"a"}}}
		for what, err := range map[string]error{
			"expire": expire(session),
			"open":   errOf(w.do(kindOpen, body(openSession, "", openBody{session: session, process: "p", groups: groups}))),
			"work":   errOf(w.work(workBody{session: session, wants: []want{{0, "w", 1}}})),
		} {
			if !errors.Is(err, ErrConflict) {
				t.Errorf("%s of the lost session: %v, want ErrConflict", what, err)
			}
		}
		session = w.open(groups...)
	}
	for what, groups := range map[string][]group{
		"no action": {{"", nil}}, "a bad name": {{"", []string{"a\n"}}}, "bad labels": {{"x", []string{"a"}}},
		"a bad second group": {{"", []string{"a"}}, {"", nil}},
	} {
		if _, err := w.do(kindOpen, body(openSession, "", openBody{process: "p", groups: groups})); !errors.Is(err, ErrInvalid) {
			t.Errorf("a session with %s: %v", what, err)
		}
	}
}

// TestOutcomeNames: an outcome with too long a name fails its run.
func TestOutcomeNames(t *testing.T) {
	machinetest.TryLimits(t, []machinetest.Limit{{Name: "outcome name", Least: math.MinInt64, Most: MaxOutcomeBytes,
		Says: []string{"the name of the outcome", "exceeds 255"}, Try: func(n int64) error {
			e, err := new(piece).conclude(Outcome(strings.Repeat("x", int(n)), 1), nil, 1<<20)
			switch {
			case err != nil:
				return err
			case e.how == refused && e.code == CodeBadOutput && e.output == nil && e.outcome == "":
				return engine.Errorf(ErrInvalid, "%s", e.message)
			case e.how != completed || len(e.outcome) != int(n) || string(e.output) != "1":
				t.Errorf("%d: %+v", n, e)
			}
			return nil
		}}})
}

// TestTakeOfDraining: a take of a polling worker that drains is refused even if it was proposed
// before.
func TestTakeOfDraining(t *testing.T) {
	w, _ := plain(t, defaultSpec)
	s, ctx := engine.StoreOf[Store](w.r.Router(), "n", 1<<20), t.Context()
	if err := s.RegisterWorker(ctx, NewWorker{ID: "w", Actions: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	w.mustInvoke(protocol.Invoke{})
	if err := s.Drain(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	c := workBody{self: "w", group: group{names: []string{"a"}}, wants: []want{{0, "w", 1}}}
	if res, err := w.work(c); !errors.Is(err, ErrConflict) || len(res.taken) != 0 {
		t.Errorf("work = %+v, %v, want ErrConflict", res, err)
	}
}

// TestAwaitedLater: the end of a run is kept for callers that wait for it, even if its action
// retains no runs. That includes callers that invoked it again with its idempotency key.
func TestAwaitedLater(t *testing.T) {
	for _, c := range []struct{ running, first, again bool }{
		{}, {first: true}, {again: true}, {running: true}, {running: true, first: true}, {running: true, again: true},
	} {
		s := defaultSpec
		s.retainFor, s.retainRuns = 1, 0
		w, session := plain(t, s)
		ref := w.mustInvoke(protocol.Invoke{IdempotencyKey: "k", Awaited: c.first})
		if c.running {
			w.take(session, 1)
		}
		if again := w.mustInvoke(protocol.Invoke{IdempotencyKey: "k", Awaited: c.again}); again != ref {
			t.Fatalf("%+v: run %v, want %v", c, again, ref)
		}
		if !c.running {
			w.take(session, 1)
		}
		w.end(session, end{ref: ref, attempt: 1, how: completed})
		kept := func() int {
			q := runsQuery{namespace: "n", name: "a", before: math.MaxUint64, limit: 10, maxBytes: 1 << 20}
			if err := w.r.Query(t.Context(), 0, &q); err != nil {
				t.Fatal(err)
			}
			return len(q.items)
		}
		w.r.Advance(handoverMillis - 1)
		if got := kept() == 1; got != (c.first || c.again) {
			t.Errorf("%+v: the run is kept: %v", c, got)
		}
		w.r.Advance(2 * handoverMillis)
		if n := kept(); n != 0 {
			t.Errorf("%+v: %d runs are kept for too long", c, n)
		}
	}
}
