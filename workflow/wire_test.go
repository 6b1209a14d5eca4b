package workflow

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/flow"
)

// TestAttributesOfListing: a listing by at most one attribute keeps its original encoding, and one
// by several appends them at the end.
func TestAttributesOfListing(t *testing.T) {
	ask := func(attributes ...string) []byte {
		t.Helper()
		q := runsQuery{namespace: "n", filter: filter{workflow: "w", attributes: attributes, after: 1, before: 2}, before: 3, limit: 4}
		b := codec.EncodeFields(nil, &q, (*runsQuery).Arguments)
		var got runsQuery
		if err := codec.DecodeFields(b, &got, (*runsQuery).Arguments); err != nil || !reflect.DeepEqual(got, q) {
			t.Errorf("attributes %q: %+v, want %+v: %v", attributes, got, q, err)
		}
		return b
	}
	none, one, two := ask(), ask("a"), ask("a", "b")
	if want := bytes.Replace(none, []byte("\x01w\x00\x00\x00"), []byte("\x01w\x00\x00\x01a"), 1); !bytes.Equal(one, want) ||
		!bytes.HasPrefix(two, one) {
		t.Errorf("one attribute is asked for as %x, want %x, and two as %x", one, want, two)
	}
	var many []string
	for i := range flow.MaxAttributes {
		many = append(many, fmt.Sprint(i))
	}
	ask(many...)
	q := runsQuery{filter: filter{attributes: append(many, "more"), before: math.MaxInt64}, limit: 1}
	if b := codec.EncodeFields(nil, &q, (*runsQuery).Arguments); codec.DecodeFields(b, &q, (*runsQuery).Arguments) == nil {
		t.Errorf("%d attributes are read", len(q.filter.attributes))
	}
}
