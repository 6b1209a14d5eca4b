package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workloop"
)

// Registrar registers the workers of a process and reports their heartbeats, with one reporter per
// namespace. It is a workloop.Observer, so that queue and stream consumers are registered too. The
// owner of a router attaches it (engine.Router.Attach).
type Registrar struct {
	router *engine.Router
	every  time.Duration // between reports of all members
	soon   time.Duration // between a change and its report; also the first pause before a retry

	mu        sync.Mutex // guards reporters, reporter.members and Member.leaving; held during no call
	reporters map[string]*reporter
}

// callTime is the timeout of a call.
const callTime = 5 * time.Second

// leaveTime is the timeout for removing a worker. It is short because the program waits for it
// before it exits, and the shard eventually removes a silent worker.
const leaveTime = 2 * time.Second

// NewRegistrar returns a Registrar that sends its calls through the router.
func NewRegistrar(r *engine.Router) *Registrar {
	return &Registrar{router: r, every: reportMillis * time.Millisecond, soon: time.Second, reporters: make(map[string]*reporter)}
}

// reporter registers the process's workers in a namespace and reports their heartbeats. Its
// goroutine makes the calls in rounds, one call at a time per shard, and exits with the last
// member.
type reporter struct {
	registrar *Registrar
	scope     engine.Scope

	wake    chan struct{} // capacity 1
	members map[*Member]struct{}
}

// Member is a registered worker of this process. The methods of a nil Member do nothing.
type Member struct {
	reporter *reporter
	worker   Worker
	life     uint64
	status   func() workloop.Status
	gone     chan struct{} // closed when the worker is removed, or the attempt has failed

	changed atomic.Bool // since the last report
	leaving bool        // guarded by registrar.mu

	// Used by the reporter's goroutine only.
	joined  bool
	drained bool // the shard knows that the worker drains
}

// Join registers a worker with the Registrar attached to the scope, until Leave. It returns a nil
// Member if there is no Registrar. Join does not wait: the reporter retries in the background until
// it succeeds. status returns the worker's state and is called by other goroutines.
//
// Errors: ErrInvalid for an invalid worker.
func Join(s *engine.Scope, w Worker, status func() workloop.Status) (*Member, error) {
	w.normalize()
	if err := w.Check(); err != nil {
		return nil, err
	}
	all, ok := s.Attached().(*Registrar)
	if !ok {
		return nil, nil
	}
	return all.join(s.Namespace(), w, status), nil
}

func (all *Registrar) join(namespace string, w Worker, status func() workloop.Status) *Member {
	m := &Member{worker: w, life: rand.Uint64() | 1, status: status, gone: make(chan struct{})}
	all.mu.Lock()
	defer all.mu.Unlock()
	m.reporter = all.reporters[namespace]
	if m.reporter == nil {
		m.reporter = &reporter{
			registrar: all, scope: all.router.Scope(namespace, engine.DefaultMaxPayload), wake: make(chan struct{},
				1), members: make(map[*Member]struct{}),
		}
		all.reporters[namespace] = m.reporter
		go m.reporter.run()
	}
	m.reporter.members[m] = struct{}{}
	m.reporter.signal()
	return m
}

// Join implements workloop.Observer: it registers a loop until leave is called. The worker's ID
// consists of the name of the queue or group and the consumer's name at the source.
func (all *Registrar) Join(status func() workloop.Status) (leave func()) {
	s := status()
	w := Worker{Type: s.Kind, Machine: Machine(), Max: min(s.Max, maxConcurrent)}
	if s.Worker == "" {
		s.Worker = fmt.Sprintf("%s-%08x", w.Machine, rand.Uint32())
	}
	if w.ID = s.Name + "/" + s.Worker; len(w.ID) > engine.MaxNameBytes {
		w.ID = fmt.Sprintf("%s-%016x", s.Kind, xxhash.Sum64String(w.ID))
	}
	if w.Check() != nil {
		return func() {}
	}
	return all.join(s.Namespace, w, status).Leave
}

// Machine returns the host name, which the workers of this process report, or "" if it is not a
// valid name.
func Machine() string {
	name, err := os.Hostname()
	if err != nil || engine.CheckName("machine", name) != nil {
		return ""
	}
	return name
}

// Changed schedules a report of the worker's counts, load and draining state within about 1 s.
func (m *Member) Changed() {
	if m != nil && !m.changed.Load() && !m.changed.Swap(true) {
		m.reporter.signal()
	}
}

// Leave removes the worker from the registry and returns when it is removed or the attempt has
// failed. Further calls have no effect.
func (m *Member) Leave() {
	if m == nil {
		return
	}
	m.reporter.registrar.mu.Lock()
	m.leaving = true
	m.reporter.signal()
	m.reporter.registrar.mu.Unlock()
	<-m.gone
}

func (c *reporter) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run makes rounds of calls until there are no members.
func (c *reporter) run() {
	all, pause := time.Now().Add(c.registrar.every), c.registrar.soon // time of the next full round; pause before a retry
	for {
		r := c.round(!time.Now().Before(all))
		if r.full {
			all = time.Now().Add(c.registrar.every)
		}
		failed := c.do(&r)
		if c.release(r.leave) {
			return
		}
		if failed {
			pause = min(2*pause, c.registrar.every)
			c.await(all, pause, true)
		} else {
			pause = c.registrar.soon
			c.await(all, pause, false)
		}
	}
}

// round lists the members for each kind of call.
type round struct {
	full                       bool
	join, drain, report, leave []*Member
}

// round returns the next round. With full it reports all members, otherwise only those that have
// changed.
func (c *reporter) round(full bool) (r round) {
	c.registrar.mu.Lock()
	r.full = full
	var look []*Member
	for m := range c.members {
		switch {
		case m.leaving:
			r.leave = append(r.leave, m)
		case !m.joined:
			r.join = append(r.join, m)
			m.changed.Store(false)
		case full || m.changed.Load():
			look = append(look, m)
			m.changed.Store(false)
		}
	}
	c.registrar.mu.Unlock()
	r.report = look
	for _, m := range look {
		if !m.drained && m.status().Draining {
			r.drain = append(r.drain, m)
		}
	}
	for _, list := range [][]*Member{r.join, r.drain, r.report, r.leave} {
		slices.SortFunc(list, func(a, b *Member) int { return cmp.Compare(a.worker.ID, b.worker.ID) })
	}
	return r
}

// do makes the calls of a round and reports whether one of them failed.
func (c *reporter) do(r *round) (failed bool) {
	shards := make(map[engine.ShardID]*round)
	spread, err := c.spread()
	at := func(m *Member) *round {
		shard := engine.HomeShard(c.scope.Namespace(), c.scope.NodeShards())
		if spread {
			shard = c.scope.SpreadShard(m.worker.ID)
		}
		if shards[shard] == nil {
			shards[shard] = new(round)
		}
		return shards[shard]
	}
	if err != nil {
		return true
	}
	for _, m := range r.join {
		at(m).join = append(at(m).join, m)
	}
	for _, m := range r.drain {
		at(m).drain = append(at(m).drain, m)
	}
	for _, m := range r.report {
		at(m).report = append(at(m).report, m)
	}
	for _, m := range r.leave {
		if m.joined {
			at(m).leave = append(at(m).leave, m)
		}
	}
	errs := make(chan error, len(shards))
	for shard, part := range shards {
		go func() { errs <- c.call(shard, part) }()
	}
	for range shards {
		failed = <-errs != nil || failed
	}
	return failed
}

func (c *reporter) spread() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	return c.scope.Spread(ctx)
}

// call makes the calls of a round to one shard.
func (c *reporter) call(shard engine.ShardID, r *round) error {
	var errs []error
	for part := range slices.Chunk(r.report, maxReports) {
		unknown, err := c.report(shard, part)
		errs = append(errs, err)
		r.join = append(r.join, unknown...)
	}
	for _, part := range chunks(r.join) {
		errs = append(errs, c.join(part))
	}
	for part := range slices.Chunk(r.drain, maxBatch) {
		errs = append(errs, c.leave(part, true))
	}
	for part := range slices.Chunk(r.leave, maxBatch) {
		errs = append(errs, c.leave(part, false))
	}
	return errors.Join(errs...)
}

// chunks splits members into lists that fit into a command.
func chunks(all []*Member) (parts [][]*Member) {
	bytes := maxBatchBytes + 1
	for _, m := range all {
		size := 64 + len(encode(&m.worker, (*Worker).code))
		if bytes += size; bytes > maxBatchBytes || len(parts[len(parts)-1]) == maxBatch {
			parts, bytes = append(parts, nil), size
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], m)
	}
	return parts
}

func (c *reporter) join(part []*Member) error {
	var body joinBody
	for _, m := range part {
		body.list = append(body.list, joining{m.worker, m.life, m.status().Draining})
	}
	err := c.propose(callTime, join.Op("", body, nil))
	for i, m := range part {
		// A join with an unknown outcome counts as done, so that the member leaves later. If it did
		// not happen, the next report reveals that.
		m.joined = err == nil || errors.Is(err, engine.ErrUnknownOutcome) || errors.Is(err, context.DeadlineExceeded)
		m.drained = body.list[i].draining
	}
	return err
}

func (c *reporter) leave(part []*Member, drain bool) error {
	body := leaveBody{drain: drain}
	for _, m := range part {
		body.list = append(body.list, leaving{m.worker.ID, m.life})
	}
	within := callTime
	if !drain {
		within = leaveTime
	}
	err := c.propose(within, leave.Op("", body, nil))
	if errors.Is(err, engine.ErrNotFound) {
		err = nil
	}
	for _, m := range part {
		m.drained = m.drained || drain && err == nil
	}
	return err
}

func (c *reporter) propose(within time.Duration, op engine.Op) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	_, err := engine.Propose(ctx, &c.scope, op, func([]byte) (struct{}, error) { return struct{}{}, nil })
	return err
}

// report sends the members' heartbeats and returns the members that are not in the shard.
func (c *reporter) report(shard engine.ShardID, part []*Member) (unknown []*Member, err error) {
	q := reportQuery{namespace: c.scope.Namespace()}
	for _, m := range part {
		q.list = append(q.list, m.report())
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	if err := c.scope.QueryShard(ctx, shard, &q); err != nil {
		return nil, err
	}
	for _, i := range q.unknown {
		if i < 0 || i >= len(part) {
			continue
		}
		part[i].joined = false
		unknown = append(unknown, part[i])
	}
	return unknown, nil
}

func (m *Member) report() report {
	s := m.status()
	var all []Process
	for _, p := range s.Processes {
		all = append(all, Process{p.Name, s.Kind, p.Runs, p.Failures, p.LastRun})
	}
	return report{m.worker.ID, m.life, s.Load, statsOf(all)}
}

// release removes members that left. It reports whether there are no others, in which case the
// reporter ends.
func (c *reporter) release(left []*Member) (ended bool) {
	c.registrar.mu.Lock()
	for _, m := range left {
		delete(c.members, m)
	}
	if ended = len(c.members) == 0; ended {
		delete(c.registrar.reporters, c.scope.Namespace())
	}
	c.registrar.mu.Unlock()
	for _, m := range left {
		close(m.gone)
	}
	return ended
}

// await waits until the next round, which is at the time all, or one pause after a change or a
// failure. A member that leaves ends the pause.
func (c *reporter) await(all time.Time, pause time.Duration, failed bool) {
	t := time.NewTimer(time.Until(all))
	defer t.Stop()
	if !failed {
		select {
		case <-t.C:
			return
		case <-c.wake:
		}
	}
	for t.Reset(pause); !c.urgent(); {
		select {
		case <-t.C:
			return
		case <-c.wake:
		}
	}
}

// urgent reports whether a member is leaving, so that its Leave waits.
func (c *reporter) urgent() bool {
	c.registrar.mu.Lock()
	defer c.registrar.mu.Unlock()
	for m := range c.members {
		if m.leaving {
			return true
		}
	}
	return false
}
