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
	kindPutMany // sent by machines; see protocol.KindPutMany
)

// The commands of a key. A full disk still accepts deletes: a tombstone is small, and a key can be
// deleted only once. It accepts touches too, because locks would expire without them. Deleting part
// of a JSON value is refused, because it writes a new version of the value.
var (
	put = &engine.CommandRow[*write, putBody, Written]{
		Kind: kindPut, Name: "put", From: engine.FromUsers, Body: (*putBody).code, Size: func(b *putBody) int { return len(b.value) + 16 },
		Payload: func(b *putBody) int { return len(b.value) }, Encoded: (*write).put, Result: (*Written).code,
	}
	remove = &engine.CommandRow[*write, guard, Written]{
		Kind: kindDelete, Name: "delete", From: engine.FromUsers, Shrinks: true, Body: (*guard).code, Apply: (*write).delete,
		Result: (*Written).code,
	}
	touch = &engine.CommandRow[*write, touchBody, Written]{
		Kind: kindTouch, Name: "touch", From: engine.FromUsers, Shrinks: true, Body: (*touchBody).code, Apply: (*write).touch,
		Result: (*Written).code,
	}
	incr = &engine.CommandRow[*write, incrBody, Counted]{
		Kind: kindIncr, Name: "incr", From: engine.FromUsers, Body: (*incrBody).code, Apply: (*write).incr,
		Result: (*Counted).code,
	}
	jsonSet = &engine.CommandRow[*write, jsonSetBody, Written]{
		Kind: kindJSONSet, Name: "json set", From: engine.FromUsers, Body: (*jsonSetBody).code,
		Size:    func(b *jsonSetBody) int { return len(b.path) + len(b.raw) + 16 },
		Payload: func(b *jsonSetBody) int { return max(len(b.raw), int(b.maxBytes)) },
		Limited: func(b *jsonSetBody, maxPayload int) { b.maxBytes = int64(maxPayload) }, Apply: (*write).jsonSet, Result: (*Written).code,
	}
	jsonDelete = &engine.CommandRow[*write, jsonDeleteBody, Written]{
		Kind: kindJSONDelete, Name: "json delete", From: engine.FromUsers, Body: (*jsonDeleteBody).code, Apply: (*write).jsonDelete,
		Result: (*Written).code,
	}
	check = &engine.CommandRow[*write, guard, engine.Nothing]{
		Kind: kindCheck, Name: "check", From: engine.FromUsers, Shrinks: true, Body: (*guard).code, Run: (*write).allows,
	}
	putMany = engine.RawRow[*write]{Kind: kindPutMany, Name: "put many", From: engine.FromMachines | engine.FromShards}
)

var commands = engine.Declare(engine.MachineKV, "kv", checkKey, put, remove, touch, incr, jsonSet, jsonDelete, check, putMany)

// maxTTLMillis is the longest time.Duration, rounded up. Added to a present-day time it does not
// overflow.
const maxTTLMillis = math.MaxInt64/int64(time.Millisecond) + 1

// keepTTL is the TTL of a put that keeps the key's expiry.
const keepTTL = maxTTLMillis + 1

func codeTTL(f *codec.Fields, ms *int64) { f.Millis("ttl_ms", ms, codec.Range{Max: maxTTLMillis}) }

// guard is a command's precondition on its key.
type guard struct {
	cond     condition
	revision uint64
}

func (g *guard) code(f *codec.Fields) {
	switch c := f.Binary(); {
	case c != nil:
		c.Byte((*byte)(&g.cond))
		c.Uvarint(&g.revision)
	case f.Checking():
		if g.cond >= numConditions || (g.cond == atRevision) != (g.revision != 0) { // revision 0 is written as the condition absent
			f.Refuse(engine.Errorf(ErrInvalid, "kv: condition %d is not in 0-%d or has an unexpected revision %d", g.cond, numConditions-1,
				g.revision))
		}
	default:
		g.codeJSON(f)
	}
}

// codeJSON codes the conditions IfAbsent, IfPresent and IfRevision, each only if it is set.
func (g *guard) codeJSON(f *codec.Fields) {
	var read guard
	for _, c := range []struct {
		name string
		condition
	}{{"if_absent", absent}, {"if_present", present}} {
		is := g.cond == c.condition
		if !f.Given(c.name, is) {
			continue
		}
		if f.Bool(c.name, &is); is {
			f.Refuse(read.require(c.condition, 0))
		}
	}
	if f.Given("if_revision", g.cond == atRevision) {
		revision := g.revision
		f.Uvarint("if_revision", &revision)
		f.Refuse(read.requireRevision(revision))
	}
	if f.Parsing() {
		*g = read
	}
}

// putBody stores a value.
type putBody struct {
	guard
	ttl   int64 // ms; 0: none
	value []byte
}

func (b *putBody) code(f *codec.Fields) {
	b.guard.code(f)
	switch keep := b.ttl == keepTTL; {
	case f.Binary() != nil:
		f.Millis("ttl_ms", &b.ttl)
	case f.Checking():
		if !keep {
			codeTTL(f, &b.ttl)
		}
	default:
		if f.Bool("keep_ttl", &keep); keep {
			b.ttl = 0
		}
		if codeTTL(f, &b.ttl); keep {
			if b.ttl != 0 {
				f.Refuse(errTTLs)
			}
			b.ttl = keepTTL
		}
	}
	f.Rest("value", &b.value)
}

func putOp(key string, value []byte, opts []PutOption) engine.Op {
	return put.Make(key, func(b *putBody) error {
		b.value = value
		if len(opts) == 0 {
			return nil
		}
		o := putOptions(opts)
		b.guard, b.ttl = o.guard, o.ttlMillis
		return o.err
	})
}

func putOptions(opts []PutOption) writeOptions {
	var o writeOptions
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyPut(&o)
	}
	return o
}

func deleteOp(key string, opts []DeleteOption) engine.Op {
	var o writeOptions
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyDelete(&o)
	}
	return remove.Op(key, o.guard, o.err)
}

// touchBody changes the expiry of a key.
type touchBody struct {
	guard
	ttl int64 // ms; 0: it never expires
}

func (b *touchBody) code(f *codec.Fields) {
	b.guard.code(f)
	codeTTL(f, &b.ttl)
}

func touchOp(key string, ttl time.Duration, opts []TouchOption) engine.Op {
	var o writeOptions
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyTouch(&o)
	}
	millis, err := checkTTL(ttl, o.err)
	return touch.Op(key, touchBody{o.guard, millis}, err)
}

func persistOp(key string) engine.Op { return touch.Op(key, touchBody{}, nil) }

// incrBody adds to a number.
type incrBody struct {
	guard
	delta, min, max int64
	ttl             int64 // ms, of a new key; 0: none
}

func (b *incrBody) code(f *codec.Fields) {
	if f.Parsing() {
		*b = incrBody{delta: 1, min: math.MinInt64, max: math.MaxInt64}
	}
	b.guard.code(f)
	f.Varint("by", &b.delta)
	f.Varint("min", &b.min)
	f.Varint("max", &b.max)
	codeTTL(f, &b.ttl)
}

func incrOp(key string, delta int64, opts []IncrOption) engine.Op {
	o := incrOptions(opts)
	return incr.Op(key, incrBody{o.guard, delta, o.minV, o.maxV, o.ttlMillis}, o.err)
}

// jsonSetBody sets part of a document. It carries the size limit of the result, because Apply must
// not depend on a node's configuration.
type jsonSetBody struct {
	guard
	maxBytes  int64
	path, raw []byte
}

func (b *jsonSetBody) code(f *codec.Fields) {
	b.guard.code(f)
	switch {
	case f.Binary() != nil:
		f.Count("max_bytes", &b.maxBytes)
	case f.Checking():
		if b.maxBytes < 0 {
			f.Refuse(engine.Errorf(ErrInvalid, "kv: document limit of %d bytes exceeds %d", uint64(b.maxBytes), math.MaxInt))
		}
	}
	f.Bytes("path", &b.path)
	f.Rest("json", &b.raw)
}

func jsonSetOp(key, path string, raw []byte) engine.Op {
	_, err := parsePath(path)
	if err == nil {
		err = checkJSON("kv: the JSON to set", raw)
	}
	return jsonSet.Op(key, jsonSetBody{path: []byte(path), raw: raw}, err)
}

// jsonDeleteBody deletes part of a document.
type jsonDeleteBody struct {
	guard
	path []byte
}

func (b *jsonDeleteBody) code(f *codec.Fields) {
	b.guard.code(f)
	f.Bytes("path", &b.path)
}

func jsonDeleteOp(key, path string) engine.Op {
	segments, err := parsePath(path)
	if err == nil && len(segments) == 0 {
		err = engine.Errorf(ErrInvalid, "kv: path %q names the whole document: use Delete", path)
	}
	return jsonDelete.Op(key, jsonDeleteBody{path: []byte(path)}, err)
}

func conditionOn(key string, c condition, revision uint64) Condition {
	return Condition{engine.HideCondition(check.Op(key, guard{c, revision}, nil))}
}

func (w *Written) code(f *codec.Fields) {
	f.Uvarint("revision", &w.Revision)
	f.Uvarint("version", &w.Version)
}

func (c *Counted) code(f *codec.Fields) {
	if f.Varint("value", &c.Value); f.More(c.Version != 0) {
		c.Written.code(f)
	}
}

// PutOp is Put as an operation of a transaction.
func PutOp(key string, value []byte, opts ...PutOption) OpOf[Written] {
	return opOf[Written](putOp(key, value, opts))
}

// DeleteOp is Delete as an operation of a transaction.
func DeleteOp(key string, opts ...DeleteOption) OpOf[Written] {
	return opOf[Written](deleteOp(key, opts))
}

// TouchOp is Touch as an operation of a transaction.
func TouchOp(key string, ttl time.Duration, opts ...TouchOption) Op {
	return Op{engine.Hide(touchOp(key, ttl, opts))}
}

// PersistOp is Persist as an operation of a transaction.
func PersistOp(key string) Op { return Op{engine.Hide(persistOp(key))} }

// IncrOp is Incr as an operation of a transaction.
func IncrOp(key string, delta int64, opts ...IncrOption) OpOf[Counted] {
	return opOf[Counted](incrOp(key, delta, opts))
}

// RevisionIs holds if r is the key's current revision; 0 means that the key does not exist.
func RevisionIs(key string, r uint64) Condition {
	if r == 0 {
		return Absent(key)
	}
	return conditionOn(key, atRevision, r)
}

// Absent holds if the key does not exist.
func Absent(key string) Condition { return conditionOn(key, absent, 0) }

// Present holds if the key exists.
func Present(key string) Condition { return conditionOn(key, present, 0) }
