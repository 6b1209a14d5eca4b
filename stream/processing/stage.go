package processing

import (
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/pipeline"
)

// stage is a part of a task's operators that has its own ticks. In an ordinary namespace one stage
// has all operators.
type stage struct {
	*pipeline.Stage
	number    uint16
	index     int
	upstreams []uint16 // numbers of the stages that pass records here; none: it reads the sources
	targets   []int    // stages to which it passes records
	mark      int64    // the watermark: that of the row, or a later one
	limit     int      // maximum number of records of the next tick
	changes   int      // number of state changes of the last tick
	reason    string   // why it waits
	told      map[destination]stageProgress
	toldAt    int64 // when its progress was last sent alone
}

// destination is a stage in a shard.
type destination struct {
	stage int
	shard engine.ShardID
}

// divide creates the stages of a task, and their rows.
func (t *task) divide() {
	divided := []pipeline.Stage{*t.prog.Whole()}
	if t.spread {
		divided = t.prog.Stages()
	}
	rows := make([]stageRow, 0, len(divided)-1)
	for i := range divided {
		stg := &stage{Stage: &divided[i], number: divided[i].Number, index: i, limit: maxBatches * t.job.batch,
			told: make(map[destination]stageProgress)}
		if t.spread {
			stg.targets = divided[i].Targets()
		}
		t.stages = append(t.stages, stg)
		if i == 0 {
			stg.mark = t.row.watermark
			continue
		}
		row := stageRow{number: stg.number, progress: progress{watermark: noTime, target: noTime}}
		if at := slices.IndexFunc(t.row.stages, func(s stageRow) bool { return s.number == stg.number }); at >= 0 {
			row = t.row.stages[at]
		}
		stg.mark = row.watermark
		rows = append(rows, row)
	}
	t.row.stages = rows
	for _, from := range t.stages {
		for _, to := range from.targets {
			t.stages[to].upstreams = append(t.stages[to].upstreams, from.number)
		}
		if row := t.row.of(from.index); row.epoch == t.epoch {
			for _, at := range t.destinations(from) {
				from.told[at] = row.told
			}
		}
	}
}

// last returns the stage whose records go to sinks.
func (t *task) last() *stage { return t.stages[len(t.stages)-1] }

// turns returns the stages, beginning after the one that had the last turn.
func (t *task) turns() []*stage {
	return slices.Concat(t.stages[t.turn:], t.stages[:t.turn])
}

// reason returns why one of the stages waits.
func (t *task) reason() string {
	for _, stg := range t.stages {
		if stg.reason != "" {
			return stg.reason
		}
	}
	return ""
}

// progressOf returns the progress of a stage whose input has the given marks.
func (t *task) progressOf(stg *stage, state pipeline.State, marks []pipeline.Progress, now, mark int64) (stageProgress, error) {
	sum := pipeline.Sum(marks, now, mark)
	if !sum.Idle {
		return toStageProgress(behind(sum, stg.Lag())), nil
	}
	at, waits, err := stg.Next(state)
	if waits && (!sum.Bounded || at-1 < sum.Bound) {
		sum.Bounded, sum.Bound = true, at-1
	}
	return toStageProgress(behind(sum, stg.Lag())), err
}

// behind moves the sum of several progresses back by lag.
func behind(sum pipeline.Progress, lag int64) pipeline.Progress {
	sum.Newest, sum.Bound = pipeline.Behind(sum.Newest, lag), pipeline.Behind(sum.Bound, lag)
	return sum
}

// progressAt returns the progress of a stage at a watermark, even if it has not fired everything
// due there.
func progressAt(mark int64) stageProgress { return stageProgress{seen: mark != noTime, newest: mark} }

// destinations returns the stages, by shard, to which a stage passes records, in order.
func (t *task) destinations(stg *stage) (all []destination) {
	for _, to := range stg.targets {
		for shard := range engine.ShardID(t.shards) {
			all = append(all, destination{to, shard})
		}
	}
	return all
}

// knows reports whether all destinations have received the progress s of a stage.
func (t *task) knows(stg *stage, s stageProgress) bool {
	return !slices.ContainsFunc(t.destinations(stg), func(p destination) bool { return stg.told[p] != s })
}

// toTell reports whether a stage must send its progress without records. If it must do so later,
// toTell registers the time.
func (t *task) toTell(v *engine.View, stg *stage, in *input, now int64) (bool, error) {
	if len(stg.targets) == 0 {
		return false, nil
	}
	trustAt := in.trustAt(now)
	if trustAt > 0 { // the progress may change then, without any message
		v.WakeAt(trustAt)
	}
	s, err := t.progressOf(stg, newOverlay(shown{v}, t, 0), in.marks(now), now, stg.mark)
	if err != nil || t.knows(stg, s) {
		return false, err
	}
	if trustAt > 0 {
		trusting, err := t.progressOf(stg, newOverlay(shown{v}, t, 0), in.marks(trustAt), now, stg.mark)
		if err != nil || t.knows(stg, trusting) { // unchanged, as far as has been received
			return false, err
		}
	}
	if at := stg.toldAt + t.tellMillis(); at > now {
		v.WakeAt(at)
		return false, nil
	}
	return true, nil
}

// tellMillis returns the minimum interval at which a stage sends its progress without records.
func (t *task) tellMillis() int64 {
	return max(minTellMillis, tellMillisPerShard*int64(t.shards))
}

// ended reports whether a stage that has read all its input has sent the end.
func (t *task) ended(stg *stage) bool {
	return len(stg.targets) > 0 && t.knows(stg, theEnd)
}

// theEnd is the progress of a stage that has read everything.
var theEnd = stageProgress{seen: true, newest: pipeline.EndOfTime, done: true}

// passes returns the outputs that pass records to other stages. Destinations without records
// receive only the progress, if the stage is done or the interval is over.
func (s *step) passes() (all []output) {
	t, stg := s.task, s.stage
	if len(stg.targets) == 0 {
		return nil
	}
	makers := make(map[destination]*passing)
	for i := range s.effects.passes {
		p := &s.effects.passes[i]
		at := destination{p.Stage, t.shard}
		if p.Placed {
			at.shard = t.shardOfKey(t.stages[p.Stage], p.Key)
		}
		m := makers[at]
		if m == nil {
			m = &passing{}
			makers[at] = m
		}
		m.add(&p.Record)
	}
	// The end is sent at once: the subtask may have ended before there is another chance.
	s.told, s.alone = nil, s.progress.done || s.began >= stg.toldAt+t.tellMillis()
	for _, at := range t.destinations(stg) {
		m, told := makers[at], stg.told[at]
		if m == nil && (!s.alone || told == s.progress) {
			continue
		}
		if m == nil {
			m = &passing{}
		}
		all = append(all, m.outputs(s, at)...)
		s.told = append(s.told, at)
	}
	row := s.tick.task.of(stg.index)
	if row.told, row.epoch = s.progress, t.epoch; slices.ContainsFunc(t.destinations(stg),
		func(p destination) bool { return stg.told[p] != s.progress && !slices.Contains(s.told, p) }) {
		row.told, row.epoch = stageProgress{}, 0
	}
	return all
}

// shardOfKey returns the shard of a key in a stage.
func (t *task) shardOfKey(stg *stage, key string) engine.ShardID {
	if ns := stg.Namespace(); ns != "" && ns != t.namespace {
		return engine.HomeShard(ns, t.shards)
	}
	return t.shardOf(key)
}

// passing collects records for one destination in messages of limited size.
type passing struct {
	full    [][]pipeline.Record
	records []pipeline.Record
	size    int
}

func (m *passing) add(r *pipeline.Record) {
	m.records = append(m.records, *r)
	if m.size += len(r.Key) + len(r.Value); len(m.records) >= maxPerOutput || m.size >= maxOutputBytes {
		m.full = append(m.full, m.records)
		m.records, m.size = nil, 0
	}
}

// outputs returns the messages. Only the last one has the progress of the stage.
func (m *passing) outputs(s *step, at destination) (all []output) {
	t, stg := s.task, s.stage
	if len(m.records) > 0 || len(m.full) == 0 {
		m.full = append(m.full, m.records)
	}
	for i, records := range m.full {
		p := passed{records: records, sources: t.sources, tags: t.prog.Tags()}
		c := passCommand{
			job: t.ref, epoch: t.epoch, to: t.stages[at.stage].number, from: upstream{stg.number, uint16(t.shard)},
			says: i == len(m.full)-1, told: s.began, progress: s.progress, records: encode(nil, &p, (*passed).code),
		}
		all = append(all, output{
			sink: -1, records: int64(len(records)), route: engine.RouteTo(t.namespace, at.shard,
				t.shards), machine: engine.MachineProcessing, kind: kindPass,
			body: encode(nil, &c, (*passCommand).code),
		})
	}
	return all
}
