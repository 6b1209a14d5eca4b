package stream

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestPushScripts runs the scripts in testdata/push. Namespace n has the streams; it is spread over
// three shards in scripts with spread in their name. Besides the lines of every primitive:
//
//	sub t in g batch=2 wait=5s most=1 mode=2 latest=yes paused=yes gone=yes from=m revision=3
//	                       taker t, of namespace m, subscribes to the stream with a group
//	append in body partition=1 key=k     create in 4     delete in     trim in 5     seek in g begin     group in g
//	read in g c limit=2    refuse in g   leave in g c    drop in g     dead in
//	push                   the duty hands out due records; prints the batches as shard: stream/partition [payloads] and the number of the awaited end
//	end 1 ...              the work on the batches with these numbers has ended; again 1: it continues after all
//	info t in              the subscription's state in each shard
func TestPushScripts(t *testing.T) {
	machinetest.RunScripts(t, "testdata/push", func(t *testing.T) *machinetest.Script {
		shards, spread := 1, strings.Contains(t.Name(), "spread")
		if spread {
			shards = 3
		}
		r := machinetest.New(t, shards, engine.TableOf[Store](), subscriberPrimitive)
		for ns, spread := range map[string]bool{"n": spread, "m": false, "wide": true} {
			if err := engine.NewNamespaces(r.Router()).Create(t.Context(), ns, spread); err != nil {
				t.Fatal(err)
			}
		}
		s := &pushScript{Script: &machinetest.Script{Rig: r, Limit: 1 << 20, Verify: r.Verify},
			store: engine.StoreOf[Store](r.Router(), "n", 1<<20)}
		s.Operation = func(string, machinetest.Args) (engine.Operation, bool) { return nil, false }
		s.Condition = func(string, machinetest.Args) (engine.Condition, bool) { return nil, false }
		s.Other = s.other
		return s.Script
	})
}

type pushScript struct {
	*machinetest.Script
	store *Store
	seen  [3]int              // printed batches per shard
	ends  map[uint64]batchEnd // by number
}

// batchEnd identifies the destination of an end's token.
type batchEnd struct {
	namespace string
	shard     engine.ShardID
	token     []byte
}

func (s *pushScript) other(_ context.Context, line, verb string, a machinetest.Args) bool {
	ctx, name, group := context.Background(), a.Word(0), a.Word(1)
	var result any = "ok"
	var err error
	switch verb {
	case "sub":
		err = s.subscribe(a)
	case "append":
		var at Appended
		opts := []AppendOption{}
		if a.Has("partition") {
			opts = append(opts, Partition(int(machinetest.Number(a.Named["partition"]))))
		}
		m := Message{Key: a.Named["key"], Payload: []byte(strings.ReplaceAll(group, "large", strings.Repeat("large", 100_000)))}
		if a.Has("header") {
			m.Headers = map[string]string{"a": "b", "h": a.Named["header"]}
		}
		at, err = s.store.Append(ctx, name, m, opts...)
		result = fmt.Sprintf("%d/%d", at.Partition, at.Offset)
	case "create":
		err = s.store.Create(ctx, name, Partitions(int(machinetest.Number(a.Word(1)))))
	case "delete":
		err = s.store.Delete(ctx, name, Force())
	case "trim":
		_, err = s.store.Trim(ctx, name, MaxLen(machinetest.Number(a.Word(1))))
	case "seek":
		if a.Word(2) == "end" {
			err = s.store.Seek(ctx, name, group, FromEnd())
		} else {
			err = s.store.Seek(ctx, name, group, FromBeginning())
		}
	case "group":
		err = s.store.Groups(name).Create(ctx, group, InMode(Mode(len(a.Named["mode"]))))
	case "read", "refuse":
		var ds []Delivery
		if ds, err = s.store.ReadGroup(ctx, name, group, a.Word(2), Limit(int(machinetest.Number(a.Word(3))))); err == nil {
			result = fmt.Sprint(len(ds))
		}
		if verb == "refuse" && err == nil {
			_, err = s.store.Nack(ctx, name, group, RefsOf(ds), Delay(0))
		}
	case "leave":
		err = s.store.Leave(ctx, name, group, a.Word(2))
	case "drop":
		err = s.store.Groups(name).Delete(ctx, group)
	case "dead":
		result, err = s.dead(ctx, name)
	case "push":
		s.Rig.Deliver()
		s.Rig.Advance(0)
		result = s.batches()
	case "end", "again":
		for _, w := range a.Words {
			s.end(uint64(machinetest.Number(w)), map[string]uint8{"again": protocol.StatusAgain}[verb])
		}
	case "info":
		result = s.info(a)
	default:
		return false
	}
	s.Answer(line, result, err)
	return true
}

func (s *pushScript) subscribe(a machinetest.Args) error {
	number := func(name string, otherwise int64) int64 {
		if !a.Has(name) {
			return otherwise
		}
		return machinetest.Number(a.Named[name])
	}
	from := a.Named["from"]
	if from == "" {
		from = "n"
	}
	w := wish{"n", protocol.Subscription{
		Subscriber: protocol.Subscriber{Machine: engine.MachineWorkflow, Command: subscriberBatch, Namespace: from,
			Spread: s.Rig.Shards() > 1 && from != "m", Name: a.Word(0)},
		Revision: uint64(number("revision", 1)), Stream: a.Word(1), Group: a.Word(2), Batch: number("batch", 10), Most: number("most",
			0), Mode: uint8(number("mode", 0)),
		Latest: a.Has("latest"), Paused: a.Has("paused"), Gone: a.Has("gone"),
	}}
	if a.Has("wait") {
		w.Wait = machinetest.Duration(a.Named["wait"]).Milliseconds()
	}
	_, err := s.Rig.Router().Propose(context.Background(), a.Word(0), engine.Command{
		Machine: engine.MachineWorkflow, Kind: subscriberSubscribe, Namespace: from, Body: encodeBody(&w, (*wish).code),
	})
	s.Rig.Deliver()
	return err
}

// batches describes the batches taken since the last call.
func (s *pushScript) batches() (text string) {
	if s.ends == nil {
		s.ends = make(map[uint64]batchEnd)
	}
	for shard := range engine.ShardID(s.Rig.Shards()) {
		n := 0
		for _, row := range s.Rig.Rows(shard) {
			if row.Machine != engine.MachineWorkflow || !strings.HasPrefix(string(row.Key), "log") {
				continue
			}
			if n++; n <= s.seen[shard] {
				continue
			}
			s.seen[shard] = n
			b := must(codec.Decode(row.Value, (*protocol.Batch).Code))
			text += fmt.Sprintf("\n  %d: %s %s/%d", shard, b.Name, b.Stream, b.Partition)
			for _, r := range b.Records {
				text += " " + strings.ReplaceAll(string(r.Payload), strings.Repeat("large", 100_000), "large")
				if r.Key != "" || len(r.Headers) > 0 {
					text += fmt.Sprintf(" (%s %v)", r.Key, r.Headers)
				}
			}
			if b.End != nil {
				token := must(codec.Decode(b.End, (*protocol.BatchToken).Code))
				text += fmt.Sprintf(", end %d", token.Number)
				s.ends[token.Number] = batchEnd{b.Namespace, shard, b.End}
			}
		}
	}
	if text == "" {
		return "nothing"
	}
	return text
}

func (s *pushScript) end(number uint64, status uint8) {
	e := s.ends[number]
	end := protocol.End{Token: e.token, Status: status}
	out := s.Rig.Entry(e.shard, engine.Command{Machine: engine.MachineWorkflow, Kind: subscriberEnd, Namespace: e.namespace,
		Spread: s.Rig.Shards() > 1, Body: encodeBody(&end, (*protocol.End).Encode)})
	if out[0].Err != nil {
		s.Printf("end %d: %v", number, out[0].Err)
	}
	s.Rig.Deliver()
}

func (s *pushScript) dead(ctx context.Context, name string) (text string, err error) {
	recs, err := s.store.Read(ctx, DeadLetters(name))
	for _, r := range recs {
		text += fmt.Sprintf("\n  %.20s of %s/%s, group %s, attempt %s: %s", r.Payload, r.Headers[HeaderStream], r.Headers[HeaderPartition],
			r.Headers[HeaderGroup], r.Headers[HeaderAttempts], r.Headers[HeaderError])
	}
	return text, err
}

func (s *pushScript) info(a machinetest.Args) (text string) {
	from := a.Named["from"]
	if from == "" {
		from = "n"
	}
	sub := protocol.Subscriber{Machine: engine.MachineWorkflow, Namespace: from, Name: a.Word(0)}
	for shard := range engine.ShardID(s.Rig.Shards()) {
		q := protocol.SubscriptionQuery{Namespace: "n", Stream: a.Word(1), Key: sub.Key()}
		if err := s.Rig.Query(context.Background(), shard, &q); err != nil {
			return err.Error()
		}
		i := q.Info
		text += fmt.Sprintf("\n  %d:", shard)
		for _, flag := range []struct {
			name string
			on   bool
		}{{"found", i.Found}, {"exists", i.Exists}, {"grouped", i.Grouped}, {"paused", i.Paused}, {"full", i.Full}} {
			if flag.on {
				text += " " + flag.name
			}
		}
		for _, n := range []struct {
			name string
			n    int64
		}{
			{"revision", int64(i.Revision)}, {"lag", i.Lag}, {"active", i.Active}, {"sent", i.Sent}, {"taken", i.Taken}, {"repeated",
				i.Repeated}, {"refused", i.Refused}, {"records", i.Records},
		} {
			if n.n != 0 {
				text += fmt.Sprintf(" %s %d", n.name, n.n)
			}
		}
		if i.Note != "" {
			text += fmt.Sprintf(" %q", i.Note)
		}
		if due := s.due(shard, a.Word(1), sub.Key()); due != never {
			text += " due " + machinetest.Since(time.UnixMilli(due))
		}
	}
	return text
}

// due returns when the duty of a shard next has something to hand out.
func (s *pushScript) due(shard engine.ShardID, name, key string) int64 {
	for _, row := range s.Rig.Rows(shard) {
		if row.Machine == engine.MachineStream && row.Key[0] == rowPush {
			if f := must(decodePush(row.Value)); f.Stream == name && f.Subscriber.Key() == key {
				return f.due
			}
		}
	}
	return never
}

// TestVerifyReportsPushes: inconsistent rows of pushes are reported.
func TestVerifyReportsPushes(t *testing.T) {
	for name, c := range map[string]struct {
		tamper func(w tamperer, k []byte, f *pushRow)
		want   string
	}{
		"nothing changed": {func(w tamperer, k []byte, f *pushRow) { w.setPush(k, f) }, ""},
		"garbage":         {func(w tamperer, k []byte, _ *pushRow) { w.set(k, []byte{9}) }, "row 77"},
		"short key":       {func(w tamperer, k []byte, f *pushRow) { w.setPush(k[:4], f) }, "row 77"},
		"another stream":  {func(w tamperer, k []byte, f *pushRow) { f.Stream = "out"; w.setPush(k, f) }, `of stream "out", subscriber`},
		"another taker": {func(w tamperer, k []byte, f *pushRow) { f.Subscriber.Name = "u"; w.setPush(k, f) },
			`of stream "in", subscriber`},
		"negative sent": {func(w tamperer, k []byte, f *pushRow) { f.sent = -1; w.setPush(k, f) },
			"has sent -1 batches and waits for 1 ends"},
		"negative active": {func(w tamperer, k []byte, f *pushRow) { f.active = -1; w.setPush(k, f) },
			"has sent 0 batches and waits for -1 ends"},
		"fewer active": {func(w tamperer, k []byte, f *pushRow) { f.active = 0; w.setPush(k, f) },
			"counts 0 unfinished batches, found 1"},
		"lost end": {func(w tamperer, _ []byte, f *pushRow) { w.delete(pushEndKey(f.id, 1)) },
			"counts 1 unfinished batches, found 0"},
		"end of no push": {func(w tamperer, _ []byte, f *pushRow) { w.set(pushEndKey(f.id+1, 1), []byte{}) },
			"1 unfinished batches belong to no push"},
		"due without place": {func(w tamperer, k []byte, f *pushRow) { f.due = 7; w.setPush(k, f) }, "1 pushes are due, the index has 0"},
		"place without due": {func(w tamperer, k []byte, f *pushRow) {
			w.set(pushDueKey(9, 0, "in", f.Subscriber.Key()), []byte{})
		}, "no push is due at 75"},
		"another group": {func(w tamperer, k []byte, f *pushRow) { f.Group = "h"; w.setPush(k, f) }, "memory has pushes"},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := newTaker(t, 1)
			w := tamperer{t, r}
			find := func() ([]byte, pushRow) {
				for _, row := range r.Rows(0) {
					if row.Machine == engine.MachineStream && row.Key[0] == rowPush {
						return row.Key, must(decodePush(row.Value))
					}
				}
				t.Fatal("there is no push")
				return nil, pushRow{}
			}
			_, f := find()
			f.Most, f.Revision = 1, f.Revision+1
			out := r.Entry(0, engine.Command{Machine: engine.MachineWorkflow, Kind: subscriberSubscribe, Namespace: "n",
				Body: encodeBody(&wish{"n", f.Subscription}, (*wish).code)})
			if out[0].Err != nil {
				t.Fatal(out[0].Err)
			}
			for _, p := range []string{"a", "b"} {
				if _, err := s.Append(t.Context(), "in", Message{Payload: []byte(p)}); err != nil {
					t.Fatal(err)
				}
			}
			r.Advance(0)
			if found := r.Problems(0); len(found) > 0 {
				t.Fatalf("before anything is changed: %q", found)
			}
			k, f := find()
			c.tamper(w, k, &f)
			if found := strings.Join(r.Problems(0), "\n"); !strings.Contains(found, c.want) || c.want == "" && found != "" {
				t.Errorf("Verify reports\n%s\nwant %q", found, c.want)
			}
		})
	}
}

func (w tamperer) setPush(k []byte, f *pushRow) { w.set(k, encodeBody(f, (*pushRow).code)) }
