package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// Kinds of the engine's own commands that contain others.
const (
	kindTxn     = 1
	kindDeliver = 3
	kindFenced  = 8
)

// TestCommandsComeFromTheirSenders sends each command of each primitive in each way: it reaches its
// machine only from the senders that its table names. From others it is refused before it is
// appended to the log, and again if it is in the log all the same.
func TestCommandsComeFromTheirSenders(t *testing.T) {
	primitives := []engine.Primitive{
		engine.TableOf[kv.Store](), engine.TableOf[queue.Store](), engine.TableOf[stream.Store](), toy.Primitive(), toy.VaultPrimitive(),
	}
	reached := make(map[string]bool) // commands that reached their machine
	for i := range primitives {
		p := primitives[i]
		primitives[i].New = func() engine.Machine {
			return reachable{p.New(), func(kind uint8) { reached[fmt.Sprint(p.ID, kind)] = true }}
		}
	}
	r := newRigOf(t, 1, primitives...)
	deliveries := uint64(0)
	ways := []struct {
		from engine.Senders
		name string
		in   func(cmd engine.Command) engine.Command
	}{
		{engine.FromUsers, "alone", func(cmd engine.Command) engine.Command { return cmd }},
		{engine.FromUsers, "transaction", func(cmd engine.Command) engine.Command {
			body := codec.AppendUvarint(codec.AppendUvarint(nil, 0), 1)
			return engine.Command{Kind: kindTxn, Namespace: cmd.Namespace, Body: codec.AppendBytes(body, cmd.AppendTo(nil))}
		}},
		{engine.FromLeaders, "duty", func(cmd engine.Command) engine.Command {
			return engine.Command{Kind: kindFenced, Body: cmd.AppendTo(codec.AppendUvarint(nil, 1))}
		}},
		{engine.FromShards, "delivery", func(cmd engine.Command) engine.Command {
			deliveries++
			body := codec.AppendUvarint(codec.AppendUvarint(nil, 0), deliveries) // of shard 0
			body = append(codec.AppendUvarint(body, 1), byte(engine.MachineTest))
			body = codec.AppendUvarint(codec.AppendUvarint(body, 0), 0) // namespace and lane
			body = codec.AppendBool(codec.AppendUvarint(codec.AppendUvarint(body, 1), deliveries), false)
			return engine.Command{Kind: kindDeliver, Body: codec.AppendBytes(codec.AppendBool(body, true), cmd.AppendTo(nil))}
		}},
	}
	refused := 0
	for _, p := range primitives {
		for _, c := range p.Commands {
			for _, way := range ways {
				clear(reached)
				cmd := way.in(engine.Command{Machine: p.ID, Kind: c.Kind, Namespace: "default"})
				may := c.From&way.from != 0
				what := fmt.Sprintf("%s: %s by way of %s", p.Name, c.Name, way.name)
				err := r.execs[0].Check(cmd)
				switch words := fmt.Sprintf("%s: command %d (%s) is not for %v", p.Name, c.Kind, c.Name, way.from); {
				// Delivered commands are refused in Apply, one by one.
				case may && err != nil, way.from == engine.FromShards && err != nil:
					t.Errorf("%s: Check = %v", what, err)
				case !may && way.from != engine.FromShards && (!errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), words)):
					t.Errorf("%s: Check = %v, want %q", what, err, words)
				}
				out := r.apply(0, cmd)
				if got := reached[fmt.Sprint(p.ID, c.Kind)]; got != may {
					t.Errorf("%s: reached its machine: %t, want %t; %v", what, got, may, out[0].Err)
				}
				if !may {
					refused++
				}
			}
		}
	}
	if refused < 50 {
		t.Errorf("%d ways were refused: the test has not tested it", refused)
	}
}

// reachable is a machine whose commands only record their arrival.
type reachable struct {
	engine.Machine
	reached func(kind uint8)
}

func (m reachable) Apply(_ *engine.Tx, cmd engine.Command) ([]byte, error) {
	m.reached(cmd.Kind)
	return nil, engine.Errorf(engine.ErrConflict, "that was all")
}
