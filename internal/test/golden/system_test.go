package golden

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/test/workload"
)

// TestSystemNamespacesAreClosed: no command of a client that skips its own checks, alone or in a
// transaction, and no message of another shard, writes to a system namespace.
func TestSystemNamespacesAreClosed(t *testing.T) {
	wire := engine.NewWire(primitive.All())
	samples, table := sampled(t, readLogs(t, filepath.Join(present, "log.gz")))
	for name, cmds := range samples {
		p := table[cmds[0].Machine]
		c := p.Command(cmds[0].Kind)
		if p.Global || cmds[0].Machine == 0 && c.From&engine.FromUsers == 0 {
			continue // has no namespace
		}
		for _, cmd := range cmds {
			for _, ns := range []string{engine.SystemNamespace, "_new"} {
				cmd.Namespace, cmd.Spread = ns, false
				if c.From&engine.FromUsers != 0 {
					if err := wire.Admit(cmd, workload.MaxValue); !errors.Is(err, engine.ErrInvalid) {
						t.Errorf("%s in %s: Admit = %v, want ErrInvalid", name, ns, err)
					}
					if err := wire.Admit(inTxn(cmd), workload.MaxValue); !errors.Is(err, engine.ErrInvalid) {
						t.Errorf("%s in a transaction in %s: Admit = %v, want ErrInvalid", name, ns, err)
					}
				}
				if c.From&engine.FromShards == 0 {
					continue
				}
				r := machinetest.New(t, 1, primitive.All()...)
				if _, stopped := r.Try(0, inLog(cmd, engine.FromShards)); stopped {
					t.Errorf("%s in %s: the message stops the shard", name, ns)
				}
				q := engine.NamespaceQuery{Name: ns}
				if err := r.Query(t.Context(), 0, &q); err != nil || q.Found {
					t.Errorf("%s in %s: the message is carried out (%v)", name, ns, err)
				}
			}
		}
	}
}
