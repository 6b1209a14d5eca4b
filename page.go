package floe

// Page is a part of a listing, in its order, the same type as queue.Page.
type Page[T any] = struct {
	Items  []T
	Cursor string // where the next page begins, for the option Cursor; "" if this is the last one
}

// PageOption says what a listing of namespaces shows.
type PageOption func(*pageOptions)

type pageOptions struct {
	limit  int
	cursor string
}

// Limit sets how many items a page holds at most, 1 to 1000; the default is 100. Iterators read pages of this size.
func Limit(n int) PageOption { return func(o *pageOptions) { o.limit = n } }

// Cursor continues a listing behind an earlier page, with its Cursor. What has come or gone meanwhile shows or not, depending on where it is; all
// else is neither skipped nor repeated. The cursor of namespaces is the name of the last one; any other name will do.
func Cursor(c string) PageOption { return func(o *pageOptions) { o.cursor = c } }
