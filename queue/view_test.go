package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
)

type letter struct {
	To    string
	Pages int
}

func TestView(t *testing.T) {
	inBubble(t, func(t *testing.T, node *floe.Node) {
		ctx, store := t.Context(), node.Queue("default")
		letters := queue.JSON[letter](store)
		must(letters.Enqueue(ctx, "q", letter{"ada", 2}, queue.Priority(1)))
		must(store.Enqueue(ctx, "q", []byte("{")))
		enqueue := letters.EnqueueOp("q", letter{"eve", 3})
		if e, err := enqueue.Result(must(node.Txn("default").Do(enqueue).Commit(ctx))); err != nil || e.Seq != 3 {
			t.Errorf("Result = %+v, %v", e, err)
		}
		var got []letter
		c := begun(t, func(ctx context.Context) error {
			return letters.Consume(ctx, "q", func(ctx context.Context, m queue.MessageOf[letter]) error {
				if m.Seq == 0 || m.Attempts != 1 {
					t.Errorf("%+v", m)
				}
				got = append(got, m.Value)
				return nil
			})
		})
		pass(time.Second)
		c.end(t)
		if len(got) != 2 || got[0] != (letter{"ada", 2}) || got[1] != (letter{"eve", 3}) {
			t.Errorf("consumed %+v", got)
		}
		for m, err := range store.DeadLetters("q").All(ctx) {
			if err != nil || m.Seq != 2 || m.Attempts != 1 ||
				m.LastError != `queue "q": payload of message 2: unexpected end of JSON input` {
				t.Errorf("dead letter %+v, %v", m, err)
			}
		}
		if s := must(store.Get(ctx, "q")); s.Dead != 1 || s.Acked != 2 {
			t.Errorf("Stats = %+v", s)
		}
		_, err := queue.JSON[func()](store).Enqueue(ctx, "q", func() {})
		if !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("Enqueue of a function: %v", err)
		}
		_, err = node.Txn("default").Do(queue.JSON[func()](store).EnqueueOp("q", nil),
			queue.JSON[chan int](store).EnqueueOp("q", nil)).Commit(ctx)
		if !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("Commit with functions: %v", err)
		}
	})
}
