package action

import (
	"cmp"
	"context"
	"encoding/base32"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workers"
)

// Page is a part of a listing, in its order, the same type in all packages of floe.
type Page[T any] = struct {
	Items  []T
	Cursor string // where the next page begins, for the option Cursor; "" if this is the last one
}

// MaxPageItems is how many items a page may hold.
const MaxPageItems = engine.MaxPageItems

// ListOption says which actions a Store lists.
type ListOption interface{ applyList(*listOptions) }

// RunOption says which runs of an action are listed.
type RunOption interface{ applyRuns(*listOptions) }

type listOptions struct {
	workers workers.Filter
	engine.Listing
	status     Status
	attributes []attribute
	since      int64 // ms; 0: no bound
	until      int64 // likewise
	err        error
}

func (o *listOptions) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// PageOption is an option of every listing.
type PageOption struct{ set func(*listOptions) }

func (p PageOption) applyList(o *listOptions) { p.apply(o) }
func (p PageOption) applyRuns(o *listOptions) { p.apply(o) }

func (p PageOption) apply(o *listOptions) {
	if p.set == nil {
		o.err = engine.Errorf(ErrInvalid, "action: an option that no function of the package made")
		return
	}
	p.set(o)
}

// Limit sets how many items a page holds at most, 1 to 1000; the default is 100. Iterators read pages of this size.
func Limit(n int) PageOption {
	return PageOption{func(o *listOptions) {
		if o.Limit = n; engine.CheckLimit("action", n) != nil {
			o.fail(engine.CheckLimit("action", n))
		}
	}}
}

// Cursor continues a listing behind an earlier page, with its Cursor; behind a run with its id, unless the namespace is spread. What has come or gone meanwhile shows or not, depending on where it is; all
// else is neither skipped nor repeated.
func Cursor(c string) PageOption { return PageOption{func(o *listOptions) { o.Cursor = c }} }

type prefixOption string

func (p prefixOption) applyList(o *listOptions) { o.Prefix = string(p) }

// Prefix lists only actions whose names begin with p.
func Prefix(p string) ListOption { return prefixOption(p) }

type statusOption Status

func (s statusOption) applyRuns(o *listOptions) {
	if o.status = Status(s); o.status < Pending || o.status > TimedOut {
		o.fail(engine.Errorf(ErrInvalid, "action: no runs are in state %d", o.status))
	}
}

// InState lists only runs in a state.
func InState(s Status) RunOption { return statusOption(s) }

// Attribute is something of runs by which they are listed, see With.
type Attribute string

// The attributes of runs. A label has the name of Label.
const (
	AttributeSource         Attribute = "source"
	AttributeConcurrencyKey Attribute = "concurrency_key"
	AttributeIdempotencyKey Attribute = "idempotency_key"
	AttributeWorker         Attribute = "worker"
	AttributeOutcome        Attribute = "outcome"
	AttributeCode           Attribute = "code"
)

const labelAttribute = "label."

// Label returns the attribute of runs that is a label which they ask for.
func Label(name string) Attribute { return labelAttribute + Attribute(name) }

// maxAttributes is how many attributes one listing asks for.
const maxAttributes = 16

// attribute is what runs that are listed have.
type attribute struct{ name, value string }

func (a *attribute) code(f *codec.Fields) {
	f.Text("name", &a.name)
	if codeBlob(f, "value", &a.value, codec.Range{}); f.Checking() && !a.known() {
		f.Refuse(engine.Errorf(ErrInvalid, "action: runs have no attribute %q", a.name))
	}
}

// known reports whether there is such an attribute.
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

// of reports whether a run has it.
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

type runOption func(*listOptions)

func (f runOption) applyRuns(o *listOptions) { f(o) }

// With lists only runs whose attribute has a value; given several times, those that have all of them, up to 16.
func With(name Attribute, value string) RunOption {
	return runOption(func(o *listOptions) {
		a := attribute{string(name), value}
		if !a.known() {
			o.fail(engine.Errorf(ErrInvalid, "action: runs have no attribute %q: source, concurrency_key, idempotency_key, worker, outcome, code or label.<name>", a.name))
		}
		if o.attributes = append(o.attributes, a); len(o.attributes) > maxAttributes {
			o.fail(engine.Errorf(ErrInvalid, "action: %d attributes of a listing exceed %d", len(o.attributes), maxAttributes))
		}
	})
}

// InvokedBetween lists only runs that were invoked at a time or after, and before another one; the zero time.Time is no bound. Runs are known by the ms of their
// invocation: those of the ms of a bound that is within one are listed.
func InvokedBetween(from, to time.Time) RunOption {
	return runOption(func(o *listOptions) {
		o.since, o.until = 0, 0
		if !from.IsZero() {
			o.since = engine.FloorMillis(from)
		}
		if !to.IsZero() {
			o.until = cmp.Or(engine.CeilMillis(to), -1) // 0 is no bound, and nothing was invoked before 1970
		}
	})
}

// Action returns an action with what has become of its runs. Errors: ErrNotFound.
func (s *Store) Action(ctx context.Context, name string) (Info, error) {
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
	infos := merge(all)
	if len(infos) == 0 {
		return Info{}, notFound(name)
	}
	return infos[0], s.countWorkers(ctx, infos)
}

// Page returns a page of the actions of the namespace, in order of their names.
//
// Options: Limit, Cursor, Prefix. Errors: ErrInvalid for a limit that is not 1-1000, a prefix of more than 255 bytes, and a cursor that is no name with
// the prefix.
func (s *Store) Page(ctx context.Context, opts ...ListOption) (page Page[Info], err error) {
	o := listOptions{Listing: engine.NewListing()}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyList(&o)
	}
	if err := cmp.Or(o.err, o.Check("action")); err != nil {
		return page, err
	}
	parts, _, err := engine.AskAll(ctx, &s.scope, listQuery{namespace: s.Namespace(), prefix: o.Prefix, after: o.Cursor, limit: o.Limit})
	if err != nil {
		return page, err
	}
	// What a shard that has more has not told is behind the last one that it has.
	var all []shardInfo
	last := ""
	for i, p := range parts {
		all = append(all, p.items...)
		if p.more && (last == "" || p.items[len(p.items)-1].Name < last) {
			last = parts[i].items[len(p.items)-1].Name
		}
	}
	all = slices.DeleteFunc(all, func(i shardInfo) bool { return last != "" && i.Name > last })
	page.Items = merge(all)
	if page.Cursor = last; len(page.Items) > o.Limit {
		page.Items = page.Items[:o.Limit]
		page.Cursor = page.Items[o.Limit-1].Name
	}
	return page, s.countWorkers(ctx, page.Items)
}

// All iterates over the actions of the namespace, in order of their names. Each pair is an action and nil, or a zero Info and an error, after which
// iteration ends; nothing runs before the first step, and break or a done ctx releases everything.
//
// Options and errors are those of Page.
func (s *Store) All(ctx context.Context, opts ...ListOption) iter.Seq2[Info, error] {
	return engine.All(ctx, s.Page, opts, func(c string) ListOption { return Cursor(c) })
}

// merge puts together what shards have of actions, in order of their names. What only others than its home know has been deleted there.
func merge(parts []shardInfo) (infos []Info) {
	slices.SortFunc(parts, func(a, b shardInfo) int { return cmp.Compare(a.Name, b.Name) })
	for len(parts) > 0 {
		n := 1
		for n < len(parts) && parts[n].Name == parts[0].Name {
			n++
		}
		if i := slices.IndexFunc(parts[:n], func(p shardInfo) bool { return p.home }); i >= 0 {
			infos = append(infos, sum(parts[i].Info, parts[:n]))
		}
		parts = parts[n:]
	}
	return infos
}

// sum adds up what shards have of the runs of an action.
func sum(info Info, parts []shardInfo) Info {
	var took []int64
	var high, low uint64 // ns: all of them may be more than a time.Duration holds
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

// Runs are the runs of an action.
type Runs struct {
	store  *Store
	action string
}

// Runs returns what lists the runs of an action.
func (s *Store) Runs(action string) Runs { return Runs{s, action} }

// Page returns a page of the runs, the newest first. A page ends early when its inputs and outputs exceed 4 MiB; with InState, With and InvokedBetween it may be empty
// and not the last.
//
// Options: Limit, Cursor, InState, With, InvokedBetween. Errors: ErrNotFound if the action does not exist; ErrInvalid for options out of their limits and for what is no cursor.
func (l Runs) Page(ctx context.Context, opts ...RunOption) (page Page[Run], err error) {
	o := listOptions{Listing: engine.NewListing()}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyRuns(&o)
	}
	if err := cmp.Or(o.err, checkAction(l.action)); err != nil {
		return page, err
	}
	scope := &l.store.scope
	shards, err := scope.Shards(ctx)
	if err != nil {
		return page, err
	}
	at, err := parseCursor(o.Cursor, shards)
	if err != nil {
		return page, err
	}
	parts := make([]*runsQuery, len(shards))
	for i := range shards {
		parts[i] = &runsQuery{namespace: l.store.Namespace(), name: l.action, before: at.before[i], status: o.status, limit: o.Limit, maxBytes: maxPageBytes,
			attributes: o.attributes, since: o.since, until: o.until}
	}
	if err := engine.FanOut(ctx, scope, shards, parts); err != nil {
		return page, err
	}
	if !slices.ContainsFunc(parts, func(q *runsQuery) bool { return q.found }) {
		return page, notFound(l.action)
	}
	page.Items, page.Cursor = mergeRuns(parts, at, o.Limit)
	return page, nil
}

// All iterates over the runs, in the order of Page and by the contract of Store.All. Options and errors are those of Page.
func (l Runs) All(ctx context.Context, opts ...RunOption) iter.Seq2[Run, error] {
	return engine.All(ctx, l.Page, opts, func(c string) RunOption { return Cursor(c) })
}

// runsCursor says before which run each shard goes on.
type runsCursor struct{ before []uint64 }

func (r *runsCursor) code(c *codec.Coder) {
	codec.List(c, &r.before, func(c *codec.Coder, n *uint64) { c.Uvarint(n) })
}

// parseCursor reads a cursor. Where all runs are in one shard the id of the last run that was listed is one too.
func parseCursor(cursor string, shards []engine.ShardID) (at runsCursor, err error) {
	if cursor == "" {
		for range shards {
			at.before = append(at.before, math.MaxUint64)
		}
		return at, nil
	}
	if p, err := RunID(cursor).parse(); err == nil && len(shards) == 1 && p.shard == shards[0] {
		return runsCursor{[]uint64{p.Run}}, nil
	}
	b, err := cursorEncoding.DecodeString(cursor)
	if err == nil {
		at, err = decode(b, (*runsCursor).code)
	}
	if err != nil || len(at.before) != len(shards) {
		return at, engine.Errorf(ErrInvalid, "action: cursor %.64q is not one of this listing", cursor)
	}
	return at, nil
}

var cursorEncoding = base32.HexEncoding.WithPadding(base32.NoPadding)

// mergeRuns puts pages of shards together, up to a limit, and says where the next one begins, "" if there is none.
func mergeRuns(parts []*runsQuery, at runsCursor, limit int) (runs []Run, cursor string) {
	next := make([]int, len(parts))
	done := true
	for len(runs) < limit {
		best := -1
		for i, p := range parts {
			if next[i] == len(p.items) {
				if p.more {
					best = -1
					break // what it has more may be newer than what others have
				}
				continue
			}
			if best < 0 || p.items[next[i]].CreatedAt.After(parts[best].items[next[best]].CreatedAt) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		run := parts[best].items[next[best]]
		next[best]++
		runs = append(runs, run)
		p, _ := run.ID.parse()
		at.before[best] = p.Run
	}
	for i, p := range parts {
		if next[i] == len(p.items) && p.next != 0 {
			at.before[i] = p.next // what was looked at and not shown has another state
		}
		done = done && next[i] == len(p.items) && !p.more
	}
	if done {
		return runs, ""
	}
	return runs, cursorEncoding.EncodeToString(encode(nil, &at, (*runsCursor).code))
}
