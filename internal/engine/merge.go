package engine

import (
	"encoding/base32"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe/internal/codec"
)

// Merge merges the answers of shards into a page ordered by name. found returns a shard's items,
// whether it has more, and the last name it read ("" if that is the name of its last item). join
// combines the items with one name, or returns false to omit them.
func Merge[Q, T, U any](parts []Q, limit int, found func(Q) (items []T, more bool, end string), name func(T) string,
	join func(same []T) (U, bool)) (page Page[U]) {
	var all []T
	for _, q := range parts {
		items, more, end := found(q)
		if all = append(all, items...); !more {
			continue
		}
		if end == "" {
			end = name(items[len(items)-1])
		}
		// After its last item the shard may have more that sort before those of others, or have the
		// same name.
		if page.Cursor == "" || end < page.Cursor {
			page.Cursor = end
		}
	}
	slices.SortStableFunc(all, func(a, b T) int { return strings.Compare(name(a), name(b)) })
	last := ""
	for n := 0; len(all) > 0; all = all[n:] {
		first := name(all[0])
		if page.Cursor != "" && first > page.Cursor {
			break
		}
		for n = 1; n < len(all) && name(all[n]) == first; n++ {
		}
		item, ok := join(all[:n])
		if !ok {
			continue
		}
		if len(page.Items) == limit {
			page.Cursor = last
			break
		}
		page.Items, last = append(page.Items, item), first
	}
	return page
}

// First is the join of items that only one shard has.
func First[T any](same []T) (T, bool) { return same[0], true }

var cursorEncoding = base32.HexEncoding.WithPadding(base32.NoPadding)

// EncodeCursor makes a cursor of a value.
func EncodeCursor[T any](v T, code func(*T, *codec.Coder)) string {
	return cursorEncoding.EncodeToString(codec.Encode(nil, &v, code))
}

// DecodeCursor reads a cursor that EncodeCursor made. Errors: ErrInvalid.
func DecodeCursor[T any](cursor string, code func(*T, *codec.Coder)) (v T, err error) {
	b, err := cursorEncoding.DecodeString(cursor)
	if err == nil {
		v, err = codec.Decode(b, code)
	}
	if err != nil {
		return v, BadCursor(cursor)
	}
	return v, nil
}

// Positions holds, for each shard, the number before which a newest-first listing continues.
type Positions []uint64

func (p *Positions) code(c *codec.Coder) { codec.List(c, (*[]uint64)(p), (*codec.Coder).Uvarint) }

// ParsePositions reads a cursor. If all items are in one shard, the id of the last item that was
// listed is a cursor too. Errors: ErrInvalid.
func ParsePositions(cursor string, shards []ShardID, id func(string) (shard ShardID, number uint64, err error)) (Positions, error) {
	if cursor == "" {
		return slices.Repeat(Positions{math.MaxUint64}, len(shards)), nil
	}
	if shard, number, err := id(cursor); err == nil && len(shards) == 1 && shard == shards[0] {
		return Positions{number}, nil
	}
	p, err := DecodeCursor(cursor, (*Positions).code)
	if err == nil && len(p) != len(shards) {
		err = BadCursor(cursor)
	}
	return p, err
}

// MergeNewest merges the answers of shards into a page, newest first, and advances from. found
// returns a shard's items, the number of the last row it read (0 if it read none), and whether it
// has more; number returns the number of an item.
func MergeNewest[Q, T any](parts []Q, from Positions, limit int, found func(Q) (items []T, next uint64, more bool), at func(*T) time.Time,
	number func(q Q, i int) uint64) (page Page[T]) {
	shown := make([]int, len(parts))
	newest := func() int {
		best, latest := -1, time.Time{}
		for i, q := range parts {
			items, _, more := found(q)
			if n := shown[i]; n < len(items) {
				if t := at(&items[n]); best < 0 || t.After(latest) {
					best, latest = i, t
				}
			} else if more {
				return -1 // its next item may be newer than those of the others
			}
		}
		return best
	}
	for len(page.Items) < limit {
		i := newest()
		if i < 0 {
			break
		}
		items, _, _ := found(parts[i])
		page.Items = append(page.Items, items[shown[i]])
		from[i] = number(parts[i], shown[i])
		shown[i]++
	}
	done := true
	for i, q := range parts {
		items, next, more := found(q)
		all := shown[i] == len(items)
		if all && next != 0 {
			from[i] = next // the rows after the last item do not match
		}
		done = done && all && !more
	}
	if !done {
		page.Cursor = EncodeCursor(from, (*Positions).code)
	}
	return page
}
