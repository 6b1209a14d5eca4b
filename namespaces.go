package floe

import (
	"context"
	"iter"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Namespaces creates and lists the namespaces of a node or cluster. The first write to a name also
// creates its namespace, without Spread. "default" always exists. Names that begin with "_" are
// reserved.
type Namespaces struct{ all engine.Namespaces }

// NamespaceOption is an option of Create.
type NamespaceOption interface{ applyNamespace(*namespaceOptions) }

type spreadOption struct{}

func (spreadOption) applyNamespace(o *namespaceOptions) { o.spread = true }

type namespaceOptions struct{ spread bool }

// Spread spreads the namespace over all shards by key, stream partition, queue and run, for data
// that outgrows one core or one leader. Transactions in it need names with a common {tag}.
func Spread() NamespaceOption { return spreadOption{} }

// NamespaceStats describes a namespace. Reading it scans nothing.
type NamespaceStats struct {
	Name      string
	Spread    bool // its contents are spread over all shards
	CreatedAt time.Time
	Counts    Counts
}

// Counts are the numbers of items in a namespace.
type Counts struct {
	Keys     int64 // KV: keys that exist
	KeyBytes int64 // KV: bytes of their keys and values
	// KV: total reads answered by the queried nodes; a node that is killed loses up to five minutes
	// of counts
	KeyReads     int64
	KeySets      int64 // KV: total values written
	KeyDeletes   int64 // KV: total keys deleted, not counting expired ones
	DeadKeys     int64 // KV: deleted and expired keys whose history is still kept
	Streams      int64
	Queues       int64
	Measurements int64 // of time series
	Series       int64 // of all measurements
	Points       int64 // of all series, see ts.Measurement
	Actions      int64
	Workflows    int64
	Jobs         int64 // stream-processing jobs that are not cancelled

	// Runs of workflows: those that have not ended, then totals: started, and ended by outcome.
	RunsActive, RunsStarted, RunsCompleted, RunsFailed, RunsCancelled, RunsTimedOut int64
	Signals                                                                         int64 // total signals received by workflow runs
	Timers                                                                          int64 // total timers of workflow runs that have fired
	Steps                                                                           int64 // total steps started by workflow runs
	// schedules of workflows that are neither paused nor disabled
	Schedules           int64
	CompensationsFailed int64 // total failed compensations of workflow runs
}

// Create creates a namespace.
//
// Options: Spread. Errors: ErrExists; ErrConflict if a deleted namespace of that name had the other
// placement; ErrInvalid for a name that is not 1-255 bytes of UTF-8 without control characters, or
// that begins with "_".
func (n *Namespaces) Create(ctx context.Context, name string, opts ...NamespaceOption) error {
	var o namespaceOptions
	opts, err := engine.Given(opts)
	if err != nil {
		return err
	}
	for _, opt := range opts {
		opt.applyNamespace(&o)
	}
	return n.all.Create(ctx, name, o.spread)
}

// Delete removes an empty namespace: one without keys, streams, queues, measurements, actions,
// workflows, active runs of workflows, or jobs that are not cancelled. Its remaining data is
// removed too: the history of keys, the runs of deleted workflows, cancelled jobs, the retention of
// measurements, the limit of series, and all counts.
//
// The first write to the name creates the namespace again, unless it was spread. A spread namespace
// must be recreated with Create; until then, writes fail with ErrNotFound. A name can only be
// recreated with its earlier placement. It still counts towards the 100,000 namespaces of a shard.
// After ErrUnknownOutcome or a ctx error, some shards of a spread namespace may refuse writes:
// repeat the call, or call Create. If the namespace is written to during the removal, Delete fails
// with ErrConflict, and the data removed so far stays removed.
//
// Errors: ErrNotFound; ErrConflict, which lists the contents of the namespace; ErrInvalid for
// "default", which always exists, and for names that begin with "_".
func (n *Namespaces) Delete(ctx context.Context, name string) error { return n.all.Delete(ctx, name) }

// Get returns the stats of a namespace, with counts summed over its shards. Errors: ErrNotFound;
// ErrInvalid for a malformed name.
func (n *Namespaces) Get(ctx context.Context, name string) (NamespaceStats, error) {
	info, err := n.all.Get(ctx, name)
	return newNamespaceStats(info), err
}

// Page returns a page of the namespaces, in order of their names.
//
// Options: Limit, Cursor, Prefix. Errors: ErrInvalid for a limit that is not 1-1000, a prefix of
// more than 255 bytes, and a cursor that is not a name with the prefix.
func (n *Namespaces) Page(ctx context.Context, opts ...ListOption) (page Page[NamespaceStats], err error) {
	l, err := engine.ListingOf(opts)
	if err != nil {
		return page, err
	}
	infos, err := n.all.Page(ctx, l)
	if err != nil {
		return page, err
	}
	for _, info := range infos.Items {
		page.Items = append(page.Items, newNamespaceStats(info))
	}
	page.Cursor = infos.Cursor
	return page, nil
}

// All iterates over the namespaces, in order of their names. Each pair is a namespace and nil, or a
// zero NamespaceStats and an error, after which iteration ends; nothing runs before the first step,
// and break or a done ctx releases everything.
//
// Options and errors are those of Page.
func (n *Namespaces) All(ctx context.Context, opts ...ListOption) iter.Seq2[NamespaceStats, error] {
	return engine.All(ctx, n.Page, opts)
}

func newNamespaceStats(info engine.NamespaceInfo) NamespaceStats {
	return NamespaceStats{Name: info.Name, Spread: info.Spread, CreatedAt: info.CreatedAt, Counts: Counts(info.Counts)}
}
