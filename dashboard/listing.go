package dashboard

import (
	"net/url"

	"github.com/floedb/floe/internal/engine"
)

// Limits of listings whose request sets no limit: shorter listings are complete.
const (
	maxListed      = 10_000
	maxListedBytes = 4 << 20 // of payloads; a listing ends when it exceeds this
)

// maxPage is the number of items read from a store at once: one less than the store's maximum, so
// that one more item can be requested to check whether there are more.
const maxPage = engine.MaxPageItems - 1

// partial is a response that may be incomplete: next returns the parameter that continues the same
// request after it, with its value, "" if nothing follows.
type partial interface{ next() (name, value string) }

// listing is a response that is an array.
type listing[T any] struct {
	items []T
	after string // continues after the last item; "": nothing follows
}

func (l listing[T]) body() any { return l.items }

func (l listing[T]) next() (name, value string) { return "after", l.after }

// collect builds a listing of up to limit items. page returns up to n items after a position
// (initially after), and the position of the last one, "" if no more follow. bytes returns the
// payload size of an item; nil if items have no payload.
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

// cut returns a page of up to n items from a result for n+1 items.
func cut[T any](items []T, n int, place func(T) string) ([]T, string) {
	if len(items) <= n {
		return items, ""
	}
	return items[:n], place(items[n-1])
}

// listLimit returns the parameter limit of a listing for which the specification sets none.
func (in *input) listLimit() int {
	return int(in.integer("limit", span{absent: int64(in.handler.maxListed), min: 1, max: pageLimit.max}))
}

// link returns the Link header of a response that a parameter continues. The URL is relative to
// that of the request, so it works wherever the handler is mounted.
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
