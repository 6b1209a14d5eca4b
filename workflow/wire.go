package workflow

import (
	"slices"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
)

func (q *infoQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("name", &q.name)
	f.Text("version", &q.version)
}

func (q *infoQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.Bool(&q.found)
	if c.Bool(&q.known); q.known {
		q.info.code(c)
		c.Bytes(&q.source)
	}
	if c.More(q.revision > 0) {
		c.Uvarint(&q.revision)
	}
}

func (q *listQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("prefix", &q.prefix)
	f.Text("after", &q.after)
	f.Int("limit", &q.limit, engine.PageLimit)
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
	f.Namespace(&q.namespace)
	q.target.code(f)
	f.Bool("wait", &q.wait)
}

func (q *runQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	if c.Bool(&q.found); q.found {
		q.run.code(c)
	}
}

func (q *runsQuery) Arguments(fields *codec.Fields) {
	c := fields.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	f := &q.filter
	c.String(&f.workflow)
	if c.Byte((*byte)(&f.status)); f.status > TimedOut {
		c.Fail("unknown state")
	}
	c.Bool(&f.active)
	first, more := "", []string(nil)
	if len(f.attributes) > 0 {
		first, more = f.attributes[0], f.attributes[1:]
	}
	c.String(&first)
	c.Varint(&f.after)
	c.Varint(&f.before)
	c.Uvarint(&q.before)
	if c.Int(&q.limit); q.limit < 1 || q.limit > engine.MaxPageItems {
		c.Fail("limit out of range")
	}
	if c.More(len(more) > 0) {
		codec.List(c, &more, (*codec.Coder).String)
	}
	if !c.Reading() {
		return
	}
	if f.attributes = nil; first != "" {
		f.attributes = append([]string{first}, more...)
	}
	if len(f.attributes) > flow.MaxAttributes || first == "" && len(more) > 0 {
		c.Fail("attributes out of range")
	}
}

func (q *runsQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	codec.List(c, &q.items, func(c *codec.Coder, r *RunInfo) { r.code(c) })
	codec.List(c, &q.numbers, (*codec.Coder).Uvarint)
	c.Uvarint(&q.next)
	if c.Bool(&q.more); c.Reading() && len(q.numbers) != len(q.items) {
		c.Fail("as many numbers as runs")
		return
	}
	undid, some := make([]int64, len(q.items)), false
	for i := range q.items {
		undid[i] = q.items[i].CompensationsFailed
		some = some || undid[i] > 0
	}
	if !c.More(some) {
		return
	}
	for i := range undid {
		c.Varint(&undid[i])
		q.items[i].CompensationsFailed = undid[i]
	}
}

func (q *historyQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	q.target.code(f)
	f.Uvarint("lsn", &q.lsn)
	f.Int("skip", &q.skip)
	f.Int("limit", &q.limit, engine.PageLimit)
}

func (q *historyQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.Bool(&q.found)
	codec.List(c, &q.items, func(c *codec.Coder, e *Event) {
		c.Byte((*byte)(&e.Type))
		c.String(&e.Step)
		c.Time(&e.At)
		c.Int(&e.Attempt)
		c.String(&e.Outcome)
		c.String(&e.Detail)
	})
	c.Uvarint(&q.next)
	c.Int(&q.nextSkip)
	c.Bool(&q.more)
}

func (i *shardInfo) code(c *codec.Coder) {
	for _, s := range [...]*string{&i.Name, &i.Version, &i.Description, &i.StartStep} {
		c.String(s)
	}
	for _, b := range [...]*bool{&i.Enabled, &i.HasSchedule, &i.HasTrigger, &i.home} {
		c.Bool(b)
	}
	has := i.Schedule != nil
	if c.Bool(&has); has {
		if i.Schedule == nil {
			i.Schedule = new(ScheduleInfo)
		}
		i.Schedule.code(c)
	}
	has = i.Trigger != nil
	if c.Bool(&has); has {
		if i.Trigger == nil {
			i.Trigger = new(TriggerInfo)
		}
		i.Trigger.code(c)
	}
	c.Uvarint(&i.triggered)
	for _, t := range [...]*time.Time{&i.CreatedAt, &i.UpdatedAt} {
		c.Time(t)
	}
	for _, l := range [...]*[]string{&i.Steps, &i.Terminals, &i.Plans} {
		codec.List(c, l, (*codec.Coder).String)
	}
	n := &i.Runs
	for _, v := range [...]*int64{&n.Total, &n.Active, &n.Completed, &n.Failed, &n.Cancelled, &n.TimedOut} {
		c.Varint(v)
	}
}

func (r *RunInfo) code(c *codec.Coder) {
	for _, s := range [...]*string{
		(*string)(&r.ID), &r.Workflow, &r.Version, &r.TriggeredBy, &r.CurrentStep, &r.Error, &r.Code, &r.IdempotencyKey,
		(*string)(&r.Parent),
	} {
		c.String(s)
	}
	c.Byte((*byte)(&r.Status))
	c.Time(&r.StartedAt)
	c.Time(&r.CompletedAt)
	c.Varint(&r.Events)
	r.codeAttributes(c)
}

// codeAttributes codes search attributes as encoded in keys.
func (r *RunInfo) codeAttributes(c *codec.Coder) {
	var all []string
	for name, value := range r.Attributes {
		all = append(all, string(appendAttribute(nil, name, value)))
	}
	slices.Sort(all)
	codec.List(c, &all, (*codec.Coder).String)
	if !c.Reading() {
		return
	}
	r.Attributes = nil
	for _, a := range all {
		name, value, ok := parseAttribute(a)
		if !ok {
			c.Fail("no search attribute")
			return
		}
		if r.Attributes == nil {
			r.Attributes = make(map[string]any)
		}
		r.Attributes[name] = value
	}
}

func (r *Run) code(c *codec.Coder) {
	r.RunInfo.code(c)
	c.Bytes(&r.Input)
	c.Bytes(&r.Output)
	c.String(&r.Waits)
	c.Time(&r.Due)
	codec.List(c, &r.Steps, func(c *codec.Coder, s *StepResult) {
		for _, v := range [...]*string{&s.Step, &s.Outcome, &s.Error, &s.Code} {
			c.String(v)
		}
		c.Bytes(&s.Output)
		c.Int(&s.Attempts)
		c.Time(&s.StartedAt)
		c.Time(&s.CompletedAt)
	})
	codec.List(c, &r.Signals, func(c *codec.Coder, s *PendingSignal) {
		c.String(&s.Type)
		c.Bytes(&s.Payload)
		c.Time(&s.ReceivedAt)
	})
	if c.More(r.CompensationsFailed > 0) {
		c.Varint(&r.CompensationsFailed)
	}
}
