package floql_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/floedb/floe/floql"
)

func TestParseFilters(t *testing.T) {
	for text, want := range map[string]string{
		"": "[]", " # nothing": "[]", `host=a`: "[host=a]", ` host =~ "web-*" , region!= eu ,x="" `: "[host=~\"web-*\" region!=eu x=\"\"]",
		"host":    `col 5: found the end of the query, expected =, !=, =~ or !~`,
		"a=b,":    `col 5: found the end of the query, expected the name of a tag`,
		"a=b c=d": `col 5: found "c", expected "," or the end of the filters`,
		"a=b}":    `col 4: found "}", expected "," or the end of the filters`,
		`a=~"^b"`: `col 4: `,
	} {
		filters, err := floql.ParseFilters(text)
		got := fmt.Sprint(err)
		if err == nil {
			var all []string
			for _, f := range filters {
				all = append(all, f.String())
			}
			got = fmt.Sprint(all)
		} else if wrong := (*floql.Error)(nil); !errors.As(err, &wrong) {
			t.Errorf("%q: %v is no *floql.Error", text, err)
		}
		if len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
