package metrics

import (
	"context"
	"iter"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/workflow"
)

const (
	// other is the namespace of the series for objects without their own. It is not a valid name of
	// a namespace.
	other = "_other"
	// mostRead is the maximum number of objects per kind that are read and added up, beyond those
	// with their own series. Further objects are only counted.
	mostRead = 20_000
)

// Metrics of the node's contents.
var (
	objectsLimit = gauge("metrics_objects_limit", "Maximum number of objects of each kind with their own series.")
	leftOut      = gauge("metrics_objects_left_out",
		"Objects of a kind without their own series; those that were read are added up in the namespace _other.", "kind")
	notRead = gauge("metrics_objects_not_read", "Objects left out that are not included in the namespace _other either.",
		"kind")
	scrapeErrors = gauge("metrics_scrape_errors", "Listings that were incomplete in the last gathering.")
	partAge      = gauge("metrics_age_seconds",
		"Age of metrics that are gathered in the background: contents (namespaces, queues and so on) and store (Pebble).", "part")
	partTime = gauge("metrics_gathering_seconds", "Duration of the last gathering of a part.", "part")

	namespaceMetrics = []description{
		gauge("keys", "Keys.", "namespace"), gauge("key_bytes", "Bytes of keys and values.", "namespace"),
		gauge("streams", "Streams.", "namespace"), gauge("queues", "Queues.", "namespace"),
		gauge("series", "Time series.", "namespace"), gauge("points", "Points of time series.", "namespace"),
		gauge("actions", "Actions.", "namespace"), gauge("workflows", "Workflows.", "namespace"),
		gauge("jobs", "Processing jobs that are not cancelled.", "namespace"),
		counter("workflow_steps_total", "Steps that workflow runs have begun.", "namespace"),
		counter("workflow_signals_total", "Signals received by workflow runs.", "namespace"),
		counter("workflow_timers_total", "Timers of workflow runs that have fired.", "namespace"),
		counter("workflow_compensations_failed_total", "Compensations of workflow runs that have failed.", "namespace"),
	}
	queueMetrics = []description{
		gauge("queue_ready", "Messages that are ready for delivery.", "namespace", "queue"),
		gauge("queue_delayed", "Messages that are delayed.", "namespace", "queue"),
		gauge("queue_inflight", "Messages that are leased.", "namespace", "queue"),
		gauge("queue_dead", "Dead letters.", "namespace", "queue"),
		gauge("queue_bytes", "Bytes of messages, without dead letters.", "namespace", "queue"),
		counter("queue_enqueued_total", "Messages enqueued.", "namespace", "queue"),
		counter("queue_delivered_total", "Deliveries.", "namespace", "queue"),
		counter("queue_acked_total", "Messages acknowledged.", "namespace", "queue"),
		counter("queue_expired_total", "Leases that have expired.", "namespace", "queue"),
	}
	streamMetrics = []description{
		counter("stream_appended_total", "Records appended.", "namespace", "stream"),
		gauge("stream_records", "Records in the stream.", "namespace", "stream"),
	}
	groupMetrics = []description{
		gauge("group_lag", "Records that are not yet delivered to the consumer group.", "namespace", "stream", "group"),
		gauge("group_pending", "Records that are delivered and not acknowledged.", "namespace", "stream", "group"),
		gauge("group_members", "Consumers in the group.", "namespace", "stream", "group"),
	}
	jobMetrics = []description{
		gauge("job_running", "1 if the job is running, else 0.", "namespace", "job", "name"),
		gauge("job_failed", "1 if the job has failed, else 0.", "namespace", "job", "name"),
		counter("job_records_in_total", "Records read from sources.", "namespace", "job", "name"),
		counter("job_records_out_total", "Records written by sinks.", "namespace", "job", "name"),
		counter("job_errors_total", "Records sent to the error stream.", "namespace", "job", "name"),
		counter("job_late_total", "Records that were too late for a window.", "namespace", "job", "name"),
		gauge("job_watermark_lag_seconds", "Lag of the watermark behind the clock.", "namespace", "job", "name"),
		gauge("job_records_behind", "Records in source streams that are not yet read.", "namespace", "job", "name"),
		gauge("job_backlog_bytes", "Bytes waiting for delivery to sinks in other shards.", "namespace", "job", "name"),
	}
	operatorMetrics = []description{
		counter("job_operator_records_in_total", "Records received by an operator.", "namespace", "job", "name", "operator"),
		counter("job_operator_records_out_total", "Records emitted by an operator.", "namespace", "job", "name",
			"operator"),
		counter("job_operator_errors_total", "Records that failed in an operator.", "namespace", "job", "name", "operator"),
		counter("job_operator_late_total", "Records that were too late for the windows of an operator.", "namespace", "job", "name",
			"operator"),
		counter("job_operator_dropped_total", "Records dropped by an operator because they lack its fields.", "namespace", "job",
			"name", "operator"),
	}
	workflowMetrics = []description{
		gauge("workflow_runs_active", "Runs that have not ended.", "namespace", "workflow"),
		counter("workflow_runs_started_total", "Runs started.", "namespace", "workflow"),
		counter("workflow_runs_completed_total", "Runs that have completed.", "namespace", "workflow"),
		counter("workflow_runs_failed_total", "Runs that have failed.", "namespace", "workflow"),
		counter("workflow_runs_cancelled_total", "Runs that were cancelled.", "namespace", "workflow"),
		counter("workflow_runs_timed_out_total", "Runs that have timed out.", "namespace", "workflow"),
	}
	actionMetrics = []description{
		gauge("action_runs_pending", "Runs waiting for a worker.", "namespace", "action"),
		gauge("action_runs_running", "Runs being executed by workers.", "namespace", "action"),
		gauge("action_workers", "Workers with a handler for the action.", "namespace", "action"),
		counter("action_runs_started_total", "Runs started.", "namespace", "action"),
		counter("action_runs_completed_total", "Runs that have completed.", "namespace", "action"),
		counter("action_runs_failed_total", "Runs that have failed.", "namespace", "action"),
		counter("action_runs_timed_out_total", "Runs that have timed out.", "namespace", "action"),
	}
)

// contents adds the metrics of the node's contents, except for floe's own namespaces.
func (s *scrape) contents(ctx context.Context) {
	namespaces := s.kind("namespace", namespaceMetrics)
	queues, streams, groups := s.kind("queue", queueMetrics), s.kind("stream", streamMetrics), s.kind("group", groupMetrics)
	jobs, operators, workflows, actions := s.kind("job", jobMetrics), s.kind("operator", operatorMetrics), s.kind("workflow",
		workflowMetrics), s.kind("action", actionMetrics)
	all := engine.NewNamespaces(s.source.Replica)
	page := func(ctx context.Context, opts ...engine.PageOption) (p engine.Page[engine.NamespaceInfo], err error) {
		l, err := engine.ListingOf(opts)
		if err != nil {
			return p, err
		}
		return all.Page(ctx, l)
	}
	for info := range read(s, namespaces, engine.All(ctx, page, []engine.PageOption{engine.Limit(pageOf)})) {
		if engine.IsSystem(info.Name) {
			continue
		}
		c := info.Counts
		namespaces.add([]float64{
			float64(c.Keys), float64(c.KeyBytes), float64(c.Streams), float64(c.Queues), float64(c.Series), float64(c.Points),
			float64(c.Actions), float64(c.Workflows), float64(c.Jobs), float64(c.Steps), float64(c.Signals), float64(c.Timers),
			float64(c.CompensationsFailed),
		}, info.Name)
		s.queues(ctx, queues, info)
		s.streams(ctx, streams, groups, info)
		s.jobs(ctx, jobs, operators, info)
		s.workflows(ctx, workflows, info)
		s.actions(ctx, actions, info)
	}
	for _, k := range []*objectKind{namespaces, queues, streams, groups, jobs, operators, workflows, actions} {
		k.end()
	}
}

const pageOf = engine.MaxPageItems

// read iterates over objects until enough of their kind have been read, and records an error.
func read[T any](s *scrape, k *objectKind, of iter.Seq2[T, error]) iter.Seq[T] {
	return func(yield func(T) bool) {
		if k.read >= s.objects+mostRead {
			return
		}
		for item, err := range of {
			if err != nil {
				s.failed++
				return
			}
			if !yield(item) || k.read >= s.objects+mostRead {
				return
			}
		}
	}
}

func (s *scrape) queues(ctx context.Context, k *objectKind, info engine.NamespaceInfo) {
	k.expect(info.Counts.Queues)
	if info.Counts.Queues == 0 {
		return
	}
	store := engine.StoreOf[queue.Store](s.source.Replica, info.Name, 0)
	for q := range read(s, k, store.All(ctx, queue.Limit(pageOf))) {
		k.add([]float64{
			float64(q.Ready), float64(q.Delayed), float64(q.Inflight), float64(q.Dead), float64(q.Bytes),
			float64(q.Enqueued), float64(q.Dequeued), float64(q.Acked), float64(q.Expired),
		}, info.Name, q.Name)
	}
}

// streams adds the metrics of streams, and of the groups of the streams with their own series.
func (s *scrape) streams(ctx context.Context, k, groups *objectKind, info engine.NamespaceInfo) {
	k.expect(info.Counts.Streams)
	if info.Counts.Streams == 0 {
		return
	}
	store := engine.StoreOf[stream.Store](s.source.Replica, info.Name, 0)
	for st := range read(s, k, store.All(ctx, stream.Limit(pageOf))) {
		if !k.add([]float64{float64(st.Appended), float64(st.Records())}, info.Name, st.Name) {
			continue
		}
		for g := range read(s, groups, store.Groups(st.Name).All(ctx, stream.Limit(pageOf))) {
			groups.add([]float64{float64(g.Lag()), float64(g.Pending()), float64(len(g.Members))}, info.Name, st.Name, g.Name)
		}
	}
}

// jobs adds the metrics of jobs and of their operators.
func (s *scrape) jobs(ctx context.Context, k, operators *objectKind, info engine.NamespaceInfo) {
	k.expect(info.Counts.Jobs)
	store := engine.StoreOf[processing.Store](s.source.Replica, info.Name, 0)
	for j := range read(s, k, store.All(ctx, processing.Limit(pageOf))) {
		m := &j.Metrics
		k.add([]float64{
			truth(j.Status == processing.Running), truth(j.Status == processing.Failed), float64(m.RecordsIn), float64(m.RecordsOut),
			float64(m.Errors), float64(m.Late),
			m.Lag.Seconds(), float64(m.RecordsBehind), float64(m.Backlog),
		}, info.Name, string(j.ID), j.Name)
		for i := range m.Operators {
			o := &m.Operators[i]
			operators.add([]float64{float64(o.In), float64(o.Out), float64(o.Errors), float64(o.Late), float64(o.Dropped)}, info.Name,
				string(j.ID), j.Name, o.Name)
		}
	}
}

func (s *scrape) workflows(ctx context.Context, k *objectKind, info engine.NamespaceInfo) {
	k.expect(info.Counts.Workflows)
	if info.Counts.Workflows == 0 {
		return
	}
	store := engine.StoreOf[workflow.Store](s.source.Replica, info.Name, 0)
	for w := range read(s, k, store.All(ctx, workflow.Limit(pageOf))) {
		r := &w.Runs
		k.add([]float64{
			float64(r.Active), float64(r.Total), float64(r.Completed), float64(r.Failed), float64(r.Cancelled), float64(r.TimedOut),
		}, info.Name, w.Name)
	}
}

func (s *scrape) actions(ctx context.Context, k *objectKind, info engine.NamespaceInfo) {
	k.expect(info.Counts.Actions)
	if info.Counts.Actions == 0 {
		return
	}
	store := engine.StoreOf[action.Store](s.source.Replica, info.Name, 0)
	for a := range read(s, k, store.All(ctx, action.Limit(pageOf))) {
		r := &a.Runs
		k.add([]float64{
			float64(r.Pending), float64(r.Running), float64(a.Workers), float64(r.Total), float64(r.Completed), float64(r.Failed),
			float64(r.TimedOut),
		}, info.Name, a.Name)
	}
}

// objectKind collects the objects of a kind.
type objectKind struct {
	scrape   *scrape
	name     string
	metrics  []description
	labels   int
	expected int64 // number of objects, as counted by their namespaces
	read     int
	rest     []float64 // sums of the objects without their own series
}

func (s *scrape) kind(name string, metrics []description) *objectKind {
	return &objectKind{scrape: s, name: name, metrics: metrics, rest: make([]float64, len(metrics))}
}

// expect adds to the number of objects.
func (k *objectKind) expect(n int64) { k.expected += n }

// add adds the values of an object as its own series, or to the sums.
func (k *objectKind) add(values []float64, labels ...string) (own bool) {
	k.read++
	k.labels = len(labels)
	if k.read <= k.scrape.objects {
		for i, v := range values {
			k.scrape.send(k.metrics[i], v, labels...)
		}
		return true
	}
	for i, v := range values {
		k.rest[i] += v
	}
	return false
}

// end adds the series of the remaining objects.
func (k *objectKind) end() {
	out := k.read - min(k.read, k.scrape.objects)
	if out > 0 {
		labels := make([]string, k.labels)
		labels[0] = other
		for i, v := range k.rest {
			k.scrape.send(k.metrics[i], v, labels...)
		}
	}
	unread := max(k.expected-int64(k.read), 0)
	k.scrape.send(leftOut, float64(out)+float64(unread), k.name)
	k.scrape.send(notRead, float64(unread), k.name)
}
