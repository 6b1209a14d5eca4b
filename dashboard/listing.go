package dashboard

import (
	"net/url"

	"github.com/floedb/floe/internal/engine"
)

// Bounds of listings whose request names no limit: they are given whole up to these.
const (
	maxListed      = 10_000
	maxListedBytes = 4 << 20 // of payloads, beyond which a listing has no further one
)

// maxPage is how many items are taken from a store at once: one less than it gives, so that it can
// be asked for one more, which tells whether there is one.
const maxPage = engine.MaxPageItems - 1

// partial is an answer that may not be all there is: next returns the parameter of the same request
// that continues behind it, and its value, "" if nothing follows.
type partial interface{ next() (name, value string) }

// listing is an answer that is an array.
type listing[T any] struct {
	items []T
	after string // continues behind the last item; "": nothing follows
}

func (l listing[T]) body() any { return l.items }

func (l listing[T]) next() (name, value string) { return "after", l.after }

// collect makes a listing of up to limit items. page returns up to n of those behind a place (first
// the one given), and the place behind them, "" if they are the last ones; bytes is how long the
// payload of an item is, nil if items have none.
func collect[T, R any](after string, limit int, page func(after string, n int) ([]T, string, error), convert func(T) R,
	bytes func(T) int) (listing[R], error) {
	l := listing[R]{items: []R{}}
	for size := 0; len(l.items) < limit && size < maxListedBytes; {
		items, behind, err := page(after, min(limit-len(l.items), maxPage))
		if err != nil {
			return listing[R]{}, err
		}
		for _, item := range items {
			l.items = append(l.items, convert(item))
			if bytes != nil {
				size += bytes(item)
			}
		}
		if l.after, after = behind, behind; behind == "" {
			break
		}
	}
	return l, nil
}

// cut makes a page of up to n items of what a store returned when it was asked for one more.
func cut[T any](items []T, n int, place func(T) string) ([]T, string) {
	if len(items) <= n {
		return items, ""
	}
	return items[:n], place(items[n-1])
}

// listLimit returns the parameter limit of a listing for which the specification names none.
func (in *input) listLimit() int {
	return int(in.integer("limit", span{absent: int64(in.handler.maxListed), min: 1, max: pageLimit.max}))
}

// link returns the header Link of an answer that a parameter continues. The URL is relative to that
// of the request, whatever the handler is mounted under.
func (in *input) link(name, value string) string {
	query := make(url.Values)
	for _, asked := range in.asked {
		if given, ok := in.query[asked]; ok {
			query[asked] = given
		}
	}
	for _, start := range []string{"after", "cursor", "from", "tail"} {
		query.Del(start)
	}
	query.Set(name, value)
	return "<?" + query.Encode() + `>; rel="next"`
}
