package action

import (
	"encoding/json"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/floedb/floe/internal/call"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/roster"
)

// Kinds of commands; the numbers are part of the log's format.
const (
	kindInvoke   = call.KindInvoke
	kindCancel   = call.KindCancel
	kindRegister = iota + 1
	kindAdopt
	kindEnable
	kindDelete
	kindOpen
	kindWork
	kindTouch
	kindClose
	kindExpire
	kindJoin  = roster.KindJoin
	kindLeave = roster.KindLeave
	kindNote  = roster.KindNote
)

// Limits of what commands hold.
const (
	maxEnds       = 64  // ends of attempts in a command: each may have follow-ups
	maxTaken      = 100 // runs that a command takes
	maxTakenBytes = 4 << 20
	maxGroups     = 100                          // of a session
	maxNames      = 1000                         // of a session, in all its groups
	maxHeld       = 1000                         // runs that a session has at a time
	maxMillis     = math.MaxInt64/int64(1e6) + 1 // what the longest time.Duration is when it is rounded up, see duration
)

// registerCommand is the body of kindRegister.
//
//	result: version uvarint
type registerCommand struct {
	name string
	spec spec
}

func (r *registerCommand) code(c *codec.Coder) {
	c.String(&r.name)
	r.spec.code(c)
}

// adoptCommand is the body of kindAdopt: what the home shard of an action tells the others.
type adoptCommand struct {
	name       string
	gone       bool // it has been deleted
	definition definition
}

func (a *adoptCommand) code(c *codec.Coder) {
	c.String(&a.name)
	c.Bool(&a.gone)
	a.definition.code(c)
}

// nameCommand is the body of kindEnable, with whether to, and of kindDelete, with whether to force it.
type nameCommand struct {
	name string
	flag bool
}

func (n *nameCommand) code(c *codec.Coder) {
	c.String(&n.name)
	c.Bool(&n.flag)
}

// openCommand is the body of kindOpen: it begins a session, or changes what one takes.
//
//	result: session uvarint
type openCommand struct {
	session uint64 // 0: a new one
	process string
	groups  []group
}

func (o *openCommand) code(c *codec.Coder) {
	c.Uvarint(&o.session)
	c.String(&o.process)
	codec.List(c, &o.groups, func(c *codec.Coder, g *group) { g.code(c) })
}

// workCommand is the body of kindWork: ends of attempts, and what is wanted instead.
//
//	result: verdicts (u8 for each end) | runs taken, see taken; nothing if both lists are empty
type workCommand struct {
	session uint64 // 0: that of a worker that calls by itself, see self
	self    string // its id
	group   group  // and what it takes
	ends    []end
	wants   []want
	waiting int // takes that wait for the same, this one included, as the leader knows: it shares what there is with them; 0: it is no take that waited

	listed bool // self is listed, and what it has done is counted, from the first run on that it gets
}

func (w *workCommand) code(c *codec.Coder) {
	if c.Uvarint(&w.session); w.session == 0 {
		c.String(&w.self)
		w.group.code(c)
	}
	codec.List(c, &w.ends, func(c *codec.Coder, e *end) { e.layout(c) })
	codec.List(c, &w.wants, func(c *codec.Coder, w *want) { w.code(c) })
	c.Int(&w.waiting)
	if c.More(w.listed || slices.ContainsFunc(w.ends, func(e end) bool { return e.begun != 0 })) {
		for i := range w.ends {
			c.Varint(&w.ends[i].begun)
		}
	}
	if c.More(w.listed) {
		c.Bool(&w.listed)
	}
}

// maxSettled bounds the output of an end that a node with a full disk takes. As many runs as can be under way fit into what it keeps in reserve.
const maxSettled = 1 << 10

// checkSettle says what is wrong with a work command as the body of kindSettle: ends only, and small ones. A node takes them though its disk is full: attempts are under
// way, their time limits pass, and what their handlers have done would be done again.
func (w *workCommand) checkSettle() error {
	for i := range w.ends {
		if n := len(w.ends[i].output); n > maxSettled {
			return engine.Errorf(ErrInvalid, "action: an output of %d bytes on a full disk: the limit is %d", n, maxSettled)
		}
	}
	if len(w.wants) > 0 {
		return engine.Errorf(ErrInvalid, "action: runs are wanted on a full disk")
	}
	return w.check()
}

// settleOp returns what sends the ends of a command to a node with a full disk; not ok if it would not take them.
func settleOp(op engine.Op, c *workCommand) (settle engine.Op, ok bool) {
	only := workCommand{session: c.session, self: c.self, ends: c.ends}
	if len(c.ends) == 0 || only.checkSettle() != nil {
		return op, false
	}
	op.Command.Kind, op.Command.Body = kindSettle, encode(nil, &only, (*workCommand).code)
	return op, true
}

// want is what a worker takes.
type want struct {
	group  int // of the session
	worker string
	slots  int
}

func (w *want) code(c *codec.Coder) {
	c.Int(&w.group)
	c.String(&w.worker)
	c.Int(&w.slots)
}

// end is how an attempt ended.
type end struct {
	ref     call.Ref
	attempt int64 // 0: the present one
	begun   int64 // how often the run had been begun then; 0: it is not known
	how     how
	outcome string // of completed
	code    string // of failed
	message string
	output  []byte
	delay   int64 // ms until the next attempt, of failed (negative: the action's back-off) and snoozed
}

type how uint8

const (
	completed how = iota + 1
	failed        // another attempt may follow
	refused       // failed, and no other attempt may follow
	released      // the attempt does not count, and the run is where it was
	snoozed       // the attempt does not count, and the run waits for a time
	howEnd
)

func (e *end) layout(c *codec.Coder) {
	e.ref.Code(c)
	c.Varint(&e.attempt)
	c.Byte((*byte)(&e.how))
	for _, s := range [...]*string{&e.outcome, &e.code, &e.message} {
		c.String(s)
	}
	c.Bytes(&e.output)
	c.Varint(&e.delay)
}

// verdict is what became of an end.
type verdict uint8

const (
	accepted  verdict = iota + 1
	overtaken         // the attempt was not the present one of its run any more
	abandoned         // the run had been cancelled; its slot is free now
)

// taken is a run that a worker has got, in the result of kindWork.
type taken struct {
	ref            call.Ref
	action         string
	want           int // of the command, which it answers
	attempt        int64
	begun          int64 // how often the run has been begun: attempts that do not count included
	maxAttempts    int64
	timeout        int64 // ms
	createdAt      int64
	priority       uint8
	labels         []byte
	key            string
	idempotencyKey string
	source         string
	code           string // of the attempt before
	message        string
	input          []byte
}

func (t *taken) layout(c *codec.Coder) {
	t.ref.Code(c)
	c.String(&t.action)
	c.Int(&t.want)
	for _, v := range [...]*int64{&t.attempt, &t.maxAttempts, &t.timeout, &t.createdAt} {
		c.Varint(v)
	}
	c.Byte(&t.priority)
	c.Bytes(&t.labels)
	for _, s := range [...]*string{&t.key, &t.idempotencyKey, &t.source, &t.code, &t.message} {
		c.String(s)
	}
	c.Bytes(&t.input)
}

// worked is the result of kindWork.
type worked struct {
	verdicts []verdict
	taken    []taken
}

func (w *worked) code(c *codec.Coder) {
	codec.List(c, &w.verdicts, func(c *codec.Coder, v *verdict) { c.Byte((*byte)(v)) })
	codec.List(c, &w.taken, func(c *codec.Coder, t *taken) { t.layout(c) })
	again := c.More(slices.ContainsFunc(w.taken, func(t taken) bool { return t.begun != t.attempt }))
	for i := range w.taken {
		t := &w.taken[i]
		codeBegun(c, &t.begun, t.attempt, again)
	}
}

// codeBegun codes how often a run has been begun by how much more often that is than its attempts count; nothing if it is not said.
func codeBegun(c *codec.Coder, begun *int64, attempts int64, said bool) {
	extra := int64(0)
	if !c.Reading() {
		extra = *begun - attempts
	}
	if said {
		c.Varint(&extra)
	}
	if c.Reading() {
		*begun = attempts + extra
	}
}

// touchCommand is the body of kindTouch: the attempt may last for a time from now.
//
//	result: deadline varint (ms)
type touchCommand struct {
	session uint64 // 0: that of self
	self    string
	ref     call.Ref
	attempt int64 // 0: the present one
	extend  int64 // ms
	begun   int64 // as that of an end
}

func (t *touchCommand) code(c *codec.Coder) {
	if c.Uvarint(&t.session); t.session == 0 {
		c.String(&t.self)
	}
	t.ref.Code(c)
	c.Varint(&t.attempt)
	c.Varint(&t.extend)
	if c.More(t.begun != 0) {
		c.Varint(&t.begun)
	}
}

// sessionCommand is the body of kindClose, and of kindExpire. What a session has is given back without counting the attempts if it is closed.
type sessionCommand struct {
	session uint64 // 0: that of self
	self    string
}

func (s *sessionCommand) code(c *codec.Coder) {
	if c.Uvarint(&s.session); s.session == 0 {
		c.String(&s.self)
	}
}

// command makes an operation. name routes it, in a spread namespace.
func command(kind uint8, route string, err error, body []byte) engine.Op {
	return engine.Op{Command: engine.Command{Machine: engine.MachineAction, Kind: kind, Body: body}, Route: route, Err: err, Decode: anyNothing}
}

func checkAction(name string) error { return engine.CheckName("action", name) }

func notFound(name string) error { return engine.Errorf(ErrNotFound, "action %q not found", name) }

func noRun(ref call.Ref, shard engine.ShardID) error {
	return engine.Errorf(ErrNotFound, "run %s not found", place{shard, ref}.id())
}

// check says what is wrong with what is registered.
func (s *spec) check() error {
	for _, v := range [...]struct {
		name           string
		is, least, max int64
	}{
		{"timeout (ms)", s.timeout, 1, maxMillis},
		{"max retries", s.maxRetries, 0, MaxRetriesLimit},
		{"shortest back-off (ms)", s.backoffMin, 0, maxMillis},
		{"longest back-off (ms)", s.backoffMax, s.backoffMin, maxMillis},
		{"retention (ms)", s.retainFor, 1, maxMillis},
		{"retained runs", s.retainRuns, 0, MaxRetainedRuns},
		{"limit of running runs", s.maxRunning, 0, MaxRunningLimit},
		{"limit of running runs per key", s.maxPerKey, 0, MaxRunningLimit},
		{"rate", s.rate.limit, 0, MaxRateLimit},
		{"burst of the rate", s.rate.burst, min(s.rate.limit, 1), MaxRateLimit},
		{"time of the rate (ms)", s.rate.per, min(s.rate.limit, 1), maxRatePer},
	} {
		if v.is < v.least || v.is > v.max {
			return engine.Errorf(ErrInvalid, "action: %s of %d is not in %d-%d", v.name, v.is, v.least, v.max)
		}
	}
	switch r := &s.rate; {
	case r.limit == 0 && (r.per != 0 || r.burst != 0):
		return engine.Errorf(ErrInvalid, "action: a rate of 0 runs")
	case r.limit > 0 && r.burst > maxRateMicros/r.interval():
		return engine.Errorf(ErrInvalid, "action: a burst of %d runs, while one may begin in %d ms", r.burst, r.per/r.limit)
	}
	for _, t := range [...]struct {
		name, is string
	}{{"owner", s.owner}, {"description", s.description}} {
		if len(t.is) > MaxTextBytes {
			return engine.Errorf(ErrInvalid, "action: %s of %d bytes exceeds %d", t.name, len(t.is), MaxTextBytes)
		}
	}
	return nil
}

// checkInvoke says what is wrong with an invocation. The input is checked where it comes from: reading it takes long.
func checkInvoke(v *call.Invoke) error {
	if err := checkAction(v.Name); err != nil {
		return err
	}
	switch {
	case v.Delay < 0 || v.Delay > maxMillis:
		return engine.Errorf(ErrInvalid, "action: delay of %d ms is not in 0-%d", v.Delay, maxMillis)
	case v.Timeout < 0 || v.Timeout > maxMillis:
		return engine.Errorf(ErrInvalid, "action: timeout of %d ms is not in 1-%d", v.Timeout, maxMillis)
	case v.Expires < 0 || v.Expires > maxMillis:
		return engine.Errorf(ErrInvalid, "action: expiry of %d ms is not in 1-%d", v.Expires, maxMillis)
	case v.MaxAttempts < 0 || v.MaxAttempts > MaxRetriesLimit+1:
		return engine.Errorf(ErrInvalid, "action: %d attempts are not in 1-%d", v.MaxAttempts, MaxRetriesLimit+1)
	case len(v.ConcurrencyKey) > MaxKeyBytes:
		return engine.Errorf(ErrInvalid, "action: concurrency key of %d bytes exceeds %d", len(v.ConcurrencyKey), MaxKeyBytes)
	case len(v.IdempotencyKey) > MaxKeyBytes:
		return engine.Errorf(ErrInvalid, "action: idempotency key of %d bytes exceeds %d", len(v.IdempotencyKey), MaxKeyBytes)
	case len(v.Source) > MaxTextBytes:
		return engine.Errorf(ErrInvalid, "action: source of %d bytes exceeds %d", len(v.Source), MaxTextBytes)
	}
	return checkLabels(v.Labels)
}

// checkLabels says what is wrong with labels, which are encoded.
func checkLabels(b []byte) error {
	n := len(b)
	if n <= 4*MaxLabelBytes { // the lengths that are encoded with them do not count
		labels, err := engine.DecodeHeaders(b)
		if err != nil {
			return err
		}
		n = engine.HeaderBytes(labels)
	}
	if n > MaxLabelBytes {
		return engine.Errorf(ErrInvalid, "action: labels of %d bytes exceed %d", n, MaxLabelBytes)
	}
	return nil
}

func (g *group) check() error {
	if len(g.names) == 0 {
		return engine.Errorf(ErrInvalid, "action: a worker of no action")
	}
	for _, name := range g.names {
		if err := checkAction(name); err != nil {
			return err
		}
	}
	return checkLabels([]byte(g.labels))
}

func (o *openCommand) check() error {
	names := 0
	for i := range o.groups {
		if err := o.groups[i].check(); err != nil {
			return err
		}
		names += len(o.groups[i].names)
	}
	switch {
	case len(o.groups) > maxGroups:
		return engine.Errorf(ErrInvalid, "action: %d groups of workers exceed %d", len(o.groups), maxGroups)
	case names > maxNames:
		return engine.Errorf(ErrInvalid, "action: %d actions of a session exceed %d", names, maxNames)
	}
	return engine.CheckName("process", o.process)
}

func (w *workCommand) check() error {
	if w.session == 0 {
		if err := roster.CheckID(w.self); err != nil {
			return err
		}
		if len(w.wants) > 0 {
			if err := w.group.check(); err != nil {
				return err
			}
			if len(w.group.names) > maxNames {
				return engine.Errorf(ErrInvalid, "action: %d actions of a worker exceed %d", len(w.group.names), maxNames)
			}
		}
	}
	if len(w.ends)+len(w.wants) == 0 {
		return engine.Errorf(ErrInvalid, "action: nothing has ended, and nothing is wanted")
	}
	if len(w.ends) > maxEnds {
		return engine.Errorf(ErrInvalid, "action: %d ended attempts exceed %d", len(w.ends), maxEnds)
	}
	for i := range w.ends {
		if err := w.ends[i].check(); err != nil {
			return err
		}
	}
	if w.waiting < 0 {
		return engine.Errorf(ErrInvalid, "action: %d takes that wait", w.waiting)
	}
	slots := 0
	for i := range w.wants {
		want := &w.wants[i]
		if want.slots < 1 || want.slots > maxTaken || want.group < 0 || want.group > maxGroups {
			return engine.Errorf(ErrInvalid, "action: %d runs for group %d: 1-%d are taken at once", want.slots, want.group, maxTaken)
		}
		if err := roster.CheckID(want.worker); err != nil {
			return err
		}
		slots += want.slots
	}
	if slots > maxTaken {
		return engine.Errorf(ErrInvalid, "action: %d runs exceed the %d that are taken at once", slots, maxTaken)
	}
	return nil
}

func (e *end) check() error {
	switch {
	case e.how < completed || e.how >= howEnd:
		return engine.Errorf(ErrInvalid, "action: an attempt that ends in way %d", e.how)
	case e.attempt < 0 || e.begun < 0:
		return engine.Errorf(ErrInvalid, "action: attempt %d, begun %d times", e.attempt, e.begun)
	case len(e.outcome) > MaxOutcomeBytes || len(e.code) > MaxOutcomeBytes:
		return engine.Errorf(ErrInvalid, "action: outcome of %d bytes or code of %d exceeds %d", len(e.outcome), len(e.code), MaxOutcomeBytes)
	case !utf8.ValidString(e.outcome) || !utf8.ValidString(e.code):
		return engine.Errorf(ErrInvalid, "action: outcome %q or code %q is not UTF-8", e.outcome, e.code)
	case len(e.message) > MaxErrorBytes:
		return engine.Errorf(ErrInvalid, "action: error of %d bytes exceeds %d", len(e.message), MaxErrorBytes)
	case e.delay > maxMillis:
		return engine.Errorf(ErrInvalid, "action: delay of %d ms exceeds %d", e.delay, maxMillis)
	case e.how == snoozed && e.delay < 0:
		return engine.Errorf(ErrInvalid, "action: delay of %d ms is negative", e.delay)
	}
	return nil
}

func (t *touchCommand) check() error {
	if t.extend < 1 || t.extend > maxMillis {
		return engine.Errorf(ErrInvalid, "action: time of %d ms is not in 1-%d", t.extend, maxMillis)
	}
	return nil
}

// admit checks a command of a user in another process.
func admit(cmd engine.Command, maxPayload int) error {
	switch cmd.Kind {
	case kindInvoke:
		v, err := decodeBody(cmd.Body, (*call.Invoke).Code)
		if err != nil {
			return err
		}
		if v.Notify.Machine != 0 || v.Source != "" || v.Repeated {
			return engine.Errorf(ErrInvalid, "action: an invocation as machines make it")
		}
		if err := checkInput(v.Input); err != nil {
			return err
		}
		if err := engine.CheckPayload(len(v.Input), maxPayload); err != nil {
			return err
		}
		return checkInvoke(&v)
	case kindCancel:
		v, err := decodeBody(cmd.Body, (*call.Cancel).Code)
		if err != nil {
			return err
		}
		return checkReason(v.Reason)
	case kindRegister:
		r, err := decodeBody(cmd.Body, (*registerCommand).code)
		if err != nil {
			return err
		}
		if err := checkAction(r.name); err != nil {
			return err
		}
		return r.spec.check()
	case kindEnable, kindDelete:
		n, err := decodeBody(cmd.Body, (*nameCommand).code)
		if err != nil {
			return err
		}
		return checkAction(n.name)
	case kindOpen:
		o, err := decodeBody(cmd.Body, (*openCommand).code)
		if err != nil {
			return err
		}
		return o.check()
	case kindWork:
		w, err := decodeBody(cmd.Body, (*workCommand).code)
		if err != nil {
			return err
		}
		for i := range w.ends {
			if err := engine.CheckPayload(len(w.ends[i].output), maxPayload); err != nil {
				return err
			}
		}
		return w.check()
	case kindSettle:
		w, err := decodeBody(cmd.Body, (*workCommand).code)
		if err != nil {
			return err
		}
		return w.checkSettle()
	case kindEnd:
		w, err := decodeBody(cmd.Body, (*workCommand).code)
		if err != nil {
			return err
		}
		for i := range w.ends {
			if err := engine.CheckPayload(len(w.ends[i].output), maxPayload); err != nil {
				return err
			}
		}
		return w.checkEnd()
	case kindRetry, kindRunNow:
		_, err := decodeBody(cmd.Body, (*refCommand).code)
		return err
	case kindTouch, kindHeld:
		t, err := decodeBody(cmd.Body, (*touchCommand).code)
		if err != nil {
			return err
		}
		return t.check()
	case kindClose:
		_, err := decodeBody(cmd.Body, (*sessionCommand).code)
		return err
	case kindSchedule, kindUnschedule, kindPause, kindTrigger:
		return admitSchedule(cmd, maxPayload)
	}
	return roster.Admit(cmd)
}

func decodeBody[T any](b []byte, code func(*T, *codec.Coder)) (T, error) {
	v, err := decode(b, code)
	if err != nil {
		return v, engine.Errorf(engine.ErrMalformed, "action: command: %v", err)
	}
	return v, nil
}

// checkInput says what is wrong with an input, which has to be JSON in UTF-8 or nothing.
func checkInput(input []byte) error {
	if len(input) > 0 && !(utf8.Valid(input) && json.Valid(input)) {
		return engine.Errorf(ErrInvalid, "action: the input is no JSON: %.40q", input)
	}
	return nil
}

func checkReason(reason string) error {
	if len(reason) > MaxReasonBytes {
		return engine.Errorf(ErrInvalid, "action: reason of %d bytes exceeds %d", len(reason), MaxReasonBytes)
	}
	return nil
}
