package engine

import (
	"fmt"

	"github.com/floedb/floe/internal/codec"
)

// MachineID identifies a state machine in the log and in state keys. The numbers are part of the
// on-disk format.
type MachineID uint8

// The machines of floe.
const (
	machineEngine     MachineID = 0 // transactions, timers, outbox, namespaces
	MachineKV         MachineID = 1
	MachineStream     MachineID = 2
	MachineQueue      MachineID = 3
	MachineTS         MachineID = 4
	MachineAction     MachineID = 5
	MachineWorkflow   MachineID = 6
	MachineProcessing MachineID = 7
	MachineKeys       MachineID = 8  // API keys
	MachineTest2      MachineID = 14 // toy machines of tests
	MachineTest       MachineID = 15
	maxMachines                 = 16
)

// LSN is a log sequence number: it counts the state changes applied in a shard. Every command,
// every operation of a transaction and every fired timer takes the next one. So no two changes of a
// shard share an LSN, and none is reused.
type LSN uint64

// ShardID numbers the shards of a node from 0.
type ShardID uint16

// commandVersion is the layout version of an encoded command. The Kind is the version of a
// machine's behaviour.
const commandVersion = 1

// Command is one write of one machine, as stored in the log:
//
//	version u8 | machine u8 | kind u8 | flags u8 (1: spread) | namespace (uvarint length, bytes) | body ...
//
// A machine whose behaviour changes gets a new Kind and keeps the old one for old logs.
type Command struct {
	Machine   MachineID
	Kind      uint8
	Spread    bool   // routed by name over all shards: the sender assumes that the namespace is spread
	Namespace string // empty only for the engine's own commands
	Body      []byte
}

// AppendTo appends the encoded command.
func (c Command) AppendTo(dst []byte) []byte {
	dst = append(dst, commandVersion, byte(c.Machine), c.Kind)
	dst = codec.AppendBool(dst, c.Spread)
	dst = codec.AppendString(dst, c.Namespace)
	return append(dst, c.Body...)
}

// Size returns the number of bytes AppendTo appends, rounded up.
func (c Command) Size() int { return 6 + len(c.Namespace) + len(c.Body) }

// DecodeCommand decodes the output of AppendTo; Body aliases b.
func DecodeCommand(b []byte) (Command, error) { return decodeCommand(b, "") }

// decodeCommand is DecodeCommand for a caller that may already have the namespace's name as a
// string.
func decodeCommand(b []byte, namespace string) (Command, error) {
	r := codec.NewReader(b)
	if v := r.Byte(); v != commandVersion && r.Err() == nil {
		return Command{}, fmt.Errorf("%w: command version %d, this program supports %d", codec.ErrCorrupt, v, commandVersion)
	}
	c := Command{Machine: MachineID(r.Byte()), Kind: r.Byte(), Spread: r.Bool()}
	if name := r.Bytes(); string(name) == namespace {
		c.Namespace = namespace
	} else {
		c.Namespace = string(name)
	}
	c.Body = r.Rest()
	if err := r.Err(); err != nil {
		return Command{}, fmt.Errorf("command: %w", err)
	}
	return c, nil
}

// Op is an operation of a transaction: a command, the name that routes it in a spread namespace,
// and the decoder of its result.
type Op struct {
	Command Command
	Route   string // key, queue, stream ...: hashed in a spread namespace; "" if any shard will do
	// RouteTo returns the Route if it depends on the namespace and the number of shards; otherwise
	// it is nil.
	RouteTo func(namespace string, shards int) string
	Payload int // bytes of the value or payload, for the node's max_value_size
	// Limited returns the command's body if the body must carry the node's max_value_size;
	// otherwise it is nil.
	Limited func(maxPayload int) []byte
	Err     error // set if the arguments are invalid: Commit returns it and proposes nothing
	Decode  func(result []byte) (any, error)
}

// route returns a name that routes to the shard of the operation in a spread namespace.
func (op *Op) route(namespace string, shards int) string {
	if op.RouteTo != nil {
		return op.RouteTo(namespace, shards)
	}
	return op.Route
}

// Limit returns the command for a node with the given max_value_size, or ErrInvalid if the payload
// exceeds it.
func (op Op) Limit(maxPayload int) (Command, error) {
	if op.Err != nil {
		return Command{}, op.Err
	}
	if err := CheckPayload(op.Payload, maxPayload); err != nil {
		return Command{}, err
	}
	if op.Limited != nil {
		op.Command.Body = op.Limited(maxPayload)
	}
	return op.Command, nil
}

// CheckPayload returns ErrInvalid if a value or payload of n bytes exceeds a node's max_value_size.
func CheckPayload(n, maxPayload int) error {
	if n > maxPayload {
		return Errorf(ErrInvalid, "value of %d bytes exceeds max_value_size (%d bytes)", n, maxPayload)
	}
	return nil
}

// Entry is the content of one log entry: commands that were proposed together and share the
// leader's timestamp.
//
//	version u8 | origin uvarint | sequence uvarint | stamp varint (ms) | command (uvarint length, bytes) ...
//
// Origin and Sequence let the proposing node find the callers waiting for the outcomes.
type Entry struct {
	Origin   uint64 // node that proposed it
	Sequence uint64 // unique per origin since it started
	Stamp    int64  // leader's time, ms since the epoch
	Commands [][]byte
}

const entryVersion = 1

// AppendHeader appends everything before the commands.
func (e *Entry) AppendHeader(dst []byte) []byte {
	dst = append(dst, entryVersion)
	dst = codec.AppendUvarint(dst, e.Origin)
	dst = codec.AppendUvarint(dst, e.Sequence)
	return codec.AppendVarint(dst, e.Stamp)
}

// AppendTo appends the encoded entry.
func (e *Entry) AppendTo(dst []byte) []byte {
	dst = e.AppendHeader(dst)
	for _, c := range e.Commands {
		dst = codec.AppendBytes(dst, c)
	}
	return dst
}

// Decode reads an entry, reusing e.Commands; the commands alias b.
func (e *Entry) Decode(b []byte) error {
	r := codec.NewReader(b)
	if v := r.Byte(); v != entryVersion && r.Err() == nil {
		return fmt.Errorf("%w: entry version %d, this program supports %d", codec.ErrCorrupt, v, entryVersion)
	}
	e.Origin, e.Sequence, e.Stamp = r.Uvarint(), r.Uvarint(), r.Varint()
	e.Commands = e.Commands[:0]
	for r.Len() > 0 {
		e.Commands = append(e.Commands, r.Bytes())
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("entry: %w", err)
	}
	return nil
}
