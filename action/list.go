package action

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/bits"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Page is one page of an ordered listing. All packages of floe use the same type.
type Page[T any] = struct {
	Items  []T
	Cursor string // start of the next page, for the option Cursor; "" on the last page
}

// MaxPageItems is the maximum number of items on a page.
const MaxPageItems = engine.MaxPageItems

// ListOption is an option of Store.Page and Store.All: Limit, Cursor or Prefix.
type ListOption interface{ listOption }

// PageOption is an option of every listing of floe: Limit or Cursor.
type PageOption interface{ pageOption }

// RunOption is an option of the listing of runs.
type RunOption interface{ runOption }

type (
	listOption   = engine.ListOption
	pageOption   = engine.PageOption
	runOption    = engine.ActionRunOption
	workerOption = engine.WorkerOption
)

type listOptions struct {
	engine.Listing
	action     string
	status     Status
	attributes []attribute
	since      int64 // ms; 0: no bound
	until      int64 // likewise
}

// Limit sets the maximum number of items per page, 1 to 1000; the default is 100. Iterators read
// pages of this size.
func Limit(n int) PageOption { return engine.Limit(n) }

// Cursor continues a listing after an earlier page, with that page's Cursor. Unless the namespace
// is spread, it also accepts the id of a run and continues after that run. Items created or removed
// meanwhile may or may not appear, depending on their position; no other item is skipped or
// repeated.
func Cursor(c string) PageOption { return engine.Cursor(c) }

// Prefix lists only actions whose names begin with p.
func Prefix(p string) ListOption { return engine.Prefix(p) }

func filterOf(f func(*listOptions)) RunOption {
	return struct {
		engine.Filter
		engine.OfActionRuns
	}{Filter: engine.FilterOf(f)}
}

// Of lists only the runs of an action.
func Of(action string) RunOption {
	return filterOf(func(o *listOptions) {
		o.action = action
		o.Fail(checkAction(action))
	})
}

// InState lists only the runs in a state.
func InState(s Status) RunOption {
	return filterOf(func(o *listOptions) {
		if o.status = s; s < Pending || s > TimedOut {
			o.Fail(engine.Errorf(ErrInvalid, "action: no runs are in state %d", s))
		}
	})
}

// Attribute is a property of runs to filter by, see Has.
type Attribute string

// The attributes of runs. Label returns the attribute of a label.
const (
	AttributeSource         Attribute = "source"
	AttributeConcurrencyKey Attribute = "concurrency_key"
	AttributeIdempotencyKey Attribute = "idempotency_key"
	AttributeWorker         Attribute = "worker"
	AttributeOutcome        Attribute = "outcome"
	AttributeCode           Attribute = "code"
)

const labelAttribute = "label."

// Label returns the attribute for a label that runs require.
func Label(name string) Attribute { return labelAttribute + Attribute(name) }

// maxAttributes is the maximum number of attributes in one listing.
const maxAttributes = 16

// attribute is a filter: an attribute and its value.
type attribute struct{ name, value string }

func (a *attribute) code(f *codec.Fields) {
	f.Text("name", &a.name)
	if codeBlob(f, "value", &a.value, codec.Range{}); f.Checking() && !a.known() {
		f.Refuse(engine.Errorf(ErrInvalid, "action: unknown attribute %q of runs", a.name))
	}
}

// known reports whether the attribute exists.
func (a *attribute) known() bool {
	if label, is := strings.CutPrefix(a.name, labelAttribute); is {
		return label != ""
	}
	switch Attribute(a.name) {
	case AttributeSource, AttributeConcurrencyKey, AttributeIdempotencyKey, AttributeWorker, AttributeOutcome, AttributeCode:
		return true
	}
	return false
}

// of reports whether a run has the attribute.
func (a *attribute) of(r *Run) bool {
	if name, ok := strings.CutPrefix(a.name, labelAttribute); ok {
		value, has := r.Labels[name]
		return has && value == a.value
	}
	switch Attribute(a.name) {
	case AttributeSource:
		return r.Source == a.value
	case AttributeConcurrencyKey:
		return r.ConcurrencyKey == a.value
	case AttributeIdempotencyKey:
		return r.IdempotencyKey == a.value
	case AttributeWorker:
		return r.WorkerID == a.value
	case AttributeOutcome:
		return r.Outcome == a.value
	}
	return r.Code == a.value
}

// Has lists only runs whose attribute has the given value. Several Has options must all match, up
// to 16.
func Has(name Attribute, value string) RunOption {
	return filterOf(func(o *listOptions) {
		a := attribute{string(name), value}
		if !a.known() {
			o.Fail(engine.Errorf(ErrInvalid,
				"action: unknown attribute %q of runs, expected one of source, concurrency_key, idempotency_key, worker, outcome, code or label.<name>",
				a.name))
		}
		if o.attributes = append(o.attributes, a); len(o.attributes) > maxAttributes {
			o.Fail(engine.Errorf(ErrInvalid, "action: %d attributes of a listing exceed %d", len(o.attributes), maxAttributes))
		}
	})
}

// InvokedBetween lists only runs invoked at or after from, and before to; the zero time.Time is no
// bound. Times of invocation have a resolution of 1 ms. If a bound lies within a millisecond, the
// runs of that millisecond are listed.
func InvokedBetween(from, to time.Time) RunOption {
	return filterOf(func(o *listOptions) {
		o.since, o.until = 0, 0
		if !from.IsZero() {
			o.since = engine.FloorMillis(from)
		}
		if !to.IsZero() {
			o.until = cmp.Or(engine.CeilMillis(to), -1) // 0 is no bound, and no run is older than 1970
		}
	})
}

// Get returns an action with the counts of its runs. Errors: ErrNotFound.
func (s *Store) Get(ctx context.Context, name string) (Info, error) {
	if err := checkAction(name); err != nil {
		return Info{}, err
	}
	parts, _, err := engine.AskAll(ctx, &s.scope, infoQuery{namespace: s.Namespace(), name: name})
	if err != nil {
		return Info{}, err
	}
	var all []shardInfo
	for _, p := range parts {
		if p.found {
			all = append(all, p.info)
		}
	}
	info, ok := merge(all)
	if !ok {
		return Info{}, notFound(name)
	}
	infos := []Info{info}
	err = s.countWorkers(ctx, infos)
	return infos[0], err
}

// Page returns a page of the actions of the namespace, ordered by name.
//
// Options: Limit, Cursor, Prefix. Errors: ErrInvalid for a limit that is not 1-1000, a prefix of
// more than 255 bytes, and a cursor that is not a name with the prefix.
func (s *Store) Page(ctx context.Context, opts ...ListOption) (page Page[Info], err error) {
	o, err := engine.ListingOf(opts)
	if err != nil {
		return page, err
	}
	parts, _, err := engine.AskAll(ctx, &s.scope, listQuery{namespace: s.Namespace(), prefix: o.Prefix, after: o.Cursor, limit: o.Limit})
	if err != nil {
		return page, err
	}
	found := func(q *listQuery) ([]shardInfo, bool, string) { return q.items, q.more, "" }
	page = engine.Merge(parts, o.Limit, found, func(i shardInfo) string { return i.Name }, merge)
	return page, s.countWorkers(ctx, page.Items)
}

// All iterates over the actions of the namespace, ordered by name. Each pair is an action and nil,
// or a zero Info and an error, after which iteration ends; nothing runs before the first step, and
// break or a done ctx releases everything.
//
// Options and errors are those of Page.
func (s *Store) All(ctx context.Context, opts ...ListOption) iter.Seq2[Info, error] {
	return engine.All(ctx, s.Page, opts)
}

// merge combines the shards' parts of an action. An action missing at its home was deleted there.
func merge(parts []shardInfo) (Info, bool) {
	home := slices.IndexFunc(parts, func(p shardInfo) bool { return p.home })
	if home < 0 {
		return Info{}, false
	}
	return sum(parts[home].Info, parts), true
}

// sum adds up the shards' run counts of an action.
func sum(info Info, parts []shardInfo) Info {
	var took []int64
	var high, low uint64 // ns: the total may exceed a time.Duration
	info.Runs, info.Latency = RunCounts{}, Latency{}
	for i := range parts {
		r, more := &info.Runs, &parts[i].Runs
		r.Total += more.Total
		r.Pending += more.Pending
		r.Running += more.Running
		r.Completed += more.Completed
		r.Failed += more.Failed
		r.Cancelled += more.Cancelled
		r.TimedOut += more.TimedOut
		info.Latency.Count += parts[i].Latency.Count
		h, l := bits.Mul64(uint64(parts[i].Latency.Average), uint64(parts[i].Latency.Count))
		low, l = bits.Add64(low, l, 0)
		high, _ = bits.Add64(high, h, l)
		took = append(took, parts[i].took...)
	}
	if n := info.Latency.Count; n > 0 {
		average, _ := bits.Div64(high, low, uint64(n))
		info.Latency.Average = time.Duration(average)
	}
	if n := len(took); n > 0 {
		slices.Sort(took)
		info.Latency.P99 = duration(took[(99*n+99)/100-1])
	}
	return info
}

// Runs gives access to the runs of a namespace.
type Runs struct{ store *Store }

// Runs returns the runs of the namespace.
func (s *Store) Runs() Runs { return Runs{s} }

// Page returns a page of the runs of an action, newest first. Without Of it lists the runs of all
// actions, ordered by action name; each page has runs of one action. A page ends early when its
// inputs and outputs exceed 4 MiB. Without Of, or with InState, Has or InvokedBetween, a page may
// be empty without being the last.
//
// Options: Limit, Cursor, Of, InState, Has, InvokedBetween. Errors: ErrNotFound if the action of Of
// does not exist; ErrInvalid for options out of range and for an invalid cursor.
func (l Runs) Page(ctx context.Context, opts ...RunOption) (page Page[Run], err error) {
	o := listOptions{Listing: engine.NewListing()}
	engine.Apply(&o, opts)
	if o.Err != nil {
		return page, o.Err
	}
	if o.action == "" {
		return l.pageOfAll(ctx, &o)
	}
	return l.page(ctx, &o)
}

// pageOfAll returns a page of the runs of all actions. Its cursor is the escaped name of an action,
// a slash, and the cursor of a page of that action, or "" after its last page.
func (l Runs) pageOfAll(ctx context.Context, o *listOptions) (page Page[Run], err error) {
	escaped, within, ok := strings.Cut(o.Cursor, "/")
	after, err := url.PathUnescape(escaped)
	if err != nil || ok && checkAction(after) != nil || !ok && o.Cursor != "" {
		return page, engine.BadCursor(o.Cursor)
	}
	more := true
	if o.action, o.Cursor = after, within; within == "" {
		next, err := l.store.Page(ctx, Limit(1), Cursor(after))
		if err != nil || len(next.Items) == 0 {
			return page, err
		}
		o.action, more = next.Items[0].Name, next.Cursor != ""
	}
	page, err = l.page(ctx, o)
	if errors.Is(err, ErrNotFound) { // deleted since
		page, err = Page[Run]{}, nil
	}
	if err == nil && (page.Cursor != "" || more) {
		page.Cursor = url.PathEscape(o.action) + "/" + page.Cursor
	}
	return page, err
}

func (l Runs) page(ctx context.Context, o *listOptions) (page Page[Run], err error) {
	scope := &l.store.scope
	shards, err := scope.Shards(ctx)
	if err != nil {
		return page, err
	}
	from, err := engine.ParsePositions(o.Cursor, shards, func(id string) (engine.ShardID, uint64, error) {
		p, err := RunID(id).parse()
		return p.shard, p.Run, err
	})
	if err != nil {
		return page, err
	}
	parts := make([]*runsQuery, len(shards))
	for i := range shards {
		parts[i] = &runsQuery{namespace: l.store.Namespace(), name: o.action, before: from[i], status: o.status, limit: o.Limit,
			maxBytes:   maxPageBytes,
			attributes: o.attributes, since: o.since, until: o.until}
	}
	if err := engine.FanOut(ctx, scope, shards, parts); err != nil {
		return page, err
	}
	if !slices.ContainsFunc(parts, func(q *runsQuery) bool { return q.found }) {
		return page, notFound(o.action)
	}
	found := func(q *runsQuery) ([]Run, uint64, bool) { return q.items, q.next, q.more }
	number := func(q *runsQuery, i int) uint64 {
		p, _ := q.items[i].ID.parse()
		return p.Run
	}
	return engine.MergeNewest(parts, from, o.Limit, found, func(r *Run) time.Time { return r.CreatedAt }, number), nil
}

// All iterates over the runs, in the order of Page and with the contract of Store.All. Options and
// errors are those of Page.
func (l Runs) All(ctx context.Context, opts ...RunOption) iter.Seq2[Run, error] {
	return engine.All(ctx, l.Page, opts)
}
