package check

import (
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
)

func applied(index, hash uint64) engine.Applied {
	return engine.Applied{Index: index, Term: 1, LSN: engine.LSN(index), Hash: hash}
}

func TestClusterStates(t *testing.T) {
	c := NewCluster()
	for _, step := range []struct {
		what  string
		shard engine.ShardID
		node  uint64
		state engine.Applied
		want  string
	}{
		{"first", 0, 1, applied(5, 50), ""},
		{"equal", 0, 2, applied(5, 50), ""},
		{"other shard", 1, 2, applied(5, 51), ""},
		{"lags", 0, 3, applied(4, 40), ""},
		{"catches up", 0, 3, applied(5, 50), ""},
		{"goes on", 0, 1, applied(6, 60), ""},
		{"hash differs", 0, 2, applied(6, 61), "nodes 1 and 2 differ at index 6"},
		{"goes back", 0, 1, applied(5, 50), "gone back from index 6 to 5"},
		{"term differs", 0, 3, engine.Applied{Index: 6, Term: 2, LSN: 6, Hash: 60}, "nodes 1 and 3 differ"},
		{"LSN differs", 0, 3, engine.Applied{Index: 6, Term: 1, LSN: 7, Hash: 60}, "nodes 1 and 3 differ"},
	} {
		expect(t, step.what, c.Applied(step.shard, step.node, step.state), step.want)
	}
	c.Restart(1)
	expect(t, "after a restart", c.Applied(0, 1, applied(4, 40)), "")
	expect(t, "replayed otherwise", c.Applied(0, 1, applied(5, 52)), "differ at index 5")
	c.Lost(0, 4)
	expect(t, "after a loss", c.Applied(0, 1, applied(5, 52)), "")
	c.Restart(1)
	expect(t, "before what was lost", c.Applied(0, 1, applied(4, 41)), "differ at index 4")
}

func TestClusterLeaders(t *testing.T) {
	c := NewCluster()
	expect(t, "first", c.Leader(0, 2, 1), "")
	expect(t, "again", c.Leader(0, 2, 1), "")
	expect(t, "next term", c.Leader(0, 3, 2), "")
	expect(t, "other shard", c.Leader(1, 2, 2), "")
	expect(t, "second leader", c.Leader(0, 2, 2), "nodes 1 and 2 both lead in term 2")
}

// expect checks an error: "" means none.
func expect(t *testing.T, what string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: error %v, want %q", what, err, want)
	}
}
