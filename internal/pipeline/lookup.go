package pipeline

import (
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/rawjson"
)

// lookup joins records with KV values. The keys are computed from the records.
type lookup struct {
	namespace string
	key       *template
	enrich    string // field for the value; "": only filter by the existence of a value
	missing   missing
}

// missing is the policy for records without a value in KV.
type missing uint8

const (
	missingPass missing = iota + 1
	missingDrop
	missingNull
	missingFail
)

// perLookup is the number of keys read at once. Their values are counted before more are read.
const perLookup = 32

func readLookup(r *reader, o *Operator, n *document.Node, at string) {
	l := &lookup{}
	filters, field := n.Get("enrich_field field") == nil && !enriches(n.Get("on_missing")), "lookup"
	r.fields(o, n, at,
		document.Field{Names: "lookup_key key", Read: r.templateOf(&l.key)},
		document.Field{Names: "namespace", Read: r.Name(&l.namespace)},
		document.Field{Names: "mode", Read: document.Word(&r.Reader, &filters, document.Is("enrich", false), document.Is("filter", true))},
		document.Field{Names: "enrich_field field", Read: r.Name(&field)},
		document.Field{Names: "on_missing", Read: document.Word(&r.Reader, &l.missing, document.Is("pass keep", missingPass),
			document.Is("drop skip", missingDrop),
			document.Is("null", missingNull), document.Is("error fail", missingFail))},
	)
	if r.needs(n, at, "lookup_key key"); l.key == nil {
		return
	}
	switch {
	case filters && n.Get("enrich_field field") != nil:
		r.Fail(n.Get("enrich_field field").Line, "misplaced-key", "enrich_field of %s is allowed only with mode: enrich", at)
	case filters && l.missing == missingNull:
		r.Fail(n.Get("on_missing").Line, "bad-value", "on_missing of %s is null, which is allowed only with mode: enrich", at)
	case filters && l.missing == 0:
		l.missing = missingDrop
	case l.missing == 0:
		l.missing = missingPass
	}
	if !filters {
		l.enrich = field
	}
	o.Looks, o.Lookup, o.private.spec = l.key.text, l.namespace, l
}

// enriches reports whether on_missing has a value that requires enrichment. Without a mode and a
// field for the value, a lookup filters.
func enriches(n *document.Node) bool {
	return n != nil && hasWord("pass keep null", n.Text)
}

var errMissing = errors.New("KV has nothing under the key")

// tooLong is the index of an invalid key.
const tooLong = -2

func (l *lookup) add(t *Tick, s *instance, in, out []item) ([]item, error) {
	keys, places := []string(nil), make(map[string]int)
	of := make([]int, len(in))
	for i := range in {
		key, ok, err := l.key.keyOf(&in[i], nil)
		if of[i] = -1; err != nil {
			of[i] = tooLong
		}
		if err != nil || !ok || key == "" {
			continue
		}
		at, known := places[key]
		if !known {
			at = len(keys)
			places[key], keys = at, append(keys, key)
		}
		of[i] = at
	}
	var values [][]byte
	found := 0 // bytes
	for first := 0; first < len(keys); first += perLookup {
		some := keys[first:min(first+perLookup, len(keys))]
		got, err := t.lookup(t.ctx, l.namespace, some)
		if err != nil {
			return nil, err
		}
		if len(got) != len(some) {
			return nil, fmt.Errorf("pipeline: %d values for %d keys", len(got), len(some))
		}
		for _, v := range got {
			if found += len(v); l.enrich == "" && v != nil {
				v = []byte{} // only its existence matters
			}
			values = append(values, v)
		}
		if l.enrich != "" && len(t.batch) > 1 && found > maxBatch {
			return nil, ErrBatch
		}
	}
	for i := range in {
		it := in[i]
		var value []byte
		if of[i] >= 0 {
			value = values[of[i]]
		}
		passed, err := false, errTemplateKey
		if of[i] != tooLong {
			passed, err = l.join(t, &it, value)
		}
		switch {
		case err != nil:
			t.fail(s, err, &in[i])
		case passed:
			out = append(out, it)
		default:
			t.counts[s.index].Dropped++
		}
	}
	return out, t.tooMuch()
}

// join adds a value to a record and reports whether the record continues.
func (l *lookup) join(t *Tick, it *item, value []byte) (bool, error) {
	if value == nil {
		switch l.missing {
		case missingDrop:
			return false, nil
		case missingFail:
			return false, errMissing
		case missingPass:
			return true, nil
		}
		value = []byte("null")
	}
	if l.enrich == "" {
		return true, nil
	}
	if _, err := it.JSON(); err != nil {
		return false, err
	}
	made, ok := withMember(it.Value, l.enrich, asJSON(value))
	if !ok {
		return false, errNoObject
	}
	t.grown += len(made)
	it.set(made)
	return true, nil
}

// asJSON returns bytes as JSON: unchanged if they are JSON, otherwise as a string.
func asJSON(b []byte) []byte {
	if rawjson.Valid(b) {
		return rawjson.TrimSpace(b)
	}
	return rawjson.AppendText(nil, string(b))
}

// withMember returns an object with a member set. A new member is the last one.
func withMember(object []byte, name string, value []byte) ([]byte, bool) {
	b := append(make([]byte, 0, len(object)+len(name)+len(value)+8), '{')
	written, there := 0, false
	ok := rawjson.EachMember(object, func(key, old []byte) bool {
		if rawjson.IsText(key, name) {
			if there {
				return true
			}
			there, old = true, value
		}
		if written++; written > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, key...), ':'), old...)
		return true
	})
	if !ok {
		return nil, false
	}
	if !there {
		if written > 0 {
			b = append(b, ',')
		}
		b = append(append(rawjson.AppendText(b, name), ':'), value...)
	}
	return append(b, '}'), true
}
