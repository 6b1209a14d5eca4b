package kv

import (
	"math"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Kinds of commands; the numbers are part of the log's format.
const (
	kindPut uint8 = iota + 1
	kindDelete
	kindTouch
	kindIncr
	kindJSONSet
	kindJSONDelete
	kindCheck
	kindPutMany // of machines, see feed.KindPutMany
)

// Command bodies all begin with the key (uvarint length, bytes) and the condition (u8, and revision uvarint). Then follows:
//
//	put:         ttl ms uvarint (0: none, maxTTLMillis + 1: as it is) | value
//	touch:       ttl ms uvarint (0: never expire)
//	incr:        delta, min, max varint | ttl ms of a new key uvarint (0: none)
//	json set:    largest result uvarint | path (uvarint length, bytes) | raw JSON
//	json delete: path (uvarint length, bytes)
//	delete, check: nothing
//
// but for put many, see putMany.
//
// Results are revision and version (uvarints); of incr the new value (varint).
func body(key string, o writeOptions, capacity int) []byte {
	b := make([]byte, 0, len(key)+capacity+24)
	b = codec.AppendString(b, key)
	b = append(b, byte(o.cond))
	return codec.AppendUvarint(b, o.revision)
}

func op(kind uint8, key string, err error, body []byte, decode func([]byte) (any, error)) engine.Op {
	if err == nil {
		err = checkKey(key)
	}
	return engine.Op{
		Command: engine.Command{Machine: engine.MachineKV, Kind: kind, Body: body},
		Route:   key,
		Err:     err,
		Decode:  decode,
	}
}

func putCommand(key string, value []byte, opts []PutOption) engine.Op {
	var o writeOptions
	if len(opts) > 0 {
		o = putOptions(opts)
	}
	if o.err != nil {
		return op(kindPut, key, o.err, nil, nil)
	}
	b := body(key, o, len(value))
	b = codec.AppendUvarint(b, uint64(o.ttlMillis))
	put := op(kindPut, key, nil, append(b, value...), anyWritten)
	put.Payload = len(value)
	return put
}

func putOptions(opts []PutOption) writeOptions {
	var o writeOptions
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyPut(&o)
	}
	return o
}

func deleteCommand(key string, opts []DeleteOption) engine.Op {
	var o writeOptions
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyDelete(&o)
	}
	return op(kindDelete, key, o.err, body(key, o, 0), anyWritten)
}

func touchCommand(key string, ttl time.Duration, opts []TouchOption) engine.Op {
	var o writeOptions
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyTouch(&o)
	}
	millis, err := checkTTL(ttl, o.err)
	return op(kindTouch, key, err, codec.AppendUvarint(body(key, o, 0), uint64(millis)), anyWritten)
}

func persistCommand(key string) engine.Op {
	b := body(key, writeOptions{}, 0)
	return op(kindTouch, key, nil, codec.AppendUvarint(b, 0), anyWritten)
}

func incrCommand(key string, delta int64, opts []IncrOption) engine.Op {
	o := incrOptions(opts)
	b := codec.AppendVarint(body(key, o, 0), delta)
	b = codec.AppendVarint(codec.AppendVarint(b, o.minV), o.maxV)
	b = codec.AppendUvarint(b, uint64(o.ttlMillis))
	return op(kindIncr, key, o.err, b, func(result []byte) (any, error) { return decodeInt(result) })
}

func checkCommand(key string, c condition, revision uint64) Condition {
	return Condition{engine.HideCondition(op(kindCheck, key, nil, body(key, writeOptions{cond: c, revision: revision}, 0), nil))}
}

// maxTTLMillis is what a time.Duration can hold, rounded up: added to any time of this age it does not overflow.
const maxTTLMillis = math.MaxInt64/int64(time.Millisecond) + 1

// keepTTL is the time to live of a put that leaves the expiry as it is.
const keepTTL = maxTTLMillis + 1

// command is a decoded body.
type command struct {
	key      []byte
	o        writeOptions
	delta    int64
	maxBytes int
	path     []byte
	value    []byte // aliases the log entry
}

func decodeCommand(kind uint8, b []byte) (c command, err error) {
	r := codec.NewReader(b)
	c.key = r.Bytes()
	c.o.cond, c.o.revision = condition(r.Byte()), r.Uvarint()
	switch kind {
	case kindPut:
		c.o.ttlMillis, c.value = int64(r.Uvarint()), r.Rest()
	case kindTouch:
		c.o.ttlMillis = int64(r.Uvarint())
	case kindIncr:
		c.delta, c.o.minV, c.o.maxV = r.Varint(), r.Varint(), r.Varint()
		c.o.ttlMillis = int64(r.Uvarint())
	case kindJSONSet:
		c.maxBytes, c.path, c.value = int(r.Uvarint()), r.Bytes(), r.Rest()
	case kindJSONDelete:
		c.path = r.Bytes()
	}
	if err := r.Done(); err != nil {
		return c, engine.Errorf(engine.ErrMalformed, "kv: command: %v", err)
	}
	keeps := kind == kindPut && c.o.ttlMillis == keepTTL
	switch {
	case c.o.cond >= numConditions:
		return c, engine.Errorf(ErrInvalid, "kv: condition %d is not in 0-%d", c.o.cond, numConditions-1)
	case (c.o.ttlMillis < 0 || c.o.ttlMillis > maxTTLMillis) && !keeps:
		return c, engine.Errorf(ErrInvalid, "kv: ttl of %d ms is not in 0-%d ms", uint64(c.o.ttlMillis), maxTTLMillis)
	case c.maxBytes < 0:
		return c, engine.Errorf(ErrInvalid, "kv: a document limit of %d bytes exceeds %d", uint64(c.maxBytes), math.MaxInt)
	}
	return c, checkKey(string(c.key))
}

func encodeWritten(w Written) []byte {
	b := codec.AppendUvarint(make([]byte, 0, 12), w.Revision)
	return codec.AppendUvarint(b, w.Version)
}

func decodeWritten(b []byte) (Written, error) {
	r := codec.NewReader(b)
	w := Written{Revision: r.Uvarint(), Version: r.Uvarint()}
	return w, r.Done()
}

func anyWritten(b []byte) (any, error) { return decodeWritten(b) }

func decodeInt(b []byte) (int64, error) {
	r := codec.NewReader(b)
	v := r.Varint()
	return v, r.Done()
}

// PutOp is Put as an operation of a transaction; its value in the result is a Written.
func PutOp(key string, value []byte, opts ...PutOption) Op {
	return Op{engine.Hide(putCommand(key, value, opts))}
}

// DeleteOp is Delete as an operation of a transaction; its value in the result is a Written.
func DeleteOp(key string, opts ...DeleteOption) Op { return Op{engine.Hide(deleteCommand(key, opts))} }

// TouchOp is Touch as an operation of a transaction.
func TouchOp(key string, ttl time.Duration, opts ...TouchOption) Op {
	return Op{engine.Hide(touchCommand(key, ttl, opts))}
}

// PersistOp is Persist as an operation of a transaction.
func PersistOp(key string) Op { return Op{engine.Hide(persistCommand(key))} }

// IncrOp is Incr as an operation of a transaction; its value in the result is an int64.
func IncrOp(key string, delta int64, opts ...IncrOption) Op {
	return Op{engine.Hide(incrCommand(key, delta, opts))}
}

// RevisionIs holds if the key's present revision is r; 0 means that it does not exist.
func RevisionIs(key string, r uint64) Condition {
	if r == 0 {
		return Absent(key)
	}
	return checkCommand(key, atRevision, r)
}

// Absent holds if the key does not exist.
func Absent(key string) Condition { return checkCommand(key, absent, 0) }

// Present holds if the key exists.
func Present(key string) Condition { return checkCommand(key, present, 0) }
