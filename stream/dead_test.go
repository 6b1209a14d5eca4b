package stream_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream"
)

// TestDeadLettersWithManyHeaders: a dead letter has a few more headers than its record. A record
// with the maximum number used to be lost if its dead letter had to move to another shard.
func TestDeadLettersWithManyHeaders(t *testing.T) {
	for _, shards := range []int{1, 4} {
		r, s := newStore(t)
		if shards > 1 {
			r, s = newSpread(t, shards)
		}
		moved := 0 // to another shard
		for n := range 8 {
			name := fmt.Sprint("log", n)
			dead := stream.DeadLetters(name)
			if engine.NameShard("wide", name, shards) != engine.NameShard("wide", dead, shards) {
				moved++
			}
			key, value := "k", strings.Repeat("v", engine.MaxHeaderBytes-2)
			if _, err := s.Append(t.Context(), name,
				stream.Message{Payload: []byte("x"), Headers: map[string]string{"h": value, key: ""}}); err != nil {
				t.Fatal(err)
			}
			must(t, s.Groups(name).Create(t.Context(), "g", stream.MaxAttempts(1)))
			c := consumer{t, s, name, "g", "a"}
			c.nack(c.want("x"), stream.Reason(strings.Repeat("r", 2000)))
			r.Fire()
			recs := wantRead(t, s, dead, "x")
			if len(recs) != 1 || recs[0].Headers["h"] != value || len(recs[0].Headers[stream.HeaderError]) != 1024 ||
				recs[0].Headers[stream.HeaderStream] != name {
				t.Errorf("%d dead letters of %s, not as they should be", len(recs), name)
			}
		}
		if shards > 1 && moved == 0 {
			t.Error("no dead letter had to go to another shard")
		}
	}
}

// TestDeadLettersOfALongName: the dead letters of a stream go to a stream with a valid name,
// however long the stream's own name is.
func TestDeadLettersOfALongName(t *testing.T) {
	for _, end := range []string{"", stream.DeadLetterSuffix, "}", "{t}", "é"} {
		for n := engine.MaxNameBytes - 12; n <= engine.MaxNameBytes; n++ {
			name := strings.Repeat("x", n-len(end)) + end
			if dead := stream.DeadLetters(name); dead == name || engine.CheckName("stream", dead) != nil {
				t.Errorf("the dead letters of %q go to %q", name, dead)
			}
		}
	}
}
