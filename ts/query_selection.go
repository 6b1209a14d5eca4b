package ts

import (
	"fmt"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/agg"
	"github.com/floedb/floe/internal/codec"
)

// maxQueryBytes bounds the memory that a query from another process may request.
const maxQueryBytes = 1 << 30

// codeSelection codes a selection, limits included, as bytes.
func codeSelection(f *codec.Fields, s *floql.Selection) {
	if f.Checking() {
		return
	}
	var b []byte
	c := f.Binary()
	decodes := f.Parsing() || c != nil && c.Reading()
	if !decodes {
		b = encodeSelection(s)
	}
	if f.Blob("selection", &b); !decodes || b == nil && c == nil || c != nil && c.Err() != nil {
		return
	}
	if err := decodeSelection(b, s); err != nil {
		if f.Refuse(err); c != nil {
			c.Fail(err.Error())
		}
	}
	if l := &s.Limits; l.Bytes < 0 || l.Bytes > maxQueryBytes {
		l.Bytes = maxQueryBytes
	}
}

func encodeSelection(s *floql.Selection) []byte { return codec.EncodeFields(nil, s, selectionFields) }

func decodeSelection(b []byte, s *floql.Selection) error {
	if err := codec.DecodeFields(b, s, selectionFields); err != nil {
		return err
	}
	const far = 2 * agg.MaxTime
	if s.From >= s.To || s.From < -far || s.To > far || s.LookBack < 0 || s.LookBack > far {
		return fmt.Errorf("%w: range of a selection", codec.ErrCorrupt)
	}
	return nil
}

func selectionFields(s *floql.Selection, f *codec.Fields) {
	f.Text("measurement", &s.Measurement)
	codec.ListOf(f, "filters", &s.Filters, codeFilter)
	codec.ListOf(f, "fields", &s.Fields, codec.Text)
	l := &s.Limits
	for _, v := range []*int64{&s.From, &s.To, &s.LookBack, &l.Points, &l.Series, &l.ResultPoints, &l.Bytes, (*int64)(&l.Time)} {
		f.Varint("", v)
	}
}
