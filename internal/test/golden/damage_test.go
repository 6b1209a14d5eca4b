package golden

import (
	"fmt"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestVerifyNamesRowsThatDoNotDecode damages a row of each kind in the state of the golden log.
// Verify must report it, and continue.
func TestVerifyNamesRowsThatDoNotDecode(t *testing.T) {
	r := applied(t, readLogs(t, present+"/log.gz"), false)
	names := make(map[engine.MachineID]string)
	for _, p := range engine.WithEngine(primitive.All()) {
		names[p.ID] = p.Name
	}
	seen := make(map[string]bool)
	r.Verify()
	for shard := range engine.ShardID(shards) {
		for _, row := range r.Rows(shard) {
			kind := fmt.Sprintf("%s row %q", names[row.Machine], row.Key[:1])
			if seen[kind] || len(row.Value) == 0 {
				continue
			}
			seen[kind] = true
			r.Tamper(shard, machinetest.Row{Machine: row.Machine, Key: row.Key, Value: slices.Repeat([]byte{0xff}, 11)})
			if len(r.Problems(shard)) == 0 {
				t.Errorf("Verify says nothing about %s, %x", kind, row.Key)
			}
			r.Tamper(shard, row)
		}
	}
}
