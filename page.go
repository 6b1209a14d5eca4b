package floe

import "github.com/floedb/floe/internal/engine"

// Page is one page of an ordered listing. All packages of floe use the same type.
type Page[T any] = struct {
	Items  []T
	Cursor string // where the next page begins, for the option Cursor; "" if this is the last one
}

// ListOption is an option for listing namespaces: Limit, Cursor or Prefix.
type ListOption interface{ listOption }

// PageOption is an option for any listing of floe: Limit or Cursor.
type PageOption interface{ pageOption }

type (
	listOption = engine.ListOption
	pageOption = engine.PageOption
)

// Limit sets the maximum number of items on a page, 1 to 1000; the default is 100. Iterators read
// pages of this size.
func Limit(n int) PageOption { return engine.Limit(n) }

// Cursor continues a listing after an earlier page, with that page's Cursor. Items added or removed
// in the meantime may or may not appear, depending on their place; no other item is skipped or
// repeated. The cursor of namespaces is the name of the last one; any other name with the same
// Prefix works too.
func Cursor(c string) PageOption { return engine.Cursor(c) }

// Prefix lists only namespaces whose names begin with p.
func Prefix(p string) ListOption { return engine.Prefix(p) }
