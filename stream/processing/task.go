package processing

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/pipeline"
)

// noTime is the watermark before the first record.
const noTime = math.MinInt64

// Limits of one tick. Its input is limited so that its results rarely exceed the limits of a
// command. If they do, it reads less. A single record may exceed these limits, up to the hard ones.
const (
	maxBatches   = 10 // of batch_size records
	maxReadBytes = 512 << 10
	maxTickBytes = 1 << 20
	maxTickRows  = 8192
	hardBytes    = 32 << 20
	hardRows     = 1 << 17
)

// Limits of a tick's input while users write to its shard, because their writes wait until it is
// applied. In a spread namespace many of the results go to other shards in messages. Many small
// messages would cost the users there more than a few large ones.
var (
	crowdPortion       = portion{64, 8 << 10}
	spreadCrowdPortion = portion{256, 48 << 10}
)

type portion struct{ records, bytes int }

// maxOutBytes limits the bytes that wait for other shards.
const maxOutBytes = 8 << 20

// task is a job that this replica runs: the contents of its rows as of the last tick, and the
// compiled program. It is reloaded if another change preceded a tick.
type task struct {
	ref       ref
	namespace string
	spread    bool
	shard     engine.ShardID
	shards    int
	job       jobRow
	def       *pipeline.Job
	prog      *pipeline.Program
	sources   []uint16        // their numbers
	epoch     uint64          // of the subtask, in a spread namespace
	began     int64           // ms, of the monotonic clock: when this replica became leader
	woken     map[woken]int64 // by the same clock, when upstreams stopped being idle
	row       taskRow
	stages    []*stage
	turn      int // the stage that is next
	cursors   map[cursorID]cursor
	cache     *cache
	spare     []pipeline.Record
	again     *step // to propose once more, without refused writes
	hold      hold
	watch     func() time.Duration // measures durations; nil: not measured
	looked    time.Duration        // by watch, when the search for the next step began
	latency   latency              // of the last tick, the part that the row does not have yet
	live      *live
	crowd     *crowd
	broken    bool // to be reloaded
}

type cursorID struct {
	source    int // index in the definition
	partition int
}

// hold is why a task waits although it has work.
type hold struct {
	reason string
	until  int64 // ms
	pause  int64
}

// Pauses of a held task, ms.
const (
	minPause = 20
	maxPause = 2000
)

func (h *hold) begin(now int64, reason string) {
	h.pause = min(max(2*h.pause, minPause), maxPause)
	h.reason, h.until = reason, now+h.pause
}

// latency is the latency of a tick, in microseconds. The tick's own row has the time to compute it,
// the next row the whole latency.
type latency struct{ rest, whole int64 }

// live is the leader's state of a task that is in no row.
type live struct {
	mu       sync.Mutex // guards all below
	polled   int64      // ms
	looks    int64      // number of looks for work
	lastRead int
	last     time.Duration // latency of the last tick that read records
	pending  latency
	mark     int64
	behind   int64 // unread records
	reason   string
}

// open loads an active job as a task. It returns nil if the job does not exist or its task has no
// work.
func (m *machine) open(v *engine.View, r ref) (*task, error) {
	j, ok, err := readJob(v, r)
	if err != nil || !ok {
		return nil, err
	}
	t := &task{ref: r, shard: v.Shard(), shards: v.Shards(), job: j, cursors: make(map[cursorID]cursor), cache: newCache(m.memory)}
	if t.namespace, ok = v.NamespaceName(j.ns); !ok {
		return nil, fmt.Errorf("processing: job %v is of namespace %d, which is not known", r, j.ns)
	}
	t.spread = v.Spread(t.namespace)
	if j.status != Running {
		return t, nil
	}
	if t.row, err = readTask(v, r); err != nil {
		return nil, err
	}
	if t.spread {
		subtask, err := readSubtask(v, r)
		if err != nil {
			return nil, err
		}
		if t.epoch = subtask.epoch; subtask.done || subtask.phase != phaseRunning {
			return nil, nil // the task has no work
		}
	}
	if err := t.compile(v, m.funcs); err != nil {
		return nil, err
	}
	t.divide()
	return t, t.readCursors(v)
}

func readJob(v *engine.View, r ref) (j jobRow, ok bool, err error) {
	b, ok, err := v.Get(jobKey(rowJob, r))
	if err == nil && ok {
		j, err = decode(b, (*jobRow).code)
	}
	return j, ok, err
}

func readDefinition(v *engine.View, r ref) (d definitionRow, err error) {
	b, ok, err := v.Get(jobKey(rowDefinition, r))
	if err == nil && !ok {
		err = fmt.Errorf("processing: job %v has no definition", r)
	}
	if err != nil {
		return d, err
	}
	return decode(b, (*definitionRow).code)
}

func (t *task) compile(v *engine.View, funcs map[string]pipeline.Func) error {
	d, err := readDefinition(v, t.ref)
	if err != nil {
		return err
	}
	job, problems := pipeline.Stored(d.source)
	if job == nil {
		return fmt.Errorf("processing: the definition of job %v is none: %v", t.ref, problems)
	}
	if err := job.Use(funcs); err != nil {
		return err
	}
	job.Parallelism = t.job.parallelism
	operators, sources := make(map[string]uint16), make(map[string]uint16)
	for _, n := range d.numbers {
		if n.source {
			sources[n.name] = n.number
		} else {
			operators[n.name] = n.number
		}
	}
	for i := range job.Sources {
		t.sources = append(t.sources, sources[job.Sources[i].Name])
	}
	t.def = job
	t.prog, err = pipeline.Compile(job, operators)
	return err
}

func (t *task) readCursors(v *engine.View) error {
	prefix := generationKey(rowCursor, t.ref, t.row.generation)
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var c cursor
		k := it.Key()[generationAt:]
		number, partition := uint16(k[0])<<8|uint16(k[1]), int(k[2])<<8|int(k[3])
		if c, err = decode(it.Value(), (*cursor).code); err == nil {
			if source := slices.Index(t.sources, number); source >= 0 {
				t.cursors[cursorID{source, partition}] = c
			}
		}
	}
	return errors.Join(err, it.Close())
}

// step is a tick to be proposed, with the state to store when it has been applied.
type step struct {
	task     *task
	stage    *stage
	command  engine.Command
	tick     tickCommand
	began    int64         // ms
	looked   time.Duration // when the search for it began
	took     int64         // time to compute it, in microseconds, if it is measured
	read     int           // records
	last     int           // records in the last batch
	state    *overlay
	cursors  map[cursorID]cursor
	mark     int64
	reached  int64         // event time reached when it ends
	progress stageProgress // of the stage after the step
	alone    bool          // the progress is sent to all destinations, with records or without
	told     []destination
	effects  effects

	failures []failure // all of them, including those of sinks
}

// next returns the task's next step. If there is nothing to do now, it returns nil and has
// registered what it waits for.
func (t *task) next(ctx context.Context, v *engine.View) (*step, error) {
	now := v.Now()
	t.looked = t.elapsed()
	t.live.look(now, t.mark())
	if t.broken || t.hold.until > now {
		v.WakeAt(t.hold.until)
		return nil, nil
	}
	if s := t.again; s != nil {
		t.again = nil
		return s, nil
	}
	for _, stg := range t.turns() {
		s, err := t.nextOf(ctx, v, stg)
		if s != nil || err != nil {
			t.turn = (stg.index + 1) % len(t.stages)
			return s, err
		}
		if t.hold.until > now {
			return nil, nil
		}
	}
	t.live.hold(t.reason())
	return nil, nil
}

// mark returns the watermark of the stage that writes to sinks.
func (t *task) mark() int64 {
	if len(t.stages) == 0 {
		return noTime
	}
	return t.last().mark
}

// nextOf returns the next step of a stage.
func (t *task) nextOf(ctx context.Context, v *engine.View, stg *stage) (*step, error) {
	var err error
	at := shown{v}
	if stg.reason, err = t.overfull(v, stg); stg.reason != "" || err != nil {
		if err == nil && stg.index == 0 {
			err = t.lookBehind(v)
		}
		return nil, err
	}
	if t.row.of(stg.index).fire != nil {
		return t.compute(ctx, at, stg, nil)
	}
	in, err := t.look(v, stg)
	if err != nil {
		return nil, err
	}
	if stg.index == 0 {
		t.live.isBehind(in.behind())
	}
	if in.failure != "" {
		return t.fail(v.Now(), in.failure), nil
	}
	if stg.reason = in.reason; in.records() || in.fresh || in.done && !t.ended(stg) {
		return t.compute(ctx, at, stg, in)
	}
	if in.done {
		return nil, nil
	}
	now := v.Now()
	due, err := t.due(at, stg, in, now)
	if err == nil && !due {
		due, err = t.toTell(v, stg, in, now)
	}
	if err != nil || !due {
		return nil, err
	}
	return t.compute(ctx, at, stg, in)
}

// overfull returns a reason if too many bytes of a stage wait for other shards, or for later
// stages.
func (t *task) overfull(v *engine.View, stg *stage) (reason string, err error) {
	out, err := readOutOf(v, t.ref, stg.number)
	if err != nil || out.bytes >= maxOutBytes {
		return fmt.Sprintf("%d bytes wait for other shards", out.bytes), err
	}
	for _, to := range stg.targets {
		in, err := readExchange(v, t.ref, t.stages[to].number)
		if err != nil || in.bytes >= maxExchangeBytes {
			return fmt.Sprintf("operator %s: %d bytes wait in its exchange", t.def.Operators[t.stages[to].First()].Name, in.bytes), err
		}
	}
	return "", nil
}

// due reports whether a window must fire without new input. If not, it registers when one may be
// due.
func (t *task) due(v scene, stg *stage, in *input, now int64) (bool, error) {
	at, waits, err := stg.Next(newOverlay(v, t, 0))
	if err != nil || !waits && len(stg.targets) == 0 {
		return false, err
	}
	marks := in.marks(now)
	mark, idle := pipeline.Watermark(marks, now, stg.mark)
	if at := in.trustAt(now); waits && at > 0 {
		v.WakeAt(at)
	}
	if waits && mark >= at {
		return true, nil
	}
	if waits && idle && mark != noTime && mark < pipeline.Bound(marks) {
		v.WakeAt(now + at - mark) // event time advances with the clock
	}
	for i := range marks {
		p := &marks[i]
		if !idle && p.CaughtUp && p.Seen && p.IdleAfter >= 0 {
			if wake := p.Arrived + p.IdleAfter; wake >= now {
				v.WakeAt(wake + 1)
			}
		}
	}
	return false, nil
}

// fail returns the step that ends the job.
func (t *task) fail(now int64, reason string) *step {
	s := &step{task: t, stage: t.stages[0], began: now, mark: t.stages[0].mark}
	s.tick = tickCommand{job: t.ref, revision: t.job.revision, task: t.row, status: Failed, reason: engine.Cut(reason, maxReason)}
	s.tick.task.n++
	s.propose()
	return s
}

// compute passes the available input through the operators, and then fires the windows that are
// due. in is nil while earlier firing continues.
func (t *task) compute(ctx context.Context, v scene, stg *stage, in *input) (*step, error) {
	most := stg.limit
	if t.crowd.is {
		most = min(most, t.crowded().records)
	}
	spoiled := "" // why the one record that a step reads cannot be processed
	for limit := most; ; limit = max(limit/2, 1) {
		s, err := t.try(ctx, v, stg, in, limit, spoiled)
		if errors.Is(err, pipeline.ErrBatch) && limit > 1 {
			stg.limit = max(limit/2, 1) // the next records may be as expensive
			continue
		}
		if err != nil {
			return t.failed(v, err)
		}
		queue, err := t.fullQueue(v, s, limit == 1)
		if err != nil {
			return nil, err
		}
		if queue != "" {
			if limit = min(limit, max(s.read, len(s.effects.writes))); limit == 1 {
				return nil, t.waitForRoom(v, stg, queue)
			}
			stg.limit = limit / 2 // there may be room for fewer records
			continue
		}
		rows, size := s.size()
		if rows <= maxTickRows && size <= maxTickBytes || s.read <= 1 && rows <= hardRows && size <= hardBytes {
			s.finish()
			return s, nil
		}
		if s.read == 0 || spoiled != "" {
			return t.fail(v.Now(), fmt.Sprintf("a window comes to %d bytes in %d rows, at most %d and %d are allowed", size, rows,
				hardBytes, hardRows)), nil
		}
		if s.read == 1 {
			spoiled = fmt.Sprintf("the record comes to %d bytes in %d rows, at most %d and %d are allowed", size, rows, hardBytes, hardRows)
		}
		limit = min(limit, s.read)
		stg.limit = limit / 2
	}
}

// fullQueue returns the first queue of the job's namespace without room for the step's writes, ""
// if all have room. If a step cannot be smaller and its writes exceed the limit of even an empty
// queue, they are refused.
func (t *task) fullQueue(v scene, s *step, least bool) (string, error) {
	var seen []string
	for i := range t.def.Sinks {
		k := &t.def.Sinks[i]
		if k.Kind != pipeline.ToQueue || !t.here(k, k.Target) || slices.Contains(seen, k.Target) {
			continue
		}
		seen = append(seen, k.Target)
		places, size := s.effects.toQueue(t, k.Target)
		if len(places) == 0 {
			continue
		}
		room, err := v.room(t.namespace, k.Target)
		n := int64(len(places))
		switch {
		case err != nil:
			return k.Target, err
		case n <= room.Messages && size <= room.Bytes:
		case least && (n > room.MaxMessages || size > room.MaxBytes):
			reason := fmt.Sprintf("%d messages of %d bytes are more than queue %q ever holds", n, size, k.Target)
			for _, at := range places {
				s.effects.refused = with(s.effects.refused, at, reason)
			}
		default:
			return k.Target, nil
		}
	}
	return "", nil
}

// toQueue returns the indexes of the writes to a queue of the job's namespace, and the size of
// their payloads in bytes.
func (e *effects) toQueue(t *task, queue string) (places []int, size int64) {
	for i := range e.writes {
		w := &e.writes[i]
		if k := &t.def.Sinks[w.Sink]; k.Kind == pipeline.ToQueue && k.Target == queue && t.here(k, queue) {
			places = append(places, i)
			size += int64(len(w.Record.Value))
		}
	}
	return places, size
}

// elsewhere reports whether a sink is in another namespace.
func (t *task) elsewhere(k *pipeline.Sink) bool {
	return k.Namespace != "" && k.Namespace != t.namespace
}

// here reports whether a sink's route is in the namespace and the shard of the task.
func (t *task) here(k *pipeline.Sink, route string) bool {
	return !t.elsewhere(k) && t.shardOf(route) == t.shard
}

// shardOf returns the shard of a name of the job's namespace.
func (t *task) shardOf(name string) engine.ShardID {
	if !t.spread {
		return t.shard
	}
	return engine.NameShard(t.namespace, name, t.shards)
}

// waitForRoom holds the task until a queue has room.
func (t *task) waitForRoom(v scene, stg *stage, queue string) error {
	stg.reason = fmt.Sprintf("queue %q is full", queue)
	return v.awaitRoom(t.namespace, queue)
}

// failed handles the error of an operator that cannot work now.
func (t *task) failed(v scene, err error) (*step, error) {
	if errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrBusy) {
		t.held(v.Now(), err.Error())
		v.WakeAt(t.hold.until)
		return nil, nil
	}
	return nil, err
}

func (t *task) held(now int64, reason string) {
	t.hold.begin(now, reason)
	t.live.hold(reason)
}

// try computes a tick of a stage, of at most limit records. If spoiled is set, the tick only reads
// them and makes them failures.
func (t *task) try(ctx context.Context, v scene, stg *stage, in *input, limit int, spoiled string) (*step, error) {
	if row := t.row.of(stg.index); in != nil && stg.mark == pipeline.EndOfTime {
		stg.mark = noTime // the job was restored: its new input is not late because event time had ended
		if row.target < pipeline.EndOfTime {
			stg.mark = row.target
		}
	}
	s := &step{task: t, stage: stg, began: v.Now(), looked: t.looked, state: newOverlay(v, t, min(stg.changes, 2*limit)), mark: stg.mark,
		reached: stg.mark}
	s.cursors = make(map[cursorID]cursor)
	s.tick = tickCommand{job: t.ref, revision: t.job.revision, task: t.row, stage: stg.number, status: Running}
	s.tick.task.stages = slices.Clone(t.row.stages)
	row := s.tick.task.of(stg.index)
	s.tick.task.n++
	tick := stg.NewTick(s.state, t.lookup(v), limitsOf(limit), stg.mark)
	target, fire := row.target, row.fire
	var marks []pipeline.Progress
	if in != nil {
		var err error
		if target, marks, err = s.readAll(ctx, tick, in, limit, spoiled); err != nil {
			return nil, err
		}
	}
	next, err := tick.Advance(ctx, target, fire)
	if err != nil {
		return nil, err
	}
	if next == nil { // before that, some windows due at it have not been emitted
		s.mark = max(s.mark, target)
	}
	if row.watermark, row.target, row.fire = s.mark, target, next; s.mark == pipeline.EndOfTime {
		row.target = s.reached
	}
	// That event time has ended is not enough: the job may have been stopped and restored since,
	// and may have more to read.
	ended := in != nil && in.done && s.read == 0 && next == nil
	switch {
	case ended && len(stg.targets) == 0:
		s.tick.status = Completed
	case ended:
		s.progress = theEnd
	case in == nil || next != nil:
		s.progress = progressAt(pipeline.Behind(s.mark, stg.Lag()))
	default:
		s.progress, err = t.progressOf(stg, s.state, marks, s.began, s.mark)
	}
	s.effects.take(tick, t)
	return s, err
}

// limitsOf returns the limits of the results of a tick with at most the given number of records.
// The smallest tick fires one window at a time.
func limitsOf(records int) pipeline.Limits {
	l := pipeline.Limits{Bytes: maxTickBytes / 2, Rows: min(maxTickRows/2, 4*records)}
	if records == 1 {
		l.Rows = 1
	}
	return l
}

// crowded returns the limits of a tick's input while users write to the shard.
func (t *task) crowded() portion {
	if t.spread {
		return spreadCrowdPortion
	}
	return crowdPortion
}

// readAll adds batches to a tick, up to its limits. It returns the watermark after them, and the
// marks from which it is computed.
func (s *step) readAll(ctx context.Context, tick *pipeline.Tick, in *input, limit int, spoiled string) (int64, []pipeline.Progress, error) {
	t := s.task
	r := in.begin()
	if t.crowd.is {
		r.most = t.crowded().bytes
	}
	for s.read < limit && r.bytes < r.most && !tick.Tired() {
		batch, failures, err := r.batch(t, min(t.job.batch, limit-s.read))
		if err != nil {
			return 0, nil, err
		}
		n := len(batch) + len(failures)
		if n == 0 {
			break
		}
		s.read, s.last = s.read+n, n
		s.effects.failures = append(s.effects.failures, failures...)
		if spoiled != "" {
			for i := range batch {
				s.effects.failures = append(s.effects.failures,
					t.failureOf(&pipeline.Failure{Operator: t.def.Name, Reason: spoiled, Record: batch[i]}))
			}
			continue
		}
		if err := tick.Add(ctx, batch); err != nil {
			return 0, nil, err
		}
		clear(batch)
		t.spare = batch[:0]
	}
	s.effects.failures = append(s.effects.failures, r.gaps...)
	for _, p := range r.partitions {
		r.missed += p.late
	}
	s.effects.missed = r.missed
	for _, p := range r.partitions {
		if was, ok := t.cursors[p.id]; !ok || was != p.cursor {
			s.cursors[p.id] = p.cursor
		}
	}
	if r.mail != nil {
		r.mail.keep(&s.tick)
	}
	marks := r.marks(s.began)
	mark, idle := pipeline.Watermark(marks, s.began, s.stage.mark)
	if in.done {
		if idle {
			mark = pipeline.Reached(marks, s.stage.mark)
		}
		if mark < pipeline.EndOfTime {
			s.reached = mark
		}
		return pipeline.EndOfTime, nil, nil
	}
	var err error
	if idle {
		mark, err = s.runsOn(marks, mark)
	}
	return mark, marks, err
}

// runsOn returns how far event time advances when all inputs are idle, which is at most the time
// for which a window waits. Otherwise records after a pause would be late if the clock has advanced
// further than their event times.
func (s *step) runsOn(marks []pipeline.Progress, mark int64) (int64, error) {
	at, waits, err := s.stage.Next(s.state)
	to := pipeline.Reached(marks, s.stage.mark)
	if waits {
		to = max(to, at)
	}
	return min(mark, to), err
}

// lookup answers kv_lookup from the view.
func (t *task) lookup(v scene) pipeline.Lookup {
	return func(_ context.Context, namespace string, keys []string) ([][]byte, error) {
		if namespace == "" {
			namespace = t.namespace
		}
		return v.values(namespace, keys)
	}
}

// breaks holds the task after an error that requires a reload.
func (t *task) breaks(now int64, err error) {
	t.broken = true
	t.held(now, err.Error())
}

// proposed handles the result of a proposed step.
func (t *task) proposed(s *step, err error, now int64) {
	var refused *refusedError
	switch {
	case err == nil:
		t.applied(s)
	case errors.As(err, &refused):
		t.refusedOutputs(s, refused, now)
	case errors.Is(err, engine.ErrUnknownOutcome), errors.Is(err, engine.ErrConflict):
		t.broken = true // reload to find out what has been applied
	case errors.Is(err, engine.ErrReadOnly), errors.Is(err, engine.ErrBusy):
		t.held(now, err.Error())
	case errors.Is(err, engine.ErrInvalid) && s.read > 1:
		s.stage.limit = s.read / 2
	case errors.Is(err, engine.ErrInvalid):
		t.held(now, err.Error())
	default:
		t.breaks(now, err)
	}
}

func (t *task) applied(s *step) {
	stg := s.stage
	t.row, stg.mark, t.hold = s.tick.task, s.mark, hold{}
	for id, c := range s.cursors {
		t.cursors[id] = c
	}
	for _, at := range s.told {
		stg.told[at] = s.progress
	}
	if s.alone {
		stg.toldAt = s.began
	}
	if s.state != nil {
		s.state.remember()
		stg.changes = len(s.state.keys)
		t.prog.Spent(s.effects.writes)
		s.effects.writes = nil
	}
	stg.limit = min(stg.limit+max(stg.limit/4, 1), maxBatches*t.job.batch)
	if stg.index > 0 {
		return
	}
	t.latency = latency{}
	if s.read > 0 {
		whole := s.micros()
		t.latency = latency{max(whole-s.took, 0), whole}
	}
	t.live.ticked(s, t.latency)
}

func (t *task) elapsed() time.Duration {
	if t.watch == nil {
		return 0
	}
	return t.watch()
}

// micros returns how long the step has taken so far, in microseconds.
func (s *step) micros() int64 { return max(s.task.elapsed()-s.looked, 0).Microseconds() }

func (l *live) look(now, mark int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.polled, l.mark = now, mark
	l.looks++
}

func (l *live) hold(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reason = reason
}

func (l *live) isBehind(records int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.behind = records
}

func (l *live) ticked(s *step, pending latency) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reason, l.pending = "", pending
	if len(s.stage.targets) == 0 {
		l.mark = s.mark
	}
	if s.read > 0 {
		l.lastRead, l.last = s.last, time.Duration(pending.whole)*time.Microsecond
		if s.stage.index == 0 {
			l.behind = max(l.behind-int64(s.read), 0)
		}
	}
}
