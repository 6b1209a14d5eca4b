package floe

// TB is the part of testing.TB that OpenMemory needs; *testing.T, *testing.B and *testing.F
// implement it.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// OpenMemory returns a new in-memory node for a test, and closes it when the test ends:
//
//	node := floe.OpenMemory(t)
//
// It is a regular node with one shard. It opens in a millisecond or two and needs no directory and
// no network.
func OpenMemory(t TB) *Node {
	t.Helper()
	node, err := Open(Config{Shards: 1})
	if err != nil {
		t.Fatalf("floe: open in memory: %v", err)
		return nil
	}
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Fatalf("floe: close: %v", err)
		}
	})
	return node
}
