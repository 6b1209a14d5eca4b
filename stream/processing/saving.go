package processing

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/pipeline"
)

// chunkBytes is the size of the rows in a savepoint's chunk, before compression.
const chunkBytes = 1 << 20

// keepSavepoints is the duty that makes savepoints while ticks continue, and restores jobs from
// them. A savepoint captures one moment, so it is copied from one view, which is held while the
// chunks are proposed. A restore reads one chunk at a time.
func (m *machine) keepSavepoints(ctx context.Context, lead *engine.Lead) error {
	held := make(map[ref]*hold) // jobs with errors; others do not wait for them
	defer m.stuck.Clear()
	for {
		var next *saving
		err := lead.View(ctx, func(v *engine.View) (err error) {
			if err := v.WaitOn(jobsTopic()); err != nil {
				return err
			}
			if next, err = nextSaving(ctx, lead, v, held); err == nil && next == nil {
				return engine.ErrWait
			}
			return err
		})
		if err == nil && next.body != nil {
			_, err = next.propose(next.kind, next.body)
		}
		switch {
		case ends(ctx, err) || next == nil:
			return err
		case err == nil:
			delete(held, next.ref)
			m.stuck.Delete(next.ref)
		case errors.Is(err, engine.ErrConflict): // overtaken: the next view has the current state
		default:
			if held[next.ref] == nil {
				held[next.ref] = new(hold)
			}
			held[next.ref].begin(lead.Now(), err.Error())
			m.stuck.Store(next.ref, err.Error())
		}
	}
}

// nextSaving makes one savepoint from the view, or returns the next chunk of a generation being
// filled, which the caller proposes. It returns nil if there is nothing to do, or on an error that
// concerns no job. Held jobs wait.
func nextSaving(ctx context.Context, lead *engine.Lead, v *engine.View, held map[ref]*hold) (*saving, error) {
	r, j, ok, err := jobToSave(v, held)
	if !ok {
		return nil, err
	}
	s := &saving{ctx: ctx, lead: lead, view: v, ref: r, job: j}
	if err != nil {
		return s, err
	}
	if s.namespace, ok = v.NamespaceName(j.ns); !ok {
		return s, fmt.Errorf("processing: job %v is of namespace %d, which is not known", r, j.ns)
	}
	s.spread = v.Spread(s.namespace)
	if j.restore != 0 {
		return s, s.fill()
	}
	return s, s.saveAll()
}

// jobToSave returns a job to save or to restore. With ok, an error concerns that job.
func jobToSave(v *engine.View, held map[ref]*hold) (r ref, j jobRow, ok bool, err error) {
	it, err := v.Iter([]byte{rowActive}, []byte{rowActive + 1})
	if err != nil {
		return r, j, false, err
	}
	var all []ref
	for ok := it.First(); ok; ok = it.Next() {
		all = append(all, refOf(it.Key()[1:]))
	}
	if err := it.Close(); err != nil {
		return r, j, false, err
	}
	maps.DeleteFunc(held, func(r ref, _ *hold) bool { return !slices.Contains(all, r) })
	for _, r := range all {
		if h := held[r]; h != nil && h.until > v.Now() {
			v.WakeAt(h.until)
			continue
		}
		j, ok, err := readJob(v, r)
		subtask := subtaskRow{}
		if err == nil && ok && j.pending != 0 && j.restore == 0 {
			subtask, err = readSubtask(v, r)
		}
		if err != nil || ok && (j.restore != 0 || j.pending != 0 && (subtask.epoch == 0 || subtask.phase == phaseCopying)) {
			return r, j, true, err
		}
	}
	return r, j, false, nil
}

// saving makes a savepoint, or restores a job from one.
type saving struct {
	ctx       context.Context
	lead      *engine.Lead
	view      *engine.View
	ref       ref
	job       jobRow
	namespace string
	spread    bool

	kind uint8 // of the command to propose after the view is released
	body []byte
}

func (s *saving) propose(kind uint8, body []byte) ([]byte, error) {
	return s.lead.Propose(s.ctx, engine.Command{
		Machine: engine.MachineProcessing, Kind: kind, Namespace: s.namespace, Spread: s.spread, Body: body,
	})
}

// saveAll copies the rows of the job's generation from the view.
func (s *saving) saveAll() error {
	number := s.job.pending
	begin := saveCommand{job: s.ref, savepoint: number}
	res, err := s.propose(kindBeginSave, encode(nil, &begin, (*saveCommand).code))
	if err != nil {
		return err
	}
	last := new(savepointRow)
	if last.task, err = readTask(s.view, s.ref); err != nil {
		return err
	}
	d, err := readDefinition(s.view, s.ref)
	if err != nil {
		return err
	}
	last.numbers = d.numbers
	w := &chunkWriter{saving: s, command: saveCommand{job: s.ref, savepoint: number, attempt: binary.BigEndian.Uint64(res)}}
	for _, kind := range []byte{rowCursor, rowState} {
		if err := w.copy(kind, generationKey(kind, s.ref, last.task.generation)); err != nil {
			return err
		}
	}
	if s.spread {
		for _, kind := range []byte{rowExchange, rowMessage} {
			if err := w.copy(kind, jobKey(kind, s.ref)); err != nil {
				return err
			}
		}
	}
	w.command.last = last
	return w.flush()
}

func readTask(v *engine.View, r ref) (t taskRow, err error) {
	b, ok, err := v.Get(jobKey(rowTask, r))
	if err == nil && !ok {
		err = fmt.Errorf("processing: job %v has no task", r)
	}
	if err != nil {
		return t, err
	}
	return decode(b, (*taskRow).code)
}

// chunkWriter proposes rows in compressed chunks: kind, then the key after the generation and the
// value (uvarint length, bytes).
type chunkWriter struct {
	*saving
	command saveCommand
	buf     []byte
}

func (w *chunkWriter) copy(kind byte, prefix []byte) error {
	it, err := w.view.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		w.buf = codec.AppendBytes(append(w.buf, kind), it.Key()[len(prefix):])
		w.buf = codec.AppendBytes(w.buf, it.Value())
		if len(w.buf) >= chunkBytes {
			err = w.flush()
		}
	}
	return errors.Join(err, it.Close())
}

func (w *chunkWriter) flush() error {
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := z.Write(w.buf); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	w.command.data = b.Bytes()
	if _, err := w.propose(kindSave, encode(nil, &w.command, (*saveCommand).code)); err != nil {
		return err
	}
	w.command.chunk++
	w.buf = w.buf[:0]
	return nil
}

// maxChunk limits the decompressed size of a chunk: rows have up to a few MiB.
const maxChunk = 64 << 20

// readChunk calls f for the rows of a chunk.
func readChunk(b []byte, f func(kind byte, k, value []byte)) error {
	rows, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(b)), maxChunk))
	if err != nil {
		return fmt.Errorf("processing: chunk of a savepoint: %w", err)
	}
	r := codec.NewReader(rows)
	for r.Len() > 0 {
		kind, k, value := r.Byte(), r.Bytes(), r.Bytes()
		if r.Err() == nil && (kind == rowCursor && len(k) == 4 || kind == rowState && len(k) >= 2 || kind == rowExchange &&
			len(k) == exchangeKeyLen || kind == rowMessage && len(k) == messageKeyLen) {
			f(kind, k, value)
		} else if r.Err() == nil {
			return fmt.Errorf("processing: chunk of a savepoint: %w: row %q %x", codec.ErrCorrupt, kind, k)
		}
	}
	return r.Err()
}

// fill makes the command that adds the next chunk to the generation being filled.
func (s *saving) fill() error {
	b, ok, err := s.view.Get(savepointKey(s.ref, s.job.restore))
	if err != nil || !ok {
		return errors.Join(err, fmt.Errorf("processing: job %v is restored from a savepoint that is not there", s.ref))
	}
	sp, err := decode(b, (*savepointRow).code)
	if err != nil {
		return err
	}
	d, err := readDefinition(s.view, s.ref)
	if err != nil {
		return err
	}
	chunk := s.job.restored
	f := fillCommand{job: s.ref, revision: s.job.revision, savepoint: s.job.restore, chunk: chunk, last: chunk+1 == sp.chunks,
		task: sp.task}
	if b, ok, err = s.view.Get(chunkKey(s.ref, s.job.restore, chunk)); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("processing: job %v: a savepoint has no chunk %d", s.ref, chunk))
	}
	kept := keptNumbers(sp.numbers, d.numbers)
	if f.task.fire, err = pipeline.Renumber(f.task.fire, kept); err != nil {
		return err
	}
	if err := f.task.renumber(kept); err != nil {
		return err
	}
	if !slices.ContainsFunc(sp.numbers, func(n numbered) bool { return n.source && kept[n.number] != 0 }) {
		f.task.beginTime()
	}
	if err := f.read(b, kept); err != nil {
		return err
	}
	s.kind, s.body = kindFill, encode(nil, &f, (*fillCommand).code)
	return nil
}

// keptMap maps old numbers to new ones.
type keptMap map[uint16]uint16

// keptNumbers maps the numbers of a savepoint's parts to their current ones.
func keptNumbers(was, is []numbered) keptMap {
	kept := make(keptMap)
	for _, o := range was {
		for _, n := range is {
			if n.source == o.source && n.name == o.name && n.shape == o.shape {
				kept[o.number] = n.number
			}
		}
	}
	return kept
}

// read adds the rows of a chunk that are kept.
func (f *fillCommand) read(b []byte, kept keptMap) (err error) {
	var bad error
	err = readChunk(b, func(kind byte, k, value []byte) {
		number, ok := kept[binary.BigEndian.Uint16(k)]
		if !ok {
			return
		}
		renamed := append(binary.BigEndian.AppendUint16(nil, number), k[2:]...)
		switch kind {
		case rowCursor:
			c, err := decode(value, (*cursor).code)
			bad = errors.Join(bad, err)
			f.cursors = append(f.cursors, cursorChange{number, binary.BigEndian.Uint16(k[2:]), c})
		case rowState:
			f.state = append(f.state, stateChange{statePut, renamed, value})
		default:
			renumbered, err := kept.inExchange(kind, number, value)
			bad = errors.Join(bad, err)
			f.exchanges = append(f.exchanges, exchangeChange{kind, renamed, renumbered})
		}
	})
	return errors.Join(err, bad)
}
