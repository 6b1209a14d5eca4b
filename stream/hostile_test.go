package stream_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// contextThatIsDone returns a context for reads that must not wait.
func contextThatIsDone() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx, cancel
}

// TestAdmit: commands of another process are checked as the store checks its arguments.
func TestAdmit(t *testing.T) {
	m := engine.TableOf[stream.Store]()
	for _, op := range someOps() {
		if err := m.Admit(command(t, op), stream.DefaultMaxPayloadBytes); err != nil {
			t.Errorf("Admit of %+v: %v", op, err)
		}
		if op := engine.OpOf(op); op.Decode != nil {
			if v, err := op.Decode([]byte{0xff}); err == nil {
				t.Errorf("command %d: a malformed result decodes as %+v", op.Command.Kind, v)
			}
		}
	}
	kind, none := engine.OpOf(someOps()[1]).Command.Kind, stream.AppendCommandBody("log")
	large := command(t, stream.AppendOp("log", stream.Message{Payload: make([]byte, 101)})).Body
	for name, c := range map[string]struct {
		kind  uint8
		body  []byte
		words string
	}{
		"no kind":       {0, nil, "command"},
		"large payload": {kind, large, "value of 101 bytes exceeds max_value_size (100 bytes)"},
		"no message":    {kind, stream.AppendCommandBody("log"), "0 messages are not in 1-10000"},
		"partition":     {kind, slices.Concat(none[:5], []byte{0x81, 8}, none[6:]), "partition 1024 is not in 0-1023"},
		"headers out of order": {kind, stream.AppendCommandBody("log", []byte{0, 2, 1, 'b', 0, 1, 'a', 0}),
			"headers are not sorted by name"},
		"header twice": {kind, stream.AppendCommandBody("log", []byte{0, 2, 1, 'a', 0, 1, 'a', 0}),
			"headers are not sorted by name"},
		"header without a name":    {kind, stream.AppendCommandBody("log", []byte{0, 1, 0, 0}), "header name is empty"},
		"message that is none":     {kind, stream.AppendCommandBody("log", []byte{5}), "message"},
		"name with a line feed":    {kind, stream.AppendCommandBody("l\ng", []byte{0, 0}), "control character"},
		"what shards say":          {command(t, stream.AdoptOp("log")).Kind, command(t, stream.AdoptOp("log")).Body, "is not for users"},
		"what they say on the end": {command(t, stream.DropOp("log")).Kind, command(t, stream.DropOp("log")).Body, "is not for users"},
	} {
		err := m.Admit(engine.Command{Machine: engine.MachineStream, Kind: c.kind, Body: c.body}, 100)
		wantError(t, name, err, stream.ErrInvalid, c.words)
	}
}

// TestApplyRefusesWhatNobodyCouldRead: a row that cannot be decoded would make its partition
// unreadable forever.
func TestApplyRefusesWhatNobodyCouldRead(t *testing.T) {
	r, s := newStore(t)
	appendTexts(t, s, "log", "a")
	for _, msg := range [][]byte{nil, {0}, {5}, {0, 1}, {0, 1, 1, 'h'}, {0, 0x81, 0x80, 4}} {
		cmd := engine.Command{Machine: engine.MachineStream, Kind: engine.OpOf(someOps()[1]).Command.Kind, Namespace: "n",
			Body: stream.AppendCommandBody("log", msg)}
		if out := r.Entry(0, cmd)[0]; out.Err == nil {
			t.Errorf("message %x is accepted", msg)
		}
	}
	wantRead(t, s, "log", "a")
}

// TestReadOfPartitionsThereAreNot: a reader in another process may claim any position; an invalid
// one used to cause a panic.
func TestReadOfPartitionsThereAreNot(t *testing.T) {
	r, s := newStore(t)
	appendTexts(t, s, "log", "a")
	for id := range uint64(5) {
		for _, p := range []int{1, 5, 1023} {
			if err := r.Query(t.Context(), 0, stream.ReadFrom("n", "log", id, p)); err != nil {
				wantError(t, "the query", err, stream.ErrInvalid, "has 1 partitions, no partition")
			}
		}
	}
}

// TestClaimedSpecs: a sender that claims to know a stream's record can neither change that record
// in its home shard nor create one there.
func TestClaimedSpecs(t *testing.T) {
	for _, spread := range []bool{false, true} {
		r, s := newStore(t)
		if spread {
			r, s = newSpread(t, 3)
		}
		create(t, s, "log", stream.Partitions(2))
		home, err := r.Router().Shard(t.Context(), s.Namespace(), "log")
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range []engine.Operation{
			stream.AppendWithSpec("log", math.MaxUint64, 0, 2, 0), stream.AppendWithSpec("log", 1<<60, math.MaxUint64, 7,
				0), stream.AppendWithSpec("other", 5, 5, 1, 0),
		} {
			cmd := command(t, op)
			cmd.Namespace, cmd.Spread = s.Namespace(), spread
			if spread && strings.Contains(string(cmd.Body), "other") {
				continue // its home is another shard
			}
			err := r.Entry(home, cmd)[0].Err
			wantError(t, "append with a record that there is not", err, stream.ErrNotFound, "not found")
		}
		countStreams(t, r, s.Namespace(), 1)
		appendTexts(t, s, "log", "a")
	}
}

// TestManyStreams uses more partitions than a machine caches.
func TestManyStreams(t *testing.T) {
	r := machinetest.New(t, 1, engine.TableOf[stream.Store]())
	s := engine.StoreOf[stream.Store](r.Router(), "n", 0)
	names := make([]string, 80)
	for i := range names {
		names[i] = strings.Repeat("x", i+1)
		create(t, s, names[i], stream.Partitions(stream.MaxPartitions))
	}
	for round := range 3 {
		for _, name := range names {
			if a, err := s.Append(t.Context(), name, text("%d", round)); err != nil || a.Partition != round || a.Offset != 1 {
				t.Fatalf("Append to %s = %+v, %v, want partition %d", name, a, err, round)
			}
		}
	}
}
