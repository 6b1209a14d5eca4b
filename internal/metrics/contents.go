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
	objectsLimit = gauge("metrics_objects_limit", "How many things of each kind have series of their own.")
	leftOut      = gauge("metrics_objects_left_out",
		"How many things of a kind have no series of their own, but are in the one of the namespace _other, if they were read.", "kind")
	notRead = gauge("metrics_objects_not_read", "How many of those left out are not in the series of the namespace _other either.",
		"kind")
	scrapeErrors = gauge("metrics_scrape_errors", "Listings that could not be read to their end when they were read last.")
	partAge      = gauge("metrics_age_seconds",
		"How old the metrics of a part are that is gathered in the background: contents are those of namespaces, queues and the like, "+
			"store is what Pebble says.", "part")
	partTime = gauge("metrics_gathering_seconds", "How long it took to gather a part the last time.", "part")

	namespaceMetrics = []description{
		gauge("keys", "Keys.", "namespace"), gauge("key_bytes", "Bytes of keys and values.", "namespace"),
		gauge("streams", "Streams.", "namespace"), gauge("queues", "Queues.", "namespace"),
		gauge("series", "Time series.", "namespace"), gauge("points", "Points of time series.", "namespace"),
		gauge("actions", "Actions.", "namespace"), gauge("workflows", "Workflows.", "namespace"), gauge("jobs",
			"Jobs of stream processing that are not cancelled.", "namespace"),
		counter("workflow_steps_total", "Steps that runs of workflows have begun, ever.", "namespace"),
		counter("workflow_signals_total", "Signals that runs of workflows have got, ever.", "namespace"),
		counter("workflow_timers_total", "Timers of runs of workflows that have gone off, ever.", "namespace"),
		counter("workflow_compensations_failed_total", "Compensations of runs of workflows that have failed, ever.", "namespace"),
	}
	queueMetrics = []description{
		gauge("queue_ready", "Messages that can be delivered now.", "namespace", "queue"),
		gauge("queue_delayed", "Messages that wait for their time.", "namespace", "queue"),
		gauge("queue_inflight", "Messages that are leased.", "namespace", "queue"),
		gauge("queue_dead", "Dead letters.", "namespace", "queue"),
		gauge("queue_bytes", "Bytes of messages that are no dead letters.", "namespace", "queue"),
		counter("queue_enqueued_total", "Messages ever enqueued.", "namespace", "queue"),
		counter("queue_delivered_total", "Deliveries ever made.", "namespace", "queue"),
		counter("queue_acked_total", "Messages ever acked.", "namespace", "queue"),
		counter("queue_expired_total", "Leases that have ended by themselves, ever.", "namespace", "queue"),
	}
	streamMetrics = []description{
		counter("stream_appended_total", "Records ever appended.", "namespace", "stream"),
		gauge("stream_records", "Records that are kept.", "namespace", "stream"),
	}
	groupMetrics = []description{
		gauge("group_lag", "Records that a consumer group has not been given yet.", "namespace", "stream", "group"),
		gauge("group_pending", "Records that were delivered and are not acked.", "namespace", "stream", "group"),
		gauge("group_members", "Consumers in the group.", "namespace", "stream", "group"),
	}
	jobMetrics = []description{
		gauge("job_running", "Whether the job runs: 1, or 0.", "namespace", "job", "name"),
		gauge("job_failed", "Whether the job has failed: 1, or 0.", "namespace", "job", "name"),
		counter("job_records_in_total", "Records read from sources.", "namespace", "job", "name"),
		counter("job_records_out_total", "Records written by sinks.", "namespace", "job", "name"),
		counter("job_errors_total", "Records that went to the stream of errors.", "namespace", "job", "name"),
		counter("job_late_total", "Records that came too late for a window.", "namespace", "job", "name"),
		gauge("job_watermark_lag_seconds", "How far the watermark is behind.", "namespace", "job", "name"),
		gauge("job_records_behind", "Records of the sources' streams that are not read yet.", "namespace", "job", "name"),
		gauge("job_backlog_bytes", "Bytes for sinks in other shards that wait to be taken.", "namespace", "job", "name"),
	}
	operatorMetrics = []description{
		counter("job_operator_records_in_total", "Records that have come to an operator.", "namespace", "job", "name", "operator"),
		counter("job_operator_records_out_total", "Records that an operator has passed on, or made.", "namespace", "job", "name",
			"operator"),
		counter("job_operator_errors_total", "Records that an operator could not work with.", "namespace", "job", "name", "operator"),
		counter("job_operator_late_total", "Records that came too late for the windows of an operator.", "namespace", "job", "name",
			"operator"),
		counter("job_operator_dropped_total", "Records that an operator has dropped, as they lack what it works on.", "namespace", "job",
			"name", "operator"),
	}
	workflowMetrics = []description{
		gauge("workflow_runs_active", "Runs that have not ended.", "namespace", "workflow"),
		counter("workflow_runs_started_total", "Runs ever started.", "namespace", "workflow"),
		counter("workflow_runs_completed_total", "Runs that have completed.", "namespace", "workflow"),
		counter("workflow_runs_failed_total", "Runs that have failed.", "namespace", "workflow"),
		counter("workflow_runs_cancelled_total", "Runs that were cancelled.", "namespace", "workflow"),
		counter("workflow_runs_timed_out_total", "Runs that took too long.", "namespace", "workflow"),
	}
	actionMetrics = []description{
		gauge("action_runs_pending", "Runs that wait for a worker.", "namespace", "action"),
		gauge("action_runs_running", "Runs that workers have.", "namespace", "action"),
		gauge("action_workers", "Workers that have a handler for the action.", "namespace", "action"),
		counter("action_runs_started_total", "Runs ever started.", "namespace", "action"),
		counter("action_runs_completed_total", "Runs that have completed.", "namespace", "action"),
		counter("action_runs_failed_total", "Runs that have failed.", "namespace", "action"),
		counter("action_runs_timed_out_total", "Runs that took too long.", "namespace", "action"),
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
