package queue

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

var _ engine.Verifier = (*machine)(nil)

// Verify checks that all rows of the machine are consistent and that its memory matches them. See
// the comment on rows for their contents.
func (m *machine) Verify(a *engine.Audit) error {
	v := &verifier{
		Audit: a, m: m, names: a.Names(), queues: make(map[uint32]int64), ids: make(map[uint64]bool), gens: make(map[uint64]bool),
		remembered: maps.Collect(m.queues.All()),
	}
	for _, step := range []func() error{v.unknownRows, v.graves, v.all, v.orphans, v.timers, v.leased} {
		if err := step(); err != nil {
			return err
		}
	}
	for i := range v.names {
		ns := uint32(i)
		if n, known := v.Counted(ns, countQueues); known && n != v.queues[ns] {
			v.Reportf("queue: namespace %s: its row counts %d queues, there are %d", v.name(ns), n, v.queues[ns])
		}
	}
	return nil
}

// verifier walks over the queues one by one. It keeps a few numbers for each.
type verifier struct {
	*engine.Audit
	m      *machine
	names  []string
	queues map[uint32]int64 // by namespace
	ids    map[uint64]bool  // of queues; false for deleted ones that have dedup keys left
	gens   map[uint64]bool
	leases int64

	remembered map[uint64]*memory // by id
}

func (v *verifier) name(ns uint32) string {
	if int(ns) >= len(v.names) || v.names[ns] == "" {
		return fmt.Sprint(ns)
	}
	return fmt.Sprintf("%q", v.names[ns])
}

// unknownRows reports rows of unknown kind.
func (v *verifier) unknownRows() error { return v.UnknownRows("queue", "dgijklmnoqrxy") }

// graves records the deleted queues that have dedup keys left.
func (v *verifier) graves() error {
	return v.Scan([]byte{'g'}, []byte{'g' + 1}, func(k, value []byte) error {
		if len(k) != numberAt || len(value) > 0 {
			v.Reportf("queue: row %x is no deleted queue", k)
			return nil
		}
		id := binary.BigEndian.Uint64(k[1:])
		v.ids[id] = false
		keys := dedupKeys{verifier: v, id: id, who: fmt.Sprintf("deleted queue %d", id), next: 0}
		return keys.check()
	})
}

// all checks every queue.
func (v *verifier) all() error {
	return v.Scan([]byte{'q'}, []byte{'q' + 1}, func(k, value []byte) error {
		r, err := decodeRecord(value)
		if err != nil || len(k) <= nameAt {
			v.Reportf("queue: row %x: %v", k, err)
			return nil
		}
		ns, name := binary.BigEndian.Uint32(k[1:]), bytes.Clone(k[nameAt:])
		v.queues[ns]++
		q := &audited{verifier: v, record: r, ns: ns, name: name, memory: v.remembered[r.id]}
		if v.ids[r.id] || v.gens[r.gen] {
			q.problem("shares its id %d or generation %d with another", r.id, r.gen)
		}
		v.ids[r.id], v.gens[r.gen] = true, true
		v.leases += r.inflight
		return q.check()
	})
}

// orphans reports rows without a queue.
func (v *verifier) orphans() error {
	for _, kind := range []byte("dlmnorxykj") {
		lower, upper := []byte{kind}, []byte{kind + 1}
		for lower != nil {
			number, found, err := v.firstNumber(lower, upper)
			if err != nil {
				return err
			}
			if !found {
				break
			}
			live, known := v.ids[number]
			switch kind {
			case 'd', 'l', 'm', 'n', 'o', 'r':
				known = v.gens[number]
			case 'x', 'y':
				known = live
			}
			if !known {
				v.Reportf("queue: rows %q of %d, which is no queue", kind, number)
			}
			lower = key.PrefixEnd(numberKey(nil, kind, number))
		}
	}
	return nil
}

// firstNumber returns the id or gen of the first row, and reports rows that are too short to have
// one.
func (v *verifier) firstNumber(lower, upper []byte) (number uint64, found bool, err error) {
	it, err := v.Iter(lower, upper)
	if err != nil {
		return 0, false, err
	}
	for ok := it.First(); ok && !found; ok = it.Next() {
		k := it.Key()
		if found = len(k) >= numberAt; !found {
			v.Reportf("queue: row %x is too short", k)
			continue
		}
		number = binary.BigEndian.Uint64(k[1:])
	}
	return number, found, it.Close()
}

// timers checks that every timer has a reason. That each reason has a timer is checked elsewhere.
func (v *verifier) timers() error {
	return v.Timers(func(due int64, ns uint32, token []byte) error {
		switch {
		case len(token) > 1 && token[0] == tokenQueue:
			b, ok, err := v.Get(queueKey(nil, ns, token[1:]))
			if err != nil {
				return err
			}
			if r, err := decodeRecord(b); !ok || err != nil || r.timer != due {
				v.Reportf("queue: namespace %s, queue %q: has a timer at %d, its row says %d", v.name(ns), token[1:], due, r.timer)
			}
		case len(token) == numberAt && token[0] == tokenGrave:
			if live, known := v.ids[binary.BigEndian.Uint64(token[1:])]; live || !known {
				v.Reportf("queue: a timer for the keys of queue %x, which was not deleted", token[1:])
			}
		default:
			v.Reportf("queue: namespace %s: timer with unknown token %q", v.name(ns), token)
		}
		return nil
	})
}

// leased checks the count of all leases.
func (v *verifier) leased() error {
	for gen := range v.m.leases {
		if !v.gens[gen] {
			v.Reportf("queue: memory has leases of generation %d, which is no queue's", gen)
		}
	}
	if memory := v.m.inflight; memory != v.leases {
		v.Reportf("queue: %d messages are leased, memory counts %d", v.leases, memory)
	}
	if _, counted, err := v.Get([]byte{'i'}); err != nil || !counted && v.leases > 0 {
		v.Reportf("queue: %d messages are leased, no row counts them", v.leases)
		return err
	}
	return v.Scan([]byte{'i'}, []byte{'i' + 1}, func(k, value []byte) error {
		if n, err := decodeCount(value); err != nil || n != v.leases || len(k) != 1 {
			v.Reportf("queue: %d messages are leased, row %x counts %d (%v)", v.leases, k, n, err)
		}
		return nil
	})
}

// dedupKeys checks the dedup keys of a queue: each has two rows.
type dedupKeys struct {
	*verifier
	id   uint64
	who  string
	next int64 // no key expires before
}

func (d *dedupKeys) check() error {
	keys := 0
	prefix := numberKey(nil, 'k', d.id)
	err := d.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
		keys++
		_, until, err := decodeDedup(value)
		if err != nil || len(k) == numberAt || until < d.next {
			d.Reportf("queue: %s: dedup key %q until %d: %v", d.who, k[numberAt:], until, err)
			return nil
		}
		_, ok, err := d.Get(dedupEndKey(nil, d.id, until, k[numberAt:]))
		if err == nil && !ok {
			d.Reportf("queue: %s: dedup key %q would never be forgotten", d.who, k[numberAt:])
		}
		return err
	})
	if err != nil {
		return err
	}
	prefix = numberKey(nil, 'j', d.id)
	err = d.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
		keys--
		return nil
	})
	if err == nil && keys != 0 {
		d.Reportf("queue: %s: %d more dedup keys than ends of them", d.who, keys)
	}
	return err
}
