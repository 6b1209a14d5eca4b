package primitive

import (
	"bytes"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// FuzzQuery decodes the arguments and results of every kind of query. What decodes has one encoding
// after the first, and one JSON form that reads back.
func FuzzQuery(f *testing.F) {
	all := All()
	for i, p := range all {
		for _, q := range p.Queries {
			f.Add(uint8(i), q.Kind, engine.AppendQuery(nil, q.New())[2:])
			f.Add(uint8(i), q.Kind, engine.AppendResults(nil, q.New()))
			f.Add(uint8(i), q.Kind, []byte{1, 'n', 1, 'q', 0, 1, 2, 20, 0, 0})
		}
	}
	f.Fuzz(func(t *testing.T, i, kind uint8, b []byte) {
		p := &all[int(i)%len(all)]
		q := p.Query(kind)
		if q == nil {
			return
		}
		for what, code := range map[string]func(engine.Query, *codec.Fields){"arguments": engine.Query.Arguments,
			"results": engine.Query.Results} {
			coded := func(q *engine.Query, f *codec.Fields) { code(*q, f) }
			q := p.Query(kind)
			if codec.DecodeFields(b, &q, coded) != nil {
				continue
			}
			// A decoder accepts two encodings of the zero time, but an encoder uses only one.
			once, again := codec.EncodeFields(nil, &q, coded), p.Query(kind)
			err := codec.DecodeFields(once, &again, coded)
			if twice := codec.EncodeFields(nil, &again, coded); err != nil || !bytes.Equal(once, twice) {
				t.Errorf("%s of %s %d: %x decodes and encodes as %x, and that as %x: %v", what, p.Name, kind, b, once, twice, err)
			}
			if codec.CheckFields(&q, true, coded) == nil {
				machinetest.ReadsBack(t, p.Query(kind), q, coded)
			}
		}
	})
}

// TestQueriesAreDescribed: the fields of every query have names, none of them twice.
func TestQueriesAreDescribed(t *testing.T) {
	var check func(of string, fields []codec.Field)
	check = func(of string, fields []codec.Field) {
		names := make(map[string]bool)
		for _, f := range fields {
			if names[f.Name] || f.Name == "" && len(fields) > 1 {
				t.Errorf("%s: field %q is repeated or has no name", of, f.Name)
			}
			names[f.Name] = true
			check(of+"."+f.Name, f.Fields)
		}
	}
	for _, p := range All() {
		for i := range p.Queries {
			q := &p.Queries[i]
			check(p.Name+" "+q.Name+" arguments", q.ArgumentFields())
			check(p.Name+" "+q.Name+" results", q.ResultFields())
		}
		for _, c := range p.Commands {
			if c.Fields != nil {
				check(p.Name+" "+c.Name, c.Fields())
			}
		}
	}
}
