package processing

import (
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/pipeline"
)

// A savepoint of a job in a spread namespace is of a moment at which all of its parts stand still and nothing that is passed is on its way.
//
//	home                                                 all parts
//	a savepoint is asked for    - follow: saving ->      no tick any more; when what has been passed has arrived, the part stands still
//	all parts stand still       <- phase: still -
//	                            - follow: copies ->      the leader copies the rows of the part, and of its inboxes
//	it is complete              <- phase: copied -
//	                            - follow: saving none -> the part goes on
//
// Inboxes take what they have no room for meanwhile: nobody sends more. What sinks are to have is no part of it: that has been sent once, whenever it arrives.
//
// Each part has its share of the savepoint, under the number that it has at home. A restore has each part fill its next generation from its share. What was passed
// before is dropped, by the epoch in which it was sent, and what others pass by then waits until the part has been filled.

// phase is how far a part is with a savepoint.
type phase byte

const (
	goesOn phase = iota
	pauses       // something that it has passed may be on its way
	stands
	copies
	rests // it has been copied
)

// saved is what the parts of a job have told of a savepoint.
type saved struct {
	stand, copied  int // parts
	bytes, records int64
}

func (s *saved) code(c *codec.Coder) {
	c.Int(&s.stand)
	c.Int(&s.copied)
	c.Varint(&s.bytes)
	c.Varint(&s.records)
}

// savepointOf is a savepoint as other shards hear of it.
type savepointOf struct {
	number  uint64
	created int64
}

func (s *savepointOf) code(c *codec.Coder) {
	c.Uvarint(&s.number)
	c.Varint(&s.created)
}

// phaseCommand says that a part stands still, or has been copied.
type phaseCommand struct {
	job       ref
	savepoint uint64
	copied    bool
	bytes     int64
	records   int64
}

func (p *phaseCommand) code(c *codec.Coder) {
	codeRef(c, &p.job)
	c.Uvarint(&p.savepoint)
	c.Bool(&p.copied)
	c.Varint(&p.bytes)
	c.Varint(&p.records)
}

// savepointsOf returns the savepoints that there are at home.
func (w *work) savepointsOf(j *job) (all []savepointOf) {
	prefix := jobKey(rowSavepoint, j.ref)
	it := w.tx.Iter(prefix, key.PrefixEnd(prefix))
	for ok := it.First(); ok; ok = it.Next() {
		s := must(decode(it.Value(), (*savepointRow).code))
		all = append(all, savepointOf{uint64At(it.Key(), 1+refLen), s.created})
	}
	if err := it.Close(); err != nil {
		panic(fmt.Sprintf("processing: savepoints of job %v: %v", j.ref, err))
	}
	return all
}

// standStill has a part tell that it stands still, once what it has passed has arrived.
func (w *work) standStill(j *job) {
	if j.part == nil || j.part.phase != pauses || j.restore != 0 {
		return
	}
	for n := range int(j.numbers) + 1 {
		if w.out(j.ref, uint16(n)).passes > 0 {
			return
		}
	}
	j.part.phase = stands
	w.save(j)
	w.reportPhase(j, &phaseCommand{job: j.ref, savepoint: j.part.saving})
}

// reportPhase tells the job's home of a part.
func (w *work) reportPhase(j *job, p *phaseCommand) {
	if w.home(j) {
		w.heardPhase(j, p)
		return
	}
	w.tell(j, engine.ShardID(j.ref.shard), kindPhase, encode(nil, p, (*phaseCommand).code))
}

// phase hears at home how far a part is with a savepoint.
func (w *work) phase(p *phaseCommand) ([]byte, error) {
	if j := w.load(p.job); j != nil && w.home(j) {
		w.heardPhase(j, p)
	}
	return nil, nil
}

func (w *work) heardPhase(j *job, p *phaseCommand) {
	part := j.part
	if p.savepoint != part.saving || part.saving == 0 {
		return // it is not wanted any more
	}
	n := &part.saved
	if !p.copied {
		if n.stand++; n.stand == w.tx.Shards() {
			part.phase, j.revision = copies, uint64(w.tx.LSN())
		}
		w.save(j)
		return
	}
	n.copied, n.bytes, n.records = n.copied+1, n.bytes+p.bytes, n.records+p.records
	if n.copied == w.tx.Shards() {
		s := w.savepoint(j, part.saving)
		s.complete, s.bytes, s.records = true, n.bytes, n.records
		w.setSavepoint(j, part.saving, s)
		j.pending, j.revision = 0, uint64(w.tx.LSN())
		part.saving, part.phase = 0, goesOn
	}
	w.save(j)
}

// copied notes that the part in this shard has been copied. At home the savepoint is complete when all have been.
func (w *work) copied(j *job, s *savepointRow) {
	j.part.phase = rests
	if w.home(j) {
		s.complete = false
	} else {
		j.pending = 0
	}
	w.save(j)
}

// followSaving has the part do what its home says of savepoints.
func (w *work) followSaving(j *job, f *followCommand) {
	for _, s := range w.savepointsOf(j) {
		if s.number == j.restore || slices.ContainsFunc(f.savepoints, func(at savepointOf) bool { return at.number == s.number }) {
			continue
		}
		if j.pending == s.number {
			j.pending = 0
		}
		w.removeSavepoint(j, s.number)
	}
	part := j.part
	switch {
	case f.saving == 0:
		part.saving, part.phase, j.pending = 0, goesOn, 0
	case part.saving != f.saving:
		part.saving, part.phase, j.pending = f.saving, pauses, f.saving
		at := slices.IndexFunc(f.savepoints, func(s savepointOf) bool { return s.number == f.saving })
		w.setSavepoint(j, f.saving, &savepointRow{created: f.savepoints[at].created})
		j.savepoints++
		w.standStill(j)
	case f.copies && part.phase == stands:
		part.phase = copies
	}
}

// renumber gives sections the numbers that they have now, and leaves out those that there are no more.
func (t *taskRow) renumber(kept keptMap) (err error) {
	var sections []sectionRow
	for _, s := range t.sections {
		number, ok := kept[s.number]
		if !ok {
			continue
		}
		if s.fire, err = pipeline.Renumber(s.fire, kept); err != nil {
			return err
		}
		var upstreams []heard
		for _, h := range s.upstreams {
			if h.from.section, ok = kept.section(h.from.section); ok {
				upstreams = append(upstreams, h)
			}
		}
		s.number, s.upstreams = number, upstreams
		sections = append(sections, s)
	}
	t.sections = sections
	return nil
}

// section maps the number of a section, of which the first has none.
func (k keptMap) section(was uint16) (is uint16, ok bool) {
	if was == 0 {
		return 0, true
	}
	is, ok = k[was]
	return is, ok
}

// inInbox returns a row of an inbox, or a message in one, with the numbers of now.
func (k keptMap) inInbox(kind byte, section uint16, value []byte) ([]byte, error) {
	if kind == rowInbox {
		in, err := decode(value, (*inboxRow).code)
		var last []arrival
		for _, a := range in.last {
			var ok bool
			if a.from.section, ok = k.section(a.from.section); ok {
				last = append(last, a)
			}
		}
		in.last, in.bytes = last, 0 // its messages are counted as they come
		return encode(nil, &in, (*inboxRow).code), err
	}
	p, err := decode(value, (*passCommand).code)
	if err != nil {
		return nil, err
	}
	records := passed{asIs: true}
	for was := range k {
		records.sources = append(records.sources, was)
	}
	c := codec.NewDecoder(p.records)
	if records.code(&c); c.Done() != nil {
		return nil, c.Done()
	}
	for i, was := range records.sources {
		records.sources[i] = k[was]
	}
	p.to, p.records = section, encode(nil, &records, (*passed).code)
	p.from.section, _ = k.section(p.from.section)
	return encode(nil, &p, (*passCommand).code), nil
}
