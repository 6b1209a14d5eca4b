package stream

import (
	"encoding/binary"

	"github.com/floedb/floe/internal/key"
)

// pushes checks the pushes, the index of their due times, and their unfinished batches.
func (v *verifier) pushes() error {
	due, ids := make(map[string]bool), make(map[uint64]bool)
	err := v.Scan([]byte{rowPush}, []byte{rowPush + 1}, func(k, value []byte) error {
		f, err := decodePush(value)
		if err != nil || len(k) < 5 {
			v.Reportf("stream: row %x: %v", k, err)
			return nil
		}
		name, subscriber, ok := key.CutString(k[5:])
		if !ok || string(name) != f.Stream || string(subscriber) != f.Subscriber.Key() {
			v.Reportf("stream: push %x is of stream %q, subscriber %q", k, f.Stream, f.Subscriber.Key())
			return nil
		}
		if f.due != never {
			due[string(pushDueKey(f.due, binary.BigEndian.Uint32(k[1:]), f.Stream, string(subscriber)))] = true
		}
		ids[f.id] = true
		return v.unfinishedBatches(&f)
	})
	if err != nil {
		return err
	}
	if err := v.pushesDue(due); err != nil {
		return err
	}
	unclaimed := 0
	err = v.each([]byte{rowPushEnd}, func(k, _ []byte) {
		if len(k) != 17 || !ids[binary.BigEndian.Uint64(k[1:])] {
			unclaimed++
		}
	})
	if unclaimed > 0 {
		v.Reportf("stream: %d unfinished batches belong to no push", unclaimed)
	}
	return err
}

// unfinishedBatches checks the numbers of batches that a push has.
func (v *verifier) unfinishedBatches(f *pushRow) error {
	if f.sent < 0 || f.active < 0 {
		v.Reportf("stream %q: a push has sent %d batches and waits for %d ends", f.Stream, f.sent, f.active)
	}
	n := int64(0)
	err := v.each(key.AppendUint64([]byte{rowPushEnd}, f.id), func(_, _ []byte) { n++ })
	if err == nil && n != f.active {
		v.Reportf("stream %q: a push counts %d unfinished batches, found %d", f.Stream, f.active, n)
	}
	return err
}

// pushesDue checks that the index has exactly the given keys.
func (v *verifier) pushesDue(due map[string]bool) error {
	found := 0
	err := v.each([]byte{rowPushDue}, func(k, _ []byte) {
		found++
		if !due[string(k)] {
			v.Reportf("stream: no push is due at %x", k)
		}
	})
	if err == nil && found != len(due) {
		v.Reportf("stream: %d pushes are due, the index has %d", len(due), found)
	}
	return err
}
