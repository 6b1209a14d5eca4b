package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream"
)

// groupClient is several consumers of the groups of a stream, one group of each mode.
type groupClient struct {
	*client
	store *stream.Store
	held  map[string][]stream.Delivery // by group and consumer
	acked map[string]map[stream.Ref]bool
}

// groupWork is the work of a client: what is acknowledged must not be delivered again, and an attempt comes after the one before.
func groupWork(c *client) {
	g := &groupClient{
		client: c, store: stream.New(c.router, plain, maxValue), held: make(map[string][]stream.Delivery), acked: make(map[string]map[stream.Ref]bool),
	}
	rng := c.sim.rng
	for c.working() {
		c.sim.issued++
		mode := stream.Mode(rng.IntN(3))
		consumer := fmt.Sprint("c", rng.IntN(3))
		var err error
		switch n := rng.IntN(20); {
		case n < 9:
			err = g.read(mode, consumer)
		case n < 18:
			err = g.settle(mode, consumer)
		case n == 18:
			err = g.store.Leave(ctx, kept, mode.String(), consumer)
		default:
			err = g.refused(mode)
		}
		c.sim.verdict.note(err)
	}
}

func (g *groupClient) read(mode stream.Mode, consumer string) error {
	ds, err := g.store.ReadGroup(ctx, kept, mode.String(), consumer, stream.Limit(1+g.sim.rng.IntN(5)), stream.WithMode(mode),
		stream.AckTimeout(300*time.Millisecond), stream.MaxDeliver(3), stream.Backoff(20*time.Millisecond, 100*time.Millisecond))
	for _, d := range ds {
		if at := (stream.Ref{Partition: d.Partition, Offset: d.Offset}); g.acked[mode.String()][at] && !g.sim.verdict.lossy {
			g.sim.failf("consumer group %v: %+v was delivered after it was acknowledged", mode, at)
		}
	}
	key := mode.String() + consumer
	g.held[key] = append(g.held[key], ds...)
	return err
}

// settle acknowledges, refuses or extends the first of what a consumer has.
func (g *groupClient) settle(mode stream.Mode, consumer string) error {
	key, group := mode.String()+consumer, mode.String()
	if len(g.held[key]) == 0 {
		return g.read(mode, consumer)
	}
	d := g.held[key][0]
	switch g.sim.rng.IntN(8) {
	case 0:
		_, err := g.store.Extend(ctx, kept, group, time.Second, d.Ref())
		return err
	case 1:
		g.held[key] = g.held[key][1:]
		_, err := g.store.Nack(ctx, kept, group, []stream.Ref{d.Ref()}, stream.Reason("no"))
		return err
	}
	g.held[key] = g.held[key][1:]
	n, err := g.store.Ack(ctx, kept, group, d.Ref())
	if err == nil && n == 1 {
		if g.acked[group] == nil {
			g.acked[group] = make(map[stream.Ref]bool)
		}
		g.acked[group][stream.Ref{Partition: d.Partition, Offset: d.Offset}] = true
	}
	return err
}

// refused does much to a group in a transaction that is taken back.
func (g *groupClient) refused(mode stream.Mode) error {
	_, err := engine.NewTxn(g.router, plain, maxValue).Do(
		stream.SeekOp(kept, mode.String(), stream.FromBeginning()), stream.DeleteGroupOp(kept, mode.String()), stream.LeaveOp(kept, mode.String(), "c0"),
	).Commit(ctx)
	if err == nil {
		g.sim.failf("a transaction that leaves a group which it has deleted went through")
	}
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	return err
}
