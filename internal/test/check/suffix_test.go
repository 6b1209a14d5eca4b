package check

import (
	"errors"
	"fmt"
	"testing"

	"github.com/floedb/floe/internal/engine"
)

// suffixOf returns a Suffix with ten writes of revisions 1 to 10 in each of two shards,
// acknowledged at 10, 20, ...
func suffixOf(t *testing.T) *Suffix {
	t.Helper()
	s := NewSuffix()
	for shard := range engine.ShardID(2) {
		for r := range uint64(10) {
			expect(t, "ack", s.Acked(shard, Write{At: int64(r+1) * 10, Revision: r + 1, Key: fmt.Sprint("k", r)}), "")
		}
	}
	return s
}

func TestSuffixOfLosses(t *testing.T) {
	failed := errors.New("read failed")
	for name, c := range map[string]struct {
		interval int64
		present  func(engine.ShardID, Write) (bool, error)
		lost     int
		want     string
	}{
		"nothing":  {0, func(engine.ShardID, Write) (bool, error) { return true, nil }, 0, ""},
		"suffix":   {50, func(_ engine.ShardID, w Write) (bool, error) { return w.Revision <= 7, nil }, 6, ""},
		"uneven":   {50, func(id engine.ShardID, w Write) (bool, error) { return id == 0 || w.Revision <= 7, nil }, 3, ""},
		"too much": {20, func(_ engine.ShardID, w Write) (bool, error) { return w.Revision <= 5, nil }, 0, "before what may be missing"},
		"in sync":  {-1, func(_ engine.ShardID, w Write) (bool, error) { return w.Revision <= 9, nil }, 0, "before what may be missing"},
		"hole":     {50, func(_ engine.ShardID, w Write) (bool, error) { return w.Revision != 8, nil }, 0, "a later one is not"},
		"hole of one": {50, func(id engine.ShardID, w Write) (bool, error) { return id == 0 || w.Revision != 9, nil }, 0,
			"shard 1: a write is lost"},
		"no answer": {50, func(engine.ShardID, Write) (bool, error) { return false, failed }, 0, "read failed"},
	} {
		t.Run(name, func(t *testing.T) {
			lost, err := suffixOf(t).PowerFailed(100, c.interval, c.present)
			expect(t, name, err, c.want)
			if err == nil && lost != c.lost {
				t.Errorf("%d lost, want %d", lost, c.lost)
			}
		})
	}
}

func TestSuffixOfRevisions(t *testing.T) {
	s := suffixOf(t)
	expect(t, "twice", s.Acked(0, Write{Revision: 3}), "two writes")
	if _, err := s.PowerFailed(100, 50, func(_ engine.ShardID, w Write) (bool, error) { return w.Revision <= 8, nil }); err != nil {
		t.Fatal(err)
	}
	expect(t, "used again", s.Acked(0, Write{Revision: 9, Key: "other"}), "lost write is used again")
	expect(t, "of what survived", s.Acked(0, Write{Revision: 8}), "two writes")
	expect(t, "next", s.Acked(0, Write{At: 200, Revision: 11}), "")
	all := func(engine.ShardID, Write) (bool, error) { return true, nil }
	if lost, err := s.PowerFailed(300, 50, all); lost != 0 || err != nil {
		t.Errorf("second failure: %d lost, %v", lost, err)
	}

	gap := NewSuffix()
	expect(t, "first", gap.Acked(0, Write{Revision: 20}), "")
	if _, err := gap.PowerFailed(0, 50, all); err != nil {
		t.Fatal(err)
	}
	expect(t, "below", gap.Acked(0, Write{Revision: 19}), "not above 20")
}
