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
	if w, ok := decodePlain(b); ok {
		return w, nil
	}
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

// decodePlain is decodeRow for versions that do not expire and are in order, which is most. It is several times as fast.
func decodePlain(b []byte) (w row, ok bool) {
	var fields plainFields
	at := fields.decode(b)
	if at == 0 {
		return w, false
	}
	return row{
		flags: b[1], revision: fields[0], version: fields[1], previous: fields[2], term: fields[3], updatedAt: fields.updatedAt(), value: b[at:],
	}, true
}

// plainEntry returns the entry of a row that needs neither the shard's time, for an expiry, nor words for being gone. Its value is
// appended to buf[:0].
func plainEntry(k string, b, buf []byte) (e Entry, ok bool) {
	var fields plainFields
	at := fields.decode(b)
	if at == 0 || b[1] != 0 {
		return e, false
	}
	return Entry{
		Key: k, Value: append(buf[:0], b[at:]...), Revision: fields[0], Version: fields[1], UpdatedAt: time.UnixMilli(fields.updatedAt()),
	}, true
}

// plainFields are revision, version, previous, term and time of a version that does not expire.
type plainFields [5]uint64

// decode returns where the value begins, 0 if the version expires or is not in order.
func (f *plainFields) decode(b []byte) int {
	if len(b) < 2 || b[0] != 1 || b[1]&flagExpires != 0 {
		return 0
	}
	at := 2
	for i := range f {
		v, n := binary.Uvarint(b[at:])
		if n <= 0 || n > 1 && b[at+n-1] == 0 {
			return 0
		}
		f[i], at = v, at+n
	}
	return at
}

func (f *plainFields) updatedAt() int64 { return int64(f[4]>>1) ^ -int64(f[4]&1) }

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
