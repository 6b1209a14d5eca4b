package action

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Kinds of queries; the numbers are part of the protocol between processes.
const (
	queryInfo uint8 = iota + 1
	queryList
	queryRun
	queryRuns
	queryHeartbeat
	querySchedule
	querySchedules
)

// maxPageBytes limits the inputs and outputs of a page of runs.
const maxPageBytes = 4 << 20

func (*infoQuery) Kind() uint8      { return queryInfo }
func (*listQuery) Kind() uint8      { return queryList }
func (*runQuery) Kind() uint8       { return queryRun }
func (*runsQuery) Kind() uint8      { return queryRuns }
func (*heartbeatQuery) Kind() uint8 { return queryHeartbeat }

func (q *infoQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("name", &q.name)
}

func (q *infoQuery) Results(f *codec.Fields) {
	if f.Found(&q.found) {
		q.info.code(f)
	}
	if f.More(q.revision > 0) {
		f.Uvarint("revision", &q.revision)
	}
}

func (q *listQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("prefix", &q.prefix)
	f.Text("after", &q.after)
	f.Int("limit", &q.limit, engine.PageLimit)
}

func (q *listQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "actions", &q.items, (*shardInfo).code)
	f.Bool("more", &q.more)
}

func (q *runQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	codeRef(&q.ref, f)
	f.Bool("wait", &q.wait)
}

func (q *runQuery) Results(f *codec.Fields) {
	if f.Found(&q.found) {
		codeRun(&q.run, f)
	}
}

func (q *runsQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("name", &q.name)
	f.Uvarint("before", &q.before)
	f.Int("limit", &q.limit, engine.PageLimit)
	f.Int("max_bytes", &q.maxBytes, codec.Range{Min: 1, Max: maxPageBytes})
	names := statusNames
	names[0] = "all"
	codec.Enum(f, "status", &q.status, names[:])
	if f.More(len(q.attributes) > 0 || q.since != 0 || q.until != 0) {
		codec.ListOf(f, "attributes", &q.attributes, (*attribute).code, codec.Range{Max: maxAttributes})
		f.Varint("since_ms", &q.since)
		f.Varint("until_ms", &q.until)
	}
}

func (q *runsQuery) Results(f *codec.Fields) {
	f.Found(&q.found)
	codec.ListOf(f, "runs", &q.items, codeRun)
	f.Uvarint("next", &q.next)
	f.Bool("more", &q.more)
}

func (q *heartbeatQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Uvarint("session", &q.session)
	codec.ListOf(f, "known", &q.known, codeRef, codec.Range{Max: maxHeld})
	f.Bool("census", &q.reconcile)
}

func (q *heartbeatQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "cancelled", &q.cancelled, codeRef)
	codec.ListOf(f, "held", &q.held, codeRef)
	f.SignedMillis("lease_ms", &q.lease)
	if c := f.Binary(); c != nil && (q.lease < 0 || q.lease > leaseMillis) {
		c.Fail("lease out of range")
	}
}

func (i *shardInfo) code(f *codec.Fields) {
	f.Text("name", &i.Name)
	f.Text("type", (*string)(&i.Type))
	codeBlob(f, "owner", &i.Owner, codec.Range{})
	codeBlob(f, "description", &i.Description, codec.Range{})
	f.Int("version", &i.Version)
	f.Int("max_attempts", &i.MaxAttempts)
	f.Int("retained_runs", &i.RetainRuns)
	f.Int("max_running", &i.MaxRunning)
	f.Int("max_running_per_key", &i.MaxRunningPerKey)
	f.Int("rate_limit", &i.Rate.Limit)
	f.Int("rate_burst", &i.Rate.Burst)
	f.Int("workers", &i.Workers)
	f.Bool("enabled", &i.Enabled)
	f.Time("created_at_ms", &i.CreatedAt)
	f.Time("updated_at_ms", &i.UpdatedAt)
	f.Duration("timeout_ms", &i.Timeout)
	f.Duration("backoff_min_ms", &i.BackoffMin)
	f.Duration("backoff_max_ms", &i.BackoffMax)
	f.Duration("retention_ms", &i.RetainFor)
	f.Duration("rate_window_ms", &i.Rate.Per)
	f.Varint("total", &i.Runs.Total)
	f.Varint("pending", &i.Runs.Pending)
	f.Varint("running", &i.Runs.Running)
	f.Varint("completed", &i.Runs.Completed)
	f.Varint("failed", &i.Runs.Failed)
	f.Varint("cancelled", &i.Runs.Cancelled)
	f.Varint("timed_out", &i.Runs.TimedOut)
	f.Varint("latency_count", &i.Latency.Count)
	f.Duration("latency_average_ms", &i.Latency.Average)
	f.Duration("latency_p99_ms", &i.Latency.P99)
	f.Bool("home", &i.home)
	codec.ListOf(f, "took_ms", &i.took, func(ms *int64, f *codec.Fields) { f.Varint("", ms) })
}

func codeRun(r *Run, f *codec.Fields) {
	f.Text("id", (*string)(&r.ID))
	f.Text("action", &r.Action)
	f.Text("outcome", &r.Outcome)
	codeBlob(f, "error", &r.Error, codec.Range{})
	f.Text("code", &r.Code)
	codeBlob(f, "source", &r.Source, codec.Range{})
	codeBlob(f, "concurrency_key", &r.ConcurrencyKey, codec.Range{})
	codeBlob(f, "idempotency_key", &r.IdempotencyKey, codec.Range{})
	f.Text("worker", &r.WorkerID)
	codec.Enum(f, "status", &r.Status, statusNames[:])
	f.Int("priority", &r.Priority)
	f.Int("attempt", &r.Attempt)
	f.Int("max_attempts", &r.MaxAttempts)
	f.Blob("input", &r.Input)
	f.Blob("output", &r.Output)
	engine.CodePairMap(f, "labels", &r.Labels)
	f.Time("created_at_ms", &r.CreatedAt)
	f.Time("available_at_ms", &r.AvailableAt)
	f.Time("started_at_ms", &r.StartedAt)
	f.Time("completed_at_ms", &r.CompletedAt)
	f.Bool("cancelling", &r.Cancelling)
}
