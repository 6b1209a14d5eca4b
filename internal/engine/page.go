package engine

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"sort"
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

// Page is a part of a listing, in listing order. Public packages declare the same type, because the
// documentation of an alias of a type of this package would not show its fields.
type Page[T any] = struct {
	Items  []T
	Cursor string // where the next page begins; "" if this is the last one
}

// Listing is the part of a listing to return, as set by its options. Listings of names accept any
// name with the prefix as a cursor.
type Listing struct {
	Limit  int    // maximum number of items in a page
	Cursor string // of the previous page; "" starts at the beginning
	Prefix string // prefix of all names
	Err    error  // of the first invalid option
}

// NewListing returns a listing without options.
func NewListing() Listing { return Listing{Limit: DefaultPageItems} }

// Fail records the first error of the options. A nil error changes nothing.
func (l *Listing) Fail(err error) { l.Err = cmp.Or(l.Err, err) }

func (l *Listing) listing() *Listing { return l }

// Lister is what listing options modify: a *Listing, or a pointer to a package's struct that embeds
// a Listing.
type Lister interface{ listing() *Listing }

// option is an option of listings. It has a method for each kind of listing that accepts it, so
// that the compiler rejects it for all others. The methods are unexported, and the packages of the
// primitives embed these types (see hidden.go).
type option interface{ fill(Lister) }

// The options of each kind of listing. A PageOption is accepted by all kinds, including listings
// without other options.
type (
	ListOption interface {
		option
		names()
	}
	KeyOption interface {
		option
		keys()
	}
	VersionOption interface {
		option
		versions()
	}
	MessageOption interface {
		option
		messages()
	}
	DeadOption interface {
		option
		deadLetters()
	}
	ActionRunOption interface {
		option
		actionRuns()
	}
	WorkerOption interface {
		option
		workers()
	}
	WorkflowRunOption interface {
		option
		workflowRuns()
	}
	JobOption interface {
		option
		jobs()
	}
	SeriesOption interface {
		option
		series()
	}
	PageOption interface {
		ListOption
		KeyOption
		VersionOption
		MessageOption
		DeadOption
		ActionRunOption
		WorkerOption
		WorkflowRunOption
		JobOption
		SeriesOption
	}
)

// The kinds of listings. An option embeds those that accept it.
type (
	OfNames        struct{}
	OfKeys         struct{}
	OfVersions     struct{}
	OfMessages     struct{}
	OfDeadLetters  struct{}
	OfActionRuns   struct{}
	OfWorkers      struct{}
	OfWorkflowRuns struct{}
	OfJobs         struct{}
	OfSeries       struct{}
	ofAll          struct {
		OfNames
		OfKeys
		OfVersions
		OfMessages
		OfDeadLetters
		OfActionRuns
		OfWorkers
		OfWorkflowRuns
		OfJobs
		OfSeries
	}
)

func (OfNames) names()               {}
func (OfKeys) keys()                 {}
func (OfVersions) versions()         {}
func (OfMessages) messages()         {}
func (OfDeadLetters) deadLetters()   {}
func (OfActionRuns) actionRuns()     {}
func (OfWorkers) workers()           {}
func (OfWorkflowRuns) workflowRuns() {}
func (OfJobs) jobs()                 {}
func (OfSeries) series()             {}

// LimitOption is the type of Limit.
type LimitOption struct {
	ofAll
	n int
}

type cursorOption struct {
	ofAll
	cursor string
}

// PrefixOption is the type of Prefix.
type PrefixOption struct {
	OfNames
	OfKeys
	OfJobs
	prefix string
}

// Limit sets the maximum number of items of a page.
func Limit(n int) LimitOption { return LimitOption{n: n} }

// LimitIn returns the number of a LimitOption.
func LimitIn(o LimitOption) int { return o.n }

// Cursor continues a listing after the page that returned c.
func Cursor(c string) PageOption { return cursorOption{cursor: c} }

// Prefix lists only names that begin with p.
func Prefix(p string) PrefixOption { return PrefixOption{prefix: p} }

func (o LimitOption) fill(l Lister) {
	l.listing().Limit = o.n
	l.listing().Fail(CheckLimit(o.n))
}

func (o cursorOption) fill(l Lister) { l.listing().Cursor = o.cursor }
func (o PrefixOption) fill(l Lister) { l.listing().Prefix = o.prefix }

// Filter is an option of a package's own listings, whose options are a struct of the package. The
// zero value is refused.
type Filter struct{ f func(Lister) }

// FilterOf returns an option that calls f.
func FilterOf[L Lister](f func(L)) Filter { return Filter{func(l Lister) { f(l.(L)) }} }

func (f Filter) fill(l Lister) {
	if f.f == nil {
		l.listing().Fail(Errorf(ErrInvalid, "option was not made by a function of floe"))
		return
	}
	f.f(l)
}

// Apply applies options in order. A nil option is an error of the listing.
func Apply[O option](to Lister, opts []O) {
	opts, err := Given(opts)
	to.listing().Fail(err)
	for _, opt := range opts {
		opt.fill(to)
	}
}

// ListingOf returns the listing of names for options. Errors: ErrInvalid.
func ListingOf[O option](opts []O) (Listing, error) {
	l := NewListing()
	Apply(&l, opts)
	return l, l.Check()
}

// PageOf returns the listing for options. Errors: ErrInvalid.
func PageOf[O option](opts []O) (Listing, error) {
	l := NewListing()
	Apply(&l, opts)
	return l, l.Err
}

// FloorMillis returns the last ms that is not after a time, or the nearest one in the range of
// int64 that leaves room for another.
func FloorMillis(t time.Time) int64 {
	const most = math.MaxInt64/1000 - 1
	s := max(min(t.Unix(), most), -most)
	return time.Unix(s, int64(t.Nanosecond())).UnixMilli()
}

// CeilMillis returns the first ms that is not before a time, with the same bounds. An event with a
// resolution of 1 ms that happened before the time has a smaller ms.
func CeilMillis(t time.Time) int64 {
	ms := FloorMillis(t)
	if t.Nanosecond()%1_000_000 > 0 {
		ms++
	}
	return ms
}

// CheckLimit returns ErrInvalid unless a page may hold limit items.
func CheckLimit(limit int) error {
	if limit < 1 || limit > MaxPageItems {
		return Errorf(ErrInvalid, "limit %d is not in 1-%d", limit, MaxPageItems)
	}
	return nil
}

// CheckPrefix returns ErrInvalid for a prefix that is longer than the names it could match.
func CheckPrefix(prefix string, most int) error {
	if len(prefix) > most {
		return Errorf(ErrInvalid, "prefix of %d bytes exceeds %d", len(prefix), most)
	}
	return nil
}

// Check returns the first error of the options, or ErrInvalid if a listing of names cannot accept
// them. That is a limit out of range, a prefix that is too long, or a cursor that is not a name
// with the prefix.
func (l Listing) Check() error {
	if err := cmp.Or(l.Err, CheckLimit(l.Limit), CheckPrefix(l.Prefix, MaxNameBytes)); err != nil || l.Cursor == "" {
		return err
	}
	if CheckName("the", l.Cursor) != nil || !strings.HasPrefix(l.Cursor, l.Prefix) {
		return BadCursor(l.Cursor)
	}
	return nil
}

// BadCursor is the error for a cursor that no page of a listing returned.
func BadCursor(cursor string) error {
	return Errorf(ErrInvalid, "cursor %.64q is not from this listing", cursor)
}

// All turns a paged listing into an iterator over all following items, with the contract of all
// iterators of floe. The first page uses opts, and each further page starts where the previous one
// ended. O is the interface of the listing's options, which Cursor implements.
func All[T, O any](ctx context.Context, page func(context.Context, ...O) (Page[T], error), opts []O) iter.Seq2[T, error] {
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
			next = append(slices.Clip(opts), any(Cursor(p.Cursor)).(O))
		}
	}
}

// PageIn returns a page of a listing that is entirely in memory, sorted by cursor.
func PageIn[T any](items []T, l Listing, cursor func(T) string) (page Page[T]) {
	if l.Cursor != "" {
		items = items[sort.Search(len(items), func(i int) bool { return cursor(items[i]) > l.Cursor }):]
	}
	page.Items = items[:min(len(items), l.Limit)]
	if len(page.Items) < len(items) {
		page.Cursor = cursor(page.Items[l.Limit-1])
	}
	return page
}

// Collect reads an iterator to its end, or to the first error.
func Collect[T any](all iter.Seq2[T, error]) (items []T, err error) {
	for item, err := range all {
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}
