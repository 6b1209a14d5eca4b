package kv

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"iter"
	"slices"
	"strings"

	"github.com/floedb/floe/internal/engine"
)

// MaxPageItems is the largest page of Page.
const MaxPageItems = 1000

// Item is an entry of a listing. Value is nil with KeysOnly; Size is its length all the same.
type Item struct {
	Entry
	Size int
}

// Page is a part of a listing in key order.
type Page struct {
	Items  []Item
	Cursor string // continues behind the last item; "" if that was the last page

	parts []*scanQuery // of the shards, with memory for PageInto to use again
}

// ScanOption changes what Scan and Page return.
type ScanOption func(*scanOptions)

type scanOptions struct {
	keysOnly bool
	limit    int
	cursor   string
	after    string
}

// KeysOnly leaves the values out.
func KeysOnly() ScanOption { return func(o *scanOptions) { o.keysOnly = true } }

// Limit sets how many items a page holds, 1 to 1000; the default is 100. Scan reads pages of this size.
func Limit(n int) ScanOption { return func(o *scanOptions) { o.limit = n } }

// Cursor continues a listing of the same namespace and prefix behind an earlier page. Keys written or deleted meanwhile
// show or not, depending on where they are; others are neither skipped nor repeated.
func Cursor(c string) ScanOption { return func(o *scanOptions) { o.cursor = c } }

// After begins behind a key, which need not exist. A Cursor goes before it.
func After(key string) ScanOption { return func(o *scanOptions) { o.after = key } }

// Scan iterates in key order over the entries whose keys start with prefix, across all shards. Each pair is an item and nil, or
// a zero Item and an error, after which iteration ends; nothing runs before the first step, and break or a done ctx releases
// everything. It reads page by page: each page is one consistent state per shard, the whole is not.
func (s *Store) Scan(ctx context.Context, prefix string, opts ...ScanOption) iter.Seq2[Item, error] {
	return engine.Paginate(func(cursor string) (engine.Page[Item], error) {
		pageOpts := slices.Clip(opts)
		if cursor != "" {
			pageOpts = append(pageOpts, Cursor(cursor))
		}
		page, err := s.Page(ctx, prefix, pageOpts...)
		return engine.Page[Item]{Items: page.Items, Cursor: page.Cursor}, err
	})
}

// Page returns one page of a Scan. A page ends early when its values exceed 4 MiB. Small keys and values share memory, up to 4 KiB of it:
// copy a few that are kept when the page is not.
//
// Errors: ErrInvalid for a limit out of range or a cursor that is not of this listing.
func (s *Store) Page(ctx context.Context, prefix string, opts ...ScanOption) (Page, error) {
	var page Page
	err := s.PageInto(ctx, &page, prefix, opts...)
	page.parts = nil
	return page, err
}

// PageInto is Page for who reads often: it puts the page into *page, whose memory it uses again. Nothing of what was in there, no key and
// no value, may be used any more, but prefix and options may be made of it. After an error the page is empty.
func (s *Store) PageInto(ctx context.Context, page *Page, prefix string, opts ...ScanOption) error {
	items := page.Items
	*page = Page{parts: page.parts}
	o := scanOptions{limit: 100}
	for _, opt := range opts {
		opt(&o)
	}
	if o.limit < 1 || o.limit > MaxPageItems {
		return engine.Errorf(ErrInvalid, "kv: limit %d is not in 1-%d", o.limit, MaxPageItems)
	}
	prefix, after := strings.Clone(prefix), strings.Clone(o.after) // they may be of the page whose memory is used again
	if o.cursor != "" {
		var err error
		if after, err = s.decodeCursor(prefix, o.cursor); err != nil {
			return err
		}
	}
	q := scanQuery{namespace: s.scope.Namespace(), prefix: prefix, after: after, limit: o.limit, keysOnly: o.keysOnly}
	if err := s.fanOut(ctx, q, page); err != nil {
		return err
	}
	s.mergePages(page, items, prefix, o.limit)
	return nil
}

// pageChunk bounds the memory that a small key or value keeps when it is kept and its page is not.
const pageChunk = 4 << 10

// fanOut asks all shards of the namespace at once, for the parts of the page.
func (s *Store) fanOut(ctx context.Context, q scanQuery, page *Page) error {
	shards, err := s.scope.Shards(ctx)
	if err != nil {
		return err
	}
	q.maxBytes = maxPageBytes / len(shards)
	q.mem.Chunk = pageChunk
	parts := slices.Grow(page.parts, max(len(shards)-len(page.parts), 0))[:len(shards)]
	page.parts = parts
	for i, part := range parts {
		if part == nil {
			parts[i] = new(q)
			continue
		}
		items, mem := part.items[:0], part.mem
		*part = q
		part.items, part.mem = items, mem
		part.mem.Reset()
	}
	return engine.FanOut(ctx, &s.scope, shards, parts)
}

// mergePages keeps the first limit items, in items if there are several parts. A shard that has more than it returned ends the page at its
// last item: what others have behind it may come after items that were not returned. The shards share the bound for values, so the page
// exceeds it by at most one value of each.
func (s *Store) mergePages(page *Page, items []Item, prefix string, limit int) {
	parts := page.parts
	items = items[:0]
	end, more := "", false
	for _, part := range parts {
		if len(parts) == 1 {
			items = part.items
		} else {
			items = append(items, part.items...)
		}
		if part.more {
			last := part.items[len(part.items)-1].Key
			if !more || last < end {
				end = last
			}
			more = true
		}
	}
	if len(parts) > 1 {
		slices.SortFunc(items, func(a, b Item) int { return cmp.Compare(a.Key, b.Key) })
	}
	if more {
		n, found := slices.BinarySearchFunc(items, end, func(it Item, k string) int { return strings.Compare(it.Key, k) })
		if found {
			n++
		}
		items = items[:n]
	}
	if len(items) > limit {
		items, more = items[:limit], true
	}
	if more {
		page.Cursor = s.encodeCursor(prefix, items[len(items)-1].Key)
	}
	page.Items = items
}

// A cursor is base64url of: version u8 | CRC-32 (IEEE, big-endian) of namespace, prefix and key | key.
const cursorVersion = 1

func (s *Store) encodeCursor(prefix, k string) string {
	b := make([]byte, 0, 5+len(k))
	b = binary.BigEndian.AppendUint32(append(b, cursorVersion), s.cursorSum(prefix, k))
	return base64.RawURLEncoding.EncodeToString(append(b, k...))
}

func (s *Store) cursorSum(prefix, k string) uint32 {
	b := make([]byte, 0, 512)
	b = append(append(b, s.scope.Namespace()...), 0)
	b = append(append(b, prefix...), 0)
	return crc32.ChecksumIEEE(append(b, k...))
}

func (s *Store) decodeCursor(prefix, cursor string) (after string, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err == nil && len(b) > 5 && b[0] == cursorVersion {
		k := string(b[5:])
		if binary.BigEndian.Uint32(b[1:]) == s.cursorSum(prefix, k) {
			return k, nil
		}
	}
	return "", engine.Errorf(ErrInvalid, "kv: cursor %.64q is not one of this listing", cursor)
}
