package auth

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestDamages: what Verify reports of each row that is damaged.
func TestDamages(t *testing.T) {
	row := func(kind byte) func(k []byte) bool { return func(k []byte) bool { return k[0] == kind } }
	machinetest.RunDamages(t, "testdata/damages", engine.MachineKeys, map[string]machinetest.RowKind{
		"store": machinetest.RowOf(row(rowStore), (*store).code),
		"key":   machinetest.RowOf(row(rowKeys), (*storedKey).code),
		"used":  machinetest.RowOf(row(rowUsed), (*ms).code),
		"made":  machinetest.BareRow(row(rowMade)),
		"ended": machinetest.RowOf(row(rowEnded), (*ms).code),
	}, func(t *testing.T) *machinetest.Rig {
		r := machinetest.New(t, 1, Primitive())
		do := func(cmd engine.Command) {
			t.Helper()
			if _, err := r.Propose(t.Context(), 0, cmd); err != nil {
				t.Fatal(err)
			}
		}
		const admin, writer = "0123456789abcdef", "fedcba9876543210"
		now := time.UnixMilli(r.Now())
		do(withKey(bootstrap, Key{ID: admin, Name: "root", Role: Admin}))
		do(withKey(create, Key{ID: writer, Role: Write, Namespaces: []string{"m", "n"}, Expires: now.Add(time.Hour)}))
		do(commandOf(used, "", usedBody{[]use{{admin, now}}}))
		do(commandOf(makes, admin, makeBody{[]string{"m"}}))
		do(commandOf(end, admin, endBody{[sha256.Size]byte{1}, now.Add(time.Hour)}))
		return r
	})
}
