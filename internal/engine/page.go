package engine

import "iter"

// Limits of the pages of all listings.
const (
	MaxPageItems     = 1000
	DefaultPageItems = 100
)

// Page is a part of a listing, in its order. Public packages name the same type for their users: an alias of a named type of this
// package would show them no fields.
type Page[T any] = struct {
	Items  []T
	Cursor string // where the next page begins; "" if this is the last one
}

// CheckLimit returns ErrInvalid unless a page may hold limit items. The message begins with who says so, such as "kv".
func CheckLimit(who string, limit int) error {
	if limit < 1 || limit > MaxPageItems {
		return Errorf(ErrInvalid, "%s: limit %d is not in 1-%d", who, limit, MaxPageItems)
	}
	return nil
}

// Paginate turns a listing by pages into an iterator, by the contract of all iterators of floe. page returns the page behind a cursor, "" for the
// first one.
func Paginate[T any](page func(cursor string) (Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			p, err := page(cursor)
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
			if cursor = p.Cursor; cursor == "" {
				return
			}
		}
	}
}
