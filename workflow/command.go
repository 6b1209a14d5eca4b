package workflow

import (
	"github.com/floedb/floe/internal/call"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/rawjson"
)

// Kinds of commands; the numbers are part of the log's format.
const (
	kindCreate uint8 = iota + 1
	kindAdopt
	kindEnable
	kindDelete
	kindStart
	kindSignal
	kindCancel
	kindRetry
	kindDone      // an action's run has ended: a call.End
	kindChildDone // a child has ended: a call.End with a Status of this package
	kindRelay     // for another shard: kindDone or kindChildDone
	kindInvalidate
	kindPlanNews
	kindTick
	kindScheduledEnd // a call.End
	kindPauseSchedule
	kindTrigger // a push.Batch
	kindRemoveVersion
)

// createCommand is the body of kindCreate.
//
//	result: see created
type createCommand struct {
	name     string
	version  string
	source   []byte
	compiled []byte

	namespace string // that it is for; it is not sent
}

func (v *createCommand) code(c *codec.Coder) {
	c.String(&v.name)
	c.String(&v.version)
	c.Bytes(&v.source)
	c.Bytes(&v.compiled)
}

// created is the result of kindCreate.
type created struct {
	unchanged bool
	versions  uint32
	lsn       uint64
}

func (v *created) code(c *codec.Coder) {
	c.Bool(&v.unchanged)
	c.Uint32(&v.versions)
	c.Uvarint(&v.lsn)
}

// adoptCommand is the body of kindAdopt: what the home shard of a workflow tells the others. With a version it is a new one.
type adoptCommand struct {
	name     string
	gone     bool // it has been deleted
	force    bool
	enabled  bool
	revision uint64
	version  createCommand
}

func (v *adoptCommand) code(c *codec.Coder) {
	c.String(&v.name)
	c.Bool(&v.gone)
	c.Bool(&v.force)
	c.Bool(&v.enabled)
	c.Uvarint(&v.revision)
	v.version.code(c)
}

// nameCommand is the body of kindEnable and kindPauseSchedule, with whether to, and of kindDelete, with whether to force it.
type nameCommand struct {
	name string
	flag bool
}

func (v *nameCommand) code(c *codec.Coder) {
	c.String(&v.name)
	c.Bool(&v.flag)
}

// startCommand is the body of kindStart.
//
//	result: see started
type startCommand struct {
	name    string
	version string // "" is the default one
	id      string // "" is one of floe's own
	key     string // for idempotency
	source  string
	parent  string
	depth   uint8
	notify  call.Notify
	input   []byte

	taken bool // it is due though the workflow may be disabled by now; it is not sent
}

func (v *startCommand) code(c *codec.Coder) {
	for _, s := range [...]*string{&v.name, &v.version, &v.id, &v.key, &v.source, &v.parent} {
		c.String(s)
	}
	c.Byte(&v.depth)
	v.notify.Code(c)
	c.Bytes(&v.input)
}

// started is the result of kindStart.
type started struct {
	place
	id        string // if it is not one of floe's own
	status    Status
	duplicate bool
	lsn       uint64
}

func (v *started) code(c *codec.Coder) {
	v.place.code(c)
	c.String(&v.id)
	c.Byte((*byte)(&v.status))
	c.Bool(&v.duplicate)
	c.Uvarint(&v.lsn)
}

// target names a run: by its id, or by the number and tag that one of floe's own says.
type target struct {
	id  string
	run uint64
	tag uint16
}

func (t *target) code(c *codec.Coder) {
	c.String(&t.id)
	c.Uvarint(&t.run)
	c.Uint16(&t.tag)
}

// signalCommand is the body of kindSignal.
//
//	result: see changed
type signalCommand struct {
	target  target
	kind    string
	payload []byte
}

func (v *signalCommand) code(c *codec.Coder) {
	v.target.code(c)
	c.String(&v.kind)
	c.Bytes(&v.payload)
}

// cancelCommand is the body of kindCancel.
//
//	result: see changed
type cancelCommand struct {
	target target
	reason string
}

func (v *cancelCommand) code(c *codec.Coder) {
	v.target.code(c)
	c.String(&v.reason)
}

// retryCommand is the body of kindRetry.
//
//	result: see changed
type retryCommand struct {
	target target
	step   string // "" is the one that has failed
	input  []byte // of the step; nil is what the definition says
}

func (v *retryCommand) code(c *codec.Coder) {
	v.target.code(c)
	c.String(&v.step)
	c.Bytes(&v.input)
}

// changed is the result of commands about a run: its state after them.
type changed struct {
	status Status
	lsn    uint64
}

func (v *changed) code(c *codec.Coder) {
	c.Byte((*byte)(&v.status))
	c.Uvarint(&v.lsn)
}

// relayCommand is the body of kindRelay.
type relayCommand struct {
	child bool
	end   call.End
}

func (v *relayCommand) code(c *codec.Coder) {
	c.Bool(&v.child)
	v.end.Encode(c)
}

// token says what is waited for.
type token struct {
	shard engine.ShardID // of the run
	run   uint64
	tag   uint16
	child bool // it was a workflow that was called
	slot  uint64
	seq   uint64
}

func (t *token) code(c *codec.Coder) {
	c.Uint16((*uint16)(&t.shard))
	c.Uvarint(&t.run)
	c.Uint16(&t.tag)
	c.Bool(&t.child)
	c.Uvarint(&t.slot)
	c.Uvarint(&t.seq)
}

// command makes an operation. route leads to its shard, in a spread namespace.
func command(kind uint8, route string, err error, body []byte) engine.Op {
	return engine.Op{Command: engine.Command{Machine: engine.MachineWorkflow, Kind: kind, Body: body}, Route: route, Err: err, Decode: anyNothing}
}

func checkWorkflow(name string) error { return engine.CheckName("workflow", name) }

func notFound(name string) error { return engine.Errorf(ErrNotFound, "workflow %q not found", name) }

func noRun(id RunID) error { return engine.Errorf(ErrNotFound, "run %s not found", id) }

// check says what is wrong with a start, but for its input.
func (v *startCommand) check() error {
	if err := checkWorkflow(v.name); err != nil {
		return err
	}
	switch {
	case len(v.version) > engine.MaxNameBytes:
		return engine.Errorf(ErrInvalid, "workflow: version of %d bytes exceeds %d", len(v.version), engine.MaxNameBytes)
	case len(v.key) > MaxIdempotencyKey:
		return engine.Errorf(ErrInvalid, "workflow: idempotency key of %d bytes exceeds %d", len(v.key), MaxIdempotencyKey)
	case v.id != "":
		return checkRunID(v.id)
	}
	return nil
}

// checkJSON says what is wrong with bytes that have to be JSON, or nothing.
func checkJSON(what string, b []byte) error {
	if len(b) > 0 && !rawjson.Valid(b) {
		return engine.Errorf(ErrInvalid, "workflow: the %s is no JSON: %.40q", what, b)
	}
	return nil
}

func (v *signalCommand) check() error {
	switch {
	case v.kind == "":
		return engine.Errorf(ErrInvalid, "workflow: a signal without a type")
	case len(v.kind) > MaxSignalType:
		return engine.Errorf(ErrInvalid, "workflow: signal type of %d bytes exceeds %d", len(v.kind), MaxSignalType)
	case len(v.payload) > MaxSignalBytes:
		return engine.Errorf(ErrInvalid, "workflow: signal payload of %d bytes exceeds %d", len(v.payload), MaxSignalBytes)
	}
	return v.target.check()
}

func (v *cancelCommand) check() error {
	if len(v.reason) > MaxReason {
		return engine.Errorf(ErrInvalid, "workflow: reason of %d bytes exceeds %d", len(v.reason), MaxReason)
	}
	return v.target.check()
}

func (v *retryCommand) check() error {
	if len(v.step) > engine.MaxNameBytes {
		return engine.Errorf(ErrInvalid, "workflow: step name of %d bytes exceeds %d", len(v.step), engine.MaxNameBytes)
	}
	return v.target.check()
}

func (t *target) check() error {
	if t.id != "" {
		return checkRunID(t.id)
	}
	return nil
}

// compile reads a definition, and returns the command that creates it. Errors: ErrInvalid with what is wrong first.
func compile(source []byte) (v createCommand, err error) {
	if len(source) > MaxDefinition {
		return v, engine.Errorf(ErrInvalid, "workflow: definition of %d bytes exceeds %d", len(source), MaxDefinition)
	}
	d, problems := flow.Parse(source)
	if d == nil {
		return v, problemsError(problems)
	}
	if d.Trigger != nil && d.Trigger.Namespace != "" {
		if err := engine.CheckWritable(d.Trigger.Namespace); err != nil {
			return v, engine.Errorf(ErrInvalid, "workflow %q: trigger: %v", d.Name, err)
		}
	}
	return createCommand{d.Name, d.Version, source, encode(nil, d, (*flow.Definition).Code), d.Namespace}, nil
}

// admit checks a command of a user in another process.
func admit(cmd engine.Command, maxPayload int) error {
	switch cmd.Kind {
	case kindCreate:
		return admitCreate(cmd)
	case kindEnable, kindDelete, kindPauseSchedule:
		v, err := decodeBody(cmd.Body, (*nameCommand).code)
		if err != nil {
			return err
		}
		return checkWorkflow(v.name)
	case kindStart:
		v, err := decodeBody(cmd.Body, (*startCommand).code)
		if err != nil {
			return err
		}
		if v.notify.Machine != 0 || v.source != "" || v.parent != "" || v.depth != 0 {
			return engine.Errorf(ErrInvalid, "workflow: a start as machines make it")
		}
		return admitPayload(v.check(), "input", v.input, maxPayload)
	case kindSignal:
		v, err := decodeBody(cmd.Body, (*signalCommand).code)
		if err != nil {
			return err
		}
		return admitPayload(v.check(), "payload", v.payload, maxPayload)
	case kindCancel:
		v, err := decodeBody(cmd.Body, (*cancelCommand).code)
		if err != nil {
			return err
		}
		return v.check()
	case kindRetry:
		v, err := decodeBody(cmd.Body, (*retryCommand).code)
		if err != nil {
			return err
		}
		return admitPayload(v.check(), "input", v.input, maxPayload)
	case kindRemoveVersion:
		return admitRemove(cmd.Body)
	case kindInvalidate:
		v, err := decodeBody(cmd.Body, (*planCommand).code)
		if err != nil {
			return err
		}
		return v.check()
	}
	return engine.Errorf(ErrInvalid, "workflow: unknown command %d", cmd.Kind)
}

func admitPayload(err error, what string, payload []byte, most int) error {
	if err == nil {
		err = engine.CheckPayload(len(payload), most)
	}
	if err == nil {
		err = checkJSON(what, payload)
	}
	return err
}

// reaches returns the namespace of a trigger's stream, in which its consumer group is created.
func reaches(cmd engine.Command) []string {
	v, err := decodeBody(cmd.Body, (*createCommand).code)
	if err != nil {
		return nil
	}
	d, _ := flow.Parse(v.source)
	if d == nil || d.Trigger == nil || d.Trigger.Namespace == "" {
		return nil
	}
	return []string{d.Trigger.Namespace}
}

// admitCreate compiles a definition anew: what the machine runs is never what somebody else has made of it.
func admitCreate(cmd engine.Command) error {
	v, err := decodeBody(cmd.Body, (*createCommand).code)
	if err != nil {
		return err
	}
	own, err := compile(v.source)
	if err != nil {
		return err
	}
	if own.name != v.name || own.version != v.version || string(own.compiled) != string(v.compiled) {
		return engine.Errorf(ErrInvalid, "workflow %q: the definition was compiled by another version of floe", v.name)
	}
	return own.isFor(cmd.Namespace)
}

// isFor returns ErrInvalid if the definition names another namespace than the one it is created in.
func (v *createCommand) isFor(namespace string) error {
	if v.namespace != "" && v.namespace != namespace {
		return engine.Errorf(ErrInvalid, "workflow %q is for namespace %q, not %q", v.name, v.namespace, namespace)
	}
	return nil
}

func decodeBody[T any](b []byte, code func(*T, *codec.Coder)) (T, error) {
	v, err := decode(b, code)
	if err != nil {
		return v, engine.Errorf(engine.ErrMalformed, "workflow: command: %v", err)
	}
	return v, nil
}
