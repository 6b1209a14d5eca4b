package processing

import (
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/pipeline"
)

// A savepoint of a job in a spread namespace captures a moment at which all subtasks are quiesced
// and no record is between two shards.
//
//	home                         all subtasks
//	savepoint requested   ---->  saving:   no more ticks; the subtask is quiesced when all that
//	                                       it has passed on has arrived
//	all quiesced          <----  phase:    quiesced
//	                      ---->  copying:  the leader copies the rows of the subtask and of its
//	                                       exchanges
//	savepoint complete    <----  phase:    copied
//	                      ---->  resuming: the subtask ticks again
//
// Exchanges accept all messages meanwhile, even beyond their limit, because no stage sends more.
// Messages in flight to sinks are not part of the savepoint: they were sent once and will arrive.
//
// Each subtask stores its share of the savepoint under the number that the savepoint has at home.
// In a restore, each subtask fills its next generation from its share. Records passed on before the
// restore are dropped, as identified by the epoch in which they were sent. Records that other
// subtasks pass on in the meantime wait until the subtask has been filled.

// phase is the phase of a subtask in the making of a savepoint.
type phase byte

const (
	phaseRunning  phase = iota
	phaseDraining       // records that it has passed may be on their way
	phaseQuiesced
	phaseCopying
	phaseCopied // it has been copied
)

// saved is the progress of a savepoint as reported by the subtasks of a job.
type saved struct {
	stand, copied  int // number of subtasks
	bytes, records int64
}

func (s *saved) code(c *codec.Coder) {
	c.Int(&s.stand)
	c.Int(&s.copied)
	c.Varint(&s.bytes)
	c.Varint(&s.records)
}

// savepointOf is a savepoint as sent to other shards.
type savepointOf struct {
	number  uint64
	created int64
}

func (s *savepointOf) code(c *codec.Coder) {
	c.Uvarint(&s.number)
	c.Varint(&s.created)
}

// phaseCommand reports that a subtask is quiesced, or has been copied.
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

// savepointsOf returns the savepoints at home.
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

// quiesce reports that a subtask is quiesced once all records that it has passed have arrived.
func (w *work) quiesce(j *job) {
	if j.subtask == nil || j.subtask.phase != phaseDraining || j.restore != 0 {
		return
	}
	for n := range int(j.numbers) + 1 {
		if w.out(j.ref, uint16(n)).passes > 0 {
			return
		}
	}
	j.subtask.phase = phaseQuiesced
	w.save(j)
	w.reportPhase(j, &phaseCommand{job: j.ref, savepoint: j.subtask.saving})
}

// reportPhase reports the phase of a subtask to the job's home.
func (w *work) reportPhase(j *job, p *phaseCommand) {
	if w.home(j) {
		w.heardPhase(j, p)
		return
	}
	w.tell(j, engine.ShardID(j.ref.shard), kindPhase, encode(nil, p, (*phaseCommand).code))
}

// phase handles at home the report of a subtask's phase.
func (w *work) phase(p *phaseCommand) ([]byte, error) {
	if j := w.load(p.job); j != nil && w.home(j) {
		w.heardPhase(j, p)
	}
	return nil, nil
}

func (w *work) heardPhase(j *job, p *phaseCommand) {
	subtask := j.subtask
	if p.savepoint != subtask.saving || subtask.saving == 0 {
		return // the savepoint is no longer wanted
	}
	n := &subtask.saved
	if !p.copied {
		if n.stand++; n.stand == w.tx.Shards() {
			subtask.phase, j.revision = phaseCopying, uint64(w.tx.LSN())
		}
		w.save(j)
		return
	}
	n.copied, n.bytes, n.records = n.copied+1, n.bytes+p.bytes, n.records+p.records
	if n.copied == w.tx.Shards() {
		s := w.savepoint(j, subtask.saving)
		s.complete, s.bytes, s.records = true, n.bytes, n.records
		w.setSavepoint(j, subtask.saving, s)
		j.pending, j.revision = 0, uint64(w.tx.LSN())
		subtask.saving, subtask.phase = 0, phaseRunning
	}
	w.save(j)
}

// copied notes that the subtask in this shard has been copied. At home the savepoint is complete
// when all subtasks have been copied.
func (w *work) copied(j *job, s *savepointRow) {
	j.subtask.phase = phaseCopied
	if w.home(j) {
		s.complete = false
	} else {
		j.pending = 0
	}
	w.save(j)
}

// followSaving updates the subtask to the savepoints of its home.
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
	subtask := j.subtask
	switch {
	case f.saving == 0:
		subtask.saving, subtask.phase, j.pending = 0, phaseRunning, 0
	case subtask.saving != f.saving:
		subtask.saving, subtask.phase, j.pending = f.saving, phaseDraining, f.saving
		at := slices.IndexFunc(f.savepoints, func(s savepointOf) bool { return s.number == f.saving })
		w.setSavepoint(j, f.saving, &savepointRow{created: f.savepoints[at].created})
		j.savepoints++
		w.quiesce(j)
	case f.copies && subtask.phase == phaseQuiesced:
		subtask.phase = phaseCopying
	}
}

// renumber gives stages their new numbers, and removes those that no longer exist.
func (t *taskRow) renumber(kept keptMap) (err error) {
	var stages []stageRow
	for _, s := range t.stages {
		number, ok := kept[s.number]
		if !ok {
			continue
		}
		if s.fire, err = pipeline.Renumber(s.fire, kept); err != nil {
			return err
		}
		var upstreams []heard
		for _, h := range s.upstreams {
			if h.from.stage, ok = kept.stage(h.from.stage); ok {
				upstreams = append(upstreams, h)
			}
		}
		s.number, s.upstreams = number, upstreams
		stages = append(stages, s)
	}
	t.stages = stages
	return nil
}

// stage maps the number of a stage. The first stage has no number.
func (k keptMap) stage(was uint16) (is uint16, ok bool) {
	if was == 0 {
		return 0, true
	}
	is, ok = k[was]
	return is, ok
}

// inExchange returns a row of an exchange, or a message in one, with the new numbers.
func (k keptMap) inExchange(kind byte, stage uint16, value []byte) ([]byte, error) {
	if kind == rowExchange {
		in, err := decode(value, (*exchangeRow).code)
		var last []arrival
		for _, a := range in.last {
			var ok bool
			if a.from.stage, ok = k.stage(a.from.stage); ok {
				last = append(last, a)
			}
		}
		in.last, in.bytes = last, 0 // its messages are counted as they are added
		return encode(nil, &in, (*exchangeRow).code), err
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
	p.to, p.records = stage, encode(nil, &records, (*passed).code)
	p.from.stage, _ = k.stage(p.from.stage)
	return encode(nil, &p, (*passCommand).code), nil
}
