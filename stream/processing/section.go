package processing

import (
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/pipeline"
)

// section is a part of the operators of a task, which has ticks of its own. In an ordinary namespace it is all of them.
type section struct {
	*pipeline.Section
	number    uint16
	index     int
	upstreams []uint16 // numbers of the sections that pass records here; none: it reads the sources
	targets   []int    // sections that it passes records to
	mark      int64    // the watermark: that of the row, or later
	limit     int      // records of the next tick, at most
	changes   int      // of state, that the last tick made
	reason    string   // why it waits
	told      map[place]standing
	toldAt    int64 // when it was told alone
}

// place is a section in a shard.
type place struct {
	section int
	shard   engine.ShardID
}

// divide makes the sections of a task, and rows for them.
func (t *task) divide() {
	divided := []pipeline.Section{*t.prog.Whole()}
	if t.spread {
		divided = t.prog.Sections()
	}
	rows := make([]sectionRow, 0, len(divided)-1)
	for i := range divided {
		sec := &section{Section: &divided[i], number: divided[i].Number, index: i, limit: maxBatches * t.job.batch, told: make(map[place]standing)}
		if t.spread {
			sec.targets = divided[i].Targets()
		}
		t.sections = append(t.sections, sec)
		if i == 0 {
			sec.mark = t.row.watermark
			continue
		}
		row := sectionRow{number: sec.number, progress: progress{watermark: noTime, target: noTime}}
		if at := slices.IndexFunc(t.row.sections, func(s sectionRow) bool { return s.number == sec.number }); at >= 0 {
			row = t.row.sections[at]
		}
		sec.mark = row.watermark
		rows = append(rows, row)
	}
	t.row.sections = rows
	for _, from := range t.sections {
		for _, to := range from.targets {
			t.sections[to].upstreams = append(t.sections[to].upstreams, from.number)
		}
		if row := t.row.of(from.index); row.epoch == t.epoch {
			for _, at := range t.places(from) {
				from.told[at] = row.told
			}
		}
	}
}

// last is the section whose records go to sinks.
func (t *task) last() *section { return t.sections[len(t.sections)-1] }

// turns returns the sections, beginning with the one behind that which had its turn last.
func (t *task) turns() []*section {
	return slices.Concat(t.sections[t.turn:], t.sections[:t.turn])
}

// reason is why one of the sections waits.
func (t *task) reason() string {
	for _, sec := range t.sections {
		if sec.reason != "" {
			return sec.reason
		}
	}
	return ""
}

// stands returns how far a section has come when it has read the marks.
func (t *task) stands(sec *section, state pipeline.State, marks []pipeline.Part, now, mark int64) (standing, error) {
	sum := pipeline.Sum(marks, now, mark)
	if !sum.Idle {
		return standingOf(behind(sum, sec.Lag())), nil
	}
	at, waits, err := sec.Next(state)
	if waits && (!sum.Bounded || at-1 < sum.Bound) {
		sum.Bounded, sum.Bound = true, at-1
	}
	return standingOf(behind(sum, sec.Lag())), err
}

// behind is what parts are together, some time before.
func behind(sum pipeline.Part, lag int64) pipeline.Part {
	sum.Newest, sum.Bound = pipeline.Behind(sum.Newest, lag), pipeline.Behind(sum.Bound, lag)
	return sum
}

// standsAt is a section that has fired what is due at a watermark, or not all of it yet.
func standsAt(mark int64) standing { return standing{seen: mark != noTime, newest: mark} }

// places returns all places that a section passes records to, in order.
func (t *task) places(sec *section) (all []place) {
	for _, to := range sec.targets {
		for shard := range engine.ShardID(t.shards) {
			all = append(all, place{to, shard})
		}
	}
	return all
}

// knows reports whether all places have been told how far a section has come.
func (t *task) knows(sec *section, s standing) bool {
	return !slices.ContainsFunc(t.places(sec), func(p place) bool { return sec.told[p] != s })
}

// toTell reports whether a section has to tell how far it has come, with nothing to pass. It says when, if that is later.
func (t *task) toTell(v *engine.View, sec *section, in *input, now int64) (bool, error) {
	if len(sec.targets) == 0 {
		return false, nil
	}
	trustAt := in.trustAt(now)
	if trustAt > 0 { // the standing may be another one then, without any message
		v.WakeAt(trustAt)
	}
	s, err := t.stands(sec, newOverlay(shown{v}, t, 0), in.marks(now), now, sec.mark)
	if err != nil || t.knows(sec, s) {
		return false, err
	}
	if trustAt > 0 {
		trusting, err := t.stands(sec, newOverlay(shown{v}, t, 0), in.marks(trustAt), now, sec.mark)
		if err != nil || t.knows(sec, trusting) { // it is where it was, as far as has been heard
			return false, err
		}
	}
	if at := sec.toldAt + t.tellMillis(); at > now {
		v.WakeAt(at)
		return false, nil
	}
	return true, nil
}

// tellMillis is how long a section waits before it tells once more how far it has come.
func (t *task) tellMillis() int64 {
	return max(minTellMillis, tellMillisPerShard*int64(t.shards))
}

// ended reports whether a section that has read all there will be has told so.
func (t *task) ended(sec *section) bool {
	return len(sec.targets) > 0 && t.knows(sec, theEnd)
}

// theEnd is the standing of a section that has read all there will be.
var theEnd = standing{seen: true, newest: pipeline.EndOfTime, done: true}

// passes returns the outputs that pass records to other sections. Places without any are told how far the section has come, if there are none at all or it is time.
func (s *step) passes() (all []output) {
	t, sec := s.task, s.section
	if len(sec.targets) == 0 {
		return nil
	}
	makers := make(map[place]*passing)
	for i := range s.effects.passes {
		p := &s.effects.passes[i]
		at := place{p.Section, t.shard}
		if p.Placed {
			at.shard = t.shardOfKey(t.sections[p.Section], p.Key)
		}
		m := makers[at]
		if m == nil {
			m = &passing{}
			makers[at] = m
		}
		m.add(&p.Record)
	}
	// The end is told at once: the part may have ended before there is another chance.
	s.told, s.alone = nil, s.stands.done || s.began >= sec.toldAt+t.tellMillis()
	for _, at := range t.places(sec) {
		m, told := makers[at], sec.told[at]
		if m == nil && (!s.alone || told == s.stands) {
			continue
		}
		if m == nil {
			m = &passing{}
		}
		all = append(all, m.outputs(s, at)...)
		s.told = append(s.told, at)
	}
	row := s.tick.task.of(sec.index)
	if row.told, row.epoch = s.stands, t.epoch; slices.ContainsFunc(t.places(sec), func(p place) bool { return sec.told[p] != s.stands && !slices.Contains(s.told, p) }) {
		row.told, row.epoch = standing{}, 0
	}
	return all
}

// shardOfKey returns the shard where a section has a key.
func (t *task) shardOfKey(sec *section, key string) engine.ShardID {
	if ns := sec.Namespace(); ns != "" && ns != t.namespace {
		return engine.HomeShard(ns, t.shards)
	}
	return t.shardOf(key)
}

// passing are records that go to one place, in messages of bounded size.
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

// outputs returns the messages. Only the last says how far the section has come.
func (m *passing) outputs(s *step, at place) (all []output) {
	t, sec := s.task, s.section
	if len(m.records) > 0 || len(m.full) == 0 {
		m.full = append(m.full, m.records)
	}
	for i, records := range m.full {
		p := passed{records: records, sources: t.sources, tags: t.prog.Tags()}
		c := passCommand{
			job: t.ref, epoch: t.epoch, to: t.sections[at.section].number, from: upstream{sec.number, uint16(t.shard)},
			says: i == len(m.full)-1, told: s.began, stands: s.stands, records: encode(nil, &p, (*passed).code),
		}
		all = append(all, output{
			sink: -1, records: int64(len(records)), route: engine.RouteTo(t.namespace, at.shard, t.shards), machine: engine.MachineProcessing, kind: kindPass,
			body: encode(nil, &c, (*passCommand).code),
		})
	}
	return all
}
