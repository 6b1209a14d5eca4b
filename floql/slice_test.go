package floql_test

import (
	"context"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/test/floqltest"
)

// slice is the in-memory source of package floql.
type slice struct{ source floql.Slice }

func (s *slice) Load(t *testing.T, points []floqltest.Point) {
	for _, p := range points {
		if err := s.source.Add(p.Measurement, p.Tags, p.Field, time.UnixMilli(p.Timestamp), p.Value); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *slice) Eval(ctx context.Context, query string, opts floql.Options) (*floql.Result, error) {
	return floql.Eval(ctx, &s.source, query, opts)
}

func TestLanguage(t *testing.T) {
	floqltest.Run(t, func(*testing.T) floqltest.Store { return new(slice) })
}

// TestCanonicalResults: the canonical form of a query gives the same results.
func TestCanonicalResults(t *testing.T) {
	floqltest.Run(t, func(*testing.T) floqltest.Store { return &canonical{} })
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
		return nil, err // error positions refer to the original text
	}
	return again.Eval(ctx, &c.source, opts)
}

// TestLanguageOverShards: several sources compute aggregations where their points are.
func TestLanguageOverShards(t *testing.T) {
	floqltest.Run(t, func(*testing.T) floqltest.Store { return floqltest.NewShards(1) })
}
