package action

import (
	"math/rand/v2"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// ground is a namespace with a session, a worker that calls on its own, and runs in several states.
type ground struct {
	*world
	session                uint64
	running, alone, waited protocol.Ref // assigned to the session, to worker "w", to no worker
}

func newGround(t testing.TB) *ground {
	w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
	w.register("a", defaultSpec)
	g := &ground{world: w, session: w.open(group{"", []string{"a"}})}
	take := func(c workBody) protocol.Ref {
		i, err := w.invoke(protocol.Invoke{Name: "a", Input: []byte("1")})
		if err != nil {
			t.Fatal(err)
		}
		if len(c.wants) == 0 {
			return i.Ref
		}
		res, err := w.work(c)
		if err != nil || len(res.taken) != 1 {
			t.Fatalf("took %+v, %v", res, err)
		}
		return res.taken[0].ref
	}
	g.running = take(workBody{session: g.session, wants: []want{{0, "v", 1}}})
	g.alone = take(workBody{self: "w", group: group{"", []string{"a"}}, wants: []want{{0, "w", 1}}, listed: true})
	g.waited = take(workBody{})
	return g
}

// bodies returns user commands of each kind.
func (g *ground) bodies() []engine.Op {
	labels := engine.AppendHeaders(nil, map[string]string{"gpu": "a", "zone": ""})
	odd := "\xff" // keys and messages need not be UTF-8
	ends := []end{
		{ref: g.running, attempt: 1, how: completed, outcome: "approved", output: []byte("\xff"), delay: -1},
		{ref: g.alone, begun: 1, how: failed, code: "c", message: odd, delay: 5}, {ref: g.waited, how: refused}, {ref: g.running,
			how: released, output: []byte{}},
	}
	s := defaultSpec
	s.owner, s.rate = odd, rate{10, 1000, 5}
	bare := workBody{self: "w", group: group{string(labels), []string{"a", "b"}}, wants: []want{{0, "w", 2}}, listed: true}
	full := bare
	full.ends, full.waiting = ends, 3
	invocation := protocol.Invoke{
		Input: []byte(" [1]\n"), Priority: 3, Delay: 5, Timeout: 7, MaxAttempts: 2, Labels: labels, ConcurrencyKey: odd,
		IdempotencyKey: odd, Awaited: true, Expires: 9,
	}
	plan := plan{3, labels, odd, []byte("{}")}
	return []engine.Op{
		invokeRun.Op("a", invocation, nil), invokeRun.Op("a", protocol.Invoke{}, nil), invokeRun.Op("a", protocol.Invoke{Labels: []byte{}},
			nil),
		cancelRun.Op("", protocol.Cancel{Ref: g.waited, Reason: odd}, nil), cancelRun.Op("", protocol.Cancel{Ref: g.running}, nil),
		register.Op("b", s, nil), register.Op("a", defaultSpec, nil), enable.Op("a", false, nil), remove.Op("a", true, nil), remove.Op("a",
			false, nil),
		openSession.Op("", openBody{process: "p", groups: []group{{"", []string{"a"}}, {string(labels), []string{"a", "b"}}}}, nil),
		openSession.Op("", openBody{session: g.session, process: "q"}, nil),
		takeRuns.Op("", bare, nil), takeRuns.Op("", full, nil), takeRuns.Op("",
			workBody{session: g.session, ends: ends[:1], wants: []want{{0, "v", 1}, {0, "u", 2}}}, nil),
		takeRuns.Op("", workBody{session: g.session, wants: []want{{7, "v", 1}}}, nil),
		touchRun.Op("", touchBody{session: g.session, ref: g.running, attempt: 1, extend: 5}, nil), touchRun.Op("",
			touchBody{self: "w", ref: g.alone, extend: maxMillis, begun: 1}, nil),
		closeSession.Op("", sessionBody{session: g.session}, nil), closeSession.Op("", sessionBody{self: "w"}, nil),
		setSchedule.Op("a", scheduleBody{"s", times{cron: "*/5 * * * *", zone: "Europe/Berlin", limit: 7, catchUp: CatchUpAll}, plan, true},
			nil),
		setSchedule.Op("a", scheduleBody{name: "s", times: times{every: 1000, anchor: -3, overlap: OverlapReplace, limit: 1}}, nil),
		deleteSchedule.Op("a", scheduleName{name: "s"}, nil), pauseSchedule.Op("a", scheduleName{"s", true}, nil), triggerSchedule.Op("a",
			scheduleName{name: "s"}, nil),
		settleRuns.Op("", workBody{session: g.session, ends: ends[:1]}, nil), settleRuns.Op("", workBody{self: "w", ends: ends[1:2]}, nil),
		endRun.Op("", workBody{session: g.session, ends: ends[:1]}, nil), endRun.Op("", workBody{self: "w", ends: ends[1:2]}, nil),
		checkHeld.Op("", touchBody{self: "w", ref: g.alone, attempt: 1, begun: 1, extend: 1}, nil),
		retryRun.Op("", g.running, nil), hurryRun.Op("", g.waited, nil),
	}
}

// FuzzApplyCommand applies arbitrary bodies. Each is refused or applied, an admitted one survives
// JSON and does not stop the shard, and all rows stay valid.
func FuzzApplyCommand(f *testing.F) {
	p := table()
	for _, op := range newGround(f).bodies() {
		cmd, err := op.Limit(1 << 20)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(cmd.Kind, cmd.Body)
		f.Add(cmd.Kind%uint8(len(p.Commands))+1, cmd.Body)
	}
	f.Add(uint8(0), []byte{})
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		cmd := engine.Command{Machine: engine.MachineAction, Kind: kind, Namespace: "n", Body: body}
		of := p.Command(kind)
		if of == nil || of.From&engine.FromUsers == 0 {
			return // commands of leaders and machines are trusted
		}
		admitted := p.Admit(cmd, 1<<20)
		if admitted == nil && of.Show != nil {
			machinetest.SameInJSON(t, p, cmd)
		}
		g := newGround(t)
		for range 2 {
			out, stopped := g.r.Try(0, cmd)
			if stopped {
				if admitted == nil {
					t.Errorf("kind %d, body %q is admitted and stops the shard", kind, body)
				}
				return
			}
			g.definite(out.Err)
			g.r.Verify()
			if admitted != nil {
				return // timers trust what only machines may set, such as whom to tell of an end
			}
			g.r.Pass(1000)
			g.r.Fire()
			g.r.Verify()
		}
	})
}
