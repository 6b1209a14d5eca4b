package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/stream"
)

// The streams that clients use: one that keeps everything, in the plain namespace and in the spread
// one, and one with retention.
const (
	kept          = "kept"
	forgotten     = "forgotten"
	keptPartition = 3
)

// streamJob runs streams with many writers, and readers of everything.
type streamJob struct {
	known [2]*check.Stream // plain and spread
}

func newStreamJob() Job { return &streamJob{[2]*check.Stream{check.NewStream(), check.NewStream()}} }

// streamClient appends to streams and reads them. Records must be as they were appended.
type streamClient struct {
	World
	*streamJob
	stores [2]*stream.Store // plain and spread
	count  int
}

func (j *streamJob) client(w World) *streamClient {
	s := &streamClient{World: w, streamJob: j}
	for i, ns := range []string{Plain, Spread} {
		s.stores[i] = engine.StoreOf[stream.Store](w.Router(), ns, MaxValue)
	}
	return s
}

func (j *streamJob) Open(w World) bool {
	for _, store := range j.client(w).stores {
		if !insist(w, func() error {
			err := store.Create(context.Background(), kept, stream.Partitions(keptPartition))
			if errors.Is(err, engine.ErrExists) {
				return nil
			}
			return err
		}) {
			return false
		}
	}
	return true
}

func (j *streamJob) Do(w World) {
	s := j.client(w)
	for w.Working() {
		which := w.Rand().IntN(2)
		switch n := w.Rand().IntN(20); {
		case n < 12:
			s.append(which)
		case n < 17:
			w.Note(s.read(which, false))
		default:
			w.Note(s.forget(s.stores[which]))
		}
	}
}

func (s *streamClient) message() stream.Message {
	s.count++
	return stream.Message{Payload: fmt.Appendf(nil, "%d.%d", s.Client(), s.count)}
}

// append appends a few messages; with Dedup it repeats the call until the outcome is known.
func (s *streamClient) append(which int) {
	rng, known := s.Rand(), s.known[which]
	msgs := make([]stream.Message, 1+rng.IntN(3))
	var opts []stream.AppendOption
	dedup := rng.IntN(3) == 0
	for i := range msgs {
		// In the spread namespace the sender distributes messages without a key round-robin,
		// together with all others of the process, which is not repeatable.
		if msgs[i] = s.message(); !dedup && (which == 1 || rng.IntN(2) == 0) {
			msgs[i].Key = fmt.Sprint("key", rng.IntN(10))
		}
		known.Possible(msgs[i])
	}
	if dedup {
		opts = append(opts, stream.Dedup(fmt.Sprint("client", s.Client()), uint64(s.count)))
	}
	for {
		all, err := s.stores[which].AppendMany(context.Background(), kept, msgs, opts...)
		for i, a := range all {
			if a.Offset > 0 {
				known.Appended(msgs[i], a)
			}
		}
		s.Note(err)
		if !dedup || !errors.Is(err, engine.ErrUnknownOutcome) || s.Lossy() || !s.Sleep(10*time.Millisecond) {
			return
		}
	}
}

// read reads a whole stream; in the spread namespace each partition separately.
func (s *streamClient) read(which int, complete bool) error {
	var recs []stream.Record
	for p := range keptPartition {
		opts := []stream.ReadOption{stream.Limit(stream.MaxReadLimit)}
		if which == 1 {
			opts = append(opts, stream.Partition(p))
		}
		for after := (stream.ID{}); ; {
			page, err := s.stores[which].Read(context.Background(), kept, append(opts, stream.After(after))...)
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
	if err := s.known[which].Check(recs, complete); err != nil && !s.Lossy() {
		s.Failf("%w", err)
	}
	return nil
}

// forget uses every way to shorten a stream.
func (s *streamClient) forget(store *stream.Store) error {
	ctx, rng := context.Background(), s.Rand()
	name := fmt.Sprint(forgotten, rng.IntN(2))
	switch rng.IntN(12) {
	case 0:
		return store.Delete(ctx, name, stream.Force())
	case 1:
		return store.SetRetention(ctx, name, stream.Retention{MaxAge: time.Duration(rng.IntN(300)) * time.Millisecond,
			MaxLen: rng.Int64N(5), MaxBytes: 50 * rng.Int64N(5)})
	case 2:
		opt := []stream.TrimOption{stream.MaxLen(rng.Int64N(10)), stream.MaxBytes(rng.Int64N(500))}[rng.IntN(2)]
		_, err := store.Trim(ctx, name, opt)
		return err
	case 3:
		if err := store.Create(ctx, name, stream.Partitions(4),
			stream.MaxAge(time.Duration(1+rng.IntN(300))*time.Millisecond)); !errors.Is(err, engine.ErrExists) {
			return err
		}
		return nil
	}
	_, err := store.Append(ctx, name, s.message(), stream.Partition(0))
	return err
}

// Audit reads the streams once more; all acknowledged records must be there.
func (j *streamJob) Audit(w World) {
	s := j.client(w)
	for which := range s.stores {
		if !insist(w, func() error {
			err := s.read(which, true)
			if w.Lossy() && (errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrInvalid)) {
				return nil // its creation may have been lost
			}
			return err
		}) {
			return
		}
	}
}
