package stream

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// copies is a shard that knows streams only from what their homes send.
type copies struct {
	*machinetest.Rig
	t     *testing.T
	shard engine.ShardID
}

// newCopies returns a shard that is not the home of the stream "log", and has partitions of it.
func newCopies(t *testing.T) copies {
	t.Helper()
	p := table()
	for i := range p.Commands {
		if c := &p.Commands[i]; c.From&engine.FromShards != 0 {
			c.From, c.Admit = c.From|engine.FromUsers, func(engine.Command, int) error { return nil }
		}
	}
	r := machinetest.New(t, 3, p)
	if err := engine.NewNamespaces(r.Router()).Create(t.Context(), "wide", true); err != nil {
		t.Fatal(err)
	}
	return copies{r, t, engine.NameShard("wide", route("log", partitionElsewhere("log", 3)), 3)}
}

// partitionElsewhere returns the first partition that is not in the shard of partition 0.
func partitionElsewhere(name string, shards int) int {
	home := engine.NameShard("wide", route(name, 0), shards)
	for p := 1; ; p++ {
		if engine.NameShard("wide", route(name, p), shards) != home {
			return p
		}
	}
}

// apply applies a command in the shard.
func (c copies) apply(op engine.Op) ([]byte, error) {
	cmd := op.Command
	cmd.Namespace, cmd.Spread = "wide", true
	out := c.Entry(c.shard, cmd)[0]
	return out.Result, out.Err
}

// state describes the rows of streams and groups in the shard, and counts its records.
func (c copies) state() (text string) {
	records := 0
	for _, row := range c.Rows(c.shard) {
		if row.Machine != engine.MachineStream {
			continue
		}
		switch row.Key[0] {
		case rowStream:
			h := must(decodeHeader(row.Value))
			text += fmt.Sprintf("stream %d.%d len=%d", h.id, h.version, h.policy.maxLen)
			if h.deleted() {
				text += " deleted"
			}
			if h.dropped > 0 {
				text += fmt.Sprintf(" dropped=%d", h.dropped)
			}
		case rowGroup:
			g := must(decodeGroup(row.Value))
			text += fmt.Sprintf(", group %d.%d timeout=%d", g.home, g.version, g.ackTimeout)
		case rowRecord:
			records++
		}
	}
	if records > 0 {
		text += fmt.Sprintf(", %d records", records)
	}
	return text
}

// TestSpecs: a shard updates its copy of a stream or group to a newer version or identity, and
// refuses commands about an older one.
func TestSpecs(t *testing.T) {
	p := partitionElsewhere("log", 3)
	of := func(id, version uint64) target {
		return target{&spec{id: id, version: version, partitions: p + 1, policy: policy{maxLen: 100 - version}}}
	}
	adopted := func(id, version uint64) engine.Op { return adopt.Op("log", of(id, version), nil) }
	dropped := func(id uint64) engine.Op { return drop.Op("log", of(id, 1), nil) }
	add := func(id, version uint64) engine.Op {
		return appendOp("log", []Message{{}, {}}, appendOptionsOf([]AppendOption{Partition(p)}), of(id, version).spec)
	}
	group := func(id, version uint64) groupTarget {
		config := defaultGroup().groupConfig
		config.ackTimeout = int64(version)
		return groupTarget{of(12, 1), "g", &groupSpec{id, version, config}}
	}
	adoptedGroup := func(id, version uint64) engine.Op { return adoptGroup.Op("log", group(id, version), nil) }
	droppedGroup := func(id, at uint64) engine.Op { return dropGroup.Op("log", dropGroupBody{group(id, 1), at}, nil) }
	c := newCopies(t)
	for i, step := range []struct {
		what string
		op   engine.Op
		err  error
		want string
	}{
		{"nothing known", dropped(1), nil, "stream 1.0 len=0 deleted"},
		{"new", adopted(10, 1), nil, "stream 10.1 len=99"},
		{"without a spec", adopt.Op("log", target{}, nil), nil, "stream 10.1 len=99"},
		{"append", add(10, 1), nil, "stream 10.1 len=99, 2 records"},
		{"without a spec", appendOp("log", []Message{{}}, appendOptionsOf(nil), nil), ErrInvalid, "stream 10.1 len=99, 2 records"},
		{"older version", adopted(10, 0), nil, "stream 10.1 len=99, 2 records"},
		{"same version", adopted(10, 1), nil, "stream 10.1 len=99, 2 records"},
		{"newer version", adopted(10, 99), nil, "stream 10.99 len=1, 1 records"},
		{"append by a late sender", add(10, 1), nil, "stream 10.99 len=1, 3 records"},
		{"older stream", adopted(9, 20), nil, "stream 10.99 len=1, 3 records"},
		{"append to an older stream", add(9, 20), ErrNotFound, "stream 10.99 len=1, 3 records"},
		{"drop of an older stream", dropped(9), nil, "stream 10.99 len=1, 3 records"},
		{"newer stream", adopted(11, 1), nil, "stream 11.1 len=99"},
		{"append makes a newer one", add(12, 1), nil, "stream 12.1 len=99, 2 records"},
		{"new group", adoptedGroup(20, 2), nil, "stream 12.1 len=99, group 20.2 timeout=2, 2 records"},
		{"older version", adoptedGroup(20, 1), nil, "stream 12.1 len=99, group 20.2 timeout=2, 2 records"},
		{"newer version", adoptedGroup(20, 3), nil, "stream 12.1 len=99, group 20.3 timeout=3, 2 records"},
		{"older group", adoptedGroup(19, 9), ErrNotFound, "stream 12.1 len=99, group 20.3 timeout=3, 2 records"},
		{"newer group", adoptedGroup(21, 1), nil, "stream 12.1 len=99, group 21.1 timeout=1, 2 records"},
		{"drop of an older one", droppedGroup(20, 25), nil, "stream 12.1 len=99 dropped=25, group 21.1 timeout=1, 2 records"},
		{"drop of this one", droppedGroup(21, 30), nil, "stream 12.1 len=99 dropped=30, 2 records"},
		{"late drop", droppedGroup(20, 25), nil, "stream 12.1 len=99 dropped=30, 2 records"},
		{"group dropped before", adoptedGroup(30, 1), ErrNotFound, "stream 12.1 len=99 dropped=30, 2 records"},
		{"group made after", adoptedGroup(31, 1), nil, "stream 12.1 len=99 dropped=30, group 31.1 timeout=1, 2 records"},
		{"drop of a newer one", droppedGroup(32, 33), nil, "stream 12.1 len=99 dropped=33, 2 records"},
		{"dropped", dropped(12), nil, "stream 12.0 len=0 deleted"},
		{"append after all", add(12, 1), ErrNotFound, "stream 12.0 len=0 deleted"},
		{"append to an older one", add(11, 1), ErrNotFound, "stream 12.0 len=0 deleted"},
		{"group of a stream that is deleted", adoptedGroup(40, 1), ErrNotFound, "stream 12.0 len=0 deleted"},
		{"new again", adopted(13, 1), nil, "stream 13.1 len=99"},
	} {
		if _, err := c.apply(step.op); !errors.Is(err, step.err) || (err == nil) != (step.err == nil) {
			t.Errorf("step %d, %s: %v, want %v", i, step.what, err, step.err)
		}
		if got := c.state(); got != step.want {
			t.Errorf("step %d, %s: %s, want %s", i, step.what, got, step.want)
		}
		c.Restart()
	}
}

// TestEpochs: in a shard that is not the stream's home, an exclusive group follows the consumer of
// the latest epoch, who receives the records of the one before, maybe only with its next call.
// Calls of earlier epochs receive no records and change nothing.
func TestEpochs(t *testing.T) {
	c, p := newCopies(t), partitionElsewhere("log", 3)
	sp := &spec{id: 10, partitions: p + 1}
	if _, err := c.apply(appendOp("log", []Message{{}, {}}, appendOptionsOf([]AppendOption{Partition(p)}), sp)); err != nil {
		t.Fatal(err)
	}
	o := groupReadOptionsOf([]GroupReadOption{Limit(2)})
	config := defaultGroup().groupConfig
	config.mode = Exclusive
	group := groupAddress{"log", groupTarget{target{sp}, "g", &groupSpec{20, 1, config}}}
	for i, step := range []struct {
		consumer string
		epoch    uint64
		attempt  uint64 // of both records; 0: none received
	}{
		{"a", 0, 0}, {"a", 1, 1}, {"a", 1, 0}, {"b", 2, 0}, {"b", 2, 2}, {"a", 1, 0}, {"a", 0, 0}, {"b", 2, 0}, {"a", 3, 3}, {"a", 3, 0},
		{"b", 2, 0},
	} {
		result, err := c.apply(readGroupOp(group, step.consumer, &o, step.epoch))
		if err != nil {
			t.Fatal(err)
		}
		got, err := readGroup.Decode(result)
		switch {
		case err != nil || got.more:
			t.Errorf("step %d: %+v, %v", i, got, err)
		case step.attempt == 0 && len(got.claims) > 0, step.attempt > 0 && (len(got.claims) != 1 || len(got.claims[0].offsets) != 2 ||
			got.claims[0].attempt != step.attempt):
			t.Errorf("step %d: %s at epoch %d received %+v, want attempt %d", i, step.consumer, step.epoch, got.claims, step.attempt)
		}
		c.Restart()
	}
}

// TestMalformedBodiesOfShards: a malformed body from another shard is refused or stops the shard.
func TestMalformedBodiesOfShards(t *testing.T) {
	for _, kind := range []uint8{
		kindAdopt, kindDrop, kindAdoptGroup, kindDropGroup, kindFollow, kindRelay, kindSubscribe, kindEnd, kindWant, kindGrant, kindForward,
	} {
		c := newCopies(t)
		cmd := engine.Command{Machine: engine.MachineStream, Kind: kind, Namespace: "wide", Spread: true, Body: []byte{0xff}}
		if out, stopped := c.Try(c.shard, cmd); !stopped && out.Err == nil {
			t.Errorf("command %d: a malformed body is accepted", kind)
		}
	}
}

// TestMakes: an append announces its messages to waiting consumers, by the slots of their keys.
func TestMakes(t *testing.T) {
	var got []engine.Made
	announce := func(op engine.Operation) {
		cmd := engine.OpOf(op).Command
		cmd.Namespace = "n"
		new(machine).Makes(cmd, func(made engine.Made) { got = append(got, made) })
	}
	announce(AppendManyOp("log", []Message{{Key: "a"}, {Key: "b"}, {}}))
	announce(TrimOp("log", MaxLen(1)))
	of := engine.NoSlots()
	for _, k := range []string{"a", "b"} {
		of.Add(uint8(slotOf(mix(xxhash.Sum64String(k)))))
	}
	if want := (engine.Made{Topic: streamTopic("n", "log"), N: 3, Within: true, Of: of}); len(got) != 1 || got[0] != want {
		t.Errorf("announced %+v, want %+v", got, want)
	}
}

// TestOpenOfAConsumer: Consume finds the group, or creates it. It returns the error of any call
// that fails.
func TestOpenOfAConsumer(t *testing.T) {
	r, ctx := machinetest.New(t, 1, engine.TableOf[Store]()), t.Context()
	s := engine.StoreOf[Store](r.Router(), "n", 0)
	for _, name := range []string{"old", "new"} {
		if err := s.Create(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Groups("old").Create(ctx, "g", InMode(KeyShared), AckTimeout(7_000_000_000)); err != nil {
		t.Fatal(err)
	}
	open := func(ctx context.Context, d engine.Door, name string) (*consumer, error) {
		c := &consumer{s: engine.StoreOf[Store](engine.NewRouter(d), "n", 0), stream: name, group: "g",
			o: consumeOptionsOf([]ConsumeOption{InMode(Exclusive), FromEnd()})}
		err := c.open(ctx)
		return c, err
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	r.EachFailure(map[string]func(engine.Door) error{
		"group exists": func(d engine.Door) error {
			c, err := open(ctx, d, "old")
			if err == nil && (c.mode != KeyShared || c.ackTimeout.Load() != 7_000_000_000) {
				t.Errorf("mode %v, ack timeout %d", c.mode, c.ackTimeout.Load())
			}
			return err
		},
		"no group": func(d engine.Door) error {
			_ = s.Groups("new").Delete(ctx, "g")
			c, err := open(ctx, d, "new")
			if err == nil && c.mode != Exclusive {
				t.Errorf("mode %v", c.mode)
			}
			return err
		},
		"no stream": func(d engine.Door) error {
			_, err := open(cancelled, d, "none")
			return machinetest.Except(err, context.Canceled)
		},
	})
}

// TestFirstOfBusyKey: the first pending record of a key is with a consumer or waits.
func TestFirstOfBusyKey(t *testing.T) {
	for want, k := range map[uint64]busyKey{
		1: {out: []uint64{1, 3}},
		2: {out: []uint64{2, 3}, failed: []uint64{4}},
		3: {out: []uint64{4, 5}, failed: []uint64{3}},
	} {
		if got := k.first(); got != want {
			t.Errorf("first of %+v = %d, want %d", k, got, want)
		}
	}
}

// TestTook: a result without records leaves the turn to the next waiting consumer.
func TestTook(t *testing.T) {
	m := new(machine)
	result := func(c claims) []byte { return codec.EncodeFields(nil, &c, (*claims).code) }
	for _, c := range []struct {
		result []byte
		err    error
		want   bool
	}{
		{result(claims{}), nil, false}, {result(claims{claims: []claim{{offsets: []uint64{1}}}}), nil, true}, {[]byte{0xff}, nil, true},
		{nil, ErrBusy, true},
	} {
		if got := m.Took(kindReadGroup, c.result, c.err); got != c.want {
			t.Errorf("Took(%x, %v) = %v, want %v", c.result, c.err, got, c.want)
		}
	}
	for _, cmd := range []engine.Command{{Kind: kindAck}, {Kind: kindReadGroup, Body: []byte{0xff}}} {
		if _, _, err := m.Takeable(nil, cmd, true); !errors.Is(err, ErrInvalid) {
			t.Errorf("Takeable of command %d: %v, want ErrInvalid", cmd.Kind, err)
		}
	}
}
