package action

import (
	"math/rand/v2"
	"testing"

	"github.com/floedb/floe/internal/call"
)

// TestInvokeBehindDelayed: an invocation that finds a delayed run due, before the timer has told so, makes a run with a number of its own in the lane. Both
// had the same, and the shard stopped.
func TestInvokeBehindDelayed(t *testing.T) {
	for _, key := range []string{"", "key"} {
		w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
		w.register("a", defaultSpec)
		session := w.open(group{"", []string{"a"}})
		var all []call.Ref
		for _, delay := range []int64{10, 10, 0, 0} {
			i, err := w.invoke(call.Invoke{Name: "a", Delay: delay, ConcurrencyKey: key})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, i.Ref)
			if delay > 0 {
				w.r.Pass(delay)
			}
		}
		got, err := w.work(workCommand{session: session, wants: []want{{0, "w", 10}}})
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
