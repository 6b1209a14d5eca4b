package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream"
)

// groupJob runs several consumers of a stream's groups, one group of each mode.
type groupJob struct{ streamJob }

func newGroupJob() Job { return &groupJob{} }

// Audit does nothing: deliveries are checked at once, and none is required.
func (j *groupJob) Audit(World) {}

type groupClient struct {
	World
	store *stream.Store
	held  map[string][]stream.Delivery // by group and consumer
	acked map[string]map[stream.Ref]bool
}

// Do checks that acknowledged records are not redelivered.
func (j *groupJob) Do(w World) {
	g := &groupClient{
		World: w, store: engine.StoreOf[stream.Store](w.Router(), Plain, MaxValue), held: make(map[string][]stream.Delivery),
		acked: make(map[string]map[stream.Ref]bool),
	}
	for w.Working() {
		mode := stream.Mode(w.Rand().IntN(3))
		consumer := fmt.Sprint("c", w.Rand().IntN(3))
		var err error
		switch n := w.Rand().IntN(20); {
		case n < 7:
			err = g.read(mode, consumer, false)
		case n < 9:
			err = g.read(mode, consumer, true)
		case n < 17:
			err = g.settle(mode, consumer)
		case n < 19:
			err = g.leave(mode, consumer)
		default:
			err = g.refused(mode)
		}
		w.Note(err)
	}
}

// read reads records; with noAck they count as acknowledged.
func (g *groupClient) read(mode stream.Mode, consumer string, noAck bool) error {
	opts := []stream.GroupReadOption{
		stream.Limit(1 + g.Rand().IntN(5)), stream.InMode(mode),
		stream.AckTimeout(300 * time.Millisecond), stream.MaxAttempts(3), stream.Backoff(20*time.Millisecond, 100*time.Millisecond),
	}
	if noAck {
		opts = append(opts, stream.NoAck())
	}
	ds, err := g.store.ReadGroup(context.Background(), kept, mode.String(), consumer, opts...)
	g.ordered(mode, ds)
	for _, d := range ds {
		at := stream.Ref{Partition: d.Partition, Offset: d.Offset}
		if g.acked[mode.String()][at] && !g.Lossy() {
			g.Failf("consumer group %v: %+v was delivered after it was acknowledged", mode, at)
		}
		if noAck {
			g.done(mode, at)
		}
	}
	if !noAck {
		key := mode.String() + consumer
		g.held[key] = append(g.held[key], ds...)
	}
	return err
}

// ordered checks that no record is delivered before an earlier one of its key.
func (g *groupClient) ordered(mode stream.Mode, ds []stream.Delivery) {
	last := make(map[string]uint64)
	for _, d := range ds {
		of := fmt.Sprint(d.Partition, " ", d.Key)
		if mode == stream.KeyShared && d.Key != "" && d.Offset < last[of] {
			g.Failf("consumer group %v: offset %d of partition %d of key %s was delivered behind %d", mode, d.Offset, d.Partition, d.Key,
				last[of])
		}
		last[of] = d.Offset
	}
}

// done notes that a record must not be delivered again.
func (g *groupClient) done(mode stream.Mode, at stream.Ref) {
	if g.acked[mode.String()] == nil {
		g.acked[mode.String()] = make(map[stream.Ref]bool)
	}
	g.acked[mode.String()][at] = true
}

// leave removes a consumer, which releases its records.
func (g *groupClient) leave(mode stream.Mode, consumer string) error {
	g.held[mode.String()+consumer] = nil
	return g.store.Leave(context.Background(), kept, mode.String(), consumer)
}

// settle acknowledges, nacks or extends a consumer's first pending record, or sometimes another
// one.
func (g *groupClient) settle(mode stream.Mode, consumer string) error {
	key, group := mode.String()+consumer, mode.String()
	if len(g.held[key]) == 0 {
		return g.read(mode, consumer, false)
	}
	i := 0
	if g.Rand().IntN(4) == 0 {
		i = g.Rand().IntN(len(g.held[key]))
	}
	d := g.held[key][i]
	switch g.Rand().IntN(8) {
	case 0:
		_, err := g.store.ExtendMany(context.Background(), kept, group, []stream.Ref{d.Ref()}, time.Second)
		return err
	case 1:
		g.held[key] = slices.Delete(g.held[key], i, i+1)
		opts := []stream.NackOption{stream.Reason("no")}
		if g.Rand().IntN(2) == 0 {
			opts = append(opts, stream.Delay(time.Duration(g.Rand().IntN(400))*time.Millisecond))
		}
		_, err := g.store.Nack(context.Background(), kept, group, []stream.Ref{d.Ref()}, opts...)
		return err
	}
	g.held[key] = slices.Delete(g.held[key], i, i+1)
	n, err := g.store.Ack(context.Background(), kept, group, d.Ref())
	if err == nil && n == 1 {
		g.done(mode, stream.Ref{Partition: d.Partition, Offset: d.Offset})
	}
	return err
}

// refused makes many changes to a group in a transaction that is refused.
func (g *groupClient) refused(mode stream.Mode) error {
	_, err := engine.NewTxn(g.Router(), Plain, MaxValue).Do(
		stream.ReadGroupOp(kept, mode.String(), "c1", stream.NoAck(), stream.Limit(3)), stream.SeekOp(kept, mode.String(),
			stream.FromBeginning()),
		stream.DeleteGroupOp(kept, mode.String()), stream.LeaveOp(kept, mode.String(), "c0"),
	).Commit(context.Background())
	if err == nil {
		g.Failf("a transaction that leaves a group which it has deleted went through")
	}
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	return err
}
