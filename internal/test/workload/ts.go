package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/ts"
)

// gauges is the measurement that clients write, in the plain namespace and in the spread one. Its
// points are from the year 1960, so that their partitions are over and merged whatever the clocks
// show. The clocks of the fault suites begin in 1970.
const gauges = "gauges"

var gaugesBegin = time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC)

// seriesJob runs series with many writers, each with its own.
type seriesJob struct {
	known [2]*check.Series // plain and spread
}

func newSeriesJob() Job { return &seriesJob{[2]*check.Series{check.NewSeries(), check.NewSeries()}} }

func seriesStores(w World) (stores [2]*ts.Store) {
	for i, ns := range []string{Plain, Spread} {
		stores[i] = engine.StoreOf[ts.Store](w.Router(), ns, MaxValue)
	}
	return stores
}

func (j *seriesJob) Open(w World) bool {
	for _, store := range seriesStores(w) {
		if !insist(w, func() error {
			return store.SetRetention(context.Background(), gauges, ts.Retention{Downsample: []ts.Downsample{{Every: time.Hour}}})
		}) {
			return false
		}
	}
	return true
}

// seriesClient writes series and reads them. Points must be as they were written.
type seriesClient struct {
	World
	stores [2]*ts.Store
	all    [2]*check.Series
	count  int

	// Of the current act.
	store *ts.Store
	known *check.Series
}

func (j *seriesJob) Do(w World) {
	s := &seriesClient{World: w, stores: seriesStores(w), all: j.known}
	for w.Working() {
		which := w.Rand().IntN(2)
		s.store, s.known = s.stores[which], s.all[which]
		switch n := w.Rand().IntN(20); {
		case n < 12:
			w.Note(s.write())
		case n == 12:
			w.Note(s.txn())
		case n == 13:
			w.Note(s.delete())
		default:
			w.Note(s.read())
		}
	}
}

// point returns a point with a unique value.
func (s *seriesClient) point() ts.Point {
	s.count++
	rng := s.Rand()
	return ts.Point{
		Measurement: gauges, Tags: map[string]string{"client": fmt.Sprint(s.Client()), "n": fmt.Sprint(rng.IntN(4))},
		Fields: map[string]float64{"value": float64(s.Client()*1_000_000 + s.count)},
		Time:   gaugesBegin.Add(time.Duration(rng.IntN(100)) * 30 * time.Minute),
	}
}

func seriesName(p ts.Point) string { return p.Tags["client"] + "." + p.Tags["n"] }

// write writes a batch. No two of its points have the same series and time.
func (s *seriesClient) write() error {
	known := s.known
	var batch []ts.Point
	taken := make(map[string]bool)
	for range 1 + s.Rand().IntN(5) {
		p := s.point()
		if place := seriesName(p) + p.Time.String(); !taken[place] {
			taken[place] = true
			batch = append(batch, p)
			known.Writing(seriesName(p), p.Time, p.Fields["value"])
		}
	}
	result, err := s.store.Write(context.Background(), batch...)
	switch {
	case err == nil:
		for _, p := range batch {
			known.Written(seriesName(p), p.Time, p.Fields["value"])
		}
	case result.Refused == len(batch):
		for _, p := range batch {
			known.Refused(seriesName(p), p.Time, p.Fields["value"])
		}
	}
	return err
}

// txn writes two points in a transaction that sometimes fails.
func (s *seriesClient) txn() error {
	p := s.point()
	known, value := s.known, p.Fields["value"]
	known.Writing(seriesName(p), p.Time, value)
	txn := engine.NewTxn(s.Router(), s.store.Namespace(), MaxValue).Do(ts.WriteOp(p))
	fails := s.Rand().IntN(2) == 0
	if fails {
		late := p
		late.Time = gaugesBegin.AddDate(300, 0, 0)
		txn.Do(ts.WriteOp(late))
	}
	_, err := txn.Commit(context.Background())
	switch {
	case err == nil && fails:
		s.Failf("a transaction went through with a point of a later century")
	case err == nil:
		known.Written(seriesName(p), p.Time, value)
	case !errors.Is(err, engine.ErrUnknownOutcome):
		known.Refused(seriesName(p), p.Time, value)
	}
	return err
}

// delete deletes a series. It repeats the call until the outcome is known, because the next change
// of the series depends on it.
func (s *seriesClient) delete() error {
	p := s.point()
	known := s.known
	known.Deleting(seriesName(p))
	_, err := s.store.Series(gauges).Delete(context.Background(), p.Tags)
	if err == nil || errors.Is(err, engine.ErrNotFound) && !s.Lossy() {
		known.Deleted(seriesName(p))
	}
	return err
}

// read reads one of the client's series: its points, or a query that aggregates each of them alone.
func (s *seriesClient) read() error {
	p := s.point()
	read := readSeries
	if s.Rand().IntN(2) == 0 {
		read = func(store *ts.Store, tags map[string]string) (map[int64]float64, error) {
			return querySeries(store, tags, s.Rand())
		}
	}
	got, err := read(s.store, p.Tags)
	if err != nil {
		return err
	}
	compareSeries(s.World, s.known, seriesName(p), got)
	return nil
}

// compareSeries fails the run if a series has unexpected contents. If writes may have been lost,
// any of its points may be missing, but points of other series must not appear.
func compareSeries(w World, known *check.Series, name string, got map[int64]float64) {
	err := known.Read(name, got)
	if err != nil && w.Lossy() {
		err = known.Strays(name, got)
	}
	if err != nil {
		w.Failf("time series: %w", err)
	}
}

// querySeries reads the same as readSeries by FloQL. Each point is alone in its window, so that
// most aggregates are its value.
func querySeries(store *ts.Store, tags map[string]string, rng *rand.Rand) (map[int64]float64, error) {
	aggregates := []string{"first", "last", "min", "max", "sum", "avg", "median"}
	stages := []string{"", "where(value > -1) | ", "math(value * 1) | "}
	query := fmt.Sprintf("gauges{client=%s, n=%s}[%s..%s] | %swindow(30m) | %s()", tags["client"], tags["n"],
		gaugesBegin.Format(time.RFC3339),
		gaugesBegin.AddDate(0, 0, 3).Format(time.RFC3339), stages[rng.IntN(len(stages))], aggregates[rng.IntN(len(aggregates))])
	answer, err := store.Query(context.Background(), query, floql.Options{Limits: floql.Limits{Time: -1}})
	if err != nil {
		return nil, err
	}
	got := make(map[int64]float64)
	for _, s := range answer.Series {
		for _, p := range s.Points {
			got[p.Time.UnixMilli()] = p.Value
		}
	}
	return got, nil
}

func readSeries(store *ts.Store, tags map[string]string) (map[int64]float64, error) {
	got := make(map[int64]float64)
	for sample, err := range store.Read(context.Background(), gauges, "value", ts.Tags(tags)) {
		if err != nil {
			return nil, err
		}
		got[sample.Time.UnixMilli()] = sample.Value
	}
	return got, nil
}

// Audit reads all remaining points.
func (j *seriesJob) Audit(w World) {
	for i, store := range seriesStores(w) {
		for _, name := range j.known[i].Names() {
			auditSeries(w, store, j.known[i], name)
		}
	}
}

func auditSeries(w World, store *ts.Store, known *check.Series, name string) {
	client, n, _ := strings.Cut(name, ".")
	for {
		got, err := readSeries(store, map[string]string{"client": client, "n": n})
		if err != nil && w.Sleep(10*time.Millisecond) {
			continue
		}
		if err == nil {
			compareSeries(w, known, name, got)
		} else if !w.Lossy() {
			w.Failf("time series: %w", err)
		}
		return
	}
}

// seriesTally writes a point at a unique time.
func seriesTally(rng *rand.Rand, tag string, payload []byte) []engine.Operation {
	at := gaugesBegin.Add(-time.Duration(rng.Int64N(100_000_000_000)) * time.Millisecond)
	return []engine.Operation{ts.WriteOp(ts.Point{
		Measurement: tag + "points", Tags: map[string]string{"of": tag}, Fields: map[string]float64{"size": float64(len(payload))},
		Time: at,
	})}
}

func countSeries(ctx context.Context, r *engine.Router, namespace, tag string) (int64, error) {
	m, err := engine.StoreOf[ts.Store](r, namespace, 0).Get(ctx, tag+"points")
	return m.Points, unlessAbsent(err)
}
