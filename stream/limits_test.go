package stream_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// TestLimits tests all documented limits of the store and the values next to them. TestGroupLimits
// covers the limits of a group.
func TestLimits(t *testing.T) {
	const most = 5000 // bytes per payload
	node, err := floe.Open(floe.Config{Shards: 1, MaxValueSize: most})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	ctx, s, wide := t.Context(), node.Stream("default"), floe.OpenMemory(t).Stream("default")
	text := func(n int64) string { return strings.Repeat("a", int(n)) }
	appended := func(m stream.Message, o ...stream.AppendOption) error {
		_, err := s.Append(ctx, "s", m, o...)
		return err
	}
	read := func(o ...stream.ReadOption) error { _, err := s.Read(ctx, "s", o...); return err }
	trim := func(o stream.TrimOption) error { _, err := s.Trim(ctx, "s", o); return err }
	created := 0
	create := func(o stream.CreateOption) error { created++; return s.Create(ctx, fmt.Sprint("created", created), o) }
	group := func(o stream.GroupOption) error {
		created++
		return s.Groups("s").Create(ctx, fmt.Sprint("group", created), o)
	}
	readGroup := func(o stream.GroupReadOption) error { _, err := s.ReadGroup(ctx, "s", "read", "c", o); return err }
	refs := func(n int64) (all []stream.Ref) {
		for i := range n {
			all = append(all, stream.Ref{Offset: uint64(i + 1), Attempt: 1})
		}
		return all
	}
	nack := func(o stream.NackOption) error { _, err := s.Nack(ctx, "s", "read", refs(1), o); return err }
	consume := func(o stream.ConsumeOption) error {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		return s.Consume(ended, "s", "read", func(context.Context, stream.Delivery) error { return nil }, o)
	}
	if err := s.Create(ctx, "s", stream.Partitions(2)); err != nil {
		t.Fatal(err)
	}
	if err := readGroup(stream.Limit(1)); err != nil {
		t.Fatal(err)
	}
	const none, ever, month = math.MinInt64, math.MaxInt64, int64(30 * 24 * time.Hour)
	limits := []machinetest.Limit{
		{Name: "bytes of a name", Least: 1, Most: 255, Says: []string{"stream name"},
			Try: func(n int64) error { return s.Create(ctx, text(n)) }},
		{Name: "partitions", Least: 1, Most: stream.MaxPartitions, Says: []string{"partitions", "1-1024"},
			Try: func(n int64) error { return create(stream.Partitions(int(n))) }},
		{Name: "greatest length", Least: 1, Most: ever, Says: []string{"max length 0"},
			Try: func(n int64) error { return create(stream.MaxLen(n)) }},
		{Name: "greatest bytes", Least: 1, Most: ever, Says: []string{"max bytes 0"},
			Try: func(n int64) error { return create(stream.MaxBytes(n)) }},
		{Name: "greatest age in ns", Least: int64(time.Millisecond), Most: ever, Says: []string{"max age", "millisecond"},
			Try: func(n int64) error { return create(stream.MaxAge(time.Duration(n))) }},
		{Name: "retention: length", Least: 0, Most: ever, Says: []string{"max len -1"},
			Try: func(n int64) error { return s.SetRetention(ctx, "s", stream.Retention{MaxLen: n}) }},
		{Name: "retention: bytes", Least: 0, Most: ever, Says: []string{"max bytes -1"},
			Try: func(n int64) error { return s.SetRetention(ctx, "s", stream.Retention{MaxBytes: n}) }},
		{Name: "bytes of a payload, with a max_value_size of 5,000", Least: none, Most: most,
			Says: []string{"5001", "max_value_size",
				"5000"}, Try: func(n int64) error { return appended(stream.Message{Payload: make([]byte, n)}) }},
		{Name: "bytes of a key", Least: none, Most: stream.MaxKeyBytes, Says: []string{"key", "4097", "4096"},
			Try: func(n int64) error { return appended(stream.Message{Key: text(n)}) }},
		{Name: "bytes of headers", Least: none, Most: stream.MaxHeaderBytes, Says: []string{"headers", "65537", "65536"},
			Try: func(n int64) error {
				return appended(stream.Message{Headers: map[string]string{"name": text(n - 4)}})
			}},
		{Name: "bytes of a header's name", Least: 1, Most: 255, Says: []string{"header name"}, Try: func(n int64) error {
			return appended(stream.Message{Headers: map[string]string{text(n): ""}})
		}},
		{Name: "partition of an append", Least: 0, Most: 1,
			Try: func(n int64) error { return appended(stream.Message{}, stream.Partition(int(n))) }},
		{Name: "bytes of a producer", Least: 1, Most: 255, Says: []string{"producer"},
			Try: func(n int64) error { return appended(stream.Message{}, stream.Dedup(text(n), 1)) }},
		{Name: "messages of a batch", Least: 1, Most: stream.MaxBatch, Says: []string{"messages", "1-10000"}, Try: func(n int64) error {
			_, err := s.AppendMany(ctx, "s", make([]stream.Message, n))
			return err
		}},
		{Name: "bytes of a batch", Least: none, Most: stream.MaxBatchBytes, Says: []string{"4194305", "4194304"}, Try: func(n int64) error {
			var all []stream.Message
			for n > 0 {
				one := min(n, stream.DefaultMaxPayloadBytes)
				all, n = append(all, stream.Message{Payload: make([]byte, one)}), n-one
			}
			_, err := wide.AppendMany(ctx, "wide", all)
			return err
		}},
		{Name: "limit", Least: 1, Most: stream.MaxReadLimit, Says: []string{"limit", "1-1000"},
			Try: func(n int64) error { return read(stream.Limit(int(n))) }},
		{Name: "partition of a read", Least: 0, Most: 1, Says: []string{"partition"},
			Try: func(n int64) error { return read(stream.Partition(int(n))) }},
		{Name: "wait in ns", Least: 0, Most: ever, Says: []string{"wait of -1ns"},
			Try: func(n int64) error { return read(stream.Wait(time.Duration(n))) }},
		{Name: "limit of a page", Least: 1, Most: stream.MaxPageItems, Says: []string{"limit", "1-1000"},
			Try: func(n int64) error { _, err := s.Page(ctx, stream.Limit(int(n))); return err }},
		{Name: "bytes of a prefix", Least: none, Most: 255, Says: []string{"prefix", "256", "255"},
			Try: func(n int64) error { _, err := s.Page(ctx, stream.Prefix(text(n))); return err }},
		{Name: "trim: length", Least: 0, Most: ever, Says: []string{"max len -1"},
			Try: func(n int64) error { return trim(stream.MaxLen(n)) }},
		{Name: "trim: bytes", Least: 0, Most: ever, Says: []string{"max bytes -1"},
			Try: func(n int64) error { return trim(stream.MaxBytes(n)) }},
		{Name: "trim: age in ns", Least: int64(time.Millisecond), Most: ever, Says: []string{"max age", "millisecond"},
			Try: func(n int64) error { return trim(stream.MaxAge(time.Duration(n))) }},
		{Name: "ids", Least: none, Most: 1000, Says: []string{"1001", "1000"},
			Try: func(n int64) error { _, err := s.Refs(ctx, "s", make([]stream.ID, n)...); return err }},
		{Name: "refs", Least: none, Most: 1000, Says: []string{"1001", "1000"},
			Try: func(n int64) error { _, err := s.Records(ctx, "s", refs(n)...); return err }},
		{Name: "activity: parts", Least: 1, Most: stream.MaxActivityParts, Says: []string{"parts", "1000"}, Try: func(n int64) error {
			_, err := s.Activity(ctx, "s", stream.ActivitySpan{From: time.Now(), Step: time.Second, Parts: int(n)})
			return err
		}},
		{Name: "activity: step in ms", Least: 1, Most: 365 * 24 * 3600 * 1000, Says: []string{"step"}, Try: func(n int64) error {
			_, err := s.Activity(ctx, "s", stream.ActivitySpan{From: time.Now(), Step: time.Duration(n) * time.Millisecond, Parts: 1})
			return err
		}},
		{Name: "bytes of a group's name", Least: 1, Most: 255, Says: []string{"group"},
			Try: func(n int64) error { return s.Groups("s").Create(ctx, text(n)) }},
		{Name: "mode", Least: none, Most: int64(stream.KeyShared), Says: []string{"mode 3"},
			Try: func(n int64) error { return group(stream.InMode(stream.Mode(n))) }},
		{Name: "ack timeout in ns", Least: int64(time.Millisecond), Most: month, Says: []string{"ack timeout", "1ms-720h0m0s"},
			Try: func(n int64) error { return group(stream.AckTimeout(time.Duration(n))) }},
		{Name: "max attempts", Least: 0, Most: 1_000_000, Says: []string{"max attempts", "0-1000000"},
			Try: func(n int64) error { return group(stream.MaxAttempts(int(n))) }},
		{Name: "shortest back-off in ns", Least: 0, Most: month, Says: []string{"min back-off"},
			Try: func(n int64) error { return group(stream.Backoff(time.Duration(n), time.Duration(month))) }},
		{Name: "longest back-off in ns", Least: 0, Most: month, Says: []string{"max back-off"},
			Try: func(n int64) error { return group(stream.Backoff(0, time.Duration(n))) }},
		{Name: "shortest back-off in s beside one of 7 s", Least: none, Most: 7, Says: []string{"min back-off 8s exceeds max back-off 7s"},
			Try: func(n int64) error {
				return group(stream.Backoff(time.Duration(n)*time.Second, 7*time.Second))
			}},
		{Name: "changed ack timeout in ns", Least: int64(time.Millisecond), Most: month, Says: []string{"ack timeout", "1ms-720h0m0s"},
			Try: func(n int64) error {
				return s.Groups("s").Configure(ctx, "read", stream.AckTimeout(time.Duration(n)))
			}},
		{Name: "limit of a group's read", Least: 1, Most: stream.MaxReadLimit, Says: []string{"limit", "1-1000"},
			Try: func(n int64) error { return readGroup(stream.Limit(int(n))) }},
		{Name: "bytes of a consumer's name", Least: 1, Most: 255, Says: []string{"consumer"},
			Try: func(n int64) error { _, err := s.ReadGroup(ctx, "s", "read", text(n)); return err }},
		{Name: "acknowledged records", Least: none, Most: 10_000, Says: []string{"10001 records"},
			Try: func(n int64) error { _, err := s.Ack(ctx, "s", "read", refs(n)...); return err }},
		{Name: "delay of a nack in ns", Least: 0, Most: month, Says: []string{"delay"},
			Try: func(n int64) error { return nack(stream.Delay(time.Duration(n))) }},
		{Name: "extension in ns", Least: int64(time.Millisecond), Most: month, Says: []string{"extension", "1ms-720h0m0s"},
			Try: func(n int64) error {
				_, err := s.Extend(ctx, "s", "read", refs(1)[0], time.Duration(n))
				return err
			}},
		{Name: "partition of a seek", Least: 0, Most: 1, Says: []string{"partition"}, Try: func(n int64) error {
			return s.Seek(ctx, "s", "read", stream.FromBeginning(), stream.Partition(int(n)))
		}},
		{Name: "handlers at once", Least: 1, Most: stream.MaxConcurrency, Says: []string{"concurrency", "1-10000"},
			Try: func(n int64) error { return consume(stream.Concurrency(int(n))) }},
		{Name: "grace in ns", Least: 0, Most: ever, Says: []string{"grace -1ns"},
			Try: func(n int64) error { return consume(stream.Grace(time.Duration(n))) }},
	}
	machinetest.TryLimits(t, limits)
	machinetest.DocumentLimits(t, "package stream", machinetest.Bounds(limits))
}

// TestGroupLimits fills a stream with groups, a group with members, and a group with unacknowledged
// records: one below the limit, at the limit, and beyond it.
func TestGroupLimits(t *testing.T) {
	ctx, s := t.Context(), floe.OpenMemory(t).Stream("default")
	if err := s.Create(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	for range stream.MaxPending/stream.MaxBatch + 1 {
		if _, err := s.AppendMany(ctx, "s", make([]stream.Message, stream.MaxBatch)); err != nil {
			t.Fatal(err)
		}
	}
	take := func(group, consumer string, limit int) int {
		ds, err := s.ReadGroup(ctx, "s", group, consumer, stream.Limit(limit), stream.AckTimeout(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return len(ds)
	}
	busy := func(group, consumer, says string) {
		t.Helper()
		_, err := s.ReadGroup(ctx, "s", group, consumer)
		if !errors.Is(err, stream.ErrBusy) || !strings.Contains(err.Error(), says) {
			t.Errorf("ReadGroup beyond the limit: %v, want ErrBusy that says %q", err, says)
		}
	}

	pending := 0
	for pending < stream.MaxPending-1 {
		pending += take("pending", "c", min(stream.MaxReadLimit, stream.MaxPending-1-pending))
	}
	if n := take("pending", "c", stream.MaxReadLimit); n != 1 {
		t.Errorf("with %d records pending %d are delivered, want 1", pending, n)
	}
	busy("pending", "c", "100000")
	if n, err := s.Ack(ctx, "s", "pending", stream.Ref{Offset: 1, Attempt: 1}); n != 1 || err != nil {
		t.Fatalf("Ack = %d, %v", n, err)
	}
	if n := take("pending", "c", stream.MaxReadLimit); n != 1 {
		t.Errorf("with one less than the limit pending %d are delivered, want 1", n)
	}

	for n := range stream.MaxMembers {
		take("members", fmt.Sprint("c", n), 1)
	}
	busy("members", "one more", "1000 members")
	take("members", "c0", 1)
	if err := s.Leave(ctx, "s", "members", "c0"); err != nil {
		t.Fatal(err)
	}
	take("members", "one more", 1)

	for n := range stream.MaxGroups - 2 { // besides the two
		if err := s.Groups("s").Create(ctx, fmt.Sprint("g", n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Groups("s").Create(ctx, "one more"); !errors.Is(err, stream.ErrBusy) ||
		!strings.Contains(err.Error(), "10000 consumer groups") {
		t.Errorf("CreateGroup beyond the limit: %v, want ErrBusy", err)
	}
	if err := s.Groups("s").Delete(ctx, "g0"); err != nil {
		t.Fatal(err)
	}
	if err := s.Groups("s").Create(ctx, "one more"); err != nil {
		t.Error(err)
	}
}
