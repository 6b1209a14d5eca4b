package floqltest

import (
	"context"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/floedb/floe/floql"
)

// slice is the source in memory that package floql has.
type slice struct{ source floql.Slice }

func (s *slice) Load(t *testing.T, points []Point) {
	for _, p := range points {
		if err := s.source.Add(p.Measurement, p.Tags, p.Field, p.Timestamp, p.Value); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *slice) Eval(ctx context.Context, query string, opts floql.Options) (*floql.Result, error) {
	return floql.Eval(ctx, &s.source, query, opts)
}

func TestSlice(t *testing.T) {
	Run(t, func(*testing.T) Store { return new(slice) })
}

// TestCanonical: the canonical form of a query gives the same.
func TestCanonical(t *testing.T) {
	Run(t, func(*testing.T) Store { return &canonical{} })
}

type canonical struct{ slice }

func (c *canonical) Eval(ctx context.Context, query string, opts floql.Options) (*floql.Result, error) {
	q, err := floql.Parse(query)
	if err != nil {
		return nil, err
	}
	again, err := floql.Parse(q.String())
	if err != nil {
		return nil, err
	}
	if _, err := q.Eval(ctx, &c.source, opts); err != nil {
		return nil, err // positions are those of the text
	}
	return again.Eval(ctx, &c.source, opts)
}

// TestShards: several sources, each with some of the series, that answer aggregations where their points are, and in columns of a few points.
func TestShards(t *testing.T) {
	Run(t, func(*testing.T) Store { return &shards{random: rand.New(rand.NewPCG(1, 2))} })
}

type shards struct {
	sources [3]floql.Slice
	random  *rand.Rand
}

func (s *shards) Load(t *testing.T, points []Point) {
	for _, p := range points {
		h := 0
		for _, v := range p.Tags {
			for _, c := range v {
				h += int(c)
			}
		}
		if err := s.sources[h%len(s.sources)].Add(p.Measurement, p.Tags, p.Field, p.Timestamp, p.Value); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *shards) Eval(ctx context.Context, query string, opts floql.Options) (*floql.Result, error) {
	return floql.Eval(ctx, s, query, opts)
}

// Read lets the series take turns.
func (s *shards) Read(ctx context.Context, sel floql.Selection) iter.Seq2[floql.Column, error] {
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

// Aggregate does what shards in other processes would.
func (s *shards) Aggregate(ctx context.Context, sel floql.Selection, p *floql.Partial) error {
	sel, err := floql.DecodeSelection(sel.Encode(nil))
	if err != nil {
		return err
	}
	for _, i := range s.random.Perm(len(s.sources)) {
		part, err := floql.NewPartial(p.Plan(), sel.Limits)
		if err != nil {
			return err
		}
		one := shards{random: s.random}
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

func (s *shards) fill(ctx context.Context, sel floql.Selection, p *floql.Partial) error {
	all := make(map[*floql.Series]*floql.PartialSeries)
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
