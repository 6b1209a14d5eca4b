package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// subscriberMachine is a subscriber that writes the batches it receives. The payload of a batch's
// first record decides how it handles the batch.
type subscriberMachine struct{}

const (
	subscriberSubscribe uint8 = iota + 1
	subscriberBatch
	subscriberEnd
)

var subscriberPrimitive = engine.Primitive{
	ID: engine.MachineWorkflow, Name: "taker", New: func() engine.Machine { return subscriberMachine{} },
	Commands: []engine.CommandType{
		{Kind: subscriberSubscribe, Name: "subscribe", From: engine.FromUsers, Admit: func(engine.Command, int) error { return nil }},
		{Kind: subscriberBatch, Name: "batch", From: engine.FromMachines | engine.FromShards},
		{Kind: subscriberEnd, Name: "end", From: engine.FromUsers, Admit: func(engine.Command, int) error { return nil }},
	},
}

func (subscriberMachine) Restore(*engine.View) error { return nil }

func (subscriberMachine) OnReply(*engine.Tx, engine.Reply) {}

func (subscriberMachine) OnTimer(*engine.Tx, []byte) {}

// wish is the body of subscriberSubscribe.
type wish struct {
	namespace string // the stream's namespace
	protocol.Subscription
}

func (w *wish) code(c *codec.Coder) {
	c.String(&w.namespace)
	w.Subscription.Code(c)
}

func (subscriberMachine) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	switch cmd.Kind {
	case subscriberSubscribe:
		w := must(codec.Decode(cmd.Body, (*wish).code))
		c := engine.Command{Machine: engine.MachineStream, Kind: protocol.KindSubscribe, Namespace: w.namespace, Spread: tx.Spread(),
			Body: encodeBody(&w.Subscription, (*protocol.Subscription).Code)}
		switch {
		case w.namespace != tx.NamespaceName():
			c.Kind, c.Spread = protocol.KindRelaySubscription, false
		case tx.Here(w.Stream):
			tx.Then(c)
			return nil, nil
		}
		tx.Send(engine.Message{Command: c, Name: w.Stream})
		return nil, nil
	case subscriberEnd:
		tx.Then(engine.Command{Machine: engine.MachineStream, Kind: protocol.KindBatchEnd, Body: cmd.Body})
		return nil, nil
	}
	b := must(codec.Decode(cmd.Body, (*protocol.Batch).Code))
	result, err := protocol.BatchResult{}, error(nil)
	switch first := string(b.Records[0].Payload); {
	case first == "refuse":
		err = engine.Errorf(ErrInvalid, "the batch is refused")
	case first == "far" && !tx.Here(b.Name):
		err = engine.Errorf(ErrNotFound, "the taker is not known here")
	case first == "known":
		result.Repeated = true
	case first == "half":
		result.Had = 1
	}
	if err == nil {
		tx.Set(fmt.Appendf(nil, "log%06d", subscriberLog(tx)), encodeBody(&b, (*protocol.Batch).Code))
	}
	for _, r := range b.Records {
		if string(r.Payload) == "poison" {
			tx.Worked(engine.MaxCommandRows + 1)
		}
		tx.Set(append([]byte("taken"), r.Payload...), nil)
	}
	return encodeBody(&result, (*protocol.BatchResult).Code), err
}

// subscriberLog returns the number of the next batch that a shard takes.
func subscriberLog(tx *engine.Tx) (n int) {
	it := tx.Iter([]byte("log"), []byte("loh"))
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	return n
}

// newTaker returns a stream of five partitions with one subscribed taker.
func newTaker(t *testing.T, batch int64) (*machinetest.Rig, *Store) {
	r := machinetest.New(t, 1, engine.TableOf[Store](), subscriberPrimitive)
	s := engine.StoreOf[Store](r.Router(), "n", 1<<20)
	if err := s.Create(t.Context(), "in", Partitions(5)); err != nil {
		t.Fatal(err)
	}
	sub := protocol.Subscription{
		Subscriber: protocol.Subscriber{Machine: engine.MachineWorkflow, Command: subscriberBatch, Namespace: "n", Name: "t"}, Revision: 1,
		Stream: "in", Group: "g", Batch: batch,
	}
	out := r.Entry(0, engine.Command{Machine: engine.MachineWorkflow, Kind: subscriberSubscribe, Namespace: "n",
		Body: encodeBody(&wish{"n", sub}, (*wish).code)})
	if out[0].Err != nil {
		t.Fatal(out[0].Err)
	}
	return r, s
}

// leadDoor is a duty's door that does not sleep.
type leadDoor struct {
	*machinetest.Rig
	refused func() // called when a command has been refused
}

func (d leadDoor) Mono() int64 { return d.Now() }

func (d leadDoor) Propose(_ context.Context, cmd engine.Command) ([]byte, error) {
	out := d.Entry(0, cmd)[0]
	if out.Err != nil {
		d.refused()
	}
	return out.Result, out.Err
}

func (leadDoor) Sleep(context.Context, <-chan struct{}, int64) error { return engine.ErrClosed }

// duties returns the duties of streams.
func duties(r *machinetest.Rig, refused func()) []engine.LedDuty {
	return slices.DeleteFunc(r.Executor(0).Duties(1, func() engine.LeadDoor { return leadDoor{r, refused} }),
		func(d engine.LedDuty) bool { return d.Machine != "stream" })
}

// buried returns the payloads of the dead letters.
func buried(t *testing.T, s *Store) (all []string) {
	recs, err := s.Read(context.Background(), DeadLetters("in"), Limit(1000))
	if err != nil && !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	for _, r := range recs {
		all = append(all, string(r.Payload))
	}
	return all
}

// TestRefusedBatchIsBuried: in each partition, exactly the batch that exceeds the write limit of
// one command goes to the dead letters. This holds although partitions take turns with every
// command and records are appended in between.
func TestRefusedBatchIsBuried(t *testing.T) {
	for poisoned := range 5 {
		r, s := newTaker(t, 1)
		put := func(partition int, payload string) {
			if _, err := s.Append(context.Background(), "in", Message{Payload: []byte(payload)}, Partition(partition)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 50 {
			payload := fmt.Sprint(i)
			if i == 25+poisoned {
				payload = "poison"
			}
			put(i%5, payload)
		}
		more := 50
		for range 50 {
			for _, d := range duties(r, func() {
				if more < 100 {
					more++
					put(more%5, fmt.Sprint(more))
				}
			}) {
				_ = d.Run(t.Context(), d.Lead)
			}
		}
		claims := 0
		for _, row := range r.Rows(0) {
			if bytes.Contains(row.Key, []byte("taken")) {
				claims++
			}
		}
		if got := buried(t, s); !slices.Equal(got, []string{"poison"}) || claims != more-1 {
			t.Errorf("partition %d: buried %q, taken %d, want the poison alone and %d", poisoned, got, claims, more-1)
		}
	}
}

// TestBuriesTheNamedBatch: records appended after a batch was refused are not buried with it, and
// nothing is buried if the group has been moved meanwhile.
func TestBuriesTheNamedBatch(t *testing.T) {
	r, s := newTaker(t, 10)
	for i := range 5 {
		if _, err := s.Append(t.Context(), "in", Message{Payload: fmt.Append(nil, i)}, Partition(3)); err != nil {
			t.Fatal(err)
		}
	}
	var gen uint64
	for _, row := range r.Rows(0) {
		if f, err := decodePush(row.Value); err == nil && f.Stream == "in" {
			gen = f.stream
		}
	}
	key := (&protocol.Subscriber{Machine: engine.MachineWorkflow, Namespace: "n", Name: "t"}).Key()
	for _, c := range []struct {
		batch named
		want  error
	}{
		{named{gen, 3, 2, 3, 2}, ErrConflict}, {named{gen, 7, 1, 1, 1}, ErrConflict}, {named{gen, 2, 1, 1, 1},
			ErrConflict}, {named{gen + 1, 3, 1, 3, 3}, ErrConflict},
		{named{gen, 3, 1, 3, 3}, nil}, {named{gen, 3, 1, 3, 3}, ErrConflict},
	} {
		bury := pushCommand{pushes: []pushRef{{"in", key}}, most: 1, bury: "too much", batch: &c.batch}
		cmd := engine.Command{Machine: engine.MachineStream, Kind: kindPush, Namespace: "n", Body: encodeBody(&bury, (*pushCommand).code)}
		if _, err := duties(r, func() {})[0].Lead.Propose(t.Context(), cmd); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.batch, err, c.want)
		}
	}
	if got := buried(t, s); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("buried %q, want those that were refused", got)
	}
}
