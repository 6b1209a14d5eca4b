package engine_test

import (
	"slices"
	"testing"

	"github.com/floedb/floe/internal/engine"
)

// TestMerge checks that a page ends where the first shard with more rows ends, or at its limit.
func TestMerge(t *testing.T) {
	type shardPage struct {
		items []string
		more  bool
		end   string
	}
	for name, c := range map[string]struct {
		parts  []shardPage
		limit  int
		items  []string
		cursor string
	}{
		"nothing":   {[]shardPage{{}, {}}, 3, nil, ""},
		"all":       {[]shardPage{{items: []string{"c"}}, {items: []string{"a", "b"}}}, 3, []string{"a", "b", "c"}, ""},
		"limit":     {[]shardPage{{items: []string{"c"}}, {items: []string{"a", "b"}}}, 2, []string{"a", "b"}, "b"},
		"same name": {[]shardPage{{items: []string{"a", "b"}}, {items: []string{"a", "c"}}}, 2, []string{"a", "b"}, "b"},
		"one has more": {[]shardPage{{items: []string{"a", "c"}, more: true}, {items: []string{"b", "d"}}}, 9,
			[]string{"a", "b", "c"}, "c"},
		"both have more": {[]shardPage{{items: []string{"a", "c"}, more: true}, {items: []string{"b"}, more: true}}, 9,
			[]string{"a", "b"}, "b"},
		"end after items": {[]shardPage{{items: []string{"a"}, more: true, end: "c"}, {items: []string{"b", "d"}}}, 9,
			[]string{"a", "b"}, "c"},
		"left out":           {[]shardPage{{items: []string{"a", "-", "b"}}}, 2, []string{"a", "b"}, ""},
		"nothing but an end": {[]shardPage{{more: true, end: "c"}, {}}, 9, nil, "c"},
	} {
		join := func(same []string) (string, bool) { return same[0], same[0] != "-" }
		page := engine.Merge(c.parts, c.limit, func(p shardPage) ([]string, bool, string) { return p.items, p.more, p.end },
			func(s string) string { return s }, join)
		if !slices.Equal(page.Items, c.items) || page.Cursor != c.cursor {
			t.Errorf("%s: %q, cursor %q, want %q, %q", name, page.Items, page.Cursor, c.items, c.cursor)
		}
	}
}
