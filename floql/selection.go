package floql

import (
	"fmt"

	"github.com/floedb/floe/internal/agg"
	"github.com/floedb/floe/internal/codec"
)

// Encode appends the selection for DecodeSelection, limits included.
func (s *Selection) Encode(dst []byte) []byte {
	c := codec.NewEncoder(dst)
	s.code(&c)
	return c.Encoded()
}

// DecodeSelection returns what Selection.Encode has written.
//
// Errors: for bytes that it has not.
func DecodeSelection(b []byte) (Selection, error) {
	var s Selection
	c := codec.NewDecoder(b)
	s.code(&c)
	if err := c.Done(); err != nil {
		return Selection{}, err
	}
	return s, s.check()
}

func (s *Selection) code(c *codec.Coder) {
	c.String(&s.Measurement)
	codec.List(c, &s.Filters, codeFilter)
	codec.List(c, &s.Fields, (*codec.Coder).String)
	for _, v := range []*int64{&s.From, &s.To, &s.LookBack, &s.Limits.Points, &s.Limits.Series, &s.Limits.ResultPoints, &s.Limits.Bytes, (*int64)(&s.Limits.Time)} {
		c.Varint(v)
	}
}

func codeFilter(c *codec.Coder, f *Filter) {
	c.String(&f.Tag)
	c.Byte((*byte)(&f.Op))
	c.String(&f.Value)
	if !c.Reading() || c.Err() != nil {
		return
	}
	var err error
	if *f, err = NewFilter(f.Tag, f.Op, f.Value); err != nil {
		c.Fail(err.Error())
	}
}

func (s *Selection) check() error {
	const far = 2 * agg.MaxTime
	if s.From >= s.To || s.From < -far || s.To > far || s.LookBack < 0 || s.LookBack > far {
		return fmt.Errorf("%w: range of a selection", codec.ErrCorrupt)
	}
	return nil
}
