package kv

import (
	"fmt"
	"math"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// condition is a precondition of a command.
type condition uint8

const (
	always condition = iota
	absent
	present
	atRevision
	numConditions
)

// writeOptions collects the options of all write operations. The option types determine which
// operations accept them.
type writeOptions struct {
	guard
	ttlMillis  int64 // 0: none
	minV, maxV int64
	err        error
}

func (o *writeOptions) require(c condition, revision uint64) {
	if err := o.guard.require(c, revision); err != nil {
		o.err = err
	}
}

// require adds a condition to the guard.
func (g *guard) require(c condition, revision uint64) error {
	// A key with a revision is present, so the stronger condition implies the other.
	if g.cond == present && c == atRevision {
		g.cond = always
	}
	if g.cond == atRevision && c == present {
		return nil
	}
	if asked := (guard{c, revision}); g.cond != always && *g != asked {
		return engine.Errorf(ErrInvalid, "kv: contradicting conditions: %s and %s", g.want(), asked.want())
	}
	g.cond, g.revision = c, revision
	return nil
}

// requireRevision requires a revision; 0 means that the key must not exist.
func (g *guard) requireRevision(r uint64) error {
	if r == 0 {
		return g.require(absent, 0)
	}
	return g.require(atRevision, r)
}

// want describes the condition for a ConflictError.
func (g *guard) want() string {
	switch g.cond {
	case absent:
		return "absent"
	case present:
		return "present"
	}
	return fmt.Sprintf("revision %d", g.revision)
}

// PutOption changes what Put does.
type PutOption interface{ applyPut(*writeOptions) }

// DeleteOption changes what Delete does.
type DeleteOption interface{ applyDelete(*writeOptions) }

// TouchOption changes what Touch does.
type TouchOption interface{ applyTouch(*writeOptions) }

// IncrOption changes what Incr does.
type IncrOption interface{ applyIncr(*writeOptions) }

type putOption func(*writeOptions)

func (f putOption) applyPut(o *writeOptions) { f(o) }

// TTLOption is the type of TTL; Put, Incr and Update accept it.
type TTLOption struct{ d time.Duration }

// TTL makes the entry expire d from now, rounded up to milliseconds. For Incr it applies only to an
// entry that Incr creates.
func TTL(d time.Duration) TTLOption { return TTLOption{d} }

func (t TTLOption) apply(o *writeOptions) {
	if o.ttlMillis == keepTTL {
		o.err = errTTLs
		return
	}
	o.ttlMillis, o.err = checkTTL(t.d, o.err)
}
func (t TTLOption) applyPut(o *writeOptions)  { t.apply(o) }
func (t TTLOption) applyIncr(o *writeOptions) { t.apply(o) }

// KeepTTL makes Put keep the entry's expiry. A new key has none. It cannot be combined with TTL.
func KeepTTL() PutOption {
	return putOption(func(o *writeOptions) {
		if o.ttlMillis != 0 {
			o.err = errTTLs
		}
		o.ttlMillis = keepTTL
	})
}

var errTTLs = engine.Errorf(ErrInvalid, "kv: a TTL and KeepTTL are mutually exclusive")

func checkTTL(d time.Duration, prev error) (int64, error) {
	if d <= 0 {
		return 0, engine.Errorf(ErrInvalid, "kv: ttl %v is not positive", d)
	}
	return int64((d-1)/time.Millisecond) + 1, prev
}

// IfAbsent stores the value only if the key does not exist.
func IfAbsent() PutOption { return putOption(func(o *writeOptions) { o.require(absent, 0) }) }

// IfPresent stores the value only if the key exists.
func IfPresent() PutOption { return putOption(func(o *writeOptions) { o.require(present, 0) }) }

// RevisionOption is the type of IfRevision; Put, Delete and Touch accept it.
type RevisionOption struct{ revision uint64 }

// IfRevision applies the operation only if the key's current revision is r. 0 means that the key
// must not exist.
func IfRevision(r uint64) RevisionOption { return RevisionOption{r} }

func (r RevisionOption) apply(o *writeOptions) {
	if err := o.requireRevision(r.revision); err != nil {
		o.err = err
	}
}

func (r RevisionOption) applyPut(o *writeOptions)    { r.apply(o) }
func (r RevisionOption) applyDelete(o *writeOptions) { r.apply(o) }
func (r RevisionOption) applyTouch(o *writeOptions)  { r.apply(o) }

type incrOption func(*writeOptions)

func (f incrOption) applyIncr(o *writeOptions) { f(o) }

// Min refuses an increment whose result would be less than v.
func Min(v int64) IncrOption { return incrOption(func(o *writeOptions) { o.minV = v }) }

// Max refuses an increment whose result would be greater than v.
func Max(v int64) IncrOption { return incrOption(func(o *writeOptions) { o.maxV = v }) }

func incrOptions(opts []IncrOption) writeOptions {
	o := writeOptions{minV: math.MinInt64, maxV: math.MaxInt64}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyIncr(&o)
	}
	if o.minV > o.maxV {
		o.err = engine.Errorf(ErrInvalid, "kv: min %d is greater than max %d", o.minV, o.maxV)
	}
	return o
}
