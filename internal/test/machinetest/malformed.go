package machinetest

import (
	"errors"
	"math"
	"testing"

	"github.com/floedb/floe/internal/engine"
)

// RefusesMalformed applies an undecodable body as each kind of command that users or leaders send
// to a machine, each in its own rig. The command must be refused with ErrInvalid or stop the shard.
// A command from another process must be refused on admission.
func RefusesMalformed(t *testing.T, m engine.MachineID, open func() *Rig) {
	t.Helper()
	for _, p := range open().config.Primitives {
		if p.ID != m {
			continue
		}
		for _, c := range p.Commands {
			r := open()
			cmd := engine.Command{Machine: m, Kind: c.Kind, Namespace: "n", Body: []byte{0xff}}
			switch {
			case c.From&engine.FromUsers != 0:
				if err := r.wire.Admit(cmd, math.MaxInt32); !errors.Is(err, engine.ErrInvalid) {
					t.Errorf("%s %s: a malformed body from another process is admitted: %v", p.Name, c.Name, err)
				}
			case c.From&engine.FromLeaders != 0:
				cmd = engine.Fenced(r.term, cmd)
			default: // sent by other shards and commands, which are trusted
				continue
			}
			if out, stopped := r.Try(0, cmd); !stopped && !errors.Is(out.Err, engine.ErrInvalid) {
				t.Errorf("%s %s: a malformed body is %v: %x", p.Name, c.Name, out.Err, out.Result)
			}
		}
	}
}
