package pipeline

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/rawjson"
)

// Program is a compiled job. It is safe for concurrent use.
type Program struct {
	job       *Job
	instances []instance
	enters    []int // by source: the join where its records enter, -1 for the beginning
	whole     Stage
	stages    []Stage
	late      TagSet    // tags of late records
	spare     sync.Pool // of *[]item, for batches
	spent     sync.Pool // of *[]Write
}

// instance is an operator of a program.
type instance struct {
	name      string
	index     int
	number    uint16 // of its state
	stateless stateless
	stateful  stateful
	timed     timed
	until     int   // for a stateless operator: the next that is not stateless
	lag       int64 // lag of event time behind the sources, due to the left joins before the operator
}

// lags returns how long an operator keeps records before it passes them on with their original
// event times. Later operators do not treat those records as late.
func (s *instance) lags() int64 {
	if j, ok := s.stateful.(*join); ok && j.left {
		return j.within
	}
	return 0
}

// Compile compiles a job returned by Parse. numbers maps each operator with a Shape to the number
// of its state.
func Compile(j *Job, numbers map[string]uint16) (*Program, error) {
	p := &Program{job: j, instances: make([]instance, len(j.Operators)), enters: make([]int, len(j.Sources))}
	for i := range p.enters {
		p.enters[i] = -1
	}
	for i := range j.Operators {
		o := &j.Operators[i]
		s := &p.instances[i]
		*s = instance{name: o.Name, index: i}
		s.stateless, _ = o.private.spec.(stateless)
		s.stateful, _ = o.private.spec.(stateful)
		s.timed, _ = o.private.spec.(timed)
		if l, ok := o.private.spec.(interface{ lateTag() TagSet }); ok {
			p.late |= l.lateTag()
		}
		n, ok := numbers[o.Name]
		if s.number = n; !ok && o.Shape != "" {
			return nil, fmt.Errorf("pipeline: operator %q has state and no number", o.Name)
		}
		for k := range j.Sources {
			if o.Source != "" && j.Sources[k].Name == o.Source {
				p.enters[k] = i
			}
		}
	}
	for i := 1; i < len(p.instances); i++ {
		if p.instances[i].lag = p.instances[i-1].lag; p.instances[i-1].lags() > 0 {
			p.instances[i].lag = min(p.instances[i].lag+p.instances[i-1].lags(), beyond)
		}
	}
	next := len(p.instances)
	for i := len(p.instances) - 1; i >= 0; i-- {
		// Records enter at a join, so a run of the operators before it must end there.
		if p.instances[i].stateful != nil {
			next = i
			continue
		}
		p.instances[i].until = next
	}
	p.divide()
	return p, nil
}

// Tags returns the names of all tags, by number.
func (p *Program) Tags() []string { return p.job.tags }

var (
	errNoTime   = errors.New("it is neither a number of ms nor a time as of RFC 3339")
	errNoMember = errors.New("it is not there")
)

// timeOf returns the time in a part of a value.
func timeOf(r gjson.Result) (int64, error) {
	if !r.Exists() {
		return 0, errNoMember
	}
	ms, ok := rawjson.Time(bytesOf(r.Raw))
	if !ok {
		return 0, errNoTime
	}
	return ms, nil
}

// EventTime returns the event time of a record from a source. All other fields of rec are set. It
// caches in rec whether the value is JSON. It fails if the event time is missing, or too far after
// the append.
func (p *Program) EventTime(rec *Record) (int64, error) {
	s := &p.job.Sources[rec.Origin.Source]
	if s.private.time == nil {
		return rec.Origin.ID.Millis, nil
	}
	it := item{Record: *rec}
	_, err := it.JSON()
	if rec.json = it.json; err != nil {
		return 0, err
	}
	ms, err := timeOf(it.at(s.private.time))
	if err != nil {
		return 0, fmt.Errorf("event time %s: %w", s.EventTime, err)
	}
	if limit := p.job.MaxFuture; rec.Origin.ID.Millis < math.MaxInt64-limit && ms > rec.Origin.ID.Millis+limit {
		return 0, fmt.Errorf("event time %s is %d ms after the record was appended, at most %d are allowed", s.EventTime,
			ms-rec.Origin.ID.Millis, limit)
	}
	return ms, nil
}

// Next is Stage.Next for all operators.
func (p *Program) Next(state State) (at int64, waits bool, err error) { return p.whole.Next(state) }
