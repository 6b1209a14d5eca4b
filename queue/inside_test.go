package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestRedrivenArrives: the result of a redrive survives encoding: from it the next step continues.
func TestRedrivenArrives(t *testing.T) {
	want := redriven{requeued: 1, seen: 2, until: 3, more: true}
	var got redriven
	if err := codec.DecodeFields(codec.EncodeFields(nil, &want, (*redriven).code), &got, (*redriven).code); err != nil || got != want {
		t.Errorf("%+v became %+v, %v", want, got, err)
	}
}

// TestQueriesArriveAsTheyWere: queries and their results survive encoding between processes.
func TestQueriesArriveAsTheyWere(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	stats := Stats{
		Name: "q", CreatedAt: at(3), Paused: true, Settings: Settings{4, 5, 6, 7 * time.Millisecond, 8 * time.Hour, 9 * time.Hour, 10},
		Ready: 11, Delayed: 12, Inflight: 13, Dead: 14, Bytes: 15, Enqueued: 16, Duplicates: 17, Dequeued: 18, Acked: 19, Expired: 20,
		Purged: 21, Discarded: 22,
	}
	message := Message{
		Queue: "q", Seq: 3, Priority: 4, Payload: []byte("payload"), Headers: map[string]string{"a": "b"}, State: Dead, Attempts: 5,
		MaxAttempts: 6,
		EnqueuedAt:  at(7), LeaseUntil: at(8), AvailableAt: at(9), DiedAt: at(10), LastError: "why", Size: 11,
	}
	all := []Message{message, {Queue: "r", Seq: 1}}
	wire := engine.NewWire([]engine.Primitive{table()})
	for _, tt := range []struct{ asked, answered engine.Query }{
		{&statsQuery{namespace: "n", name: "q"}, &statsQuery{namespace: "n", name: "q", found: true, stats: stats}},
		{&statsQuery{namespace: "n", name: "q"}, &statsQuery{namespace: "n", name: "q"}},
		{
			&listQuery{namespace: "n", prefix: "p", after: "a", limit: 2},
			&listQuery{namespace: "n", prefix: "p", after: "a", limit: 2, items: []Stats{stats, stats}, more: true},
		},
		{
			&peekQuery{namespace: "n", name: "q", after: position{2, 3}, limit: 4, maxBytes: 5, state: Leased, withoutBody: true},
			&peekQuery{
				namespace: "n", name: "q", after: position{2, 3}, limit: 4, maxBytes: 5, state: Leased, withoutBody: true,
				found: true, items: all, next: position{6, 7}, more: true,
			},
		},
		{
			&deadQuery{namespace: "n", name: "q", after: 3, limit: 4, maxBytes: 5, text: "t", withoutBody: true},
			&deadQuery{namespace: "n", name: "q", after: 3, limit: 4, maxBytes: 5, text: "t", withoutBody: true, found: true, items: all,
				next: 6, more: true},
		},
		{&messageQuery{namespace: "n", name: "q", seq: 3}, &messageQuery{namespace: "n", name: "q", seq: 3, found: true, items: all}},
	} {
		got, err := wire.DecodeQuery(engine.AppendQuery(nil, tt.asked))
		if err != nil || !reflect.DeepEqual(got, tt.asked) {
			t.Errorf("%T arrives as %+v, %v, want %+v", tt.asked, got, err, tt.asked)
			continue
		}
		if err := engine.DecodeResults(got, engine.AppendResults(nil, tt.answered)); err != nil || !reflect.DeepEqual(got, tt.answered) {
			t.Errorf("the answer of %T arrives as %+v, %v, want %+v", tt.asked, got, err, tt.answered)
		}
	}
	headers := map[string]string(nil)
	if err := codec.DecodeFields(codec.AppendBytes([]byte{1}, []byte{0xff}), &headers,
		func(m *map[string]string, f *codec.Fields) { engine.CodePairMap(f, "headers", m) }); err == nil {
		t.Errorf("malformed headers are decoded: %v", headers)
	}
	arrives := func(q engine.Query) error {
		if _, err := wire.DecodeQuery(engine.AppendQuery(nil, q)); err != nil {
			return engine.Errorf(ErrInvalid, "%v", err)
		}
		return nil
	}
	machinetest.TryLimits(t, []machinetest.Limit{
		{Name: "limit of a list", Least: 1, Most: MaxPageItems, Try: func(n int64) error { return arrives(&listQuery{limit: int(n)}) }},
		{Name: "limit of messages", Least: 1, Most: MaxPageItems,
			Try: func(n int64) error { return arrives(&peekQuery{limit: int(n), maxBytes: 1}) }},
		{Name: "bytes of messages", Least: 1, Most: maxPageBytes,
			Try: func(n int64) error { return arrives(&peekQuery{limit: 1, maxBytes: int(n)}) }},
		{Name: "state", Least: math.MinInt64, Most: int64(Leased),
			Try: func(n int64) error { return arrives(&peekQuery{limit: 1, maxBytes: 1, state: State(n)}) }},
		{Name: "limit of dead letters", Least: 1, Most: MaxPageItems,
			Try: func(n int64) error { return arrives(&deadQuery{limit: int(n), maxBytes: 1}) }},
		{Name: "bytes of dead letters", Least: 1, Most: maxPageBytes,
			Try: func(n int64) error { return arrives(&deadQuery{limit: 1, maxBytes: int(n)}) }},
		{Name: "bytes of a filter", Least: math.MinInt64, Most: MaxFilterBytes, Try: func(n int64) error {
			return arrives(&deadQuery{limit: 1, maxBytes: 1, text: strings.Repeat("a", int(n))})
		}},
	})
}

// TestLimitsOfOtherProcesses: a command made by another process has the same limits as a local one.
func TestLimitsOfOtherProcesses(t *testing.T) {
	bytes := func(n int64) []byte { return make([]byte, n) }
	receipts := func(n int64) (all []receipt) {
		for i := range n {
			all = append(all, receipt{uint64(i + 1), 1})
		}
		return all
	}
	messages := func(n int64, m newMessage) error {
		return enqueue.Op("q", enqueueBody{slices.Repeat([]newMessage{m}, int(n))}, nil).Err
	}
	set := func(f func(*settings)) error {
		s := defaultSettings
		f(&s)
		return s.check()
	}
	const none = math.MinInt64
	limits := []machinetest.Limit{
		{Name: "max", Least: 1, Most: MaxBatch, Says: []string{"max", "1-1000"},
			Try: func(n int64) error { return dequeue.Op("q", dequeueBody{n, 1}, nil).Err }},
		{Name: "delay of a nack", Least: 0, Most: maxDurationMillis, Says: []string{"delay"},
			Try: func(n int64) error { return nack.Op("q", nackBody{flags: nackDelayed, delay: n}, nil).Err }},
		{Name: "bytes of a reason", Least: none, Most: MaxReasonBytes, Says: []string{"reason of 1025 bytes", "1024"},
			Try: func(n int64) error { return nack.Op("q", nackBody{reason: bytes(n)}, nil).Err }},
		{Name: "bytes of a filter", Least: none, Most: MaxFilterBytes, Says: []string{"1025", "1024"},
			Try: func(n int64) error { return redrive.Op("q", redriveBody{filter: bytes(n)}, nil).Err }},
		{Name: "messages", Least: 1, Most: MaxBatch, Says: []string{"messages", "1-1000"},
			Try: func(n int64) error { return messages(n, newMessage{}) }},
		{Name: "delay", Least: 0, Most: maxDurationMillis, Says: []string{"delay"},
			Try: func(n int64) error { return messages(1, newMessage{delay: n}) }},
		{Name: "max attempts", Least: 0, Most: MaxAttemptsLimit, Says: []string{"max attempts"},
			Try: func(n int64) error { return messages(1, newMessage{maxAttempts: n}) }},
		{Name: "bytes of a dedup key", Least: none, Most: MaxDedupKeyBytes, Says: []string{"dedup key", "256", "255"},
			Try: func(n int64) error { return messages(1, newMessage{dedup: bytes(n)}) }},
		{Name: "max length", Least: 0, Most: math.MaxInt64, Says: []string{"bounds -1"},
			Try: func(n int64) error { return set(func(s *settings) { s.maxLen = n }) }},
		{Name: "max bytes", Least: 0, Most: math.MaxInt64, Says: []string{"-1 are negative"},
			Try: func(n int64) error { return set(func(s *settings) { s.maxBytes = n }) }},
		{Name: "attempts", Least: 1, Most: MaxAttemptsLimit, Says: []string{"max attempts"},
			Try: func(n int64) error { return set(func(s *settings) { s.maxAttempts = n }) }},
		{Name: "shortest back-off", Least: 0, Most: 7, Says: []string{"ms"},
			Try: func(n int64) error { return set(func(s *settings) { s.backoffMin, s.backoffMax = n, 7 }) }},
		{Name: "longest back-off", Least: 0, Most: maxDurationMillis, Says: []string{"duration"},
			Try: func(n int64) error { return set(func(s *settings) { s.backoffMin, s.backoffMax = 0, n }) }},
		{Name: "retention", Least: 0, Most: maxDurationMillis, Says: []string{"duration"},
			Try: func(n int64) error { return set(func(s *settings) { s.deadRetention = n }) }},
		{Name: "dedup window", Least: 1, Most: maxDurationMillis, Says: []string{"ms"},
			Try: func(n int64) error { return set(func(s *settings) { s.dedupWindow = n }) }},
	}
	for name, lease := range map[string]func(ms int64) engine.Op{
		"dequeue": func(ms int64) engine.Op { return dequeue.Op("q", dequeueBody{1, ms}, nil) },
		"extend":  func(ms int64) engine.Op { return extend.Op("q", extendBody{lease: ms}, nil) },
		"renew":   func(ms int64) engine.Op { return renew.Op("q", renewBody{ms, receiptsBody{receipts(1)}}, nil) },
	} {
		limits = append(limits, machinetest.Limit{Name: "lease of " + name, Least: 1, Most: maxDurationMillis, Says: []string{"lease"},
			Try: func(n int64) error { return lease(n).Err }})
	}
	for name, of := range map[string]func(b receiptsBody) engine.Op{
		"ack":     func(b receiptsBody) engine.Op { return ack.Op("q", b, nil) },
		"release": func(b receiptsBody) engine.Op { return release.Op("q", b, nil) },
		"renew":   func(b receiptsBody) engine.Op { return renew.Op("q", renewBody{1, b}, nil) },
	} {
		limits = append(limits, machinetest.Limit{Name: "receipts of " + name, Least: 1, Most: MaxBatch,
			Says: []string{"receipts", "1-1000"}, Try: func(n int64) error {
				return of(receiptsBody{receipts(max(n, 0))}).Err
			}})
	}
	machinetest.TryLimits(t, limits)
	if err := messages(1, newMessage{headers: []byte{0xff}}); err == nil {
		t.Error("headers that cannot be are taken")
	}
}

// TestMakes: how many messages a command may make ready at once.
func TestMakes(t *testing.T) {
	m := newMachine().(*machine)
	for _, c := range []struct {
		name string
		op   engine.Operation
		want int
	}{
		{"a nack", NackOp("q", []Receipt{"1-1"}), 1},
		{"a nack of three", NackOp("q", []Receipt{"1-1", "2-1", "3-1"}), 3},
		{"a nack with no delay", NackOp("q", []Receipt{"1-1"}, Delay(0)), 1},
		{"a nack with a delay", NackOp("q", []Receipt{"1-1"}, Delay(time.Millisecond)), 0},
		{"a nack to the dead letters", NackOp("q", []Receipt{"1-1"}, ToDLQ()), 0},
		{"a release of two", release.Op("q", receiptsBody{[]receipt{{1, 1}, {2, 1}}}, nil), 2},
		{"a requeue", requeue.Op("q", seqBody{1}, nil), 1},
		{"a redrive", redrive.Op("q", redriveBody{}, nil), MaxBatch},
		{"a pause", pause.Op("q", pauseBody{true}, nil), 0},
		{"a resume", pause.Op("q", pauseBody{false}, nil), MaxBatch},
		{"an ack", ack.Op("q", receiptsBody{[]receipt{{1, 1}}}, nil), 0},
	} {
		cmd, err := engine.OpOf(c.op).Limit(DefaultMaxPayloadBytes)
		if err != nil {
			t.Fatal(err)
		}
		made := 0
		m.Makes(cmd, func(of engine.Made) { made += of.N })
		if made != c.want {
			t.Errorf("%s makes %d messages ready, want %d", c.name, made, c.want)
		}
	}
}

// TestRecordBounds: the row of a queue has at most one lane per priority, in order, and its times
// are milliseconds or never.
func TestRecordBounds(t *testing.T) {
	decoded := func(r record) error {
		got, err := decodeRecord(r.encode(nil))
		if err == nil && !reflect.DeepEqual(got.lanes, r.lanes) {
			t.Errorf("lanes %v became %v", r.lanes, got.lanes)
		}
		if err != nil {
			return engine.Errorf(ErrInvalid, "%v", err)
		}
		return nil
	}
	lanes := func(n int64) (r record) {
		for i := range n {
			r.lanes = append(r.lanes, lane{priority: byte(i), first: 7})
		}
		return r
	}
	machinetest.TryLimits(t, []machinetest.Limit{
		{Name: "lanes", Least: math.MinInt64, Most: MaxPriority + 1, Says: []string{"257 lanes"},
			Try: func(n int64) error { return decoded(lanes(n)) }},
		{Name: "priority of the second lane", Least: 4, Most: math.MaxInt64, Says: []string{"lanes out of order"},
			Try: func(n int64) error { return decoded(record{lanes: []lane{{priority: 3}, {priority: byte(n)}}}) }},
	})
	for v, want := range map[uint64]string{0: "never", 1: "0", never: fmt.Sprint(never - 1), never + 1: "time out of range"} {
		at, c := int64(0), codec.NewDecoder(codec.AppendUvarint(nil, v))
		codeTime(&c, &at)
		got := fmt.Sprint(at)
		if err := c.Done(); err != nil {
			got = err.Error()
		} else if at == never {
			got = "never"
		}
		if !strings.Contains(got, want) {
			t.Errorf("time %d is %s, want %s", v, got, want)
		}
	}
}

// TestDeliveredInJSON: a delivered message shows its receipt in JSON, which the binary form leaves
// out; malformed headers do not decode.
func TestDeliveredInJSON(t *testing.T) {
	m := Message{Seq: 1, Receipt: "1-2", Headers: map[string]string{"a": "b"}, Payload: []byte("p")}
	shown, lossy := codec.AppendJSON(nil, true, m.codeDelivered)
	if lossy || !strings.Contains(string(shown), `"receipt":"1-2"`) {
		t.Errorf("it is shown as %s, lossy: %v", shown, lossy)
	}
	encoded := codec.EncodeFields(nil, &m, (*Message).codeDelivered)
	var got Message
	if err := codec.DecodeFields(encoded, &got, (*Message).codeDelivered); err != nil || got.Headers["a"] != "b" || got.State != Leased {
		t.Errorf("it is decoded as %+v, %v", got, err)
	}
	bad := strings.Replace(string(encoded), "\x01a\x01b", "\x01a\x7fb", 1)
	if err := codec.DecodeFields([]byte(bad), &got, (*Message).codeDelivered); err == nil || bad == string(encoded) {
		t.Errorf("malformed headers are decoded: %+v", got)
	}
}

// TestMalformedLeases: rows of leases that do not decode, or whose keys are too long, are skipped
// when a shard starts, and the others are read.
func TestMalformedLeases(t *testing.T) {
	r, m, do := newInsideRig(t)
	do(EnqueueOp("q", nil), EnqueueOp("q", nil), DequeueOp("q", Max(2)))
	i := slices.IndexFunc(r.Rows(0), func(row machinetest.Row) bool { return row.Key[0] == 'l' && row.Machine == engine.MachineQueue })
	row := r.Rows(0)[i]
	r.Tamper(0, machinetest.Row{Machine: row.Machine, Key: append(slices.Clone(row.Key), 0), Value: row.Value})
	zero := append(slices.Clone(row.Key[:len(row.Key)-1]), 0) // before all others
	r.Tamper(0, machinetest.Row{Machine: row.Machine, Key: zero, Value: []byte{0xff}})
	r.Restart()
	for gen, l := range m.leases {
		if l.len() != 2 {
			t.Errorf("generation %d has %d leases, want 2", gen, l.len())
		}
	}
	if len(m.leases) != 1 {
		t.Errorf("leases of %d generations", len(m.leases))
	}
}

// TestNeverFits: messages for which even an empty queue has no room are refused for good, and those
// for which a full queue has none at the moment.
func TestNeverFits(t *testing.T) {
	r, _, do := newInsideRig(t)
	do(ConfigureOp("empty", Settings{MaxLen: 1}), ConfigureOp("full", Settings{MaxLen: 1}), EnqueueOp("full", nil))
	for name, lasts := range map[string]bool{"full": false, "empty": true} {
		cmd, err := engine.OpOf(EnqueueManyOp(name, make([]NewMessage, 2))).Limit(DefaultMaxPayloadBytes)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Namespace = "n"
		out := r.Entry(0, cmd)[0]
		var l interface{ Lasts() bool }
		if !errors.Is(out.Err, ErrBusy) || (errors.As(out.Err, &l) && l.Lasts()) != lasts {
			t.Errorf("two messages for the %s queue: %v, lasting: %v", name, out.Err, !lasts)
		}
	}
}

// TestDeleteWithDeadLetters: a deleted queue leaves no dead letters, whether they are few or many.
func TestDeleteWithDeadLetters(t *testing.T) {
	for _, n := range []int{1, fewRows, fewRows + 1} {
		r, _, do := newInsideRig(t)
		do(EnqueueManyOp("q", make([]NewMessage, n)), DequeueOp("q", Max(n)))
		var all []Receipt
		for i := range n { // the delivery is the second command
			all = append(all, Receipt(fmt.Sprintf("%d-2", i+1)))
		}
		do(NackOp("q", all, ToDLQ()), DeleteOp("q"))
		for _, row := range r.Rows(0) {
			if row.Machine == engine.MachineQueue && strings.IndexByte("xy", row.Key[0]) >= 0 {
				t.Fatalf("%d dead letters: row %q is left", n, row.Key)
			}
		}
		r.Verify()
	}
}

// roomQuery reads a queue's free room as duties of other machines do, and can wait for some.
type roomQuery struct {
	engine.Query
	name  string
	asked chan struct{} // nil: do not wait
	room  protocol.QueueRoom
}

func (*roomQuery) Machine() engine.MachineID { return engine.MachineQueue }

func (*roomQuery) Kind() uint8 { return queryMessage + 1 }

func (m *machine) queryRoom(v *engine.View, room *roomQuery) (err error) {
	if room.asked != nil {
		if err := v.WaitOn(protocol.QueueRoomTopic("n", room.name)); err != nil {
			return err
		}
	}
	if room.room, err = m.ReadRoom(v, "n", room.name); err == nil && room.asked != nil &&
		(room.room.Messages == 0 || room.room.Bytes == 0) {
		select {
		case room.asked <- struct{}{}:
		default:
		}
		return engine.ErrWait
	}
	return err
}

// newInsideRig returns a rig, its machine, and a function that applies operations.
func newInsideRig(t *testing.T) (*machinetest.Rig, *machine, func(...engine.Operation)) {
	m := newMachine().(*machine)
	p := table()
	p.New = func() engine.Machine { return m }
	p.Queries = append(p.Queries, engine.QueryRow(queryMessage+1, "room", (*machine).queryRoom))
	r := machinetest.Open(t, machinetest.Config{Shards: 1, Primitives: []engine.Primitive{p}})
	return r, m, func(ops ...engine.Operation) {
		t.Helper()
		for _, op := range ops {
			cmd, err := engine.OpOf(op).Limit(DefaultMaxPayloadBytes)
			if err != nil {
				t.Fatal(err)
			}
			cmd.Namespace = "n"
			if out := r.Entry(0, cmd)[0]; out.Err != nil {
				t.Fatal(out.Err)
			}
		}
	}
}

// TestRoom: a queue's free room is what its bounds leave. A query waiting for room is notified by
// every change that makes room.
func TestRoom(t *testing.T) {
	r, _, do := newInsideRig(t)
	roomOf := func(name string) protocol.QueueRoom {
		t.Helper()
		q := &roomQuery{name: name}
		if err := r.Query(t.Context(), 0, q); err != nil {
			t.Fatal(err)
		}
		return q.room
	}
	const ever = math.MaxInt64
	want := func(name string, room protocol.QueueRoom) {
		t.Helper()
		if got := roomOf(name); got != room {
			t.Errorf("the room of %s is %+v, want %+v", name, got, room)
		}
	}
	want("none", protocol.QueueRoom{Messages: ever, Bytes: ever, MaxMessages: ever, MaxBytes: ever})
	do(ConfigureOp("long", Settings{MaxLen: 2}), ConfigureOp("large", Settings{MaxBytes: 9}), EnqueueOp("open", nil))
	want("none", protocol.QueueRoom{Messages: ever, Bytes: ever, MaxMessages: ever, MaxBytes: ever})
	want("open", protocol.QueueRoom{Messages: ever, Bytes: ever, MaxMessages: ever, MaxBytes: ever})
	do(EnqueueOp("long", []byte("abc"), Delay(time.Hour)), EnqueueOp("large", []byte("abc")))
	want("long", protocol.QueueRoom{Messages: 1, Bytes: ever, MaxMessages: 2, MaxBytes: ever})
	want("large", protocol.QueueRoom{Messages: ever, Bytes: 6, MaxMessages: ever, MaxBytes: 9})
	do(EnqueueOp("long", nil), EnqueueOp("large", []byte("abcdef")))
	want("long", protocol.QueueRoom{Messages: 0, Bytes: ever, MaxMessages: 2, MaxBytes: ever})
	want("large", protocol.QueueRoom{Messages: ever, Bytes: 0, MaxMessages: ever, MaxBytes: 9})
	do(ConfigureOp("long", Settings{MaxLen: 1}), ConfigureOp("large", Settings{MaxBytes: 5}))
	want("long", protocol.QueueRoom{Messages: 0, Bytes: ever, MaxMessages: 1, MaxBytes: ever})
	want("large", protocol.QueueRoom{Messages: ever, Bytes: 0, MaxMessages: ever, MaxBytes: 5})

	for name, op := range map[string]func(lsn int) engine.Operation{
		"an ack": func(lsn int) engine.Operation { return AckOp("q", Receipt(fmt.Sprintf("1-%d", lsn))) },
		"a death": func(lsn int) engine.Operation {
			return NackOp("q", []Receipt{Receipt(fmt.Sprintf("1-%d", lsn))}, ToDLQ())
		},
		"a purge":         func(int) engine.Operation { return PurgeOp("q") },
		"a delete":        func(int) engine.Operation { return DeleteOp("q") },
		"a removal":       func(int) engine.Operation { return DeleteMessageOp("q", 2) },
		"a larger bound":  func(int) engine.Operation { return ConfigureOp("q", Settings{MaxLen: 3}) },
		"no bound at all": func(int) engine.Operation { return ConfigureOp("q", Settings{}) },
	} {
		t.Run(name, func(t *testing.T) {
			r, _, do := newInsideRig(t)
			do(ConfigureOp("q", Settings{MaxLen: 2}), EnqueueOp("q", nil), EnqueueOp("q", nil), DequeueOp("q", Lease(time.Hour)))
			lsn := 0
			for _, row := range r.Rows(0) {
				if row.Machine == engine.MachineQueue && row.Key[0] == 'l' {
					l, err := decodeLease(row.Value)
					if err != nil {
						t.Fatal(err)
					}
					lsn = int(l.lsn)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			q, answered := &roomQuery{name: "q", asked: make(chan struct{}, 1)}, make(chan error, 1)
			go func() { answered <- r.Query(ctx, 0, q) }()
			<-q.asked
			do(op(lsn))
			if err := <-answered; err != nil || q.room.Messages == 0 {
				t.Errorf("who waits for room is told of %+v, %v", q.room, err)
			}
		})
	}
}

// TestVerifyReportsValues changes one value of a row or of the cache at a time; Verify must report
// it.
func TestVerifyReportsValues(t *testing.T) {
	type damage struct {
		*machinetest.Rig
		m *machine
	}
	row := func(r damage, kind string) machinetest.Row {
		for _, row := range r.Rows(0) {
			if row.Machine == engine.MachineQueue && strings.HasPrefix(string(row.Key), kind) {
				return row
			}
		}
		panic("there is no row " + kind)
	}
	set := func(r damage, k, value []byte) {
		r.Tamper(0, machinetest.Row{Machine: engine.MachineQueue, Key: k, Value: value})
	}
	queue := func(f func(*record)) func(damage) {
		return func(r damage) {
			old := row(r, "q")
			q, err := decodeRecord(old.Value)
			if err != nil {
				panic(err)
			}
			f(&q)
			set(r, old.Key, q.encode(nil))
		}
	}
	message := func(f func(*messageRow)) func(damage) {
		return func(r damage) {
			old := row(r, "m")
			w, err := decodeMessage(old.Value)
			if err != nil {
				panic(err)
			}
			f(&w)
			set(r, old.Key, w.encode(nil))
		}
	}
	delivery := func(kind string, f func(*leaseRow)) func(damage) {
		return func(r damage) {
			old := row(r, kind)
			w, err := decodeLease(old.Value)
			if err != nil {
				panic(err)
			}
			f(&w)
			set(r, old.Key, w.encode(nil))
		}
	}
	dead := func(f func(*deadRow)) func(damage) {
		return func(r damage) {
			old := row(r, "x")
			w, err := decodeDead(old.Value)
			if err != nil {
				panic(err)
			}
			f(&w)
			set(r, old.Key, w.encode(nil))
		}
	}
	remembered := func(f func(*memory)) func(damage) {
		return func(r damage) {
			for _, q := range r.m.queues.All() {
				f(q)
			}
		}
	}
	for name, c := range map[string]struct {
		damage func(damage)
		want   string
	}{
		"a name that cannot be": {func(r damage) { old := row(r, "q"); set(r, append(slices.Clone(old.Key), 0), old.Value) },
			"queue name"},
		"settings":              {queue(func(q *record) { q.settings.maxAttempts = 0 }), "max attempts 0 is not"},
		"no id":                 {queue(func(q *record) { q.id = 0 }), "id 0, generation"},
		"generation before id":  {queue(func(q *record) { q.gen = q.id - 1 }), "; the shard is at"},
		"generation to come":    {queue(func(q *record) { q.gen = 1000 }), "generation 1000, created at"},
		"time of creation":      {queue(func(q *record) { q.createdAt++ }), "; the shard is at"},
		"acked":                 {queue(func(q *record) { q.acked++ }), "are accounted for"},
		"purged":                {queue(func(q *record) { q.purged++ }), "are accounted for"},
		"discarded":             {queue(func(q *record) { q.discarded++ }), "are accounted for"},
		"enqueued":              {queue(func(q *record) { q.enqueued++ }), "are accounted for"},
		"enqueued and acked":    {queue(func(q *record) { q.enqueued, q.acked = q.enqueued+1, q.acked+1 }), "are accounted for"},
		"last seq":              {queue(func(q *record) { q.seq++ }), "are accounted for"},
		"expired":               {queue(func(q *record) { q.expired = -1 }), "a counter is -1"},
		"duplicates":            {queue(func(q *record) { q.duplicates = -1 }), "a counter is -1"},
		"ready":                 {queue(func(q *record) { q.ready++ }), "ready: its row counts"},
		"bytes":                 {queue(func(q *record) { q.bytes++ }), "bytes: its row counts"},
		"lane":                  {queue(func(q *record) { q.lanes[0].first = q.seq + 2 }), "the last message is"},
		"lanes of nothing":      {queue(func(q *record) { q.ready, q.delayed, q.inflight = 0, 0, 0 }), "its lane"},
		"mark of delays":        {queue(func(q *record) { q.nextDelayed = never }), "is before the mark"},
		"mark of deaths":        {queue(func(q *record) { q.nextDead = never }), "dead letter 1: "},
		"mark of keys":          {queue(func(q *record) { q.nextDedup = never }), `dedup key "k" until`},
		"mark of ready ones":    {queue(func(q *record) { q.again = end }), "is before the mark"},
		"timer":                 {queue(func(q *record) { q.timer = never }), "its timer is at"},
		"timer behind a lease":  {queue(func(q *record) { q.timer = never }), "the lease of message"},
		"retention":             {queue(func(q *record) { q.settings.deadRetention, q.timer = 1, q.nextDead+2 }), "something is due at"},
		"enqueued to come":      {message(func(w *messageRow) { w.enqueuedAt++ }), "message row"},
		"headers":               {message(func(w *messageRow) { w.headers = []byte{0xff} }), "message 3: headers"},
		"size of a lease":       {delivery("l", func(w *leaseRow) { w.size++ }), "its delivery"},
		"flags of a lease":      {delivery("l", func(w *leaseRow) { w.flags ^= flagIndexed }), "its delivery"},
		"attempts of a lease":   {delivery("l", func(w *leaseRow) { w.attempts = w.maxAttempts + 1 }), "its delivery"},
		"limit of a lease":      {delivery("l", func(w *leaseRow) { w.maxAttempts++ }), "its delivery"},
		"number of a lease":     {delivery("l", func(w *leaseRow) { w.lsn = 1000 }), "its delivery 1000"},
		"lease in memory":       {delivery("l", func(w *leaseRow) { w.at++ }), "memory differs from the lease"},
		"not dead":              {delivery("o", func(w *leaseRow) { w.attempts = w.maxAttempts }), "is not dead after"},
		"dead without attempts": {dead(func(w *deadRow) { w.attempts = 0 }), "dead letter 1: 0 attempts"},
		"dead of more attempts": {dead(func(w *deadRow) { w.attempts = w.maxAttempts + 1 }), "dead letter 1: "},
		"dead before born":      {dead(func(w *deadRow) { w.enqueuedAt = w.diedAt + 1 }), "dead letter 1: "},
		"death to come":         {dead(func(w *deadRow) { w.diedAt += 1000 }), "dead letter 1: "},
		"headers of the dead":   {dead(func(w *deadRow) { w.headers = []byte{0xff} }), "message 1: headers"},
		"dead and alive": {func(r damage) {
			old, m := row(r, "x"), row(r, "m")
			set(r, append(append(slices.Clone(m.Key[:numberAt]), 0), old.Key[numberAt:]...), m.Value)
		}, "message 1 is dead and alive"},
		"queues counted wrongly": {func(r damage) { r.Tamper(0, machinetest.Row{Machine: engine.MachineQueue, Key: row(r, "q").Key}) },
			`its row counts 1 queues, there are 0`},
		"leases of no queue":       {func(r damage) { r.m.leases[1000] = new(leases) }, "memory has leases of generation 1000"},
		"leases counted in memory": {func(r damage) { r.m.inflight++ }, "memory counts"},
		"generation in memory":     {remembered(func(q *memory) { q.gen++ }), "memory at"},
		"other leases in memory":   {remembered(func(q *memory) { q.leases = new(leases) }), "leases, the row counts"},
		"lease lost in memory":     {remembered(func(q *memory) { clear(q.leases.bySeq) }), "leases, the row counts"},
		"fresh one lost in memory": {remembered(func(q *memory) { q.fresh.items = q.fresh.items[:0] }), "among the fresh ones"},
		"fresh one known to memory": {remembered(func(q *memory) { q.fresh.items = append(q.fresh.items, item{at: position{100, 1000}}) }),
			"fresh messages, the state"},
		"ready one lost in memory": {remembered(func(q *memory) { q.again.items = q.again.items[:0] }),
			"among those that are ready again"},
		"ready one known to memory": {remembered(func(q *memory) { q.again.items = append(q.again.items, item{at: position{100, 1000}}) }),
			"that are ready again, the state"},
		"a ready one of another seq": {remembered(func(q *memory) { q.again.items[0].at.seq = 1000 }), "among those that are ready again"},
	} {
		t.Run(name, func(t *testing.T) {
			r, m, do := newInsideRig(t)
			do(ConfigureOp("q", Settings{MaxAttempts: 2, DeadRetention: time.Hour}),
				EnqueueOp("q", []byte("dead"), Priority(0), DedupKey("k")), DequeueOp("q", Lease(time.Hour)))
			lease, err := decodeLease(row(damage{r, m}, "l").Value)
			if err != nil {
				t.Fatal(err)
			}
			do(NackOp("q", []Receipt{receipt{1, lease.lsn}.public()}, ToDLQ()), EnqueueOp("q", []byte("again")),
				DequeueOp("q", Lease(time.Hour)))
			if lease, err = decodeLease(row(damage{r, m}, "l").Value); err != nil {
				t.Fatal(err)
			}
			do(
				NackOp("q", []Receipt{receipt{2, lease.lsn}.public()}, Delay(0)), EnqueueOp("q", []byte("leased"),
					Priority(1)), DequeueOp("q", Lease(time.Hour)),
				EnqueueOp("q", []byte("fresh")), EnqueueOp("q", nil, Delay(time.Hour)),
			)
			r.Verify()
			c.damage(damage{r, m})
			r.Distrust()
			if said := strings.Join(r.Problems(0), "\n"); !strings.Contains(said, c.want) {
				t.Errorf("Verify reports\n%s\nwant %q", said, c.want)
			}
		})
	}
}

// TestMalformedReceipts: the error names a malformed receipt, in a list of up to MaxBatch. Of a
// longer list only the length is reported.
func TestMalformedReceipts(t *testing.T) {
	for _, n := range []int{1, 2, MaxBatch, MaxBatch + 1} {
		receipts := make([]Receipt, n)
		for i := range receipts {
			receipts[i] = receipt{uint64(i + 1), 5}.public()
		}
		receipts[n/2] = "x"
		err := new(receiptsBody).parse(receipts)
		named := errors.Is(err, ErrInvalid) && strings.Contains(err.Error(), `"x" is no receipt`)
		if named != (n <= MaxBatch) || n > MaxBatch && err != nil {
			t.Errorf("%d receipts: %v", n, err)
		}
	}
}

// TestMalformedTakes: a malformed take, and another command, take nothing.
func TestMalformedTakes(t *testing.T) {
	for _, cmd := range []engine.Command{{Kind: kindDequeue + 1}, {Kind: kindDequeue, Body: []byte{0xff}}} {
		if _, _, err := new(machine).Takeable(nil, cmd, true); !errors.Is(err, ErrInvalid) {
			t.Errorf("Takeable of command %d: %v, want ErrInvalid", cmd.Kind, err)
		}
	}
}
