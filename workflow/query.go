package workflow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/key"
)

// Kinds of queries; the numbers are part of the protocol between processes.
const (
	queryInfo uint8 = iota + 1
	queryList
	queryRun
	queryRuns
	queryHistory
	queryVersions
)

// The queries of the machine: arguments first, results after the blank line.

// infoQuery queries one workflow, and the source of a version.
type infoQuery struct {
	namespace string
	name      string
	version   string // "" is the default version

	found  bool // the workflow exists
	known  bool // the version exists
	info   shardInfo
	source []byte

	revision uint64 // of the workflow: its home's revision, as far as the shard has received it
}

// listQuery lists workflows with a prefix, after a name, ordered by name.
type listQuery struct {
	namespace string
	prefix    string
	after     string
	limit     int

	items []shardInfo
	more  bool
}

// runQuery queries a run, or waits for its end.
type runQuery struct {
	namespace string
	target    target
	wait      bool

	found bool
	run   Run
}

// runsQuery lists runs before a number, newest first.
type runsQuery struct {
	namespace string
	filter    filter
	before    uint64
	limit     int

	items   []RunInfo
	numbers []uint64 // of the runs
	next    uint64   // number before which the next page starts
	more    bool
}

// filter selects the runs of a listing.
type filter struct {
	workflow      string
	status        Status   // 0: all
	active        bool     // only runs that have not ended
	attributes    []string // required attributes, encoded as in keys
	after, before int64    // time of the start: after <= startedAt < before
}

// historyQuery lists events of a run after a position.
type historyQuery struct {
	namespace string
	target    target
	lsn       uint64
	skip      int // events of lsn to skip
	limit     int

	found    bool
	items    []Event
	next     uint64
	nextSkip int
	more     bool
}

func (*infoQuery) Machine() engine.MachineID    { return engine.MachineWorkflow }
func (*listQuery) Machine() engine.MachineID    { return engine.MachineWorkflow }
func (*runQuery) Machine() engine.MachineID     { return engine.MachineWorkflow }
func (*runsQuery) Machine() engine.MachineID    { return engine.MachineWorkflow }
func (*historyQuery) Machine() engine.MachineID { return engine.MachineWorkflow }

func (*infoQuery) Kind() uint8    { return queryInfo }
func (*listQuery) Kind() uint8    { return queryList }
func (*runQuery) Kind() uint8     { return queryRun }
func (*runsQuery) Kind() uint8    { return queryRuns }
func (*historyQuery) Kind() uint8 { return queryHistory }

// shardInfo is a shard's part of a workflow's info.
type shardInfo struct {
	Info
	home      bool   // this shard is the workflow's home; updates of other shards may be delayed
	triggered uint64 // revision of the subscription of its trigger
}

// getRow reads a row.
func getRow[T any](v *engine.View, k []byte, code func(*T, *codec.Coder)) (row T, ok bool, err error) {
	b, ok, err := v.Get(k)
	if err != nil || !ok {
		return row, false, err
	}
	row, err = decode(b, code)
	return row, err == nil, err
}

func (s *seen) info(v *engine.View, q *infoQuery) error {
	v.Freeze()
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	r, ok, err := getRow(v, namedKey(nil, rowWorkflow, ns, q.name), (*record).code)
	if err != nil || !ok {
		return err
	}
	q.found, q.revision = true, r.revision
	number := r.current
	if q.version != "" {
		i, ok, err := getRow(v, append(numberKey(nil, rowVersions, r.id), q.version...), (*versionIndex).code)
		if err != nil || !ok || i.gone {
			return err
		}
		number = i.number
	}
	q.known = true
	if q.info, err = s.workflow(v, &r, q.namespace, q.name, number); err == nil {
		q.source, err = s.source(v, versionID{r.id, number})
	}
	return err
}

// workflow returns the shard's info about a workflow, with one of its versions.
func (s *seen) workflow(v *engine.View, r *record, namespace, name string, number uint32) (i shardInfo, err error) {
	known, err := s.version(v, versionID{r.id, number})
	if err != nil {
		return i, fmt.Errorf("workflow %q: %w", name, err)
	}
	d := &known.def
	i.Info = Info{
		Name: name, Version: known.version, Description: d.Description, Enabled: r.enabled,
		CreatedAt: time.UnixMilli(r.createdAt), UpdatedAt: time.UnixMilli(r.updatedAt), StartStep: d.Steps[0].Name,
		HasSchedule: d.Schedule != nil, HasTrigger: d.Trigger != nil,
		Runs: RunCounts{
			Total:  r.active + r.completed + r.failed + r.cancelled + r.timedOut,
			Active: r.active, Completed: r.completed, Failed: r.failed, Cancelled: r.cancelled, TimedOut: r.timedOut,
		},
	}
	for k := range d.Steps {
		i.Steps = append(i.Steps, d.Steps[k].Name)
	}
	for _, t := range d.Terminals {
		i.Terminals = append(i.Terminals, t.Name)
	}
	for k := range d.Plans {
		i.Plans = append(i.Plans, d.Plans[k].Name)
	}
	if i.Schedule, err = scheduleInfo(v, r.id); err != nil {
		return i, fmt.Errorf("workflow %q: schedule: %w", name, err)
	}
	i.Trigger = triggerInfo(d.Trigger, namespace)
	b, ok, err := v.Get(numberKey(nil, rowTrigger, r.id))
	if err == nil && ok {
		var t triggerRow
		t, err = decode(b, (*triggerRow).code)
		i.triggered = t.revision
	}
	if err != nil {
		return i, fmt.Errorf("workflow %q: trigger: %w", name, err)
	}
	i.home = v.Here(namespace, name)
	return i, nil
}

func (s *seen) list(v *engine.View, q *listQuery) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	v.Freeze()
	read := func(k, value []byte) (i shardInfo, ok bool, err error) {
		r, err := decode(value, (*record).code)
		if err == nil {
			i, err = s.workflow(v, &r, q.namespace, string(k[len(namespaceKey(nil, rowWorkflow, ns)):]), r.current)
		}
		return i, true, err
	}
	var err error
	q.items, q.more, err = engine.ListRows(v, namedKey(nil, rowWorkflow, ns, q.prefix), namedKey(nil, rowWorkflow, ns, q.after), q.limit,
		read)
	return err
}

// findRun returns the header of the queried run.
func (s *seen) findRun(v *engine.View, namespace string, t *target) (run uint64, h header, found bool, err error) {
	ns, ok := v.Namespace(namespace)
	if !ok {
		return 0, h, false, nil
	}
	run = t.run
	if t.id != "" {
		b, ok, err := v.Get(namedKey(nil, rowID, ns, t.id))
		if err != nil || !ok {
			return 0, h, false, err
		}
		run, _ = binary.Uvarint(b)
	}
	h, ok, err = getRow(v, partKey(nil, run, partHeader), (*header).code)
	if err != nil || !ok || t.id == "" && h.tag != t.tag {
		return 0, h, false, err
	}
	o, err := s.owner(v, h.of)
	return run, h, err == nil && o.ns == ns, err
}

func (s *seen) run(v *engine.View, q *runQuery) error {
	if q.wait && q.target.id == "" {
		if err := v.WaitOn(runTopic(q.namespace, q.target.run)); err != nil {
			return err
		}
	}
	run, h, found, err := s.findRun(v, q.namespace, &q.target)
	if err != nil || !found {
		return err
	}
	if q.wait && q.target.id != "" {
		if err := v.WaitOn(runTopic(q.namespace, run)); err != nil {
			return err
		}
		if _, h, found, err = s.findRun(v, q.namespace, &q.target); err != nil || !found { // it may have ended in between
			return err
		}
	}
	if q.wait && !h.status.Final() {
		return engine.ErrWait // without a snapshot, which would cost more than the rest
	}
	if h.status.Final() {
		if same, err := s.ended(v, q, run, &h); err != nil || same {
			return err
		}
	}
	v.Freeze()
	if run, h, found, err = s.findRun(v, q.namespace, &q.target); err != nil || !found {
		return err
	}
	if q.wait && !h.status.Final() { // it has just been retried
		return engine.ErrWait
	}
	return s.describe(v, q, run, &h)
}

// ended answers with an ended run, which does not change until it is retried or removed. So instead
// of taking a snapshot, it reads the header a second time. It reports whether the header was
// unchanged. If it has changed, the result of the first read is invalid, even if it is an error.
func (s *seen) ended(v *engine.View, q *runQuery, run uint64, h *header) (same bool, err error) {
	err = s.describe(v, q, run, h)
	now, ok, again := getRow(v, partKey(nil, run, partHeader), (*header).code)
	if again != nil {
		return false, again
	}
	if ok && now.tag == h.tag && now.events == h.events {
		return true, err
	}
	q.found, q.run = false, Run{}
	return false, nil
}

func (s *seen) describe(v *engine.View, q *runQuery, run uint64, h *header) (err error) {
	q.found = true
	l := runLook{seen: s, v: v, namespace: q.namespace}
	if q.run.RunInfo, err = l.info(run, h); err == nil {
		err = l.detail(&q.run, run, h)
	}
	return err
}

// runLook reads runs.
type runLook struct {
	seen      *seen
	v         *engine.View
	namespace string
}

// info returns a run in the form of a listing.
func (l *runLook) info(run uint64, h *header) (r RunInfo, err error) {
	of, err := l.seen.owner(l.v, h.of)
	if err != nil {
		return r, err
	}
	v, err := l.seen.version(l.v, versionID{h.of, h.number})
	if err != nil {
		return r, err
	}
	r = RunInfo{
		ID: RunID(h.id), Workflow: of.name, Version: v.version, Status: h.status, TriggeredBy: h.source,
		StartedAt: time.UnixMilli(h.startedAt),
		Error:     h.failure.message, Code: h.failure.code, Events: h.events, IdempotencyKey: h.idempotencyKey, Parent: RunID(h.parent),
		CompensationsFailed: h.undid,
	}
	if r.ID == "" {
		r.ID = runLocation{l.v.Shard(), run, h.tag, l.namespace}.id()
	}
	if r.TriggeredBy == "" {
		r.TriggeredBy = "api"
	}
	if h.status.Final() {
		r.CompletedAt = time.UnixMilli(h.endedAt)
	} else {
		if r.CurrentStep = v.def.Steps[h.step].Name; h.ending.status == 0 {
			r.Error, r.Code = "", "" // the run may still recover
		}
	}
	for _, a := range h.attributes {
		if name, value, ok := parseAttribute(a); ok {
			if r.Attributes == nil {
				r.Attributes = make(map[string]any)
			}
			r.Attributes[name] = value
		}
	}
	return r, nil
}

// detail adds the fields that listings omit.
func (l *runLook) detail(r *Run, run uint64, h *header) (err error) {
	v, err := l.seen.version(l.v, versionID{h.of, h.number})
	if err != nil {
		return err
	}
	if r.Input, _, err = l.v.Get(partKey(nil, run, partInput)); err != nil {
		return err
	}
	if r.Output, _, err = l.v.Get(partKey(nil, run, partOutput)); err != nil {
		return err
	}
	r.Waits = h.waitsFor(&v.def)
	if due := h.waitsUntil(); due != never {
		r.Due = time.UnixMilli(due)
	}
	if r.Steps, err = l.steps(run); err != nil {
		return err
	}
	if h.pending > 0 {
		r.Signals, err = l.signals(run)
	}
	return err
}

// waitsFor describes what a run waits for.
func (h *header) waitsFor(d *flow.Definition) string {
	step := &d.Steps[h.step]
	switch {
	case h.status.Final():
		return ""
	case h.wait == waitHandler:
		return "the handler or child of a call that was ended"
	case h.wait == waitChildren:
		return "the end of a cancelled child"
	case h.ending.status != 0:
		return "compensations"
	}
	switch h.wait {
	case waitSignal:
		return fmt.Sprintf("signal %q", step.Wait.Type)
	case waitSleep:
		return "a time"
	case waitParallel:
		return fmt.Sprintf("%d of %d branches", h.fan.total-h.fan.succeeded-h.fan.failed, h.fan.total)
	case waitCall:
		switch h.call.phase {
		case phasePause:
			return fmt.Sprintf("attempt %d of step %q", h.call.attempt+1, step.Name)
		case phasePoll:
			return fmt.Sprintf("poll %d of step %q", h.call.polls+h.call.plan.polls, step.Name)
		case phaseRate:
			if h.call.plan.next == planAttempt {
				return fmt.Sprintf("attempt %d of an executor of plan %q", h.call.plan.tries, step.Call.Name)
			}
			return fmt.Sprintf("the rate of plan %q", step.Call.Name)
		}
		return fmt.Sprintf("%s %q", targetNames[step.Call.Target], step.Call.Name)
	}
	return "its turn"
}

var targetNames = [...]string{flow.TargetAction: "action", flow.TargetPlan: "plan", flow.TargetWorkflow: "workflow"}

// waitsUntil returns the latest end of the wait, if known.
func (h *header) waitsUntil() int64 {
	switch h.wait {
	case waitSignal, waitSleep:
		return min(h.due, h.deadline)
	case waitCall:
		return min(h.call.due, h.deadline)
	}
	return never
}

// steps returns the last visit to each step of a run, in the order of their ends.
func (l *runLook) steps(run uint64) (steps []StepResult, err error) {
	prefix := partKey(nil, run, partStep)
	it, err := l.v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return nil, err
	}
	type visited struct {
		visit uint64
		StepResult
	}
	var all []visited
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var s stepRow
		if s, err = decode(it.Value(), (*stepRow).layout); err == nil {
			all = append(all, visited{s.visit, StepResult{
				Step: string(it.Key()[len(prefix):]), Outcome: s.outcome, Output: s.output, Error: s.message, Code: s.code,
				Attempts:  int(s.attempts),
				StartedAt: time.UnixMilli(s.startedAt), CompletedAt: time.UnixMilli(s.endedAt),
			}})
		}
	}
	slices.SortFunc(all, func(a, b visited) int { return int(int64(a.visit) - int64(b.visit)) })
	for i := range all {
		steps = append(steps, all[i].StepResult)
	}
	return steps, errors.Join(err, it.Close())
}

func (l *runLook) signals(run uint64) (signals []PendingSignal, err error) {
	prefix := partKey(nil, run, partSignal)
	it, err := l.v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var s signalRow
		if s, err = decode(it.Value(), (*signalRow).code); err == nil {
			signals = append(signals, PendingSignal{s.kind, s.payload, time.UnixMilli(s.at)})
		}
	}
	return signals, errors.Join(err, it.Close())
}

func (s *seen) runs(v *engine.View, q *runsQuery) error {
	v.Freeze()
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	l := runLook{seen: s, v: v, namespace: q.namespace}
	f := &q.filter
	if prefix := f.prefix(ns); prefix != nil {
		_, err := l.runs(q, prefix)
		return err
	}
	r, ok, err := getRow(v, namedKey(nil, rowWorkflow, ns, f.workflow), (*record).code)
	if err != nil {
		return err
	}
	if ok {
		if all, err := l.runs(q, numberKey(nil, rowOf, r.id)); err != nil || !all {
			return err
		}
	}
	// Earlier workflows of the same name. Their runs are older than those of the next one.
	prefix := gravesKey(nil, ns, f.workflow)
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	all := true
	for ok := it.SeekLT(key.AppendUint64(slices.Clone(prefix), q.before)); ok && all && err == nil; ok = it.Prev() {
		all, err = l.runs(q, numberKey(nil, rowOf, lastOf(it.Key())))
	}
	return errors.Join(err, it.Close())
}

// runs lists the runs at the end of keys with a prefix, and reports whether all candidates were
// read.
func (l *runLook) runs(q *runsQuery, prefix []byte) (all bool, err error) {
	f := &q.filter
	it, err := l.v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return false, err
	}
	all = true
	for ok := it.SeekLT(key.AppendUint64(slices.Clone(prefix), q.before)); ok && err == nil; ok = it.Prev() {
		if q.more = len(q.items) == q.limit || q.next != 0 && l.v.Full(); q.more {
			all = false
			break
		}
		run := lastOf(it.Key())
		var h header
		var there bool
		if h, there, err = getRow(l.v, partKey(nil, run, partHeader), (*header).code); err != nil || !there {
			break
		}
		if q.next = run; h.startedAt < f.after {
			all = false
			break
		}
		if !f.matches(&h) {
			continue
		}
		var of owner
		if of, err = l.seen.owner(l.v, h.of); err != nil || f.workflow != "" && of.name != f.workflow {
			continue
		}
		var r RunInfo
		r, err = l.info(run, &h)
		q.items, q.numbers = append(q.items, r), append(q.numbers, run)
	}
	return all, errors.Join(err, it.Close())
}

// prefix returns the key prefix of the smallest set of rows to read, or nil if those are the runs
// of the workflow.
func (f *filter) prefix(ns uint32) []byte {
	switch {
	case len(f.attributes) > 0:
		return append(namespaceKey(nil, rowAttribute, ns), f.attributes[0]...)
	case f.active || f.status != 0 && !f.status.Final():
		return statusKey(nil, ns, 0)
	case f.workflow != "":
		return nil
	case f.status != 0:
		return statusKey(nil, ns, f.status)
	}
	return namespaceKey(nil, rowIn, ns)
}

// matches reports whether a run matches the filter, apart from its workflow.
func (f *filter) matches(h *header) bool {
	switch {
	case f.status != 0 && h.status != f.status, f.active && h.status.Final():
		return false
	case h.startedAt < f.after || h.startedAt >= f.before:
		return false
	}
	return !slices.ContainsFunc(f.attributes, func(a string) bool { return !slices.Contains(h.attributes, a) })
}

func (s *seen) history(v *engine.View, q *historyQuery) error {
	v.Freeze()
	run, _, found, err := s.findRun(v, q.namespace, &q.target)
	if err != nil || !found {
		return err
	}
	q.found = true
	prefix := partKey(nil, run, partEvents)
	it, err := v.Iter(key.AppendUint64(slices.Clone(prefix), q.lsn), key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	skip := q.skip
	for ok := it.First(); ok && err == nil && !q.more; ok = it.Next() {
		lsn := lastOf(it.Key())
		if lsn != q.lsn {
			skip = 0
		}
		var row eventRow
		if row, err = decode(it.Value(), (*eventRow).code); err != nil {
			break
		}
		for i, e := range row.events {
			if i < skip {
				continue
			}
			if q.more = len(q.items) == q.limit || len(q.items) > 0 && v.Full(); q.more {
				break
			}
			q.items = append(q.items, Event{
				Type: e.kind, Step: e.step, At: time.UnixMilli(row.at), Attempt: int(e.attempt), Outcome: e.outcome, Detail: e.detail,
			})
			q.next, q.nextSkip = lsn, i+1
		}
	}
	return errors.Join(err, it.Close())
}
