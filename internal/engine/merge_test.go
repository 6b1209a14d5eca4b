package engine_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
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

func TestFirst(t *testing.T) {
	if first, ok := engine.First([]string{"a", "b"}); first != "a" || !ok {
		t.Errorf("First = %q, %t", first, ok)
	}
}

func TestParsePositions(t *testing.T) {
	cursor := func(p ...uint64) string {
		return engine.EncodeCursor(p, func(p *[]uint64, c *codec.Coder) { codec.List(c, p, (*codec.Coder).Uvarint) })
	}
	id := func(s string) (engine.ShardID, uint64, error) { // such as "3.42"
		var shard engine.ShardID
		var number uint64
		_, err := fmt.Sscanf(s, "%d.%d", &shard, &number)
		return shard, number, err
	}
	for _, c := range []struct {
		cursor string
		shards []engine.ShardID
		want   string
	}{
		{"", []engine.ShardID{4, 5}, fmt.Sprint([]uint64{math.MaxUint64, math.MaxUint64}, " <nil>")},
		{"3.42", []engine.ShardID{3}, "[42] <nil>"},
		{"3.42", []engine.ShardID{2}, `[] cursor "3.42" is not from this listing`},
		{"3.42", []engine.ShardID{3, 4}, `[] cursor "3.42" is not from this listing`},
		{"3.42", nil, `[] cursor "3.42" is not from this listing`},
		{cursor(7), []engine.ShardID{0}, "[7] <nil>"},
		{cursor(7, 300), []engine.ShardID{0, 1}, "[7 300] <nil>"},
		{cursor(7, 300), []engine.ShardID{0}, fmt.Sprintf("[7 300] cursor %q is not from this listing", cursor(7, 300))},
		{cursor(7)[:1], []engine.ShardID{0}, fmt.Sprintf("[] cursor %q is not from this listing", cursor(7)[:1])},
		{"", nil, "[] <nil>"},
	} {
		p, err := engine.ParsePositions(c.cursor, c.shards, id)
		if got := fmt.Sprint(p, " ", err); got != c.want || err != nil && !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%q for shards %d: %s, want %s", c.cursor, c.shards, got, c.want)
		}
	}
}

// TestMergeNewest checks that a page ends at its limit, and before an item that may be older than
// one that a shard has not sent.
func TestMergeNewest(t *testing.T) {
	type shardPage struct {
		items []string // such as "9x": second 9, number 9 of item x
		next  uint64
		more  bool
	}
	for name, c := range map[string]struct {
		parts []shardPage
		limit int
		items string
		from  string // "" if it is the last page
	}{
		"nothing":    {[]shardPage{{}, {}}, 3, "", ""},
		"all":        {[]shardPage{{items: []string{"9a", "5b"}}, {items: []string{"7c", "6d"}}}, 4, "9a 7c 6d 5b", ""},
		"more room":  {[]shardPage{{items: []string{"7a"}}, {items: []string{"9b"}}}, 9, "9b 7a", ""},
		"same time":  {[]shardPage{{items: []string{"7a"}}, {items: []string{"7b"}}, {items: []string{"7c"}}}, 9, "7a 7b 7c", ""},
		"limit":      {[]shardPage{{items: []string{"9a", "5b"}}, {items: []string{"7c", "6d"}}}, 3, "9a 7c 6d", "9 6"},
		"limit of 1": {[]shardPage{{items: []string{"7a"}}, {items: []string{"9b"}}}, 1, "9b", "99 9"},
		"one has more": {[]shardPage{{items: []string{"9a", "7b"}, more: true}, {items: []string{"8c", "6d"}}}, 9,
			"9a 8c 7b", "7 8"},
		"more, and none so far": {[]shardPage{{items: []string{"9a"}}, {more: true, next: 4}}, 9, "", "99 4"},
		"read further": {[]shardPage{{items: []string{"9a"}, next: 3}, {items: []string{"8b"}, next: 2, more: true}}, 9,
			"9a 8b", "3 2"},
		"read further than shown": {[]shardPage{{items: []string{"9a", "6b"}, next: 3}, {items: []string{"8c"}, next: 2}}, 2,
			"9a 8c", "9 2"},
	} {
		from := engine.Positions{99, 99, 99}[:len(c.parts)]
		found := func(p shardPage) ([]string, uint64, bool) { return p.items, p.next, p.more }
		second := func(s string) int64 { return int64(s[0] - '0') }
		page := engine.MergeNewest(c.parts, from, c.limit, found, func(s *string) time.Time { return time.Unix(second(*s), 0) },
			func(p shardPage, i int) uint64 { return uint64(second(p.items[i])) })
		if got := strings.Join(page.Items, " "); got != c.items {
			t.Errorf("%s: %s, want %s", name, got, c.items)
		}
		next := ""
		if page.Cursor != "" {
			p, err := engine.ParsePositions(page.Cursor, make([]engine.ShardID, len(c.parts)),
				func(string) (engine.ShardID, uint64, error) { return 0, 0, errNo })
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			next = strings.Trim(fmt.Sprint(p), "[]")
		}
		if next != c.from {
			t.Errorf("%s: the next page is from %q on, want %q", name, next, c.from)
		}
	}
}
