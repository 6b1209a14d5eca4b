package processing

import (
	"encoding/binary"
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// askSavepoint requests a savepoint, which the leader makes.
func (w *work) askSavepoint(c *jobBody) (res changed, err error) {
	j, err := w.find(&c.target)
	switch {
	case err != nil:
		return res, err
	case j.status == Cancelled || j.restore != 0:
		return res, engine.Errorf(ErrConflict, "job %s is %s, there is nothing to save", jobID(j.created, j.ref), j.state())
	case j.pending != 0:
		return res, engine.Errorf(engine.ErrBusy, "job %s: another savepoint is being made", jobID(j.created, j.ref))
	}
	if j.savepoints >= MaxSavepoints {
		w.dropOldest(j)
	}
	j.pending = uint64(w.tx.LSN())
	j.savepoints++
	s := savepointRow{created: w.tx.Now()}
	w.setSavepoint(j, j.pending, &s)
	if j.subtask != nil {
		j.subtask.saving, j.subtask.phase, j.subtask.saved = j.pending, phaseDraining, saved{}
		j.revision = uint64(w.tx.LSN())
	}
	w.save(j)
	w.quiesce(j)
	return changed{j.status, j.pending, s.created}, nil
}

// state returns the state of the job for messages to users.
func (j *jobRow) state() string {
	if j.restore != 0 {
		return "being restored"
	}
	return j.status.String()
}

func (w *work) setSavepoint(j *job, number uint64, s *savepointRow) {
	w.tx.Set(savepointKey(j.ref, number), encode(nil, s, (*savepointRow).code))
}

func (w *work) savepoint(j *job, number uint64) *savepointRow {
	b, ok := w.tx.Get(savepointKey(j.ref, number))
	if !ok {
		return nil
	}
	s := must(decode(b, (*savepointRow).code))
	return &s
}

func (w *work) dropOldest(j *job) {
	prefix := jobKey(rowSavepoint, j.ref)
	if k, _, ok := w.tx.First(prefix, key.PrefixEnd(prefix)); ok {
		w.removeSavepoint(j, uint64At(k, 1+refLen))
	}
}

func (w *work) removeSavepoint(j *job, number uint64) {
	w.tx.Delete(savepointKey(j.ref, number))
	prefix := key.AppendUint64(jobKey(rowChunk, j.ref), number)
	w.tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	j.savepoints--
}

func (w *work) dropSavepoints(j *job) {
	for _, kind := range []byte{rowSavepoint, rowChunk} {
		prefix := jobKey(kind, j.ref)
		w.tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	}
	j.savepoints = 0
	w.save(j)
}

// dropSavepoint removes a savepoint at a user's request.
func (w *work) dropSavepoint(c *jobBody) (res changed, err error) {
	j, err := w.find(&c.target)
	if err != nil {
		return res, err
	}
	n := uint64(c.n)
	if w.savepoint(j, n) == nil {
		return res, engine.Errorf(ErrNotFound, "job %s has no such savepoint", jobID(j.created, j.ref))
	}
	if j.restore == n {
		return res, engine.Errorf(ErrConflict, "job %s is being restored from the savepoint", jobID(j.created, j.ref))
	}
	if j.pending == n {
		j.pending = 0
	}
	w.removeSavepoint(j, n)
	if j.subtask != nil {
		if j.subtask.saving == n {
			j.subtask.saving, j.subtask.phase = 0, phaseRunning
		}
		j.revision = uint64(w.tx.LSN())
	}
	w.save(j)
	return changed{status: j.status}, nil
}

// beginSave notes that a leader begins to make a savepoint, and removes the chunks of an earlier
// attempt. The result is the number of the attempt.
func (w *work) beginSave(c *saveCommand) ([]byte, error) {
	j := w.load(c.job)
	if j == nil || j.pending != c.savepoint || c.savepoint == 0 {
		return nil, engine.Errorf(ErrConflict, "overtaken: the savepoint is not wanted any more")
	}
	s := w.savepoint(j, c.savepoint)
	s.attempt, s.chunks = uint64(w.tx.LSN()), 0
	prefix := key.AppendUint64(jobKey(rowChunk, j.ref), c.savepoint)
	w.tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	w.setSavepoint(j, c.savepoint, s)
	return key.AppendUint64(nil, s.attempt), nil
}

// addChunk adds a chunk to a savepoint. The last chunk completes it.
func (w *work) addChunk(c *saveCommand) ([]byte, error) {
	j := w.load(c.job)
	if j == nil || j.pending != c.savepoint || c.savepoint == 0 {
		return nil, engine.Errorf(ErrConflict, "overtaken: the savepoint is not wanted any more")
	}
	s := w.savepoint(j, c.savepoint)
	if s.attempt != c.attempt || s.chunks != c.chunk {
		return nil, engine.Errorf(ErrConflict, "overtaken: chunk %d of attempt %d comes after %d of %d", c.chunk, c.attempt, s.chunks,
			s.attempt)
	}
	w.tx.Set(chunkKey(j.ref, c.savepoint, c.chunk), c.data)
	s.chunks++
	s.bytes += int64(len(c.data))
	if c.last != nil {
		s.complete, s.task, s.numbers, s.records = true, c.last.task, c.last.numbers, c.last.task.counts.in
		if j.subtask != nil {
			w.copied(j, s)
		} else {
			j.pending = 0
			w.save(j)
		}
	}
	w.setSavepoint(j, c.savepoint, s)
	if c.last != nil && j.subtask != nil {
		w.reportPhase(j, &phaseCommand{j.ref, c.savepoint, true, s.bytes, s.records})
	}
	w.tx.Notify(jobTopic(j.ref), -1)
	return nil, nil
}

// restore resumes a job where it was or from a savepoint, optionally with another definition.
func (w *work) restore(r *restoreBody) (res changed, err error) {
	j, err := w.find(&r.target)
	if err != nil {
		return res, err
	}
	id := jobID(j.created, j.ref)
	switch {
	case j.revision != r.revision:
		return res, engine.Errorf(ErrConflict, "job %s was changed concurrently", id)
	case j.status == Cancelled || j.status == Running || j.restore != 0:
		return res, engine.Errorf(ErrConflict, "job %s is %s: stop it before it is restored", id, j.state())
	case j.subtask != nil && j.subtask.saving != 0:
		return res, engine.Errorf(engine.ErrBusy, "job %s: a savepoint is being made", id)
	case r.edited && r.name != j.name:
		return res, otherName(id, j.name, r.name)
	}
	if r.edited {
		w.define(j, &definitionRow{r.source, r.numbers})
		j.parallelism, j.batch, j.maxPayload = r.parallelism, r.batch, r.maxPayload
	}
	known := j.numbers
	j.numbers, j.revision, j.since = max(j.numbers, r.last), uint64(w.tx.LSN()), uint64(w.tx.LSN())
	j.began = w.tx.Now()
	if j.subtask != nil {
		*j.subtask = subtaskRow{epoch: j.since, reset: j.subtask.reset, goal: Running}
	}
	if r.savepoint == 0 {
		if r.edited {
			w.keep(j, r.numbers, known)
		}
		w.run(j)
		return changed{status: j.status}, nil
	}
	s := w.savepoint(j, r.savepoint)
	if s == nil || !s.complete {
		return res, engine.Errorf(ErrNotFound, "job %s has no such savepoint, or it is not complete", id)
	}
	w.beginRestore(j, r.savepoint)
	w.save(j)
	return changed{status: j.status}, nil
}

// beginRestore starts a restore: the leader fills the next generation from a savepoint. Records
// passed to the subtask are dropped, because the savepoint has its own.
func (w *work) beginRestore(j *job, savepoint uint64) {
	w.dropGeneration(j, j.generation+1)
	if j.subtask != nil {
		w.dropExchanges(j)
		j.subtask.reset = j.subtask.epoch
	}
	j.restore, j.restored = savepoint, 0
}

// keep removes the state that a new definition does not use. known is the greatest number of the
// earlier definitions.
func (w *work) keep(j *job, numbers []numbered, known uint16) {
	w.keepOnly(j, numbers)
	if !slices.ContainsFunc(numbers, func(n numbered) bool { return n.source && n.number <= known }) {
		w.beginTime(j)
	}
}

// beginTime resets event time when no source continues. So records of new sources are not late
// because of the progress of old ones.
func (w *work) beginTime(j *job) {
	b, _ := w.tx.Get(jobKey(rowTask, j.ref))
	row := must(decode(b, (*taskRow).code))
	row.beginTime()
	row.n++
	w.tx.Set(jobKey(rowTask, j.ref), encode(nil, &row, (*taskRow).code))
}

func (t *taskRow) beginTime() {
	t.progress = progress{watermark: noTime, target: noTime}
	for i := range t.stages {
		t.stages[i].progress, t.stages[i].upstreams = t.progress, nil
	}
}

// run makes a job run.
func (w *work) run(j *job) {
	j.status, j.reason, j.failure, j.ended = Running, "", nil, 0
	w.save(j)
}

// keepOnly removes cursors and state of all other parts.
func (w *work) keepOnly(j *job, numbers []numbered) {
	keep := make(map[uint16]bool, len(numbers))
	for i := range numbers {
		keep[numbers[i].number] = true
	}
	for n := range int(j.numbers) + 1 {
		if keep[uint16(n)] {
			continue
		}
		for _, kind := range []byte{rowCursor, rowState} {
			prefix := append(generationKey(kind, j.ref, j.generation), byte(n>>8), byte(n))
			w.tx.DeleteRange(prefix, key.PrefixEnd(prefix))
		}
		if j.subtask != nil {
			w.dropExchange(j, uint16(n))
		}
	}
}

// fill adds the rows of a chunk to the generation being restored. After the last one the job
// continues with it.
func (w *work) fill(f *fillCommand) ([]byte, error) {
	j := w.load(f.job)
	if j == nil || j.revision != f.revision || j.restore != f.savepoint || f.savepoint == 0 || j.restored != f.chunk {
		return nil, engine.Errorf(ErrConflict, "overtaken: the job is not being restored, or further")
	}
	w.setCursors(j, j.generation+1, f.cursors)
	w.setState(j, j.generation+1, f.state)
	for i := range f.exchanges {
		c := &f.exchanges[i]
		w.tx.Set(append(jobKey(c.kind, j.ref), c.key...), c.value)
		if c.kind == rowMessage {
			stage := binary.BigEndian.Uint16(c.key)
			in := w.exchange(j.ref, stage)
			in.bytes += int64(len(c.value))
			w.setExchange(j.ref, stage, &in)
		}
	}
	j.restored++
	if f.last {
		w.switchGeneration(j, f)
	}
	w.save(j)
	return nil, nil
}

// switchGeneration makes the restored generation current. Counters keep their values.
func (w *work) switchGeneration(j *job, f *fillCommand) {
	b, _ := w.tx.Get(jobKey(rowTask, j.ref))
	row := must(decode(b, (*taskRow).code))
	w.dropGeneration(j, j.generation)
	j.generation++
	j.restore, j.restored = 0, 0
	row.generation, row.progress = j.generation, f.task.progress
	row.n++
	row.stages = f.task.stages
	w.tx.Set(jobKey(rowTask, j.ref), encode(nil, &row, (*taskRow).code))
	if j.subtask != nil && j.subtask.goal != Running {
		return // the job was stopped meanwhile
	}
	w.run(j)
	w.quiesce(j)
}

// jobTopic is notified when a savepoint of the job has made progress.
func jobTopic(r ref) engine.Topic {
	return engine.TopicOf(engine.MachineProcessing, "", r.append([]byte("j")))
}

// otherName is the error of a definition that has another name than the job it is for.
func otherName(id JobID, job, definition string) error {
	return engine.Errorf(ErrInvalid, "job %s has the name %q, but the definition has %q", id, job, definition)
}
