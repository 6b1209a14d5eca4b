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

// MaxPageItems is the largest Limit of a page.
const MaxPageItems = engine.MaxPageItems

// Item is an entry of a listing. With NoValues, Value is nil, but Size is still its length.
type Item struct {
	Entry
	Size int
}

// Page is one page of an ordered listing. All packages of floe use the same type.
type Page[T any] = struct {
	Items  []T
	Cursor string // where the next page begins, for the option Cursor; "" if this is the last one
}

// ListOption selects what Page and All list.
type ListOption interface{ keyOption }

// PageOption is an option for any listing of floe: Limit or Cursor.
type PageOption interface{ pageOption }

type (
	keyOption     = engine.KeyOption
	versionOption = engine.VersionOption
	pageOption    = engine.PageOption
	filter        = engine.Filter
	ofKeys        = engine.OfKeys
	ofVersions    = engine.OfVersions
)

type listOptions struct {
	engine.Listing
	withoutValues bool
	after         string
}

// Limit sets the maximum number of items on a page, 1 to 1000; the default is 100. All reads pages
// of this size.
func Limit(n int) PageOption { return engine.Limit(n) }

// Cursor continues a listing of the same namespace and Prefix after an earlier page, with that
// page's Cursor. Items added or removed in the meantime may or may not appear, depending on their
// place; no other item is skipped or repeated.
func Cursor(c string) PageOption { return engine.Cursor(c) }

// Prefix lists only keys that begin with p.
func Prefix(p string) ListOption { return engine.Prefix(p) }

// After starts the listing after a key, which need not exist. A Cursor takes precedence.
func After(key string) ListOption {
	return struct {
		filter
		ofKeys
	}{filter: engine.FilterOf(func(o *listOptions) { o.after = key })}
}

// ValuesOption is the type of NoValues; the listings of keys and of versions accept it.
type ValuesOption struct {
	filter
	ofKeys
	ofVersions
}

// NoValues omits the values, but not their Size.
func NoValues() ValuesOption { return noValues }

var noValues = ValuesOption{filter: engine.FilterOf(func(o *listOptions) { o.withoutValues = true })}

// Page returns a page of the entries of the namespace, in key order, over all shards. A page ends
// early when its values exceed 4 MiB, or 16 MiB if they are omitted. Its entries reflect one
// consistent state of each shard. Small keys and values share allocations of up to 4 KiB; copy
// those that you keep longer than the page.
//
// Options: Limit, Cursor, Prefix, After, NoValues. Errors: ErrInvalid for a limit out of range, for
// a Prefix or After key of more than 4096 bytes, and for a cursor that is damaged or belongs to
// another listing.
func (s *Store) Page(ctx context.Context, opts ...ListOption) (Page[Item], error) {
	return s.PageInto(ctx, new(PageBuffer), opts...)
}

// All iterates over the entries of the namespace, in key order. Each pair is an item and nil, or a
// zero Item and an error, after which iteration ends; nothing runs before the first step, and break
// or a done ctx releases everything. It reads page by page. Each page is one consistent state of
// each shard, but the whole iteration is not.
//
// Options and errors are those of Page.
func (s *Store) All(ctx context.Context, opts ...ListOption) iter.Seq2[Item, error] {
	return engine.All(ctx, s.Page, opts)
}

// PageBuffer is reusable memory for PageInto. Its zero value is empty.
type PageBuffer struct {
	items []Item
	parts []*scanQuery // of the shards
}

// PageInto is Page with a reusable buffer. The page uses the memory of buf and is valid until the
// next call with buf. Its keys and values must not be used after that, but may be passed as options
// to that call.
func (s *Store) PageInto(ctx context.Context, buf *PageBuffer, opts ...ListOption) (Page[Item], error) {
	if buf == nil {
		return Page[Item]{}, engine.Errorf(ErrInvalid, "kv: no page buffer")
	}
	o := listOptions{Listing: engine.NewListing()}
	engine.Apply(&o, opts)
	if err := o.check(); err != nil {
		return Page[Item]{}, err
	}
	prefix, after := strings.Clone(o.Prefix), strings.Clone(o.after) // they may alias the page whose memory is reused
	if o.Cursor != "" {
		var err error
		if after, err = s.decodeCursor(prefix, o.Cursor); err != nil {
			return Page[Item]{}, err
		}
	}
	q := scanQuery{namespace: s.scope.Namespace(), prefix: prefix, after: after, limit: o.Limit, keysOnly: o.withoutValues}
	for {
		if err := s.fanOut(ctx, q, buf); err != nil {
			return Page[Item]{}, err
		}
		page, last := s.mergeParts(buf, o.Limit)
		if last == "" || len(page) > 0 {
			return Page[Item]{page, s.encodeCursor(prefix, last)}, nil
		}
		q.after = last // all of these keys have expired
	}
}

func (o *listOptions) check() error {
	if o.Err != nil {
		return o.Err
	}
	if len(o.after) > MaxKeyBytes {
		return engine.Errorf(ErrInvalid, "kv: after: key of %d bytes exceeds %d", len(o.after), MaxKeyBytes)
	}
	return engine.CheckPrefix(o.Prefix, MaxKeyBytes)
}

// pageChunk bounds the memory that a small key or value retains if it is kept longer than its page.
const pageChunk = 4 << 10

// fanOut queries all shards of the namespace concurrently for the parts of the page.
func (s *Store) fanOut(ctx context.Context, q scanQuery, buf *PageBuffer) error {
	shards, err := s.scope.Shards(ctx)
	if err != nil {
		return err
	}
	q.maxBytes = maxPageBytes / len(shards)
	q.mem.Chunk = pageChunk
	parts := slices.Grow(buf.parts, max(len(shards)-len(buf.parts), 0))[:len(shards)]
	buf.parts = parts
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

// mergeParts makes a page of the first limit items. If a shard has more items than it returned, the
// page ends at the last one it returned: its next item may precede those of other shards. The
// shards share the limit for values, so the page exceeds it by at most one value per shard. last is
// the start of the next page, "" on the last page.
func (s *Store) mergeParts(buf *PageBuffer, limit int) (items []Item, last string) {
	items = buf.items[:0]
	for _, part := range buf.parts {
		if len(buf.parts) == 1 {
			items = part.items
		} else {
			items = append(items, part.items...)
		}
		if part.more {
			if last == "" || part.last < last {
				last = part.last
			}
		}
	}
	if len(buf.parts) > 1 {
		buf.items = items
		slices.SortFunc(items, func(a, b Item) int { return cmp.Compare(a.Key, b.Key) })
	}
	if last != "" {
		n, found := slices.BinarySearchFunc(items, last, func(it Item, k string) int { return strings.Compare(it.Key, k) })
		if found {
			n++
		}
		items = items[:n]
	}
	if len(items) > limit {
		items, last = items[:limit], items[limit-1].Key
	}
	return items, last
}

// A cursor is base64url of: version u8 | CRC-32 (IEEE, big-endian) of namespace, prefix and key |
// key.
const cursorVersion = 1

func (s *Store) encodeCursor(prefix, k string) string {
	if k == "" {
		return ""
	}
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
	return "", engine.BadCursor(cursor)
}
