package queue

import (
	"context"
	"iter"
	"strconv"
	"strings"

	"github.com/floedb/floe/internal/engine"
)

// Limits of listings.
const (
	MaxPageItems   = engine.MaxPageItems
	MaxFilterBytes = 1024
	maxPageBytes   = 4 << 20
)

// Page is one page of an ordered listing. All packages of floe use the same type.
type Page[T any] = struct {
	Items  []T
	Cursor string // where the next page begins, for the option Cursor; "" if this is the last one
}

// ListOption selects which queues a Store lists: Limit, Cursor or Prefix.
type ListOption interface{ listOption }

// PageOption is an option for any listing of floe: Limit or Cursor.
type PageOption interface{ pageOption }

// MessageOption selects which messages of a queue are listed, and how.
type MessageOption interface{ messageOption }

// DeadOption selects which dead letters of a queue are listed, and how.
type DeadOption interface{ deadOption }

// FilterOption selects which dead letters RequeueAll requeues.
type FilterOption interface{ applyFilter(*listOptions) }

type (
	listOption    = engine.ListOption
	pageOption    = engine.PageOption
	messageOption = engine.MessageOption
	deadOption    = engine.DeadOption
	filter        = engine.Filter
	ofMessages    = engine.OfMessages
	ofDeadLetters = engine.OfDeadLetters
)

type listOptions struct {
	engine.Listing
	state          State
	text           string
	withoutPayload bool
}

func newListOptions() listOptions { return listOptions{Listing: engine.NewListing()} }

// Limit sets the maximum number of items on a page, 1 to 1000; the default is 100. Iterators read
// pages of this size.
func Limit(n int) PageOption { return engine.Limit(n) }

// Cursor continues a listing after an earlier page, with that page's Cursor. Items added or removed
// in the meantime may or may not appear, depending on their place; no other item is skipped or
// repeated. A cursor identifies the last item of its page: the name of a queue, the Seq of a dead
// letter, or the priority and Seq of a message, as in "100-17".
func Cursor(c string) PageOption { return engine.Cursor(c) }

// Prefix lists only queues whose names begin with p.
func Prefix(p string) ListOption { return engine.Prefix(p) }

// PayloadOption is the type of NoPayload; the listings of messages and of dead letters accept it.
type PayloadOption struct {
	filter
	ofMessages
	ofDeadLetters
}

// NoPayload omits the payloads but not the headers. Size is still the length of the payload.
func NoPayload() PayloadOption {
	return PayloadOption{filter: engine.FilterOf(func(o *listOptions) { o.withoutPayload = true })}
}

// InState lists only messages that are Ready, Delayed or Leased.
func InState(s State) MessageOption {
	return struct {
		filter
		ofMessages
	}{filter: engine.FilterOf(func(o *listOptions) {
		if o.state = s; s < Ready || s > Leased {
			o.Fail(engine.Errorf(ErrInvalid, "queue: no messages are in state %s: ready, delayed or leased", s))
		}
	})}
}

// ContainsOption is the type of Contains; the listing of dead letters and RequeueAll accept it.
type ContainsOption struct {
	filter
	ofDeadLetters
	text string
}

// Contains selects only dead letters that contain the text, of up to 1024 bytes, in their payload
// or last error.
func Contains(text string) ContainsOption {
	c := ContainsOption{text: text}
	c.filter = engine.FilterOf(c.applyFilter)
	return c
}

func (c ContainsOption) applyFilter(o *listOptions) {
	o.text = c.text
	o.Fail(checkFilter(c.text))
}

func checkFilter(text string) error {
	if len(text) > MaxFilterBytes {
		return engine.Errorf(ErrInvalid, "queue: filter of %d bytes exceeds %d", len(text), MaxFilterBytes)
	}
	return nil
}

// Get returns the number of messages in a queue by state, and its totals, without a scan.
//
// Errors: ErrNotFound.
func (s *Store) Get(ctx context.Context, name string) (Stats, error) {
	if err := checkName(name); err != nil {
		return Stats{}, err
	}
	q := statsQuery{namespace: s.scope.Namespace(), name: name}
	if err := s.scope.Query(ctx, name, &q); err != nil {
		return Stats{}, err
	}
	if !q.found {
		return Stats{}, notFound(name)
	}
	return q.stats, nil
}

// Page returns a page of the queues of the namespace, in order of their names, over all shards.
//
// Options: Limit, Cursor, Prefix. Errors: ErrInvalid for a limit that is not 1-1000, a prefix of
// more than 255 bytes, and a cursor that is not a name with the prefix.
func (s *Store) Page(ctx context.Context, opts ...ListOption) (page Page[Stats], err error) {
	o, err := engine.ListingOf(opts)
	if err != nil {
		return page, err
	}
	parts, _, err := engine.AskAll(ctx, &s.scope,
		listQuery{namespace: s.scope.Namespace(), prefix: o.Prefix, after: o.Cursor, limit: o.Limit})
	if err != nil {
		return page, err
	}
	found := func(q *listQuery) ([]Stats, bool, string) { return q.items, q.more, "" }
	return engine.Merge(parts, o.Limit, found, func(s Stats) string { return s.Name }, engine.First), nil
}

// All iterates over the queues of the namespace, in order of their names. Each pair is a queue and
// nil, or a zero Stats and an error, after which iteration ends; nothing runs before the first
// step, and break or a done ctx releases everything.
//
// Options and errors are those of Page.
func (s *Store) All(ctx context.Context, opts ...ListOption) iter.Seq2[Stats, error] {
	return engine.All(ctx, s.Page, opts)
}

// Messages are the messages of a queue, including leased and delayed ones, but not its dead
// letters. Reading them changes nothing.
type Messages struct {
	store *Store
	queue string
}

// Messages returns a handle that reads, deletes and lists the messages of a queue.
func (s *Store) Messages(name string) Messages { return Messages{s, name} }

// Page returns a page of the messages, in the order in which they would be delivered if all were
// ready. A page ends early when its payloads exceed 4 MiB. With InState it may be empty without
// being the last.
//
// Options: Limit, Cursor, InState, NoPayload. Errors: ErrNotFound if the queue does not exist;
// ErrInvalid for options out of range and for a malformed cursor.
func (l Messages) Page(ctx context.Context, opts ...MessageOption) (page Page[Message], err error) {
	o := newListOptions()
	engine.Apply(&o, opts)
	s := l.store
	q := peekQuery{namespace: s.scope.Namespace(), name: l.queue, limit: o.Limit, maxBytes: maxPageBytes, state: o.state,
		withoutBody: o.withoutPayload}
	if o.Cursor != "" {
		var ok bool
		if q.after, ok = parsePlace(o.Cursor); !ok {
			o.Fail(engine.BadCursor(o.Cursor))
		}
	}
	if err := s.look(ctx, l.queue, o.Err, &q); err != nil {
		return page, err
	}
	if !q.found {
		return page, notFound(l.queue)
	}
	page.Items = q.items
	if q.more {
		page.Cursor = q.next.cursor()
	}
	return page, nil
}

// All iterates over the messages in the order of Page, with the contract of Store.All. Options and
// errors are those of Page.
func (l Messages) All(ctx context.Context, opts ...MessageOption) iter.Seq2[Message, error] {
	return engine.All(ctx, l.Page, opts)
}

func (s *Store) look(ctx context.Context, name string, err error, q engine.Query) error {
	if nameErr := checkName(name); nameErr != nil {
		err = nameErr
	}
	if err != nil {
		return err
	}
	return s.scope.Query(ctx, name, q)
}

// cursor formats a position as "100-17".
func (p position) cursor() string {
	return strconv.Itoa(int(p.priority)) + "-" + strconv.FormatUint(p.seq, 10)
}

func parsePlace(cursor string) (position, bool) {
	priority, seq, _ := strings.Cut(cursor, "-")
	p, err1 := strconv.ParseUint(priority, 10, 8)
	n, err2 := strconv.ParseUint(seq, 10, 64)
	at := position{uint8(p), n}
	return at, err1 == nil && err2 == nil && at.cursor() == cursor
}

// Get returns a message by its Seq, in any state: ready, delayed, leased or dead. Reading it
// changes nothing. It takes one or two lookups per priority in use, regardless of the number of
// messages. Receipt is empty.
//
// Errors: ErrNotFound if the queue does not exist, or has no message with this Seq: it was acked,
// purged or deleted, or never existed.
func (l Messages) Get(ctx context.Context, seq uint64) (Message, error) {
	q := messageQuery{namespace: l.store.scope.Namespace(), name: l.queue, seq: seq}
	if err := l.store.look(ctx, l.queue, nil, &q); err != nil {
		return Message{}, err
	}
	switch {
	case !q.found:
		return Message{}, notFound(l.queue)
	case len(q.items) == 0:
		return Message{}, noMessage(l.queue, seq)
	}
	return q.items[0], nil
}

// Delete deletes a message by its Seq if it is ready, delayed or a dead letter. Its DedupKey is
// still remembered. A leased message must be settled by its consumer.
//
// Errors: ErrConflict if the message is leased; ErrNotFound if the queue does not exist, or has no
// message with this Seq.
func (l Messages) Delete(ctx context.Context, seq uint64) error {
	_, err := removeMessage.Do(ctx, &l.store.scope, l.queue, seqBody{seq}, nil)
	return err
}

func noMessage(name string, seq uint64) error {
	return engine.Errorf(ErrNotFound, "queue %q: message %d not found", name, seq)
}

// DeadLetters are the dead letters of a queue.
type DeadLetters struct {
	store *Store
	queue string
}

// DeadLetters returns a handle that requeues, deletes and lists the dead letters of a queue.
func (s *Store) DeadLetters(name string) DeadLetters { return DeadLetters{s, name} }

// Page returns a page of the dead letters, in order of their Seq. A page ends early when its
// payloads exceed 4 MiB. With Contains it may be empty without being the last.
//
// Options: Limit, Cursor, Contains, NoPayload. Errors: ErrNotFound if the queue does not exist;
// ErrInvalid for options out of range and for a malformed cursor.
func (l DeadLetters) Page(ctx context.Context, opts ...DeadOption) (page Page[Message], err error) {
	o := newListOptions()
	engine.Apply(&o, opts)
	s := l.store
	q := deadQuery{namespace: s.scope.Namespace(), name: l.queue, limit: o.Limit, maxBytes: maxPageBytes, text: o.text,
		withoutBody: o.withoutPayload}
	if o.Cursor != "" {
		if q.after, err = strconv.ParseUint(o.Cursor, 10, 64); err != nil || strconv.FormatUint(q.after, 10) != o.Cursor {
			o.Fail(engine.BadCursor(o.Cursor))
		}
	}
	if err := s.look(ctx, l.queue, o.Err, &q); err != nil {
		return page, err
	}
	if !q.found {
		return page, notFound(l.queue)
	}
	page.Items = q.items
	if q.more {
		page.Cursor = strconv.FormatUint(q.next, 10)
	}
	return page, nil
}

// All iterates over the dead letters in the order of Page, with the contract of Store.All. Options
// and errors are those of Page.
func (l DeadLetters) All(ctx context.Context, opts ...DeadOption) iter.Seq2[Message, error] {
	return engine.All(ctx, l.Page, opts)
}

// Get returns a dead letter by its Seq. Errors: ErrNotFound if the queue or the dead letter does
// not exist.
func (l DeadLetters) Get(ctx context.Context, seq uint64) (Message, error) {
	m, err := Messages(l).Get(ctx, seq)
	if err == nil && m.State != Dead {
		return Message{}, noDeadLetter(l.queue, seq)
	}
	return m, err
}

// Requeue makes a dead letter ready, in its old place, with no attempts counted.
//
// Errors: ErrNotFound if the queue or the dead letter does not exist; ErrBusy if the queue is
// bounded and full.
func (l DeadLetters) Requeue(ctx context.Context, seq uint64) error {
	_, err := requeue.Do(ctx, &l.store.scope, l.queue, seqBody{seq}, nil)
	return err
}

// RequeueAll makes all dead letters ready, or those that contain a text. It returns their number,
// even with an error. It proceeds in steps of up to 1,000.
//
// Options: Contains. Errors: ErrNotFound; ErrInvalid for a filter over its limit; ErrBusy if the
// queue is bounded and becomes full.
func (l DeadLetters) RequeueAll(ctx context.Context, opts ...FilterOption) (requeued int64, err error) {
	var o listOptions
	opts, o.Err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyFilter(&o)
	}
	if o.Err != nil {
		return 0, o.Err
	}
	for d := (redriven{more: true}); d.more; {
		if d, err = redrive.Do(ctx, &l.store.scope, l.queue, redriveBody{d.seen, d.until, []byte(o.text)}, nil); err != nil {
			return requeued, err
		}
		requeued += d.requeued
	}
	return requeued, nil
}

// Delete deletes a dead letter. Errors: ErrNotFound if the queue or the dead letter does not exist.
func (l DeadLetters) Delete(ctx context.Context, seq uint64) error {
	_, err := discard.Do(ctx, &l.store.scope, l.queue, seqBody{seq}, nil)
	return err
}

func noDeadLetter(name string, seq uint64) error {
	return engine.Errorf(ErrNotFound, "queue %q: dead letter %d not found", name, seq)
}
