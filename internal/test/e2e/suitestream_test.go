package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

// streamStores returns the stores of a namespace in one shard and of a spread one.
func streamStores(t *testing.T, db database, name string) []*stream.Store {
	t.Helper()
	if err := db.Namespaces().Create(t.Context(), "spread "+name, floe.Spread()); err != nil {
		t.Fatal(err)
	}
	return []*stream.Store{db.Stream(name), db.Stream("spread " + name)}
}

func message(format string, args ...any) stream.Message {
	return stream.Message{Payload: fmt.Appendf(nil, format, args...)}
}

func suiteStream(t *testing.T, db database) {
	ctx := t.Context()
	for _, s := range streamStores(t, db, "streams") {
		if err := s.Create(ctx, "log", stream.Partitions(5), stream.MaxLen(1000)); err != nil {
			t.Fatal(err)
		}
		if err := s.Create(ctx, "log"); !errors.Is(err, floe.ErrExists) {
			t.Errorf("second Create: %v, want ErrExists", err)
		}
		written := check.NewStream()
		for i := range 100 {
			msg := message("%d", i)
			if msg.Key = fmt.Sprint("key", i%17); i%3 == 0 {
				msg.Headers = map[string]string{"n": fmt.Sprint(i), "empty": ""}
			}
			a := ok[stream.Appended](t)(s.Append(ctx, "log", msg))
			written.Appended(msg, a)
		}
		recs := ok[[]stream.Record](t)(s.Read(ctx, "log", stream.Limit(1000)))
		if err := written.Check(recs, true); err != nil {
			t.Errorf("%s: %v", s.Namespace(), err)
		}
		for _, rec := range recs {
			if string(rec.Payload) == "3" && !maps.Equal(rec.Headers, map[string]string{"n": "3", "empty": ""}) {
				t.Errorf("record 3 has headers %q", rec.Headers)
			}
		}
		tail := ok[[]stream.Record](t)(s.Read(ctx, "log", stream.Tail(), stream.Limit(7)))
		if len(tail) != 7 || tail[6].ID != recs[99].ID || tail[0].ID != recs[93].ID {
			t.Errorf("%s: Tail = %v", s.Namespace(), tail)
		}
		info := ok[stream.Stats](t)(s.Get(ctx, "log"))
		if info.Records() != 100 || info.Appended != 100 || len(info.Partitions) != 5 || info.Retention.MaxLen != 1000 ||
			info.CreatedAt.IsZero() {
			t.Errorf("%s: Stats = %+v", s.Namespace(), info)
		}
		suiteStreamConditions(t, s)
		if n := ok[int64](t)(s.Trim(ctx, "log", stream.MaxLen(1))); n != 95 {
			t.Errorf("%s: Trim = %d, want 95", s.Namespace(), n)
		}
		var full *stream.ConflictError
		if err := s.Delete(ctx, "log"); !errors.As(err, &full) || full.Stream != "log" ||
			!strings.Contains(err.Error(), "it has 5 records") {
			t.Errorf("%s: Delete = %v, want that it it has 5 records", s.Namespace(), err)
		}
		if err := s.Delete(ctx, "log", stream.Force()); err != nil {
			t.Error(err)
		}
		if _, err := s.Read(ctx, "log"); !errors.Is(err, floe.ErrNotFound) {
			t.Errorf("%s: Read of a deleted stream: %v", s.Namespace(), err)
		}
		var names []string
		for info, err := range s.All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, info.Name)
		}
		if !slices.Equal(names, []string{"once", "order{t}"}) {
			t.Errorf("%s: All = %q", s.Namespace(), names)
		}
	}
	res, err := db.Txn("spread streams").If(stream.LastIDIs("order{t}", 0, stream.ID{})).Do(stream.AppendOp("order{t}",
		message("again"))).Commit(ctx)
	if !errors.Is(err, floe.ErrConflict) {
		t.Errorf("Commit = %+v, %v, want a conflict", res, err)
	}
}

// suiteStreamConditions appends once and not twice, and only after a known record.
func suiteStreamConditions(t *testing.T, s *stream.Store) {
	t.Helper()
	ctx := t.Context()
	for range 2 {
		for i := range uint64(3) {
			a := ok[stream.Appended](t)(s.Append(ctx, "once", message("%d", i), stream.Dedup("producer", i)))
			if a.Offset != i+1 {
				t.Errorf("%s: append %d is %+v", s.Namespace(), i, a)
			}
		}
	}
	a := ok[stream.Appended](t)(s.Append(ctx, "order{t}", message("1"), stream.IfLastID(stream.ID{})))
	_, err := s.Append(ctx, "order{t}", message("2"), stream.IfLastID(stream.ID{}))
	var conflict *stream.ConflictError
	if !errors.As(err, &conflict) || conflict.LastID != a.ID || conflict.Partition != 0 {
		t.Errorf("%s: Append behind another record: %v", s.Namespace(), err)
	}
	many := ok[[]stream.Appended](t)(s.AppendMany(ctx, "order{t}", []stream.Message{message("2"), message("3")}, stream.IfLastID(a.ID)))
	if len(many) != 2 || many[1].Offset != 3 || many[1].ID.Compare(many[0].ID) <= 0 {
		t.Errorf("%s: AppendMany = %+v", s.Namespace(), many)
	}
	refs := ok[[]stream.Ref](t)(s.Refs(ctx, "order{t}", many[0].ID, stream.ID{Millis: 1}))
	if !slices.Equal(refs, []stream.Ref{{Partition: 0, Offset: 2}}) {
		t.Errorf("%s: Refs = %v", s.Namespace(), refs)
	}
}

func suiteFollow(t *testing.T, db database) {
	for _, s := range streamStores(t, db, "followed") {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		written := check.NewStream()
		var following sync.WaitGroup
		for range 2 {
			following.Go(func() {
				var got []stream.Record
				for rec, err := range s.Follow(ctx, "log") {
					if err != nil {
						t.Errorf("%s: Follow: %v after %d records", s.Namespace(), err, len(got))
						return
					}
					if got = append(got, rec); len(got) == 60 {
						break
					}
				}
				if err := written.Check(got, false); err != nil {
					t.Errorf("%s: %v", s.Namespace(), err)
				}
			})
		}
		for i := range 60 {
			if i == 30 {
				recs := ok[[]stream.Record](t)(s.Read(ctx, "log", stream.Limit(1000)))
				if len(recs) != 30 {
					t.Errorf("%s: Read = %d records, want 30", s.Namespace(), len(recs))
				}
			}
			msg := message("%d", i)
			written.Possible(msg)
			written.Appended(msg, ok[stream.Appended](t)(s.Append(ctx, "log", msg)))
		}
		following.Wait()
		cancel()
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		for _, err := range s.Follow(short, "log", stream.FromEnd()) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: Follow without news: %v, want the deadline", s.Namespace(), err)
			}
		}
		if recs, err := s.Read(t.Context(), "none", stream.Wait(20*time.Millisecond)); err != nil || len(recs) > 0 {
			t.Errorf("%s: Read that waits for a stream = %v, %v, want nothing", s.Namespace(), recs, err)
		}
	}
}

func suiteRetention(t *testing.T, db database) {
	for _, s := range streamStores(t, db, "retained") {
		ctx := t.Context()
		if err := s.Create(ctx, "log", stream.Partitions(3), stream.MaxAge(50*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		for i := range 9 {
			ok[stream.Appended](t)(s.Append(ctx, "log", message("%d", i), stream.Partition(i%3)))
		}
		await(t, "the end of the records", func() bool {
			info := ok[stream.Stats](t)(s.Get(ctx, "log"))
			return info.Records() == 0 && info.Appended == 9
		})
		if err := s.SetRetention(ctx, "log", stream.Retention{MaxLen: 2}); err != nil {
			t.Fatal(err)
		}
		for i := range 9 {
			ok[stream.Appended](t)(s.Append(ctx, "log", message("%d", i), stream.Partition(i%3)))
		}
		if info := ok[stream.Stats](t)(s.Get(ctx, "log")); info.Records() != 6 || info.Partitions[2].First != 5 {
			t.Errorf("%s: Stats = %+v, want two records of each partition", s.Namespace(), info)
		}
	}
}

func suiteStreamLimits(t *testing.T, db database) {
	ctx, s := t.Context(), db.Stream("stream limits")
	largest := make([]byte, db.MaxValueSize())
	msg := stream.Message{Payload: largest, Key: strings.Repeat("k", stream.MaxKeyBytes),
		Headers: map[string]string{"h": strings.Repeat("v", stream.MaxHeaderBytes-1)}}
	for range 6 {
		ok[stream.Appended](t)(s.Append(ctx, "log", msg))
	}
	n := 0
	for rec, err := range s.Follow(ctx, "log") {
		if err != nil {
			t.Fatal(err)
		}
		if len(rec.Payload) != len(largest) || len(rec.Key) != stream.MaxKeyBytes || len(rec.Headers["h"]) != stream.MaxHeaderBytes-1 {
			t.Errorf("record %v has %d bytes", rec.ID, len(rec.Payload))
		}
		if n++; n == 6 {
			break
		}
	}
	msg.Payload = append(largest, 0)
	if _, err := s.Append(ctx, "log", msg); !errors.Is(err, floe.ErrInvalid) {
		t.Errorf("Append of a byte too many: %v, want ErrInvalid", err)
	}
	many := make([]stream.Message, stream.MaxBatch)
	all := ok[[]stream.Appended](t)(s.AppendMany(ctx, "batches", many))
	if len(all) != stream.MaxBatch || all[len(all)-1].Offset != stream.MaxBatch {
		t.Errorf("AppendMany = %d, the last one %+v", len(all), all[len(all)-1])
	}
	if recs := ok[[]stream.Record](t)(s.Read(ctx, "batches", stream.Tail(),
		stream.Limit(stream.MaxReadLimit))); len(recs) != stream.MaxReadLimit {
		t.Errorf("Read = %d records", len(recs))
	}
}

// suiteFailedJob: a job that fails on a record of a known partition names it.
func suiteFailedJob(t *testing.T, db database) {
	ctx, s, jobs := t.Context(), db.Stream("failed job"), db.Processing("failed job")
	if err := s.Create(ctx, "orders", stream.Partitions(4)); err != nil {
		t.Fatal(err)
	}
	ok[stream.Appended](t)(s.Append(ctx, "orders", stream.Message{Payload: []byte(`{"n":1}`)}, stream.Partition(2)))
	bad := ok[stream.Appended](t)(s.Append(ctx, "orders", stream.Message{Payload: []byte(`no JSON`)}, stream.Partition(2)))
	made := ok[processing.Submitted](t)(jobs.Submit(ctx, []byte("name: strict\non_error: fail\nsources: [{name: in, stream: {name: orders}}]\n"+
		"operators: [{name: positive, type: filter, condition: 'expr: n > 0'}]\nsinks: [{stream: copy}]\n")))
	var j processing.Detail
	await(t, "the failure", func() bool {
		j = ok[processing.Detail](t)(jobs.Get(ctx, made.Job))
		return j.Status == processing.Failed
	})
	want := processing.Failure{
		Operator: "positive", Source: "in", Stream: "orders", Partition: 2, RecordID: bad.ID, Offset: bad.Offset,
	}
	if j.Failure == nil || j.Failure.Reason == "" {
		t.Fatalf("failure %+v of %+v", j.Failure, j.Job)
	}
	if want.Reason = j.Failure.Reason; *j.Failure != want || j.Reason != "positive: "+want.Reason {
		t.Errorf("failure %+v, want %+v; reason %q", *j.Failure, want, j.Reason)
	}
}
