package workflow

import (
	"context"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
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
	listOption = engine.ListOption
	pageOption = engine.PageOption
	runOption  = engine.WorkflowRunOption
)

type listOptions struct {
	engine.Listing
	filter filter
}

// Limit sets the maximum number of items per page, 1 to 1000; the default is 100. Iterators read
// pages of this size.
func Limit(n int) PageOption { return engine.Limit(n) }

// Cursor continues a listing after an earlier page, with that page's Cursor. Unless the namespace
// is spread, it also accepts the id of a run, if floe assigned it, and continues after that run.
// Items created or removed meanwhile may or may not appear, depending on their position; no other
// item is skipped or repeated.
func Cursor(c string) PageOption { return engine.Cursor(c) }

// Prefix lists only workflows whose names begin with p.
func Prefix(p string) ListOption { return engine.Prefix(p) }

func filterOf(f func(*listOptions)) RunOption {
	return struct {
		engine.Filter
		engine.OfWorkflowRuns
	}{Filter: engine.FilterOf(f)}
}

// Of lists only the runs of a workflow, including those of deleted workflows with the same name.
func Of(workflow string) RunOption {
	return filterOf(func(o *listOptions) {
		o.filter.workflow = workflow
		if err := checkWorkflow(workflow); err != nil {
			o.Fail(err)
		}
	})
}

// InState lists only the runs in a state.
func InState(s Status) RunOption {
	return filterOf(func(o *listOptions) {
		if o.filter.status = s; s < Pending || s > TimedOut {
			o.Fail(engine.Errorf(ErrInvalid, "workflow: unknown run state %d", s))
		}
	})
}

// Active lists only runs that have not ended.
func Active() RunOption { return filterOf(func(o *listOptions) { o.filter.active = true }) }

// Has lists only runs whose search attribute has the given value: a string, a number or a
// time.Time. Several Has options must all match, up to 32.
func Has(attribute string, value any) RunOption {
	return filterOf(func(o *listOptions) {
		switch v := value.(type) {
		case string, float64:
		case int:
			value = float64(v)
		case int64:
			value = float64(v)
		case time.Time:
		default:
			o.Fail(engine.Errorf(ErrInvalid, "workflow: search attribute %q: a %T is not a string, number or time", attribute, value))
			return
		}
		if o.filter.attributes = append(o.filter.attributes,
			string(appendAttribute(nil, attribute, value))); len(o.filter.attributes) > flow.MaxAttributes {
			o.Fail(engine.Errorf(ErrInvalid, "workflow: %d attributes of a listing exceed %d", len(o.filter.attributes),
				flow.MaxAttributes))
		}
	})
}

// AttributeValue parses text as the value of a search attribute for Has: a number, a time in RFC
// 3339, or else a string. Quotes make any text a string.
func AttributeValue(text string) any {
	if n, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
		return n
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t
	}
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		return text[1 : len(text)-1]
	}
	return text
}

// StartedBetween lists only runs started at or after from, and before to; the zero time.Time is no
// bound. Start times have a resolution of 1 ms. If a bound lies within a millisecond, the runs of
// that millisecond are listed.
func StartedBetween(from, to time.Time) RunOption {
	return filterOf(func(o *listOptions) {
		if !from.IsZero() {
			o.filter.after = engine.FloorMillis(from)
		}
		if !to.IsZero() {
			o.filter.before = engine.CeilMillis(to)
		}
	})
}

// Get returns a workflow with the counts of its runs and the state of its trigger. Errors:
// ErrNotFound.
func (s *Store) Get(ctx context.Context, name string) (Info, error) {
	if err := checkWorkflow(name); err != nil {
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
	if info.Trigger != nil {
		home := slices.IndexFunc(all, func(i shardInfo) bool { return i.home })
		err = s.standing(ctx, name, info.Trigger, all[home].triggered)
	}
	return info, err
}

// Page returns a page of the workflows of the namespace, ordered by name.
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
	return engine.Merge(parts, o.Limit, found, func(i shardInfo) string { return i.Name }, merge), nil
}

// All iterates over the workflows of the namespace, ordered by name. Each pair is a workflow and
// nil, or a zero Info and an error, after which iteration ends; nothing runs before the first step,
// and break or a done ctx releases everything.
//
// Options and errors are those of Page.
func (s *Store) All(ctx context.Context, opts ...ListOption) iter.Seq2[Info, error] {
	return engine.All(ctx, s.Page, opts)
}

// merge combines the shards' parts of a workflow. A workflow missing at its home was deleted there.
func merge(parts []shardInfo) (Info, bool) {
	home := slices.IndexFunc(parts, func(p shardInfo) bool { return p.home })
	if home < 0 {
		return Info{}, false
	}
	return sum(parts[home].Info, parts), true
}

// sum adds up the shards' run counts of a workflow.
func sum(info Info, parts []shardInfo) Info {
	info.Runs = RunCounts{}
	for i := range parts {
		r, more := &info.Runs, &parts[i].Runs
		r.Total += more.Total
		r.Active += more.Active
		r.Completed += more.Completed
		r.Failed += more.Failed
		r.Cancelled += more.Cancelled
		r.TimedOut += more.TimedOut
	}
	return info
}

// Runs gives access to the runs of a namespace.
type Runs struct{ store *Store }

// Runs returns the runs of the namespace.
func (s *Store) Runs() Runs { return Runs{s} }

// Page returns a page of the runs, newest first. A page with filters may be empty without being the
// last.
//
// Options: Limit, Cursor, Of, InState, Active, Has, StartedBetween. Errors: ErrInvalid for options
// out of range and for an invalid cursor.
func (l Runs) Page(ctx context.Context, opts ...RunOption) (page Page[RunInfo], err error) {
	o := listOptions{Listing: engine.NewListing(), filter: filter{before: math.MaxInt64}}
	engine.Apply(&o, opts)
	if o.Err != nil {
		return page, o.Err
	}
	scope := &l.store.scope
	shards, err := scope.Shards(ctx)
	if err != nil {
		return page, err
	}
	from, err := engine.ParsePositions(o.Cursor, shards, func(id string) (engine.ShardID, uint64, error) {
		p, err := RunID(id).parse()
		return p.shard, p.run, err
	})
	if err != nil {
		return page, err
	}
	parts := make([]*runsQuery, len(shards))
	for i := range shards {
		parts[i] = &runsQuery{namespace: l.store.Namespace(), filter: o.filter, before: from[i], limit: o.Limit}
	}
	if err := engine.FanOut(ctx, scope, shards, parts); err != nil {
		return page, err
	}
	found := func(q *runsQuery) ([]RunInfo, uint64, bool) { return q.items, q.next, q.more }
	number := func(q *runsQuery, i int) uint64 { return q.numbers[i] }
	return engine.MergeNewest(parts, from, o.Limit, found, func(r *RunInfo) time.Time { return r.StartedAt }, number), nil
}

// All iterates over the runs, in the order of Page and with the contract of Store.All. Options and
// errors are those of Page.
func (l Runs) All(ctx context.Context, opts ...RunOption) iter.Seq2[RunInfo, error] {
	return engine.All(ctx, l.Page, opts)
}

// History is the history of a run.
type History struct {
	store *Store
	run   RunID
}

// History returns the history of a run.
func (s *Store) History(run RunID) History { return History{s, run} }

// historyCursor is the position after which a page of events begins.
type historyCursor struct {
	lsn  uint64
	skip int
}

func (h *historyCursor) code(c *codec.Coder) {
	c.Uvarint(&h.lsn)
	c.Int(&h.skip)
}

// Page returns a page of the events of the run, oldest first.
//
// Options: Limit, Cursor. Errors: ErrNotFound if there is no such run; ErrInvalid for a limit that
// is not 1-1000, an invalid cursor or an invalid id.
func (h History) Page(ctx context.Context, opts ...PageOption) (page Page[Event], err error) {
	o, err := engine.PageOf(opts)
	if err != nil {
		return page, err
	}
	t, err := h.store.aim(h.run)
	if err != nil {
		return page, err
	}
	var at historyCursor
	if o.Cursor != "" {
		if at, err = engine.DecodeCursor(o.Cursor, (*historyCursor).code); err != nil {
			return page, err
		}
	}
	q := historyQuery{namespace: h.store.Namespace(), target: t, lsn: at.lsn, skip: at.skip, limit: o.Limit}
	if err := h.store.ask(ctx, h.run, &q); err != nil {
		return page, err
	}
	if !q.found {
		return page, noRun(h.run)
	}
	if page.Items = q.items; q.more {
		page.Cursor = engine.EncodeCursor(historyCursor{q.next, q.nextSkip}, (*historyCursor).code)
	}
	return page, nil
}

// All iterates over the events of the run, in the order of Page and with the contract of Store.All.
// Options and errors are those of Page.
func (h History) All(ctx context.Context, opts ...PageOption) iter.Seq2[Event, error] {
	return engine.All(ctx, h.Page, opts)
}
