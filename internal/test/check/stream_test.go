package check

import (
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/stream"
)

// TestStream: the check refuses impossible records in a reader's results.
func TestStream(t *testing.T) {
	fill := func() (s *Stream, recs []stream.Record) {
		s = NewStream()
		for i := range 10 {
			rec := stream.Record{
				Message: stream.Message{Payload: fmt.Append(nil, i)}, ID: stream.ID{Millis: 100, Seq: uint64(i)},
				Partition: i % 2, Offset: uint64(i/2 + 1), LSN: uint64(i + 1),
			}
			s.Possible(rec.Message)
			if i != 4 {
				s.Appended(rec.Message, stream.Appended{ID: rec.ID, Partition: rec.Partition, Offset: rec.Offset, LSN: rec.LSN})
			}
			recs = append(recs, rec)
		}
		return s, recs
	}
	without := func(recs []stream.Record, i int) []stream.Record { return append(recs[:i:i], recs[i+1:]...) }
	for name, c := range map[string]struct {
		damage func(s *Stream, recs []stream.Record) []stream.Record
		want   string
	}{
		"nothing": {func(s *Stream, recs []stream.Record) []stream.Record { return recs }, ""},
		"removed": {func(s *Stream, recs []stream.Record) []stream.Record { s.Removed(0, 2); return recs[1:] }, ""},
		"all removed": {func(s *Stream, recs []stream.Record) []stream.Record { s.Removed(0, 6); s.Removed(1, 6); return nil },
			""},
		"lost at the beginning": {func(s *Stream, recs []stream.Record) []stream.Record { return recs[1:] }, `read "2" at offset 2`},
		"lost in the middle": {func(s *Stream, recs []stream.Record) []stream.Record { return without(recs, 5) },
			"what is between is missing"},
		"lost at the end": {func(s *Stream, recs []stream.Record) []stream.Record { return recs[:9] }, `"9" was appended as`},
		"all lost":        {func(s *Stream, recs []stream.Record) []stream.Record { return nil }, "come no further than nothing"},
		"twice":           {func(s *Stream, recs []stream.Record) []stream.Record { return append(recs, recs[9]) }, "behind"},
		"out of order": {func(s *Stream, recs []stream.Record) []stream.Record {
			recs[2], recs[4] = recs[4], recs[2]
			return recs
		}, `read "4"`},
		"of nobody": {func(s *Stream, recs []stream.Record) []stream.Record { recs[4].Payload = []byte("x"); return recs },
			"which nobody wrote"},
		"at another id": {func(s *Stream, recs []stream.Record) []stream.Record { recs[9].ID.Millis++; return recs },
			"which was appended as"},
		"at another LSN": {func(s *Stream, recs []stream.Record) []stream.Record { recs[9].LSN++; return recs }, "which was appended as"},
		"LSN goes back":  {func(s *Stream, recs []stream.Record) []stream.Record { recs[4].LSN = 1; return recs }, "of LSN 1 behind"},
		"another record's place": {func(s *Stream, recs []stream.Record) []stream.Record {
			s.Check(recs, true)
			recs[4].Payload = recs[3].Payload
			return recs
		}, "which was appended as"},
		"moved": {func(s *Stream, recs []stream.Record) []stream.Record {
			s.Check(recs[:5], false)
			recs[4].Payload, s.written["new"] = []byte("new"), true
			return recs
		}, `where another reader has seen "4"`},
	} {
		s, recs := fill()
		err := s.Check(c.damage(s, recs), true)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if n := s.Acked(); n != 9 {
			t.Errorf("%d acked, want 9", n)
		}
	}
}
