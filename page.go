package floe

import "github.com/floedb/floe/internal/engine"

// Page is a part of a listing, in its order, the same type in all packages of floe.
type Page[T any] = struct {
	Items  []T
	Cursor string // where the next page begins, for the option Cursor; "" if this is the last one
}

// ListOption is an option of the listing of namespaces: Limit, Cursor or Prefix.
type ListOption interface{ listOption }

// PageOption is an option of every listing of floe: Limit or Cursor.
type PageOption interface{ pageOption }

type (
	listOption = engine.ListOption
	pageOption = engine.PageOption
)

// Limit sets how many items a page holds at most, 1 to 1000; the default is 100. Iterators read
// pages of this size.
func Limit(n int) PageOption { return engine.Limit(n) }

// Cursor continues a listing behind an earlier page, with its Cursor. What has come or gone
// meanwhile shows or not, depending on where it is; all else is neither skipped nor repeated. The
// cursor of namespaces is the name of the last one; any other name with the same Prefix will do.
func Cursor(c string) PageOption { return engine.Cursor(c) }

// Prefix lists only namespaces whose names begin with p.
func Prefix(p string) ListOption { return engine.Prefix(p) }
