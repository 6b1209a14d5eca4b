package engine

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe/internal/codec"
)

// Limits of the pages of all listings.
const (
	MaxPageItems     = 1000
	DefaultPageItems = 100
)

// PageLimit is the range of the limit in a query.
var PageLimit = codec.Range{Min: 1, Max: MaxPageItems}

// Page is a part of a listing, in its order. Public packages name the same type for their users: an alias of a named type of this
// package would show them no fields.
type Page[T any] = struct {
	Items  []T
	Cursor string // where the next page begins; "" if this is the last one
}

// Listing is what the options that all listings share say: which part of it to show. Where it is in the order of names any name is a cursor.
type Listing struct {
	Limit  int    // items of a page, at most
	Cursor string // of the page before; "" begins at the front
	Prefix string // what all names begin with
	Err    error  // of the first option that is invalid
}

// NewListing returns what a listing shows without options.
func NewListing() Listing { return Listing{Limit: DefaultPageItems} }

// Fail records the first error of the options. A nil error changes nothing.
func (l *Listing) Fail(err error) { l.Err = cmp.Or(l.Err, err) }

// Apply applies options in their order. A nil option is an error of the listing.
func Apply[O any, L interface{ Fail(error) }](to L, opts []O, apply func(O, L)) {
	opts, err := Given(opts)
	to.Fail(err)
	for _, opt := range opts {
		apply(opt, to)
	}
}

// FloorMillis returns the last ms that is not behind a time, or the nearest that an int64 has with room for another one.
func FloorMillis(t time.Time) int64 {
	const most = math.MaxInt64/1000 - 1
	s := max(min(t.Unix(), most), -most)
	return time.Unix(s, int64(t.Nanosecond())).UnixMilli()
}

// CeilMillis returns the first ms that is not before a time, likewise: what has happened before the time, and is known by its ms, happened before that.
func CeilMillis(t time.Time) int64 {
	ms := FloorMillis(t)
	if t.Nanosecond()%1_000_000 > 0 {
		ms++
	}
	return ms
}

// CheckLimit returns ErrInvalid unless a page may hold limit items. The message begins with who says so, such as "kv".
func CheckLimit(who string, limit int) error {
	if limit < 1 || limit > MaxPageItems {
		return Errorf(ErrInvalid, "%s: limit %d is not in 1-%d", who, limit, MaxPageItems)
	}
	return nil
}

// CheckPrefix returns ErrInvalid for a prefix that is longer than what it would be a prefix of. The message begins with who says so, such as "kv".
func CheckPrefix(who, prefix string, most int) error {
	if len(prefix) > most {
		return Errorf(ErrInvalid, "%s: prefix of %d bytes exceeds %d", who, len(prefix), most)
	}
	return nil
}

// Check returns the first error of the options, or ErrInvalid for what a listing of names can not take: a limit out of range, a prefix that is too long, and a
// cursor at which no page of it ends. The message begins with who says so, such as "queue".
func (l Listing) Check(who string) error {
	if l.Err != nil {
		return l.Err
	}
	if err := CheckLimit(who, l.Limit); err != nil {
		return err
	}
	if err := CheckPrefix(who, l.Prefix, MaxNameBytes); err != nil {
		return err
	}
	if l.Cursor == "" {
		return nil
	}
	if err := CheckName(who+": cursor: the", l.Cursor); err != nil {
		return err
	}
	if !strings.HasPrefix(l.Cursor, l.Prefix) {
		return BadCursor(who, l.Cursor, fmt.Sprintf(": names that begin with %.64q", l.Prefix))
	}
	return nil
}

// BadCursor is the error of a cursor that no page of a listing returned. want describes one that the listing takes, after a colon, or is "".
func BadCursor(who, cursor, want string) error {
	return Errorf(ErrInvalid, "%s: cursor %.64q is not one of this listing%s", who, cursor, want)
}

// All turns a listing by pages into an iterator over all that follows, by the contract of all iterators of floe. The first page is that of opts,
// each further one begins where the option that cursor makes says.
func All[T, O any](ctx context.Context, page func(context.Context, ...O) (Page[T], error), opts []O, cursor func(string) O) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for next := opts; ; {
			p, err := page(ctx, next...)
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, item := range p.Items {
				if !yield(item, nil) {
					return
				}
			}
			if p.Cursor == "" {
				return
			}
			next = append(slices.Clip(opts), cursor(p.Cursor))
		}
	}
}
