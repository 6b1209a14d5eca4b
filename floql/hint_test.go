package floql_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/pushdown"
)

// namer is a source without points that knows no name of a query.
type namer struct {
	floql.Slice
	err error
}

func (n *namer) Unknown(_ context.Context, sel floql.Selection) (all []pushdown.Unknown, _ error) {
	for _, f := range sel.Filters {
		all = append(all, pushdown.Unknown{Message: "unknown tag " + f.Tag, Name: f.Tag, Known: []string{"host", "region"}})
	}
	return all, n.err
}

// TestHints: names that a source does not know become hints of a query without results: with the
// nearest name, each once, at most 10. If the source fails, the query does not.
func TestHints(t *testing.T) {
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("t%02d=a", i))
	}
	for _, c := range []struct {
		query string
		err   error
		want  string
	}{
		{"m", nil, ""},
		{"m{hsot=a, HOST=b}", nil, `unknown tag hsot (did you mean "host"?)|unknown tag HOST (did you mean "host"?)`},
		{"m{zone=a} | sum() | join(+, (m{zone=b} | sum()))", nil, "unknown tag zone"},
		{"m{zone=a} | field(a) | field(b)", nil, "unknown tag zone"},
		{"m{zone=a} | sum() | join(+, (m{area=b} | sum()))", errors.New("slow"), "unknown tag zone"},
		{"m{" + strings.Join(many, ",") + "}", nil, "unknown tag t00|...9"},
	} {
		res, err := floql.Eval(t.Context(), &namer{err: c.err}, c.query, floql.Options{})
		if err != nil {
			t.Fatalf("%s: %v", c.query, err)
		}
		got := strings.Join(res.Hints, "|")
		if n := len(res.Hints); n > 9 {
			got = fmt.Sprintf("%s|...%d", res.Hints[0], n-1)
		}
		if got != c.want {
			t.Errorf("%s: hints %q, want %q", c.query, got, c.want)
		}
	}
}

func TestHintsInJSON(t *testing.T) {
	for want, hints := range map[string][]string{
		`{"query":"m","series":[]}`:                       nil,
		`{"query":"m","series":[],"hints":["no \"m\"?"]}`: {`no "m"?`},
		`{"query":"m","series":[],"hints":["a","b"]}`:     {"a", "b"},
	} {
		if got, err := json.Marshal(&floql.Result{Query: "m", Hints: hints}); err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}
