package floql_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/test/floqltest"
)

// TestCanonicalForm: the printed form of each query of the test language parses to the same query.
func TestCanonicalForm(t *testing.T) {
	for _, text := range floqltest.Queries(t) {
		q, err := floql.Parse(text)
		if err != nil {
			continue
		}
		printed := q.String()
		again, err := floql.Parse(printed)
		if err != nil || again.String() != printed {
			t.Errorf("%q is printed as %q, and that as %v, %v", text, printed, again, err)
		}
	}
}

func TestString(t *testing.T) {
	for text, want := range map[string]string{
		`m`:                                               `m`,
		` m { } [ 90m ] | avg( ) `:                        `m[1h30m] | avg()`,
		`"m"{h="a",'k'!='b c',g=~x*,n=500}`:               `m{h=a, k!="b c", g=~"x*", n=500}`,
		`'my cpu'[-1h..now]`:                              `"my cpu"[1h]`,
		`m[now-2h..now-1h]`:                               `m[now-2h..now-1h]`,
		`m[0..1970-01-01T00:00:10+00:00]`:                 `m[0..10000]`,
		`m[1969-12-31T23:59:59.5Z..now]`:                  `m[1969-12-31T23:59:59.5Z..now]`,
		`m|window(size=7d,every=24h)|max()`:               `m | window(1w, 1d) | max()`,
		`m|window(14mo,tz="Europe/Berlin")|max()`:         `m | window(1y2mo, tz=Europe/Berlin) | max()`,
		`m|window(1d,tz=UTC,every=1d)|max()`:              `m | window(1d, 1d, tz=UTC) | max()`,
		`m|percentile(p=99.90)`:                           `m | percentile(99.9)`,
		`m|where( value>1 # yes` + "\n)":                  `m | where(value>1)`,
		`m|group_by( * )`:                                 `m | group_by(*)`,
		`m|group_by(a,"b c")`:                             `m | group_by(a, "b c")`,
		`m|topk(by=max,k=3)|sort()|round()`:               `m | topk(3, max) | sort() | round()`,
		`m|join(+,n)`:                                     `m | join(+, (n))`,
		`m|alias("a\"b")`:                                 `m | alias("a\"b")`,
		`m|window(1m)|sum()|fill(-1.5)|fill(+2)|fill(.5)`: `m | window(1m) | sum() | fill(-1.5) | fill(2) | fill(0.5)`,
		`m|window(1m)|sum()|fill(1e3)|fill(prev)`:         `m | window(1m) | sum() | fill(1000) | fill(prev)`,
	} {
		q, err := floql.Parse(text)
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
			continue
		}
		if got := q.String(); got != want || q.Text() != text {
			t.Errorf("Parse(%q) prints %q, want %q; Text() = %q", text, got, want, q.Text())
		}
	}
}

func TestErrorPositions(t *testing.T) {
	_, err := floql.Parse("cpu{h=\"ä\"}\n\t| avgg()")
	e, ok := errors.AsType[*floql.Error](err)
	if !ok {
		t.Fatalf("Parse: %v", err)
	}
	if e.Offset != 15 || e.Line != 2 || e.Col != 4 || e.Message != `unknown stage "avgg" (did you mean "avg"?)` {
		t.Errorf("%+v", e)
	}
	if got, want := e.Caret(), "\t| avgg()\n\t  ^"; got != want {
		t.Errorf("Caret() = %q, want %q", got, want)
	}
}

// TestStages: the completion data is complete, and every stage can be written as its signature
// says.
func TestStages(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range floql.Stages() {
		if seen[s.Name] || s.Doc == "" || strings.HasSuffix(s.Doc, ".") || !strings.HasPrefix(s.Signature, s.Name+"(") {
			t.Errorf("%+v", s)
		}
		seen[s.Name] = true
	}
	for _, name := range strings.Fields(`field window avg sum count min max first last median stddev spread percentile rate increase delta derivative where math
		group_by topk bottomk sort limit fill moving_avg cumsum abs ceil floor round clamp shift alias join`) {
		if !seen[name] {
			t.Errorf("stage %s is missing", name)
		}
		delete(seen, name)
	}
	if len(seen) > 0 {
		t.Errorf("stages that the reference does not list: %v", seen)
	}
}
