package processing

import (
	"fmt"
	"strconv"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/pipeline"
	"github.com/floedb/floe/stream"
)

// failure is a record for the error stream, unchanged.
type failure struct {
	operator string // or source, or sink
	reason   string
	source   string
	origin   pipeline.Origin
	headers  []pipeline.Tag
	key      []byte
	value    []byte
}

func (f *failure) code(c *codec.Coder) {
	c.String(&f.operator)
	c.String(&f.reason)
	c.String(&f.source)
	c.Int(&f.origin.Partition)
	c.Uvarint(&f.origin.Offset)
	c.Varint(&f.origin.ID.Millis)
	c.Uvarint(&f.origin.ID.Seq)
	codec.List(c, &f.headers, func(c *codec.Coder, t *pipeline.Tag) {
		c.String(&t.Name)
		c.String(&t.Value)
	})
	c.Bytes(&f.key)
	c.Bytes(&f.value)
}

// shown returns a failure as users see it.
func (t *task) shown(f *failure) *Failure {
	r := &Failure{Operator: f.operator, Reason: engine.Cut(f.reason, maxReason)}
	if f.source == "" {
		return r
	}
	r.Source, r.Partition, r.Offset, r.RecordID = f.source, f.origin.Partition, f.origin.Offset, stream.ID(f.origin.ID)
	if s := &t.def.Sources[f.origin.Source]; s.Stream != nil {
		r.Stream = s.Stream.Stream
	} else {
		r.Measurement = s.TS.Measurement
	}
	return r
}

// codeFailure codes the failure of a job, which may be nil, at the end of a record.
func codeFailure(c *codec.Coder, f **Failure) {
	if c.More(*f != nil) {
		if c.Reading() {
			*f = new(Failure)
		}
		(*f).code(c)
	}
}

func (f *Failure) code(c *codec.Coder) {
	for _, s := range [...]*string{&f.Operator, &f.Reason, &f.Source, &f.Stream, &f.Measurement} {
		c.String(s)
	}
	c.Int(&f.Partition)
	c.Varint(&f.RecordID.Millis)
	c.Uvarint(&f.RecordID.Seq)
	c.Uvarint(&f.Offset)
}

func encodeFailures(all []failure) []byte {
	c := codec.NewEncoder(nil)
	codec.List(&c, &all, func(c *codec.Coder, f *failure) { f.code(c) })
	return c.Encoded()
}

func decodeFailures(b []byte) (all []failure, err error) {
	c := codec.NewDecoder(b)
	codec.List(&c, &all, func(c *codec.Coder, f *failure) { f.code(c) })
	return all, c.Done()
}

func (t *task) failureOf(f *pipeline.Failure) failure {
	r := &f.Record
	return failure{operator: f.Operator, reason: f.Reason, source: t.sourceOf(r), origin: r.Origin, headers: r.Headers, key: r.Key,
		value: r.Value}
}

// refusedWrite returns the failure of a record that a sink refused.
func (t *task) refusedWrite(sink int, reason string, w *pipeline.Write) failure {
	return t.failureOf(&pipeline.Failure{Operator: t.def.Sinks[sink].Name, Reason: reason, Record: w.Record})
}

func (t *task) sourceOf(r *pipeline.Record) string {
	if r.Origin.Source < 0 || r.Origin.Source >= len(t.def.Sources) {
		return ""
	}
	return t.def.Sources[r.Origin.Source].Name
}

// The headers of records in the error stream.
const (
	headerReason    = "floe-error"
	headerOperator  = "floe-operator"
	headerSource    = "floe-source"
	headerPartition = "floe-partition"
	headerOffset    = "floe-offset"
	headerID        = "floe-id"
)

func errorAge() time.Duration {
	return errorRetention
}

// errorOutputs returns the outputs that append failures to the error stream of a job, which they
// create if it does not exist.
func errorOutputs(job string, failures []failure) (all []output) {
	if len(failures) == 0 {
		return nil
	}
	name := ErrorStream(job)
	create := outputOf(engine.OpOf(stream.CreateOp(name, stream.MaxAge(errorAge()))), -1)
	create.tolerant = true
	all = append(all, create)
	var messages []stream.Message
	size := 0
	flush := func() {
		if len(messages) > 0 {
			o := outputOf(forwardOp(name, messages), -1)
			o.records = int64(len(messages))
			all = append(all, o)
		}
		messages, size = nil, 0
	}
	for i := range failures {
		msg := failures[i].message()
		messages = append(messages, msg)
		if size += len(msg.Payload); size >= maxOutputBytes || len(messages) == maxPerOutput {
			flush()
		}
	}
	flush()
	return all
}

// message returns the original record, with headers that describe the error.
func (f *failure) message() stream.Message {
	h := headersOf(f.headers)
	if h == nil {
		h = make(map[string]string)
	}
	h[headerReason], h[headerOperator], h[headerSource] = engine.Cut(f.reason, maxReason), f.operator, f.source
	h[headerPartition], h[headerOffset] = strconv.Itoa(f.origin.Partition), strconv.FormatUint(f.origin.Offset, 10)
	h[headerID] = fmt.Sprintf("%d-%d", f.origin.ID.Millis, f.origin.ID.Seq)
	if engine.CheckHeaders("stream", h) != nil { // its own leave no room
		for _, tag := range f.headers {
			delete(h, tag.Name)
		}
	}
	return stream.Message{Key: string(f.key[:min(len(f.key), stream.MaxKeyBytes)]), Headers: h, Payload: f.value}
}

func headersOf(tags []pipeline.Tag) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	h := make(map[string]string, len(tags))
	for _, t := range tags {
		h[t.Name] = t.Value
	}
	return h
}
