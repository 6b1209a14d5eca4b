package action

import (
	"slices"

	"github.com/floedb/floe/internal/call"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Kinds of queries; the numbers are part of the protocol between processes.
const (
	queryInfo uint8 = iota + 1
	queryList
	queryRun
	queryRuns
	queryBeat
	querySchedule
	querySchedules
)

// maxPageBytes bounds the inputs and outputs of a page of runs.
const maxPageBytes = 4 << 20

func (*infoQuery) Kind() uint8 { return queryInfo }
func (*listQuery) Kind() uint8 { return queryList }
func (*runQuery) Kind() uint8  { return queryRun }
func (*runsQuery) Kind() uint8 { return queryRuns }
func (*beatQuery) Kind() uint8 { return queryBeat }

func (q *infoQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.name)
}

func (q *infoQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	if c.Bool(&q.found); q.found {
		q.info.code(c)
	}
	if c.More(q.revision > 0) {
		c.Uvarint(&q.revision)
	}
}

func (q *listQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.prefix)
	c.String(&q.after)
	codeLimit(c, &q.limit, engine.MaxPageItems)
}

func (q *listQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	codec.List(c, &q.items, func(c *codec.Coder, i *shardInfo) { i.code(c) })
	c.Bool(&q.more)
}

func (q *runQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	q.ref.Code(c)
	c.Bool(&q.wait)
}

func (q *runQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	if c.Bool(&q.found); q.found {
		codeRun(c, &q.run)
	}
}

func (q *runsQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.name)
	c.Uvarint(&q.before)
	codeLimit(c, &q.limit, engine.MaxPageItems)
	codeLimit(c, &q.maxBytes, maxPageBytes)
	if c.Byte((*byte)(&q.status)); q.status > TimedOut {
		c.Fail("unknown state")
	}
	if c.More(len(q.attributes) > 0 || q.since != 0 || q.until != 0) {
		codec.List(c, &q.attributes, func(c *codec.Coder, a *attribute) { a.code(c) })
		c.Varint(&q.since)
		c.Varint(&q.until)
	}
	if len(q.attributes) > maxAttributes || slices.ContainsFunc(q.attributes, func(a attribute) bool { return !a.known() }) {
		c.Fail("attributes out of range")
	}
}

func (q *runsQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.Bool(&q.found)
	codec.List(c, &q.items, codeRun)
	c.Uvarint(&q.next)
	c.Bool(&q.more)
}

func (q *beatQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.Uvarint(&q.session)
	codeRefs(c, &q.known)
	c.Bool(&q.census)
	if len(q.known) > maxHeld {
		c.Fail("runs out of range")
	}
}

func (q *beatQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	codeRefs(c, &q.cancelled)
	codeRefs(c, &q.held)
	if c.Varint(&q.lease); q.lease < 0 || q.lease > leaseMillis {
		c.Fail("lease out of range")
	}
}

func codeRefs(c *codec.Coder, refs *[]call.Ref) {
	codec.List(c, refs, func(c *codec.Coder, r *call.Ref) { r.Code(c) })
}

// codeLimit codes a limit of a query, which is at least 1.
func codeLimit(c *codec.Coder, limit *int, most int) {
	c.Int(limit)
	if *limit < 1 || *limit > most {
		c.Fail("limit out of range")
	}
}

func (i *shardInfo) code(c *codec.Coder) {
	for _, s := range [...]*string{&i.Name, &i.Type, &i.Owner, &i.Description} {
		c.String(s)
	}
	for _, n := range [...]*int{&i.Version, &i.MaxRetries, &i.RetainRuns, &i.MaxRunning, &i.MaxRunningPerKey, &i.Rate.Limit, &i.Rate.Burst, &i.Workers} {
		c.Int(n)
	}
	c.Bool(&i.Enabled)
	c.Time(&i.CreatedAt)
	c.Time(&i.UpdatedAt)
	n := &i.Runs
	for _, v := range [...]*int64{
		(*int64)(&i.Timeout), (*int64)(&i.BackoffMin), (*int64)(&i.BackoffMax), (*int64)(&i.RetainFor), (*int64)(&i.Rate.Per),
		&n.Total, &n.Pending, &n.Running, &n.Completed, &n.Failed, &n.Cancelled, &n.TimedOut,
		&i.Latency.Count, (*int64)(&i.Latency.Average), (*int64)(&i.Latency.P99),
	} {
		c.Varint(v)
	}
	c.Bool(&i.home)
	codec.List(c, &i.took, func(c *codec.Coder, v *int64) { c.Varint(v) })
}

func codeRun(c *codec.Coder, r *Run) {
	for _, s := range [...]*string{
		(*string)(&r.ID), &r.Action, &r.Outcome, &r.Error, &r.Code, &r.Source, &r.ConcurrencyKey, &r.IdempotencyKey, &r.WorkerID,
	} {
		c.String(s)
	}
	c.Byte((*byte)(&r.Status))
	c.Int(&r.Priority)
	c.Int(&r.Attempt)
	c.Int(&r.MaxAttempts)
	c.Bytes(&r.Input)
	c.Bytes(&r.Output)
	labels := engine.AppendHeaders(nil, r.Labels)
	if c.Bytes(&labels); c.Reading() {
		var err error
		if r.Labels, err = engine.DecodeHeaders(labels); err != nil {
			c.Fail(err.Error())
		}
	}
	c.Time(&r.CreatedAt)
	c.Time(&r.AvailableAt)
	c.Time(&r.StartedAt)
	c.Time(&r.CompletedAt)
	c.Bool(&r.Cancelling)
}
