package auth

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rig"
)

// TestDamages: what Verify reports of each row that is damaged.
func TestDamages(t *testing.T) {
	row := func(kind byte) func(k []byte) bool { return func(k []byte) bool { return k[0] == kind } }
	rig.RunDamages(t, "testdata/damages", engine.MachineKeys, map[string]rig.RowKind{
		"store": rig.RowOf(row(rowStore), (*store).code),
		"key":   rig.RowOf(row(rowKeys), (*storedKey).code),
		"used":  rig.RowOf(row(rowUsed), (*ms).code),
		"made":  rig.BareRow(row(rowMade)),
		"ended": rig.RowOf(row(rowEnded), (*ms).code),
	}, func(t *testing.T) *rig.Rig {
		r := rig.New(t, 1, Primitive())
		do := func(kind uint8, code func(*codec.Coder)) {
			t.Helper()
			if _, err := r.Propose(t.Context(), 0, command(kind, code)); err != nil {
				t.Fatal(err)
			}
		}
		const admin, writer = "0123456789abcdef", "fedcba9876543210"
		now := time.UnixMilli(r.Now())
		do(kindBootstrap, (&createCommand{key: Key{ID: admin, Name: "root", Role: Admin}}).code)
		do(kindCreate, (&createCommand{key: Key{ID: writer, Role: Write, Namespaces: []string{"m", "n"}, Expires: now.Add(time.Hour)}}).code)
		do(kindUsed, (&usedCommand{keys: []use{{admin, now}}}).code)
		do(kindMake, (&makeCommand{id: admin, namespaces: []string{"m"}}).code)
		do(kindEnd, (&endCommand{id: admin, hash: [sha256.Size]byte{1}, ends: now.Add(time.Hour)}).code)
		return r
	})
}
