package action

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestVerifyReportsCallers: sessions of workers that call on their own must be found by name, and
// nothing else must be.
func TestVerifyReportsCallers(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(r *machinetest.Rig, self machinetest.Row)
		want   string
	}{
		"no row": {func(r *machinetest.Rig, self machinetest.Row) {
			r.Tamper(0, machinetest.Row{Machine: self.Machine, Key: self.Key})
		}, `of worker "w" is not found by its name`},
		"a row of nobody": {
			func(r *machinetest.Rig, self machinetest.Row) {
				r.Tamper(0, machinetest.Row{Machine: self.Machine, Key: append(bytes.Clone(self.Key[:nameAt]), "other"...),
					Value: binary.AppendUvarint(nil, 99)})
			}, "has session 99, which does not exist",
		},
		"a row of another": {
			func(r *machinetest.Rig, self machinetest.Row) {
				r.Tamper(0, machinetest.Row{Machine: self.Machine, Key: append(bytes.Clone(self.Key[:nameAt]), "other"...),
					Value: self.Value})
			}, "which does not exist",
		},
		"no runs": {
			func(r *machinetest.Rig, self machinetest.Row) {
				for _, row := range r.Rows(0) {
					if row.Machine == self.Machine && row.Key[0] == rowSession {
						s := must(decode(row.Value, (*sessionRow).code))
						s.held = 0
						r.Tamper(0, machinetest.Row{Machine: row.Machine, Key: row.Key, Value: encode(nil, &s, (*sessionRow).code)})
					}
				}
			}, `of worker "w" has no runs`,
		},
		"a timer of nothing": {
			func(r *machinetest.Rig, self machinetest.Row) {
				r.Tamper(0, machinetest.Row{Key: timerAt(machinetest.Epoch+1e9, []byte("zzzzzzzzz")), Value: []byte{}})
			}, `timer with unknown token "zzzzzzzzz"`,
		},
		"a short token": {
			func(r *machinetest.Rig, self machinetest.Row) {
				r.Tamper(0, machinetest.Row{Key: timerAt(machinetest.Epoch+1e9, []byte{tokenAction}), Value: []byte{}})
			}, "timer with unknown token",
		},
		"two timers": {
			func(r *machinetest.Rig, self machinetest.Row) {
				for _, row := range r.Rows(0) {
					if row.Machine == 0 && row.Key[0] == 't' && engine.MachineID(row.Key[9]) == engine.MachineAction {
						r.Tamper(0, machinetest.Row{Key: timerAt(machinetest.Epoch+1e9, row.Key[14:]), Value: []byte{}})
					}
				}
			}, "has two timers",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, ctx := machinetest.New(t, 1, table()), t.Context()
			s := engine.StoreOf[Store](r.Router(), "n", 1<<20)
			if _, err := s.Register(ctx, "a"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Invoke(ctx, "a", nil); err != nil {
				t.Fatal(err)
			}
			if tasks, err := s.Await(ctx, "w", []string{"a"}); err != nil || len(tasks) != 1 {
				t.Fatalf("Await = %v, %v", tasks, err)
			}
			r.Verify()
			for _, row := range r.Rows(0) {
				if row.Machine == engine.MachineAction && row.Key[0] == rowSelf {
					c.damage(r, row)
				}
			}
			if found := r.Problems(0); len(found) == 0 || !strings.Contains(strings.Join(found, "\n"), c.want) {
				t.Errorf("verify reports %q, want %q", found, c.want)
			}
		})
	}
}

// timerAt returns the key of a timer of the machine, in the first namespace.
func timerAt(due int64, token []byte) []byte {
	k := append(key.AppendInt64([]byte{'t'}, due), byte(engine.MachineAction), 0, 0, 0, 0)
	return append(k, token...)
}
