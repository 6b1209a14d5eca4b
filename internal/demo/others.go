package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/ts"
)

// loadWarehouse creates a second namespace with live traffic.
func (s *Shop) loadWarehouse(ctx context.Context) error {
	errs := []error{s.db.Stream(Warehouse).Create(ctx, "scans", stream.MaxAge(keptFor), stream.MaxLen(20_000)),
		s.db.Queue(Warehouse).Configure(ctx, "picks", bounds)}
	_, err := s.db.Action(Warehouse).Register(ctx, "count-shelf", action.Owner("stock"), action.Retain(2*time.Hour, 1000))
	errs = append(errs, err)
	for i := range 30 {
		_, err := s.db.KV(Warehouse).Put(ctx, fmt.Sprintf("shelf/%02d", i), fmt.Appendf(nil, `{"row":%d,"items":%d}`, 1+i/6, 10*i%70))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// tickWarehouse generates six seconds of traffic in the warehouse.
func (s *Shop) tickWarehouse(ctx context.Context, r *rand.Rand, n int) error {
	_, err := s.db.Stream(Warehouse).Append(ctx, "scans",
		stream.Message{Key: "gate-1", Payload: fmt.Appendf(nil, `{"parcel":"p-%d"}`, s.next-1-r.IntN(20))})
	_, err2 := s.db.Queue(Warehouse).Enqueue(ctx, "picks",
		fmt.Appendf(nil, `{"shelf":"%02d","item":%q}`, r.IntN(30), pick(r, "cup", "lamp", "rope")))
	_, err3 := s.db.Action(Warehouse).Invoke(ctx, "count-shelf", fmt.Appendf(nil, `{"order":%d}`, r.IntN(1000)))
	return errors.Join(err, err2, err3)
}

// loadAnalytics creates a namespace spread over all shards.
func (s *Shop) loadAnalytics(ctx context.Context) error {
	_, err := s.db.TS(Analytics).WriteLine(ctx, strings.NewReader(s.visits(s.random(seriesStream, -1), s.now)), ts.Milliseconds)
	return errors.Join(err, s.db.TS(Analytics).SetRetention(ctx, "visits", ts.Retention{RawTTL: 24 * time.Hour}),
		s.db.Stream(Analytics).Create(ctx, "events", stream.Partitions(8), stream.MaxAge(keptFor), stream.MaxLen(10_000)))
}

// visits returns the points for a time in line protocol.
func (s *Shop) visits(r *rand.Rand, at time.Time) string {
	var lines strings.Builder
	for _, country := range []string{"AT", "DE", "FR", "NL", "US"} {
		fmt.Fprintf(&lines, "visits,country=%s people=%d %d\n", country, 20+r.IntN(200), at.UnixMilli())
	}
	return lines.String()
}

func (s *Shop) tickAnalytics(ctx context.Context, r *rand.Rand, n int) error {
	_, err := s.db.TS(Analytics).WriteLine(ctx, strings.NewReader(s.visits(r, s.now.Add(time.Duration(n)*tickTime))), ts.Milliseconds)
	var messages []stream.Message
	for range 8 {
		messages = append(messages, stream.Message{Key: fmt.Sprintf("v-%d", r.IntN(500)),
			Payload: fmt.Appendf(nil, `{"seen":%q}`, pick(r, "banner", "mail", "search"))})
	}
	_, err2 := s.db.Stream(Analytics).AppendMany(ctx, "events", messages)
	return errors.Join(err, err2)
}
