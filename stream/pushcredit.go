package stream

import (
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// creditCommand is the body of kindWant and kindGrant.
type creditCommand struct {
	token protocol.BatchToken
	shard uint64
}

func (v *creditCommand) code(c *codec.Coder) {
	v.token.Code(c)
	c.Uvarint(&v.shard)
}

// token identifies a credit of the push in messages.
func (f *pushing) token(c credit) protocol.BatchToken {
	return protocol.BatchToken{Namespace: f.tx.NamespaceName(), Spread: f.tx.Spread(), Stream: f.name, Key: f.key, ID: c.id,
		Number: c.number}
}

// wantsCredit reports whether the push waits for a credit.
func (r *pushRow) wantsCredit() bool { return r.Most > 0 && r.asked && len(r.credits) == 0 }

// requestCredit requests a credit of the stream's home.
func (f *pushing) requestCredit() {
	f.asked = true
	if f.home() {
		f.addWaiting(uint64(f.tx.Shard()))
		return
	}
	c := creditCommand{f.token(credit{}), uint64(f.tx.Shard())}
	f.m.send(f.tx, f.name, f.name, kindWant, encodeBody(&c, (*creditCommand).code))
}

// creditWanted handles the request of another shard, at the stream's home.
func (m *machine) creditWanted(tx *engine.Tx, body []byte) error {
	c, err := decodeBody(body, (*creditCommand).code)
	if err != nil {
		return err
	}
	if f := m.push(tx, c.token.Stream, c.token.Key); f != nil {
		f.addWaiting(c.shard)
		f.refresh()
	}
	return nil
}

// addWaiting adds a shard to those that wait for a credit.
func (f *pushing) addWaiting(shard uint64) {
	if !slices.Contains(f.waiting, shard) {
		f.waiting = append(f.waiting, shard)
		f.grantCredits()
	}
}

// grantCredits grants credits to waiting shards, in order.
func (f *pushing) grantCredits() {
	for len(f.waiting) > 0 && (f.Most == 0 || f.active < f.Most) {
		shard := engine.ShardID(f.waiting[0])
		f.waiting = f.waiting[1:]
		f.numbers++
		f.active++
		granted := credit{f.id, f.numbers}
		f.tx.Insert(pushEndKey(granted.id, granted.number), nil)
		if shard == f.tx.Shard() {
			f.credits, f.asked = append(f.credits, granted), false
			continue
		}
		c := creditCommand{f.token(granted), uint64(shard)}
		f.m.send(f.tx, engine.RouteTo(f.tx.NamespaceName(), shard, f.tx.Shards()), f.name, kindGrant, encodeBody(&c, (*creditCommand).code))
	}
}

// creditGranted stores a credit of the stream's home.
func (m *machine) creditGranted(tx *engine.Tx, body []byte) error {
	c, err := decodeBody(body, (*creditCommand).code)
	if err != nil {
		return err
	}
	if f := m.push(tx, c.token.Stream, c.token.Key); f != nil { // else the push has been removed, at home as well
		f.credits, f.asked = append(f.credits, credit{c.token.ID, c.token.Number}), false
		f.refresh()
	}
	return nil
}

// returnCredits returns the credits that cannot be used now.
func (f *pushing) returnCredits() {
	for len(f.credits) > 0 {
		c := f.credits[0]
		f.credits = f.credits[1:]
		f.endBatch(c)
	}
}

// endBatch returns the credit of a batch that has ended. A zero credit means that the batch has
// none.
func (f *pushing) endBatch(c credit) {
	switch {
	case c == credit{}:
	case f.home():
		f.release(c)
	default:
		t := f.token(c)
		sendEnd(f.tx, &t, 0)
	}
}

// sendEnd sends the end of a batch to the stream's home.
func sendEnd(tx *engine.Tx, t *protocol.BatchToken, status uint8) {
	e := protocol.End{Token: encodeBody(t, (*protocol.BatchToken).Code), Status: status}
	tx.Send(engine.Message{
		Command: engine.Command{Machine: engine.MachineStream, Kind: protocol.KindBatchEnd, Namespace: t.Namespace, Spread: t.Spread,
			Body: encodeBody(&e, (*protocol.End).Encode)},
		Name: t.Stream, Lane: laneOf(t.Stream),
	})
}

// batchEnded handles the message that the subscriber's work on a batch has ended, or has resumed.
func (m *machine) batchEnded(tx *engine.Tx, body []byte) error {
	e, err := decodeBody(body, (*protocol.End).Encode)
	if err != nil {
		return err
	}
	t, err := decodeBody(e.Token, (*protocol.BatchToken).Code)
	if err != nil {
		return err
	}
	if t.Namespace != tx.NamespaceName() || !here(tx, t.Stream, 0) {
		sendEnd(tx, &t, e.Status)
		return nil
	}
	f := m.push(tx, t.Stream, t.Key)
	if f == nil {
		return nil
	}
	if c := (credit{t.ID, t.Number}); e.Status == protocol.StatusAgain {
		f.resume(c)
	} else {
		f.release(c)
	}
	f.refresh()
	return nil
}

// resume counts a batch again after its end was reported, even beyond the limit.
func (f *pushing) resume(c credit) {
	k := pushEndKey(c.id, c.number)
	if _, ok := f.tx.Get(k); ok || c.id != f.id {
		return
	}
	f.tx.Insert(k, nil)
	f.active++
}

// release makes room for another batch. A repeated report of an end has no effect.
func (f *pushing) release(c credit) {
	k := pushEndKey(c.id, c.number)
	if _, ok := f.tx.Get(k); !ok || c.id != f.id {
		return
	}
	f.tx.Delete(k)
	f.active--
	f.grantCredits()
}
