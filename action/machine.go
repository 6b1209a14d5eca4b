package action

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/workers"
)

// Timer tokens.
const (
	tokenAction  = 'a' // followed by the id (u64)
	tokenSession = 's' // followed by the session (u64)
)

// machine is the state machine of the actions of one shard. It caches no rows.
type machine struct {
	workers workers.Registry
	calls   engine.Calls[*work] // calls and work belong to the goroutine that applies
	work    *work

	mu         sync.Mutex       // guards the fields below, which only the leader's duty uses
	heartbeats map[uint64]int64 // last heartbeat of each session, ms by engine.View.Mono
	term       uint64           // in which the duty last started
	lease      int64            // session lease in ms; 0: leaseMillis
	next       int64            // next check of the sessions, or the last one, ms as in heartbeats; 0: unknown
}

// work holds the actions and sessions that a command, timer or reply has read and may have changed.
type work struct {
	m        *machine
	tx       *engine.Tx
	name     string // of the action in the command, or ""
	actions  []*act
	byName   map[string]*act // actions by name; a deleted action is replaced by a new one
	byNumber map[uint64]*act
	sessions []*session
	told     bool   // a notification of a run's end was sent
	waiting  int64  // takes waiting on the same topics as the current one
	buf      []byte // for keys
	row      []byte // for values
}

// act is an action while a command changes it.
type act struct {
	record
	*work
	name    string
	deleted bool // only its grave is left
	changed bool
	dropped bool    // its rows are removed
	woken   []int64 // by label set: number of runs that became ready
	ended   int     // number of runs that the command ended
	share   int64   // number of runs that this command may still take
	shared  bool    // share is set
	match   []match // by worker labels: the label sets they may take
	moves   int     // number of changes of the next run

	read, touched        uint64 // label sets read and changed, as bits
	labelled, relabelled bool   // the labels of the sets were read, and changed
}

// session is a worker's session while a command changes it.
type session struct {
	sessionRow
	id      uint64
	changed bool
	dropped bool
}

// fewActions is the maximum size of the maps that a work keeps for the next command.
const fewActions = 32

func (m *machine) start(tx *engine.Tx) *work {
	w := m.work
	if w == nil {
		w = &work{m: m}
		m.work = w
	}
	if len(w.actions) > fewActions {
		w.byName, w.byNumber = nil, nil // clearing large maps for each command would be slow
	}
	clear(w.byName)
	clear(w.byNumber)
	clear(w.actions)
	clear(w.sessions)
	w.tx, w.actions, w.sessions, w.told = tx, w.actions[:0], w.sessions[:0], false
	return w
}

// Leave removes workers that the namespace no longer needs.
func (m *machine) Leave(tx *engine.Tx) (found bool) { return m.workers.Clear(tx) }

// Restore does nothing: actions are read on use.
func (m *machine) Restore(*engine.View) error { return nil }

// Apply executes a command.
func (m *machine) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	switch cmd.Kind {
	case kindJoin, kindLeave, kindNote:
		return m.workers.Apply(tx, cmd)
	}
	call, err := m.calls.Read(cmd)
	if err != nil {
		return nil, err
	}
	w := m.start(tx)
	w.name = string(call.Subject())
	if call.Subject() != nil { // nil for a command without a name; an empty name is not nil
		if err := checkAction(w.name); err != nil {
			return nil, err
		}
	}
	result, err := call.Apply(w)
	if err != nil {
		return nil, err
	}
	w.save()
	return result, nil
}

// OnTimer processes due runs and sessions.
func (m *machine) OnTimer(tx *engine.Tx, token []byte) {
	w := m.start(tx)
	number := binary.BigEndian.Uint64(token[1:])
	switch token[0] {
	case tokenAction:
		w.byID(number) // opening the action processes what is due
	case tokenSession:
		if s := w.session(number); s != nil {
			w.timeOut(s)
		}
	default:
		panic(fmt.Sprintf("action: unknown timer token %q", token))
	}
	w.save()
}

// OnReply receives the replies of other shards to updates from an action's home. Other shards
// cannot refuse such updates.
func (m *machine) OnReply(_ *engine.Tx, r engine.Reply) {
	if r.Err != nil {
		panic(fmt.Sprintf("action: another shard refused: %v", r.Err))
	}
}

// action returns an action, or nil if it does not exist.
func (w *work) action(name string) *act {
	if a := w.byName[name]; a != nil && !a.deleted && !a.dropped {
		return a
	}
	w.buf = namedKey(w.buf[:0], rowAction, w.tx.Namespace(), name)
	b, ok := w.tx.Get(w.buf)
	if !ok {
		return nil
	}
	return w.opened(&act{record: must(decode(b, (*record).code)), work: w, name: name})
}

// byID returns the action with a number, even a deleted one, or nil if it does not exist.
func (w *work) byID(id uint64) *act {
	if a := w.byNumber[id]; a != nil && !a.dropped {
		return a
	}
	w.buf = numberKey(w.buf[:0], rowName, id)
	b, ok := w.tx.Get(w.buf)
	if !ok {
		return nil
	}
	n := must(decode(b, (*nameRow).code))
	switch {
	case n.ns != w.tx.Namespace():
		return nil
	case !n.deleted:
		return w.action(n.name)
	}
	w.buf = numberKey(w.buf[:0], rowGrave, id)
	b, ok = w.tx.Get(w.buf)
	if !ok {
		panic(fmt.Sprintf("action: deleted action %d has no row", id))
	}
	return w.opened(&act{record: must(decode(b, (*record).code)), work: w, name: n.name, deleted: true})
}

// opened is called after an action has been read. It processes due work, as the action's timer
// would.
func (w *work) opened(a *act) *act {
	if a.read = 1; a.inline {
		a.read, a.touched, a.labelled, a.relabelled, a.inline = ^uint64(0), ^uint64(0), true, true, false
	}
	w.add(a)
	if a.timer <= w.tx.Now() {
		a.catchUp()
		w.tx.Step() // due runs used numbers in their lanes, so a new run needs another one
	}
	return a
}

// add adds an action to the work.
func (w *work) add(a *act) {
	if w.byName == nil {
		w.byName, w.byNumber = make(map[string]*act), make(map[uint64]*act)
	}
	w.actions = append(w.actions, a)
	if w.byNumber[a.id] = a; !a.deleted {
		w.byName[a.name] = a
	}
}

// save writes the changes and wakes waiters that can now proceed.
func (w *work) save() {
	for _, s := range w.sessions {
		if s.changed && !s.dropped {
			w.buf = numberKey(w.buf[:0], rowSession, s.id)
			w.row = encode(w.row[:0], &s.sessionRow, (*sessionRow).code)
			w.tx.Set(w.buf, w.row)
		}
	}
	for _, a := range w.actions {
		if a.changed && !a.dropped {
			a.save()
		}
	}
}

func (a *act) save() {
	if a.deleted && a.pending+a.running+a.unconfirmed == 0 {
		a.drop()
		return
	}
	if a.ended > 0 {
		if slack := int(a.slack()); a.kept > a.retainRuns+int64(slack) && a.handover <= a.tx.Now() {
			a.forgetEnded(slack + a.ended + 1) // more than were added, because the limit may have been lowered
		}
		a.schedule(a.nextDue())
	}
	a.buf = namedKey(a.buf[:0], rowAction, a.tx.Namespace(), a.name)
	if a.deleted {
		a.buf = numberKey(a.buf[:0], rowGrave, a.id)
	}
	a.saveSets()
	a.row = encode(a.row[:0], &a.record, (*record).code)
	a.tx.Set(a.buf, a.row)
	for i, n := range a.woken {
		if n > 0 && !a.deleted && i < len(a.sets) {
			a.tx.Notify(setTopic(a.tx.NamespaceName(), a.name, a.labelsOf(uint8(i))), int(min(n, maxTaken)))
		}
	}
}

// wake notes that n runs with a label set are ready.
func (a *act) wake(set uint8, n int64) {
	for len(a.woken) <= int(set) {
		a.woken = append(a.woken, 0)
	}
	a.woken[set] += n
}

// schedule sets the action's timer to fire at a time or earlier.
func (a *act) schedule(at int64) {
	a.changed = a.tx.Advance(&a.timer, at, tokenAction, a.id) || a.changed
}

// unschedule removes the action's timer.
func (a *act) unschedule() { a.tx.Halt(&a.timer, tokenAction, a.id) }

// setTopic is the topic for ready runs of an action with a label set.
func setTopic(namespace, name, labels string) engine.Topic {
	return engine.TopicOf(engine.MachineAction, namespace, []byte("s"+name+"\x00"+labels))
}

// setsTopic is the topic for new label sets of an action.
func setsTopic(namespace, name string) engine.Topic {
	return engine.TopicOf(engine.MachineAction, namespace, []byte("l"+name))
}

// endCause is the cause of commands that follow the end of an action's run.
func endCause(namespace string, id uint64) engine.Topic {
	return engine.TopicOf(engine.MachineAction, namespace, key.AppendUint64([]byte{'e'}, id))
}

// runTopic is the topic for the end of a run.
func runTopic(namespace string, ref protocol.Ref) engine.Topic {
	return engine.TopicOf(engine.MachineAction, namespace, runKey([]byte{'r'}, 0, ref.Action, ref.Run))
}

// sessionTopic is the topic for changes of a session's runs.
func sessionTopic(namespace string, session uint64) engine.Topic {
	return engine.TopicOf(engine.MachineAction, namespace, key.AppendUint64([]byte{'o'}, session))
}

// must returns v. It panics on an error, since only the machine itself writes its rows.
func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("action: %v", err))
	}
	return v
}

func mustClose(it *engine.Iter) {
	if err := it.Close(); err != nil {
		panic(err)
	}
}
