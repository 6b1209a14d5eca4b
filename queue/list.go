package queue

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/floedb/floe/internal/engine"
)

// Limits of listings.
const (
	MaxPageItems   = 1000
	MaxFilterBytes = 1024
	maxPageBytes   = 4 << 20
)

// Page is a part of a listing, in its order, the same type as floe.Page.
type Page[T any] = struct {
	Items  []T
	Cursor string // where the next page begins, for After; "" if this is the last one
}

// ListOption changes what List returns.
type ListOption interface{ applyList(*listOptions) }

// PeekOption changes what Peek returns.
type PeekOption interface{ applyPeek(*listOptions) }

// DeadOption changes what DeadLetters returns.
type DeadOption interface{ applyDead(*listOptions) }

// FilterOption says which dead letters RequeueAll takes.
type FilterOption interface{ applyFilter(*listOptions) }

type listOptions struct {
	limit       int
	after       string
	state       State
	text        string
	withoutBody bool
	err         error
}

func (o *listOptions) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// PageOption is an option of every listing.
type PageOption func(*listOptions)

func (f PageOption) applyList(o *listOptions) { f(o) }
func (f PageOption) applyPeek(o *listOptions) { f(o) }
func (f PageOption) applyDead(o *listOptions) { f(o) }

// Limit sets how many items a page holds, 1 to 1000; the default is 100. Iterators read pages of this size.
func Limit(n int) PageOption {
	return func(o *listOptions) {
		if n < 1 || n > MaxPageItems {
			o.fail(engine.Errorf(ErrInvalid, "queue: limit %d is not in 1-%d", n, MaxPageItems))
		}
		o.limit = n
	}
}

// After continues a listing behind the Cursor of an earlier page. It is what stands last there: of List the name of a queue, of DeadLetters a Seq, of Peek priority and
// Seq, as "100-17". What has come or gone meanwhile shows or not, depending on where it is; all else is neither skipped nor repeated.
func After(cursor string) PageOption { return func(o *listOptions) { o.after = cursor } }

// MessageOption is an option of the listings of messages.
type MessageOption func(*listOptions)

func (f MessageOption) applyPeek(o *listOptions) { f(o) }
func (f MessageOption) applyDead(o *listOptions) { f(o) }

// WithoutPayload leaves the payloads out, but not the headers; Size says how long they are.
func WithoutPayload() MessageOption { return func(o *listOptions) { o.withoutBody = true } }

type stateOption State

func (s stateOption) applyPeek(o *listOptions) {
	if o.state = State(s); o.state < Ready || o.state > Leased {
		o.fail(engine.Errorf(ErrInvalid, "queue: no state %s to peek at: ready, delayed or leased", o.state))
	}
}

// InState shows only messages that are Ready, Delayed or Leased.
func InState(s State) PeekOption { return stateOption(s) }

// ContainsOption is the option of Contains; DeadLetters and RequeueAll take it.
type ContainsOption struct{ text string }

// Contains takes only dead letters with the text, of up to 1024 bytes, in their payload or last error.
func Contains(text string) ContainsOption { return ContainsOption{text} }

func (f ContainsOption) apply(o *listOptions) {
	o.text = f.text
	if err := checkFilter(f.text); err != nil {
		o.fail(err)
	}
}

func (f ContainsOption) applyDead(o *listOptions)   { f.apply(o) }
func (f ContainsOption) applyFilter(o *listOptions) { f.apply(o) }

func checkFilter(text string) error {
	if len(text) > MaxFilterBytes {
		return engine.Errorf(ErrInvalid, "queue: filter of %d bytes exceeds %d", len(text), MaxFilterBytes)
	}
	return nil
}

// Stats returns what is in a queue, and what has become of all that ever was. Nothing is counted for it. Errors: ErrNotFound.
func (s *Store) Stats(ctx context.Context, name string) (Stats, error) {
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

// List returns a page of the queues of the namespace, in order of their names, over all shards.
//
// Options: Limit, After. Errors: ErrInvalid for a limit out of range.
func (s *Store) List(ctx context.Context, opts ...ListOption) (Page[Stats], error) {
	o := listOptions{limit: 100}
	for _, opt := range opts {
		opt.applyList(&o)
	}
	if o.err != nil {
		return Page[Stats]{}, o.err
	}
	parts, _, err := engine.AskAll(ctx, &s.scope, listQuery{namespace: s.scope.Namespace(), after: o.after, limit: o.limit})
	if err != nil {
		return Page[Stats]{}, err
	}
	var page Page[Stats]
	more := false
	for i := range parts {
		page.Items = append(page.Items, parts[i].items...)
		more = more || parts[i].more
	}
	// A shard that has more has told limit of them, and nobody else has more that come before the last of those.
	slices.SortFunc(page.Items, func(a, b Stats) int { return cmp.Compare(a.Name, b.Name) })
	if len(page.Items) > o.limit {
		page.Items, more = page.Items[:o.limit], true
	}
	if more {
		page.Cursor = page.Items[len(page.Items)-1].Name
	}
	return page, nil
}

// ListAll iterates over the queues of the namespace, in order of their names. Each pair is a queue and nil, or a zero Stats and an error, after which
// iteration ends; nothing runs before the first step, and break or a done ctx releases everything.
func (s *Store) ListAll(ctx context.Context, opts ...ListOption) iter.Seq2[Stats, error] {
	return all(func(after PageOption) (Page[Stats], error) { return s.List(ctx, append(slices.Clip(opts), after)...) })
}

// all makes an iterator of pages. The first one gets no After, so that the caller may have given one.
func all[T any](page func(after PageOption) (Page[T], error)) iter.Seq2[T, error] {
	return engine.Paginate(func(cursor string) (Page[T], error) {
		if cursor == "" {
			return page(func(*listOptions) {})
		}
		return page(After(cursor))
	})
}

// Peek returns a page of the messages of a queue, those that are leased or delayed too, in the order in which they would be delivered if all were ready. It
// changes nothing. A page ends early when its payloads exceed 4 MiB; with InState it may be empty and not the last.
//
// Options: Limit, After, InState, WithoutPayload. Errors: ErrNotFound; ErrInvalid for a limit out of range or what is no cursor.
func (s *Store) Peek(ctx context.Context, name string, opts ...PeekOption) (Page[Message], error) {
	o := listOptions{limit: 100}
	for _, opt := range opts {
		opt.applyPeek(&o)
	}
	q := peekQuery{namespace: s.scope.Namespace(), name: name, limit: o.limit, maxBytes: maxPageBytes, state: o.state, withoutBody: o.withoutBody}
	if o.after != "" {
		var ok bool
		if q.after, ok = parsePlace(o.after); !ok {
			o.fail(badCursor(o.after))
		}
	}
	if err := s.look(ctx, name, o.err, &q); err != nil {
		return Page[Message]{}, err
	}
	if !q.found {
		return Page[Message]{}, notFound(name)
	}
	page := Page[Message]{Items: q.items}
	if q.more {
		page.Cursor = q.next.cursor()
	}
	return page, nil
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

func badCursor(after string) error {
	return engine.Errorf(ErrInvalid, "queue: %.64q is no cursor of this listing", after)
}

// cursor writes a place as "100-17".
func (p place) cursor() string {
	return strconv.Itoa(int(p.priority)) + "-" + strconv.FormatUint(p.seq, 10)
}

func parsePlace(cursor string) (place, bool) {
	priority, seq, _ := strings.Cut(cursor, "-")
	p, err1 := strconv.ParseUint(priority, 10, 8)
	n, err2 := strconv.ParseUint(seq, 10, 64)
	at := place{uint8(p), n}
	return at, err1 == nil && err2 == nil && at.cursor() == cursor
}

// PeekAll iterates over the messages that Peek returns, by the contract of ListAll.
func (s *Store) PeekAll(ctx context.Context, name string, opts ...PeekOption) iter.Seq2[Message, error] {
	return all(func(after PageOption) (Page[Message], error) {
		return s.Peek(ctx, name, append(slices.Clip(opts), after)...)
	})
}

// DeadLetters returns a page of the dead letters of a queue, in order of their Seq. A page ends early when its payloads exceed 4 MiB; with Contains
// it may be empty and not the last.
//
// Options: Limit, After, Contains, WithoutPayload. Errors: ErrNotFound; ErrInvalid for options out of their limits.
func (s *Store) DeadLetters(ctx context.Context, name string, opts ...DeadOption) (Page[Message], error) {
	o := listOptions{limit: 100}
	for _, opt := range opts {
		opt.applyDead(&o)
	}
	q := deadQuery{namespace: s.scope.Namespace(), name: name, limit: o.limit, maxBytes: maxPageBytes, text: o.text, withoutBody: o.withoutBody}
	if o.after != "" {
		var err error
		if q.after, err = strconv.ParseUint(o.after, 10, 64); err != nil {
			o.fail(badCursor(o.after))
		}
	}
	if err := s.look(ctx, name, o.err, &q); err != nil {
		return Page[Message]{}, err
	}
	if !q.found {
		return Page[Message]{}, notFound(name)
	}
	page := Page[Message]{Items: q.items}
	if q.more {
		page.Cursor = strconv.FormatUint(q.next, 10)
	}
	return page, nil
}

// DeadLettersAll iterates over the dead letters that DeadLetters returns, by the contract of ListAll.
func (s *Store) DeadLettersAll(ctx context.Context, name string, opts ...DeadOption) iter.Seq2[Message, error] {
	return all(func(after PageOption) (Page[Message], error) {
		return s.DeadLetters(ctx, name, append(slices.Clip(opts), after)...)
	})
}

// Requeue makes a dead letter ready, in its old place, as if it had never been delivered.
//
// Errors: ErrNotFound if the queue or the dead letter does not exist; ErrBusy if the queue is bounded and full.
func (s *Store) Requeue(ctx context.Context, name string, seq uint64) error {
	_, err := engine.Propose(ctx, &s.scope, seqCommand(kindRequeue, name, seq), decodeNothing)
	return err
}

// RequeueAll makes all dead letters ready, or those that hold a text, and returns how many, also beside an error. It goes in steps of up to 1,000.
//
// Options: Contains. Errors: ErrNotFound; ErrInvalid for a filter over its limit; ErrBusy if the queue is bounded and becomes full.
func (s *Store) RequeueAll(ctx context.Context, name string, opts ...FilterOption) (requeued int64, err error) {
	var o listOptions
	for _, opt := range opts {
		opt.applyFilter(&o)
	}
	for d := (redriven{more: true}); d.more; {
		if d, err = engine.Propose(ctx, &s.scope, redriveCommand(name, d.seen, d.until, o.text), decodeRedriven); err != nil {
			return requeued, err
		}
		requeued += d.requeued
	}
	return requeued, nil
}

// DeleteDead deletes a dead letter. Errors: ErrNotFound if the queue or the dead letter does not exist.
func (s *Store) DeleteDead(ctx context.Context, name string, seq uint64) error {
	_, err := engine.Propose(ctx, &s.scope, seqCommand(kindDiscard, name, seq), decodeNothing)
	return err
}
