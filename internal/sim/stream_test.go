package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/check"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream"
)

// The streams that clients use: one that keeps everything, in the plain namespace and in the spread one, and one that forgets.
const (
	kept          = "kept"
	forgotten     = "forgotten"
	keptPartition = 3
)

// streamClient appends to streams and reads them. What it reads has to be what was appended.
type streamClient struct {
	*client
	stores [2]*stream.Store // plain and spread
	count  int
}

func newStreamClient(c *client) *streamClient {
	s := &streamClient{client: c}
	for i, ns := range []string{plain, spread} {
		s.stores[i] = engine.StoreOf(stream.Primitive, c.router, ns, maxValue)
		if c.sim.verdict.streams[i] == nil {
			c.sim.verdict.streams[i] = check.NewStream()
		}
	}
	return s
}

// streamWork is the work of a client.
func streamWork(c *client) {
	s := newStreamClient(c)
	for i := range s.stores {
		for {
			err := s.stores[i].Create(ctx, kept, stream.Partitions(keptPartition))
			if err == nil || errors.Is(err, engine.ErrExists) {
				break
			}
			if c.sim.verdict.note(err); !c.sleep(10 * time.Millisecond) {
				return
			}
		}
	}
	for c.working() {
		c.sim.issued++
		which := c.sim.rng.IntN(2)
		switch n := c.sim.rng.IntN(20); {
		case n < 12:
			s.append(which)
		case n < 17:
			c.sim.verdict.note(s.read(which, false))
		default:
			c.sim.verdict.note(s.forget(s.stores[which]))
		}
	}
}

func (s *streamClient) message() stream.Message {
	s.count++
	return stream.Message{Payload: fmt.Appendf(nil, "%d.%d", s.id, s.count)}
}

// append appends a few messages; with Dedup again and again until the outcome is known.
func (s *streamClient) append(which int) {
	rng, known := s.sim.rng, s.sim.verdict.streams[which]
	msgs := make([]stream.Message, 1+rng.IntN(3))
	var opts []stream.AppendOption
	dedup := rng.IntN(3) == 0
	for i := range msgs {
		// In the spread one the sender chooses for messages without a key, in turn with all others of the process: that does not repeat.
		if msgs[i] = s.message(); !dedup && (which == 1 || rng.IntN(2) == 0) {
			msgs[i].Key = fmt.Sprint("key", rng.IntN(10))
		}
		known.Possible(msgs[i])
	}
	if dedup {
		opts = append(opts, stream.Dedup(fmt.Sprint("client", s.id), uint64(s.count)))
	}
	for {
		all, err := s.stores[which].AppendMany(ctx, kept, msgs, opts...)
		for i, a := range all {
			if a.Offset > 0 {
				known.Appended(msgs[i], a)
			}
		}
		s.sim.verdict.note(err)
		if !dedup || !errors.Is(err, engine.ErrUnknownOutcome) || s.sim.verdict.lossy || !s.sleep(10*time.Millisecond) {
			return
		}
	}
}

// read reads a whole stream; of the spread one each partition by itself.
func (s *streamClient) read(which int, complete bool) error {
	var recs []stream.Record
	for p := range keptPartition {
		opts := []stream.ReadOption{stream.Limit(stream.MaxReadLimit)}
		if which == 1 {
			opts = append(opts, stream.Partition(p))
		}
		for after := (stream.ID{}); ; {
			page, err := s.stores[which].Read(ctx, kept, append(opts, stream.After(after))...)
			if err != nil {
				return err
			}
			if len(page) == 0 {
				break
			}
			recs, after = append(recs, page...), page[len(page)-1].ID
		}
		if which == 0 {
			break
		}
	}
	if err := s.sim.verdict.streams[which].Check(recs, complete); err != nil && !s.sim.verdict.lossy {
		s.sim.failf("%w", err)
	}
	return nil
}

// forget does all that makes a stream shorter.
func (s *streamClient) forget(store *stream.Store) error {
	rng := s.sim.rng
	name := fmt.Sprint(forgotten, rng.IntN(2))
	switch rng.IntN(12) {
	case 0:
		return store.Delete(ctx, name, stream.Force())
	case 1:
		return store.SetRetention(ctx, name, stream.Retention{MaxAge: time.Duration(rng.IntN(300)) * time.Millisecond, MaxLen: rng.Int64N(5)})
	case 2:
		_, err := store.Trim(ctx, name, stream.MaxLen(rng.Int64N(10)))
		return err
	case 3:
		if err := store.Create(ctx, name, stream.Partitions(4), stream.MaxAge(time.Duration(1+rng.IntN(300))*time.Millisecond)); !errors.Is(err, engine.ErrExists) {
			return err
		}
		return nil
	}
	_, err := store.Append(ctx, name, s.message(), stream.Partition(0))
	return err
}

// auditStreams reads the streams once more, when nobody appends: all that was acknowledged has to be there.
func auditStreams(c *client) {
	s := newStreamClient(c)
	for which := range s.stores {
		for {
			err := s.read(which, true)
			if err == nil || c.sim.verdict.lossy && (errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrInvalid)) {
				break // its creation may be what was lost
			}
			if c.sim.verdict.note(err); !c.sleep(10 * time.Millisecond) {
				return
			}
		}
	}
}
