package action

import (
	"math"
	"slices"
	"unicode/utf8"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/workers"
)

// workBody holds ends of attempts, and wants for new runs.
type workBody struct {
	session uint64 // 0: that of a polling worker, see self
	self    string // ID of the polling worker
	group   group  // the runs it takes
	ends    []end
	wants   []want
	// number of waiting takes for the same runs, including this one, set by the leader so that it
	// can share them fairly; 0 if this take did not wait
	waiting int

	listed bool // register the worker and count its results once it gets a run
}

func (w *workBody) code(f *codec.Fields) {
	c := f.Binary()
	if codeCaller(f, &w.session, &w.self); w.session == 0 {
		w.group.fields(f)
	}
	codec.ListOf(f, "ends", &w.ends, (*end).fields, codec.Range{Max: maxEnds})
	codec.ListOf(f, "wants", &w.wants, (*want).code, codec.Range{Max: maxTaken})
	if f.Int("waiting", &w.waiting, codec.Range{Max: math.MaxInt64}); c == nil {
		f.Bool("listed", &w.listed)
		return
	}
	more := c.More(w.listed || w.begun())
	for i := range w.ends {
		if more {
			c.Varint(&w.ends[i].begun)
		}
	}
	last := c.More(w.listed)
	if last {
		c.Bool(&w.listed)
	}
	if last && !w.listed || more && !last && !w.begun() {
		c.Fail("empty fields at the end")
	}
}

// begun reports whether any end has a delivery number.
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
		return engine.Errorf(ErrInvalid, "action: the request ends no run and takes none")
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

// limit rejects a group of a worker that takes no runs.
func (w *workBody) limit() error {
	if w.session == 0 && len(w.wants) == 0 && (w.group.labels != "" || len(w.group.names) > 0) {
		return engine.Errorf(ErrInvalid, "action: worker %q names actions or labels, but takes no runs", w.self)
	}
	return nil
}

// maxSettled limits the output of an end that a node with a full disk accepts. The node's reserve
// has room for the ends of all possible active runs.
const maxSettled = 1 << 10

// checkSettle is check for kindSettle: small ends only. A node accepts them even if its disk is
// full. Otherwise active attempts would exceed their time limits and their work would be repeated.
func (w *workBody) checkSettle() error {
	if n := w.payload(); n > maxSettled {
		return engine.Errorf(ErrInvalid, "action: an output of %d bytes on a full disk: the limit is %d", n, maxSettled)
	}
	if len(w.wants) > 0 {
		return engine.Errorf(ErrInvalid, "action: the disk is full: no runs can be taken")
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

// settleOp returns the operation that sends the ends of a command to a node with a full disk; ok is
// false if the node would not accept them.
func settleOp(op engine.Op, c *workBody) (settle engine.Op, ok bool) {
	settle = settleRuns.Op(op.Route, workBody{session: c.session, self: c.self, ends: c.ends}, nil)
	if settle.Err != nil {
		return op, false
	}
	settle.RouteTo = op.RouteTo
	return settle, true
}

// want is a worker's request for runs.
type want struct {
	group  int // of the session
	worker string
	slots  int
}

func (w *want) code(f *codec.Fields) {
	f.Int("group", &w.group, codec.Range{Max: maxGroups})
	if f.Text("worker", &w.worker); f.Checking() {
		f.Refuse(workers.CheckID(w.worker))
	}
	f.Int("slots", &w.slots, codec.Range{Min: 1, Max: maxTaken})
}

// end is how an attempt ended.
type end struct {
	ref     protocol.Ref
	attempt int64 // 0: the current one
	begun   int64 // delivery number of the attempt; 0: unknown
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
	released      // the attempt does not count, and the run returns to its place
	snoozed       // the attempt does not count, and the run waits for a time
)

var howNames = []string{completed: "completed", failed: "failed", refused: "refused", released: "released", snoozed: "snoozed"}

func (e *end) fields(f *codec.Fields) {
	if f.Parsing() {
		e.how, e.delay = completed, -1
	}
	codeRef(&e.ref, f)
	f.Varint("attempt", &e.attempt, codec.Range{Max: math.MaxInt64})
	codec.Enum(f, "how", &e.how, howNames)
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

// verdict is the result of an end.
type verdict uint8

const (
	accepted  verdict = iota + 1
	overtaken         // the attempt was no longer the current one of its run
	abandoned         // the run had been cancelled; its slot is now free
)

// taken is a run assigned to a worker, in the result of kindWork.
type taken struct {
	ref            protocol.Ref
	action         string
	want           int // index of the command's want that it fulfils
	attempt        int64
	begun          int64 // number of starts of the run, including attempts that do not count
	maxAttempts    int64
	timeout        int64 // ms
	deadline       int64 // for a worker that calls Await itself; else 0
	createdAt      int64
	priority       uint8
	labels         []byte
	key            string
	idempotencyKey string
	source         string
	code           string // of the previous attempt
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
		f.Varint("deadline_ms", &t.deadline)
		codeLabels(f, &t.labels)
	}
	codeBlob(f, "concurrency_key", &t.key, codec.Range{})
	codeBlob(f, "idempotency_key", &t.idempotencyKey, codec.Range{})
	codeBlob(f, "source", &t.source, codec.Range{})
	f.Text("last_code", &t.code)
	codeBlob(f, "last_error", &t.message, codec.Range{})
	f.OptionalBytes("input", &t.input)
}

// worked is the result of kindWork: a verdict for each end, and the runs taken. Its binary form is
// empty if both lists are empty.
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
	deadlines := slices.ContainsFunc(w.taken, func(t taken) bool { return t.deadline != 0 })
	again := c.More(deadlines || slices.ContainsFunc(w.taken, func(t taken) bool { return t.begun != t.attempt }))
	for i := range w.taken {
		t := &w.taken[i]
		codeBegun(c, &t.begun, t.attempt, again)
	}
	if c.More(deadlines) {
		for i := range w.taken {
			c.Varint(&w.taken[i].deadline)
		}
	}
}

// encode returns nothing if both lists are empty.
func (w *worked) encode() []byte {
	if len(w.verdicts)+len(w.taken) == 0 {
		return nil
	}
	size := 16 + len(w.verdicts)
	for i := range w.taken {
		t := &w.taken[i]
		size += 64 + len(t.action) + len(t.labels) + len(t.key) + len(t.idempotencyKey) + len(t.source) + len(t.code) + len(t.message) +
			len(t.input)
	}
	return codec.EncodeFields(make([]byte, 0, size), w, (*worked).code)
}

// codeBegun codes the number of starts of a run as the difference from its counted attempts, or
// nothing if said is false.
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
