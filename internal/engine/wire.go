package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/floedb/floe/internal/codec"
)

// Wire encodes the calls of a Door for transport between processes. Commands are already encoded.
// The tables of their primitives encode queries and errors.
type Wire struct{ table *table }

// NewWire returns the Wire for some primitives.
func NewWire(primitives []Primitive) *Wire { return &Wire{newTable(primitives)} }

// Describe returns a short description of a command, such as "kv put", or "kv put, queue enqueue"
// for a transaction.
func (w *Wire) Describe(cmd Command) string {
	if cmd.Machine == machineEngine && cmd.Kind == kindTxn {
		parts, _, _ := decodeTxn(cmd.Body, cmd.Namespace)
		var all []string
		for _, part := range parts {
			if s := w.Describe(part); !slices.Contains(all, s) && len(all) < mostDescribed {
				all = append(all, s)
			}
		}
		return strings.Join(all, ", ")
	}
	p := w.table.primitive(cmd.Machine)
	if c := p.Command(cmd.Kind); c != nil {
		return p.Name + " " + c.Name
	}
	return "unknown"
}

// mostDescribed is the maximum number of different parts named for a transaction.
const mostDescribed = 8

// Kinds of the engine's own queries and errors.
const (
	queryNamespace uint8 = iota + 1
	queryNamespaces
	queryRemind
)

const errorNotLeader uint8 = 1

// Kind distinguishes the query from other queries of the engine.
func (*NamespaceQuery) Kind() uint8 { return queryNamespace }

// Arguments codes the arguments.
func (q *NamespaceQuery) Arguments(f *codec.Fields) {
	f.Text("name", &q.Name)
	f.Bool("wait", &q.Wait)
}

// Results codes the results.
func (q *NamespaceQuery) Results(f *codec.Fields) {
	f.Bool("found", &q.Found)
	q.Info.code(f)
	if f.More(q.Gone) {
		f.Bool("gone", &q.Gone)
	}
}

// Kind distinguishes the query from other queries of the engine.
func (*NamespacesQuery) Kind() uint8 { return queryNamespaces }

// Arguments codes the arguments.
func (q *NamespacesQuery) Arguments(f *codec.Fields) {
	f.Text("prefix", &q.Prefix)
	f.Text("after", &q.After)
	f.Int("limit", &q.Limit, codec.Range{Max: MaxNamespaces})
}

// Results codes the results.
func (q *NamespacesQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "namespaces", &q.Infos, (*NamespaceInfo).code)
}

// Kind distinguishes the query from other queries of the engine.
func (*remindQuery) Kind() uint8 { return queryRemind }

// Arguments codes the arguments.
func (q *remindQuery) Arguments(f *codec.Fields) { f.Namespace(&q.namespace) }

// Results codes nothing.
func (*remindQuery) Results(*codec.Fields) {}

func (i *NamespaceInfo) code(f *codec.Fields) {
	f.Text("name", &i.Name)
	f.Bool("spread", &i.Spread)
	f.Time("created_at_ms", &i.CreatedAt)
	i.Counts.code(f)
}

// AppendQuery appends a query with its arguments: machine u8 | kind u8 | arguments.
func AppendQuery(dst []byte, q Query) []byte {
	return codec.EncodeFields(append(dst, byte(q.Machine()), q.Kind()), &q, codeArguments)
}

func codeArguments(q *Query, f *codec.Fields) { (*q).Arguments(f) }
func codeResults(q *Query, f *codec.Fields)   { (*q).Results(f) }

// DecodeQuery decodes the output of AppendQuery and checks the ranges of the arguments. Errors:
// ErrInvalid.
func (w *Wire) DecodeQuery(b []byte) (Query, error) {
	r := codec.NewReader(b)
	id, kind := MachineID(r.Byte()), r.Byte()
	p := w.table.primitive(id)
	q := p.Query(kind)
	if q == nil || r.Err() != nil {
		return nil, Errorf(ErrInvalid, "unknown query: machine %d kind %d", id, kind)
	}
	err := codec.DecodeFields(r.Rest(), &q, codeArguments)
	if err == nil {
		err = codec.CheckFields(&q, true, codeArguments)
	}
	if err != nil {
		return nil, Errorf(ErrInvalid, "%s: query %s: %v", p.Name, p.Queries[kind-1].Name, err)
	}
	return q, nil
}

// AppendResults appends the results of a query.
func AppendResults(dst []byte, q Query) []byte { return codec.EncodeFields(dst, &q, codeResults) }

// DecodeResults sets the results of a query. Its byte fields do not alias b.
func DecodeResults(q Query, b []byte) error {
	if err := codec.DecodeFields(b, &q, codeResults); err != nil {
		return fmt.Errorf("results of query %d of machine %d: %w", q.Kind(), q.Machine(), err)
	}
	return nil
}

// Admit checks a command from a user in another process as strictly as the functions that make
// commands check their arguments here. maxPayload is the largest value or payload. Errors:
// ErrInvalid.
func (w *Wire) Admit(cmd Command, maxPayload int) error {
	if w.table.isGlobal(cmd) {
		return w.admit(cmd, maxPayload)
	}
	if err := CheckWritable(cmd.Namespace); err != nil {
		return err
	}
	if err := w.admit(cmd, maxPayload); err != nil || cmd.Machine != machineEngine || cmd.Kind != kindTxn {
		return err
	}
	parts, conditions, err := decodeTxn(cmd.Body, cmd.Namespace)
	for i := 0; i < len(parts) && err == nil; i++ {
		if refused := w.admit(parts[i], maxPayload); refused != nil {
			err = partError(i, conditions, refused)
		}
	}
	return err
}

// Reaches reports whether a command, or a part of a transaction, may affect or read namespaces
// other than its own.
func (w *Wire) Reaches(cmd Command) bool {
	if c := w.table.command(cmd); c != nil && c.Reaches != nil {
		return true
	}
	if cmd.Machine != machineEngine || cmd.Kind != kindTxn {
		return false
	}
	parts, _, err := decodeTxn(cmd.Body, cmd.Namespace)
	for _, part := range parts {
		if w.Reaches(part) {
			return true
		}
	}
	return err != nil // it is refused anyway
}

// Reached returns the namespaces other than its own that the effects of a command may create.
func (w *Wire) Reached(cmd Command) (all []string) {
	if cmd.Machine != machineEngine || cmd.Kind != kindTxn {
		return w.reached(cmd)
	}
	parts, _, _ := decodeTxn(cmd.Body, cmd.Namespace)
	for _, part := range parts {
		all = append(all, w.reached(part)...)
	}
	return all
}

func (w *Wire) reached(cmd Command) []string {
	if c := w.table.command(cmd); c != nil && c.Reaches != nil {
		return c.Reaches(cmd)
	}
	return nil
}

func (w *Wire) admit(cmd Command, maxPayload int) error {
	p := w.table.primitive(cmd.Machine)
	if p == nil {
		return unknownCommand(cmd)
	}
	return p.Admit(cmd, maxPayload)
}

// txnHeader is the maximum size of the header before the parts of a transaction.
const txnHeader = 8

// admitTxn checks a transaction without its parts.
func admitTxn(cmd Command, _ int) error {
	if len(cmd.Body) > MaxTxnBytes+txnHeader {
		return Errorf(ErrInvalid, "transaction: more than %d bytes", MaxTxnBytes)
	}
	return nil
}

// admitNamespace leaves the name to Wire.Admit, and the namespace's existence to Apply.
func admitNamespace(cmd Command, _ int) error {
	_, err := decodeCreateNamespace(cmd.Body)
	return err
}

// NotLeaderError is ErrUnavailable because the call reached a replica that is not, or no longer,
// the leader. The operation did not happen.
type NotLeaderError struct {
	Shard  ShardID
	Node   uint64 // that received the call
	Leader uint64 // node that it believes to be the leader; 0: unknown
}

func (e *NotLeaderError) Error() string {
	leader := "no leader is known"
	if e.Leader != 0 {
		leader = fmt.Sprintf("node %d is", e.Leader)
	}
	return fmt.Sprintf("shard %d: node %d is not its leader (%s)", e.Shard, e.Node, leader)
}

// Unwrap returns ErrUnavailable.
func (*NotLeaderError) Unwrap() error { return ErrUnavailable }

func codeNotLeader(c *codec.Coder, e *NotLeaderError) {
	shard := uint64(e.Shard)
	if c.Uvarint(&shard); c.Reading() {
		e.Shard = ShardID(shard)
	}
	c.Uvarint(&e.Node)
	c.Uvarint(&e.Leader)
}

// sentinels are the errors that an error can match, with their codes, which are part of the
// protocol. An error that matches several has the code of the first.
var sentinels = []struct {
	code byte
	err  error
}{
	{1, errMisrouted},
	{2, ErrInUse},
	{3, ErrReadOnly},
	{4, ErrUnknownOutcome},
	{5, ErrUnavailable},
	{6, ErrNotFound},
	{7, ErrConflict},
	{8, ErrExists},
	{9, ErrInvalid},
	{10, ErrBusy},
	{11, ErrUnauthorized},
	{12, ErrClosed},
	{13, context.DeadlineExceeded},
	{14, context.Canceled},
}

// Forms of an encoded error.
const (
	plainError = iota
	codedError
	txnError
)

// AppendError appends an error:
//
//	0 | code u8 (0: matches nothing) | message
//	1 | machine u8 | kind u8 | fields
//	2 | position uvarint | condition u8 | error      *TxnError
func (w *Wire) AppendError(dst []byte, err error) []byte {
	var txn *TxnError
	if errors.As(err, &txn) {
		dst = codec.AppendUvarint(append(dst, txnError), uint64(txn.Index))
		return w.AppendError(codec.AppendBool(dst, txn.Condition), txn.Err)
	}
	for id, p := range w.table.byID {
		if p == nil {
			continue
		}
		for _, t := range p.Errors {
			if e := t.find(err); e != nil {
				c := codec.NewEncoder(append(dst, codedError, byte(id), t.Kind))
				t.code(&c, e)
				return c.Encoded()
			}
		}
	}
	return append(append(dst, plainError, codeOf(err)), err.Error()...)
}

// codeOf returns the code of the first sentinel that the error matches, or 0.
func codeOf(err error) byte {
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return s.code
		}
	}
	return 0
}

// DecodeError decodes the output of AppendError. If that fails, it returns a different error.
func (w *Wire) DecodeError(b []byte) error { return w.decodeError(b, true) }

func (w *Wire) decodeError(b []byte, txnAllowed bool) error {
	r := codec.NewReader(b)
	switch form := r.Byte(); {
	case r.Err() != nil:
	case form == plainError:
		code := r.Byte()
		if r.Err() == nil {
			return plain(code, string(r.Rest()))
		}
	case form == codedError:
		id, kind := MachineID(r.Byte()), r.Byte()
		if t := w.table.primitive(id).errorType(kind); t != nil && r.Err() == nil {
			c, e := codec.NewDecoder(r.Rest()), t.make()
			if t.code(&c, e); c.Done() == nil {
				return e
			}
		}
	case form == txnError && txnAllowed:
		index, condition := r.Uvarint(), r.Bool()
		if r.Err() == nil && index < MaxTxnOps {
			return &TxnError{Index: int(index), Condition: condition, Err: w.decodeError(r.Rest(), false)}
		}
	}
	return Errorf(ErrUnknownOutcome, "outcome unknown: malformed error: %.64x", b)
}

func plain(code byte, msg string) error {
	for _, s := range sentinels {
		if s.code == code {
			return &Error{Kind: s.err, Msg: msg}
		}
	}
	return errors.New(msg)
}
