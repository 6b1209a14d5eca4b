package workflow

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/key"
)

// Timer tokens.
const (
	tokenWorkflow = 'd' // followed by the id (u64)
	tokenRun      = 'r' // followed by the run (u64)
	tokenPlan     = 'p' // followed by the id of the workflow (u64) and the plan
)

// maxRemembered limits the definitions that a shard caches, by the bytes of their compiled forms.
const maxRemembered = 8 << 20

// machine is the state machine of the workflows of one shard. It caches definitions, which never
// change, separately for commands and for queries.
type machine struct {
	definitions *engine.Memory[versionID, *flow.Definition, struct{}]
	calls       engine.Calls[*work] // calls and work belong to the applying goroutine
	work        *work
	seen        seen

	maxCached, maxCachedBytes int64 // of each plan
	maxEvents                 int64 // of each run
	maxVersions               uint32
}

// versionID is a version of a workflow.
type versionID struct {
	id     uint64
	number uint32
}

func newMachine() *machine {
	return &machine{
		calls: commands.NewCalls(), definitions: engine.NewMemory[versionID, *flow.Definition, struct{}](maxRemembered,
			nil), maxCached: MaxCached, maxCachedBytes: MaxCachedBytes, maxEvents: MaxEvents,
		maxVersions: MaxVersions,
	}
}

// Memories returns the machine's caches.
func (m *machine) Memories() []engine.Remembered { return []engine.Remembered{m.definitions} }

// work holds the workflows and runs that a command, timer or reply has read and may have changed.
type work struct {
	m         *machine
	tx        *engine.Tx
	subject   string // workflow name or run ID of the command; "" without a command
	workflows []*openWorkflow
	runs      []*live
	plans     []*known
	buf       []byte // for keys
	row       []byte // for values
}

// openWorkflow is a workflow while a command changes it.
type openWorkflow struct {
	record
	*work
	name    string
	deleted bool // only its grave is left
	changed bool
	dropped bool // its rows are removed
}

func (m *machine) start(tx *engine.Tx) *work {
	w := m.work
	if w == nil {
		w = &work{m: m}
		m.work = w
	}
	clear(w.workflows)
	clear(w.runs)
	clear(w.plans)
	w.tx, w.subject, w.workflows, w.runs, w.plans = tx, "", w.workflows[:0], w.runs[:0], w.plans[:0]
	return w
}

// Restore does nothing: rows are read on use.
func (m *machine) Restore(*engine.View) error {
	m.seen.forget()
	return nil
}

// Apply executes a command.
func (m *machine) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	call, err := m.calls.Read(cmd)
	if err != nil {
		return nil, err
	}
	w := m.start(tx)
	w.subject = string(call.Subject())
	result, err := call.Apply(w)
	if err != nil {
		return nil, err
	}
	w.save()
	return result, nil
}

// OnTimer does due work.
func (m *machine) OnTimer(tx *engine.Tx, token []byte) {
	w := m.start(tx)
	number := binary.BigEndian.Uint64(token[1:9])
	switch token[0] {
	case tokenWorkflow:
		w.byID(number) // reading the workflow does the due work
	case tokenRun:
		w.live(number) // likewise
	case tokenPlan:
		w.expire(number, string(token[9:]))
	default:
		panic(fmt.Sprintf("workflow: unknown timer token %q", token))
	}
	w.save()
}

// Leave removes the ended runs of deleted workflows.
func (m *machine) Leave(tx *engine.Tx) (found bool) {
	w := m.start(tx)
	defer w.save()
	prefix := namespaceKey(nil, rowGraves, tx.Namespace())
	k, _, found := tx.First(prefix, key.PrefixEnd(prefix))
	if found {
		w.byID(lastOf(k)).catchUp(0, math.MaxInt64)
	}
	return found
}

// OnReply handles the result of a call: an invocation, or the start of a child. Other shards cannot
// refuse the other messages.
func (m *machine) OnReply(tx *engine.Tx, r engine.Reply) {
	if len(r.Token) == 0 {
		return // no caller waits for it
	}
	w := m.start(tx)
	w.called(must(decode(r.Token, (*token).code)), r)
	w.save()
}

// workflow returns a workflow, nil if it does not exist.
func (w *work) workflow(name string) *openWorkflow {
	for _, k := range w.workflows {
		if k.name == name && !k.deleted && !k.dropped {
			return k
		}
	}
	w.buf = namedKey(w.buf[:0], rowWorkflow, w.tx.Namespace(), name)
	b, ok := w.tx.Get(w.buf)
	if !ok {
		return nil
	}
	return w.opened(&openWorkflow{record: must(decode(b, (*record).code)), work: w, name: name})
}

// byID returns the workflow with a number, even a deleted one; nil if it does not exist.
func (w *work) byID(id uint64) *openWorkflow {
	for _, k := range w.workflows {
		if k.id == id && !k.dropped {
			return k
		}
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
		return w.workflow(n.name)
	}
	w.buf = numberKey(w.buf[:0], rowGrave, id)
	b, ok = w.tx.Get(w.buf)
	if !ok {
		panic(fmt.Sprintf("workflow: deleted workflow %d has no row", id))
	}
	return w.opened(&openWorkflow{record: must(decode(b, (*record).code)), work: w, name: n.name, deleted: true})
}

// opened is called after a workflow has been read. It does due work, as the workflow's timer would.
func (w *work) opened(k *openWorkflow) *openWorkflow {
	w.workflows = append(w.workflows, k)
	if k.timer <= w.tx.Now() {
		k.catchUp(k.retainRuns, k.tx.Now()-handoverMillis)
	}
	return k
}

// definition returns a version of a workflow.
func (w *work) definition(id uint64, number uint32) *flow.Definition {
	at := versionID{id, number}
	if d, ok := w.m.definitions.Get(at); ok {
		return d
	}
	b, ok := w.tx.Get(versionKey(nil, id, number))
	if !ok {
		panic(fmt.Sprintf("workflow %d: no version %d", id, number))
	}
	row := must(decode(b, (*versionRow).code))
	d := must(decode(row.compiled, (*flow.Definition).Code))
	w.m.definitions.Load(at, &d, len(row.compiled))
	return &d
}

// save writes the changes.
func (w *work) save() {
	for _, l := range w.runs {
		l.save()
	}
	for _, k := range w.plans {
		k.save()
	}
	for _, k := range w.workflows {
		if k.changed && !k.dropped {
			k.save()
		}
	}
}

func (k *openWorkflow) save() {
	if k.deleted && k.active+k.kept == 0 {
		k.drop()
		return
	}
	k.schedule(k.nextDue())
	k.buf = namedKey(k.buf[:0], rowWorkflow, k.tx.Namespace(), k.name)
	if k.deleted {
		k.buf = numberKey(k.buf[:0], rowGrave, k.id)
	}
	k.row = encode(k.row[:0], &k.record, (*record).code)
	k.tx.Set(k.buf, k.row)
}

// schedule sets the workflow's timer to fire at a time or earlier.
func (k *openWorkflow) schedule(at int64) { k.tx.Advance(&k.timer, at, tokenWorkflow, k.id) }

// unschedule removes the workflow's timer.
func (k *openWorkflow) unschedule() { k.tx.Halt(&k.timer, tokenWorkflow, k.id) }

// runTopic is the topic for the end of a run.
func runTopic(namespace string, run uint64) engine.Topic {
	return engine.TopicOf(engine.MachineWorkflow, namespace, key.AppendUint64([]byte{'r'}, run))
}

func mustClose(it *engine.Iter) {
	if err := it.Close(); err != nil {
		panic(err)
	}
}
