package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// TestRefusals: the whole message of each call's refusals.
func TestRefusals(t *testing.T) {
	_, s := newStore(t)
	_, wide := newSpread(t, 3)
	ctx := t.Context()
	for _, s := range []*stream.Store{s, wide} {
		create(t, s, "log", stream.Partitions(4))
		must(t, s.Groups("log").Create(ctx, "g"))
	}
	handler := func(context.Context, stream.Delivery) error { return nil }
	nack := func(opts ...stream.NackOption) error {
		return second(s.Nack(ctx, "log", "g", []stream.Ref{{Offset: 1}}, opts...))
	}
	for want, err := range map[string]error{
		`stream: group mode "fair" is not shared, exclusive or key_shared`:         second(stream.ParseMode("fair")),
		`stream: delay and dead letter are mutually exclusive`:                     nack(stream.Delay(0), stream.ToDLQ()),
		`stream: delay and dead letter are mutually exclusive, in the other order`: nack(stream.ToDLQ(), stream.Delay(time.Second)),
		`stream: delay -1ns is not in 0s-720h0m0s`:                                 nack(stream.Delay(-1)),
		`cursor "x" is not from this listing`: second(s.Pending("log", "g").Page(ctx,
			stream.Cursor("x"))),
		`cursor "3" is not from this listing`: second(s.Pending("log", "g").Page(ctx,
			stream.Cursor("3"))),
		`cursor "1-" is not from this listing`: second(s.Pending("log", "g").Page(ctx,
			stream.Cursor("1-"))),
		`cursor "01-2" is not from this listing`: second(s.Pending("log", "g").Page(ctx,
			stream.Cursor("01-2"))),
		`cursor "1024-2" is not from this listing`: second(s.Pending("log", "g").Page(ctx,
			stream.Cursor("1024-2"))),
		`cursor "4-2" is not from this listing`: second(s.Pending("log", "g").Page(ctx,
			stream.Cursor("4-2"))),
		`limit 0 is not in 1-1000`: second(s.Pending("log", "g").Page(ctx,
			stream.Limit(0))),
		`limit 1001 is not in 1-1000`:                                          second(s.Groups("log").Page(ctx, stream.Limit(1001))),
		`stream "none" not found`:                                              second(s.Groups("none").Page(ctx)),
		`stream "none": consumer group "g" not found`:                          second(s.Pending("none", "g").Page(ctx)),
		`consumer group "none" not found`:                                      second(s.Pending("log", "none").Page(ctx)),
		`consumer group "none" not found, in a spread namespace`:               second(wide.Pending("log", "none").Page(ctx)),
		`stream name is empty`:                                                 second(s.Groups("").Page(ctx)),
		`consumer group name is empty`:                                         second(wide.Pending("log", "").Page(ctx)),
		`stream name is empty, of pending records`:                             second(wide.Pending("", "g").Page(ctx)),
		`stream name is empty, of records`:                                     second(s.Records(ctx, "")),
		`stream name is empty, of refs`:                                        second(s.Refs(ctx, "", stream.ID{})),
		`stream "log" has 4 partitions, no partition 4`:                        second(s.Read(ctx, "log", stream.Partition(4))),
		`stream "log" has 4 partitions, no partition 4, in a spread namespace`: second(wide.Read(ctx, "log", stream.Partition(4))),
		`stream: consume "log": no handler`:                                    s.Consume(ctx, "log", "g", nil),
		`stream: consume "log": no handler, of many`:                           s.ConsumeMany(ctx, "log", "g", 1, nil),
		`stream: consume "log": no handler, of a view`:                         stream.JSON[int](s).Consume(ctx, "log", "g", nil),
		`stream: concurrency 0 is not in 1-10000`: s.Consume(ctx, "log", "g", handler,
			stream.Concurrency(0)),
		`stream: concurrency 10001 is not in 1-10000`: s.Consume(ctx, "log", "g", handler,
			stream.Concurrency(10_001)),
		`stream: grace -1ns is negative`: s.Consume(ctx, "log", "g", handler, stream.Grace(-1)),
		`consumer name is empty`: s.Consume(ctx, "log", "g", handler,
			stream.Consumer("")),
		`consumer group name is empty, of Consume`: s.Consume(ctx, "log", "", handler),
	} {
		says, _, _ := strings.Cut(want, ", of ")
		says, _, _ = strings.Cut(says, ", in ")
		if err == nil || !strings.Contains(err.Error(), says) || !errors.Is(err, stream.ErrInvalid) && !errors.Is(err, stream.ErrNotFound) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for n, name := range []string{"shared", "exclusive", "key_shared"} {
		if m, err := stream.ParseMode(name); err != nil || m != stream.Mode(n) || m.String() != name {
			t.Errorf("mode %q is %v, %v", name, m, err)
		}
	}
	if got := stream.Mode(3).String(); got != "unknown" {
		t.Errorf("mode 3 is %q", got)
	}
	for _, c := range []struct {
		r    stream.Retention
		want string
	}{
		{stream.Retention{}, "∞"}, {stream.Retention{MaxAge: 48 * time.Hour}, "2d"}, {stream.Retention{MaxAge: 25 * time.Hour, MaxLen: 1},
			"25h, 1 records"}, {stream.Retention{MaxAge: 90 * time.Minute}, "90m"},
		{stream.Retention{MaxAge: 61 * time.Second, MaxBytes: 1},
			"61s, 1 bytes"}, {stream.Retention{MaxAge: 1500 * time.Millisecond, MaxLen: 2, MaxBytes: 3}, "1.5s, 2 records, 3 bytes"},
	} {
		if got := c.r.String(); got != c.want {
			t.Errorf("%+v is %q, want %q", c.r, got, c.want)
		}
	}
	if stream.Permanent(nil) != nil {
		t.Error("Permanent(nil) is an error")
	}
}

// TestConflictsArrive: a conflict carries the same details in another process.
func TestConflictsArrive(t *testing.T) {
	wire := engine.NewWire([]engine.Primitive{engine.TableOf[stream.Store]()})
	want := &stream.ConflictError{Stream: "s", Partition: 3, LastID: stream.ID{Millis: 4, Seq: 5}, Reason: "why"}
	got := wire.DecodeError(wire.AppendError(nil, want))
	if c, ok := errors.AsType[*stream.ConflictError](got); !ok || *c != *want || !errors.Is(got, stream.ErrConflict) {
		t.Errorf("%#v arrives as %#v", want, got)
	}
}

// TestFollowAPartition: following one partition yields only its records, from the given start.
func TestFollowAPartition(t *testing.T) {
	_, s := newStore(t)
	create(t, s, "log", stream.Partitions(3))
	var ids []stream.ID
	for i := range 9 {
		a, err := s.Append(t.Context(), "log", text("%d", i), stream.Partition(i%3))
		must(t, err)
		ids = append(ids, a.ID)
	}
	for want, opts := range map[string][]stream.FollowOption{
		"1 4 7": {stream.Partition(1)}, "5 8": {stream.Partition(2), stream.After(ids[2])}, "0 3 6": {stream.FromBeginning(),
			stream.Partition(0)}, "4 5 6": {stream.After(ids[3])},
	} {
		var got []string
		for rec, err := range s.Follow(t.Context(), "log", opts...) {
			must(t, err)
			if got = append(got, string(rec.Payload)); len(got) == len(strings.Fields(want)) {
				break
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("Follow yields %q, want %q", got, want)
		}
	}
}

// TestReadsAreCounted: reads are counted while a node runs and added to the saved count of earlier
// runs.
func TestReadsAreCounted(t *testing.T) {
	r, s := newStore(t)
	appendTexts(t, s, "log", "1", "2", "3")
	reads := func(want int64) {
		t.Helper()
		if st, err := s.Get(t.Context(), "log"); err != nil || st.Reads != want {
			t.Errorf("%d reads, %v, want %d", st.Reads, err, want)
		}
	}
	wantRead(t, s, "log", "1 2 3")
	wantRead(t, s, "log", "1 2", stream.Limit(2))
	reads(5)
	kept := r.Executor(0).Tallies()
	r.Restart()
	reads(0)
	r.Executor(0).AddTallies(kept)
	reads(5)
	wantRead(t, s, "log", "3", stream.Tail(), stream.Limit(1))
	reads(6)
}

// TestConsumeReportsOutages: an error that keeps a consumer from its group goes to OnError without
// a record, and ends Consume if it lasts.
func TestConsumeReportsOutages(t *testing.T) {
	r, s := newStore(t)
	appendTexts(t, s, "log", "1")
	down := &outage{Rig: r, err: engine.Errorf(engine.ErrUnavailable, "no leader")}
	s = engine.StoreOf[stream.Store](engine.NewRouter(down), "n", 0)
	ctx, cancel := context.WithCancel(t.Context())
	var reported []string
	err := s.Consume(ctx, "log", "g", func(context.Context, stream.Delivery) error { return nil },
		stream.OnError(func(d *stream.Delivery, err error) {
			reported = append(reported, fmt.Sprint(d == nil, " ", err))
			cancel()
		}))
	if err != nil || len(reported) == 0 || !strings.HasPrefix(reported[0], "true ") || !strings.Contains(reported[0], "no leader") {
		t.Errorf("Consume = %v, reported %q", err, reported)
	}
	down.err = engine.Errorf(engine.ErrUnauthorized, "not for you")
	if err := s.Consume(t.Context(), "log", "g", func(context.Context, stream.Delivery) error { return nil }); !errors.Is(err,
		engine.ErrUnauthorized) {
		t.Errorf("Consume without the right to = %v", err)
	}
}

// outage is a door at which every query fails.
type outage struct {
	*machinetest.Rig
	err error
}

func (o *outage) Query(context.Context, engine.ShardID, engine.Query) error { return o.err }

// TestConsumeFromTheEnd: a group created by Consume begins at the requested position.
func TestConsumeFromTheEnd(t *testing.T) {
	_, s := newStore(t)
	ids := appendTexts(t, s, "log", "1", "2", "3")
	for name, c := range map[string]struct {
		opt  stream.ConsumeOption
		want string
	}{"after": {stream.After(ids[0]), "2"}, "begin": {stream.FromBeginning(), "1"}, "from": {stream.From(ids[2]), "3"}, "default": {nil,
		"1"}} {
		ctx, cancel := context.WithCancel(t.Context())
		got := ""
		opts := []stream.ConsumeOption{stream.Consumer("c")}
		if c.opt != nil {
			opts = append(opts, c.opt)
		}
		err := s.Consume(ctx, "log", name, func(_ context.Context, d stream.Delivery) error {
			if got == "" {
				got = string(d.Payload)
			}
			cancel()
			return nil
		}, opts...)
		if err != nil || got != c.want {
			t.Errorf("%s: the first record is %q, %v, want %q", name, got, err, c.want)
		}
	}
}
