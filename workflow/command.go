package workflow

import (
	"unicode/utf8"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/protocol"
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
	kindDone
	kindChildDone
	kindRelay
	kindInvalidate
	kindPlanNews
	kindTick
	kindScheduledEnd
	kindPauseSchedule
	kindTrigger
	kindRemoveVersion
	kindSetDefault
)

// The commands. The name of a command for a run is the run's ID. If floe assigned the ID, the name
// is "" and the body has its parts. When the disk is full, active runs continue and can be
// cancelled.
var (
	create = &engine.CommandRow[*work, createBody, created]{
		Kind: kindCreate, Name: "create", From: engine.FromUsers,
		Body: (*createBody).code, Named: (*createBody).named, Size: (*createBody).size, Apply: (*work).create, Result: (*created).code,
	}
	enable = &engine.CommandRow[*work, bool, engine.Nothing]{
		Kind: kindEnable, Name: "enable", From: engine.FromUsers, Shrinks: true, Body: codec.Flag("enabled"), Run: (*work).enable,
	}
	remove = &engine.CommandRow[*work, bool, engine.Nothing]{
		Kind: kindDelete, Name: "delete", From: engine.FromUsers, Shrinks: true, Body: codec.Flag("force"), Run: (*work).delete,
	}
	start = &engine.CommandRow[*work, startBody, started]{
		Kind: kindStart, Name: "start", From: engine.FromUsers | engine.FromShards | engine.FromMachines,
		Body: (*startBody).code, Check: (*startBody).check, Limit: (*startBody).limit,
		Payload: func(b *startBody) int { return len(b.input) }, Size: (*startBody).size,
		Apply: func(w *work, b *startBody) (started, error) { return w.startRun(w.subject, b) }, Result: (*started).code,
	}
	signal = &engine.CommandRow[*work, signalBody, changed]{
		Kind: kindSignal, Name: "signal", From: engine.FromUsers,
		Body: (*signalBody).code, Named: (*signalBody).named, Limit: (*signalBody).limit,
		Payload: func(b *signalBody) int { return len(b.payload) },
		Size:    func(b *signalBody) int { return bodyRoom + len(b.kind) + len(b.payload) }, Apply: (*work).signal, Result: (*changed).code,
	}
	cancel = &engine.CommandRow[*work, cancelBody, changed]{
		Kind: kindCancel, Name: "cancel", From: engine.FromUsers | engine.FromShards | engine.FromMachines, Shrinks: true,
		Body: (*cancelBody).code, Named: (*cancelBody).named, Apply: (*work).cancel, Result: (*changed).code,
	}
	retry = &engine.CommandRow[*work, retryBody, changed]{
		Kind: kindRetry, Name: "retry", From: engine.FromUsers,
		Body: (*retryBody).code, Named: (*retryBody).named, Limit: (*retryBody).limit,
		Payload: func(b *retryBody) int { return len(b.input) },
		Apply:   (*work).retry, Result: (*changed).code,
	}
	invalidate = &engine.CommandRow[*work, planBody, engine.Nothing]{
		Kind: kindInvalidate, Name: "invalidate plan", From: engine.FromUsers, Shrinks: true,
		Body: (*planBody).code, Check: (*planBody).check, Run: (*work).invalidatePlan,
	}
	planNews = &engine.CommandRow[*work, planBody, engine.Nothing]{
		Kind: kindPlanNews, Name: "plan news", From: engine.FromShards, Body: (*planBody).code, Run: (*work).planNews,
	}
	pauseSchedule = &engine.CommandRow[*work, bool, engine.Nothing]{
		Kind: kindPauseSchedule, Name: "pause schedule", From: engine.FromUsers, Shrinks: true, Body: codec.Flag("paused"),
		Run: (*work).pauseSchedule,
	}
	removeVersion = &engine.CommandRow[*work, versionBody, engine.Nothing]{
		Kind: kindRemoveVersion, Name: "remove version", From: engine.FromUsers | engine.FromShards, Shrinks: true,
		Body: (*versionBody).code, Limit: (*versionBody).limit, Run: (*work).removeVersion,
	}
	setDefault = &engine.CommandRow[*work, versionBody, engine.Nothing]{
		Kind: kindSetDefault, Name: "set default version", From: engine.FromUsers | engine.FromShards,
		Body: (*versionBody).code, Limit: (*versionBody).limit, Run: (*work).setDefault,
	}
)

var commands = engine.Declare(engine.MachineWorkflow, "workflow", checkWorkflow,
	create,
	&engine.MachineRow[*work, adoptCommand]{Kind: kindAdopt, Name: "adopt", From: engine.FromShards, Body: (*adoptCommand).code,
		Apply: (*work).adopt},
	enable, remove, start, signal, cancel, retry,
	&engine.MachineRow[*work, protocol.End]{Kind: kindDone, Name: "end action", From: engine.FromMachines, Body: (*protocol.End).Encode,
		Apply: func(w *work, e *protocol.End) ([]byte, error) { w.done(e, false); return nil, nil }},
	&engine.MachineRow[*work, protocol.End]{Kind: kindChildDone, Name: "end child", From: engine.FromMachines, Body: (*protocol.End).Encode,
		Apply: func(w *work, e *protocol.End) ([]byte, error) { w.done(e, true); return nil, nil }},
	&engine.MachineRow[*work, relayCommand]{Kind: kindRelay, Name: "relay end", From: engine.FromShards, Body: (*relayCommand).code,
		Apply: func(w *work, v *relayCommand) ([]byte, error) { w.done(&v.end, v.child); return nil, nil }},
	invalidate, planNews,
	&engine.MachineRow[*work, []dueTicks]{Kind: kindTick, Name: "tick schedules", From: engine.FromLeaders, Body: schedules.CodeAll,
		Apply: (*work).tick},
	&engine.MachineRow[*work, protocol.End]{Kind: kindScheduledEnd, Name: "end scheduled run", From: engine.FromMachines,
		Body: (*protocol.End).Encode, Apply: (*work).scheduledEnd},
	pauseSchedule,
	&engine.MachineRow[*work, protocol.Batch]{Kind: kindTrigger, Name: "trigger", From: engine.FromShards | engine.FromMachines,
		Body: (*protocol.Batch).Code, Apply: (*work).trigger},
	removeVersion, setDefault,
)

// command returns a command that the machine sends. It cannot use the row, which would be an
// initialization cycle.
func command[B any](kind uint8, name string, b *B, code func(*B, *codec.Fields)) engine.Command {
	return engine.NewCommand(engine.MachineWorkflow, kind, name, b, code, bodyRoom)
}

// bodyRoom is enough for most bodies without a payload.
const bodyRoom = 64

// createBody is a version of a workflow. Its JSON has only the definition.
type createBody struct {
	version  string
	source   []byte
	compiled []byte

	// From the definition if it was compiled here; not encoded.
	name      string
	namespace string
}

func (b *createBody) code(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		b.layout(c)
		return
	}
	if f.Bytes("definition", &b.source, codec.Range{Max: MaxDefinition}); f.Parsing() {
		compiled, err := compile(b.source)
		f.Refuse(err)
		*b = compiled
	}
}

func (b *createBody) layout(c *codec.Coder) {
	c.String(&b.version)
	c.View(&b.source)
	c.View(&b.compiled)
}

func (b *createBody) named(name string) error {
	if b.name != "" && b.name != name {
		return engine.Errorf(ErrInvalid, "workflow %q: the definition names workflow %q", name, b.name)
	}
	return checkWorkflow(name)
}

func (b *createBody) size() int { return bodyRoom + len(b.version) + len(b.source) + len(b.compiled) }

// compile parses a definition and returns the body that creates it. Errors: ErrInvalid with the
// first problem.
func compile(source []byte) (b createBody, err error) {
	if len(source) > MaxDefinition {
		return b, engine.Errorf(ErrInvalid, "workflow: definition of %d bytes exceeds %d", len(source), MaxDefinition)
	}
	d, problems := flow.Parse(source)
	if d == nil {
		return b, problemsError(problems)
	}
	if d.Trigger != nil && d.Trigger.Namespace != "" {
		if err := engine.CheckWritable(d.Trigger.Namespace); err != nil {
			return b, engine.Errorf(ErrInvalid, "workflow %q: trigger: %v", d.Name, err)
		}
	}
	return createBody{d.Version, source, encode(nil, d, (*flow.Definition).Code), d.Name, d.Namespace}, nil
}

// admitCreate validates a create command from another process. It recompiles the definition,
// because the machine runs the compiled form and must not trust that of a client.
func admitCreate(cmd engine.Command, _ int) error {
	name, b, err := create.Read(cmd)
	if err != nil {
		return err
	}
	own, err := compile(b.source)
	if err != nil {
		return err
	}
	if own.name != string(name) || own.version != b.version || string(own.compiled) != string(b.compiled) {
		return engine.Errorf(ErrInvalid, "workflow %q: the definition was compiled by another version of floe", name)
	}
	return own.isFor(cmd.Namespace)
}

// isFor returns ErrInvalid if the definition names another namespace.
func (b *createBody) isFor(namespace string) error {
	if b.namespace != "" && b.namespace != namespace {
		return engine.Errorf(ErrInvalid, "workflow %q is for namespace %q, not %q", b.name, b.namespace, namespace)
	}
	return nil
}

// reaches returns the namespace of the trigger's stream if it is another one, because the trigger's
// consumer group is created there.
func reaches(cmd engine.Command) []string {
	_, b, err := create.Read(cmd)
	if err != nil {
		return nil
	}
	d, _ := flow.Parse(b.source)
	if d == nil || d.Trigger == nil || d.Trigger.Namespace == "" {
		return nil
	}
	return []string{d.Trigger.Namespace}
}

// created is the result of a creation.
type created struct {
	unchanged bool
	versions  int64
	lsn       uint64
}

func (v *created) code(f *codec.Fields) {
	f.Bool("unchanged", &v.unchanged)
	f.Count("versions", &v.versions)
	f.Uvarint("lsn", &v.lsn)
}

// adoptCommand sends a change of a workflow from its home to the other shards. It has a version if
// that is new.
type adoptCommand struct {
	name     string
	gone     bool // the workflow was deleted
	force    bool
	enabled  bool
	revision uint64
	of       string // "" or name
	version  createBody
}

func (v *adoptCommand) code(c *codec.Coder) {
	c.String(&v.name)
	c.Bool(&v.gone)
	c.Bool(&v.force)
	c.Bool(&v.enabled)
	c.Uvarint(&v.revision)
	c.String(&v.of)
	v.version.layout(c)
}

// startBody starts a run. JSON has only the fields that users may set.
type startBody struct {
	version string // "": the default version
	id      string // "": floe assigns it
	key     []byte // idempotency key
	source  string
	parent  string
	depth   uint8
	notify  protocol.Notify
	input   []byte

	taken bool // start even if the workflow is disabled by now; not encoded
}

func (b *startBody) code(f *codec.Fields) {
	f.Text("version", &b.version, codec.Range{Max: engine.MaxNameBytes})
	f.Text("run_id", &b.id)
	f.Bytes("idempotency_key", &b.key, codec.Range{Max: MaxIdempotencyKey})
	if c := f.Binary(); c != nil {
		c.String(&b.source)
		c.String(&b.parent)
		c.Byte(&b.depth)
		b.notify.Code(c)
	}
	f.Blob("input", &b.input)
}

func (b *startBody) size() int {
	return bodyRoom + len(b.version) + len(b.id) + len(b.key) + len(b.input)
}

func (b *startBody) check() error {
	if b.id != "" {
		return checkRunID(b.id)
	}
	return nil
}

func (b *startBody) limit() error {
	if b.notify.Machine != 0 || b.source != "" || b.parent != "" || b.depth != 0 {
		return engine.Errorf(ErrInvalid, "workflow: start has fields reserved for machines")
	}
	if err := checkText("version", b.version); err != nil {
		return err
	}
	return checkJSON("input", b.input)
}

// started is the result of a start.
type started struct {
	runLocation
	id        string // "" if floe assigned the ID
	status    Status
	duplicate bool
	lsn       uint64
}

func (v *started) code(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		v.runLocation.code(c)
		c.String(&v.id)
	} else {
		id := string(v.name())
		f.Text("run_id", &id)
	}
	codec.Enum(f, "status", &v.status, statusNames[:])
	f.Bool("duplicate", &v.duplicate)
	f.Uvarint("lsn", &v.lsn)
}

// number identifies a run within its shard if floe assigned the run's ID.
type number struct {
	run uint64
	tag uint16
}

func (n *number) code(f *codec.Fields) {
	f.Uvarint("run", &n.run)
	codec.Narrow(f, "tag", &n.tag)
}

// named validates the ID of a command's run, which is "" if floe assigned it.
func (n *number) named(id string) error {
	if id == "" {
		return nil
	}
	return checkRunID(id)
}

// target identifies a run by its ID, or by its number if floe assigned the ID.
type target struct {
	id string
	number
}

func (t *target) code(f *codec.Fields) {
	f.Text("run_id", &t.id)
	t.number.code(f)
}

// signalBody sends a signal to a run.
type signalBody struct {
	number
	kind    string
	payload []byte
}

func (b *signalBody) code(f *codec.Fields) {
	b.number.code(f)
	f.Text("type", &b.kind, codec.Range{Min: 1, Max: MaxSignalType})
	f.Blob("payload", &b.payload, codec.Range{Max: MaxSignalBytes})
}

func (b *signalBody) limit() error {
	if err := checkText("signal type", b.kind); err != nil {
		return err
	}
	return checkJSON("payload", b.payload)
}

// cancelBody cancels a run.
type cancelBody struct {
	number
	reason []byte
}

func (b *cancelBody) code(f *codec.Fields) {
	b.number.code(f)
	f.Bytes("reason", &b.reason, codec.Range{Max: MaxReason})
}

// retryBody resumes a failed run.
type retryBody struct {
	number
	step  string // "": the failed step
	input []byte // of the step; nil: as defined
}

func (b *retryBody) code(f *codec.Fields) {
	b.number.code(f)
	f.Text("step", &b.step, codec.Range{Max: engine.MaxNameBytes})
	f.Blob("input", &b.input)
}

func (b *retryBody) limit() error {
	if err := checkText("step", b.step); err != nil {
		return err
	}
	return checkJSON("input", b.input)
}

// changed is a run's status after a command.
type changed struct {
	status Status
	lsn    uint64
}

func (v *changed) code(f *codec.Fields) {
	codec.Enum(f, "status", &v.status, statusNames[:])
	f.Uvarint("lsn", &v.lsn)
}

// relayCommand notifies another shard that a run of an action or a child workflow ended.
type relayCommand struct {
	child bool
	end   protocol.End
}

func (v *relayCommand) code(c *codec.Coder) {
	c.Bool(&v.child)
	v.end.Encode(c)
}

// token identifies a pending wait of a run.
type token struct {
	shard engine.ShardID // of the run
	run   uint64
	tag   uint16
	child bool // the called target was a workflow
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

func checkWorkflow(name string) error { return engine.CheckName("workflow", name) }

func notFound(name string) error { return engine.Errorf(ErrNotFound, "workflow %q not found", name) }

func noRun(id RunID) error { return engine.Errorf(ErrNotFound, "run %s not found", id) }

// checkJSON returns ErrInvalid if b is neither empty nor valid JSON.
func checkJSON(what string, b []byte) error {
	if len(b) > 0 && !rawjson.Valid(b) {
		return engine.Errorf(ErrInvalid, "workflow: %s is not valid JSON: %.40q", what, b)
	}
	return nil
}

// checkText returns ErrInvalid for text that JSON cannot represent.
func checkText(what, text string) error {
	if !utf8.ValidString(text) {
		return engine.Errorf(ErrInvalid, "workflow: %s %.64q is not valid UTF-8", what, text)
	}
	return nil
}
