package processing

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Verify checks that every row belongs to a job that may have it, and counts jobs.
func (m *machine) Verify(a *engine.Audit) error {
	v := &verifier{Audit: a, jobs: make(map[ref]*verified)}
	for _, check := range []func() error{v.verifyJobs, v.verifySubtasks, v.verifyTasks, v.verifyNames, v.verifyActive, v.verifyRows,
		v.verifySavepoints, v.verifyCounts} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

type verifier struct {
	*engine.Audit
	jobs map[ref]*verified
}

// verified is a job with the data found about it.
type verified struct {
	jobRow
	subtask                         *subtaskRow
	task, definition, named, active bool
	savepoints                      int
}

// each calls f with the decoded rows of a kind.
func each[T any](v *verifier, kind byte, length int, code func(*T, *codec.Coder), f func(r ref, k []byte, row *T)) error {
	return v.Scan([]byte{kind}, []byte{kind + 1}, func(k, value []byte) error {
		row, err := decode(value, code)
		if err != nil || len(k) != length {
			v.Reportf("processing: row %x: %v", k, err)
			return nil
		}
		f(refOf(k[1:]), k, &row)
		return nil
	})
}

func (v *verifier) verifyJobs() error {
	return each(v, rowJob, 1+refLen, (*jobRow).code, func(r ref, _ []byte, j *jobRow) {
		v.jobs[r] = &verified{jobRow: *j}
		if (j.ended == 0) != (j.status == Running) || j.generation == 0 || j.restore != 0 && j.status == Running || j.parallelism < 1 ||
			j.batch < 1 {
			v.Reportf("processing: job %v: %+v", r, *j)
		}
	})
}

// away reports whether the shard has only a subtask of the job, and is not its home.
func (v *verifier) away(r ref) bool { return engine.ShardID(r.shard) != v.Shard() }

// busy reports whether the leader has work for the job.
func (j *verified) busy() bool {
	return j.jobRow.active() && (j.subtask == nil || !j.subtask.done || j.pending != 0)
}

func (v *verifier) verifySubtasks() error {
	err := each(v, rowSubtask, 1+refLen, (*subtaskRow).code, func(r ref, _ []byte, p *subtaskRow) {
		j := v.jobs[r]
		if j == nil || p.epoch == 0 || p.ended < 0 || p.ended > v.Shards() || v.away(r) && p.ended > 0 {
			v.Reportf("processing: subtask %+v of job %v, which is %+v", *p, r, j)
			return
		}
		j.subtask = p
	})
	for r, j := range v.jobs {
		if names := v.Names(); int(j.ns) < len(names) && v.Spread(names[j.ns]) != (j.subtask != nil) || j.subtask == nil && v.away(r) {
			v.Reportf("processing: job %v of namespace %d has the subtask %+v", r, j.ns, j.subtask)
		}
	}
	return err
}

func (v *verifier) verifyTasks() error {
	err := each(v, rowTask, 1+refLen, (*taskRow).code, func(r ref, _ []byte, t *taskRow) {
		j := v.jobs[r]
		if j == nil || t.generation != j.generation {
			v.Reportf("processing: task of job %v: %+v, the job is %+v", r, *t, j)
			return
		}
		j.task = true
		if n := &t.counts; slices.Min([]int64{n.in, n.out, n.errors, n.late, n.dropped, n.missed, t.ticks, t.latencySum,
			t.latencyMax}) < 0 || t.ticks > n.in {
			v.Reportf("processing: task of job %v counts %+v", r, *t)
		}
	})
	if err != nil {
		return err
	}
	err = each(v, rowDefinition, 1+refLen, (*definitionRow).code, func(r ref, _ []byte, d *definitionRow) {
		j := v.jobs[r]
		if j == nil || len(d.source) == 0 {
			v.Reportf("processing: definition of job %v, which is %+v", r, j)
			return
		}
		j.definition = true
		seen := make(map[uint16]bool)
		for _, n := range d.numbers {
			if n.number == 0 || n.number > j.numbers || seen[n.number] {
				v.Reportf("processing: job %v: number %d of %s, the last one is %d", r, n.number, n.title(), j.numbers)
			}
			seen[n.number] = true
		}
	})
	if err != nil {
		return err
	}
	return each(v, rowOut, 1+refLen+2, (*outRow).code, func(r ref, _ []byte, o *outRow) {
		if v.jobs[r] == nil || o.messages < 0 || o.bytes < 0 || o.refused < 0 {
			v.Reportf("processing: job %v has sent %+v", r, *o)
		}
	})
}

func (v *verifier) verifyNames() error {
	return v.Scan([]byte{rowName}, []byte{rowName + 1}, func(k, _ []byte) error {
		if len(k) < 5+1+refLen {
			v.Reportf("processing: row %x", k)
			return nil
		}
		name, r := parseNameKey(k)
		if j := v.jobs[r]; j == nil || j.named || j.name != name || j.ns != binary.BigEndian.Uint32(k[1:]) {
			v.Reportf("processing: the name %q of job %v, which is %+v", name, r, j)
		} else {
			j.named = true
		}
		return nil
	})
}

func (v *verifier) verifyActive() error {
	return v.Scan([]byte{rowActive}, []byte{rowActive + 1}, func(k, value []byte) error {
		if len(k) != 1+refLen {
			v.Reportf("processing: row %x", k)
			return nil
		}
		j := v.jobs[refOf(k[1:])]
		if j == nil || !j.busy() || !bytes.Equal(value, key.AppendUint64(nil, j.revision)) {
			v.Reportf("processing: row %x has work due at %x for job %+v", k, value, j)
			return nil
		}
		j.active = true
		return nil
	})
}

// verifyRows checks cursors and state.
func (v *verifier) verifyRows() error {
	if err := v.verifyExchanges(); err != nil {
		return err
	}
	for _, kind := range []byte{rowCursor, rowState} {
		err := v.Scan([]byte{kind}, []byte{kind + 1}, func(k, value []byte) error {
			if len(k) < generationAt+2 || kind == rowCursor && len(k) != generationAt+4 {
				v.Reportf("processing: row %x", k)
				return nil
			}
			j, gen := v.jobs[refOf(k[1:])], binary.BigEndian.Uint32(k[1+refLen:])
			if j == nil || j.status == Cancelled || gen != j.generation && (j.restore == 0 || gen != j.generation+1) {
				v.Reportf("processing: row %x of job %+v", k, j)
			} else if number := binary.BigEndian.Uint16(k[generationAt:]); number == 0 || number > j.numbers {
				v.Reportf("processing: row %x: the job has given %d numbers", k, j.numbers)
			}
			if kind == rowCursor {
				if _, err := decode(value, (*cursor).code); err != nil {
					v.Reportf("processing: row %x: %v", k, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyExchanges checks that exchanges contain the messages that their rows state.
func (v *verifier) verifyExchanges() error {
	type found struct {
		row   exchangeRow
		bytes int64
		count uint64
	}
	all := make(map[string]*found)
	err := each(v, rowExchange, 1+refLen+2, (*exchangeRow).code, func(r ref, k []byte, in *exchangeRow) {
		j, stage := v.jobs[r], binary.BigEndian.Uint16(k[1+refLen:])
		if j == nil || j.subtask == nil || j.status == Cancelled || stage == 0 || stage > j.numbers || in.first > in.next {
			v.Reportf("processing: exchange %x: %+v of job %+v", k, *in, j)
			return
		}
		all[string(k[1:])] = &found{row: *in}
	})
	if err != nil {
		return err
	}
	err = v.Scan([]byte{rowMessage}, []byte{rowMessage + 1}, func(k, value []byte) error {
		if _, err := decode(value, (*passCommand).code); err != nil || len(k) != 1+refLen+2+8 {
			v.Reportf("processing: message %x: %v", k, err)
			return nil
		}
		in, number := all[string(k[1:len(k)-8])], uint64At(k, len(k)-8)
		if in == nil || number < in.row.first || number >= in.row.next {
			v.Reportf("processing: message %x is in no exchange", k)
			return nil
		}
		in.bytes, in.count = in.bytes+int64(len(value)), in.count+1
		return nil
	})
	for k, in := range all {
		if in.bytes != in.row.bytes || in.count != in.row.next-in.row.first {
			v.Reportf("processing: exchange %x holds %d messages of %d bytes, but its row says %+v", k, in.count, in.bytes, in.row)
		}
	}
	return err
}

func (v *verifier) verifySavepoints() error {
	chunks := make(map[string]uint32)
	err := each(v, rowSavepoint, 1+refLen+8, (*savepointRow).code, func(r ref, k []byte, s *savepointRow) {
		j := v.jobs[r]
		if j == nil || s.complete == (j.pending == uint64At(k, 1+refLen)) {
			v.Reportf("processing: savepoint %x of job %+v: %+v", k, j, *s)
			return
		}
		j.savepoints++
		chunks[string(k[1:])] = s.chunks
	})
	if err != nil {
		return err
	}
	err = v.Scan([]byte{rowChunk}, []byte{rowChunk + 1}, func(k, value []byte) error {
		if len(k) != 1+refLen+8+4 || readChunk(value, func(byte, []byte, []byte) {}) != nil {
			v.Reportf("processing: chunk %x cannot be read", k)
			return nil
		}
		chunks[string(k[1:len(k)-4])]--
		return nil
	})
	for k, n := range chunks {
		if n != 0 {
			v.Reportf("processing: savepoint %x lacks %d chunks", k, int32(n))
		}
	}
	return err
}

func (v *verifier) verifyCounts() error {
	counted := make(map[uint32]int64)
	for r, j := range v.jobs {
		if j.status != Cancelled && !v.away(r) {
			counted[j.ns]++
		}
		if !j.task || !j.definition || j.named == v.away(r) || j.active != j.busy() || j.savepoints != j.jobRow.savepoints {
			v.Reportf("processing: job %v is incomplete: %+v", r, *j)
		}
	}
	for i := range v.Names() {
		if n, known := v.Counted(uint32(i), countJobs); known && n != counted[uint32(i)] {
			v.Reportf("processing: namespace %d counts %d jobs, there are %d", i, n, counted[uint32(i)])
		}
	}
	return nil
}
