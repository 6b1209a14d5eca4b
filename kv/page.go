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

// Item is an entry of a listing. Value is nil with NoValues; Size is its length all the same.
type Item struct {
	Entry
	Size int
}

// Page is a part of a listing, in its order, the same type in all packages of floe.
type Page[T any] = struct {
	Items  []T
	Cursor string // where the next page begins, for the option Cursor; "" if this is the last one
}

// ListOption says what Page and All list.
type ListOption interface{ keyOption }

// PageOption is an option of every listing of floe: Limit or Cursor.
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

// Limit sets how many items a page holds at most, 1 to 1000; the default is 100. All reads pages of
// this size.
func Limit(n int) PageOption { return engine.Limit(n) }

// Cursor continues a listing of the same namespace and Prefix behind an earlier page, with its
// Cursor. What has come or gone meanwhile shows or not, depending on where it is; all else is
// neither skipped nor repeated.
func Cursor(c string) PageOption { return engine.Cursor(c) }

// Prefix lists only what begins with p.
func Prefix(p string) ListOption { return engine.Prefix(p) }

// After begins behind a key, which need not exist. A Cursor goes before it.
func After(key string) ListOption {
	return struct {
		filter
		ofKeys
	}{filter: engine.FilterOf(func(o *listOptions) { o.after = key })}
}

// ValuesOption is the option of NoValues; the listings of keys and of versions take it.
type ValuesOption struct {
	filter
	ofKeys
	ofVersions
}

// NoValues leaves the values out, but not their Size.
func NoValues() ValuesOption { return noValues }

var noValues = ValuesOption{filter: engine.FilterOf(func(o *listOptions) { o.withoutValues = true })}

// Page returns a page of the entries of the namespace, in order of their keys, over all shards. A
// page ends early when its values exceed 4 MiB, those that are left out 16 MiB; what it shows is
// one consistent state of each shard. Small keys and values share memory, up to 4 KiB of it: copy a
// few that are kept when the page is not.
//
// Options: Limit, Cursor, Prefix, After, NoValues. Errors: ErrInvalid for a limit out of range, for
// a prefix or a key of After of more than 4096 bytes, and for a cursor that is damaged or not of
// this listing.
func (s *Store) Page(ctx context.Context, opts ...ListOption) (Page[Item], error) {
	return s.PageInto(ctx, new(PageBuffer), opts...)
}

// All iterates over the entries of the namespace, in order of their keys. Each pair is an item and
// nil, or a zero Item and an error, after which iteration ends; nothing runs before the first step,
// and break or a done ctx releases everything. It reads page by page: each page is one consistent
// state of each shard, the whole is not.
//
// Options and errors are those of Page.
func (s *Store) All(ctx context.Context, opts ...ListOption) iter.Seq2[Item, error] {
	return engine.All(ctx, s.Page, opts)
}

// PageBuffer is memory for PageInto. Its zero value is an empty one.
type PageBuffer struct {
	items []Item
	parts []*scanQuery // of the shards
}

// PageInto is Page for who reads often: the page is in the memory of buf, where it stays until the
// next call with it. Then nothing of it, no key and no value, may be used any more; but the options
// of that call may be made of it.
func (s *Store) PageInto(ctx context.Context, buf *PageBuffer, opts ...ListOption) (Page[Item], error) {
	if buf == nil {
		return Page[Item]{}, engine.Errorf(ErrInvalid, "kv: no page buffer")
	}
	o := listOptions{Listing: engine.NewListing()}
	engine.Apply(&o, opts)
	if err := o.check(); err != nil {
		return Page[Item]{}, err
	}
	prefix, after := strings.Clone(o.Prefix), strings.Clone(o.after) // they may be of the page whose memory is used again
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
		q.after = last // so many keys in a row have expired
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

// pageChunk bounds the memory that a small key or value keeps when it is kept and its page is not.
const pageChunk = 4 << 10

// fanOut asks all shards of the namespace at once, for the parts of the page.
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

// mergeParts makes a page of the first limit items. A shard that has more than it returned ends the
// page where it has come to: what others have behind it may come after items that were not
// returned. The shards share the bound for values, so the page exceeds it by at most one value of
// each. last is where the next page begins, "" if there is none.
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
