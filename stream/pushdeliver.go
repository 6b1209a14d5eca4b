package stream

import (
	"errors"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
)

// Limits of one command's delivery. The same command may contain the subscriber's work on a batch,
// which may write much.
const (
	maxBatches   = 32
	maxBatchSize = 4 << 20
)

// pushCommand is the body of kindPush: the pushes that the duty found due.
type pushCommand struct {
	pushes []pushRef
	most   uint64 // maximum number of batches
	bury   string // not "": a batch goes to the dead letters instead, for this reason
	batch  *named // the batch that is buried; nil in commands of earlier builds, which buried the next one
}

// pushRef names a push.
type pushRef struct{ stream, key string }

func (c *pushCommand) code(cd *codec.Coder) {
	codec.List(cd, &c.pushes, func(cd *codec.Coder, f *pushRef) {
		cd.String(&f.stream)
		cd.String(&f.key)
	})
	cd.Uvarint(&c.most)
	cd.String(&c.bury)
	if cd.More(c.batch != nil) {
		if cd.Reading() {
			c.batch = new(named)
		}
		c.batch.code(cd)
	}
}

// named identifies the batch that was refused, so that exactly this one is buried. Partitions take
// turns with every command, and records may have been appended since.
type named struct {
	gen         uint64 // of the stream
	partition   int
	first, last uint64
	count       int
}

func (n *named) code(c *codec.Coder) {
	c.Uvarint(&n.gen)
	c.Int(&n.partition)
	c.Uvarint(&n.first)
	c.Uvarint(&n.last)
	c.Int(&n.count)
}

// names returns the name of a batch.
func (b *batchClaim) named(st *stream) named {
	return named{st.gen, b.partition, b.offsets[0], b.offsets[len(b.offsets)-1], len(b.offsets)}
}

// room is how much more one command may deliver.
type room struct {
	batches int
	bytes   int
}

// deliverDue delivers the batches that are due. It returns ErrConflict if none is.
func (m *machine) deliverDue(tx *engine.Tx, body []byte) error {
	c, err := decodeBody(body, (*pushCommand).code)
	if err != nil {
		return err
	}
	r := room{batches: int(min(c.most, maxBatches)), bytes: maxBatchSize}
	done := false
	for _, at := range c.pushes {
		f := m.push(tx, at.stream, at.key)
		if f == nil || f.due > tx.Now() || r.batches == 0 || r.bytes <= 0 {
			continue
		}
		done = true
		if c.batch != nil {
			if err := f.buryNamed(&c); err != nil {
				return err
			}
		} else {
			f.deliverBatches(&r, c.bury)
		}
		f.save()
	}
	if !done {
		return engine.Errorf(ErrConflict, "overtaken: nothing is due")
	}
	return nil
}

// buryNamed sends the refused batch to the dead letters. It returns ErrConflict if the next batch
// of the partition is a different one.
func (f *pushing) buryNamed(c *pushCommand) error {
	st := f.m.present(f.tx, f.name)
	notNext := engine.Errorf(ErrConflict, "overtaken: the batch to be buried is not the next one")
	if st == nil || st.gen != c.batch.gen || c.batch.partition < 0 || c.batch.partition >= len(st.parts) ||
		f.suspended() || !here(f.tx, f.name, c.batch.partition) {
		return notNext
	}
	g := f.m.loadGroup(f.tx, st, f.Group)
	if g == nil {
		return notNext
	}
	f.m.touchGroup(f.tx, g)
	b := f.claimFrom(st, g, c.batch.partition, c.batch.last)
	f.m.flush(f.tx, g)
	if len(b.offsets) == 0 || b.named(st) != *c.batch {
		return notNext
	}
	f.deliver(st, b, c.bury)
	f.updateDue(true)
	return nil
}

// deliverBatches delivers batches while there is room, and sets the due time if there are more.
func (f *pushing) deliverBatches(r *room, bury string) {
	st := f.m.present(f.tx, f.name)
	stuck := false
	for st != nil && !f.suspended() && r.batches > 0 && r.bytes > 0 && !f.tx.Full() && !stuck {
		if f.updateDue(true); f.due > f.tx.Now() {
			break
		}
		if f.Most > 0 && len(f.credits) == 0 && bury == "" {
			if f.requestCredit(); len(f.credits) == 0 {
				break
			}
		}
		b, ok := f.claim(st)
		if stuck = !ok; ok {
			r.batches--
			r.bytes -= b.size
			n := b.named(st)
			f.m.tried.Store(&n)
			f.deliver(st, b, bury)
		}
	}
	f.updateDue(!stuck)
}

// batchClaim is a batch claimed from the group.
type batchClaim struct {
	partition int
	offsets   []uint64
	size      int
}

// claim claims a batch from a partition that has one.
func (f *pushing) claim(st *stream) (b batchClaim, ok bool) {
	g := f.m.loadGroup(f.tx, st, f.Group)
	if g == nil {
		return b, false
	}
	f.m.touchGroup(f.tx, g)
	defer f.m.flush(f.tx, g)
	for i := range g.parts {
		p := (i + int(f.tx.LSN()%engine.LSN(len(g.parts)))) % len(g.parts)
		if f.dueOf(st, g, p, true) > f.tx.Now() {
			continue
		}
		if b = f.claimFrom(st, g, p, math.MaxUint64); len(b.offsets) > 0 {
			return b, true
		}
	}
	return b, false
}

// claimFrom claims a batch of a partition, with no new records beyond the offset upTo.
func (f *pushing) claimFrom(st *stream, g *group, p int, upTo uint64) (b batchClaim) {
	b.partition = p
	part, cursor := &st.parts[p], &g.parts[p]
	if cursor.hasEarlier(g) {
		if b.offsets = f.claimReturned(st, g, p); len(b.offsets) > 0 || cursor.blocksNew(g) {
			return b
		}
	}
	if f.dueOf(st, g, p, false) > f.tx.Now() {
		return b
	}
	next := max(cursor.next, part.first)
	for o := next; o <= min(part.last, upTo) && (len(b.offsets) < int(f.Batch)); o++ {
		n := len(must(storedAt(getterOf(f.tx), st.gen, p, o)).message)
		if len(b.offsets) > 0 && b.size+n > protocol.MaxBatchBytes {
			break
		}
		b.offsets = append(b.offsets, o)
		b.size += n
	}
	cursor.next, cursor.changed = next+uint64(len(b.offsets)), true
	return b
}

// claimReturned claims a record of a partition that consumers of the group have returned, of any
// key.
func (f *pushing) claimReturned(st *stream, g *group, p int) []uint64 {
	g.owners = owners{of: make([]string, slots), until: never}
	d := delivery{
		m: f.m, tx: f.tx, st: st, g: g, c: &readGroupBody{limit: 1, noAck: true}, limit: 1, bytes: maxClaimBytes, claims: new(claims),
	}
	if g.mode == KeyShared {
		d.keyShared(p)
	} else {
		d.redeliver(p)
	}
	g.owners = owners{}
	if len(d.claims.claims) == 0 {
		return nil
	}
	return d.claims.claims[0].offsets
}

// deliver sends a batch to the subscriber, or, with a reason, to the dead letters.
func (f *pushing) deliver(st *stream, b batchClaim, bury string) {
	f.records += int64(len(b.offsets))
	if bury != "" {
		f.bury(st, &deliveryToken{partition: b.partition, offsets: b.offsets}, bury)
		return
	}
	t := deliveryToken{stream: f.name, key: f.key, id: f.id, gen: st.gen, partition: b.partition, offsets: b.offsets}
	if f.Most > 0 {
		t.credit, f.credits = f.credits[0], f.credits[1:]
	}
	t.to = toHere
	if f.Subscriber.Namespace != f.tx.NamespaceName() {
		t.to = toHome
		if f.Subscriber.Spread {
			t.to = toRoute
		}
	}
	f.sendBatch(st, &t)
}

// receiver is the shard that runs a subscriber's command.
type receiver uint8

const (
	toHere  receiver = iota // in the shard of the records
	toRoute                 // see protocol.Batch.Route
	toHome                  // of the subscriber
	receiverEnd
)

// sendBatch runs the subscriber's command.
func (f *pushing) sendBatch(st *stream, t *deliveryToken) {
	b := protocol.Batch{Name: f.Subscriber.Name, Namespace: f.tx.NamespaceName(), Stream: f.name, Partition: t.partition}
	for _, o := range t.offsets {
		s := must(storedAt(getterOf(f.tx), st.gen, t.partition, o))
		b.Records = append(b.Records, must(subscriberRecord(s)))
	}
	if t.credit != (credit{}) {
		end := f.token(t.credit)
		b.End = encodeBody(&end, (*protocol.BatchToken).Code)
	}
	cmd := engine.Command{Machine: f.Subscriber.Machine, Kind: f.Subscriber.Command, Body: encodeBody(&b, (*protocol.Batch).Code)}
	f.sent++
	token := encodeBody(t, (*deliveryToken).code)
	route := f.Subscriber.Name
	switch t.to {
	case toHere:
		f.tx.Ask(cmd, token)
		return
	case toRoute:
		route = b.Route()
	}
	cmd.Namespace, cmd.Spread = f.Subscriber.Namespace, f.Subscriber.Spread
	f.tx.Send(engine.Message{Command: cmd, Name: route, Lane: laneOfPush(f.name, f.key), Token: token, Reply: true})
}

// subscriberRecord returns a record in the form that subscribers receive.
func subscriberRecord(s stored) (protocol.BatchRecord, error) {
	r := codec.NewReader(s.message)
	rec := protocol.BatchRecord{Millis: s.id.Millis, Seq: s.id.Seq, Key: r.String()}
	for range readCount(&r, MaxHeaderBytes) {
		rec.Headers = append(rec.Headers, protocol.Header{Name: r.String(), Value: r.String()})
	}
	rec.Payload = r.Rest()
	return rec, r.Err()
}

// deliveryToken identifies the batch that a reply is about.
type deliveryToken struct {
	stream    string
	key       string // of the subscriber
	id        uint64 // of the push
	gen       uint64 // of the stream
	partition int
	offsets   []uint64
	credit    credit
	to        receiver
}

func (t *deliveryToken) code(c *codec.Coder) {
	c.String(&t.stream)
	c.String(&t.key)
	c.Uvarint(&t.id)
	c.Uvarint(&t.gen)
	c.Int(&t.partition)
	codec.List(c, &t.offsets, (*codec.Coder).Uvarint)
	c.Uvarint(&t.credit.id)
	c.Uvarint(&t.credit.number)
	if c.Byte((*byte)(&t.to)); t.to >= receiverEnd {
		c.Fail("receiver out of range")
	}
}

// OnReply handles the reply to a batch. Other messages about streams, and dead letters, can only be
// refused temporarily, or because the namespace has been deleted.
func (m *machine) OnReply(tx *engine.Tx, r engine.Reply) {
	if len(r.Token) == 0 {
		return
	}
	t := must(decodeBody(r.Token, (*deliveryToken).code))
	f := m.push(tx, t.stream, t.key)
	if f == nil || f.id != t.id {
		return // the subscription has been removed
	}
	st := m.present(tx, t.stream)
	if st != nil && st.gen != t.gen {
		st = nil
	}
	f.sent--
	elsewhere := t.to == toRoute || t.to == toHere && tx.Spread() && !tx.Here(f.Subscriber.Name)
	switch {
	case r.Err == nil:
		f.accepted(st, &t, must(decodeBody(r.Result, (*protocol.BatchResult).Code)))
	case elsewhere && errors.Is(r.Err, ErrNotFound) && st != nil:
		t.to = toHome // that shard may not have the subscriber yet
		f.resend(st, &t)
	default:
		f.bury(st, &t, r.Err.Error())
	}
	f.refresh()
}

// accepted counts a batch that the subscriber accepted. If it already had some of the records, the
// others go to the shard that can check whether they were accepted before.
func (f *pushing) accepted(st *stream, t *deliveryToken, r protocol.BatchResult) {
	switch {
	case r.Had > 0 && st != nil:
		t.to, t.offsets = toRoute, t.offsets[min(r.Had, len(t.offsets)):]
		f.resend(st, t)
	case !r.Repeated && r.Had == 0:
		f.delivered++
	default:
		f.repeated++
		f.endBatch(t.credit)
	}
}

// resend sends records to another receiver, without those trimmed since.
func (f *pushing) resend(st *stream, t *deliveryToken) {
	first := st.parts[t.partition].first
	if t.offsets = slices.DeleteFunc(t.offsets, func(o uint64) bool { return o < first }); len(t.offsets) == 0 {
		f.endBatch(t.credit)
		return
	}
	f.sendBatch(st, t)
}

// maxNote limits the stored reason of a refused batch, in bytes.
const maxNote = 1024

// bury appends the records of a refused batch to the dead letters, without those trimmed since.
func (f *pushing) bury(st *stream, t *deliveryToken, reason string) {
	f.refused++
	f.note = engine.Cut(reason, maxNote)
	f.endBatch(t.credit)
	if st == nil {
		return
	}
	g := &group{groupName: groupName{st.streamName, f.Group}}
	for _, o := range t.offsets {
		f.m.bury(f.tx, st, g, t.partition, o, 1, f.note)
	}
}

// laneOfPush returns the lane of batches that are sent to a subscriber.
func laneOfPush(stream, subscriber string) uint64 {
	return xxhash.Sum64(append(key.AppendString(nil, []byte(stream)), subscriber...))
}
