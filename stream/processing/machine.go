package processing

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/pipeline"
)

// Timer tokens: 'f' and a job to forget.
const tokenForget = 'f'

// machine is the state machine of the jobs of one shard.
type machine struct {
	calls   engine.Calls[*work]
	refused []refusedOutput // of the command being applied: the outputs that were refused
	live    sync.Map        // of ref to *live: the leader's state of tasks that is in no row
	stuck   sync.Map        // of ref to string: why a savepoint, or a restore, makes no progress
	memory  *memory         // of keyed state, of all shards of the node
	led     led
	funcs   map[string]pipeline.Func
}

// Restore does nothing: rows are read when they are used.
func (m *machine) Restore(*engine.View) error { return nil }

// Apply applies a command.
func (m *machine) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	call, err := m.calls.Read(cmd)
	if err != nil {
		return nil, err
	}
	return call.Apply(&work{m: m, tx: tx, subject: string(call.Subject())})
}

// OnTimer forgets a job that was cancelled long ago.
func (m *machine) OnTimer(tx *engine.Tx, token []byte) {
	if len(token) != 1+refLen || token[0] != tokenForget {
		panic(fmt.Sprintf("processing: unknown timer token %q", token))
	}
	w := &work{m: m, tx: tx}
	if j := w.load(refOf(token[1:])); j != nil && j.status == Cancelled {
		w.forget(j)
	}
}

// Leave forgets the cancelled jobs.
func (m *machine) Leave(tx *engine.Tx) (found bool) {
	w := &work{m: m, tx: tx}
	prefix := namePrefix(tx.Namespace(), "")
	for !tx.Full() {
		k, _, ok := tx.First(prefix, key.PrefixEnd(prefix))
		if !ok {
			break
		}
		_, r := parseNameKey(k)
		j := w.load(r)
		if j == nil || j.status != Cancelled {
			panic(fmt.Sprintf("processing: namespace %d has a job that is not counted", tx.Namespace()))
		}
		w.forget(j)
		found = true
	}
	return found
}

// work is the context of one command.
type work struct {
	m       *machine
	tx      *engine.Tx
	subject string // the name of a submitted job
}

// job is a job during a command that changes it.
type job struct {
	jobRow
	ref     ref
	subtask *subtaskRow    // in a spread namespace
	told    uint64         // the revision sent to other shards
	defined *definitionRow // a new definition not sent to them yet
}

// load returns a job of the namespace, nil if it does not exist.
func (w *work) load(r ref) *job {
	b, ok := w.tx.Get(jobKey(rowJob, r))
	if !ok {
		return nil
	}
	j := &job{jobRow: must(decode(b, (*jobRow).code)), ref: r}
	if j.ns != w.tx.Namespace() {
		return nil
	}
	j.told = j.revision
	if w.tx.Spread() {
		b, _ := w.tx.Get(jobKey(rowSubtask, r))
		subtask := must(decode(b, (*subtaskRow).code))
		j.subtask = &subtask
	}
	return j
}

// find returns the job that a user's command names. Errors: ErrNotFound.
func (w *work) find(t *target) (*job, error) {
	j := w.load(t.job)
	if j == nil || j.created != t.created || !w.home(j) {
		return nil, notFound(jobID(t.created, t.job))
	}
	return j, nil
}

func notFound(id JobID) error { return engine.Errorf(ErrNotFound, "job %s not found", id) }

// save writes the job, and notifies the leader if there is work for it.
func (w *work) save(j *job) {
	w.tx.Set(jobKey(rowJob, j.ref), encode(nil, &j.jobRow, (*jobRow).code))
	active := jobKey(rowActive, j.ref)
	if j.active() && !(j.subtask != nil && j.subtask.done && j.pending == 0) {
		w.tx.Set(active, key.AppendUint64(nil, j.revision))
	} else {
		w.tx.Delete(active)
	}
	if j.subtask != nil {
		w.saveSubtask(j)
	}
	w.tx.Notify(jobsTopic(), -1)
}

// active reports whether the leader has work for the job.
func (j *jobRow) active() bool { return j.status == Running || j.restore != 0 || j.pending != 0 }

// jobsTopic is notified when a user has changed a job, or a message of a job has been answered.
func jobsTopic() engine.Topic { return engine.TopicOf(engine.MachineProcessing, "", []byte("jobs")) }

func (w *work) submit(s *submitBody) (res submitted, err error) {
	tx := w.tx
	if s.only {
		if other, ok := w.called(w.subject); ok {
			return res, engine.Errorf(ErrConflict, "job %s has the name %q already", other, w.subject)
		}
	}
	j := w.begin(ref{uint16(tx.Shard()), uint64(tx.LSN())}, jobRow{
		name: w.subject, created: tx.Now(), parallelism: s.parallelism, batch: s.batch, maxPayload: s.maxPayload,
		numbers: lastNumber(s.numbers),
	})
	tx.Count(countJobs, 1)
	tx.Insert(nameKey(j.ns, j.name, j.ref), nil)
	w.define(j, &definitionRow{s.source, s.numbers})
	w.save(j)
	return submitted{target{j.ref, j.created}, uint64(tx.LSN())}, nil
}

// called returns the job with a name that is not cancelled. All jobs with the same name have their
// home in the same shard.
func (w *work) called(name string) (JobID, bool) {
	prefix := append(namePrefix(w.tx.Namespace(), name), 0)
	it := w.tx.Iter(prefix, key.PrefixEnd(prefix))
	found, ok := JobID(""), false
	for more := it.First(); more && !ok; more = it.Next() {
		_, r := parseNameKey(it.Key())
		if j := w.load(r); j != nil && j.status != Cancelled {
			found, ok = jobID(j.created, j.ref), true
		}
	}
	if err := it.Close(); err != nil {
		panic(fmt.Sprintf("processing: jobs called %q: %v", name, err))
	}
	return found, ok
}

// begin creates a running job, or its subtask in this shard, with its task.
func (w *work) begin(r ref, row jobRow) *job {
	tx := w.tx
	row.ns, row.status, row.generation, row.revision, row.since = tx.Namespace(), Running, 1, uint64(tx.LSN()), uint64(tx.LSN())
	j := &job{jobRow: row, ref: r}
	if tx.Spread() {
		j.subtask = &subtaskRow{epoch: j.since}
	}
	t := taskRow{generation: 1, progress: progress{watermark: noTime, target: noTime}}
	tx.Set(jobKey(rowTask, r), encode(nil, &t, (*taskRow).code))
	return j
}

func lastNumber(all []numbered) (last uint16) {
	for i := range all {
		last = max(last, all[i].number)
	}
	return last
}

func (w *work) define(j *job, d *definitionRow) {
	w.tx.Set(jobKey(rowDefinition, j.ref), encode(nil, d, (*definitionRow).code))
	j.defined = d
}

func (w *work) stop(c *jobBody) (res changed, err error) {
	j, err := w.find(&c.target)
	if err != nil {
		return res, err
	}
	switch {
	case j.restore != 0 && j.subtask != nil:
		return res, engine.Errorf(engine.ErrBusy, "job %s is being restored", jobID(j.created, j.ref))
	case j.restore != 0: // the next restore drops the partly filled generation
		j.restore = 0
		w.dropGeneration(j, j.generation+1)
		j.revision = uint64(w.tx.LSN())
		w.save(j)
	case j.status == Running:
		w.end(j, Stopped, "", nil)
	case j.status != Stopped:
		return res, engine.Errorf(ErrConflict, "job %s is %s", jobID(j.created, j.ref), j.status)
	}
	return changed{status: j.status}, nil
}

// end stops running a job. f is nil unless a record is the reason.
func (w *work) end(j *job, s Status, reason string, f *Failure) {
	j.status, j.reason, j.failure = s, engine.Cut(reason, maxReason), f
	j.ended, j.revision = w.tx.Now(), uint64(w.tx.LSN())
	w.save(j)
}

func (w *work) cancel(c *jobBody) (res changed, err error) {
	j, err := w.find(&c.target)
	if err != nil {
		return res, err
	}
	if j.status == Cancelled {
		return changed{status: j.status}, nil
	}
	w.abandon(j)
	w.tx.Count(countJobs, -1)
	return changed{status: j.status}, nil
}

// abandon drops the state of a job, and schedules its removal.
func (w *work) abandon(j *job) {
	ended := j.ended
	j.pending, j.restore = 0, 0
	w.end(j, Cancelled, "", nil)
	if ended != 0 {
		j.ended = ended
		w.save(j)
	}
	for gen := range uint32(2) {
		w.dropGeneration(j, j.generation+gen)
	}
	if j.subtask != nil {
		w.dropExchanges(j)
		j.subtask.saving, j.subtask.phase = 0, phaseRunning
	}
	w.dropSavepoints(j)
	w.tx.Schedule(w.tx.Now()+listedMillis, j.ref.append([]byte{tokenForget}))
}

// forget removes the remaining rows of a cancelled job.
func (w *work) forget(j *job) {
	for _, kind := range []byte{rowJob, rowDefinition, rowTask, rowSubtask} {
		w.tx.Delete(jobKey(kind, j.ref))
	}
	for n := range int(j.numbers) + 1 {
		w.tx.Delete(outKey(j.ref, uint16(n)))
	}
	w.tx.Delete(nameKey(j.ns, j.name, j.ref))
}

// dropGeneration removes cursors and state of a generation.
func (w *work) dropGeneration(j *job, gen uint32) {
	for _, kind := range []byte{rowCursor, rowState} {
		prefix := generationKey(kind, j.ref, gen)
		w.tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	}
}

func (w *work) rescale(c *jobBody) (res changed, err error) {
	j, err := w.find(&c.target)
	if err != nil {
		return res, err
	}
	if j.status == Cancelled {
		return res, engine.Errorf(ErrConflict, "job %s is %s", jobID(j.created, j.ref), j.status)
	}
	j.parallelism, j.revision = int(c.n), uint64(w.tx.LSN())
	w.save(j)
	return changed{status: j.status}, nil
}

// stateKey is the key of a row of state.
func stateKey(dst []byte, r ref, gen uint32, k []byte) []byte {
	dst = r.append(append(dst, rowState))
	return append(binary.BigEndian.AppendUint32(dst, gen), k...)
}

func uint64At(k []byte, at int) uint64 { return binary.BigEndian.Uint64(k[at:]) }
