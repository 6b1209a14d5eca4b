package action

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestCommandsOutOfLimits: commands of other clients are checked field by field like those of the
// store, first by admit and then by Apply. TestBounds covers the store's own checks before that.
func TestCommandsOutOfLimits(t *testing.T) {
	const most = 1 << 20
	text := func(n int) string { return strings.Repeat("x", n) }
	invoke := func(change func(v *protocol.Invoke, n int64)) func(n int64) (uint8, []byte) {
		return func(n int64) (uint8, []byte) {
			v := protocol.Invoke{Name: "a"}
			change(&v, n)
			return kindInvoke, encode(nil, &v, (*protocol.Invoke).Code)
		}
	}
	register := func(change func(s *spec, n int64)) func(n int64) (uint8, []byte) {
		return func(n int64) (uint8, []byte) {
			s := defaultSpec
			change(&s, n)
			return kindRegister, body(register, "a", s)
		}
	}
	work := func(change func(c *workBody, n int64)) func(n int64) (uint8, []byte) {
		return func(n int64) (uint8, []byte) {
			c := workBody{session: 1, ends: []end{{how: completed}}, wants: []want{{0, "w", 1}}}
			change(&c, n)
			return kindWork, body(takeRuns, "", c)
		}
	}
	ends := func(change func(e *end, n int64)) func(n int64) (uint8, []byte) {
		return work(func(c *workBody, n int64) { change(&c.ends[0], n) })
	}
	schedule := func(change func(c *scheduleBody, n int64)) func(n int64) (uint8, []byte) {
		return func(n int64) (uint8, []byte) {
			c := scheduleBody{name: "s", times: times{every: 1000, limit: 1}}
			change(&c, n)
			return kindSchedule, body(setSchedule, "a", c)
		}
	}
	open := func(groups, names int) (uint8, []byte) {
		o := openBody{process: "p"}
		for i := range groups {
			g := group{labels: labels(map[string]string{"n": text(i)})}
			for range names {
				g.names = append(g.names, "a")
			}
			o.groups = append(o.groups, g)
		}
		return kindOpen, body(openSession, "", o)
	}
	const none = math.MinInt64
	for _, c := range []struct {
		what        string
		least, most int64
		command     func(n int64) (kind uint8, body []byte)
	}{
		{"delay", 0, maxMillis, invoke(func(v *protocol.Invoke, n int64) { v.Delay = n })},
		{"timeout of a run", 0, maxMillis, invoke(func(v *protocol.Invoke, n int64) { v.Timeout = n })},
		{"expiry", 0, maxMillis, invoke(func(v *protocol.Invoke, n int64) { v.Expires = n })},
		{"attempts of a run", 0, MaxAttemptsLimit, invoke(func(v *protocol.Invoke, n int64) { v.MaxAttempts = n })},
		{"concurrency key", none, MaxKeyBytes, invoke(func(v *protocol.Invoke, n int64) { v.ConcurrencyKey = text(int(n)) })},
		{"idempotency key", none, MaxKeyBytes, invoke(func(v *protocol.Invoke, n int64) { v.IdempotencyKey = text(int(n)) })},
		{"labels", none, MaxLabelBytes, invoke(func(v *protocol.Invoke,
			n int64) {
			v.Labels = []byte(labels(map[string]string{"l": text(int(n) - 1)}))
		})},
		{"name", 1, 255, invoke(func(v *protocol.Invoke, n int64) { v.Name = text(int(n)) })},
		{"timeout", 1, maxMillis, register(func(s *spec, n int64) { s.timeout = n })},
		{"retries", 0, MaxAttemptsLimit - 1, register(func(s *spec, n int64) { s.maxRetries = n })},
		{"shortest back-off", 0, maxMillis, register(func(s *spec, n int64) { s.backoffMin, s.backoffMax = n, max(n, 0) })},
		{"longest back-off", defaultBackoffMin, maxMillis, register(func(s *spec, n int64) { s.backoffMax = n })},
		{"retention", 1, maxMillis, register(func(s *spec, n int64) { s.retainFor = n })},
		{"retained runs", 0, MaxRetainedRuns, register(func(s *spec, n int64) { s.retainRuns = n })},
		{"running", 0, MaxRunningLimit, register(func(s *spec, n int64) { s.maxRunning = n })},
		{"running per key", 0, MaxRunningLimit, register(func(s *spec, n int64) { s.maxPerKey = n })},
		{"rate", 1, MaxRateLimit, register(func(s *spec, n int64) { s.rate = rate{n, 1000, 1} })},
		{"burst", 1, MaxRateLimit, register(func(s *spec, n int64) { s.rate = rate{10, 1000, n} })},
		{"time of the rate", 1, maxRatePer, register(func(s *spec, n int64) { s.rate = rate{1, n, 1} })},
		{"rate of none", 0, 0, register(func(s *spec, n int64) { s.rate = rate{0, max(n, 0), min(n, 0)} })},
		{"owner", none, MaxTextBytes, register(func(s *spec, n int64) { s.owner = text(int(n)) })},
		{"description", none, MaxTextBytes, register(func(s *spec, n int64) { s.description = text(int(n)) })},
		{"way to end", int64(completed), int64(snoozed), ends(func(e *end, n int64) { e.how = how(n) })},
		{"attempt", 0, none, ends(func(e *end, n int64) { e.attempt = n })},
		{"times begun", 0, none, ends(func(e *end, n int64) { e.begun = n })},
		{"outcome", none, MaxOutcomeBytes, ends(func(e *end, n int64) { e.outcome = text(int(n)) })},
		{"code", none, MaxOutcomeBytes, ends(func(e *end, n int64) { e.how, e.code = failed, text(int(n)) })},
		{"error", none, MaxErrorBytes, ends(func(e *end, n int64) { e.how, e.message = failed, text(int(n)) })},
		{"wait for the next attempt", none, maxMillis, ends(func(e *end, n int64) { e.how, e.delay = failed, n })},
		{"snooze", 0, maxMillis, ends(func(e *end, n int64) { e.how, e.delay = snoozed, n })},
		{"ends", none, maxEnds, work(func(c *workBody, n int64) {
			for len(c.ends) < int(n) {
				c.ends = append(c.ends, c.ends[0])
			}
		})},
		{"takes that wait", 0, none, work(func(c *workBody, n int64) { c.waiting = int(n) })},
		{"runs for a worker", 1, maxTaken, work(func(c *workBody, n int64) { c.wants[0].slots = int(n) })},
		{"runs for workers", none, maxTaken, work(func(c *workBody, n int64) { c.wants = []want{{0, "v", 1}, {0, "w", int(n) - 1}} })},
		{"group", 0, none, work(func(c *workBody, n int64) { c.wants[0].group = int(n) })},
		{"worker", 1, 255, work(func(c *workBody, n int64) { c.wants[0].worker = text(int(n)) })},
		{"groups", none, maxGroups, func(n int64) (uint8, []byte) { return open(int(n), 1) }},
		{"names", none, maxNames, func(n int64) (uint8, []byte) { return open(1, int(n)) }},
		{"names of two groups", none, maxNames / 2, func(n int64) (uint8, []byte) { return open(2, int(n)) }},
		{"touch", 1, maxMillis, func(n int64) (uint8, []byte) {
			return kindTouch, body(touchRun, "", touchBody{session: 1, extend: n})
		}},
		{"reason", none, MaxReasonBytes, func(n int64) (uint8, []byte) {
			return kindCancel, encode(nil, &protocol.Cancel{Reason: text(int(n))}, (*protocol.Cancel).Code)
		}},
		{"caught up", 1, MaxCatchUp, schedule(func(c *scheduleBody, n int64) { c.times.limit = n })},
		{"overlap", int64(OverlapSkip), int64(OverlapReplace), schedule(func(c *scheduleBody, n int64) { c.times.overlap = Overlap(n) })},
		{"rule of catching up", int64(CatchUpOne), int64(CatchUpAll),
			schedule(func(c *scheduleBody, n int64) { c.times.catchUp = CatchUp(n) })},
		{"name of a schedule", 1, MaxScheduleName, schedule(func(c *scheduleBody, n int64) { c.name = text(int(n)) })},
		{"concurrency key of a schedule", none, MaxKeyBytes, schedule(func(c *scheduleBody, n int64) { c.plan.key = text(int(n)) })},
	} {
		t.Run(c.what, func(t *testing.T) {
			w, _ := plain(t, defaultSpec)
			good := make(map[int64]bool) // whether a value is within
			if c.least != none {
				good[c.least-1], good[c.least] = false, true
			}
			if c.most != none {
				good[c.most], good[c.most+1] = true, false
			}
			for n, within := range good {
				kind, body := c.command(n)
				err := admit(engine.Command{Machine: engine.MachineAction, Kind: kind, Namespace: "n", Body: body}, most)
				if within && err != nil || !within && !errors.Is(err, ErrInvalid) {
					t.Errorf("%d: admit = %v", n, err)
				}
				if errors.Is(err, engine.ErrMalformed) {
					continue // it does not reach a log
				}
				if _, err := w.do(kind, body); within == errors.Is(err, ErrInvalid) {
					t.Errorf("%d: Apply = %v", n, err)
				}
			}
		})
	}

	// Only admit checks payloads and fields that only machines set.
	for what, v := range map[string]protocol.Invoke{
		"notifies a machine":        {Name: "a", Notify: protocol.Notify{Machine: engine.MachineWorkflow}},
		"a source":                  {Name: "a", Source: "api"},
		"a key that may be another": {Name: "a", IdempotencyKey: "k", Repeated: true},
		"no JSON":                   {Name: "a", Input: []byte("{")},
		"no UTF-8":                  {Name: "a", Input: []byte("\"\xff\"")},
		"a large input":             {Name: "a", Input: []byte(`"` + text(most) + `"`)},
	} {
		if err := admit(engine.Command{Kind: kindInvoke, Body: encode(nil, &v, (*protocol.Invoke).Code)}, most); !errors.Is(err,
			ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, kind := range []uint8{kindWork, kindEnd} {
		for n, want := range map[int]bool{most: true, most + 1: false} {
			c := workBody{session: 1, ends: []end{{how: completed, output: []byte(text(n))}}}
			if err := admit(engine.Command{Kind: kind, Body: body(takeRuns, "", c)}, most); (err == nil) != want {
				t.Errorf("command %d with an output of %d bytes: %v", kind, n, err)
			}
		}
	}
	for what, c := range map[string]workBody{
		"two ends":   {session: 1, ends: []end{{how: completed}, {how: completed}}},
		"no end":     {session: 1, wants: []want{{0, "w", 1}}},
		"also wants": {session: 1, ends: []end{{how: completed}}, wants: []want{{0, "w", 1}}},
	} {
		if err := admit(engine.Command{Kind: kindEnd, Body: body(takeRuns, "", c)}, most); !errors.Is(err, ErrInvalid) {
			t.Errorf("the end of an attempt with %s: %v", what, err)
		}
	}
	for n, want := range map[int]bool{maxSettled: true, maxSettled + 1: false} {
		c := workBody{session: 1, ends: []end{{how: completed, output: []byte(text(n))}}}
		if err := admit(engine.Command{Kind: kindSettle, Body: body(takeRuns, "", c)}, most); (err == nil) != want {
			t.Errorf("an output of %d bytes on a full disk: %v", n, err)
		}
	}
}

// TestForms: fields that only some forms of a message have arrive, and values that no node writes
// are refused.
func TestForms(t *testing.T) {
	shown := func(code func(*codec.Fields)) string {
		b, _ := codec.AppendJSON(nil, true, code)
		return string(b)
	}
	invoked := Invoked{Run: "r", LSN: 7, Duplicate: true}
	if got, want := shown(invoked.code), `{"run_id":"r","duplicate":true,"lsn":7}`; got != want {
		t.Errorf("%+v is shown as %s, want %s", invoked, got, want)
	}
	one := taken{begun: 3, deadline: 4, labels: []byte(labels(map[string]string{"gpu": "yes"}))}
	for _, part := range []string{`"delivery":3`, `"deadline_ms":4`, `"gpu"`} {
		if got := shown(one.fields); !strings.Contains(got, part) {
			t.Errorf("%+v is shown as %s, without %s", one, got, part)
		}
	}
	place := placeError{"a", "route"}
	if got, err := decode(encode(nil, &place, (*placeError).code), (*placeError).code); err != nil || got != place {
		t.Errorf("%+v arrives as %+v, %v", place, got, err)
	}
	machinetest.TryLimits(t, []machinetest.Limit{
		{Name: "lease", Most: leaseMillis, Beyond: codec.ErrCorrupt, Try: func(n int64) error {
			q := heartbeatQuery{lease: n}
			return engine.DecodeResults(&heartbeatQuery{}, engine.AppendResults(nil, &q))
		}},
		{Name: "sets of an early row", Least: 1, Most: maxSets, Beyond: codec.ErrCorrupt, Try: func(n int64) error {
			c := codec.NewEncoder(nil)
			r := record{sets: make([]labelSet, n)}
			r.codeInline(&c)
			d := codec.NewDecoder(c.Encoded())
			new(record).codeInline(&d)
			return d.Err()
		}},
		{Name: "result of a tick", Least: int64(TickRan), Most: int64(TickMissed), Beyond: codec.ErrCorrupt, Try: func(n int64) error {
			_, err := decode(encode(nil, &tick{result: TickResult(n)}, (*tick).code), (*tick).code)
			return err
		}},
		{Name: "actions of a ready query", Least: math.MinInt64, Most: maxNames, Says: []string{"exceed 1000"}, Try: func(n int64) error {
			q := readyQuery{namespace: "n", worker: "w", group: group{names: slices.Repeat([]string{"a"}, int(n))}}
			return codec.CheckFields(&q, true, (*readyQuery).Arguments)
		}},
	})
	for what, b := range map[string][]byte{"no tag": {1}, "a later version": {2, 0}, "too large a tag": {1, 0x80, 0x80, 4}} {
		if tag, err := tagOfRun(b); err == nil {
			t.Errorf("%s: tag %d", what, tag)
		}
	}
	if tag, err := tagOfRun([]byte{1, 0xff, 0xff, 3}); err != nil || tag != math.MaxUint16 {
		t.Errorf("the largest tag is %d, %v", tag, err)
	}
	c := body(takeRuns, "", workBody{session: 1, ends: []end{{how: completed}}})
	for _, more := range [][]byte{{0}, {0, 0}} {
		if _, err := read(takeRuns, append(slices.Clone(c), more...)); !errors.Is(err, engine.ErrMalformed) {
			t.Errorf("a take with the empty fields %x at its end: %v", more, err)
		}
	}
	unknown := attribute{name: "color", value: "red"}
	err := codec.CheckFields(&unknown, true, (*attribute).code)
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), `"color"`) {
		t.Errorf("an unknown attribute: %v", err)
	}
	if err := codec.CheckFields(&attribute{name: "label.x"}, true, (*attribute).code); err != nil {
		t.Errorf("a label: %v", err)
	}
}
