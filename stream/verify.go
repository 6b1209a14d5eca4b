package stream

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

var _ engine.Verifier = (*machine)(nil)

// Verify checks that all rows of the machine are consistent, and that its memory matches them. See
// the comments on rows for their contents.
func (m *machine) Verify(a *engine.Audit) error {
	v := &verifier{Audit: a, names: a.Names()}
	v.counted = make([]int64, len(v.names))
	for _, step := range []func() error{v.unknownRows, v.streams, v.orphans, v.timers, v.pushes, func() error { return v.memory(m) }} {
		if err := step(); err != nil {
			return err
		}
	}
	for ns, n := range v.counted {
		if counted, known := v.Counted(uint32(ns), countStreams); known && counted != n {
			v.Reportf("stream: namespace %s: its row counts %d streams, found %d", v.name(uint32(ns)), counted, n)
		}
	}
	return nil
}

// verifier scans the streams and the rows of each. It keeps the data of one stream and some of the
// gens in memory.
type verifier struct {
	*engine.Audit
	names   []string
	counted []int64 // streams by namespace
}

// each calls f for the rows whose keys have a prefix.
func (v *verifier) each(prefix []byte, f func(k, value []byte)) error {
	return v.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
		f(k, value)
		return nil
	})
}

func (v *verifier) name(ns uint32) string {
	if int(ns) >= len(v.names) || v.names[ns] == "" {
		return fmt.Sprint(ns)
	}
	return fmt.Sprintf("%q", v.names[ns])
}

// unknownRows reports rows of unknown kinds.
func (v *verifier) unknownRows() error {
	return v.UnknownRows("stream", string(slices.Sorted(slices.Values(append(append([]byte{rowStream}, genKinds[:]...), pushKinds[:]...)))))
}

// streams checks each stream.
func (v *verifier) streams() error {
	return v.Scan([]byte{rowStream}, []byte{rowStream + 1}, func(k, value []byte) error {
		if len(k) <= 5 {
			v.Reportf("stream: row %x has no name", k)
			return nil
		}
		s := &streamAudit{verifier: v, ns: binary.BigEndian.Uint32(k[1:]), name: string(k[5:])}
		var err error
		if s.header, err = decodeHeader(value); err != nil {
			s.problem("%v", err)
			return nil
		}
		s.row()
		if s.deleted() {
			return s.leftover()
		}
		for _, check := range []func() error{s.readPartitions, s.records, s.producers, s.timer, s.groups} {
			if err := check(); err != nil {
				return err
			}
		}
		return nil
	})
}

// timers checks that every timer has a reason. A producer's timer may be left from a deleted
// stream.
func (v *verifier) timers() error {
	return v.Timers(func(due int64, ns uint32, token []byte) error {
		switch {
		case len(token) > partAt && token[0] == tokenRetention:
			name := string(token[partAt:])
			b, ok, err := v.Get(streamKey(nil, ns, name))
			if err != nil {
				return err
			}
			h, err := decodeHeader(b)
			if !ok || err != nil || h.gen != binary.BigEndian.Uint64(token[1:]) || h.timer != due {
				v.Reportf("stream: namespace %s, stream %q: a timer at %d is not in its row", v.name(ns), name, due)
			}
		case len(token) > partAt && token[0] == tokenProducer:
			b, ok, err := v.Get(token)
			if err != nil || !ok {
				return err
			}
			if p, err := decodeProducer(b); err != nil || p.due != due {
				v.Reportf("stream: namespace %s: a timer at %d is not in the row of producer %q", v.name(ns), due, token[partAt:])
			}
		case len(token) > 0 && token[0] == tokenGroup:
			return v.groupTimer(due, ns, token)
		default:
			v.Reportf("stream: namespace %s: timer with unknown token %q", v.name(ns), token)
		}
		return nil
	})
}

// orphans reports rows whose gen belongs to no stream. It looks up the gens of many rows at once
// among those of the streams.
func (v *verifier) orphans() error {
	for _, kind := range genKinds {
		for from := []byte{kind}; from != nil; {
			gens := make(map[uint64]int) // of rows, with the number of streams that have it
			var err error
			if from, err = v.gens(kind, from, gens); err != nil {
				return err
			}
			err = v.Scan([]byte{rowStream}, []byte{rowStream + 1}, func(_, value []byte) error {
				if h, err := decodeHeader(value); err == nil && !h.deleted() {
					if n, ok := gens[h.gen]; ok {
						gens[h.gen] = n + 1
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			for _, gen := range slices.Sorted(maps.Keys(gens)) {
				if n := gens[gen]; n != 1 {
					v.Reportf("stream: rows %c of LSN %d belong to %d streams", kind, gen, n)
				}
			}
		}
	}
	return nil
}

// maxGens limits the gens in memory, about 40 bytes each.
const maxGens = 1 << 18

// gens adds the gens of the rows of a kind, starting at a key. It returns the key at which
// to continue, or nil at the end.
func (v *verifier) gens(kind byte, from []byte, gens map[uint64]int) ([]byte, error) {
	for len(gens) < maxGens {
		it, err := v.Iter(from, []byte{kind + 1})
		if err != nil {
			return nil, err
		}
		from = nil
		if it.First() {
			if k := it.Key(); len(k) < partAt {
				v.Reportf("stream: row %x is too short", k)
				from = append(bytes.Clone(k), 0)
			} else {
				gens[binary.BigEndian.Uint64(k[1:])] = 0
				from = key.PrefixEnd(k[:partAt])
			}
		}
		if err := it.Close(); err != nil || from == nil {
			return nil, err
		}
	}
	return from, nil
}
