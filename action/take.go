package action

import (
	"bytes"
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/workers"
)

// workOn settles attempts and takes runs. The takes follow invocations that result from the ends.
func (w *work) workOn(c *workBody) ([]byte, error) {
	if c.session == 0 && len(c.wants) > 0 {
		if err := workers.CheckTakes(w.tx, c.self); err != nil {
			return nil, err
		}
	}
	var res worked
	s, err := w.sessionOf(c)
	if err != nil {
		late := false // the session of a polling worker is removed with its last run
		for i := range c.ends {
			late = c.session == 0 && w.returnedLate(&c.ends[i]) || late
			res.verdicts = append(res.verdicts, overtaken)
		}
		if !late {
			return nil, err
		}
		return res.encode(), nil
	}
	for i := range c.ends {
		res.verdicts = append(res.verdicts, w.settle(s, &c.ends[i]))
	}
	if c.session == 0 && len(c.ends) > 0 {
		w.m.workers.Called(w.tx, c.self)
	}
	if w.told && len(c.wants) > 0 {
		w.tx.Conclude()
		if c.session == 0 {
			w.keepSelf(s)
		}
		return res.encode(), nil
	}
	return w.takeAll(s, c, res)
}

// Conclude takes runs after the follow-ups of the reported ends.
func (m *machine) Conclude(tx *engine.Tx, cmd engine.Command, result []byte) ([]byte, error) {
	_, c, err := takeRuns.Read(cmd)
	c = must(c, err)
	res := must(takeRuns.Decode(result)) // empty if only a due timer notified a caller
	w := m.start(tx)
	s, err := w.sessionOf(&c)
	if err == nil {
		result, err = w.takeAll(s, &c, res)
	}
	if err != nil {
		return nil, err
	}
	w.save()
	return result, nil
}

// takeAll takes runs for all wants.
func (w *work) takeAll(s *session, c *workBody, res worked) ([]byte, error) {
	w.waiting = int64(c.waiting)
	size, menus := 0, make(map[int]*menu)
	for i := range c.wants {
		if s.held >= maxHeld || size > maxTakenBytes {
			break
		}
		want := &c.wants[i]
		if want.group >= len(s.groups) {
			return nil, engine.Errorf(ErrInvalid, "action: session %d has %d groups, not %d", s.id, len(s.groups), want.group+1)
		}
		if menus[want.group] == nil {
			menus[want.group] = w.menu(&s.groups[want.group])
		}
		res.taken = w.takeFor(s, i, want, menus[want.group], res.taken, &size)
	}
	if c.session == 0 {
		w.given(c, res.taken)
		w.keepSelf(s)
	}
	return res.encode(), nil
}

// given registers a polling worker when it gets runs. Takes without the flag listed come from
// builds that did not register such workers, and their result must not change.
func (w *work) given(c *workBody, all []taken) {
	if !c.listed || len(all) == 0 {
		return
	}
	var actions []string
	for i := range all {
		actions = append(actions, all[i].action)
	}
	w.m.workers.Took(w.tx, c.self, actions)
}

// takeFor takes runs for a worker.
func (w *work) takeFor(s *session, index int, want *want, m *menu, all []taken, size *int) []taken {
	for n := 0; n < want.slots && s.held < maxHeld && *size <= maxTakenBytes; n++ {
		c := m.choose()
		for c != nil && c.keyed && c.a.sweep && !c.a.hasSlot(c) {
			c = m.choose()
		}
		if c == nil {
			break
		}
		t := c.a.begin(s, c, want.worker)
		t.want = index
		*size += len(t.input) + 200
		all = append(all, t)
	}
	return all
}

// candidate is a run that may be taken next: of one label set of an action.
type candidate struct {
	a        *act
	set      uint8
	keyed    bool // next of a lane with a key; otherwise the next without a key
	priority uint8
	turn     uint64 // turn among those of one priority of the action; for a lane it is read on demand, see whose
	looked   bool
}

// before orders candidates by priority, then by the turns of actions, then by their own turns.
func (c *candidate) before(o *candidate) bool {
	if o.a == nil {
		return true
	}
	if c.priority != o.priority {
		return c.priority < o.priority
	}
	if c.a != o.a {
		return c.a.served < o.a.served
	}
	return c.whose() < o.whose()
}

// whose returns the turn. For the first lane it reads the index, which is needed only if there are
// others of the same priority.
func (c *candidate) whose() uint64 {
	if c.keyed && !c.looked {
		c.turn, _ = c.a.firstTurn(c.set)
		c.looked = true
	}
	return c.turn
}

// menu lists the runs that workers of a group may take: the next run of each action that has one. A
// command builds it once, and updates an action only after taking one of its runs. So the cost is
// proportional to the number of names and of runs taken.
type menu struct {
	labels  string
	entries []menuEntry // in the order of the group's names
}

type menuEntry struct {
	next  candidate
	moves int // of the action at the time of the entry
}

func (w *work) menu(g *group) *menu {
	m := &menu{labels: g.labels}
	seen := make(map[*act]bool, len(g.names))
	for _, name := range g.names {
		a := w.action(name)
		if a == nil || seen[a] {
			continue
		}
		if c := a.nextFor(g.labels); c.a != nil {
			seen[a] = true
			m.entries = append(m.entries, menuEntry{c, a.moves})
		}
	}
	return m
}

// choose returns the next run, nil if none exists.
func (m *menu) choose() (best *candidate) {
	left := m.entries[:0]
	for _, e := range m.entries {
		if a := e.next.a; e.moves != a.moves {
			if e = (menuEntry{a.nextFor(m.labels), a.moves}); e.next.a == nil {
				continue // nothing in this command allows it to start
			}
		}
		left = append(left, e)
		if c := &left[len(left)-1].next; best == nil || c.before(best) {
			best = c
		}
	}
	m.entries = left
	return best
}

// nextFor returns the next run of the action for workers with the given labels, if the command may
// start one.
func (a *act) nextFor(labels string) (best candidate) {
	if !a.opens() {
		return best
	}
	sets := a.matching(labels)
	for i := range a.sets {
		if sets>>i&1 == 0 || !a.ready(i) {
			continue
		}
		set := a.set(uint8(i))
		if h := set.queue.first(); h != nil {
			if c := (candidate{a: a, set: uint8(i), priority: h.priority, turn: set.turn}); c.before(&best) {
				best = c
			}
		}
		if h := set.lanes.first(); h != nil {
			if c := (candidate{a: a, set: uint8(i), keyed: true, priority: h.priority}); c.before(&best) {
				best = c
			}
		}
	}
	return best
}

// opens reports whether the command may start one more run of the action.
func (a *act) opens() bool {
	if a.pending == a.delayed || a.maxRunning > 0 && a.busy() >= a.maxRunning || a.nextAllowed() > a.tx.Now() {
		return false
	}
	if !a.shared {
		a.shared, a.share = true, shareOf(a.pending-a.delayed, a.waiting)
	}
	return a.share > 0
}

// busy returns the number of occupied slots.
func (a *act) busy() int64 {
	return a.running + a.unconfirmed
}

// shareOf returns how many of the ready runs one command takes when several takes wait for them.
// Otherwise an idle worker could wait while another worker holds a run that it has not started.
func shareOf(ready, waiting int64) int64 {
	waiting = max(waiting, 1)
	return ready/waiting + min(1, ready%waiting)
}

// Share implements engine.Sharer.
func (m *machine) Share(cmd engine.Command, waiting int) engine.Command {
	if _, c, err := takeRuns.Read(cmd); err == nil {
		c.waiting = waiting
		cmd.Body = codec.EncodeFields(make([]byte, 0, len(cmd.Body)+2), &c, (*workBody).code)
	}
	return cmd
}

// nextAllowed returns when the rate allows the next run, ms.
func (r *record) nextAllowed() int64 {
	if r.rate.limit == 0 {
		return 0
	}
	at := r.allowed - (r.rate.burst-1)*r.rate.interval()
	return at/microsPerMilli + min(1, at%microsPerMilli)
}

// interval returns the time between runs at the rate, µs.
func (r *rate) interval() int64 { return max(r.per*microsPerMilli/r.limit, 1) }

// match maps worker labels to the label sets that they satisfy.
type match struct {
	labels string
	sets   uint64
}

// matching returns the sets of the action that workers with the labels may take, as bits.
func (a *act) matching(labels string) (sets uint64) {
	for _, m := range a.match {
		if m.labels == labels {
			return m.sets
		}
	}
	a.readLabels()
	sets = a.record.matching(labels)
	a.match = append(a.match, match{labels, sets})
	return sets
}

func (r *record) matching(labels string) (sets uint64) {
	for i := range r.sets {
		if hasLabels(labels, r.sets[i].labels) {
			sets |= 1 << i
		}
	}
	return sets
}

// begin starts an attempt of the chosen run.
func (a *act) begin(s *session, c *candidate, worker string) taken {
	now := a.tx.Now()
	ref, st, row := a.next(c)
	a.unexpect(ref, st)
	st.status, st.session, st.worker, st.startedAt = Running, s.id, worker, now
	st.attempts++
	st.begun++
	st.flags |= flagHeld
	a.setState(ref, st)
	h := held{deadline: now + row.timeout}
	a.tx.Insert(heldKey(nil, s.id, a.id, ref.Run), encode(nil, &h, (*held).code))
	s.held++
	s.changed = true
	a.work.scheduleSession(s, h.deadline)
	a.pending--
	a.running++
	a.share--
	a.moves++
	a.served = uint64(a.tx.Step())
	if a.rate.limit > 0 {
		a.allowed = max(a.allowed, (now-rateSlackMillis)*microsPerMilli) + a.rate.interval()
	}
	t := taken{
		ref: ref, action: a.name, attempt: st.attempts, begun: st.begun, maxAttempts: st.maxAttempts, timeout: row.timeout,
		createdAt: row.createdAt, priority: row.priority,
		labels: []byte(a.labelsOf(row.set)), key: row.key, idempotencyKey: row.idempotencyKey, source: row.source, code: st.code,
		message: st.message,
		input:   row.input,
	}
	if s.self {
		t.deadline = h.deadline
	}
	return t
}

// next removes the chosen run from its lane and ends the lane's turn.
func (a *act) next(c *candidate) (protocol.Ref, *stateRow, *runRow) {
	a.changed = true
	if set := a.change(c.set); !c.keyed {
		a.turn++
		set.turn = a.turn
		ref, st, row, seq := a.firstIn(uint64(c.set), set.queue.first())
		set.queue.pop(c.priority, seq)
		return ref, st, row
	}
	l := a.firstLane(c.set)
	ref, st, row, seq := a.firstIn(l.number, l.queue.first())
	l.queue.pop(c.priority, seq)
	l.running++
	a.pass(l)
	return ref, st, row
}

// firstLane returns the lane whose turn it is.
func (a *act) firstLane(set uint8) *lane {
	_, name := a.firstTurn(set)
	return a.lane(set, name)
}

// firstTurn returns the first turn among the lanes of a set, and the key of that lane.
func (a *act) firstTurn(set uint8) (turn uint64, name string) {
	h := a.set(set).lanes.first()
	prefix := append(numberKey(nil, rowEligible, a.id), set, h.priority)
	k, value, ok := a.tx.First(key.AppendUint64(bytes.Clone(prefix), h.seq), key.PrefixEnd(prefix))
	if !ok {
		panic(fmt.Sprintf("action %q: %d lanes can be begun, none is found", a.name, h.n))
	}
	return lastOf(k), string(value)
}

// hasSlot reports whether the next run of the chosen lane may start. If not, because its limit was
// lowered, it removes the lane from the index.
func (a *act) hasSlot(c *candidate) bool {
	l := a.firstLane(c.set)
	if a.freeSlot(l, a.siblings(l)) {
		return true
	}
	a.moves++
	a.settleLane(l)
	return false
}

// pass ends the turn of the first lane, whose run is starting.
func (a *act) pass(l *lane) {
	a.tx.Delete(eligibleKey(nil, a.id, l.set, l.priority, l.turn))
	a.change(l.set).lanes.pop(l.priority, l.turn)
	a.turn++
	l.eligible, l.turn = false, a.turn
	a.settleKey(l, false)
}

// firstIn returns the first run of a lane and its seq there, and deletes its row 'w'.
func (a *act) firstIn(number uint64, h *head) (ref protocol.Ref, st *stateRow, row *runRow, seq uint64) {
	prefix := append(laneKey(nil, a.id, number), h.priority)
	k, value, ok := a.tx.First(key.AppendUint64(bytes.Clone(prefix), h.seq), key.PrefixEnd(prefix))
	if !ok {
		panic(fmt.Sprintf("action %q: %d runs wait in lane %d, none is found", a.name, h.n, number))
	}
	seq = lastOf(k)
	ref = protocol.Ref{Action: a.id, Run: runAt(k, value)}
	fresh := len(value) == 0
	a.tx.Delete(k)
	row = a.runOf(ref)
	ref.Tag = row.tag
	if st = row.state(ref); !fresh {
		st = a.stateOf(ref)
	}
	return ref, st, row, seq
}

var (
	_ engine.Taker  = (*machine)(nil)
	_ engine.Sharer = (*machine)(nil)
)

// Takeable returns how many runs a process can take.
func (m *machine) Takeable(v *engine.View, cmd engine.Command, _ bool) (n, most int, err error) {
	if cmd.Kind != kindWork {
		return 0, 0, engine.Errorf(ErrInvalid, "action: command %d takes nothing", cmd.Kind)
	}
	_, c, err := takeRuns.Read(cmd)
	if err != nil {
		return 0, 0, err
	}
	l := look{v: v, namespace: cmd.Namespace}
	groups := []group{c.group}
	if c.session != 0 {
		s, err := l.session(c.session)
		if err != nil {
			return 0, 0, err
		}
		if groups = s.groups; s.held >= maxHeld {
			return 0, most, v.WaitOn(sessionTopic(cmd.Namespace, c.session))
		}
	}
	wanted := make(map[int]bool)
	for i := range c.wants {
		most += c.wants[i].slots
		if g := c.wants[i].group; g < len(groups) && !wanted[g] {
			wanted[g] = true
			if err := l.at(&groups[g]); err != nil {
				return 0, 0, err
			}
		}
	}
	if err := l.wait(); err != nil {
		return 0, 0, err
	}
	if c.session == 0 && len(c.wants) > 0 {
		if err := m.workers.WatchTakes(v, cmd.Namespace, c.self); err != nil {
			return 0, 0, err
		}
	}
	if len(c.ends) > 0 {
		return engine.Any, most, nil
	}
	return int(min(l.n, maxTaken)), most, nil
}

// look checks for runs that workers can take. Even if there are some, callers take them in order;
// see engine.Taker.
type look struct {
	v         *engine.View
	namespace string
	n         int64
	again     int64 // when a rate allows the next run, if that is the obstacle
	busy      []engine.Topic
	idle      []engine.Topic
	sets      []engine.Topic
}

func (l *look) session(id uint64) (sessionRow, error) {
	s, found, err := findSession(l.v, l.namespace, id)
	if err == nil && !found {
		err = noSession(id)
	}
	return s, err
}

// at checks for runs that workers of a group can take.
func (l *look) at(g *group) error {
	now := l.v.Now()
	for _, name := range g.names {
		l.sets = append(l.sets, setsTopic(l.namespace, name))
		r, found, err := findAction(l.v, l.namespace, name)
		switch {
		case err != nil:
			return err
		case !found:
			continue
		case r.timer <= now:
			l.n++ // due work comes first
		}
		open := r.maxRunning == 0 || r.running+r.unconfirmed < r.maxRunning
		if at := r.nextAllowed(); at > now {
			l.v.WakeAt(at)
			if r.pending > r.delayed {
				l.again = min(l.again, at)
			}
			open = false
		}
		if err := r.readLabels(l.v); err != nil {
			return err
		}
		sets := r.matching(g.labels)
		for i := range r.sets {
			if sets>>i&1 == 0 {
				continue
			}
			topic, ready := setTopic(l.namespace, name, r.sets[i].labels), int64(0)
			if i == 0 || r.inline || r.readySets>>i&1 != 0 {
				s, err := r.readSet(l.v, i)
				if err != nil {
					return err
				}
				ready = s.queue.len() + s.lanes.len()
			}
			if r.maxRunning > 0 {
				ready = min(ready, r.maxRunning-r.running-r.unconfirmed)
			}
			if ready <= 0 || !open {
				l.idle = append(l.idle, topic)
				continue
			}
			l.n += ready
			l.busy = append(l.busy, topic)
		}
	}
	return nil
}

// wait waits on the checked topics.
func (l *look) wait() error {
	within, now := protocol.Takers(l.namespace), l.v.Now()
	for _, topics := range [...][]engine.Topic{l.busy, l.idle, l.sets} {
		for _, t := range topics {
			if err := l.v.WaitTurnWithin(within, t, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// Took reports whether a command took runs, settled attempts or failed.
func (m *machine) Took(_ uint8, result []byte, err error) bool { return err != nil || len(result) > 0 }

// Makes lists the commands that create ready runs: those that invoke, and those that end runs on
// which others wait.
func (m *machine) Makes(cmd engine.Command, made func(engine.Made)) {
	switch cmd.Kind {
	case kindInvoke:
		if name, v, err := invokeRun.Read(cmd); err == nil && v.Delay == 0 {
			made(engine.Made{Topic: setTopic(cmd.Namespace, string(name), string(v.Labels)), N: 1})
		}
	case kindCancel:
		if _, v, err := cancelRun.Read(cmd); err == nil {
			made(madeByEnds(cmd.Namespace, v.Ref.Action, 1))
		}
	case kindWork, kindSettle, kindEnd:
		_, c, err := takeRuns.Read(cmd)
		if err != nil {
			return
		}
		for n := 0; n < len(c.ends); {
			first, of := n, c.ends[n].ref.Action
			for n < len(c.ends) && c.ends[n].ref.Action == of {
				n++
			}
			made(madeByEnds(cmd.Namespace, of, n-first))
		}
	}
}

func madeByEnds(namespace string, id uint64, n int) engine.Made {
	return engine.Made{Topic: protocol.Takers(namespace), N: n, Cause: endCause(namespace, id)}
}
