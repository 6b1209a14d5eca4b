package kv

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// The rows of the machine. ns is the namespace's number (u32), all integers in keys big-endian:
//
//	'c' | ns | key                     the current version of a key, which may be a tombstone
//	'h' | ns | key 00 01 | ^version    an earlier version, newest first
//	'd' | ns | revision                a tombstone, in order of deletion -> deleted at (varint ms) | key
//	'q' | ns                           a timer is set that will forget tombstones -> nothing
//	'w' | ns                           highest revision of any forgotten tombstone (uvarint)
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

// keyAt is the offset of the key in a row's key, after its kind and namespace.
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
	encoded   []byte // as read by Apply
}

func (w *row) exists() bool    { return w.version > 0 }
func (w *row) tombstone() bool { return w.flags&flagTombstone != 0 }

// lives reports whether the key has a value, for a query.
func (w *row) lives(v *engine.View) bool {
	return w.exists() && !w.tombstone() && (w.flags&flagExpires == 0 || !v.Passed(w.expiresAt))
}

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
	err = w.decode(b)
	return w, err
}

// decode is decodeRow in place. Every read calls it, and most spend much of their time in it, so it
// does not use a codec.Reader.
func (w *row) decode(b []byte) error {
	if len(b) < 2 || b[0] != 1 {
		return fmt.Errorf("kv row: %w: no layout that is known: %x", codec.ErrCorrupt, b[:min(len(b), 2)])
	}
	w.flags = b[1]
	var fields [6]uint64
	n := len(fields)
	if w.flags&flagExpires == 0 {
		n--
	}
	at := 2
	for i := range fields[:n] {
		if at < len(b) && b[at] < 0x80 {
			fields[i] = uint64(b[at])
			at++
			continue
		}
		v, size := binary.Uvarint(b[at:])
		if size <= 0 || b[at+size-1] == 0 {
			return fmt.Errorf("kv row: %w: integer %d", codec.ErrCorrupt, i)
		}
		fields[i], at = v, at+size
	}
	w.revision, w.version, w.previous, w.term = fields[0], fields[1], fields[2], fields[3]
	w.updatedAt, w.expiresAt = unzigzag(fields[4]), unzigzag(fields[5])
	w.value = b[at:]
	return nil
}

// unzigzag decodes an integer that codec.AppendVarint has encoded as u.
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

func (w *row) entry(k string) (e Entry) {
	w.fill(&e, k)
	return e
}

// fill sets *e to the entry of the row in place: copying an Entry takes longer than reading a row.
func (w *row) fill(e *Entry, k string) {
	*e = Entry{Key: k, Value: w.value, Revision: w.revision, Version: w.version, UpdatedAt: time.UnixMilli(w.updatedAt)}
	if w.flags&flagExpires != 0 {
		e.ExpiresAt = time.UnixMilli(w.expiresAt)
	}
}

// plainEntry returns the entry of a row that is not a tombstone and has no expiry, so the shard's
// time is not needed. Its value is appended to buf[:0].
func plainEntry(k string, b, buf []byte) (e Entry, ok bool) {
	var w row
	if err := w.decode(b); err != nil || w.flags != 0 {
		return e, false
	}
	w.value = append(buf[:0], w.value...)
	w.fill(&e, k)
	return e, true
}

func currentKey(dst []byte, ns uint32, k []byte) []byte {
	return append(key.AppendUint32(append(dst, 'c'), ns), k...)
}

// historyPrefix is the common prefix of all earlier versions of a key.
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
