package pipeline

// Stage is a run of operators that records go through in one place. A program is one stage as a
// whole; divided, it has one more from each operator on that has state by key, or looks keys up:
// records are passed to it, wherever that key is. Records of a second source are passed to their
// join.
type Stage struct {
	Number  uint16 // of the operator that the stage begins with; 0 for the first one
	program *Program
	index   int
	from    int // operators, up to until
	until   int
}

// keyed is an operator whose state is by a key, or that looks one up.
type keyed interface {
	// place returns the key of a record, false if it has none: then the record changes no state.
	place(it *item) (key string, ok bool)
}

// Pass is a record that goes on in another stage.
type Pass struct {
	Stage  int // in Program.Sections
	Record Record
	Key    string // where the stage has that key the record belongs
	Placed bool   // false: there is no key, and any place will do
}

// divide makes the stages.
func (p *Program) divide() {
	p.whole = Stage{program: p, until: len(p.instances)}
	p.stages = []Stage{p.whole}
	for i := range p.instances {
		if _, ok := p.instances[i].stateful.(keyed); ok {
			p.stages[len(p.stages)-1].until = i
			p.stages = append(p.stages, Stage{Number: p.instances[i].number, program: p, index: len(p.stages), from: i,
				until: len(p.instances)})
		}
	}
}

// Whole returns all operators.
func (p *Program) Whole() *Stage { return &p.whole }

// Stages returns the stages of a program that is divided.
func (p *Program) Stages() []Stage { return p.stages }

// First returns the operator that the stage begins with, in Job.Operators.
func (s *Stage) First() int { return s.from }

// Namespace returns that of the keys by which records are placed, "" for the job's own.
func (s *Stage) Namespace() string { return s.program.job.Operators[s.from].Lookup }

// Lag returns how far event time behind the stage is behind that in front of it, ms: see
// instance.lags.
func (s *Stage) Lag() int64 {
	if s.from == s.until {
		return 0
	}
	last := &s.program.instances[s.until-1]
	return last.lag + last.lags() - s.program.instances[s.from].lag
}

// lag returns how far event time at an operator of the stage is behind that of the stage.
func (s *Stage) lag(o *instance) int64 { return o.lag - s.program.instances[s.from].lag }

// at returns how far event time has come at an operator, when the stage has come to a watermark.
func (s *Stage) at(o *instance, mark int64) int64 { return Behind(mark, s.lag(o)) }

// Behind returns a watermark that is behind another by some time. The ends of all times stay where
// they are.
func Behind(mark, lag int64) int64 {
	if mark >= beyond || mark <= -beyond {
		return mark
	}
	return mark - lag
}

// Targets returns the stages that a stage passes records to.
func (s *Stage) Targets() (all []int) {
	if s.until < len(s.program.instances) {
		all = append(all, s.index+1)
	}
	for _, at := range s.program.enters {
		if s.index == 0 && at > s.until {
			all = append(all, s.program.beginsAt(at))
		}
	}
	return all
}

// beginsAt returns the stage that begins with an operator.
func (p *Program) beginsAt(i int) int {
	for k := 1; k < len(p.stages); k++ {
		if p.stages[k].from == i {
			return k
		}
	}
	return 0
}

// NewTick begins a tick. watermark is what the stage had come to when the last tick ended, MinTime
// before there was any.
func (s *Stage) NewTick(state State, lookup Lookup, limits Limits, watermark int64) *Tick {
	p := s.program
	t := &Tick{program: p, stage: s, state: state, lookup: lookup, limits: limits, watermark: watermark,
		counts: make([]Counts, len(p.instances))}
	if spent, ok := p.spent.Get().(*[]Write); ok {
		t.writes = *spent
	}
	return t
}

// Next returns the earliest watermark for which Advance would do something, false if nothing waits
// for one: nothing fires before, and nobody need look.
func (s *Stage) Next(state State) (at int64, waits bool, err error) {
	at = EndOfTime
	for i := s.from; i < s.until; i++ {
		o := &s.program.instances[i]
		if o.timed == nil {
			continue
		}
		due, there, err := o.timed.due(state, o)
		if err != nil {
			return 0, false, err
		}
		if there {
			at, waits = min(at, Behind(due, -s.lag(o))), true
		}
	}
	return at, waits, nil
}

// passOn passes records to the next stage. What no operator takes any more it returns: that goes to
// sinks from here.
func (t *Tick) passOn(in []item) (late []item) {
	for i := range in {
		if in[i].late {
			late = append(late, in[i])
			continue
		}
		t.pass(t.stage.index+1, &in[i])
	}
	return late
}

func (t *Tick) pass(stage int, it *item) {
	p := Pass{Stage: stage, Record: it.Record}
	p.Key, p.Placed = t.program.instances[t.program.stages[stage].from].stateful.(keyed).place(it)
	t.passes = append(t.passes, p)
	t.bytes += len(it.Key) + len(it.Value) + 64
	t.rows++
}

func (*aggregate) place(it *item) (string, bool) { return it.RecordKey(), true }

func (d *dedup) place(it *item) (string, bool) {
	key, ok, err := d.keyOf(it)
	return key, ok && err == nil
}

func (l *lookup) place(it *item) (string, bool) {
	key, ok, err := l.key.keyOf(it, nil)
	return key, ok && err == nil && key != ""
}

func (j *join) place(it *item) (string, bool) {
	on, ok, err := j.on.text(it, nil)
	return on, ok && err == nil
}
