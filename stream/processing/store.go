package processing

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Store holds the jobs of one namespace. It is cheap to make, safe for concurrent use and needs no
// Close.
type Store struct{ scope engine.Scope }

func newStore(s engine.Scope) *Store { return &Store{s} }

// Namespace returns the namespace of the store.
func (s *Store) Namespace() string { return s.scope.Namespace() }

// Submitted is the result of a submission.
type Submitted struct {
	Job    JobID
	Name   string
	Status Status // Running
	LSN    uint64 // log sequence number of the call
}

// Submit creates a job from a definition in YAML or JSON, see the package's documentation, and runs
// it. Names need not be unique. When Submit returns nil the job is committed (see
// floe.Config.Durability). After a ctx error or ErrUnknownOutcome the job may or may not exist.
//
// Errors: *DefinitionError, which is ErrInvalid, for a definition with errors; ErrInvalid if it
// exceeds MaxDefinition bytes, is for another namespace, or has a sink or lookup in a namespace
// that the job cannot reach.
func (s *Store) Submit(ctx context.Context, definition []byte) (Submitted, error) {
	return s.submit(ctx, definition, false)
}

// submit is Submit. With only, it returns ErrConflict if a job with the name exists and is not
// cancelled.
func (s *Store) submit(ctx context.Context, definition []byte, only bool) (Submitted, error) {
	p, err := s.parse(definition)
	if err != nil {
		return Submitted{}, err
	}
	if err := s.check(ctx, p); err != nil {
		return Submitted{}, err
	}
	b := p.body(definition)
	b.numbers, b.only = numberAll(p.parts), only
	res, err := submit.Do(ctx, &s.scope, b.name, b, nil)
	if err != nil {
		return Submitted{}, err
	}
	id := jobID(res.created, res.job)
	return Submitted{id, b.name, Running, res.lsn}, s.heard(ctx, id)
}

// parse parses a definition for the namespace.
func (s *Store) parse(definition []byte) (*parsed, error) {
	p, err := parse(definition)
	if err != nil {
		return nil, err
	}
	return p, p.isFor(s.Namespace())
}

// isFor returns ErrInvalid if the definition names another namespace than the one it is submitted
// to, or would read there what it writes.
func (p *parsed) isFor(namespace string) error {
	if ns := p.job.Namespace; ns != "" && ns != namespace {
		return engine.Errorf(ErrInvalid, "job %q is for namespace %q, not %q", p.job.Name, ns, namespace)
	}
	return checkLoops(p.job, namespace)
}

// check rejects sinks and lookups in other namespaces that a job of the namespace cannot reach.
func (s *Store) check(ctx context.Context, p *parsed) error {
	own, err := s.scope.Spread(ctx)
	if err != nil {
		return err
	}
	if own {
		p.spread()
	}
	job := p.job
	for i := range job.Sinks {
		k := &job.Sinks[i]
		if k.Namespace == "" || k.Namespace == s.Namespace() {
			continue
		}
		if spread, err := s.scope.SpreadOf(ctx, k.Namespace); err != nil {
			return err
		} else if spread {
			return engine.Errorf(ErrInvalid,
				"sink %q: namespace %q is spread over all shards: a job writes only to its own namespace and those in one shard",
				k.Name, k.Namespace)
		}
	}
	shards := s.scope.NodeShards()
	for i := range job.Operators {
		o := &job.Operators[i]
		if o.Lookup == "" || o.Lookup == s.Namespace() {
			continue
		}
		if own {
			if spread, err := s.scope.SpreadOf(ctx, o.Lookup); err != nil {
				return err
			} else if spread {
				return engine.Errorf(ErrInvalid,
					"operator %q: namespace %q is spread over all shards: a job reads only its own namespace and those in one shard",
					o.Name, o.Lookup)
			}
			continue
		}
		if engine.HomeShard(o.Lookup, shards) != engine.HomeShard(s.Namespace(), shards) {
			return engine.Errorf(ErrInvalid,
				"operator %q: namespace %q is in another shard than the job: lookups read only the shard of the job", o.Name,
				o.Lookup)
		}
	}
	return nil
}

// body returns a submission of the definition, without the numbers of its parts.
func (p *parsed) body(source []byte) submitBody {
	return submitBody{name: p.job.Name, parallelism: p.job.Parallelism, batch: p.job.BatchSize, source: source}
}

// DefinitionNamespace returns the namespace that a definition names, or "" if it names none.
// Errors: *DefinitionError.
func DefinitionNamespace(definition []byte) (string, error) {
	p, err := parse(definition)
	if err != nil {
		return "", err
	}
	return p.job.Namespace, nil
}

// Locate returns the namespace of a job, regardless of the store's namespace. With an API key for
// some namespaces, it does not find jobs in others. Errors: ErrNotFound; ErrInvalid for a malformed
// id.
func (s *Store) Locate(ctx context.Context, id JobID) (string, error) {
	q, err := s.query(ctx, id, "")
	return q.namespace, err
}

// Detail is a job with its definition and savepoints.
type Detail struct {
	Job
	Definition []byte      // as submitted or last restored
	Savepoints []Savepoint // oldest first
}

// Get returns a job with its definition and savepoints. Errors: ErrNotFound; ErrInvalid for a
// malformed id.
func (s *Store) Get(ctx context.Context, id JobID) (Detail, error) {
	q, err := s.query(ctx, id, s.Namespace())
	if err != nil {
		return Detail{}, err
	}
	jobs := []Job{q.job}
	err = s.gather(ctx, jobs)
	return Detail{jobs[0], q.source, q.savepoints}, err
}

func (s *Store) query(ctx context.Context, id JobID, namespace string) (*jobQuery, error) {
	q := &jobQuery{namespace: namespace}
	var err error
	if q.created, q.ref, err = id.parse(); err != nil {
		return q, err
	}
	if int(q.ref.shard) >= s.scope.NodeShards() {
		return q, notFound(id)
	}
	if err := s.scope.QueryShard(ctx, engine.ShardID(q.ref.shard), q); err != nil {
		return q, err
	}
	if !q.found {
		return q, notFound(id)
	}
	return q, nil
}

// Page is one page of a listing. All packages of floe use the same type.
type Page[T any] = struct {
	Items  []T
	Cursor string // where the next page begins, for the option Cursor; "" on the last page
}

// ListOption is an option of a listing of jobs.
type ListOption interface{ jobOption }

// PageOption is an option of every listing of floe: Limit or Cursor.
type PageOption interface{ pageOption }

type (
	jobOption  = engine.JobOption
	pageOption = engine.PageOption
)

type listOptions struct {
	engine.Listing
	status Status
	name   string
}

func filterOf(f func(*listOptions)) ListOption {
	return struct {
		engine.Filter
		engine.OfJobs
	}{Filter: engine.FilterOf(f)}
}

// Limit sets the maximum number of items on a page, 1 to 1000; the default is 100. Iterators read
// pages of this size.
func Limit(n int) PageOption { return engine.Limit(n) }

// Cursor continues a listing after an earlier page, with that page's Cursor.
func Cursor(c string) PageOption { return engine.Cursor(c) }

// Prefix lists only jobs whose names have the prefix p.
func Prefix(p string) ListOption { return engine.Prefix(p) }

// Named lists only jobs with the given name.
func Named(name string) ListOption {
	return filterOf(func(o *listOptions) { o.name, o.Prefix = name, name })
}

// InState lists only jobs in the given state.
func InState(status Status) ListOption {
	return filterOf(func(o *listOptions) {
		if o.status = status; status > Completed {
			o.Fail(engine.Errorf(ErrInvalid, "processing: unknown state %d", status))
		}
	})
}

// Page returns a page of the jobs of the namespace, in order of their names; jobs of the same name
// are in order of submission. With filters a page may be empty although more follow.
//
// Options: Limit, Cursor, Prefix, Named, InState. Errors: ErrInvalid for options out of range and
// for a malformed cursor.
func (s *Store) Page(ctx context.Context, opts ...ListOption) (page Page[Job], err error) {
	o := listOptions{Listing: engine.NewListing()}
	engine.Apply(&o, opts)
	if err := cmp.Or(o.Err, engine.CheckPrefix(o.Prefix, engine.MaxNameBytes)); err != nil {
		return page, err
	}
	q := jobsQuery{namespace: s.Namespace(), prefix: o.Prefix, exact: o.name != "", status: o.status, limit: o.Limit}
	if q.after, err = parseCursor(o.Cursor); err != nil {
		return page, err
	}
	parts, _, err := engine.AskAll(ctx, &s.scope, q)
	if err != nil {
		return page, err
	}
	found := func(q *jobsQuery) ([]Job, bool, string) { return q.jobs, q.more, string(q.last) }
	place := func(j Job) string { // as in the rows of names
		_, r, _ := j.ID.parse()
		return string(r.append(append([]byte(j.Name), 0)))
	}
	page = engine.Merge(parts, o.Limit, found, place, engine.First)
	page.Cursor = formatCursor([]byte(page.Cursor))
	return page, s.gather(ctx, page.Items)
}

// All iterates over the jobs of the namespace in the order of Page. Each pair is a job and nil, or
// a zero Job and an error, after which iteration ends; nothing runs before the first step, and
// break or a done ctx releases everything.
//
// Options and errors are those of Page.
func (s *Store) All(ctx context.Context, opts ...ListOption) iter.Seq2[Job, error] {
	return engine.All(ctx, s.Page, opts)
}

// Stop stops a job, which can be restored later. When Stop returns, each record has been processed
// completely or not at all. A job that is already stopped does not change. Writes already sent to
// other shards arrive later. Metrics.Backlog is 0 once all of them have arrived; until then
// RecordsOut does not count them. Stop does not wait for them, because a full queue may hold them
// up forever.
//
// Errors: ErrNotFound; ErrConflict if the job has failed, is completed or cancelled; ErrBusy while
// it is being restored in a namespace that is spread over all shards.
func (s *Store) Stop(ctx context.Context, id JobID) (Status, error) {
	res, err := s.change(ctx, stop, id, 0)
	return res.status, err
}

// Cancel ends a job permanently and drops its state. The job stays listed for seven days. A job
// that is already cancelled does not change.
//
// Errors: ErrNotFound.
func (s *Store) Cancel(ctx context.Context, id JobID) (Status, error) {
	res, err := s.change(ctx, cancel, id, 0)
	return res.status, err
}

// Rescale sets the number of processors that a tick may use, 1 to MaxParallelism. Results do not
// depend on it.
//
// Errors: ErrNotFound; ErrInvalid for another number; ErrConflict if the job is cancelled.
func (s *Store) Rescale(ctx context.Context, id JobID, parallelism int) error {
	_, err := s.change(ctx, rescale, id, int64(parallelism))
	return err
}

// AwaitSavepoint waits until a savepoint is complete and returns it. Errors: ErrNotFound; ctx's
// error.
func (s *Store) AwaitSavepoint(ctx context.Context, id JobID, savepoint SavepointID) (Savepoint, error) {
	_, r, err := savepoint.parse()
	if err != nil {
		return Savepoint{}, err
	}
	q := &jobQuery{namespace: s.Namespace(), wait: r.number}
	if q.created, q.ref, err = id.parse(); err != nil {
		return Savepoint{}, err
	}
	if int(q.ref.shard) >= s.scope.NodeShards() {
		return Savepoint{}, notFound(id)
	}
	if err := s.scope.QueryShard(ctx, engine.ShardID(q.ref.shard), q); err != nil {
		return Savepoint{}, err
	}
	if !q.found {
		return Savepoint{}, notFound(id)
	}
	return q.savepoint(savepoint)
}

func (s *Store) change(ctx context.Context, row *engine.CommandRow[*work, jobBody, changed], id JobID, n int64) (changed, error) {
	created, r, err := id.parse()
	if err != nil {
		return changed{}, err
	}
	if int(r.shard) >= s.scope.NodeShards() {
		return changed{}, notFound(id)
	}
	of := target{r, created}
	res, err := engine.Propose(ctx, &s.scope, atJob(row, of, jobBody{of, n}), row.Decode)
	if err == nil {
		err = s.heard(ctx, id)
	}
	return res, err
}

// RestoreOption is an option of Restore.
type RestoreOption interface{ applyRestore(*restoreOptions) }

type restoreOption func(*restoreOptions)

func (f restoreOption) applyRestore(o *restoreOptions) { f(o) }

type restoreOptions struct {
	err        error
	savepoint  SavepointID
	definition []byte
	drop       bool
	anew       []string // sources
}

// FromSavepoint restores the state of a savepoint: results written after it are written again.
// Without it a job continues where it was.
func FromSavepoint(id SavepointID) RestoreOption {
	return restoreOption(func(o *restoreOptions) { o.savepoint = id })
}

// ReplaceDefinition replaces the definition of the job. Sources and operators whose name and shape
// have not changed keep their state; see Plan.
func ReplaceDefinition(definition []byte) RestoreOption {
	return restoreOption(func(o *restoreOptions) { o.definition = definition })
}

// DropState allows a new definition to drop state.
func DropState() RestoreOption { return restoreOption(func(o *restoreOptions) { o.drop = true }) }

// RestartSource restarts a source, given by its name, at the start position of its definition. Its
// cursors are dropped; the state of operators is kept. Use it for a source whose stream was deleted
// and recreated. It cannot be combined with FromSavepoint: restore the savepoint first.
func RestartSource(name string) RestoreOption {
	return restoreOption(func(o *restoreOptions) { o.anew = append(o.anew, name) })
}

// Restore resumes a job that is not running. With a savepoint the job gets the savepoint's state,
// and takes a moment until it runs. If none of its sources continues where it was, event time is
// reset.
//
// Options: FromSavepoint, ReplaceDefinition, DropState, RestartSource. Errors: ErrNotFound for job
// and savepoint; ErrConflict if the job runs or is cancelled, or if state would be lost without
// DropState; ErrBusy while a savepoint is being made in a namespace that is spread over all shards;
// those of Submit.
func (s *Store) Restore(ctx context.Context, id JobID, opts ...RestoreOption) (Status, error) {
	for try := 0; ; try++ {
		cmd, p, err := s.restoring(ctx, id, opts)
		if err != nil {
			return 0, err
		}
		if o := restoreOptionsOf(opts); p.Drops() && !o.drop {
			return 0, lost(id, &p)
		}
		res, err := engine.Propose(ctx, &s.scope, atJob(restore, cmd.target, *cmd), restore.Decode)
		if o := restoreOptionsOf(opts); err == nil && len(o.anew) > 0 && o.definition == nil && cmd.parallelism != p.parallelism {
			return res.status, s.Rescale(ctx, id, p.parallelism) // its old value
		}
		if err == nil {
			return res.status, s.heard(ctx, id)
		}
		if !errors.Is(err, ErrConflict) || try == 3 {
			return res.status, err
		}
	}
}

// Plan returns the state that Restore with the same options would keep and drop. Errors: those of
// Restore.
func (s *Store) Plan(ctx context.Context, id JobID, opts ...RestoreOption) (Plan, error) {
	_, p, err := s.restoring(ctx, id, opts)
	return p, err
}

func restoreOptionsOf(opts []RestoreOption) (o restoreOptions) {
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyRestore(&o)
	}
	return o
}

// restoring returns the command that restores a job, and the plan.
func (s *Store) restoring(ctx context.Context, id JobID, opts []RestoreOption) (*restoreBody, Plan, error) {
	o := restoreOptionsOf(opts)
	if o.err != nil {
		return nil, Plan{}, o.err
	}
	q, err := s.query(ctx, id, s.Namespace())
	if err != nil {
		return nil, Plan{}, err
	}
	cmd := &restoreBody{target: target{q.ref, q.created}, revision: q.revision}
	was := q.numbers
	if o.savepoint != "" {
		_, r, err := o.savepoint.parse()
		if err != nil {
			return nil, Plan{}, err
		}
		i := slices.IndexFunc(q.savepoints, func(sp Savepoint) bool { return sp.ID == o.savepoint && sp.Complete })
		if i < 0 {
			return nil, Plan{}, engine.Errorf(ErrNotFound, "job %s has no complete savepoint %s", id, o.savepoint)
		}
		cmd.savepoint, was = r.number, q.saved[i]
	}
	is, current, definition := q.numbers, q.numbers, o.definition
	if len(o.anew) > 0 {
		if o.savepoint != "" {
			return nil, Plan{}, engine.Errorf(ErrInvalid, "processing: RestartSource and FromSavepoint exclude each other")
		}
		if definition == nil {
			definition = q.source
		}
	}
	if definition != nil {
		p, err := s.parse(definition)
		if err == nil && p.job.Name != q.job.Name {
			err = otherName(id, q.job.Name, p.job.Name)
		}
		if err == nil {
			err = s.check(ctx, p)
		}
		if err != nil {
			return nil, Plan{}, err
		}
		cmd.edited, cmd.submitBody, is = true, p.body(definition), p.parts
	}
	if was, current, err = restarted(o.anew, is, was, current); err != nil {
		return nil, Plan{}, err
	}
	p := plan(was, is, current, q.last)
	p.parallelism = q.job.Parallelism
	if o.definition != nil {
		p.Notes = notes(q.source, o.definition, &p)
	}
	cmd.numbers, cmd.last = p.numbers, p.last
	return cmd, p, nil
}

func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
