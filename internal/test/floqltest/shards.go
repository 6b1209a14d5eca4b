package floqltest

import (
	"context"
	"iter"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/pushdown"
)

// NewShards returns a Store with several sources that have some of the series each. They return
// points in columns of a few, with the series in random order. They answer aggregations like other
// processes: each as a separate part, which is encoded and merged.
func NewShards(seed uint64) *Shards { return &Shards{random: rand.New(rand.NewPCG(seed, 0))} }

// Shards is a Store, and a source. It is not safe for concurrent use.
type Shards struct {
	sources [3]floql.Slice
	random  *rand.Rand
}

// Load adds points.
func (s *Shards) Load(t *testing.T, points []Point) {
	for _, p := range points {
		h := 0
		for _, v := range p.Tags {
			for _, c := range v {
				h += int(c)
			}
		}
		if err := s.sources[h%len(s.sources)].Add(p.Measurement, p.Tags, p.Field, time.UnixMilli(p.Timestamp), p.Value); err != nil {
			t.Fatal(err)
		}
	}
}

// Eval evaluates a query.
func (s *Shards) Eval(ctx context.Context, query string, opts floql.Options) (*floql.Result, error) {
	return floql.Eval(ctx, s, query, opts)
}

// Read takes turns between the series.
func (s *Shards) Read(ctx context.Context, sel floql.Selection) iter.Seq2[floql.Column, error] {
	return func(yield func(floql.Column, error) bool) {
		var columns []floql.Column
		for i := range s.sources {
			for c, err := range s.sources[i].Read(ctx, sel) {
				if err != nil {
					yield(floql.Column{}, err)
					return
				}
				columns = append(columns, c)
			}
		}
		for len(columns) > 0 {
			i := s.random.IntN(len(columns))
			c := &columns[i]
			n := min(1+s.random.IntN(4), len(c.Times))
			if !yield(floql.Column{Series: c.Series, Times: c.Times[:n], Values: c.Values[:n]}, nil) {
				return
			}
			if c.Times, c.Values = c.Times[n:], c.Values[n:]; len(c.Times) == 0 {
				columns = append(columns[:i], columns[i+1:]...)
			}
		}
	}
}

// Aggregate does what shards in other processes would do.
func (s *Shards) Aggregate(ctx context.Context, sel floql.Selection, p pushdown.Partial[floql.Series]) error {
	for _, i := range s.random.Perm(len(s.sources)) {
		part, err := pushdown.NewPartial[floql.Series](p.Plan(), sel.Limits)
		if err != nil {
			return err
		}
		one := Shards{random: s.random}
		one.sources[0] = s.sources[i]
		if err := one.fill(ctx, sel, part); err != nil {
			return err
		}
		encoded, err := part.Encode(ctx, nil)
		if err != nil {
			return err
		}
		if err := p.Merge(encoded); err != nil {
			return err
		}
	}
	return nil
}

func (s *Shards) fill(ctx context.Context, sel floql.Selection, p pushdown.Partial[floql.Series]) error {
	all := make(map[*floql.Series]pushdown.PartialSeries)
	for c, err := range s.Read(ctx, sel) {
		if err != nil {
			return err
		}
		to := all[c.Series]
		if to == nil {
			if to, err = p.Series(c.Series); err != nil {
				return err
			}
			all[c.Series] = to
		}
		if err := to.Add(c.Times, c.Values); err != nil {
			return err
		}
	}
	return nil
}
