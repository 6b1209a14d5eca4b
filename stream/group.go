package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Delivery is a record delivered to a consumer.
type Delivery struct {
	Record
	Attempt  int       // 1 for the first delivery; it also counts deliveries that do not count towards MaxAttempts
	Deadline time.Time // when the record must be acknowledged; zero with NoAck

	Generation uint64 // of the group's position in the partition, see Ref
}

// Ref returns the reference by which the delivery is acknowledged.
func (d *Delivery) Ref() Ref { return Ref{d.Partition, d.Offset, d.Attempt, d.Generation} }

// RefsOf returns the references of several deliveries.
func RefsOf(ds []Delivery) []Ref {
	refs := make([]Ref, len(ds))
	for i := range ds {
		refs[i] = ds[i].Ref()
	}
	return refs
}

// Create creates a consumer group of a stream. ReadGroup can create one too. When Create returns
// nil, the group has a position in every partition: with FromEnd, all records appended from now on
// are delivered.
//
// Options: InMode, AckTimeout, MaxAttempts, Backoff, and the start position: From, After, FromTime,
// FromEnd, FromBeginning (the default). Errors: ErrExists; ErrNotFound if the stream does not
// exist; ErrInvalid. In a spread namespace other errors, such as ErrUnavailable, may be returned
// although the group was created. With FromEnd, a shard that has not received the group yet then
// begins at its end of the stream when it receives the group.
func (l Groups) Create(ctx context.Context, group string, opts ...GroupOption) error {
	return l.store.createGroup(ctx, l.stream, group, groupOptionsOf(opts))
}

// createGroup creates a group at home. If it begins at the end, the end in each shard is read now,
// not when the home's message arrives there. An existing group may not have reached all shards yet,
// so its cursors are set the same way before ErrExists is returned.
func (s *Store) createGroup(ctx context.Context, stream, group string, o groupOptions) error {
	_, err := s.propose(ctx, createGroupOp(stream, group, o))
	if o.start.kind != startEnd || err != nil && !errors.Is(err, ErrExists) {
		return err
	}
	shards, shardsErr := s.shards(ctx, stream, group)
	if errors.Is(shardsErr, ErrNotFound) {
		return err // the group has been deleted since
	}
	for i := 1; i < len(shards) && shardsErr == nil; i++ {
		_, shardsErr = s.propose(ctx, at(adoptGroup.Op(stream, shards[i].groupTarget, nil), shards[i].route))
		if errors.Is(shardsErr, ErrNotFound) {
			return err // likewise
		}
	}
	return cmp.Or(shardsErr, err)
}

// Configure changes settings of a consumer group; settings without an option do not change. They
// apply to the next delivery or failure of a record; running deadlines and pauses do not change.
// The time after which a consumer counts as silent, a multiple of the ack timeout, changes at once.
// If it becomes shorter, busy consumers keep their old limit until their next call. Consume adopts
// a new ack timeout when it next receives or renews records.
//
// Options: AckTimeout, MaxAttempts, Backoff. Errors: ErrNotFound; ErrInvalid, also if no option is
// given.
func (l Groups) Configure(ctx context.Context, group string, opts ...SettingOption) error {
	_, err := l.store.propose(ctx, engine.OpOf(ConfigureGroupOp(l.stream, group, opts...)))
	return err
}

// Delete removes a consumer group. Errors: ErrNotFound.
func (l Groups) Delete(ctx context.Context, group string) error {
	_, err := l.store.propose(ctx, engine.OpOf(DeleteGroupOp(l.stream, group)))
	return err
}

// ReadGroup delivers records that no other consumer of the group has: redeliveries first, then new
// records. Each must be acknowledged (Ack) before its Deadline, or it is redelivered to any
// consumer. After MaxAttempts failed deliveries it goes to the dead-letter stream (DeadLetters).
// Within a partition the order is that of the stream. A consumer that does not read, acknowledge,
// refuse or extend anything for three times the ack timeout leaves the group; one that waits in
// ReadGroup does not. A call that returns no records writes nothing.
//
// When ReadGroup fails with a ctx error or ErrUnknownOutcome, the consumer may have been assigned
// records that it did not receive. They are redelivered after their deadline or, with NoAck, never.
// In a spread namespace it may return records with such an error: those received from some shards
// before another one failed. With Wait it waits for a record, and also for the stream if it does
// not exist. If the wait times out, the result is empty and the error nil.
//
// A call creates the group at most once, when it first finds the stream. If the group or its stream
// is deleted during the wait, the call returns ErrNotFound, or continues with a new group of that
// name. With FromEnd, a call that has waited for the stream begins with the stream's first record.
//
// Options: Limit, Wait, NoAck, and those of Groups.Create, which apply if the call creates the
// group. Errors: ErrNotFound if the stream does not exist, or as above; ErrBusy if the group has
// 100,000 pending records or 1,000 members; ErrInvalid.
func (s *Store) ReadGroup(ctx context.Context, stream, group, consumer string, opts ...GroupReadOption) ([]Delivery, error) {
	o := groupReadOptionsOf(opts)
	if err := readGroupOp(groupAddressOf(stream, group), consumer, &o, 0).Err; err != nil {
		return nil, err
	}
	r := &groupReader{s: s, stream: stream, group: group, consumer: consumer, o: &o}
	return r.read(ctx)
}

// groupReader is one ReadGroup call.
type groupReader struct {
	s                       *Store
	stream, group, consumer string
	o                       *groupReadOptions
	began                   time.Time
	since                   int64 // when the wait began, by the shard's clock; 0: not waiting yet
	found                   bool  // the group was found: it is not created again
	looked                  bool  // it has read at least once, however short the wait
	told                    int   // 1 + the index of the shard that reported records and is asked first; 0: none

	mode       Mode          // of the group last read, if ackTimeout is not 0
	ackTimeout time.Duration // likewise
}

// read is ReadGroup with validated options.
func (r *groupReader) read(ctx context.Context) ([]Delivery, error) {
	r.began = time.Now()
	if r.o.wait == 0 {
		return r.look(ctx)
	}
	ctx = engine.Lasting(ctx)
	waiting, cancel := context.WithTimeout(ctx, r.o.wait)
	defer cancel()
	for {
		ds, err := r.lookOrWait(ctx, waiting)
		switch {
		case ctx.Err() != nil:
			return ds, firstError(err, ctx.Err())
		case len(ds) > 0 || err != nil && waiting.Err() == nil && !errors.Is(err, errMoved), r.o.noAck &&
			errors.Is(err, engine.ErrUnknownOutcome):
			return ds, err
		case waiting.Err() != nil && r.told != 0: // no other consumer was notified of these records
			return r.look(ctx)
		case waiting.Err() != nil:
			return nil, nil
		}
	}
}

// errMoved reports that the stream or group has changed or was deleted, and must be located
// again.
var errMoved = errors.New("stream or group has changed")

// groupShard is a group's part in one shard.
type groupShard struct {
	groupAddress
	route string
}

// look reads records that are available now.
func (r *groupReader) look(ctx context.Context) ([]Delivery, error) {
	shards, right, err := r.locate(ctx)
	if err != nil {
		return nil, err
	}
	ds, err := r.ask(ctx, shards, right)
	r.found = r.found || err == nil
	return ds, err
}

// lookOrWait reads records, or waits until there may be some.
func (r *groupReader) lookOrWait(ctx, waiting context.Context) ([]Delivery, error) {
	// The shard to wait at is known only once the namespace exists.
	if err := r.s.scope.Await(waiting); err != nil {
		if waiting.Err() != nil && !r.looked { // the wait was over before anything was known: read what is available
			return r.look(ctx)
		}
		return nil, err
	}
	r.looked = true
	shards, right, err := r.locate(ctx)
	if err == nil {
		// Only wait for a group that exists, or its deletion would go unnoticed.
		if alone := len(shards) == 1; alone && r.found {
			ds, err := r.take(ctx, &shards[0], r.o.limit, 0, max(r.o.wait-time.Since(r.began), 1))
			return ds, r.moved(err, &shards[0])
		}
		var ds []Delivery
		if ds, err = r.ask(ctx, shards, right); len(ds) > 0 || err != nil && !errors.Is(err, ErrNotFound) {
			return ds, err
		}
		if err = r.moved(err, &shards[0]); err == nil {
			if r.found = true; len(shards) > 1 {
				err = r.await(waiting, shards, right)
			}
			return nil, err
		}
	}
	if !errors.Is(err, ErrNotFound) || r.found {
		return nil, err
	}
	r.o.group.start = r.o.group.start.ofNew()
	q := specQuery{namespace: r.s.scope.Namespace(), stream: r.stream, wait: true}
	return nil, r.s.scope.Query(waiting, r.stream, &q)
}

// moved replaces ErrNotFound from shards that received the group's id with errMoved: there may be
// another group of that name by now.
func (r *groupReader) moved(err error, home *groupShard) error {
	if home.groupSpec != nil && errors.Is(err, ErrNotFound) {
		return errMoved
	}
	return err
}

// ofNew returns the start position in a stream that did not exist at the time of the call: all of
// its records are new.
func (s start) ofNew() start {
	if s.kind == startEnd {
		return start{}
	}
	return s
}

// right is a consumer's right to read from a group in several shards. In an exclusive group only
// one consumer has it.
type right struct {
	held  bool
	epoch uint64
}

// locate finds the shards of the group and determines the consumer's right.
func (r *groupReader) locate(ctx context.Context) ([]groupShard, right, error) {
	q := groupSpecQuery{namespace: r.s.scope.Namespace(), stream: r.stream, group: r.group, consumer: r.consumer}
	shards, err := r.s.shardsOf(ctx, &q)
	if errors.Is(err, errNoGroup) && !r.found {
		if err := r.create(ctx); err != nil {
			return nil, right{}, err
		}
		shards, err = r.s.shardsOf(ctx, &q)
	}
	if err == nil && shards[0].groupSpec != nil {
		r.found = true
	}
	if err != nil || len(shards) == 1 || q.config.config.mode != Exclusive {
		return shards, right{held: true}, err
	}
	if q.held.known {
		return shards, right{q.held.held, q.held.epoch}, nil
	}
	have, err := r.hold(ctx)
	return shards, have, err
}

// create creates the group.
func (r *groupReader) create(ctx context.Context) error {
	if err := r.s.createGroup(ctx, r.stream, r.group, r.o.group); err != nil && !errors.Is(err, ErrExists) {
		return err
	}
	r.found = true
	return nil
}

// hold requests the right to consume an exclusive group from the stream's home.
func (r *groupReader) hold(ctx context.Context) (right, error) {
	b := consumerBody{groupTarget{group: r.group}, r.consumer}
	for {
		c, err := hold.Do(ctx, &r.s.scope, r.stream, b, nil)
		if err != nil || !c.more {
			return right{c.active, c.epoch}, err
		}
	}
}

// ask reads from the shards in turn, beginning with a different one each time.
func (r *groupReader) ask(ctx context.Context, shards []groupShard, have right) (all []Delivery, err error) {
	from := r.told - 1
	if r.told == 0 {
		from = int(turn.Add(1))
	}
	r.told = 0
	for i, n := from, len(shards); n > 0 && len(all) < r.o.limit && have.held; i, n = i+1, n-1 {
		ds, err := r.take(ctx, &shards[i%len(shards)], r.o.limit-len(all), have.epoch, 0)
		all = append(all, ds...)
		switch {
		case err == nil:
		case len(all) == 0:
			return nil, err
		case errors.Is(err, engine.ErrUnknownOutcome) || ctx.Err() != nil:
			return all, err
		default:
			return all, nil // records received from other shards must not be lost
		}
	}
	return all, nil
}

// take reads records from one shard, and waits for them there.
func (r *groupReader) take(ctx context.Context, p *groupShard, limit int, epoch uint64, wait time.Duration) ([]Delivery, error) {
	o := *r.o
	o.limit, o.existing = limit, r.found
	op := at(readGroupOp(p.groupAddress, r.consumer, &o, epoch), p.route)
	for began := time.Now(); ; {
		t := engine.Take{Wait: wait, Waited: time.Since(r.began), Once: o.noAck}
		if wait > 0 {
			t.Wait = max(wait-time.Since(began), 1)
		}
		c, err := engine.TakeFrom(ctx, &r.s.scope, op, t, readGroup.Decode)
		if err == nil && c.ackTimeout > 0 {
			r.mode, r.ackTimeout = c.mode, duration(c.ackTimeout)
		}
		if err != nil || len(c.claims) == 0 && !c.more {
			return nil, err
		}
		ds, err := r.s.fetch(ctx, p, c.claims, o.noAck)
		if err != nil && o.noAck && len(c.claims) > 0 && ctx.Err() == nil && !errors.Is(err, ErrNotFound) {
			return nil, engine.Errorf(engine.ErrUnknownOutcome,
				"outcome unknown: records were acknowledged on delivery but not read: %v", err)
		}
		if err != nil || len(ds) > 0 {
			return ds, err
		}
	}
}

// fetch reads the claimed records. It skips those trimmed since.
func (s *Store) fetch(ctx context.Context, p *groupShard, all []claim, noAck bool) ([]Delivery, error) {
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
			d := Delivery{Record: rec, Attempt: int(c.attempt), Generation: c.generation}
			if !noAck {
				d.Deadline = time.UnixMilli(c.deadline)
			}
			ds = append(ds, d)
		}
		refs = refs[q.done:]
	}
	return ds, nil
}

// await waits until one of several shards may have records for the consumer. It also ends when a
// consumer that received records must send a sign of life.
func (r *groupReader) await(ctx context.Context, shards []groupShard, have right) error {
	if !have.held {
		shards = shards[:1]
	}
	beat := time.Duration(shards[len(shards)-1].groupSpec.config.ackTimeout) * time.Millisecond / 2
	waiting, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	queries := make([]groupWaitQuery, len(shards))
	errs, answered := make([]error, len(shards)), make(chan int, len(shards))
	for i := range shards {
		queries[i] = groupWaitQuery{
			namespace: r.s.scope.Namespace(), stream: r.stream, group: r.group, consumer: r.consumer, epoch: have.epoch, since: r.since,
			id: shards[i].groupSpec.id, home: i == 0,
		}
		if !have.held {
			queries[i].epoch = 0
		}
		go func() {
			errs[i] = r.s.scope.Query(waiting, shards[i].route, &queries[i])
			answered <- i
		}()
	}
	first := <-answered
	failed, over := errs[first], waiting.Err() != nil
	cancel()
	for range len(shards) - 1 {
		if i := <-answered; errs[i] == nil && failed != nil { // the answer arrived as the wait ended
			first, failed = i, nil
		}
	}
	var others []engine.ShardID
	for i := range queries {
		r.since = max(r.since, queries[i].since)
		if i != first || ctx.Err() != nil {
			others = append(others, r.s.scope.SpreadShard(shards[i].route))
		}
	}
	switch {
	case failed == nil:
		r.told = first + 1
		// the first shard may have all the records this reader wants, so pass the notifications of
		// the other shards on
		r.s.scope.PassOn(ctx, others)
	case over:
		return nil
	}
	return failed
}

// errNoGroup is ErrNotFound for a group of a stream that exists.
var errNoGroup = fmt.Errorf("consumer group %w", ErrNotFound)

// shards returns the shards of a group, the stream's home first. Errors: errNoGroup, ErrNotFound.
func (s *Store) shards(ctx context.Context, stream, group string) ([]groupShard, error) {
	if err := engine.CheckName("stream", stream); err != nil {
		return nil, err
	}
	if err := engine.CheckName("consumer group", group); err != nil {
		return nil, err
	}
	return s.shardsOf(ctx, &groupSpecQuery{namespace: s.scope.Namespace(), stream: stream, group: group})
}

// shardsOf returns the shards of a group. It queries the stream's home if necessary.
func (s *Store) shardsOf(ctx context.Context, q *groupSpecQuery) ([]groupShard, error) {
	stream, group := q.stream, q.group
	scattered, err := s.scattered(ctx, stream)
	if err != nil {
		return nil, err
	}
	if !scattered {
		return []groupShard{{groupAddress: groupAddressOf(stream, group), route: stream}}, nil
	}
	if err := s.scope.Query(ctx, stream, q); err != nil {
		return nil, err
	}
	switch {
	case q.spec.partitions == 0:
		return nil, notFound(stream)
	case !q.found:
		return nil, engine.Errorf(errNoGroup, "stream %q: consumer group %q not found", stream, group)
	}
	var shards []groupShard
	for _, p := range s.partsOf(stream, &q.spec) {
		gp := groupShard{groupAddress: groupAddress{stream, groupTarget{target{p.spec}, group, &q.config}}, route: p.route}
		if len(shards) == 0 {
			// The home has the records themselves, and must not be sent older copies.
			gp.spec = nil
		}
		shards = append(shards, gp)
	}
	return shards, nil
}

// Ack acknowledges records: they are not delivered again. It returns the number of records that
// were pending with the attempt in their ref. The others may already have been acknowledged, or
// redelivered to another consumer after their deadline. See AckOp for a strict variant. A Ref
// without an Attempt matches any delivery; Refs finds the refs of IDs. Without refs Ack does
// nothing and returns 0.
//
// Errors: ErrNotFound if the stream or group does not exist; ErrInvalid for more than 10,000
// records, and for a duplicate Ref.
func (s *Store) Ack(ctx context.Context, stream, group string, refs ...Ref) (int, error) {
	return s.countRefs(ctx, stream, group, refs, func(at groupAddress, refs []Ref) engine.Op { return ackOp(at, refs, false) })
}

// Nack returns records to the group. They are redelivered after the group's back-off or the given
// Delay, or become dead letters if that was the last attempt. It returns the number of records that
// were pending at a consumer.
//
// Options: Delay, Reason, ToDLQ. Errors: those of Ack.
func (s *Store) Nack(ctx context.Context, stream, group string, refs []Ref, opts ...NackOption) (int, error) {
	o := nackOptionsOf(opts)
	return s.countRefs(ctx, stream, group, refs, func(at groupAddress, refs []Ref) engine.Op { return nackOp(at, refs, o) })
}

// Extend moves a record's deadline to d from now, and returns the new deadline.
//
// Errors: *ConflictError, which is ErrConflict, if the delivery has ended: the record is
// acknowledged, or its deadline has passed; ErrInvalid for a d outside 1 ms to 30 days; otherwise
// those of Ack.
func (s *Store) Extend(ctx context.Context, stream, group string, ref Ref, d time.Duration) (until time.Time, err error) {
	e, err := s.ExtendMany(ctx, stream, group, []Ref{ref}, d)
	if err == nil && e.Records == 0 {
		reason := fmt.Sprintf("record %d of partition %d is not pending in consumer group %q", ref.Offset, ref.Partition, group)
		err = &ConflictError{Stream: stream, Partition: ref.Partition, Reason: reason}
	}
	return e.Until, err
}

// ExtendMany moves the deadlines of records to d from now. It skips records whose delivery has
// ended. Errors: those of Ack; ErrInvalid for a d outside 1 ms to 30 days.
func (s *Store) ExtendMany(ctx context.Context, stream, group string, refs []Ref, d time.Duration) (Extended, error) {
	return forRefs(ctx, s, stream, group, refs, func(at groupAddress, refs []Ref) engine.Op { return extendOp(at, d, refs) }, Extended.add)
}

// countRefs is forRefs for operations that return the number of records.
func (s *Store) countRefs(ctx context.Context, stream, group string, refs []Ref, op func(groupAddress, []Ref) engine.Op) (int, error) {
	return forRefs(ctx, s, stream, group, refs, op, func(a, b int) int { return a + b })
}

// forRefs proposes an operation on records to their shards, and adds up the results.
func forRefs[R any](ctx context.Context, s *Store, stream, group string, refs []Ref, op func(groupAddress, []Ref) engine.Op,
	add func(R, R) R) (sum R, err error) {
	if len(refs) == 0 {
		return sum, nil
	}
	if err := op(groupAddressOf(stream, group), refs).Err; err != nil {
		return sum, err
	}
	shards, err := s.shards(ctx, stream, group)
	if err != nil {
		return sum, err
	}
	if len(shards) == 1 {
		out, err := s.propose(ctx, at(op(shards[0].groupAddress, refs), shards[0].route))
		if err != nil {
			return sum, err
		}
		return out.(R), nil
	}
	byShard := make(map[engine.ShardID][]Ref)
	for _, ref := range refs {
		shard := s.scope.SpreadShard(route(stream, ref.Partition))
		byShard[shard] = append(byShard[shard], ref)
	}
	for _, p := range shards {
		part := byShard[s.scope.SpreadShard(p.route)]
		if len(part) == 0 {
			continue
		}
		out, e := s.propose(ctx, at(op(p.groupAddress, part), p.route))
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		sum = add(sum, out.(R))
	}
	return sum, err
}

// Leave removes a consumer from the group. Call it before the consumer stops. Its pending records
// are delivered to other consumers at once, and its deliveries do not count towards MaxAttempts.
// Errors: ErrNotFound if the stream or group does not exist. It is not an error if the group has no
// such member.
func (s *Store) Leave(ctx context.Context, stream, group, consumer string) error {
	shards, err := s.shards(ctx, stream, group)
	// The home comes last: once it has released an exclusive consumer, the next consumer takes over
	// the records that the other shards have not yet been asked to return.
	slices.Reverse(shards)
	return errors.Join(err, s.atAll(ctx, shards, func(at groupAddress) engine.Op { return leaveOp(at, consumer) }))
}

// Seek moves the group's cursors. It drops pending deliveries, and delivery continues at the new
// position, including records delivered before. With Partition it affects only that partition.
//
// Options: Partition. Errors: ErrNotFound; ErrInvalid for a partition that does not exist.
func (s *Store) Seek(ctx context.Context, stream, group string, to SeekOption, opts ...SeekPartOption) error {
	o := seekOptionsOf(opts)
	if o.err != nil {
		return o.err
	}
	shards, err := s.shards(ctx, stream, group)
	if err == nil && len(shards) > 1 && o.partition > 0 {
		partitions := shards[1].spec.partitions
		if o.partition > partitions {
			return noSuchPartition(stream, partitions, o.partition-1)
		}
		shard := s.shardOf(stream, o.partition-1)
		shards = slices.DeleteFunc(shards, func(p groupShard) bool { return s.scope.SpreadShard(p.route) != shard })
	}
	return errors.Join(err, s.atAll(ctx, shards, func(at groupAddress) engine.Op { return seekOp(at, to, o) }))
}

// atAll proposes an operation to several shards.
func (s *Store) atAll(ctx context.Context, shards []groupShard, op func(groupAddress) engine.Op) (err error) {
	for _, p := range shards {
		_, e := s.propose(ctx, at(op(p.groupAddress), p.route))
		err = errors.Join(err, e)
	}
	return err
}
