package golden

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/test/workload"
)

// TestMalformed truncates and extends the body of each kind of command in the golden log. Put
// straight into a log, a body that does not decode stops the shard. One that clients may send must
// be refused by Admit before, alone and in a transaction: a client must not be able to stop a node.
func TestMalformed(t *testing.T) {
	wire, stops := engine.NewWire(primitive.All()), make(map[string]bool)
	samples, table := sampled(t, readLogs(t, filepath.Join(present, "log.gz")))
	var r *machinetest.Rig
	for name, cmds := range samples {
		c := table[cmds[0].Machine].Commands[cmds[0].Kind-1]
		for _, cmd := range cmds {
			cmd.Spread = false // the shard is the only one, and creates the namespace
			cmd = placed(table, cmd)
			for _, body := range mutations(cmd.Body) {
				bad := cmd
				bad.Body = body
				admitted := wire.Admit(bad, workload.MaxValue)
				if admitted != nil && !errors.Is(admitted, engine.ErrInvalid) {
					t.Errorf("%s: Admit(%x) = %v, want ErrInvalid", name, body, admitted)
				}
				ways := []engine.Command{inLog(bad, c.From)}
				if c.From&engine.FromUsers != 0 && cmd.Machine != 0 && !table[cmd.Machine].Global {
					txn := inTxn(bad)
					if got := wire.Admit(txn, workload.MaxValue); (got == nil) != (admitted == nil) {
						t.Errorf("%s: Admit(%x) = %v, in a transaction %v", name, body, admitted, got)
					}
					ways = append(ways, txn)
				}
				for i, way := range ways {
					if r == nil || way.Kind == kindDeliver { // the number of a delivery is the first
						r = machinetest.New(t, 1, primitive.All()...)
					}
					_, stopped := r.Try(0, way)
					if stopped {
						r = nil
					}
					if stopped && c.From&engine.FromUsers != 0 && admitted == nil {
						t.Errorf("%s: a client's body %x stops the shard", name, body)
					}
					if stopped && i == 0 {
						stops[name] = true
					}
				}
			}
		}
		if !stops[name] && c.From != engine.FromMachines && bodies[name] == "" {
			t.Errorf("%s: no body that is cut or extended stops the shard", name)
		}
	}
}

// sampled returns a few commands of each kind in logs, by name, and the primitives.
func sampled(t *testing.T, logs [][][]byte) (map[string][]engine.Command, map[engine.MachineID]engine.Primitive) {
	samples, table := make(map[string][]engine.Command), make(map[engine.MachineID]engine.Primitive)
	for _, p := range engine.WithEngine(primitive.All()) {
		table[p.ID] = p
	}
	eachCommand(t, logs, func(cmd engine.Command) {
		p := table[cmd.Machine]
		name := p.Name + " " + p.Command(cmd.Kind).Name
		if len(samples[name]) < 1 || len(samples[name]) < 3 && len(cmd.Body) > 2*len(samples[name][0].Body) {
			samples[name] = append(samples[name], cmd)
		}
	})
	return samples, table
}

// placed returns a command with a namespace: parts of transactions have none of their own.
func placed(table map[engine.MachineID]engine.Primitive, cmd engine.Command) engine.Command {
	if cmd.Namespace == "" && !table[cmd.Machine].Global && cmd.Machine != 0 {
		cmd.Namespace = workload.Plain // a part of a transaction
	}
	return cmd
}

// bodies gives the reasons why no body of a kind stops a shard.
var bodies = map[string]string{
	"engine fire":        "it has none, and what there is does not matter",
	"engine transaction": "it is decoded before it is proposed, on every node",
	"engine duty":        "likewise",
}

// mutations returns bodies as an older or newer layout, or damage, could produce them.
func mutations(body []byte) [][]byte {
	all := [][]byte{append(body[:len(body):len(body)], 0), append(body[:len(body):len(body)], 0xff, 0xff)}
	for _, n := range []int{0, 1, len(body) / 3, len(body) / 2, len(body) - 1} {
		if 0 <= n && n < len(body) {
			all = append(all, body[:n])
		}
	}
	return all
}

// inLog returns the log command that contains a command, depending on its senders.
func inLog(cmd engine.Command, from engine.Senders) engine.Command {
	switch {
	case cmd.Machine == 0 || from&engine.FromUsers != 0:
		return cmd
	case from&engine.FromLeaders != 0:
		return engine.Command{Kind: kindFenced, Body: cmd.AppendTo(codec.AppendUvarint(nil, 1))}
	}
	// From shard 0, the first delivery: one lane, of the machine, with one message, 1, that needs
	// no reply.
	body := []byte{0, 1, 1, byte(cmd.Machine), 0, 0, 1, 1, 0, 1}
	return engine.Command{Kind: kindDeliver, Body: codec.AppendBytes(body, cmd.AppendTo(nil))}
}

func inTxn(part engine.Command) engine.Command {
	ns := part.Namespace
	part.Namespace = ""
	return engine.Command{Kind: kindTxn, Spread: part.Spread, Namespace: ns, Body: codec.AppendBytes([]byte{0, 1}, part.AppendTo(nil))}
}
