package stream

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// In a KeyShared group every key has an owner, one of the members that are present. The key's hash
// falls into one of 256 slots. Slots are assigned by rendezvous hashing, so only the slots of a
// member move when it joins or leaves. A key is busy from the delivery of a record until it is
// acknowledged, and while a record waits for redelivery. Later records of the key are held
// meanwhile. So the pending records of a key are always one contiguous range of its records, in
// order, with one consumer.
//
// A scan of new records continues past those that cannot be delivered, which are held as rows. So
// neither a slow key nor a slow owner blocks later records, and only busy keys are in memory. The
// first held record of a free key is found by its slot. A record without a key counts as a key of
// its own.
const slots = 256

// maxScan limits the number of records that one ReadGroup scans.
const maxScan = 1000

// busyKey is a key with pending records.
type busyKey struct {
	out    []uint64 // offsets with a consumer, in order
	failed []uint64 // offsets waiting for redelivery, in order
	head   uint64   // offset, see group.recount; 0: none
}

// first returns the first pending record of a key that has records with a consumer.
func (k *busyKey) first() uint64 {
	if len(k.failed) > 0 && k.failed[0] < k.out[0] {
		return k.failed[0]
	}
	return k.out[0]
}

// freeSlot bounds a scan of a slot's free keys. The first held record of each of them is at from or
// later. If empty is set, the slot has no free keys.
type freeSlot struct {
	from  uint64
	empty bool
}

// owners maps slots to their owners.
type owners struct {
	of    []string // by slot; nil: not computed yet
	until int64    // when the next member becomes silent
}

// busy returns the busy key with a hash, which it adds if it is missing.
func (p *groupPart) busy(hash uint64) *busyKey {
	k := p.keys[hash]
	if k == nil {
		if p.keys == nil {
			p.keys = make(map[uint64]*busyKey)
		}
		k = new(busyKey)
		p.keys[hash] = k
	}
	return k
}

// dropIdle removes a key that is no longer busy. The set of keys must depend only on the rows of
// their records, because reloaded memory must have the same keys.
func (p *groupPart) dropIdle(hash uint64) {
	if k := p.keys[hash]; k != nil && len(k.out) == 0 && len(k.failed) == 0 {
		delete(p.keys, hash)
	}
}

// insertKey inserts the hash of a key at the position where its offset was inserted.
func insertKey(keys, offsets []uint64, offset, hash uint64) []uint64 {
	at, _ := slices.BinarySearch(offsets, offset)
	return slices.Insert(keys, at, hash)
}

// owner returns the owner of a slot, "" if no member is present.
func (g *group) owner(now int64, slot int) string {
	if g.owners.of == nil || now >= g.owners.until {
		g.findOwners(now)
	}
	return g.owners.of[slot]
}

func (g *group) findOwners(now int64) {
	g.owners = g.ownersOf(g.members, now)
}

// ownersOf assigns the slots to the members that are present at a time.
func (g *groupHeader) ownersOf(members map[string]member, now int64) owners {
	all := owners{of: make([]string, slots), until: now + 1<<40}
	var best [slots]uint64
	for name, mem := range members {
		if !mem.there() || mem.silent(g, now) {
			continue
		}
		if !mem.attended {
			all.until = min(all.until, mem.silentAt(g))
		}
		seed := xxhash.Sum64String(name)
		for slot := range best {
			score := mix(seed + uint64(slot))
			if o := all.of[slot]; o == "" || score > best[slot] || score == best[slot] && name < o {
				best[slot], all.of[slot] = score, name
			}
		}
	}
	return all
}

// mix spreads the bits of a number (the finalizer of splitmix64, Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func slotOf(hash uint64) int { return int(hash >> 56) }

// keyHash returns the hash of a record's key, or of its offset if it has no key.
func keyHash(message []byte, offset uint64) uint64 {
	r := codec.NewReader(message)
	if k := r.Bytes(); len(k) > 0 {
		return mix(xxhash.Sum64(k))
	}
	return mix(offset)
}

func heldPrefix(gen, id uint64, partition int, hash uint64) []byte {
	return key.AppendUint64(partPrefix(nil, rowHeld, gen, id, partition), hash)
}

func heldKey(gen, id uint64, partition int, hash, offset uint64) []byte {
	return key.AppendUint64(heldPrefix(gen, id, partition, hash), offset)
}

func heldCountKey(gen, id uint64, partition int, hash uint64) []byte {
	return key.AppendUint64(partPrefix(nil, rowKey, gen, id, partition), hash)
}

func freeKey(gen, id uint64, partition, slot int, offset uint64) []byte {
	return key.AppendUint64(append(partPrefix(nil, rowFree, gen, id, partition), byte(slot)), offset)
}

// heldKeyCount is the row 'k' of a key.
type heldKeyCount struct{ n, first uint64 }

func decodeHeldCount(b []byte) (h heldKeyCount, err error) {
	r := codec.NewReader(b)
	h.n, h.first = r.Uvarint(), r.Uvarint()
	return h, r.Done()
}

func (m *machine) heldCount(tx *engine.Tx, g *group, partition int, hash uint64) heldKeyCount {
	if g.parts[partition].held == 0 {
		return heldKeyCount{}
	}
	b, ok := tx.Get(heldCountKey(g.gen, g.id, partition, hash))
	if !ok {
		return heldKeyCount{}
	}
	return must(decodeHeldCount(b))
}

func (m *machine) setHeldCount(tx *engine.Tx, g *group, partition int, hash uint64, h heldKeyCount) {
	k := heldCountKey(g.gen, g.id, partition, hash)
	if h.n == 0 {
		tx.Delete(k)
		return
	}
	tx.Set(k, codec.AppendUvarint(codec.AppendUvarint(nil, h.n), h.first))
}

// freed is called when a record of a key is done or no longer with a consumer.
func (m *machine) freed(tx *engine.Tx, g *group, partition int, hash uint64) {
	if g.mode != KeyShared {
		return
	}
	if k := g.parts[partition].keys[hash]; k != nil {
		if k.head != 0 {
			m.readyFor(tx, g, slotOf(hash), 1)
		}
		return
	}
	if h := m.heldCount(tx, g, partition, hash); h.n > 0 {
		m.addFree(tx, g, partition, hash, h.first)
		m.readyFor(tx, g, slotOf(hash), 1)
	}
}

// addFree adds the row of a free key whose first held record is at offset.
func (m *machine) addFree(tx *engine.Tx, g *group, partition int, hash, offset uint64) {
	slot := slotOf(hash)
	tx.Set(freeKey(g.gen, g.id, partition, slot, offset), key.AppendUint64(nil, hash))
	if s := &g.parts[partition].free[slot]; s.empty {
		*s = freeSlot{from: offset}
	} else {
		s.from = min(s.from, offset)
	}
}

// readyFor notifies the owner of a slot of n records or keys.
func (m *machine) readyFor(tx *engine.Tx, g *group, slot, n int) {
	if o := g.owner(tx.Now(), slot); o != "" {
		tx.Notify(consumerTopic(tx.NamespaceName(), g.name, g.group, o), n)
	}
}

// keyShared delivers records of a partition of a KeyShared group.
func (d *delivery) keyShared(p int) {
	d.mine = make(map[uint64]bool)
	d.redeliverKeys(p)
	if part := &d.g.parts[p]; part.held > 0 {
		for i := range slots {
			slot := (i + int(d.tx.LSN()%slots)) % slots
			if d.limit > 0 && d.g.owner(d.tx.Now(), slot) == d.c.consumer {
				d.claimFree(p, slot)
			}
		}
	}
	if d.limit > 0 {
		d.scan(p)
	}
}

// redeliverKeys delivers the records of a partition that are due for redelivery: the heads of the
// consumer's slots, and the records after them.
func (d *delivery) redeliverKeys(p int) {
	part := &d.g.parts[p]
	var claimed []*failure
	full := false
	for i := 0; i < len(part.heads) && !full; i++ {
		slot := (i + int(d.tx.LSN()%slots)) % slots
		if len(part.heads[slot]) == 0 || d.g.owner(d.tx.Now(), slot) != d.c.consumer {
			continue
		}
		// When a head is taken, the next record of its key becomes a head.
		for len(part.heads[slot]) > 0 && !full {
			if full = len(claimed) >= d.limit || d.bytes <= 0 || d.stopped(); full {
				break
			}
			d.tx.Worked(1)
			f := part.failed[part.heads[slot][0]]
			if f.offset < d.st.parts[p].first {
				d.m.unfail(d.tx, d.g, p, f)
				d.m.freed(d.tx, d.g, p, f.hash)
				continue
			}
			if full = !d.fits(p, f.offset); full {
				break
			}
			d.m.unfail(d.tx, d.g, p, f)
			d.mine[f.hash] = true
			claimed = append(claimed, f)
		}
	}
	slices.SortFunc(claimed, func(a, b *failure) int { return cmp.Compare(a.offset, b.offset) })
	d.giveAgain(p, claimed)
}

func (d *delivery) owns(hash uint64) bool {
	return d.g.owner(d.tx.Now(), slotOf(hash)) == d.c.consumer
}

// claimFree claims held records of the free keys of a slot.
func (d *delivery) claimFree(p, slot int) {
	s := &d.g.parts[p].free[slot]
	if s.empty {
		return
	}
	it := d.tx.Iter(freeKey(d.g.gen, d.g.id, p, slot, s.from),
		key.PrefixEnd(append(partPrefix(nil, rowFree, d.g.gen, d.g.id, p), byte(slot))))
	var left []heldLeft
	ok := it.First()
	for ; ok; ok = it.Next() {
		offset := binary.BigEndian.Uint64(it.Key()[behindPart+1:])
		if s.from = offset; d.limit == 0 || d.bytes <= 0 || d.crowded(0) || d.stopped() {
			break
		}
		s.from++
		d.tx.Delete(freeKey(d.g.gen, d.g.id, p, slot, offset))
		hash := binary.BigEndian.Uint64(it.Value())
		if first, free := d.claimHeld(p, hash); free {
			left = append(left, heldLeft{hash, first})
		}
	}
	if !ok {
		s.empty = true
	}
	if err := it.Close(); err != nil {
		panic(err)
	}
	for _, h := range left {
		d.m.addFree(d.tx, d.g, p, h.hash, h.first)
	}
}

// heldLeft is a key that stays free, and its first held record.
type heldLeft struct{ hash, first uint64 }

// stopped reports whether the rest must wait for another command, and then sets more.
func (d *delivery) stopped() bool {
	full := d.tx.Full()
	d.claims.more = d.claims.more || full
	return full
}

// claimHeld claims held records of a key. It reports whether the key stays free with more held
// records, and returns the first of them. That happens if the records found were trimmed, or need
// no acknowledgement.
func (d *delivery) claimHeld(p int, hash uint64) (first uint64, free bool) {
	g, part := d.g, &d.g.parts[p]
	h := d.m.heldCount(d.tx, g, p, hash)
	it := d.tx.Iter(heldKey(g.gen, g.id, p, hash, h.first), key.PrefixEnd(heldPrefix(g.gen, g.id, p, hash)))
	var offsets, keys []uint64
	for ok := it.First(); ok; ok = it.Next() {
		o := binary.BigEndian.Uint64(it.Key()[behindPart+8:])
		if h.first = o; len(offsets) >= d.limit || len(offsets) == 0 && d.stopped() || o >= d.st.parts[p].first && !d.fits(p, o) {
			break
		}
		d.tx.Delete(heldKey(g.gen, g.id, p, hash, o))
		h.n--
		part.held--
		part.changed = true
		if o >= d.st.parts[p].first {
			offsets, keys = append(offsets, o), append(keys, hash)
		}
	}
	if err := it.Close(); err != nil {
		panic(err)
	}
	d.m.setHeldCount(d.tx, g, p, hash, h)
	if len(offsets) > 0 {
		d.mine[hash] = true
		d.give(p, 1, 0, offsets, keys)
	}
	return h.first, h.n > 0 && (len(offsets) == 0 || d.c.noAck)
}

// crowded reports whether more additional records would reach the limit MaxPending.
func (d *delivery) crowded(more int) bool {
	crowded := !d.c.noAck && d.g.pending+more >= MaxPending
	d.full = d.full || crowded
	return crowded
}

// scan reads new records and delivers or holds them.
func (d *delivery) scan(p int) {
	part, cursor := &d.st.parts[p], &d.g.parts[p]
	next := max(cursor.next, part.first)
	if next > part.last {
		return
	}
	var offsets, keys []uint64
	woken := make(map[string]bool)
	it := d.tx.Iter(recordKey(nil, d.st.gen, p, next), recordKey(nil, d.st.gen, p, min(part.last+1, next+maxScan)))
	ok := it.First()
	for ; ok && !d.stopped(); ok = it.Next() {
		s := must(decodeStored(it.Value()))
		hash := keyHash(s.message, next)
		h := d.m.heldCount(d.tx, d.g, p, hash)
		switch {
		case h.n > 0 || d.blocked(cursor.keys[hash], hash):
			d.hold(p, hash, next, h)
		case d.owns(hash):
			if len(offsets) >= d.limit || d.crowded(len(offsets)) || !d.fit(len(s.message)) {
				ok = false
			} else {
				d.mine[hash] = true
				offsets, keys = append(offsets, next), append(keys, hash)
			}
		default:
			d.hold(p, hash, next, h)
			d.m.addFree(d.tx, d.g, p, hash, next)
			if o := d.g.owner(d.tx.Now(), slotOf(hash)); o != "" && !woken[o] {
				woken[o] = true
				d.m.readyFor(d.tx, d.g, slotOf(hash), 1)
			}
		}
		if !ok {
			break
		}
		next++
	}
	if err := it.Close(); err != nil {
		panic(err)
	}
	d.claims.more = d.claims.more || len(offsets) < d.limit && next <= part.last
	cursor.next, cursor.changed = next, true
	if len(offsets) > 0 {
		d.give(p, 1, 0, offsets, keys)
	}
}

// blocked reports whether no record of a key may be delivered now: an earlier one waits for
// redelivery, or was delivered by another command.
func (d *delivery) blocked(k *busyKey, hash uint64) bool {
	return k != nil && (len(k.failed) > 0 || !d.mine[hash])
}

// hold stores a record that cannot be delivered yet.
func (d *delivery) hold(p int, hash, offset uint64, h heldKeyCount) {
	d.tx.Set(heldKey(d.g.gen, d.g.id, p, hash, offset), nil)
	if h.n == 0 {
		h.first = offset
	}
	h.n++
	d.m.setHeldCount(d.tx, d.g, p, hash, h)
	d.g.parts[p].held++
	d.g.parts[p].changed = true
}
