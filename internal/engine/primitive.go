package engine

import (
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/codec"
)

// Primitive is the one table of a primitive: all that the engine, the shards, what carries them
// between processes and the tests know of it beside what its Machine does. Kinds and counters are
// numbered as their places in the lists say, which are part of the formats on disk and between
// processes: what is new goes to the end.
type Primitive struct {
	ID   MachineID // its number in the log and in the state's keys
	Name string    // as it is called in messages and statistics, such as "queue"
	// New returns the machine of a shard.
	New func() Machine
	// Global says that its commands are about the whole node: they have no namespace, are no part
	// of a transaction, and are applied in GlobalShard.
	Global bool

	Commands []CommandType // kinds count from 1
	Queries  []QueryType   // likewise
	Errors   []ErrorType   // likewise
	Counters []CounterType // they count from 0

	// Caches reports whether the row k is one of those that are read again and again, by their
	// keys: it is kept in memory when it is. Its key has to be at least 5 bytes long, best kind,
	// number of the namespace (u32) and name. nil: there are none.
	Caches func(k []byte) bool
	// Kept is what the machines of a node keep in memory beside their rows, of all its shards; nil:
	// nothing to speak of.
	Kept Kept
	// Given takes what the host program gives the machines of a node, of a type that the primitive
	// knows; nil: nothing. It is called before there are any machines.
	Given func(v any)
	// Reads is where Counts shows how many reads of it a node has answered; nil: they are not
	// counted.
	Reads func(*Counts) *int64
}

// Kept is memory with a limit: beyond the limit what can be read again is forgotten.
type Kept interface {
	// SetLimit bounds it, in bytes. It is called before there are any machines.
	SetLimit(bytes int64)
	// Used returns how many bytes there are, and how many there may be.
	Used() (bytes, limit int64)
}

// CommandType is one kind of commands of a primitive.
type CommandType struct {
	Kind uint8
	Name string // such as "enqueue"
	From Senders
	// Shrinks says that a node whose disk is full takes it: it frees space, or takes so little that
	// what a node keeps in reserve is enough for as many of them as there can be.
	Shrinks bool
	// AtHome says that commands of other shards go to the home of their namespace, wherever what
	// they are about lives: it knows the namespace's placement, and the sender need not.
	AtHome bool
	// Reaches says that what it sets going may read or write other namespaces than its own: only
	// who may do so in all may send it. It returns those that are written to, nil for a command
	// that is malformed.
	Reaches func(cmd Command) (written []string)
	// Admit checks a command that comes from a user in another process as the functions that make
	// commands check their arguments: nothing in it is to be trusted. maxPayload is the largest
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
// draw conclusions from the end of the rows.
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
// methods for this, because those would be part of the public API.
type ErrorType struct {
	Kind uint8
	Name string

	find func(err error) any // the one that err is or wraps, nil if there is none
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

// Counter is a number that a machine keeps per namespace, so that nothing is ever scanned to be
// counted. Each machine has its own, from 0.
type Counter uint8

// CounterType is a counter of a primitive.
type CounterType struct {
	Counter Counter
	Name    string // such as "dead keys"
	// Field is where Counts shows it, summed over the shards of the namespace.
	Field func(*Counts) *int64
}

// Command returns a kind of commands, nil if there is none of that number.
func (p *Primitive) Command(kind uint8) *CommandType {
	if p == nil || kind == 0 || int(kind) > len(p.Commands) {
		return nil
	}
	return &p.Commands[kind-1]
}

// Query returns an empty query of a kind, nil if there is none of that number.
func (p *Primitive) Query(kind uint8) Query {
	if p == nil || kind == 0 || int(kind) > len(p.Queries) {
		return nil
	}
	return p.Queries[kind-1].New()
}

// errorType returns a kind of errors, nil if there is none of that number.
func (p *Primitive) errorType(kind uint8) *ErrorType {
	if p == nil || kind == 0 || int(kind) > len(p.Errors) {
		return nil
	}
	return &p.Errors[kind-1]
}

// Admit checks a command that comes from a user in another process. Errors: ErrInvalid, also for a
// kind that there is not or that is not for users.
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

// Check returns what is wrong with the table itself, nil if it is one.
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

// enginePrimitive is the engine's own: transactions, timers, outbox, namespaces. What its commands
// do is in applyEngine.
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

// WithEngine returns the tables of some primitives behind the engine's own.
func WithEngine(primitives []Primitive) []Primitive {
	return append([]Primitive{enginePrimitive()}, primitives...)
}

// table is what a program knows of primitives, by their numbers; the engine's own is one of them.
type table struct {
	byID     [maxMachines]*Primitive
	base     [maxMachines]int // where the counters of each begin among those of all
	counters int
}

// newTable returns the table of some primitives. It panics if they are not well-formed, or not
// different ones.
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

// primitive returns the one of a number, nil if there is none.
func (t *table) primitive(id MachineID) *Primitive {
	if id >= maxMachines {
		return nil
	}
	return t.byID[id]
}

// command returns what kind of command it is, nil if it is none that is known.
func (t *table) command(cmd Command) *CommandType { return t.primitive(cmd.Machine).Command(cmd.Kind) }

// check refuses a command that no machine of this program knows, or that may not get into the log
// in this way: those of machines come from users, alone or in a transaction, or in a command of the
// engine that says who else has sent them.
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

// isGlobal reports whether a command is one that has no namespace.
func (t *table) isGlobal(cmd Command) bool {
	p := t.primitive(cmd.Machine)
	return p != nil && p.Global
}

// sent refuses a command that is not known, or does not come from there.
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
