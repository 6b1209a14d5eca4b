package action

import (
	"errors"
	"math"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/workers"
)

// The queries of the machine: arguments first, results after the blank line.

// infoQuery queries one action.
type infoQuery struct {
	namespace string
	name      string

	found    bool
	info     shardInfo
	revision uint64 // LSN, at the action's home, of the definition in the shard
}

// listQuery lists actions with a prefix, after a name, ordered by name.
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
	ref       protocol.Ref
	wait      bool

	found bool
	run   Run
}

// runsQuery lists runs of an action before a number, newest first.
type runsQuery struct {
	namespace string
	name      string
	before    uint64
	status    Status // 0: all
	limit     int
	maxBytes  int // of inputs and outputs; the page ends with the run that exceeds it

	attributes   []attribute // required attributes
	since, until int64       // ms; 0: no bound

	found bool
	items []Run
	next  uint64 // number before which the next page starts
	more  bool
}

// heartbeatQuery renews the lease of a session and waits until runs of it are cancelled.
type heartbeatQuery struct {
	namespace string
	session   uint64
	known     []protocol.Ref // cancelled runs known to the process
	reconcile bool           // do not wait, and also return the runs that the session holds

	cancelled []protocol.Ref // other cancelled runs
	held      []protocol.Ref
	lease     int64 // ms
}

// OfLeader directs the query to the leader, which keeps the time of the last heartbeat.
func (*heartbeatQuery) OfLeader() {}

func (*infoQuery) Machine() engine.MachineID      { return engine.MachineAction }
func (*listQuery) Machine() engine.MachineID      { return engine.MachineAction }
func (*runQuery) Machine() engine.MachineID       { return engine.MachineAction }
func (*runsQuery) Machine() engine.MachineID      { return engine.MachineAction }
func (*heartbeatQuery) Machine() engine.MachineID { return engine.MachineAction }

// shardInfo is a shard's part of an action's info. It has no count of workers and no P99: took has
// the latest durations of completed runs.
type shardInfo struct {
	Info
	home bool // this shard is the action's home; updates of other shards may be delayed
	took []int64
}

// Workers implements workers.Host.
func (m *machine) Workers() *workers.Registry { return &m.workers }

// findAction reads the row of an action.
func findAction(v *engine.View, namespace, name string) (r record, found bool, err error) {
	ns, ok := v.Namespace(namespace)
	if !ok {
		return r, false, nil
	}
	b, ok, err := v.Get(namedKey(nil, rowAction, ns, name))
	if err != nil || !ok {
		return r, false, err
	}
	r, err = decode(b, (*record).code)
	return r, err == nil, err
}

// findSession reads the row of a session of a process.
func findSession(v *engine.View, namespace string, id uint64) (s sessionRow, found bool, err error) {
	ns, ok := v.Namespace(namespace)
	if !ok {
		return s, false, nil
	}
	b, ok, err := v.Get(numberKey(nil, rowSession, id))
	if err != nil || !ok {
		return s, false, err
	}
	s, err = decode(b, (*sessionRow).code)
	return s, err == nil && s.ns == ns && !s.self, err
}

func (m *machine) queryInfo(v *engine.View, q *infoQuery) error {
	v.Freeze()
	r, found, err := findAction(v, q.namespace, q.name)
	if err != nil || !found {
		return err
	}
	q.found, q.revision = true, r.revision
	q.info, err = r.info(v, q.namespace, q.name)
	return err
}

// info returns the shard's info about an action.
func (r *record) info(v *engine.View, namespace, name string) (i shardInfo, err error) {
	i.Info = Info{
		Name: name, Type: TypeUser, Owner: r.owner, Description: r.description, Version: int(r.version), Enabled: r.enabled,
		CreatedAt: time.UnixMilli(r.createdAt), UpdatedAt: time.UnixMilli(r.updatedAt), Timeout: duration(r.timeout),
		MaxAttempts: 1 + int(r.maxRetries),
		BackoffMin:  duration(r.backoffMin), BackoffMax: duration(r.backoffMax), RetainFor: duration(r.retainFor),
		RetainRuns: int(r.retainRuns),
		MaxRunning: int(r.maxRunning), MaxRunningPerKey: int(r.maxPerKey), Rate: Rate{int(r.rate.limit), duration(r.rate.per),
			int(r.rate.burst)},
		Runs: RunCounts{
			Total:   r.pending + r.running + r.completed + r.failed + r.cancelled + r.timedOut,
			Pending: r.pending, Running: r.running, Completed: r.completed, Failed: r.failed, Cancelled: r.cancelled, TimedOut: r.timedOut,
		},
		Latency: Latency{Count: r.completed},
	}
	if r.completed > 0 {
		i.Latency.Average = duration(r.took/r.completed) + duration(r.took%r.completed)/time.Duration(r.completed)
	}
	i.home = v.Here(namespace, name)
	i.took, err = r.sample(v)
	return i, err
}

// sample returns the durations of the completed runs among the last ended ones, in ms.
func (r *record) sample(v *engine.View) (took []int64, err error) {
	if r.kept == 0 {
		return nil, nil
	}
	prefix := numberKey(nil, rowEnded, r.id)
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return nil, err
	}
	n := 0
	for ok := it.SeekLT(key.PrefixEnd(prefix)); ok && n < maxLatencySample; ok = it.Prev() {
		n++
		row, err := decode(it.Value(), (*endedRow).code)
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		if row.status == Completed {
			took = append(took, row.took)
		}
	}
	return took, it.Close()
}

// duration converts ms to a time.Duration, limited to the longest one.
func duration(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	if ms > most {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

func (m *machine) queryList(v *engine.View, q *listQuery) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	v.Freeze()
	read := func(k, value []byte) (i shardInfo, ok bool, err error) {
		r, err := decode(value, (*record).code)
		if err == nil {
			i, err = r.info(v, q.namespace, string(k[nameAt:]))
		}
		return i, true, err
	}
	var err error
	q.items, q.more, err = engine.ListRows(v, namedKey(nil, rowAction, ns, q.prefix), namedKey(nil, rowAction, ns, q.after), q.limit, read)
	return err
}

func (m *machine) queryRun(v *engine.View, q *runQuery) error {
	if q.wait {
		if err := v.WaitOn(runTopic(q.namespace, q.ref)); err != nil {
			return err
		}
	}
	name, found, err := nameOf(v, q.namespace, q.ref.Action)
	if err != nil || !found {
		return err
	}
	// The state is read first. The other row never changes, so both are consistent without a
	// snapshot, which would cost more than the rest.
	state, _, err := v.Get(runKey(nil, rowState, q.ref.Action, q.ref.Run))
	if err != nil {
		return err
	}
	b, ok, err := v.Get(runKey(nil, rowRun, q.ref.Action, q.ref.Run))
	if err != nil || !ok {
		return err
	}
	tag, err := tagOfRun(b)
	if err != nil || tag != q.ref.Tag {
		return err
	}
	if q.wait {
		if final, err := isFinal(state); err != nil {
			return err
		} else if !final {
			return engine.ErrWait
		}
	}
	row, err := decode(b, (*runRow).code)
	if err != nil {
		return err
	}
	l := runLook{v: v, name: name, id: q.ref.Action}
	q.run, err = l.runIn(q.ref.Run, &row, state)
	q.found = err == nil
	return err
}

// nameOf returns the name of the action with a number.
func nameOf(v *engine.View, namespace string, id uint64) (name string, found bool, err error) {
	ns, ok := v.Namespace(namespace)
	if !ok {
		return "", false, nil
	}
	b, ok, err := v.Get(numberKey(nil, rowName, id))
	if err != nil || !ok {
		return "", false, err
	}
	row, err := decode(b, (*nameRow).code)
	return row.name, err == nil && row.ns == ns, err
}

func (m *machine) queryRuns(v *engine.View, q *runsQuery) error {
	v.Freeze()
	r, found, err := findAction(v, q.namespace, q.name)
	if q.found = found; err != nil || !found {
		return err
	}
	prefix := numberKey(nil, rowRun, r.id)
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	l := runLook{v: v, name: q.name, id: r.id, of: &r}
	bytes := 0
	for ok := it.SeekLT(runKey(nil, rowRun, r.id, q.before)); ok && err == nil; ok = it.Prev() {
		if q.more = len(q.items) == q.limit || bytes > q.maxBytes || q.next != 0 && v.Full(); q.more {
			break
		}
		var row runRow
		if row, err = decode(it.Value(), (*runRow).code); err != nil {
			break
		}
		q.next = lastOf(it.Key())
		if row.createdAt < q.since { // so are all runs before it
			break
		}
		if q.until != 0 && row.createdAt >= q.until {
			continue
		}
		var run Run
		if run, err = l.run(q.next, &row); err == nil && q.wants(&run) {
			q.items = append(q.items, run)
			bytes += len(run.Input) + len(run.Output)
		}
	}
	return errors.Join(err, it.Close())
}

// wants reports whether a run matches the query.
func (q *runsQuery) wants(r *Run) bool {
	for i := range q.attributes {
		if !q.attributes[i].of(r) {
			return false
		}
	}
	return q.status == 0 || r.Status == q.status
}

// runLook reads runs of an action.
type runLook struct {
	v    *engine.View
	name string
	id   uint64
	of   *record // nil: not read yet

	labelled bool // the labels of its sets were read
}

// run returns a run.
func (l *runLook) run(number uint64, row *runRow) (r Run, err error) {
	state, _, err := l.v.Get(runKey(nil, rowState, l.id, number))
	if err != nil {
		return r, err
	}
	return l.runIn(number, row, state)
}

// runIn returns a run with the given state row; without one the run is fresh.
func (l *runLook) runIn(number uint64, row *runRow, state []byte) (r Run, err error) {
	v := l.v
	r = Run{
		ID: runLocation{v.Shard(), protocol.Ref{Action: l.id, Run: number, Tag: row.tag}}.id(), Action: l.name, Status: Pending,
		Priority:    int(row.priority),
		MaxAttempts: int(row.maxAttempts), Input: row.input, Source: row.source, ConcurrencyKey: row.key,
		IdempotencyKey: row.idempotencyKey,
		CreatedAt:      time.UnixMilli(row.createdAt), AvailableAt: time.UnixMilli(row.due),
	}
	if r.Source == "" {
		r.Source = "api"
	}
	if r.Labels, err = l.labels(row.set); err != nil {
		return r, err
	}
	if len(state) == 0 {
		return r, nil
	}
	st, err := decode(state, (*stateRow).layout)
	if err != nil {
		return r, err
	}
	r.MaxAttempts = int(st.maxAttempts)
	r.Status, r.Attempt, r.Output, r.Outcome, r.Error, r.Code, r.WorkerID = st.status, int(st.attempts), st.output, st.outcome, st.message,
		st.code, st.worker
	if st.due > 0 {
		r.AvailableAt = time.UnixMilli(st.due)
	}
	if st.startedAt > 0 {
		r.StartedAt = time.UnixMilli(st.startedAt)
	}
	if st.endedAt > 0 {
		r.CompletedAt = time.UnixMilli(st.endedAt)
	}
	r.Cancelling = st.status == Cancelled && st.flags&flagHeld != 0
	return r, nil
}

// labels returns a set of labels of the action.
func (l *runLook) labels(set uint8) (map[string]string, error) {
	if set == 0 {
		return nil, nil // the first set has no labels
	}
	if err := l.readLabels(); err != nil {
		return nil, err
	}
	if l.of == nil || int(set) >= len(l.of.sets) {
		return nil, engine.Errorf(ErrNotFound, "action %q: set %d of labels", l.name, set)
	}
	return engine.DecodeHeaders([]byte(l.of.sets[set].labels))
}

// readLabels reads the labels of the action's sets, once.
func (l *runLook) readLabels() error {
	if l.labelled {
		return nil
	}
	if l.of == nil {
		b, ok, err := l.v.Get(numberKey(nil, rowName, l.id))
		if err != nil || !ok {
			return err
		}
		n, err := decode(b, (*nameRow).code)
		if err != nil {
			return err
		}
		k := namedKey(nil, rowAction, n.ns, n.name)
		if n.deleted {
			k = numberKey(nil, rowGrave, l.id)
		}
		if b, ok, err = l.v.Get(k); err != nil || !ok {
			return err
		}
		r, err := decode(b, (*record).code)
		if err != nil {
			return err
		}
		l.of = &r
	}
	l.labelled = true
	return l.of.readLabels(l.v)
}

func (m *machine) queryHeartbeat(v *engine.View, q *heartbeatQuery) error {
	if err := v.WaitOn(sessionTopic(q.namespace, q.session)); err != nil {
		return err
	}
	_, found, err := findSession(v, q.namespace, q.session)
	switch {
	case err != nil:
		return err
	case !found:
		return noSession(q.session)
	}
	m.recordHeartbeat(q.session, v.Mono())
	q.lease = m.leaseNow()
	known := make(map[protocol.Ref]bool)
	for _, ref := range q.known {
		known[ref] = true
	}
	prefix := numberKey(nil, rowHeld, q.session)
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var h held
		ref := protocol.Ref{Action: numberOf(it.Key()), Run: lastOf(it.Key())}
		if h, err = decode(it.Value(), (*held).code); err == nil && h.cancelled && !known[ref] {
			q.cancelled = append(q.cancelled, ref)
		}
		if q.reconcile {
			q.held = append(q.held, ref)
		}
	}
	if err = errors.Join(err, it.Close()); err == nil && len(q.cancelled) == 0 && !q.reconcile {
		return engine.ErrWait
	}
	return err
}
