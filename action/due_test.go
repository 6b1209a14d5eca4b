package action

import (
	"math/rand/v2"
	"testing"

	"github.com/floedb/floe/internal/protocol"
)

// TestLateResult: a result of an attempt that is over is refused, even if the same process has the
// next attempt.
func TestLateResult(t *testing.T) {
	w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
	s := defaultSpec
	s.timeout, s.backoffMin, s.backoffMax = 1000, 0, 0
	w.register("a", s)
	session := w.open(group{"", []string{"a"}})
	if _, err := w.invoke(protocol.Invoke{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	take := []want{{0, "w", 1}}
	first, err := w.work(workBody{session: session, wants: take})
	if err != nil || len(first.taken) != 1 {
		t.Fatal(len(first.taken), err)
	}
	w.r.Advance(1000)
	second, err := w.work(workBody{session: session, wants: take})
	if err != nil || len(second.taken) != 1 || second.taken[0].attempt != 2 {
		t.Fatalf("%+v, %v", second.taken, err)
	}
	for i, want := range []verdict{overtaken, accepted, overtaken} {
		e := end{ref: first.taken[0].ref, attempt: int64(1 + i%2), how: completed, output: []byte("1")}
		if res, err := w.work(workBody{session: session, ends: []end{e}}); err != nil || res.verdicts[0] != want {
			t.Errorf("the result of attempt %d: %v, %v, want %v", e.attempt, res.verdicts, err, want)
		}
	}
}

// TestInvokeBehindDelayed: an invocation may find a delayed run due before its timer has fired. The
// new run gets its own number in the lane. Both used to have the same number, which stopped the
// shard.
func TestInvokeBehindDelayed(t *testing.T) {
	for _, key := range []string{"", "key"} {
		w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
		w.register("a", defaultSpec)
		session := w.open(group{"", []string{"a"}})
		var all []protocol.Ref
		for _, delay := range []int64{10, 10, 0, 0} {
			i, err := w.invoke(protocol.Invoke{Name: "a", Delay: delay, ConcurrencyKey: key})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, i.Ref)
			if delay > 0 {
				w.r.Pass(delay)
			}
		}
		got, err := w.work(workBody{session: session, wants: []want{{0, "w", 10}}})
		if err != nil || len(got.taken) != len(all) {
			t.Fatalf("%d runs are taken, %v, want %d", len(got.taken), err, len(all))
		}
		for i, one := range got.taken {
			if one.ref != all[i] {
				t.Errorf("run %v comes as number %d, want %v", one.ref, i, all[i])
			}
		}
	}
}
