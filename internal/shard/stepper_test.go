package shard

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// openStepped opens a host of two shards that is driven in steps, and makes it lead both.
func openStepped(t *testing.T, c Config) *Stepper {
	t.Helper()
	s, err := OpenStepper(c)
	must(t, err)
	for id := range engine.ShardID(s.Shards()) {
		if st := s.State(id); st.Leads || st.DutyTerm != 0 {
			t.Errorf("shard %d begins with %+v", id, st)
		}
		s.Campaign(id)
		stepUntil(t, s, id, func() bool { return s.State(id).Leads })
		_, err := stepped(t, s, id, engine.Skip(0))
		must(t, err)
	}
	return s
}

func stepUntil(t *testing.T, s *Stepper, id engine.ShardID, holds func() bool) {
	t.Helper()
	for range 1000 {
		if holds() {
			return
		}
		s.Step(id, 0)
		must(t, errors.Join(s.WriteLog(), s.Apply(id)))
	}
	t.Fatalf("shard %d: %+v", id, s.State(id))
}

func stepped(t *testing.T, s *Stepper, id engine.ShardID, cmd engine.Command) ([]byte, error) {
	t.Helper()
	ticket, err := s.Submit(id, cmd)
	if err != nil {
		return nil, err
	}
	var o engine.Outcome
	stepUntil(t, s, id, func() (done bool) { o, done = ticket.Outcome(); return done })
	return o.Result, o.Err
}

// TestSteppedHost: a host driven step by step keeps everything it acknowledged, through flushes,
// compactions, truncations, restarts and crashes.
func TestSteppedHost(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 9))
	for _, durability := range []Durability{Sync, Async} {
		fsys, source := vfs.NewCrashableMem(), &fakeClock{wall: 1_000_000}
		c := config(fsys)
		c.Durability, c.SegmentBytes, c.MemTableBytes, c.KeepEntries, c.Clock = durability, 4<<10, 64<<10, 1, Clock{source}
		s := openStepped(t, c)
		want := make(map[string]int64)
		check := func(when string) {
			t.Helper()
			for name, n := range want {
				q := toy.Counter{Namespace: homed(1), Name: name}
				if err := s.Query(1, &q); err != nil || q.Value != n {
					t.Fatalf("%v, %s: %s = %d, %v, want %d", durability, when, name, q.Value, err, n)
				}
			}
			if _, err := s.Verify(t.Context(),
				func(problem string) { t.Errorf("%v, %s: Verify reports: %s", durability, when, problem) }); err != nil {
				t.Fatal(err)
			}
		}
		for round := range 4 {
			for i := range 60 {
				name := fmt.Sprint("c", rng.IntN(9))
				_, err := stepped(t, s, 1, toy.Command{Kind: toy.Add, Name: name, Delta: int64(i)}.In(homed(1)))
				must(t, err)
				want[name] += int64(i)
				if i%20 == 7 {
					must(t, s.Flush())
				}
			}
			if _, err := stepped(t, s, 1, toy.Command{Kind: toy.Add, Name: "none", Delta: -1}.In(homed(1))); !errors.Is(err,
				engine.ErrConflict) && !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("a counter below zero: %v", err)
			}
			check("before the end")
			first := s.State(1).First
			must(t, errors.Join(s.SyncLog(), s.PrepareLog(), s.Compact(), s.Flush(), s.Truncate()))
			st := s.State(1)
			if st.DutyTerm != st.Term || st.First <= first || st.Durable != st.Last || st.Applied.Index != st.Last || st.Leader != 1 ||
				st.Installing || st.NextDue != engine.NoTimer || len(st.Targets) > 0 {
				t.Errorf("%v: after a truncation of the log from %d: %+v", durability, first, st)
			}
			if _, _, ok := s.host.shards[1].exec.HashAt(st.Last); ok {
				t.Error("a node without others keeps the hashes of its states")
			}
			if e, err := s.Entry(1, st.Last); err != nil || e.GetIndex() != st.Last {
				t.Errorf("the last entry is %v, %v", e, err)
			}
			if _, err := s.Entry(1, st.Last+1); err == nil {
				t.Error("there is an entry behind the last one")
			}
			var state [2]bytes.Buffer
			must(t, s.WriteState(1, &state[0]))
			if round%2 == 0 {
				must(t, s.Close())
			} else {
				left := crash(fsys, rng, 0)
				must(t, s.Crash())
				fsys = left
			}
			c.FS = fsys
			s = openStepped(t, c)
			check("after a restart")
			must(t, s.WriteState(1, &state[1]))
			if state[0].Len() == 0 || state[1].Len() == 0 {
				t.Error("there is no state")
			}
		}
		read := s.Read(1)
		if ready, err := read.Ready(); ready || err != nil {
			t.Errorf("a read before any step: ready %v, %v", ready, err)
		}
		stepUntil(t, s, 1, func() bool { ready, err := read.Ready(); must(t, err); return ready })
		if now := s.Now(1); now != source.Wall() {
			t.Errorf("Now = %d, want %d", now, source.Wall())
		}
		if _, err := s.Submit(1, engine.Command{Machine: 200}); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("a command for no machine: %v", err)
		}
		_, err := stepped(t, s, 1, toy.Command{Kind: toy.Later, Name: "c1", Delta: 5, Delay: 70}.In(homed(1)))
		must(t, err)
		if due := s.State(1).NextDue; due != source.Wall()+70 {
			t.Errorf("a timer is due at %d, want 70 ms from %d", due, source.Wall())
		}
		source.advance(69 * time.Millisecond)
		for range 10 {
			s.Step(1, 0)
			must(t, errors.Join(s.WriteLog(), s.Apply(1)))
		}
		if s.State(1).NextDue == engine.NoTimer {
			t.Error("a timer fired early")
		}
		source.advance(time.Millisecond)
		stepUntil(t, s, 1, func() bool { return s.State(1).NextDue == engine.NoTimer })
		want["c1"] += 5
		check("after a timer")
		must(t, s.Close())
	}
}

// TestMeasure: the counts of a host: commands and queries by kind, and the reasons of failures.
func TestMeasure(t *testing.T) {
	noLeaks(t)
	c := config(vfs.NewMem())
	c.Traffic = func() Traffic { return Traffic{BytesReceived: 5, BytesSent: 7} }
	h := open(t, c)
	ctx, body := t.Context(), int64(0)
	propose := func(c toy.Command, want error) {
		t.Helper()
		cmd := c.In(homed(0))
		body += int64(len(cmd.Body))
		if _, err := h.Propose(ctx, 0, cmd); !errors.Is(err, want) {
			t.Fatalf("%+v: %v, want %v", c, err, want)
		}
	}
	propose(toy.Command{Kind: toy.Add, Name: "a", Delta: 3}, nil)
	propose(toy.Command{Kind: toy.Add, Name: "a", Delta: 4}, nil)
	propose(toy.Command{Kind: toy.Later, Name: "a", Delta: 1, Delay: 1 << 40}, nil)
	q := toy.Counter{Namespace: homed(0), Name: "a"}
	must(t, h.Query(ctx, 0, &q))
	stale := toy.Counter{Namespace: homed(0), Name: "a"}
	must(t, h.StaleDoor().Query(ctx, 0, &stale))
	if q.Value != 7 || stale.Value != 7 {
		t.Errorf("the counter is %d, and %d where it may lag, want 7", q.Value, stale.Value)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := h.Propose(gone, 0, toy.Command{Kind: toy.Add, Name: "a"}.In(homed(0))); err == nil {
		t.Error("a command whose caller has gone succeeds")
	}
	m, err := h.Measure()
	must(t, err)
	var p MeasuredPrimitive
	for _, p = range m.Primitives {
		if p.Name == "toy" {
			break
		}
	}
	writes, reads := fmt.Sprint(p.Writes), fmt.Sprint(p.Reads)
	if p.Name != "toy" || reads != "[{counter 2} {sum 0}]" || len(p.Writes) != 5 || p.Writes[1] != (MeasuredOperation{"later", 1}) ||
		p.Writes[0].Count < 2 || p.Written.Count < 3 || p.Read.Count != 2 || p.Bytes < body ||
		len(p.Errors) != len(Reasons) || len(m.Queued) != 2 || m.Fsyncs.Count == 0 || m.LogBytes <= 0 {
		t.Errorf("Measure = %+v, writes %s, reads %s", m, writes, reads)
	}
	if store, err := h.MeasureStore(); err != nil || store == nil {
		t.Errorf("MeasureStore = %v, %v", store, err)
	}
	h.AddTraffic(10, 20)
	if st := stats(t, h); st.Port.BytesReceived != 15 || st.Port.BytesSent != 27 {
		t.Errorf("port %+v, want 15 and 27 bytes", st.Port)
	}
	calls, received, sent := h.Rates()
	if len(calls) != len(received) || len(calls) != len(sent) {
		t.Errorf("rates of %d, %d and %d seconds", len(calls), len(received), len(sent))
	}
	began, ended := make(chan struct{}), make(chan struct{})
	must(t, h.Go(func(ctx context.Context) { close(began); <-ctx.Done(); close(ended) }))
	<-began
	closeHost(t, h)
	<-ended
	_, storeErr := h.MeasureStore()
	_, statsErr := h.Stats()
	_, measureErr := h.Measure()
	for what, err := range map[string]error{"Measure": measureErr, "MeasureStore": storeErr, "Stats": statsErr,
		"Go": h.Go(func(context.Context) { t.Error("run after Close") })} {
		if !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s after Close: %v", what, err)
		}
	}
}

// TestReasons: each error is counted under its sentinel.
func TestReasons(t *testing.T) {
	for err, want := range map[error]string{
		engine.ErrNotFound: "refused", engine.ErrConflict: "refused", engine.ErrExists: "refused", engine.ErrInvalid: "refused",
		engine.ErrUnauthorized: "refused",
		engine.ErrBusy:         "busy", engine.ErrReadOnly: "read only", engine.ErrUnknownOutcome: "outcome unknown",
		engine.ErrUnavailable: "unavailable", engine.ErrClosed: "unavailable",
		context.Canceled: "cancelled", context.DeadlineExceeded: "cancelled", errors.New("x"): "other",
	} {
		if got := Reasons[reasonOf(fmt.Errorf("wrapped: %w", err))]; got != want {
			t.Errorf("%v is counted as %q, want %q", err, got, want)
		}
	}
	g := newGauges([]engine.Primitive{toy.Primitive()})[engine.MachineTest]
	for _, kind := range []uint8{0, toy.Add, toy.Clear, toy.Clear + 1, 255} {
		g.count(t.Context(), g.writes, kind, &g.written, time.Now(), nil)
	}
	var counts []int64
	for i := range g.writes {
		counts = append(counts, g.writes[i].Load())
	}
	if want := []int64{3, 1, 0, 0, 0, 1}; !reflect.DeepEqual(counts, want) {
		t.Errorf("kinds are counted as %v, want %v", counts, want)
	}
}

func withSum(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// TestTallies: saved counts are read again; a file that is damaged, or of another version, counts
// from zero.
func TestTallies(t *testing.T) {
	for _, want := range []tallies{
		{}, {totals: totals{1, 2, 3}}, {shards: []shardTallies{{1, []engine.Tally{{Machine: 2, Of: 3, N: -4}, {Machine: 5}}}, {shard: 7}},
			totals: totals{received: 1}},
	} {
		b := withSum(codec.Encode(nil, &want, (*tallies).code))
		got, err := decodeTallies(b)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) ||
			got.totals.sum() != want.totals.calls+want.totals.received+want.totals.sent {
			t.Errorf("%+v arrives as %+v, %v", want, got, err)
		}
		for i := range b {
			damaged := bytes.Clone(b)
			damaged[i] ^= 1
			if _, err := decodeTallies(damaged); err == nil {
				t.Errorf("%+v with byte %d damaged is accepted", want, i)
			}
			if _, err := decodeTallies(b[:i]); err == nil {
				t.Errorf("the first %d bytes of %+v are accepted", i, want)
			}
		}
	}
	if _, err := decodeTallies(withSum([]byte{2, 0})); err == nil {
		t.Error("counts of another version are accepted")
	}
}
