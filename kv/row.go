package kv

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/key"
)

// The rows of the machine. ns is the namespace's number (u32), all integers in keys big-endian:
//
//	'c' | ns | key                     the present version of a key, which may be a tombstone
//	'h' | ns | key 00 01 | ^version    an earlier version, newest first
//	'd' | ns | revision                a tombstone, in order of deletion -> deleted at (varint ms) | key
//	'q' | ns                           there is a timer that will forget tombstones -> nothing
//	'w' | ns                           highest revision of any tombstone that was forgotten (uvarint)
//
// A version (rows 'c' and 'h') is
//
//	1 u8 | flags u8 | revision | version | revision of the version before | term (uvarints) | updated at (varint ms) |
//	expires at (varint ms, if flagged) | value
const (
	flagTombstone = 1 << iota
	flagExpires
	flagExpired // with flagTombstone: removed because it expired
)

// keyAt is where the key begins in a row's, behind its kind and namespace.
const keyAt = 5

type row struct {
	flags     uint8
	revision  uint64
	version   uint64 // 0: the key has no row
	previous  uint64
	term      uint64
	updatedAt int64
	expiresAt int64
	value     []byte
}

func (w *row) exists() bool    { return w.version > 0 }
func (w *row) tombstone() bool { return w.flags&flagTombstone != 0 }

// live reports whether the key has a value at the given time.
func (w *row) live(now int64) bool { return w.exists() && !w.tombstone() && !w.expiredAt(now) }

func (w *row) expiredAt(now int64) bool { return w.flags&flagExpires != 0 && w.expiresAt <= now }

func (w *row) written() Written { return Written{Revision: w.revision, Version: w.version} }

func (w *row) encode(dst []byte) []byte {
	dst = append(dst, 1, w.flags)
	dst = codec.AppendUvarint(dst, w.revision)
	dst = codec.AppendUvarint(dst, w.version)
	dst = codec.AppendUvarint(dst, w.previous)
	dst = codec.AppendUvarint(dst, w.term)
	dst = codec.AppendVarint(dst, w.updatedAt)
	if w.flags&flagExpires != 0 {
		dst = codec.AppendVarint(dst, w.expiresAt)
	}
	return append(dst, w.value...)
}

// decodeRow reads a version; its value aliases b.
func decodeRow(b []byte) (w row, err error) {
	r := codec.NewReader(b)
	if v := r.Byte(); v != 1 {
		return w, fmt.Errorf("kv row: %w: layout %d", codec.ErrCorrupt, v)
	}
	w.flags = r.Byte()
	w.revision, w.version, w.previous, w.term = r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint()
	w.updatedAt = r.Varint()
	if w.flags&flagExpires != 0 {
		w.expiresAt = r.Varint()
	}
	w.value = r.Rest()
	if err := r.Err(); err != nil {
		return w, fmt.Errorf("kv row: %w", err)
	}
	return w, nil
}

func (w *row) entry(k string) Entry {
	e := Entry{Key: k, Value: w.value, Revision: w.revision, Version: w.version, UpdatedAt: time.UnixMilli(w.updatedAt)}
	if w.flags&flagExpires != 0 {
		e.ExpiresAt = time.UnixMilli(w.expiresAt)
	}
	return e
}

// plainEntry returns the entry of a row that needs neither the shard's time, for an expiry, nor words for being gone. Its value is
// appended to buf[:0]. It does in one go, and quickly, what decodeRow and entry do.
func plainEntry(k string, b, buf []byte) (e Entry, ok bool) {
	if len(b) < 2 || b[0] != 1 || b[1] != 0 {
		return e, false
	}
	var fields [5]uint64 // revision, version, previous, term, updated at
	at := 2
	for i := range fields {
		v, n := binary.Uvarint(b[at:])
		if n <= 0 {
			return e, false
		}
		fields[i], at = v, at+n
	}
	updated := int64(fields[4]>>1) ^ -int64(fields[4]&1)
	return Entry{
		Key: k, Value: append(buf[:0], b[at:]...), Revision: fields[0], Version: fields[1], UpdatedAt: time.UnixMilli(updated),
	}, true
}

func currentKey(dst []byte, ns uint32, k []byte) []byte {
	return append(key.AppendUint32(append(dst, 'c'), ns), k...)
}

// historyPrefix is what all earlier versions of a key begin with.
func historyPrefix(dst []byte, ns uint32, k []byte) []byte {
	return key.AppendString(key.AppendUint32(append(dst, 'h'), ns), k)
}

func historyKey(dst []byte, ns uint32, k []byte, version uint64) []byte {
	return key.AppendUint64(historyPrefix(dst, ns, k), ^version)
}

func deadPrefix(dst []byte, ns uint32) []byte { return key.AppendUint32(append(dst, 'd'), ns) }

func deadKey(dst []byte, ns uint32, revision uint64) []byte {
	return key.AppendUint64(deadPrefix(dst, ns), revision)
}

func forgetTimerKey(dst []byte, ns uint32) []byte { return key.AppendUint32(append(dst, 'q'), ns) }

func forgottenKey(dst []byte, ns uint32) []byte { return key.AppendUint32(append(dst, 'w'), ns) }
