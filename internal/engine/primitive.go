package engine

import (
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/codec"
)

// Primitive is the table of a primitive. It holds everything that the engine, the shards, the
// transport between processes and the tests need, except its Machine's behaviour. Kinds and
// counters are numbered by their positions in the lists. The numbers are part of the on-disk format
// and the protocol between processes, so new ones are added at the end.
type Primitive struct {
	ID   MachineID // its number in the log and in the state's keys
	Name string    // for messages and statistics, such as "queue"
	// New returns the machine of a shard.
	New func() Machine
	// Global means that its commands concern the whole node: they have no namespace, are not part
	// of a transaction, and are applied in GlobalShard.
	Global bool

	Commands []CommandType // kinds count from 1
	Queries  []QueryType   // likewise
	Errors   []ErrorType   // likewise
	Counters []CounterType // they count from 0

	// Caches reports whether row k is of a kind that is often read by key. Such rows are cached in
	// memory. The key must be at least 5 bytes long, preferably kind, number of the namespace (u32)
	// and name. nil: no rows.
	Caches func(k []byte) bool
	// Kept is memory that the machines of a node use in addition to their rows, for all its shards;
	// nil: none of significance.
	Kept Kept
	// Given receives a value, of a type known to the primitive, that the host program passes to the
	// machines of a node; nil: none. It is called before any machine exists.
	Given func(v any)
	// Reads is the field of Counts for the number of reads that a node has answered; nil: they are
	// not counted.
	Reads func(*Counts) *int64
}

// Kept is memory with a limit. Beyond the limit, data that can be read again is dropped.
type Kept interface {
	// SetLimit sets the limit in bytes. It is called before any machine exists.
	SetLimit(bytes int64)
	// Used returns the bytes in use and the limit.
	Used() (bytes, limit int64)
}

// CommandType is one kind of commands of a primitive.
type CommandType struct {
	Kind uint8
	Name string // such as "enqueue"
	From Senders
	// Shrinks means that a node with a full disk accepts it. It frees space, or uses so little that
	// the node's reserve is enough for the maximum number of them.
	Shrinks bool
	// AtHome means that commands of other shards go to the home of their namespace, regardless of
	// where the named object lives. The home has the namespace's placement, so the sender does not
	// need it.
	AtHome bool
	// Reaches means that its effects may read or write namespaces other than its own, so only
	// senders with permission in all namespaces may send it. It returns the namespaces written to,
	// or nil for a malformed command.
	Reaches func(cmd Command) (written []string)
	// Admit checks a command from a user in another process as strictly as the functions that make
	// commands check their arguments, because the command is not trusted. maxPayload is the largest
	// value or payload. Errors: ErrInvalid. nil if users do not send it.
	Admit func(cmd Command, maxPayload int) error

	// Fields describes the body without the name, Show appends the body as JSON, and Parse returns
	// the operation that JSON describes. They are nil for a body that is not declared field by
	// field.
	Fields func() []codec.Field
	Show   func(dst []byte, cmd Command, encode64 bool) ([]byte, error)
	Parse  func(name string, src []byte, decode64 bool) Op
}

// Senders is the set of senders that may send a kind of command. Others are refused.
type Senders uint8

// The senders of commands.
const (
	FromUsers    Senders = 1 << iota // through the door, alone or in a transaction
	FromShards                       // through the outbox; see Tx.Send
	FromLeaders                      // proposed by the shard's leader or a machine's duty; see Lead.Propose
	FromMachines                     // following another command in the shard; see Tx.Then and Tx.Ask
)

func (s Senders) String() string {
	switch s {
	case FromUsers:
		return "users"
	case FromShards:
		return "other shards"
	case FromLeaders:
		return "leaders"
	case FromMachines:
		return "other commands"
	}
	return fmt.Sprintf("senders %b", uint8(s))
}

// QueryType is one kind of queries of a primitive.
type QueryType struct {
	Kind uint8
	Name string       // such as "list"
	New  func() Query // returns an empty query, for decoding one from another process

	answer func(m Machine, v *View, q Query) error
}

// QueryRow declares a kind of query with the method that answers it:
//
//	engine.QueryRow(queryStats, "stats", (*machine).queryStats)
//
// The method sets the results of the query. If it returns ErrWait after View.WaitOn, it is called
// again when the topic is notified. A paged query ends its page when the view is Full. Iteration
// through the view also ends when the caller cancels or the node closes, so the method must not
// rely on having seen all rows.
func QueryRow[M Machine, Q any, P interface {
	*Q
	Query
}](kind uint8, name string, answer func(m M, v *View, q P) error) QueryType {
	return QueryType{
		Kind: kind, Name: name, New: func() Query { return P(new(Q)) },
		answer: func(m Machine, v *View, q Query) error {
			of, _ := m.(M) // the engine's own queries have no machine
			return answer(of, v, q.(P))
		},
	}
}

// ArgumentFields describes the arguments of the queries, and ResultFields what they return.
func (t *QueryType) ArgumentFields() []codec.Field { return codec.Describe(t.New().Arguments) }
func (t *QueryType) ResultFields() []codec.Field   { return codec.Describe(t.New().Results) }

// ErrorType is one kind of error that keeps its fields between processes. Error types have no
// methods for this, because these would be part of the public API.
type ErrorType struct {
	Kind uint8
	Name string

	find func(err error) any // the one that err is or wraps, or nil
	make func() error        // an empty one
	code func(*codec.Coder, any)
}

// NewErrorType returns the type of the errors P, whose fields code codes.
func NewErrorType[T any, P interface {
	*T
	error
}](kind uint8, name string, code func(*codec.Coder, P)) ErrorType {
	return ErrorType{
		Kind: kind, Name: name,
		find: func(err error) any {
			if e := P(nil); errors.As(err, &e) {
				return e
			}
			return nil
		},
		make: func() error { return P(new(T)) },
		code: func(c *codec.Coder, e any) { code(c, e.(P)) },
	}
}

// Counter identifies a number that a machine maintains per namespace, so that counting never
// requires a scan. Each machine has its own, from 0.
type Counter uint8

// CounterType is a counter of a primitive.
type CounterType struct {
	Counter Counter
	Name    string // such as "dead keys"
	// Field returns its field in Counts, summed over the shards of the namespace.
	Field func(*Counts) *int64
}

// Command returns the command type of a kind, or nil if it is unknown.
func (p *Primitive) Command(kind uint8) *CommandType {
	if p == nil || kind == 0 || int(kind) > len(p.Commands) {
		return nil
	}
	return &p.Commands[kind-1]
}

// Query returns an empty query of a kind, or nil if it is unknown.
func (p *Primitive) Query(kind uint8) Query {
	if p == nil || kind == 0 || int(kind) > len(p.Queries) {
		return nil
	}
	return p.Queries[kind-1].New()
}

// errorType returns the error type of a kind, or nil if it is unknown.
func (p *Primitive) errorType(kind uint8) *ErrorType {
	if p == nil || kind == 0 || int(kind) > len(p.Errors) {
		return nil
	}
	return &p.Errors[kind-1]
}

// Admit checks a command from a user in another process. Errors: ErrInvalid, also for a kind that
// is unknown or not for users.
func (p *Primitive) Admit(cmd Command, maxPayload int) error {
	c := p.Command(cmd.Kind)
	switch {
	case c == nil:
		return unknownCommand(cmd)
	case c.From&FromUsers == 0:
		return Errorf(ErrInvalid, "%s: command %d (%s) is not for users", p.Name, c.Kind, c.Name)
	}
	return c.Admit(cmd, maxPayload)
}

func unknownCommand(cmd Command) error {
	return Errorf(ErrInvalid, "unknown command: machine %d kind %d", cmd.Machine, cmd.Kind)
}

// Check returns the first error in the table itself, or nil.
func (p *Primitive) Check() error {
	var bad error
	wrong := func(format string, args ...any) {
		if bad == nil {
			bad = fmt.Errorf("table of %s (%d): %s", p.Name, p.ID, fmt.Sprintf(format, args...))
		}
	}
	if p.ID >= maxMachines || p.Name == "" || (p.New == nil) != (p.ID == machineEngine) {
		wrong("number, name or constructor")
	}
	names := make(map[string]bool)
	named := func(what string, i int, name string) {
		if name == "" || names[what+name] {
			wrong("%s %d is called %q", what, i, name)
		}
		names[what+name] = true
	}
	for i, c := range p.Commands {
		named("command", i, c.Name)
		if int(c.Kind) != i+1 || c.From == 0 || (c.Admit != nil) != (c.From&FromUsers != 0) {
			wrong("command %d: kind %d, senders %b, a function to admit it: %t", i+1, c.Kind, c.From, c.Admit != nil)
		}
	}
	for i, q := range p.Queries {
		named("query", i, q.Name)
		if made := q.New(); int(q.Kind) != i+1 || made.Kind() != q.Kind || made.Machine() != p.ID {
			wrong("query %d: kind %d, makes %d of machine %d", i+1, q.Kind, made.Kind(), made.Machine())
		}
	}
	for i, e := range p.Errors {
		named("error", i, e.Name)
		if int(e.Kind) != i+1 || e.make == nil {
			wrong("error %d: kind %d, can be made: %t", i+1, e.Kind, e.make != nil)
		}
	}
	for i, c := range p.Counters {
		named("counter", i, c.Name)
		if int(c.Counter) != i || c.Field == nil {
			wrong("counter %d: number %d", i, c.Counter)
		}
	}
	return bad
}

// enginePrimitive is the engine's own table: transactions, timers, outbox, namespaces. applyEngine
// executes its commands.
func enginePrimitive() Primitive {
	return Primitive{
		ID: machineEngine, Name: "engine",
		Commands: []CommandType{
			{Kind: kindTxn, Name: "transaction", From: FromUsers, Admit: admitTxn}, // shrinks if all its parts do
			{Kind: kindFire, Name: "fire", From: FromLeaders, Shrinks: true},
			{Kind: kindDeliver, Name: "deliver", From: FromLeaders}, // shrinks if all its messages do
			{Kind: kindSettle, Name: "settle", From: FromLeaders, Shrinks: true},
			{Kind: kindSkip, Name: "skip", From: FromLeaders, Shrinks: true},
			{Kind: kindCreateNamespace, Name: "create namespace", From: FromUsers, Admit: admitNamespace},
			{Kind: kindCompare, Name: "compare", From: FromLeaders, Shrinks: true},
			{Kind: kindFenced, Name: "duty", From: FromLeaders}, // shrinks if its command does
			{Kind: kindDeleteNamespace, Name: "delete namespace", From: FromUsers, Shrinks: true, Admit: admitDeletion},
		},
		Queries: []QueryType{
			QueryRow(queryNamespace, "namespace", func(_ Machine, v *View, q *NamespaceQuery) error { return v.queryNamespace(q) }),
			QueryRow(queryNamespaces, "namespaces", func(_ Machine, v *View, q *NamespacesQuery) error { return v.queryNamespaces(q) }),
			QueryRow(queryRemind, "remind", func(_ Machine, v *View, _ *remindQuery) error {
				v.x.hub.Renotify(1)
				return nil
			}),
		},
		Errors: []ErrorType{NewErrorType(errorNotLeader, "not leader", codeNotLeader)},
	}
}

// WithEngine returns the engine's own table followed by those of some primitives.
func WithEngine(primitives []Primitive) []Primitive {
	return append([]Primitive{enginePrimitive()}, primitives...)
}

// table holds the tables of a program's primitives by number, including the engine's own.
type table struct {
	byID     [maxMachines]*Primitive
	base     [maxMachines]int // index of each primitive's first counter among all counters
	counters int
}

// newTable returns the table of some primitives. It panics if they are malformed or not distinct.
func newTable(primitives []Primitive) *table {
	t := new(table)
	for _, p := range WithEngine(primitives) {
		if err := p.Check(); err != nil {
			panic(err)
		}
		if t.byID[p.ID] != nil {
			panic(fmt.Sprintf("%s and %s are both machine %d", t.byID[p.ID].Name, p.Name, p.ID))
		}
		t.byID[p.ID] = &p
	}
	for id, p := range t.byID {
		t.base[id] = t.counters
		if p != nil {
			t.counters += len(p.Counters)
		}
	}
	return t
}

// primitive returns the primitive with a number, or nil.
func (t *table) primitive(id MachineID) *Primitive {
	if id >= maxMachines {
		return nil
	}
	return t.byID[id]
}

// command returns the type of a command, or nil if it is unknown.
func (t *table) command(cmd Command) *CommandType { return t.primitive(cmd.Machine).Command(cmd.Kind) }

// check refuses a command that is unknown to this program, or that may not reach the log in this
// way. Commands of machines must come from users, alone or in a transaction, or inside a command of
// the engine that names their other sender.
func (t *table) check(cmd Command) error {
	switch {
	case cmd.Machine != machineEngine:
		if err := t.sent(cmd, FromUsers); err != nil {
			return err
		}
		if t.byID[cmd.Machine].Global {
			return nil
		}
	case t.command(cmd) == nil:
		return unknownCommand(cmd)
	case cmd.Kind == kindFenced:
		_, of, err := decodeFenced(cmd.Body)
		if err == nil {
			err = t.sent(of, FromLeaders)
		}
		return err
	case cmd.Kind == kindTxn:
		parts, _, err := decodeTxn(cmd.Body, cmd.Namespace)
		for i := 0; i < len(parts) && err == nil; i++ {
			err = t.sent(parts[i], FromUsers)
		}
		if err != nil {
			return err
		}
	default:
		return nil
	}
	return CheckName("namespace", cmd.Namespace)
}

// isGlobal reports whether a command has no namespace.
func (t *table) isGlobal(cmd Command) bool {
	p := t.primitive(cmd.Machine)
	return p != nil && p.Global
}

// sent refuses a command that is unknown or that these senders may not send.
func (t *table) sent(cmd Command, from Senders) error {
	p := t.primitive(cmd.Machine)
	c := p.Command(cmd.Kind)
	switch {
	case c == nil:
		return unknownCommand(cmd)
	case c.From&from == 0 || cmd.Machine == machineEngine:
		return Errorf(ErrInvalid, "%s: command %d (%s) is not for %s", p.Name, c.Kind, c.Name, from)
	}
	return nil
}

// shrinks reports whether a command that has passed check may be applied while the disk is full.
func (t *table) shrinks(cmd Command) bool {
	switch {
	case cmd.Machine == machineEngine && cmd.Kind == kindDeliver:
		return t.deliveryShrinks(cmd.Body)
	case cmd.Machine == machineEngine && cmd.Kind == kindFenced:
		_, of, err := decodeFenced(cmd.Body)
		return err == nil && t.command(of).Shrinks
	case cmd.Machine != machineEngine || cmd.Kind != kindTxn:
		return t.command(cmd).Shrinks
	}
	parts, _, err := decodeTxn(cmd.Body, cmd.Namespace)
	for _, part := range parts {
		if !t.shrinks(part) {
			return false
		}
	}
	return err == nil
}
