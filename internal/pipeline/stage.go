package pipeline

// Stage is a sequence of operators that records pass through in one place. An undivided program is
// one stage. In a divided program, each operator that has keyed state or looks up keys begins
// another stage. Records are passed to it at the place of the key. Records of a second source are
// passed to their join.
type Stage struct {
	Number  uint16 // of the stage's first operator; 0 for the first stage
	program *Program
	index   int
	from    int // operators from <= i < until
	until   int
}

// keyed is an operator with state by key, or one that looks up a key.
type keyed interface {
	// place returns the key of a record. ok is false if it has none, in which case the record
	// changes no state.
	place(it *item) (key string, ok bool)
}

// Pass is a record that continues in another stage.
type Pass struct {
	Stage  int // index in Program.Stages
	Record Record
	Key    string // the record belongs where the stage has this key
	Placed bool   // false: there is no key, and any place will do
}

// divide creates the stages.
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

// Whole returns the stage of all operators.
func (p *Program) Whole() *Stage { return &p.whole }

// Stages returns the stages of a divided program.
func (p *Program) Stages() []Stage { return p.stages }

// First returns the index of the stage's first operator in Job.Operators.
func (s *Stage) First() int { return s.from }

// Namespace returns the namespace of the keys that place records, "" for the job's.
func (s *Stage) Namespace() string { return s.program.job.Operators[s.from].Lookup }

// Lag returns how far event time after the stage lags the time before it, in ms; see instance.lags.
func (s *Stage) Lag() int64 {
	if s.from == s.until {
		return 0
	}
	last := &s.program.instances[s.until-1]
	return last.lag + last.lags() - s.program.instances[s.from].lag
}

// lag returns how far event time at an operator lags that of the stage.
func (s *Stage) lag(o *instance) int64 { return o.lag - s.program.instances[s.from].lag }

// at returns the watermark at an operator, given that of the stage.
func (s *Stage) at(o *instance, mark int64) int64 { return Behind(mark, s.lag(o)) }

// Behind returns a watermark minus a lag. MinTime and EndOfTime do not change.
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

// NewTick begins a tick. watermark is the stage's watermark at the end of the last tick, MinTime
// before the first one.
func (s *Stage) NewTick(state State, lookup Lookup, limits Limits, watermark int64) *Tick {
	p := s.program
	t := &Tick{program: p, stage: s, state: state, lookup: lookup, limits: limits, watermark: watermark,
		counts: make([]Counts, len(p.instances))}
	if spent, ok := p.spent.Get().(*[]Write); ok {
		t.writes = *spent
	}
	return t
}

// Next returns the earliest watermark for which Advance has work. waits is false if none exists.
// Advance need not be called for an earlier one.
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

// passOn passes records to the next stage. It returns late records, which skip further operators
// and go to sinks from here.
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
