package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

func addTo(name string, delta int64) toy.Command {
	return toy.Command{Kind: toy.Add, Name: name, Delta: delta}
}

func TestCommandsOfOneBatchSeeEachOther(t *testing.T) {
	r := newRig(t, 1)
	r.applyOnly(0, addTo("a", 1).In("n"), addTo("a", 2).In("n"))
	r.applyOnly(0, addTo("a", 4).In("n"))
	if got := r.counter(0, "n", "a"); got != 0 {
		t.Errorf("before Commit a query sees %d, want 0", got)
	}
	if n := r.execs[0].Pending(); n == 0 {
		t.Error("before Commit nothing is pending")
	}
	r.commit(0)
	if n := r.execs[0].Pending(); n != 0 {
		t.Errorf("after Commit %d bytes are pending", n)
	}
	if got := r.counter(0, "n", "a"); got != 7 {
		t.Errorf("after Commit a query sees %d, want 7", got)
	}
}

// TestRestoreDropsWhatIsNotCommitted: it is applied again, from the log.
func TestRestoreDropsWhatIsNotCommitted(t *testing.T) {
	r := newRig(t, 1)
	r.applyOnly(0, addTo("a", 5).In("n"))
	r.restart()
	if n, index := r.execs[0].Pending(), r.execs[0].Applied().Index; n != 0 || index != 0 {
		t.Errorf("%d bytes are pending, entry %d is applied", n, index)
	}
	r.apply(0, addTo("b", 1).In("n"))
	if a, b := r.counter(0, "n", "a"), r.counter(0, "n", "b"); a != 0 || b != 1 {
		t.Errorf("the counters are %d and %d, want 0 and 1", a, b)
	}
}

func TestFailedCommandLeavesNothing(t *testing.T) {
	r := newRig(t, 1)
	r.apply(0, addTo("a", 5).In("n"))
	before := r.execs[0].Applied()
	out := r.apply(0, addTo("a", -6).In("n"), addTo("b", -1).In("fresh"))
	for i, o := range out {
		if !errors.Is(o.Err, engine.ErrConflict) {
			t.Errorf("command %d: error %v, want ErrConflict", i, o.Err)
		}
	}
	if after := r.execs[0].Applied(); after.LSN != before.LSN {
		t.Errorf("LSN went from %d to %d over refused commands", before.LSN, after.LSN)
	}
	q := engine.NamespaceQuery{Name: "fresh"}
	if err := r.Query(context.Background(), 0, &q); err != nil || q.Found {
		t.Errorf("a refused command has created its namespace: %+v, %v", q.Info, err)
	}
	// The rolled-back namespace's number goes to the next one.
	r.apply(0, addTo("c", 1).In("other"))
	r.restart()
	if got := r.counter(0, "other", "c"); got != 1 {
		t.Errorf("after a restart the counter is %d, want 1", got)
	}
}

func TestTransaction(t *testing.T) {
	r := newRig(t, 1)
	ctx := context.Background()
	router := engine.NewRouter(r)
	txn := func() *engine.Txn { return engine.NewTxn(router, "n", 1<<20) }

	res, err := txn().Do(addTo("a", 3).Op(), addTo("b", 4).Op(), addTo("a", 1).Op()).Commit(ctx)
	if err != nil || !slices.Equal(res.Values, []any{int64(3), int64(4), int64(4)}) {
		t.Fatalf("Commit = %v, %v; want the counters 3, 4, 4", res, err)
	}
	_, err = txn().Do(addTo("a", 10).Op(), addTo("b", -5).Op(), addTo("c", 1).Op()).Commit(ctx)
	var te *engine.TxnError
	if !errors.As(err, &te) || te.Index != 1 || te.Condition || !errors.Is(err, engine.ErrConflict) {
		t.Errorf("Commit with a failing second operation = %v, want a TxnError naming operation 1", err)
	}
	_, err = txn().If(engine.Condition(addTo("b", -5).Op())).Do(addTo("a", 1).Op()).Commit(ctx)
	if !errors.As(err, &te) || te.Index != 0 || !te.Condition {
		t.Errorf("Commit with a failing condition = %v, want a TxnError naming condition 0", err)
	}
	_, err = txn().If(engine.Condition(addTo("b", 0).Op())).Do(addTo("a", 1).Op(), addTo("b", -5).Op()).Commit(ctx)
	if !errors.As(err, &te) || te.Index != 1 || te.Condition {
		t.Errorf("Commit with a condition and a failing operation = %v, want a TxnError naming operation 1", err)
	}
	if a, b, c := r.counter(0, "n", "a"), r.counter(0, "n", "b"), r.counter(0, "n", "c"); a != 4 || b != 4 || c != 0 {
		t.Errorf("counters %d, %d, %d after failed transactions, want 4, 4, 0", a, b, c)
	}

	many := make([]engine.Operation, engine.MaxTxnOps+1)
	for i := range many {
		many[i] = addTo("a", 0).Op()
	}
	big := addTo("a", 1).Op()
	big.Payload = 2 << 20
	huge := addTo(strings.Repeat("x", engine.MaxTxnBytes), 1).Op()
	for name, c := range map[string]struct {
		txn  *engine.Txn
		want string
	}{
		"empty":         {txn(), "nothing to do"},
		"too many":      {txn().Do(many...), "1001 conditions and operations exceed 1000"},
		"large value":   {txn().Do(big), "exceeds max_value_size"},
		"too large":     {txn().Do(huge), "more than 4194304 bytes"},
		"system":        {engine.NewTxn(router, "_sys", 1).Do(addTo("a", 1).Op()), "system namespace"},
		"bad name":      {engine.NewTxn(router, "a\nb", 1).Do(addTo("a", 1).Op()), "control character"},
		"bad operation": {txn().Do(engine.Op{Err: engine.Errorf(engine.ErrInvalid, "no good")}), "operation 0: no good"},
	} {
		if _, err := c.txn.Commit(ctx); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Commit = %v, want ErrInvalid with %q", name, err, c.want)
		}
	}
}

func TestTransactionInSpreadNamespaceNeedsOneShard(t *testing.T) {
	r := newRig(t, 4)
	ctx := context.Background()
	router := engine.NewRouter(r)
	if err := engine.NewNamespaces(router).Create(ctx, "s", true); err != nil {
		t.Fatal(err)
	}
	var apart []engine.Operation // names of two shards
	for i := range 20 {
		apart = append(apart, addTo(fmt.Sprint("k", i), 1).Op())
	}
	if _, err := engine.NewTxn(router, "s", 1).Do(apart...).Commit(ctx); !errors.Is(err, engine.ErrInvalid) ||
		!strings.Contains(err.Error(), "common {tag}") {
		t.Errorf("Commit over several shards = %v, want ErrInvalid that tells of {tag}", err)
	}
	if _, err := engine.NewTxn(router, "s", 1).Do(addTo("{t}a", 1).Op(), addTo("b{t}", 1).Op()).Commit(ctx); err != nil {
		t.Errorf("Commit with a common tag: %v", err)
	}
}

func TestNameShardHashesTheTag(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"{u1}a", "b{u1}c", true}, {"{u1}", "u1", true}, {"{}a", "a", false}, {"{", "{", true}, {"{a", "a", false}, {"}{a}", "a", true},
	} {
		// One of 256 shards: whether unequal hashes share a shard depends on these names, which
		// stay fixed.
		if got := engine.NameShard("n", c.a, 256) == engine.NameShard("n", c.b, 256); got != c.same {
			t.Errorf("%q and %q in one shard: %v, want %v", c.a, c.b, got, c.same)
		}
	}
}

func TestTimers(t *testing.T) {
	r := newRig(t, 1)
	later := func(name string, delay int64) engine.Command {
		return toy.Command{Kind: toy.Later, Name: name, Delta: 1, Delay: delay}.In("n")
	}
	x := r.execs[0]
	if x.NextDue() != engine.NoTimer {
		t.Fatalf("NextDue = %d without timers, want NoTimer", x.NextDue())
	}
	r.apply(0, later("b", 50), later("a", 20), later("c", 20))
	if x.NextDue() != 1020 {
		t.Errorf("NextDue = %d, want 1020", x.NextDue())
	}
	r.now = 1019
	r.apply(0, engine.Fire())
	if got := r.counter(0, "n", "a"); got != 0 {
		t.Errorf("the timer has fired %d ms too early", 1)
	}
	r.restart()
	if x.NextDue() != 1020 {
		t.Errorf("after a restart NextDue = %d, want 1020", x.NextDue())
	}
	r.now = 1020
	r.apply(0, engine.Fire())
	if a, b, c := r.counter(0, "n", "a"), r.counter(0, "n", "b"), r.counter(0, "n", "c"); a != 1 || b != 0 || c != 1 {
		t.Errorf("at 1020 the counters are %d %d %d, want 1 0 1", a, b, c)
	}
	if x.NextDue() != 1050 {
		t.Errorf("NextDue = %d, want 1050", x.NextDue())
	}
	// A timer due earlier than the existing ones moves NextDue back; a refused command has no
	// effect.
	r.apply(0, later("d", 10))
	if x.NextDue() != 1030 {
		t.Errorf("NextDue = %d, want 1030", x.NextDue())
	}
	r.now = 2000
	r.apply(0, engine.Fire(), engine.Fire())
	if b, d := r.counter(0, "n", "b"), r.counter(0, "n", "d"); b != 1 || d != 1 || x.NextDue() != engine.NoTimer {
		t.Errorf("after all have fired: %d %d, NextDue %d", b, d, x.NextDue())
	}
}

// TestManyTimersFireInParts checks that a million timers due at once do not become one command, and
// that none is skipped or fires twice.
func TestManyTimersFireInParts(t *testing.T) {
	r := newRig(t, 1)
	const n = 2500
	for range n / 100 {
		var cmds []engine.Command
		for range 100 {
			cmds = append(cmds, toy.Command{Kind: toy.Later, Name: "a", Delta: 1, Delay: 10}.In("n"))
		}
		r.apply(0, cmds...)
	}
	r.now += 10
	for fired := 0; r.execs[0].NextDue() <= r.now; fired++ {
		if fired > n {
			t.Fatal("timers never end")
		}
		before := r.counter(0, "n", "a")
		r.apply(0, engine.Fire())
		if got := r.counter(0, "n", "a") - before; got > 1000 {
			t.Errorf("one Fire handed out %d timers, want at most 1000", got)
		}
	}
	if got := r.counter(0, "n", "a"); got != n {
		t.Errorf("%d timers have fired, want %d", got, n)
	}
}

// TestRolledBackSendDoesNotHideMessages: a transaction sends and then fails. Its LSNs are reused
// for messages with smaller numbers than the rolled-back one.
func TestRolledBackSendDoesNotHideMessages(t *testing.T) {
	r := newRig(t, 1)
	ctx := context.Background()
	r.apply(0, addTo("a", 100).In("n"))
	send := toy.Command{Kind: toy.Send, Name: "a", Delta: 1, Target: "b"}
	_, err := engine.NewTxn(engine.NewRouter(r), "n", 1).
		Do(addTo("a", 1).Op(), addTo("a", 1).Op(), addTo("a", 1).Op(), send.Op(), addTo("a", -1000).Op()).Commit(ctx)
	if !errors.Is(err, engine.ErrConflict) {
		t.Fatalf("Commit = %v, want ErrConflict", err)
	}
	r.apply(0, send.In("n"))
	r.deliver(0, 0)
	if got := r.counter(0, "n", "b"); got != 1 {
		t.Errorf("after the delivery b = %d, want 1", got)
	}
}

// TestGroupingDoesNotMatter applies one log with different groupings of entries into batches, and a
// restart: the state is the same, byte for byte.
func TestGroupingDoesNotMatter(t *testing.T) {
	var dumps []string
	var hashes []uint64
	for _, every := range []int{1, 3, 1000} {
		rng := rand.New(rand.NewPCG(11, 11))
		r := newRig(t, 1)
		for i := range 300 {
			r.now += rng.Int64N(20)
			var cmds []engine.Command
			for range rng.IntN(4) {
				name, amount := fmt.Sprint("c", rng.IntN(5)), rng.Int64N(20)
				switch rng.IntN(5) {
				case 0:
					cmds = append(cmds, addTo(name, -amount).In(fmt.Sprint("n", rng.IntN(3))))
				case 1:
					cmds = append(cmds, toy.Command{Kind: toy.Later, Name: name, Delta: amount, Delay: rng.Int64N(50)}.In("n0"))
				case 2:
					cmds = append(cmds, engine.Fire())
				case 3:
					cmds = append(cmds, toy.Command{Kind: toy.Send, Name: name, Delta: amount, Target: "c0"}.In("n0"))
				default:
					cmds = append(cmds, addTo(name, amount).In(fmt.Sprint("n", rng.IntN(3))))
				}
			}
			r.applyOnly(0, cmds...)
			if i%every == every-1 {
				r.commit(0)
			}
			if i == 150 && every == 3 {
				r.commit(0)
				r.restart()
			}
		}
		r.commit(0)
		dumps, hashes = append(dumps, r.dump(0)), append(hashes, r.execs[0].Applied().Hash)
	}
	for i := range dumps[1:] {
		if dumps[i+1] != dumps[0] || hashes[i+1] != hashes[0] {
			t.Errorf("grouping %d gives another state: hash %x, want %x", i+1, hashes[i+1], hashes[0])
		}
	}
}

func TestTimeNeverGoesBackInALog(t *testing.T) {
	r := newRig(t, 1)
	r.apply(0, addTo("a", 1).In("n"))
	r.now = 500 // a new leader with a clock that is behind
	r.apply(0, addTo("a", 1).In("n"))
	if got := r.execs[0].Applied().Stamp; got != 1000 {
		t.Errorf("stamp = %d after an entry of 500, want 1000", got)
	}
}

func TestQueryWaits(t *testing.T) {
	r := newRig(t, 1)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // the rig's Apply and Query do not allow concurrent use of its fields
		done := make(chan int64, 2)
		for range 2 {
			go func() {
				q := toy.Counter{Namespace: "n", Name: "a", Min: 3}
				if err := r.Query(t.Context(), 0, &q); err != nil {
					t.Error(err)
				}
				done <- q.Value
			}()
		}
		for i := range 3 {
			synctest.Wait()
			if len(done) != 0 {
				t.Fatalf("a query has been answered at %d, want 3", i)
			}
			mu.Lock()
			r.apply(0, addTo("a", 1).In("n"))
			mu.Unlock()
		}
		if a, b := <-done, <-done; a != 3 || b != 3 {
			t.Errorf("queries were answered with %d and %d, want 3", a, b)
		}
		synctest.Wait()
		if n := r.execs[0].Waiting(); n != 0 {
			t.Errorf("%d waiters are left", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Query(ctx, 0, &toy.Counter{Namespace: "n", Name: "a", Min: 9}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Query past its deadline = %v, want DeadlineExceeded", err)
		}
		if n := r.execs[0].Waiting(); n != 0 {
			t.Errorf("%d waiters are left after a deadline", n)
		}
	})
}

func TestNamespaces(t *testing.T) {
	r := newRig(t, 3)
	ctx := context.Background()
	router := engine.NewRouter(r)
	ns := engine.NewNamespaces(router)
	if err := ns.Create(ctx, "spread", true); err != nil {
		t.Fatal(err)
	}
	if err := ns.Create(ctx, "plain", false); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"spread", "plain"} {
		if err := ns.Create(ctx, name, false); !errors.Is(err, engine.ErrExists) {
			t.Errorf("Create(%q) again = %v, want ErrExists", name, err)
		}
	}
	for _, name := range []string{"", "_system", "a\x00", "a\u202eb", "a\u2028", "\xff", strings.Repeat("x", 256)} {
		if err := ns.Create(ctx, name, false); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("Create(%q) = %v, want ErrInvalid", name, err)
		}
	}
	if err := ns.Create(ctx, strings.Repeat("é", 127), false); err != nil {
		t.Errorf("Create with 254 bytes: %v", err)
	}
	for i := range 30 {
		if _, err := router.Propose(ctx, fmt.Sprint(i), addTo(fmt.Sprint(i), 1).In("spread")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := router.Propose(ctx, "x", addTo("x", 1).In("by writing")); err != nil {
		t.Fatal(err)
	}
	r.restart()
	info, err := ns.Get(ctx, "spread")
	if err != nil || !info.Spread || info.Counts.Workflows != 30 || info.CreatedAt.UnixMilli() != 1000 {
		t.Errorf("Get(spread) = %+v, %v; want 30 counters, created at 1000", info, err)
	}
	if _, err := ns.Get(ctx, "none"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("Get(none) = %v, want ErrNotFound", err)
	}
	var names []string
	all, err := ns.Page(ctx, engine.Listing{Limit: 4})
	if err != nil || all.Cursor != "" {
		t.Errorf("Page of all four: %v, cursor %q", err, all.Cursor)
	}
	for _, info := range all.Items {
		names = append(names, info.Name)
	}
	if want := []string{"by writing", "plain", "spread", strings.Repeat("é", 127)}; !slices.Equal(names, want) {
		t.Errorf("Page = %q, want %q", names, want)
	}
	page, err := ns.Page(ctx, engine.Listing{Limit: 1, Cursor: "by writing"})
	if err != nil || len(page.Items) != 1 || page.Items[0].Name != "plain" || page.Cursor != "plain" {
		t.Errorf("Page of one behind by writing = %+v, %v; want plain and its name as the cursor", page, err)
	}
	page, err = ns.Page(ctx, engine.Listing{Limit: 1, Prefix: "s"})
	if err != nil || len(page.Items) != 1 || page.Items[0].Name != "spread" || page.Cursor != "" {
		t.Errorf("Page of what begins with s = %+v, %v; want spread alone", page, err)
	}
}

// TestMisroutedCommandsAreRefused: rows written by a command in the wrong shard, or with the wrong
// placement, would be looked up elsewhere.
func TestMisroutedCommandsAreRefused(t *testing.T) {
	r := newRig(t, 3)
	ctx := context.Background()
	for _, ns := range []string{"plain", "spread"} {
		if _, err := r.Propose(ctx, engine.HomeShard(ns, 3), engine.CreateNamespace(ns, ns == "spread")); err != nil {
			t.Fatal(err)
		}
	}
	home := func(ns string) engine.ShardID { return engine.HomeShard(ns, 3) }
	for name, c := range map[string]struct {
		ns     string
		spread bool // the sender's assumption
		shard  engine.ShardID
		refuse bool
	}{
		"plain, at home":                 {"plain", false, home("plain"), false},
		"plain, taken for spread":        {"plain", true, home("plain"), true},
		"plain, elsewhere":               {"plain", false, (home("plain") + 1) % 3, true},
		"spread, at home":                {"spread", true, home("spread"), false},
		"spread, elsewhere":              {"spread", true, (home("spread") + 1) % 3, false},
		"spread, taken for plain":        {"spread", false, home("spread"), true},
		"new, at home":                   {"new", false, home("new"), false},
		"missing, taken for spread":      {"missing", true, home("missing"), true},
		"missing, taken for plain, away": {"missing", false, (home("missing") + 1) % 3, true},
	} {
		cmd := addTo("a", 1).In(c.ns)
		cmd.Spread = c.spread
		before := r.counter(c.shard, c.ns, "a")
		_, err := r.Propose(ctx, c.shard, cmd)
		if got := r.counter(c.shard, c.ns, "a") == before; got != c.refuse || (err != nil) != c.refuse {
			t.Errorf("%s: error %v, the counter is unchanged: %v; want it refused: %v", name, err, got, c.refuse)
		}
	}
	for _, shard := range []engine.ShardID{0, 1, 2} {
		q := engine.NamespaceQuery{Name: "missing"}
		if err := r.Query(ctx, shard, &q); err != nil || q.Found {
			t.Errorf("shard %d: a refused command has created its namespace: %v", shard, err)
		}
	}
}

// TestPlacementIsAskedAgain: a namespace is created as spread after a router failed to find it.
func TestPlacementIsAskedAgain(t *testing.T) {
	r := newRig(t, 4)
	ctx := context.Background()
	stale := &stalePlacement{rig: r}
	router := engine.NewRouter(stale)
	if err := engine.NewNamespaces(engine.NewRouter(r)).Create(ctx, "s", true); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		name := fmt.Sprint("k", i)
		if _, err := router.Propose(ctx, name, addTo(name, 1).In("s")); err != nil {
			t.Fatalf("Propose(%s): %v", name, err)
		}
		if got := r.counter(engine.NameShard("s", name, 4), "s", name); got != 1 {
			t.Errorf("%s is not in its shard", name)
		}
	}
	// A transaction whose names are in different shards must not be forced into one shard on the
	// second try.
	stale.asked = 0
	var apart []engine.Operation
	for i := range 20 {
		apart = append(apart, addTo(fmt.Sprint("k", i), 1).Op())
	}
	if _, err := engine.NewTxn(engine.NewRouter(stale), "s", 1).Do(apart...).Commit(ctx); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("Commit over several shards = %v, want ErrInvalid", err)
	}
	if stale.asked < 2 {
		t.Errorf("the placement was asked %d times, want again after the first refusal", stale.asked)
	}
}

// stalePlacement denies at first that a namespace exists.
type stalePlacement struct {
	*rig
	asked int
}

func (s *stalePlacement) Take(ctx context.Context, shard engine.ShardID, t engine.Take) ([]byte, error) {
	return s.rig.Take(ctx, shard, t)
}

func (s *stalePlacement) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	if _, ok := q.(*engine.NamespaceQuery); ok {
		if s.asked++; s.asked == 1 {
			return nil
		}
	}
	return s.rig.Query(ctx, shard, q)
}

func TestCheckRefusesUnknownCommands(t *testing.T) {
	x := newRig(t, 1).execs[0]
	txn := func(conditions, ops uint64, parts ...[]byte) engine.Command {
		body := codec.AppendUvarint(codec.AppendUvarint(nil, conditions), ops)
		for _, p := range parts {
			body = codec.AppendBytes(body, p)
		}
		return engine.Command{Kind: 1, Namespace: "n", Body: body}
	}
	add := addTo("a", 1).In("n").AppendTo(nil)
	if err := x.Check(txn(0, 1, add)); err != nil {
		t.Errorf("transaction of one operation: Check = %v", err)
	}
	for _, n := range []uint64{0, 1, engine.MaxTxnOps} {
		if err := x.Check(txn(n, engine.MaxTxnOps-n, slices.Repeat([][]byte{add}, engine.MaxTxnOps)...)); err != nil {
			t.Errorf("transaction of as many parts as it may have, %d of them conditions: Check = %v", n, err)
		}
	}
	for name, c := range map[string]engine.Command{
		"machine":      {Machine: 9, Kind: 1, Namespace: "n"},
		"out of range": {Machine: 200, Kind: 1, Namespace: "n"},
		"kind":         {Machine: engine.MachineTest, Kind: toy.Clear + 1, Namespace: "n"},
		"kind 0":       {Machine: engine.MachineTest, Namespace: "n"},
		"engine kind":  {Kind: 99},
		"no namespace": {Machine: engine.MachineTest, Kind: 1},
		"transaction":  {Kind: 1, Namespace: "n", Body: []byte{0xff}},

		"too many operations":          txn(1, engine.MaxTxnOps, add),
		"a sum that overflows":         txn(1, 1<<64-1, add),
		"fewer operations than told":   txn(0, 2, add),
		"more operations than told":    txn(0, 1, add, add),
		"operation that is none":       txn(0, 1, []byte("garbage")),
		"operation of unknown machine": txn(0, 1, engine.Command{Machine: 9, Kind: 1, Namespace: "n"}.AppendTo(nil)),
		"transaction in a transaction": txn(0, 1, txn(0, 1, add).AppendTo(nil)),
		"delivery in a transaction":    txn(0, 1, engine.Command{Kind: 3, Namespace: "n"}.AppendTo(nil)),
		"timer in a transaction":       txn(0, 1, engine.Fire().AppendTo(nil)),
	} {
		if err := x.Check(c); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%s: Check = %v, want ErrInvalid", name, err)
		}
	}
}

func TestPanicsNameThePlace(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"no entry":   {[]byte{9, 9}, "entry version 9"},
		"no command": {(&engine.Entry{Commands: [][]byte{{7}}}).AppendTo(nil), "command version 7"},
		"unknown machine": {(&engine.Entry{Commands: [][]byte{engine.Command{Machine: 9, Kind: 1,
			Namespace: "n"}.AppendTo(nil)}}).AppendTo(nil), "machine 9 kind 1"},
		"unknown kind": {(&engine.Entry{Commands: [][]byte{engine.Command{Kind: 77}.AppendTo(nil)}}).AppendTo(nil), "engine kind 77"},
		"cut body":     {entryOf(cut(addTo("a", 1).In("n"))), "toy: command 1 (add) does not decode: toy: malformed record"},
		"cut part": {entryOf(engine.Command{Kind: 1, Namespace: "n", Body: txnWith(cut(addTo("a", 1).In("n")))}),
			"toy: command 1 (add) does not decode"},
		"unknown part": {entryOf(engine.Command{Kind: 1, Namespace: "n",
			Body: txnWith(engine.Command{Machine: engine.MachineTest, Kind: 77})}), "machine 15 kind 77"},
		"cut transaction": {entryOf(engine.Command{Kind: 1, Namespace: "n", Body: []byte{0, 1, 7}}),
			"engine: command 1 (transaction) does not decode"},
		"cut delivery": {entryOf(engine.Command{Kind: 3, Body: []byte{0}}), "engine: command 3 (deliver) does not decode"},
		"cut message":  {entryOf(deliveryOf([]byte{1, 15})), "engine: command 3 (deliver) does not decode: message 5"},
		"no such lane": {entryOf(engine.Command{Kind: 3, Body: []byte{0, 1, 1, 16, 0, 0, 0, 0, 0, 0}}),
			"malformed record: lane out of range"},
		"unknown message": {entryOf(deliveryOf(engine.Command{Machine: 9, Kind: 1, Namespace: "n"}.AppendTo(nil))), "machine 9 kind 1"},
		"message cut": {entryOf(engine.CreateNamespace("n", false), deliveryOf(cut(addTo("a", 1).In("n")).AppendTo(nil))),
			"toy: command 1 (add) does not decode"},
		"cut settling":   {entryOf(engine.Command{Kind: 4, Body: []byte{0}}), "engine: command 4 (settle) does not decode"},
		"cut skip":       {entryOf(engine.Command{Kind: 5}), "engine: command 5 (skip) does not decode"},
		"cut creation":   {entryOf(engine.Command{Kind: 6, Namespace: "n"}), "engine: command 6 (create namespace) does not decode"},
		"cut comparison": {entryOf(engine.Command{Kind: 7, Body: []byte{0, 0}}), "engine: command 7 (compare) does not decode"},
		"cut duty":       {entryOf(engine.Command{Kind: 8, Body: []byte{1, 1}}), "engine: command 8 (duty) does not decode"},
		"cut deletion": {entryOf(engine.Command{Kind: 9, Namespace: "n", Body: []byte{1}}),
			"engine: command 9 (delete namespace) does not decode: delete namespace: a body of 1 bytes"},
		"unknown duty": {entryOf(engine.Command{Kind: 8, Body: engine.Command{Machine: 9, Kind: 1, Namespace: "n"}.AppendTo([]byte{1})}),
			"machine 9 kind 1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.tampered = true
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, c.want) || !strings.Contains(got, "shard 0, index 1") {
					t.Errorf("panic %q, want shard, index and %q", got, c.want)
				}
			}()
			r.execs[0].Apply(1, 1, c.data, nil)
		})
	}
}

func entryOf(cmds ...engine.Command) []byte {
	var e engine.Entry
	for _, c := range cmds {
		e.Commands = append(e.Commands, c.AppendTo(nil))
	}
	return e.AppendTo(nil)
}

// cut returns the command with the last byte of its body removed.
func cut(c engine.Command) engine.Command {
	c.Body = c.Body[:len(c.Body)-1]
	return c
}

func txnWith(part engine.Command) []byte { return codec.AppendBytes([]byte{0, 1}, part.AppendTo(nil)) }

// deliveryOf delivers a message with the number 5 from shard 0, as the first one.
func deliveryOf(message []byte) engine.Command {
	body := codec.AppendBytes([]byte{0, 1, 1, byte(engine.MachineTest), 0, 0, 1, 5, 0, 1}, message)
	return engine.Command{Kind: 3, Body: body}
}

// TestEntriesLeaveNoGap: an entry that is not the next one is a bug; applying it would make the
// replicas diverge.
func TestEntriesLeaveNoGap(t *testing.T) {
	r := newRig(t, 1)
	r.apply(0, addTo("a", 1).In("n"))
	for _, index := range []uint64{0, 1, 3} {
		func() {
			defer func() {
				if got, want := fmt.Sprint(recover()), fmt.Sprintf("shard 0: entry %d applied after 1", index); got != want {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			r.execs[0].Apply(1, index, nil, nil)
		}()
	}
}

func TestAll(t *testing.T) {
	fail := errors.New("no more")
	pages := func(_ context.Context, opts ...engine.PageOption) (engine.Page[int], error) {
		l, err := engine.PageOf(opts)
		after, _ := strconv.Atoi(l.Cursor)
		if err != nil || l.Limit != 3 || len(opts) > 2 {
			t.Errorf("a page is asked for with the options %v, want those given and one cursor: %v", opts, err)
		}
		if after == 6 {
			return engine.Page[int]{Items: []int{9}}, fail
		}
		return engine.Page[int]{Items: []int{after + 1, after + 2, after + 3}, Cursor: strconv.Itoa(after + 3)}, nil
	}
	given := []engine.PageOption{engine.Limit(3)}
	var got []int
	var last error
	for v, err := range engine.All(t.Context(), pages, given) {
		if last = err; err == nil {
			got = append(got, v)
		} else if v != 0 {
			t.Errorf("value %d beside an error", v)
		}
	}
	if !slices.Equal(got, []int{1, 2, 3, 4, 5, 6}) || last != fail {
		t.Errorf("All = %v, %v; want 1 to 6 and then the error", got, last)
	}
	for v := range engine.All(t.Context(), pages, given) {
		if v == 2 {
			break
		}
	}
}

func FuzzCommand(f *testing.F) {
	f.Add(addTo("a", 1).In("n").AppendTo(nil))
	f.Add([]byte{1, 0, 1, 0, 0, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := engine.DecodeCommand(b)
		if err != nil {
			return
		}
		if back := c.AppendTo(nil); string(back) != string(b) {
			t.Errorf("DecodeCommand(%x) encodes back to %x", b, back)
		}
	})
}

func FuzzEntry(f *testing.F) {
	f.Add((&engine.Entry{Origin: 1, Sequence: 300, Stamp: -5, Commands: [][]byte{{1}, nil}}).AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e engine.Entry
		if e.Decode(b) != nil {
			return
		}
		if back := e.AppendTo(nil); string(back) != string(b) {
			t.Errorf("Decode(%x) encodes back to %x", b, back)
		}
	})
}

// FuzzTxn passes arbitrary bodies of the engine's own commands to Check and, if it accepts them, to
// Apply: no panic.
func FuzzTxn(f *testing.F) {
	f.Add(uint8(1), []byte{0, 1, 7, 1, 15, 1, 0, 0, 1, 1})
	f.Add(uint8(4), []byte{0, 0})
	f.Add(uint8(5), []byte{1})
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		r := newRig(t, 1)
		cmd := engine.Command{Kind: kind, Namespace: "n", Body: body}
		wire := engine.NewWire([]engine.Primitive{toy.Primitive()})
		if r.execs[0].Check(cmd) != nil || wire.Admit(cmd, 1<<20) != nil || slicesContainPanic(body) {
			return
		}
		r.apply(0, cmd)
	})
}

// slicesContainPanic detects the toy's own Panic command, which the fuzzer must not run.
func slicesContainPanic(body []byte) bool {
	return slices.Contains(body, toy.Panic) && slices.Contains(body, byte(engine.MachineTest))
}

func TestDurableApplied(t *testing.T) {
	r := newRig(t, 1)
	r.apply(0, addTo("a", 1).In("n"))
	if a, err := engine.DurableApplied(r.db, 0); err != nil || a.Index != 0 {
		t.Errorf("DurableApplied before a flush = %+v, %v; want index 0", a, err)
	}
	if err := r.db.Flush(); err != nil {
		t.Fatal(err)
	}
	want := r.execs[0].Applied()
	if a, err := engine.DurableApplied(r.db, 0); err != nil || a != want {
		t.Errorf("DurableApplied after a flush = %+v, %v; want %+v", a, err, want)
	}
	if a, err := engine.ReadApplied(r.db, 0); err != nil || a != want {
		t.Errorf("ReadApplied = %+v, %v; want %+v", a, err, want)
	}
	if a, err := engine.ReadApplied(r.db, 1); err != nil || a != (engine.Applied{}) {
		t.Errorf("ReadApplied of a shard without data = %+v, %v", a, err)
	}
	r.tampered = true
	r.set(own+"a", []byte("x"))
	if _, err := engine.ReadApplied(r.db, 0); err == nil || !strings.HasPrefix(err.Error(), "shard 0: applied row") {
		t.Errorf("ReadApplied of a damaged row: %v", err)
	}
}

// TestDamagedRowsAreErrors checks that an unreadable row makes Restore fail with the row's name and
// is not misread as another kind.
func TestDamagedRowsAreErrors(t *testing.T) {
	for _, c := range []struct{ name, key, value, want string }{
		{"applied", "a", "\x07", "applied row"},
		{"namespace", "n\x00\x00\x00\x00", "\x01\xff", "namespace row"},
		{"namespace number", "n\x00\x00\x00\x09", "\x01\x01a\x00\x00\x00", "out of order"},
		{"namespace with more", "n\x00\x00\x00\x00", "\x01\x01a\x00\x00\x00x", "namespace row: malformed record"},
		{"timer", "t", "", "timer row"},
		{"message", "o\x00\x00\x0f", "", "outbox row 6f00000f has 4 bytes, want 24"},
		{"message for no shard", "o\x00\x01\x0f" + strings.Repeat("\x00", 19) + "\x05", "", "message 5 for shard 1: there are 1 shards"},
	} {
		r := newRig(t, 1)
		r.tampered = true
		lower, _ := engine.Bounds(0)
		if err := r.db.Set(append(append(lower, 0), c.key...), []byte(c.value), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
		if err := r.execs[0].Restore(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Restore = %v, want an error with %q", c.name, err, c.want)
		}
	}
}
