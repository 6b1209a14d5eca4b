package stream_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

type order struct{ Total int }

func TestView(t *testing.T) {
	inBubbles(t, func(t *testing.T, node *floe.Node, s *stream.Store) {
		ctx, orders := t.Context(), stream.JSON[order](s)
		_, err := orders.Append(ctx, "{log}", "ada", order{1})
		must(t, err)
		recs, err := orders.Read(ctx, "{log}")
		if err != nil || len(recs) != 1 || recs[0].Key != "ada" || recs[0].Value != (order{1}) || recs[0].Offset != 1 {
			t.Errorf("Read = %+v, %v", recs, err)
		}
		appendAll(t, s, "{log}", "bob:{")
		_, err = node.Txn("n").Do(orders.AppendOp("{log}", "eve", order{3})).Commit(ctx)
		must(t, err)
		var bad *stream.DecodeError
		recs, err = orders.Read(ctx, "{log}")
		if !errors.As(err, &bad) || bad.Stream != "{log}" || bad.Offset != 2 || !errors.Is(err, stream.ErrInvalid) || len(recs) != 1 {
			t.Errorf("Read = %+v, %v, want the first record and a DecodeError of the second", recs, err)
		}
		followed := ""
		for r, err := range orders.Follow(ctx, "{log}") {
			followed += fmt.Sprint(r.Value, errors.As(err, &bad), " ")
		}
		if followed != "{1} false {0} true " {
			t.Errorf("Follow: %s", followed)
		}
		var got notes
		c := begin(t, func(ctx context.Context) error {
			return orders.Consume(ctx, "{log}", "g", func(ctx context.Context, d stream.DeliveryOf[order]) error {
				got.add("%s %d %d", d.Key, d.Value.Total, d.Attempt)
				return nil
			})
		})
		pass(time.Second)
		c.end(t)
		if got := got.sorted(); got != "ada 1 1, eve 3 1" {
			t.Errorf("consumed %s", got)
		}
		dead, err := s.Read(ctx, "{log}.dlq")
		if err != nil || len(dead) != 1 ||
			dead[0].Headers[stream.HeaderError] != `stream "{log}": payload of record 2 of partition 0: unexpected end of JSON input` {
			t.Errorf("dead letters %+v, %v", dead, err)
		}
		_, err = stream.JSON[chan int](s).Append(ctx, "{log}", "", nil)
		if !errors.Is(err, stream.ErrInvalid) {
			t.Errorf("Append of a channel: %v", err)
		}
	})
}
