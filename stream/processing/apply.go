package processing

import (
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// A tick is one command: it advances cursors and state, and writes to the sinks. Sinks in the same
// shard write as parts of the command. If one of them refuses, the command has no effect, and the
// leader learns which one refused. Sinks in other shards receive messages, which are also part of
// the command.

// tick applies a step of a task if it is the next one.
func (w *work) tick(t *tickCommand) ([]byte, error) {
	w.m.refused = nil
	j := w.load(t.job)
	if j == nil || (j.status != Running || j.revision != t.revision) {
		return nil, engine.Errorf(ErrConflict, "overtaken: the job has been changed")
	}
	b, _ := w.tx.Get(jobKey(rowTask, j.ref))
	row := must(decode(b, (*taskRow).code))
	if row.n+1 != t.task.n || row.generation != t.task.generation || row.generation != j.generation {
		return nil, engine.Errorf(ErrConflict, "overtaken: tick %d of generation %d comes after %d of %d", t.task.n, t.task.generation,
			row.n, row.generation)
	}
	if err := w.mayTake(j, &t.taken); err != nil {
		return nil, err
	}
	for i := range t.outputs {
		if err := w.mayWrite(&t.outputs[i]); err != nil {
			return nil, err
		}
	}
	w.tx.Set(jobKey(rowTask, j.ref), encode(nil, &t.task, (*taskRow).code))
	w.setCursors(j, j.generation, t.cursors)
	w.setState(j, j.generation, t.state)
	w.take(j, &t.taken)
	switch {
	case t.status == Running:
	case j.subtask != nil:
		w.endSubtask(j, t.status, t.reason, t.failure)
	default:
		w.end(j, t.status, t.reason, t.failure)
	}
	for i := range t.outputs {
		w.write(j, t.stage, i, &t.outputs[i])
	}
	w.tx.Conclude()
	return nil, nil
}

func (w *work) setCursors(j *job, gen uint32, all []cursorChange) {
	for i := range all {
		c := &all[i]
		w.tx.Set(cursorKey(j.ref, gen, c.source, c.partition), encode(nil, &c.cursor, (*cursor).code))
	}
}

func (w *work) setState(j *job, gen uint32, all []stateChange) {
	var k []byte
	for i := range all {
		c := &all[i]
		k = stateKey(k[:0], j.ref, gen, c.key)
		switch c.op {
		case statePut:
			w.tx.Set(k, c.value)
		case stateDelete:
			w.tx.Delete(k)
		case stateRange:
			w.tx.DeleteRange(k, stateKey(nil, j.ref, gen, c.value))
		}
	}
}

// mayWrite rejects outputs to machines that have no sinks.
func (w *work) mayWrite(o *output) error {
	switch o.machine {
	case engine.MachineProcessing:
		if o.kind == kindPass && o.where == "" && w.tx.Spread() {
			_, err := decodeBody(o.body, (*passCommand).code)
			return err
		}
	case engine.MachineStream, engine.MachineKV, engine.MachineQueue, engine.MachineTS:
		return nil
	}
	return engine.Errorf(ErrInvalid, "processing: machine %d has no sinks", o.machine)
}

// Tokens of outputs: in the same shard, and in other shards.
const (
	tokenHere  = 'h' // followed by the number of the output in its tick
	tokenThere = 't' // followed by a sent
)

// sent is the token of a message to another shard.
type sent struct {
	job      ref
	stage    uint16
	pass     bool // the message is for another stage
	records  int64
	bytes    int64
	tolerant bool
	lost     []byte // its records, see output
}

func (s *sent) code(c *codec.Coder) {
	codeRef(c, &s.job)
	c.Uint16(&s.stage)
	c.Bool(&s.pass)
	c.Varint(&s.records)
	c.Varint(&s.bytes)
	c.Bool(&s.tolerant)
	c.Bytes(&s.lost)
}

func (s *sent) passes() int64 {
	if s.pass {
		return 1
	}
	return 0
}

// sunk returns the number of sink records in the message. Records for other stages and for the
// error stream were never counted as written.
func (s *sent) sunk() int64 {
	if s.pass || len(s.lost) == 0 {
		return 0
	}
	return s.records
}

// write sends an output of a stage to its machine.
func (w *work) write(j *job, stage uint16, i int, o *output) {
	cmd := engine.Command{Machine: o.machine, Kind: o.kind, Body: o.body}
	here := o.where == "" && w.tx.ShardOf(o.route) == w.tx.Shard()
	if here && o.machine == engine.MachineProcessing {
		p := must(decodeBody(o.body, (*passCommand).code))
		in := w.exchange(j.ref, p.to)
		w.receive(j, &in, &p)
		return
	}
	if here {
		c := codec.NewEncoder([]byte{tokenHere})
		c.Int(&i)
		c.Bool(&o.tolerant)
		w.tx.Ask(cmd, c.Encoded())
		return
	}
	if cmd.Namespace, cmd.Spread = o.where, o.spread; o.where == "" {
		cmd.Namespace, cmd.Spread = w.tx.NamespaceName(), w.tx.Spread()
	}
	s := sent{j.ref, stage, o.machine == engine.MachineProcessing, o.records, int64(len(o.body) + len(o.lost)), o.tolerant, o.lost}
	out := w.out(j.ref, stage)
	out.messages++
	out.passes += s.passes()
	out.bytes += s.bytes
	out.records += s.sunk()
	w.setOut(j.ref, stage, out)
	w.tx.Send(engine.Message{Command: cmd, Name: o.route, Lane: laneOf(j.ref, stage), Token: encode([]byte{tokenThere}, &s, (*sent).code),
		Reply: true})
}

func (w *work) out(r ref, stage uint16) outRow {
	b, ok := w.tx.Get(outKey(r, stage))
	if !ok {
		return outRow{}
	}
	return must(decode(b, (*outRow).code))
}

func (w *work) setOut(r ref, stage uint16, o outRow) {
	if o == (outRow{}) {
		w.tx.Delete(outKey(r, stage))
		return
	}
	w.tx.Set(outKey(r, stage), encode(nil, &o, (*outRow).code))
}

// OnReply handles the reply to an output.
func (m *machine) OnReply(tx *engine.Tx, r engine.Reply) {
	switch r.Token[0] {
	case tokenHere:
		c := codec.NewDecoder(r.Token[1:])
		var i int
		var tolerant bool
		c.Int(&i)
		if c.Bool(&tolerant); r.Err != nil && !tolerant {
			m.refused = append(m.refused, refusedOutput{i, r.Err})
		}
	case tokenThere:
		w := &work{m: m, tx: tx}
		w.answered(must(decode(r.Token[1:], (*sent).code)), r.Err)
	default:
		panic(fmt.Sprintf("processing: unknown token %q", r.Token))
	}
}

// answered handles the reply to a message. Permanently refused records go to the error stream.
func (w *work) answered(s sent, err error) {
	j := w.load(s.job)
	if j == nil {
		return
	}
	out := w.out(s.job, s.stage)
	out.messages--
	out.passes -= s.passes()
	out.bytes -= s.bytes
	out.records = max(out.records-s.sunk(), 0) // messages sent before records were counted are not included
	refused := err != nil && !s.tolerant
	if refused {
		out.refused += s.records
	}
	w.setOut(s.job, s.stage, out)
	if out.bytes < maxOutBytes && out.bytes+s.bytes >= maxOutBytes {
		w.tx.Notify(jobsTopic(), -1) // the job may continue
	}
	if s.pass {
		w.quiesce(j)
	}
	if !refused || len(s.lost) == 0 {
		return
	}
	failures := must(decodeFailures(s.lost))
	for i := range failures {
		failures[i].reason = err.Error()
	}
	for i, o := range errorOutputs(j.name, failures) {
		o.tolerant = true // a refusal would have no receiver
		w.write(j, s.stage, i, &o)
	}
}

// refusedOutput is a refused output of a tick, with the error.
type refusedOutput struct {
	output int
	err    error
}

// refusedError lists all refused outputs of a tick, so that the next proposal omits them.
type refusedError struct{ outputs []refusedOutput }

func (e *refusedError) Error() string {
	return fmt.Sprintf("%d outputs were refused, the first is %d: %v", len(e.outputs), e.outputs[0].output, e.outputs[0].err)
}

// Unwrap returns the first refusal.
func (e *refusedError) Unwrap() error { return e.outputs[0].err }

// Conclude rejects a tick whose outputs were refused.
func (m *machine) Conclude(_ *engine.Tx, _ engine.Command, result []byte) ([]byte, error) {
	if len(m.refused) > 0 {
		return nil, &refusedError{m.refused}
	}
	return result, nil
}
