package floqltest

import (
	"context"
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
