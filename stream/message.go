package stream

import (
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// appendBody appends messages. The options are followed by the number of messages (uvarint), then
// each message behind its length (uvarint).
//
//	message: key (length, bytes) | headers uvarint | name, value (length, bytes) ... sorted by name | payload
type appendBody struct {
	target
	options  appendOptions
	added    []Message // if the body was built here
	messages [][]byte  // if it was decoded: encoded messages
}

func (b *appendBody) code(f *codec.Fields) {
	b.target.code(f)
	o := &b.options
	codePartition(f, &o.partition)
	if c := f.Binary(); c != nil {
		if c.Bool(&o.expect); o.expect {
			o.lastID.code(f, "if_last_id")
		}
		if c.String(&o.producer); o.producer != "" {
			c.Uvarint(&o.sequence)
		}
	} else {
		if o.expect = f.Given("if_last_id", o.expect); o.expect {
			o.lastID.code(f, "if_last_id")
		}
		if f.Given("dedup", o.producer != "") {
			codec.Object(f, "dedup", o, (*appendOptions).codeDedup)
		}
	}
	b.codeMessages(f)
}

// codePartition codes an optional partition: *v is 0 if it is absent, else the partition plus 1.
func codePartition(f *codec.Fields, v *int) {
	switch {
	case f.Binary() != nil:
		codeCount(f, "partition", v)
	case f.Checking():
		if *v != 0 {
			f.Refuse(PartitionOption{*v - 1}.check())
		}
	case f.Given("partition", *v != 0):
		p := int64(*v) - 1
		f.Count("partition", &p, codec.Range{Max: MaxPartitions - 1})
		f.Refuse(PartitionOption{int(p)}.check())
		*v = int(p) + 1
	}
}

func (o *appendOptions) codeDedup(f *codec.Fields) {
	f.Text("producer", &o.producer)
	f.Uvarint("sequence", &o.sequence)
	if f.Parsing() {
		f.Refuse(engine.CheckName("producer", o.producer))
	}
}

func (b *appendBody) codeMessages(f *codec.Fields) {
	number := codec.Range{Min: 1, Max: MaxBatch}
	switch {
	case f.Binary() == nil && !f.Checking():
		all := b.added
		for _, msg := range b.messages {
			var m Message
			_ = m.read(msg) // already checked
			all = append(all, m)
		}
		if codec.ListInto(f, "messages", &all, (*Message).code, number); f.Parsing() {
			b.added = all
		}
	case len(b.added) > 0:
		codec.ListInto(f, "messages", &b.added, (*Message).code, number)
	default:
		codec.ListInto(f, "messages", &b.messages, func(msg *[]byte, f *codec.Fields) { f.Bytes("", msg) }, number)
	}
}

// code codes a message in JSON, or encodes one for a body that is built.
func (m *Message) code(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		c.Embed(func(b []byte) []byte { return m.append(codec.AppendUvarint(b, uint64(m.encodedSize()))) }, nil)
		return
	}
	if f.Checking() {
		return
	}
	codec.OnCopy(f, &m.Key, func(k *string) {
		key := []byte(*k)
		f.Bytes("key", &key, codec.Range{Max: MaxKeyBytes})
		*k = string(key)
	})
	engine.CodePairMap(f, "headers", &m.Headers)
	f.Bytes("payload", &m.Payload)
}

func (b *appendBody) size() int {
	size := len(b.options.producer) + 64
	for i := range b.added {
		size += b.added[i].encodedSize() + binary.MaxVarintLen32
	}
	for _, msg := range b.messages {
		size += len(msg) + binary.MaxVarintLen32
	}
	return size
}

func (b *appendBody) payload() (largest int) {
	for i := range b.added {
		largest = max(largest, len(b.added[i].Payload))
	}
	for _, msg := range b.messages {
		if _, payload, err := split(msg); err == nil {
			largest = max(largest, len(payload))
		}
	}
	return largest
}

// limit returns an error for messages beyond the store's limits.
func (b *appendBody) limit() error {
	msgs := b.added
	for _, encoded := range b.messages {
		var m Message
		if err := m.read(encoded); err != nil {
			return engine.Errorf(ErrInvalid, "stream: message: %v", err)
		}
		if string(m.append(nil)) != string(encoded) {
			return engine.Errorf(ErrInvalid, "stream: message headers are not sorted by name")
		}
		msgs = append(msgs, m)
	}
	if p := b.options.producer; p != "" {
		if err := engine.CheckName("producer", p); err != nil {
			return err
		}
	}
	size := 0
	for i := range msgs {
		m := &msgs[i]
		if len(m.Key) > MaxKeyBytes {
			return engine.Errorf(ErrInvalid, "stream: key of %d bytes exceeds %d", len(m.Key), MaxKeyBytes)
		}
		if err := engine.CheckHeaders("stream", m.Headers); err != nil {
			return err
		}
		size += m.size()
	}
	if size > MaxBatchBytes && len(msgs) > 1 {
		return engine.Errorf(ErrInvalid, "stream: %d messages of %d bytes exceed %d", len(msgs), size, MaxBatchBytes)
	}
	return nil
}

func appendOp(name string, msgs []Message, o appendOptions, sp *spec) engine.Op {
	return appendMessages.Make(name, func(b *appendBody) error {
		b.spec, b.options, b.added = sp, o, msgs
		return o.err
	})
}

// AppendOp is Append as an operation of a transaction. In a spread namespace the
// stream must have a {tag} or a single partition.
func AppendOp(name string, msg Message, opts ...AppendOption) OpOf[Appended] {
	op := appendOp(name, []Message{msg}, appendOptionsOf(opts), nil)
	op.Decode = func(b []byte) (any, error) {
		all, err := appendMessages.Decode(b)
		if err != nil {
			return nil, err
		}
		return all[0], nil
	}
	return opOf[Appended](op)
}

// AppendManyOp is AppendMany as an operation of a transaction.
func AppendManyOp(name string, msgs []Message, opts ...AppendOption) OpOf[[]Appended] {
	return opOf[[]Appended](appendOp(name, msgs, appendOptionsOf(opts), nil))
}

// size returns the size of key, headers and payload in bytes.
func (m *Message) size() int {
	n := len(m.Key) + len(m.Payload)
	for name, value := range m.Headers {
		n += len(name) + len(value)
	}
	return n
}

// encodedSize returns the number of bytes that append adds.
func (m *Message) encodedSize() int {
	n := sizeOf(len(m.Key)) + sizeOf(len(m.Headers)) + m.size()
	for name, value := range m.Headers {
		n += sizeOf(len(name)) + sizeOf(len(value))
	}
	return n
}

// sizeOf returns the size of n as a uvarint.
func sizeOf(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 }

func (m *Message) append(b []byte) []byte {
	b = codec.AppendString(b, m.Key)
	b = codec.AppendUvarint(b, uint64(len(m.Headers)))
	if len(m.Headers) > 0 {
		for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
			b = codec.AppendString(codec.AppendString(b, name), m.Headers[name])
		}
	}
	return append(b, m.Payload...)
}

// read decodes the message. Its payload aliases b.
func (m *Message) read(b []byte) error {
	r := codec.NewReader(b)
	m.Key = r.String()
	if n := readCount(&r, MaxHeaderBytes); n > 0 {
		m.Headers = make(map[string]string)
		for range n {
			name := r.String()
			m.Headers[name] = r.String()
			if r.Err() != nil {
				break
			}
		}
	} else if n < 0 {
		return engine.Errorf(ErrInvalid, "stream: message with too many headers")
	}
	m.Payload = r.Rest()
	return r.Err()
}

// split returns the key and the payload of an encoded message, or an error if it is malformed.
func split(msg []byte) (k, payload []byte, err error) {
	r := codec.NewReader(msg)
	k = r.Bytes()
	n := readCount(&r, MaxHeaderBytes)
	for i := 0; i < n && r.Err() == nil; i++ {
		r.Bytes()
		r.Bytes()
	}
	if err := r.Err(); err != nil || n < 0 {
		return nil, nil, engine.Errorf(ErrInvalid, "stream: malformed message of %d bytes: %v", len(msg), err)
	}
	return k, r.Rest(), nil
}

// readCount reads an integer up to limit. It returns -1 for a larger one.
func readCount(r *codec.Reader, limit uint64) int {
	n := r.Uvarint()
	if n > limit {
		return -1
	}
	return int(n)
}

// codeAppended codes the result of an append, which the rows of producers store too:
//
//	LSN uvarint | duplicate u8 | number uvarint | partition, id, offset (uvarints) ...
func codeAppended(all *[]Appended, f *codec.Fields) {
	var of Appended // LSN and Duplicate are the same for all
	if len(*all) > 0 {
		of = (*all)[0]
	}
	f.Uvarint("lsn", &of.LSN)
	f.Bool("duplicate", &of.Duplicate)
	codec.ListInto(f, "messages", all, (*Appended).code)
	if c := f.Binary(); c == nil || !c.Reading() {
		return
	} else if len(*all) < 1 || len(*all) > MaxBatch {
		c.Fail("number of appended messages out of range")
	}
	for i := range *all {
		(*all)[i].LSN, (*all)[i].Duplicate = of.LSN, of.Duplicate
	}
}

func (a *Appended) code(f *codec.Fields) {
	codeCount(f, "partition", &a.Partition)
	a.ID.code(f, "id")
	f.Uvarint("offset", &a.Offset)
}

func encodeAppended(all *[]Appended) []byte {
	return codec.EncodeFields(make([]byte, 0, 16+len(*all)*12), all, codeAppended)
}
