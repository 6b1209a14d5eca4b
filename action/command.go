package action

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/floedb/floe/internal/call"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/roster"
)

// Kinds of commands; the numbers are part of the log's format.
const (
	kindInvoke         = call.KindInvoke
	kindCancel         = call.KindCancel
	kindRegister uint8 = iota + 1
	kindAdopt
	kindEnable
	kindDelete
	kindOpen
	kindWork
	kindTouch
	kindClose
	kindExpire
	kindJoin           = roster.KindJoin
	kindLeave          = roster.KindLeave
	kindNote           = roster.KindNote
	kindSchedule uint8 = iota + 1
	kindUnschedule
	kindPause
	kindTrigger
	kindTick
	kindScheduledEnd
	kindSettle
	kindEnd
	kindHeld
	kindRetry
	kindRunNow
)

const fromAll = engine.FromUsers | engine.FromShards | engine.FromMachines

// The commands of an action, a schedule of one, a session or a run. Those of sessions and runs have no name. On a full disk active runs can end if their outputs
// are small, and cancelled runs go. No run is taken: each attempt writes.
var (
	invokeRun = &engine.CommandRow[*work, call.Invoke, Invoked]{
		Kind: kindInvoke, Name: "invoke", From: fromAll, Body: codeInvoke, Limit: limitInvoke, Payload: func(v *call.Invoke) int { return len(v.Input) },
		Size: func(v *call.Invoke) int { return len(v.Input) + len(v.Labels) + 64 }, Encoded: (*work).invoke, Result: (*Invoked).code,
	}
	cancelRun = &engine.CommandRow[*work, call.Cancel, engine.Nothing]{
		Kind: kindCancel, Name: "cancel", From: fromAll, Shrinks: true, Unnamed: true, Body: codeCancel, Run: (*work).cancel,
	}
	register = &engine.CommandRow[*work, spec, int]{
		Kind: kindRegister, Name: "register", From: engine.FromUsers, Body: (*spec).fields, Check: (*spec).check, Apply: (*work).register, Result: codeVersion,
	}
	adopt = &engine.CommandRow[*work, adoptBody, engine.Nothing]{
		Kind: kindAdopt, Name: "adopt", From: engine.FromShards, Unnamed: true, Body: ofMachines((*adoptBody).code), Run: (*work).adopt,
	}
	enable = &engine.CommandRow[*work, bool, engine.Nothing]{
		Kind: kindEnable, Name: "enable", From: engine.FromUsers, Shrinks: true, Body: codeFlag("enabled"), Run: (*work).enable,
	}
	remove = &engine.CommandRow[*work, bool, engine.Nothing]{
		Kind: kindDelete, Name: "delete", From: engine.FromUsers, Shrinks: true, Body: codeFlag("force"), Run: (*work).delete,
	}
	openSession = &engine.CommandRow[*work, openBody, uint64]{
		Kind: kindOpen, Name: "open session", From: engine.FromUsers, Unnamed: true,
		Body: (*openBody).code, Check: (*openBody).check, Apply: (*work).open, Result: codeNumber("session"),
	}
	takeRuns = &engine.CommandRow[*work, workBody, worked]{
		Kind: kindWork, Name: "work", From: engine.FromUsers, Unnamed: true, Body: (*workBody).code, Check: (*workBody).check, Limit: (*workBody).limit,
		Payload: (*workBody).payload, Size: (*workBody).size, Encoded: (*work).workOn, Result: (*worked).code,
	}
	touchRun = &engine.CommandRow[*work, touchBody, time.Time]{
		Kind: kindTouch, Name: "touch", From: engine.FromUsers, Unnamed: true, Body: (*touchBody).code, Apply: (*work).touch,
		Result: func(t *time.Time, f *codec.Fields) { f.Moment("deadline_ms", t) },
	}
	closeSession = &engine.CommandRow[*work, sessionBody, bool]{
		Kind: kindClose, Name: "close session", From: engine.FromUsers, Shrinks: true, Unnamed: true,
		Body: (*sessionBody).code, Apply: (*work).close, Result: codeFlag("more"),
	}
	expireSession = &engine.CommandRow[*work, sessionBody, bool]{
		Kind: kindExpire, Name: "expire session", From: engine.FromLeaders, Shrinks: true, Unnamed: true,
		Body: (*sessionBody).code, Apply: (*work).expire, Result: codeFlag("more"),
	}
	setSchedule = &engine.CommandRow[*work, scheduleBody, engine.Nothing]{
		Kind: kindSchedule, Name: "schedule", From: engine.FromUsers, Body: (*scheduleBody).code, Check: (*scheduleBody).check, Limit: (*scheduleBody).read,
		Payload: func(b *scheduleBody) int { return len(b.plan.input) }, Run: (*work).setSchedule,
	}
	deleteSchedule = &engine.CommandRow[*work, scheduleName, engine.Nothing]{
		Kind: kindUnschedule, Name: "delete schedule", From: engine.FromUsers, Shrinks: true,
		Body: codeScheduleName(""), Check: (*scheduleName).check, Limit: (*scheduleName).limit, Run: (*work).deleteSchedule,
	}
	pauseSchedule = &engine.CommandRow[*work, scheduleName, engine.Nothing]{
		Kind: kindPause, Name: "pause schedule", From: engine.FromUsers, Shrinks: true,
		Body: codeScheduleName("paused"), Check: (*scheduleName).check, Run: (*work).pauseSchedule,
	}
	triggerSchedule = &engine.CommandRow[*work, scheduleName, Invoked]{
		Kind: kindTrigger, Name: "trigger schedule", From: engine.FromUsers,
		Body: codeScheduleName(""), Check: (*scheduleName).check, Limit: (*scheduleName).limit, Encoded: (*work).triggerSchedule, Result: (*Invoked).code,
	}
	tickSchedules = &engine.CommandRow[*work, tickBody, uint64]{
		Kind: kindTick, Name: "tick schedules", From: engine.FromLeaders, Unnamed: true,
		Body: ofMachines((*tickBody).code), Apply: (*work).tick, Result: codeNumber("done"),
	}
	endScheduled = &engine.CommandRow[*work, call.End, engine.Nothing]{
		Kind: kindScheduledEnd, Name: "end scheduled run", From: engine.FromMachines, Unnamed: true,
		Body: ofMachines((*call.End).Encode), Run: (*work).scheduledEnd,
	}
	settleRuns = &engine.CommandRow[*work, workBody, worked]{
		Kind: kindSettle, Name: "settle", From: engine.FromUsers, Shrinks: true, Unnamed: true, Body: (*workBody).code, Check: (*workBody).checkSettle,
		Limit: (*workBody).limit, Size: (*workBody).size, Encoded: (*work).workOn, Result: (*worked).code,
	}
	endRun = &engine.CommandRow[*work, workBody, engine.Nothing]{
		Kind: kindEnd, Name: "end", From: engine.FromUsers, Unnamed: true, Body: (*workBody).code, Check: (*workBody).checkEnd, Limit: (*workBody).limit,
		Payload: (*workBody).payload, Size: (*workBody).size, Run: (*work).endHeld,
	}
	checkHeld = &engine.CommandRow[*work, touchBody, engine.Nothing]{
		Kind: kindHeld, Name: "held", From: engine.FromUsers, Unnamed: true, Body: (*touchBody).code, Run: (*work).held,
	}
	retryRun = &engine.CommandRow[*work, call.Ref, engine.Nothing]{
		Kind: kindRetry, Name: "retry", From: engine.FromUsers, Unnamed: true, Body: codeRef, Run: (*work).again,
	}
	hurryRun = &engine.CommandRow[*work, call.Ref, engine.Nothing]{
		Kind: kindRunNow, Name: "run now", From: engine.FromUsers, Unnamed: true, Body: codeRef, Run: (*work).hurry,
	}
)

var commands = engine.Declare(engine.MachineAction, "action", checkAction,
	invokeRun, cancelRun, register, adopt, enable, remove, openSession, takeRuns, touchRun, closeSession, expireSession,
	engine.RawRow[*work]{Kind: kindJoin}, engine.RawRow[*work]{Kind: kindLeave}, engine.RawRow[*work]{Kind: kindNote},
	setSchedule, deleteSchedule, pauseSchedule, triggerSchedule, tickSchedules, endScheduled, settleRuns, endRun, checkHeld, retryRun, hurryRun)

// commandTypes returns the commands of the table, those of the roster included.
func commandTypes() []engine.CommandType {
	types := commands.Types()
	for _, t := range roster.Commands() {
		types[t.Kind-1] = t
	}
	return types
}

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

// ofMachines codes a body that only machines and leaders send. It has no JSON form.
func ofMachines[B any](code func(*B, *codec.Coder)) func(*B, *codec.Fields) {
	return func(b *B, f *codec.Fields) {
		if c := f.Binary(); c != nil {
			if c.Reading() {
				*b = *new(B)
			}
			code(b, c)
		}
	}
}

func codeFlag(name string) func(*bool, *codec.Fields) {
	return func(b *bool, f *codec.Fields) { f.Bool(name, b) }
}

func codeNumber(name string) func(*uint64, *codec.Fields) {
	return func(n *uint64, f *codec.Fields) { f.Uvarint(name, n) }
}

func codeVersion(v *int, f *codec.Fields) {
	n := uint64(*v)
	f.Uvarint("version", &n)
	*v = int(n)
}

// codeBlob codes a string that need not be UTF-8: in JSON it is bytes.
func codeBlob(f *codec.Fields, name string, s *string, r codec.Range) {
	if f.Binary() != nil || f.Checking() {
		f.Text(name, s, r)
		return
	}
	b := []byte(*s)
	f.Bytes(name, &b, r)
	*s = string(b)
}

// codeChoice codes the index of a name. Empty names stand for unknown values.
func codeChoice(f *codec.Fields, name string, v *byte, names []string) {
	switch c := f.Binary(); {
	case c != nil:
		c.Byte(v)
	case f.Checking():
		if int(*v) >= len(names) || names[*v] == "" {
			f.Refuse(engine.Errorf(ErrInvalid, "action: unknown %s %d", name, *v))
		}
	default:
		own := *v
		f.Token(name, func() string { return names[own] }, func(text string) error {
			i := slices.Index(names, text)
			if i < 0 || text == "" {
				return fmt.Errorf("unknown value %q", text)
			}
			own = byte(i)
			return nil
		})
		*v = own
	}
}

// codeLabels codes encoded labels.
func codeLabels(f *codec.Fields, b *[]byte) {
	if f.Checking() {
		f.Refuse(checkLabels(*b))
	} else if f.Given("labels", *b != nil) {
		own := *b
		if engine.CodePairs(f, "labels", &own); own == nil {
			own = []byte{}
		}
		*b = own
	}
}

// codeRef codes a run. In JSON it is a string, not a RunID: commands do not name the shard.
func codeRef(ref *call.Ref, f *codec.Fields) {
	if c := f.Binary(); c != nil {
		ref.Code(c)
		return
	}
	if f.Checking() {
		return
	}
	own := *ref
	show := func() string { return fmt.Sprintf("%d-%d-%d", own.Action, own.Run, own.Tag) }
	f.Token("run", show, func(text string) error {
		if _, err := fmt.Sscanf(text, "%d-%d-%d", &own.Action, &own.Run, &own.Tag); err != nil || show() != text {
			return fmt.Errorf("%q is not a run", text)
		}
		return nil
	})
	*ref = own
}

// codeInvoke codes an invocation without its name. JSON has no fields that only machines set.
func codeInvoke(v *call.Invoke, f *codec.Fields) {
	if c := f.Binary(); c != nil {
		if c.Reading() {
			*v = call.Invoke{}
		}
		v.CodeRest(c)
		return
	}
	if f.Parsing() {
		v.Priority = DefaultPriority
	}
	f.OptionalBytes("input", &v.Input)
	f.Byte("priority", &v.Priority)
	f.SignedMillis("delay_ms", &v.Delay, codec.Range{Max: maxMillis})
	f.SignedMillis("timeout_ms", &v.Timeout, codec.Range{Min: 1, Max: maxMillis, Optional: true})
	f.SignedMillis("expires_ms", &v.Expires, codec.Range{Min: 1, Max: maxMillis, Optional: true})
	f.Varint("max_attempts", &v.MaxAttempts, codec.Range{Min: 1, Max: MaxRetriesLimit + 1, Optional: true})
	codeLabels(f, &v.Labels)
	codeBlob(f, "concurrency_key", &v.ConcurrencyKey, codec.Range{Max: MaxKeyBytes})
	codeBlob(f, "idempotency_key", &v.IdempotencyKey, codec.Range{Max: MaxKeyBytes})
	f.Bool("awaited", &v.Awaited)
	if f.Checking() {
		f.Text("source", &v.Source, codec.Range{Max: MaxTextBytes})
	}
}

// limitInvoke refuses what only machines set, and an input that is not JSON: reading it takes long, so it is not done again when the command is applied.
func limitInvoke(v *call.Invoke) error {
	if v.Notify.Machine != 0 || v.Source != "" || v.Repeated {
		return engine.Errorf(ErrInvalid, "action: invocation has fields that only machines may set")
	}
	return checkInput(v.Input)
}

// checkInput says what is wrong with an input, which has to be JSON in UTF-8 or nothing.
func checkInput(input []byte) error {
	if len(input) > 0 && !(utf8.Valid(input) && json.Valid(input)) {
		return engine.Errorf(ErrInvalid, "action: the input is no JSON: %.40q", input)
	}
	return nil
}

func (i *Invoked) code(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		var in invoked
		in.code(c)
		*i = Invoked{Run: in.place.id(), LSN: in.lsn, Duplicate: in.duplicate}
		return
	}
	f.Text("run_id", (*string)(&i.Run))
	f.Bool("duplicate", &i.Duplicate)
	f.Uvarint("lsn", &i.LSN)
}

func codeCancel(v *call.Cancel, f *codec.Fields) {
	codeRef(&v.Ref, f)
	codeBlob(f, "reason", &v.Reason, codec.Range{Max: MaxReasonBytes})
}

// fields codes what is registered: in binary as the row of an action does.
func (s *spec) fields(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		s.code(c)
		return
	}
	if f.Parsing() {
		*s = defaultSpec
	}
	codeBlob(f, "owner", &s.owner, codec.Range{Max: MaxTextBytes})
	codeBlob(f, "description", &s.description, codec.Range{Max: MaxTextBytes})
	f.SignedMillis("timeout_ms", &s.timeout, codec.Range{Min: 1, Max: maxMillis})
	f.Varint("max_retries", &s.maxRetries, codec.Range{Max: MaxRetriesLimit})
	f.SignedMillis("backoff_min_ms", &s.backoffMin, codec.Range{Max: maxMillis})
	f.SignedMillis("backoff_max_ms", &s.backoffMax, codec.Range{Min: s.backoffMin, Max: maxMillis})
	f.SignedMillis("retain_ms", &s.retainFor, codec.Range{Min: 1, Max: maxMillis})
	f.Varint("retain_runs", &s.retainRuns, codec.Range{Max: MaxRetainedRuns})
	f.Varint("max_running", &s.maxRunning, codec.Range{Max: MaxRunningLimit})
	f.Varint("max_running_per_key", &s.maxPerKey, codec.Range{Max: MaxRunningLimit})
	f.Varint("rate_limit", &s.rate.limit, codec.Range{Max: MaxRateLimit})
	f.Varint("rate_burst", &s.rate.burst, codec.Range{Min: min(s.rate.limit, 1), Max: MaxRateLimit})
	f.SignedMillis("rate_per_ms", &s.rate.per, codec.Range{Min: min(s.rate.limit, 1), Max: maxRatePer})
}

func (s *spec) check() error {
	switch r := &s.rate; {
	case r.limit == 0 && (r.per != 0 || r.burst != 0):
		return engine.Errorf(ErrInvalid, "action: a rate of 0 runs")
	case r.limit > 0 && r.burst > maxRateMicros/r.interval():
		return engine.Errorf(ErrInvalid, "action: burst %d is too large for one run per %d ms", r.burst, r.per/r.limit)
	}
	return nil
}

// adoptBody is what the home shard of an action tells the others.
type adoptBody struct {
	name       string
	gone       bool // it has been deleted
	definition definition
}

func (a *adoptBody) code(c *codec.Coder) {
	c.String(&a.name)
	c.Bool(&a.gone)
	a.definition.code(c)
}

// openBody begins a session, or changes what one takes.
type openBody struct {
	session uint64 // 0: a new one
	process string
	groups  []group
}

func (o *openBody) code(f *codec.Fields) {
	f.Uvarint("session", &o.session)
	f.Text("process", &o.process)
	codec.ListOf(f, "groups", &o.groups, (*group).fields, codec.Range{Max: maxGroups})
}

func (o *openBody) check() error {
	names := 0
	for i := range o.groups {
		if err := o.groups[i].check(); err != nil {
			return err
		}
		names += len(o.groups[i].names)
	}
	if names > maxNames {
		return engine.Errorf(ErrInvalid, "action: %d actions of a session exceed %d", names, maxNames)
	}
	return engine.CheckName("process", o.process)
}

// fields codes a group: in binary as the row of a session does.
func (g *group) fields(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		g.code(c)
		return
	}
	if !f.Checking() { // check does it
		labels := []byte(g.labels)
		engine.CodePairs(f, "labels", &labels)
		g.labels = string(labels)
		codec.RestOf(f, "actions", &g.names, func(s *string, f *codec.Fields) { f.Text("", s) })
	}
}

func (g *group) check() error {
	if len(g.names) == 0 {
		return engine.Errorf(ErrInvalid, "action: worker has no actions")
	}
	for _, name := range g.names {
		if err := checkAction(name); err != nil {
			return err
		}
	}
	return checkLabels([]byte(g.labels))
}

// codeCaller codes a session, or the id of a worker that calls by itself.
func codeCaller(f *codec.Fields, session *uint64, self *string) {
	c := f.Binary()
	if c != nil || f.Given("session", *session != 0) {
		f.Uvarint("session", session)
	}
	switch {
	case *session != 0:
		if c != nil && c.Reading() {
			*self = ""
		}
	case f.Checking():
		f.Refuse(roster.CheckID(*self))
	default:
		f.Text("worker", self)
	}
}

// codeDelivery codes the last field of a record, which is absent if it is 0.
func codeDelivery(f *codec.Fields, begun *int64) {
	c := f.Binary()
	if c == nil {
		f.Varint("delivery", begun)
		return
	}
	if c.Reading() {
		*begun = 0
	}
	if c.More(*begun != 0) {
		if c.Varint(begun); *begun == 0 {
			c.Fail("delivery 0")
		}
	}
}

// workBody holds ends of attempts, and what is wanted instead.
type workBody struct {
	session uint64 // 0: that of a worker that calls by itself, see self
	self    string // its id
	group   group  // and what it takes
	ends    []end
	wants   []want
	waiting int // takes that wait for the same, this one included, as the leader knows: it shares what there is with them; 0: it is no take that waited

	listed bool // self is listed, and what it has done is counted, from the first run on that it gets
}

func (w *workBody) code(f *codec.Fields) {
	c := f.Binary()
	if codeCaller(f, &w.session, &w.self); w.session == 0 {
		w.group.fields(f)
	} else if c != nil && c.Reading() {
		w.group = group{}
	}
	codec.ListOf(f, "ends", &w.ends, (*end).fields, codec.Range{Max: maxEnds})
	codec.ListOf(f, "wants", &w.wants, (*want).code, codec.Range{Max: maxTaken})
	if f.Int("waiting", &w.waiting, codec.Range{Max: math.MaxInt64}); c == nil {
		f.Bool("listed", &w.listed)
		return
	}
	if c.Reading() {
		w.listed = false
	}
	more := c.More(w.listed || w.begun())
	for i := range w.ends {
		if more {
			c.Varint(&w.ends[i].begun)
		}
	}
	if c.More(w.listed) {
		c.Bool(&w.listed)
	}
	if more && !w.listed && !w.begun() {
		c.Fail("empty fields at the end")
	}
}

// begun reports whether the delivery of an end is known.
func (w *workBody) begun() bool {
	return slices.ContainsFunc(w.ends, func(e end) bool { return e.begun != 0 })
}

func (w *workBody) payload() (largest int) {
	for i := range w.ends {
		largest = max(largest, len(w.ends[i].output))
	}
	return largest
}

func (w *workBody) size() int {
	n := 16 + len(w.self) + len(w.group.labels) + 16*len(w.group.names) + 24*len(w.wants)
	for i := range w.ends {
		e := &w.ends[i]
		n += 32 + len(e.outcome) + len(e.code) + len(e.message) + len(e.output)
	}
	return n
}

func (w *workBody) check() error {
	if len(w.ends)+len(w.wants) == 0 {
		return engine.Errorf(ErrInvalid, "action: nothing has ended, and nothing is wanted")
	}
	if w.session == 0 && len(w.wants) > 0 {
		if err := w.group.check(); err != nil {
			return err
		}
		if len(w.group.names) > maxNames {
			return engine.Errorf(ErrInvalid, "action: %d actions of a worker exceed %d", len(w.group.names), maxNames)
		}
	}
	for i := range w.ends {
		if err := w.ends[i].check(); err != nil {
			return err
		}
	}
	slots := 0
	for i := range w.wants {
		slots += w.wants[i].slots
	}
	if slots > maxTaken {
		return engine.Errorf(ErrInvalid, "action: %d runs exceed the %d that are taken at once", slots, maxTaken)
	}
	return nil
}

// limit refuses a group that is of no use.
func (w *workBody) limit() error {
	if w.session == 0 && len(w.wants) == 0 && (w.group.labels != "" || len(w.group.names) > 0) {
		return engine.Errorf(ErrInvalid, "action: worker %q names actions or labels, and wants no runs", w.self)
	}
	return nil
}

// maxSettled bounds the output of an end that a node with a full disk takes. As many runs as can be under way fit into what it keeps in reserve.
const maxSettled = 1 << 10

// checkSettle is check for kindSettle: ends only, and small ones. A node takes them though its disk is full: attempts are under
// way, their time limits pass, and what their handlers have done would be done again.
func (w *workBody) checkSettle() error {
	if n := w.payload(); n > maxSettled {
		return engine.Errorf(ErrInvalid, "action: an output of %d bytes on a full disk: the limit is %d", n, maxSettled)
	}
	if len(w.wants) > 0 {
		return engine.Errorf(ErrInvalid, "action: runs are wanted on a full disk")
	}
	return w.check()
}

// checkEnd is check for kindEnd: one end.
func (w *workBody) checkEnd() error {
	if len(w.ends) != 1 || len(w.wants) != 0 {
		return engine.Errorf(ErrInvalid, "action: %d ends and %d wants, for one end", len(w.ends), len(w.wants))
	}
	return w.check()
}

// settleOp returns what sends the ends of a command to a node with a full disk; not ok if it would not take them.
func settleOp(op engine.Op, c *workBody) (settle engine.Op, ok bool) {
	settle = settleRuns.Op(op.Route, workBody{session: c.session, self: c.self, ends: c.ends}, nil)
	if settle.Err != nil {
		return op, false
	}
	settle.RouteTo = op.RouteTo
	return settle, true
}

// want is what a worker takes.
type want struct {
	group  int // of the session
	worker string
	slots  int
}

func (w *want) code(f *codec.Fields) {
	f.Int("group", &w.group, codec.Range{Max: maxGroups})
	if f.Text("worker", &w.worker); f.Checking() {
		f.Refuse(roster.CheckID(w.worker))
	}
	f.Int("slots", &w.slots, codec.Range{Min: 1, Max: maxTaken})
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
)

var howNames = []string{completed: "completed", failed: "failed", refused: "refused", released: "released", snoozed: "snoozed"}

func (e *end) fields(f *codec.Fields) {
	if f.Parsing() {
		e.how, e.delay = completed, -1
	}
	codeRef(&e.ref, f)
	f.Varint("attempt", &e.attempt, codec.Range{Max: math.MaxInt64})
	codeChoice(f, "how", (*byte)(&e.how), howNames)
	f.Text("outcome", &e.outcome, codec.Range{Max: MaxOutcomeBytes})
	f.Text("code", &e.code, codec.Range{Max: MaxOutcomeBytes})
	codeBlob(f, "error", &e.message, codec.Range{Max: MaxErrorBytes})
	f.OptionalBytes("output", &e.output)
	f.SignedMillis("delay_ms", &e.delay)
	if f.Binary() == nil {
		f.Varint("delivery", &e.begun, codec.Range{Max: math.MaxInt64})
	}
}

func (e *end) check() error {
	switch {
	case !utf8.ValidString(e.outcome) || !utf8.ValidString(e.code):
		return engine.Errorf(ErrInvalid, "action: outcome %q or code %q is not UTF-8", e.outcome, e.code)
	case e.delay > maxMillis:
		return engine.Errorf(ErrInvalid, "action: delay of %d ms exceeds %d", e.delay, maxMillis)
	case e.how == snoozed && e.delay < 0:
		return engine.Errorf(ErrInvalid, "action: delay of %d ms is negative", e.delay)
	}
	return nil
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

func (t *taken) fields(f *codec.Fields) {
	codeRef(&t.ref, f)
	f.Text("action", &t.action)
	f.Int("want", &t.want)
	f.Varint("attempt", &t.attempt)
	f.Varint("max_attempts", &t.maxAttempts)
	f.SignedMillis("timeout_ms", &t.timeout)
	f.Varint("created_at_ms", &t.createdAt)
	f.Byte("priority", &t.priority)
	if f.Binary() != nil {
		f.OptionalBytes("labels", &t.labels)
	} else {
		f.Varint("delivery", &t.begun)
		codeLabels(f, &t.labels)
	}
	codeBlob(f, "concurrency_key", &t.key, codec.Range{})
	codeBlob(f, "idempotency_key", &t.idempotencyKey, codec.Range{})
	codeBlob(f, "source", &t.source, codec.Range{})
	f.Text("last_code", &t.code)
	codeBlob(f, "last_error", &t.message, codec.Range{})
	f.OptionalBytes("input", &t.input)
}

// worked is the result of kindWork: a verdict for each end, and the runs taken. Its binary form is empty if both lists are.
type worked struct {
	verdicts []verdict
	taken    []taken
}

func (w *worked) code(f *codec.Fields) {
	c := f.Binary()
	if c != nil && c.Reading() && c.Left() == 0 {
		return
	}
	codec.ListOf(f, "verdicts", &w.verdicts, func(v *verdict, f *codec.Fields) { f.Byte("", (*byte)(v)) })
	codec.ListOf(f, "runs", &w.taken, (*taken).fields)
	if c == nil {
		return
	}
	again := c.More(slices.ContainsFunc(w.taken, func(t taken) bool { return t.begun != t.attempt }))
	for i := range w.taken {
		t := &w.taken[i]
		codeBegun(c, &t.begun, t.attempt, again)
	}
}

// encode returns nothing if nothing was done.
func (w *worked) encode() []byte {
	if len(w.verdicts)+len(w.taken) == 0 {
		return nil
	}
	size := 16 + len(w.verdicts)
	for i := range w.taken {
		t := &w.taken[i]
		size += 64 + len(t.action) + len(t.labels) + len(t.key) + len(t.idempotencyKey) + len(t.source) + len(t.code) + len(t.message) + len(t.input)
	}
	return codec.EncodeFields(make([]byte, 0, size), w, (*worked).code)
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

// touchBody has an attempt last for a time from now.
type touchBody struct {
	session uint64 // 0: that of self
	self    string
	ref     call.Ref
	attempt int64 // 0: the present one
	extend  int64 // ms
	begun   int64 // as that of an end
}

func (t *touchBody) code(f *codec.Fields) {
	codeCaller(f, &t.session, &t.self)
	codeRef(&t.ref, f)
	f.Varint("attempt", &t.attempt)
	f.SignedMillis("extend_ms", &t.extend, codec.Range{Min: 1, Max: maxMillis})
	codeDelivery(f, &t.begun)
}

// sessionBody ends a session. Its runs are given back, and their attempts do not count if it is closed.
type sessionBody struct {
	session uint64 // 0: that of self
	self    string
}

func (s *sessionBody) code(f *codec.Fields) { codeCaller(f, &s.session, &s.self) }

// at routes an operation to a shard.
func at(shard engine.ShardID, op engine.Op) engine.Op {
	op.RouteTo = routeTo(shard)
	return op
}

func checkAction(name string) error { return engine.CheckName("action", name) }

func notFound(name string) error { return engine.Errorf(ErrNotFound, "action %q not found", name) }

func noRun(ref call.Ref, shard engine.ShardID) error {
	return engine.Errorf(ErrNotFound, "run %s not found", place{shard, ref}.id())
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
