package processing

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Rows of a shard. job is a ref (10 bytes), gen a generation (u32): a restore fills a new
// generation without touching the one before.
//
//	'j' | job                                    the job, see jobRow
//	'd' | job                                    its definition, see definitionRow
//	't' | job                                    the progress of its task, see taskRow
//	'q' | job | stage u16                        messages on their way to other shards, see outRow
//	'b' | job                                    in a spread namespace: its subtask in this shard, see subtaskRow
//	'h' | job | stage u16                        there: the exchange of a stage, see exchangeRow
//	'i' | job | stage u16 | number u64           a message in it, see passCommand
//	'l' | namespace u32 | name 0 | job           a job by its name
//	'a' | job                                    a job for which the leader has work: its revision (u64)
//	'c' | job | gen | source u16 | partition u16 its position in a partition, see cursor
//	's' | job | gen | operator u16 ...           state of an operator
//	'p' | job | savepoint u64                    a savepoint, see savepointRow; savepoint is the LSN of the request for it
//	'k' | job | savepoint u64 | chunk u32        a part of its contents: compressed rows of one generation
const (
	rowJob        = 'j'
	rowDefinition = 'd'
	rowTask       = 't'
	rowOut        = 'q'
	rowSubtask    = 'b'
	rowExchange   = 'h'
	rowMessage    = 'i'
	rowName       = 'l'
	rowActive     = 'a'
	rowCursor     = 'c'
	rowState      = 's'
	rowSavepoint  = 'p'
	rowChunk      = 'k'
)

const rowVersion = 1

func jobKey(kind byte, r ref) []byte { return r.append(append(make([]byte, 0, 40), kind)) }

func nameKey(ns uint32, name string, r ref) []byte {
	return r.append(append(namePrefix(ns, name), 0))
}

func namePrefix(ns uint32, prefix string) []byte {
	return append(key.AppendUint32([]byte{rowName}, ns), prefix...)
}

// parseNameKey parses name and job from a key of nameKey.
func parseNameKey(k []byte) (name string, r ref) {
	at := len(k) - refLen
	return string(k[5 : at-1]), refOf(k[at:])
}

func generationKey(kind byte, r ref, gen uint32) []byte {
	return key.AppendUint32(jobKey(kind, r), gen)
}

// generationAt is the length of the common prefix of the keys of a generation's cursors or state.
const generationAt = 1 + refLen + 4

func cursorKey(r ref, gen uint32, source, partition uint16) []byte {
	k := binary.BigEndian.AppendUint16(generationKey(rowCursor, r, gen), source)
	return binary.BigEndian.AppendUint16(k, partition)
}

func outKey(r ref, stage uint16) []byte {
	return binary.BigEndian.AppendUint16(jobKey(rowOut, r), stage)
}

func savepointKey(r ref, number uint64) []byte {
	return key.AppendUint64(jobKey(rowSavepoint, r), number)
}

func chunkKey(r ref, number uint64, chunk uint32) []byte {
	return key.AppendUint32(key.AppendUint64(jobKey(rowChunk, r), number), chunk)
}

// jobRow is the value of a row 'j'. Times are ms.
type jobRow struct {
	ns          uint32
	name        string
	status      Status
	reason      string
	created     int64
	ended       int64 // when it stopped running; 0: it runs
	parallelism int
	batch       int
	maxPayload  int    // of a sink's write: the limit at its submission
	generation  uint32 // of cursors and state
	revision    uint64 // LSN of the last change by a user
	since       uint64 // LSN of the submission or the last restore: later records are new to sources that start at the latest
	numbers     uint16 // the greatest number assigned to a source or an operator
	savepoints  int
	pending     uint64 // savepoint being made; 0: none
	restore     uint64 // savepoint from which the next generation is being filled; 0: none
	restored    uint32 // number of its chunks already restored
	began       int64  // time of the last restore; 0: it has run since it was created
	failure     *Failure
}

// runsSince returns when the current run of the job began, ms. Later points of a time series are
// new to sources that start at the latest, and sources that stop there do not read them.
func (j *jobRow) runsSince() int64 { return cmp.Or(j.began, j.created) }

func (j *jobRow) code(c *codec.Coder) {
	version(c, "job")
	c.Uint32(&j.ns)
	c.String(&j.name)
	if c.Byte((*byte)(&j.status)); j.status < Running || j.status > Completed {
		c.Fail("unknown state")
	}
	c.String(&j.reason)
	c.Varint(&j.created)
	c.Varint(&j.ended)
	for _, n := range [...]*int{&j.parallelism, &j.batch, &j.maxPayload, &j.savepoints} {
		c.Int(n)
	}
	c.Uint32(&j.generation)
	c.Uvarint(&j.revision)
	c.Uvarint(&j.since)
	c.Uint16(&j.numbers)
	c.Uvarint(&j.pending)
	c.Uvarint(&j.restore)
	c.Uint32(&j.restored)
	if c.More(j.began != 0 || j.failure != nil) {
		c.Varint(&j.began)
	}
	codeFailure(c, &j.failure)
}

// definitionRow is the value of a row 'd': the submitted definition, and the numbers of its parts.
type definitionRow struct {
	source  []byte
	numbers []numbered
}

// numbered is a source, or an operator with state. A part of another definition with the same name
// and shape is the same part and has the same number.
type numbered struct {
	source bool
	name   string
	shape  string
	number uint16
}

func (d *definitionRow) code(c *codec.Coder) {
	version(c, "definition")
	c.Bytes(&d.source)
	codec.List(c, &d.numbers, func(c *codec.Coder, n *numbered) { n.code(c) })
}

func (n *numbered) code(c *codec.Coder) {
	c.Bool(&n.source)
	c.String(&n.name)
	c.String(&n.shape)
	c.Uint16(&n.number)
}

// taskRow is the value of a row 't'. Each tick replaces the whole row.
type taskRow struct {
	n          uint64 // of the last tick
	generation uint32
	progress   // of the stage that reads the sources
	counts     counts
	ticks      int64 // that read records
	latencySum int64 // of those, in microseconds: the last one without the time to apply it
	latencyMax int64
	operators  []operatorCounts
	stages     []stageRow // those that read an exchange
}

// progress is the progress of event time.
type progress struct {
	watermark int64 // or noTime
	// the watermark being fired. When fire is nil, it is the watermark, or, if event time has
	// ended, its value before the end
	target int64
	fire   []byte // where firing continues, nil if there is nothing to fire

	told  stageProgress // its progress as sent to all later stages
	epoch uint64        // of told; 0: not all have been sent the same
}

func (p *progress) code(c *codec.Coder) {
	c.Varint(&p.watermark)
	c.Varint(&p.target)
	c.Bytes(&p.fire)
	c.Uvarint(&p.epoch)
	if p.epoch != 0 {
		p.told.code(c)
	}
}

// stageRow is the position of a stage that reads an exchange.
type stageRow struct {
	number uint16
	progress
	next      uint64 // next message to read
	skip      int    // records of it already read
	upstreams []heard
}

func (s *stageRow) code(c *codec.Coder) {
	c.Uint16(&s.number)
	s.progress.code(c)
	c.Uvarint(&s.next)
	c.Int(&s.skip)
	codec.List(c, &s.upstreams, func(c *codec.Coder, h *heard) { h.code(c) })
}

// stage returns the stage with a number.
func (t *taskRow) stage(number uint16) *stageRow {
	return &t.stages[slices.IndexFunc(t.stages, func(s stageRow) bool { return s.number == number })]
}

// of returns the progress of a stage by its index: the first one reads the sources.
func (t *taskRow) of(index int) *progress {
	if index == 0 {
		return &t.progress
	}
	return &t.stages[index-1].progress
}

type counts struct{ in, out, errors, late, dropped, missed int64 }

type operatorCounts struct {
	name                           string
	in, out, errors, late, dropped int64
}

func (t *taskRow) code(c *codec.Coder) {
	t.codeWithin(c)
	t.codeFractions(c, false)
}

// codeFractions codes the fractions of a millisecond that codeWithin omits from latencies, in the
// tail of the record that contains the task. more is set if other fields follow.
func (t *taskRow) codeFractions(c *codec.Coder, more bool) {
	sum, most := t.latencySum%millisecond, t.latencyMax%millisecond
	if !c.More(sum != 0 || most != 0 || more) {
		return
	}
	c.Varint(&sum)
	if c.Varint(&most); min(sum, most) < 0 || max(sum, most) >= millisecond {
		c.Fail("fraction of a latency out of range")
	}
	if c.Reading() {
		t.latencySum, t.latencyMax = t.latencySum+sum, t.latencyMax+most
	}
}

// millisecond is a millisecond in microseconds.
const millisecond = 1000

// codeWithin codes the task as a part of a record. Latencies are whole milliseconds there.
func (t *taskRow) codeWithin(c *codec.Coder) {
	version(c, "task")
	c.Uvarint(&t.n)
	c.Uint32(&t.generation)
	t.progress.code(c)
	n := &t.counts
	sum, most := t.latencySum/millisecond, t.latencyMax/millisecond
	for _, v := range [...]*int64{&n.in, &n.out, &n.errors, &n.late, &n.dropped, &n.missed, &t.ticks, &sum, &most} {
		c.Varint(v)
	}
	if c.Reading() {
		t.latencySum, t.latencyMax = sum*millisecond, most*millisecond
	}
	codec.List(c, &t.operators, func(c *codec.Coder, o *operatorCounts) {
		c.String(&o.name)
		for _, v := range [...]*int64{&o.in, &o.out, &o.errors, &o.late, &o.dropped} {
			c.Varint(v)
		}
	})
	codec.List(c, &t.stages, func(c *codec.Coder, s *stageRow) { s.code(c) })
}

// outRow is the value of a row 'q': the unanswered messages of a stage to other shards, and the
// records refused.
type outRow struct {
	messages int64
	passes   int64 // messages for other stages
	bytes    int64
	refused  int64 // records
	records  int64 // for sinks, in unanswered messages
}

func (o *outRow) code(c *codec.Coder) {
	version(c, "out")
	c.Varint(&o.messages)
	c.Varint(&o.passes)
	c.Varint(&o.bytes)
	c.Varint(&o.refused)
	if c.More(o.records != 0) {
		c.Varint(&o.records)
	}
}

// cursor is the value of a row 'c'.
type cursor struct {
	stream  uint64 // id of the stream, to tell apart streams of one name; for a measurement an LSN, see series.go
	next    uint64 // offset of the next record; for a measurement the time, ms
	seen    bool   // a record has been read
	newest  int64  // greatest event time
	arrived int64  // ms: the append of the last record
}

func (r *cursor) code(c *codec.Coder) {
	c.Uvarint(&r.stream)
	c.Uvarint(&r.next)
	c.Bool(&r.seen)
	c.Varint(&r.newest)
	c.Varint(&r.arrived)
}

// savepointRow is the value of a row 'p'.
type savepointRow struct {
	created  int64
	complete bool
	attempt  uint64 // LSN at which its current writer began
	chunks   uint32
	bytes    int64
	records  int64   // that the job had read by then
	task     taskRow // as of the savepoint
	numbers  []numbered
}

func (s *savepointRow) code(c *codec.Coder) {
	version(c, "savepoint")
	c.Varint(&s.created)
	c.Bool(&s.complete)
	c.Uvarint(&s.attempt)
	c.Uint32(&s.chunks)
	c.Varint(&s.bytes)
	c.Varint(&s.records)
	s.task.codeWithin(c)
	codec.List(c, &s.numbers, func(c *codec.Coder, n *numbered) { n.code(c) })
}

func version(c *codec.Coder, what string) {
	v := byte(rowVersion)
	if c.Byte(&v); v != rowVersion {
		c.Fail(what + " of another version")
	}
}

func encode[T any](dst []byte, v *T, code func(*T, *codec.Coder)) []byte {
	return codec.Encode(dst, v, code)
}

func decode[T any](b []byte, code func(*T, *codec.Coder)) (v T, err error) {
	if v, err = codec.Decode(b, code); err != nil {
		err = fmt.Errorf("processing: row: %w", err)
	}
	return v, err
}

// decodeBody is decode for data from other processes.
func decodeBody[T any](b []byte, code func(*T, *codec.Coder)) (v T, err error) {
	if v, err = codec.Decode(b, code); err != nil {
		err = engine.Errorf(engine.ErrMalformed, "processing: command: %v", err)
	}
	return v, err
}

// must is for data that Apply itself has written, which always decodes.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
