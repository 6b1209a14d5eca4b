package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Delivery is a record that a consumer has been given.
type Delivery struct {
	Record
	Attempt  int       // 1: for the first time; it tells deliveries of a record apart, also those that do not count against MaxDeliver
	Deadline time.Time // until when it has to be acknowledged; zero with NoAck
}

// Ref names the delivery when it is acknowledged.
func (d *Delivery) Ref() Ref { return Ref{d.Partition, d.Offset, d.Attempt} }

// RefsOf returns those of several deliveries.
func RefsOf(ds []Delivery) []Ref {
	refs := make([]Ref, len(ds))
	for i := range ds {
		refs[i] = ds[i].Ref()
	}
	return refs
}

// CreateGroup makes a consumer group of a stream. ReadGroup makes one too.
//
// Options: WithMode, AckTimeout, MaxDeliver, Backoff, and where it begins: From, After, FromTime, FromEnd, FromBeginning (the default). Errors: ErrExists; ErrNotFound if
// there is no such stream; ErrInvalid.
func (s *Store) CreateGroup(ctx context.Context, stream, group string, opts ...GroupOption) error {
	_, err := s.propose(ctx, engine.OpOf(CreateGroupOp(stream, group, opts...)))
	return err
}

// DeleteGroup removes a consumer group. Errors: ErrNotFound.
func (s *Store) DeleteGroup(ctx context.Context, stream, group string) error {
	_, err := s.propose(ctx, engine.OpOf(DeleteGroupOp(stream, group)))
	return err
}

// ReadGroup gives a consumer records that no other one of the group has: those that have to be delivered again first, then new ones. Each has to be acknowledged
// (Ack) before its Deadline, or it is delivered again, to whoever asks; after MaxDeliver times in vain it goes to the stream of dead letters (DeadLetters). Within a partition
// the order is that of the stream. A consumer that neither reads nor acknowledges, refuses or
// extends anything for three times the ack timeout leaves the group.
//
// When ReadGroup fails with a ctx error or ErrUnknownOutcome, the consumer may have been given records that it does not know of: they are delivered again
// when their time is over. With Wait it waits for a record, and also for the stream, if there is none; when it has waited in vain, the result is empty and the error nil.
//
// Options: Limit, Wait, NoAck, and those of CreateGroup, for when there is no such group. Errors: ErrNotFound if there is no such stream; ErrBusy if 100,000
// records of the group are not acknowledged, or it has 1,000 members; ErrInvalid.
func (s *Store) ReadGroup(ctx context.Context, stream, group, consumer string, opts ...GroupReadOption) ([]Delivery, error) {
	o := groupReadOptionsOf(opts)
	if err := readGroupOp(place{stream: stream, group: group}, consumer, &o, 0).Err; err != nil {
		return nil, err
	}
	r := &groupReader{s: s, stream: stream, group: group, consumer: consumer, o: &o}
	if o.wait == 0 {
		return r.look(ctx)
	}
	ctx = engine.Lasting(ctx)
	waiting, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	for {
		ds, err := r.look(ctx)
		if err != nil && !errors.Is(err, ErrNotFound) || len(ds) > 0 || ctx.Err() != nil {
			return ds, err
		}
		if err := r.await(waiting); waiting.Err() != nil {
			return nil, ctx.Err()
		} else if err != nil {
			return nil, err
		}
	}
}

// groupReader is a ReadGroup.
type groupReader struct {
	s                       *Store
	stream, group, consumer string
	o                       *groupReadOptions
	since                   int64 // when it began to wait, by the clock of the shard; 0: it has not
	parts                   []groupPlace
	beat                    time.Duration // how long it may wait without being heard of
}

// groupPlace is what one shard has of the group.
type groupPlace struct {
	place
	route   string
	seen    uint64
	standby bool
}

// look asks for records that are there.
func (r *groupReader) look(ctx context.Context) ([]Delivery, error) {
	epoch, err := r.locate(ctx)
	if err != nil {
		return nil, err
	}
	var all []Delivery
	for i, n := int(turn.Add(1)), len(r.parts); n > 0 && len(all) < r.o.limit; i, n = i+1, n-1 {
		ds, err := r.claim(ctx, &r.parts[i%len(r.parts)], r.o.limit-len(all), epoch)
		if err != nil && len(all) == 0 {
			return nil, err
		}
		if err != nil {
			break // what the consumer has been given by other shards must not get lost
		}
		all = append(all, ds...)
	}
	return all, nil
}

// locate finds the shards of the group, and the epoch of the consumer's right if it is exclusive and has several.
func (r *groupReader) locate(ctx context.Context) (epoch uint64, err error) {
	scattered, err := r.s.scattered(ctx, r.stream)
	if err != nil {
		return 0, err
	}
	if !scattered {
		if r.parts == nil {
			r.parts = []groupPlace{{place: place{stream: r.stream, group: r.group}, route: r.stream}}
		}
		return 0, nil
	}
	places, err := r.s.places(ctx, r.stream, r.group)
	if errors.Is(err, errNoGroup) {
		op := groupOp(kindCreateGroup, place{stream: r.stream, group: r.group}, r.o.err, r.o.group.append(nil))
		if _, err := r.s.propose(ctx, op); err != nil && !errors.Is(err, ErrExists) {
			return 0, err
		}
		places, err = r.s.places(ctx, r.stream, r.group)
	}
	if err != nil {
		return 0, err
	}
	r.keepSeen(places)
	if places[0].groupSpec.config.mode != Exclusive || len(places) == 1 {
		return 0, nil
	}
	op := consumerOp(kindHold, place{stream: r.stream, group: r.group}, r.consumer)
	op.Decode = func(b []byte) (any, error) { return decodeClaims(b) }
	held := &claims{more: true}
	for held.more {
		out, err := r.s.propose(ctx, op)
		if err != nil {
			return 0, err
		}
		held = out.(*claims)
	}
	if !held.active {
		r.parts = r.parts[:1]
		r.parts[0].seen, r.parts[0].standby = held.seen, true
		r.beat = time.Duration(held.ackTimeout) * time.Millisecond / 2
	}
	return held.epoch, nil
}

// keepSeen takes the places over, with what is known of those that were there before.
func (r *groupReader) keepSeen(places []groupPlace) {
	for i := range places {
		for _, old := range r.parts {
			if old.route == places[i].route && old.groupSpec != nil && old.groupSpec.id == places[i].groupSpec.id {
				places[i].seen = old.seen
			}
		}
	}
	r.parts = places
}

// claim asks one shard for records.
func (r *groupReader) claim(ctx context.Context, p *groupPlace, limit int, epoch uint64) (all []Delivery, err error) {
	if p.standby {
		return nil, nil
	}
	o := *r.o
	for o.limit = limit; ; {
		out, err := r.s.propose(ctx, at(readGroupOp(p.place, r.consumer, &o, epoch), p.route))
		if err != nil {
			return nil, err
		}
		c := out.(*claims)
		p.seen, p.standby = c.seen, !c.active
		if r.beat = time.Duration(c.ackTimeout) * time.Millisecond / 2; o.wait == 0 {
			r.beat = 0
		}
		if all, err = r.s.fetch(ctx, p, c.claims, o.noAck); err != nil || len(all) > 0 || !c.more && len(c.claims) == 0 {
			return all, err
		}
	}
}

// fetch reads the records of claims. Those that have been trimmed meanwhile are left out.
func (s *Store) fetch(ctx context.Context, p *groupPlace, all []claim, noAck bool) ([]Delivery, error) {
	var refs []Ref
	of := make(map[Ref]*claim)
	for i := range all {
		for _, o := range all[i].offsets {
			ref := Ref{Partition: all[i].partition, Offset: o}
			refs = append(refs, ref)
			of[ref] = &all[i]
		}
	}
	ds := make([]Delivery, 0, len(refs))
	for len(refs) > 0 {
		q := recordsQuery{namespace: s.scope.Namespace(), stream: p.stream, refs: refs, maxBytes: maxReadBytes}
		if err := s.scope.Query(ctx, p.route, &q); err != nil {
			return nil, err
		}
		for _, rec := range q.records {
			c := of[Ref{Partition: rec.Partition, Offset: rec.Offset}]
			d := Delivery{Record: rec, Attempt: int(c.attempt)}
			if !noAck {
				d.Deadline = time.UnixMilli(c.deadline)
			}
			ds = append(ds, d)
		}
		refs = refs[q.done:]
	}
	return ds, nil
}

// await waits until there may be something for the consumer, or it has to be heard of again.
func (r *groupReader) await(ctx context.Context) error {
	if err := r.s.scope.Await(ctx); err != nil {
		return err
	}
	if r.parts == nil {
		q := specQuery{namespace: r.s.scope.Namespace(), stream: r.stream, wait: true}
		return r.s.scope.Query(ctx, r.stream, &q)
	}
	waiting, cancel := context.WithCancel(ctx)
	if r.beat > 0 {
		cancel()
		waiting, cancel = context.WithTimeout(ctx, r.beat)
	}
	defer cancel()
	queries := make([]groupWaitQuery, len(r.parts))
	errs := make(chan error, len(r.parts))
	for i := range r.parts {
		p := &r.parts[i]
		queries[i] = groupWaitQuery{
			namespace: r.s.scope.Namespace(), stream: r.stream, group: r.group, consumer: r.consumer, seen: p.seen, standby: p.standby, since: r.since,
			scattered: p.spec != nil,
		}
		p.standby = false
		go func() {
			errs <- r.s.scope.Query(waiting, p.route, &queries[i])
			cancel()
		}()
	}
	var failed error
	for range r.parts {
		if err := <-errs; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			failed = err
		}
	}
	for i := range queries {
		r.since = max(r.since, queries[i].since)
	}
	return failed
}

// errNoGroup is ErrNotFound for a group of a stream that exists.
var errNoGroup = fmt.Errorf("consumer group %w", ErrNotFound)

// places returns the shards of a group, the stream's home first. Errors: errNoGroup, ErrNotFound.
func (s *Store) places(ctx context.Context, stream, group string) ([]groupPlace, error) {
	if err := engine.CheckName("stream", stream); err != nil {
		return nil, err
	}
	if err := engine.CheckName("consumer group", group); err != nil {
		return nil, err
	}
	scattered, err := s.scattered(ctx, stream)
	if err != nil {
		return nil, err
	}
	if !scattered {
		return []groupPlace{{place: place{stream: stream, group: group}, route: stream}}, nil
	}
	q := groupSpecQuery{namespace: s.scope.Namespace(), stream: stream, group: group}
	if err := s.scope.Query(ctx, stream, &q); err != nil {
		return nil, err
	}
	switch {
	case q.spec.partitions == 0:
		return nil, notFound(stream)
	case !q.found:
		return nil, engine.Errorf(errNoGroup, "stream %q: consumer group %q not found", stream, group)
	}
	var places []groupPlace
	for _, p := range s.partsOf(stream, &q.spec) {
		gp := groupPlace{place: place{stream, group, p.spec, &q.config}, route: p.route}
		if len(places) == 0 {
			// The home has the records themselves, and what it is told must not be older.
			gp.spec = nil
		}
		places = append(places, gp)
	}
	return places, nil
}

// Ack takes records as done: they are not delivered again. It returns how many were pending, as the deliveries that the refs name; of those that were not
// some may have been acknowledged already, or delivered to another consumer because their time was over. See AckOp for a stricter one. Within ReadGroup's
// terms, a Ref without an Attempt means whichever delivery it is; Refs finds those of IDs.
//
// Errors: ErrNotFound if there is no such stream or group; ErrInvalid for more than 10,000 records.
func (s *Store) Ack(ctx context.Context, stream, group string, refs ...Ref) (int, error) {
	return s.forRefs(ctx, stream, group, refs, func(at place, refs []Ref) engine.Op { return ackOp(at, refs, false) })
}

// Nack gives records back: they are delivered again after the group's back-off, or the Delay given, or go to the dead letters if that was the last attempt. It
// returns how many were with a consumer.
//
// Options: Delay, Reason. Errors: those of Ack.
func (s *Store) Nack(ctx context.Context, stream, group string, refs []Ref, opts ...NackOption) (int, error) {
	o := nackOptionsOf(opts)
	return s.forRefs(ctx, stream, group, refs, func(at place, refs []Ref) engine.Op { return nackOp(at, refs, o) })
}

// Extend moves the deadlines of records to d from now. It returns how many were with a consumer. Errors: those of Ack.
func (s *Store) Extend(ctx context.Context, stream, group string, d time.Duration, refs ...Ref) (int, error) {
	return s.forRefs(ctx, stream, group, refs, func(at place, refs []Ref) engine.Op { return extendOp(at, d, refs) })
}

// forRefs proposes an operation on records to the shards that have them.
func (s *Store) forRefs(ctx context.Context, stream, group string, refs []Ref, op func(place, []Ref) engine.Op) (n int, err error) {
	if len(refs) == 0 {
		return 0, nil
	}
	places, err := s.places(ctx, stream, group)
	if err != nil {
		return 0, err
	}
	if len(places) == 1 {
		out, err := s.propose(ctx, at(op(places[0].place, refs), places[0].route))
		if err != nil {
			return 0, err
		}
		return out.(int), nil
	}
	byShard := make(map[engine.ShardID][]Ref)
	for _, ref := range refs {
		shard := s.scope.SpreadShard(route(stream, ref.Partition))
		byShard[shard] = append(byShard[shard], ref)
	}
	for _, p := range places {
		part := byShard[s.scope.SpreadShard(p.route)]
		if len(part) == 0 {
			continue
		}
		out, e := s.propose(ctx, at(op(p.place, part), p.route))
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		n += out.(int)
	}
	return n, err
}

// Leave takes a consumer out of the group, as it should before it stops. What it has neither acknowledged nor refused is delivered to others at once, and that the
// consumer had it does not count against MaxDeliver. Errors: ErrNotFound if there is no such stream or group; that the group has no such member is none.
func (s *Store) Leave(ctx context.Context, stream, group, consumer string) error {
	places, err := s.places(ctx, stream, group)
	// The home comes last: once it has let an exclusive consumer go, the next one takes what the other shards have not been told to hand back.
	slices.Reverse(places)
	return errors.Join(err, s.atAll(ctx, places, func(at place) engine.Op { return consumerOp(kindLeave, at, consumer) }))
}

// Seek moves the group's cursors: what was delivered and not acknowledged is forgotten, and records from there on are delivered, also those that were before.
// Errors: ErrNotFound.
func (s *Store) Seek(ctx context.Context, stream, group string, to SeekOption) error {
	places, err := s.places(ctx, stream, group)
	return errors.Join(err, s.atAll(ctx, places, func(at place) engine.Op { return seekOp(at, to) }))
}

// atAll proposes an operation to several shards.
func (s *Store) atAll(ctx context.Context, places []groupPlace, op func(place) engine.Op) (err error) {
	for _, p := range places {
		_, e := s.propose(ctx, at(op(p.place), p.route))
		err = errors.Join(err, e)
	}
	return err
}
