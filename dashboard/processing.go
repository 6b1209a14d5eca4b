package dashboard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream/processing"
)

const jobsPath = "/api/v1/processing/jobs"

var processingRoutes = []route{
	endpoint("GET "+jobsPath, (*handler).jobs, "List the processing jobs of a namespace."),
	endpoint("POST "+jobsPath, (*handler).submitJob, "Submit a job. The body is its definition, YAML or JSON."),
	endpoint("GET "+jobsPath+"/:id", (*handler).job, "Get a job with its definition and savepoints."),
	endpoint("PUT "+jobsPath+"/:id/stop", (*handler).stopJob, "Stop a job; it can be restored."),
	endpoint("DELETE "+jobsPath+"/:id", (*handler).cancelJob, "Cancel a job permanently."),
}

// jobSummary is an item of the listing of jobs.
type jobSummary struct {
	JobID            string     `json:"job_id"`
	Name             string     `json:"name"`
	Namespace        string     `json:"namespace"`
	Status           string     `json:"status"`
	Parallelism      int        `json:"parallelism"`
	BatchSize        int        `json:"batch_size"`
	CreatedAt        int64      `json:"created_at"`
	RecordsProcessed int64      `json:"records_processed"`
	Metrics          jobMetrics `json:"metrics"`

	// Why the job failed or waits, "" if there is no problem: with fields=all.
	Reason *string `json:"reason,omitempty"`
}

// jobMetrics are the metrics of a job. Gauges are 0 while it does not run.
type jobMetrics struct {
	RecordsIn        int64   `json:"records_in"`
	RecordsOut       int64   `json:"records_out"`
	ThroughputPerSec float64 `json:"throughput_per_sec"`
	OutputPerSec     float64 `json:"output_per_sec"`
	LastReadCount    int     `json:"last_read_count"`
	BatchSize        int     `json:"batch_size"`
	IdleMillis       int64   `json:"idle_ms"`
	WatermarkMillis  int64   `json:"watermark_ms"`
	WatermarkLag     int64   `json:"watermark_lag_ms"`
	LatencyLast      float64 `json:"latency_last_ms"`
	LatencyAvg       float64 `json:"latency_avg_ms"`
	LatencyMax       float64 `json:"latency_max_ms"`
	Running          bool    `json:"running"`

	// Unread records of the job's streams at its last check: with fields=all.
	RecordsBehind *int64 `json:"records_behind,omitempty"`
}

func (f fieldsAsked) summarizeJob(j processing.Job) jobSummary {
	m := &j.Metrics
	s := jobSummary{
		JobID: string(j.ID), Name: j.Name, Namespace: j.Namespace, Status: j.Status.String(), Parallelism: j.Parallelism,
		BatchSize: j.BatchSize,
		CreatedAt: j.CreatedAt.UnixMilli(), RecordsProcessed: m.RecordsIn,
		Metrics: jobMetrics{
			RecordsIn: m.RecordsIn, RecordsOut: m.RecordsOut, ThroughputPerSec: m.InPerSecond, OutputPerSec: m.OutPerSecond,
			LastReadCount: m.LastReadCount,
			BatchSize:     j.BatchSize, IdleMillis: m.Idle.Milliseconds(), WatermarkLag: m.Lag.Milliseconds(),
			LatencyLast: millisOf(m.LatencyLast),
			LatencyAvg:  millisOf(m.LatencyAvg), LatencyMax: millisOf(m.LatencyMax), Running: j.Status == processing.Running,
		},
	}
	if f.all {
		s.Reason, s.Metrics.RecordsBehind = &j.Reason, &m.RecordsBehind
	}
	if !m.Watermark.IsZero() {
		s.Metrics.WatermarkMillis = m.Watermark.UnixMilli()
	}
	return s
}

func millisOf(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// jobsRequest asks for the jobs of a namespace.
type jobsRequest struct {
	listRequest
	fieldsAsked
}

func (q *jobsRequest) parse(in *input) {
	q.listRequest.parse(in)
	q.fieldsAsked.parse(in)
}

func (h *handler) jobs(ctx context.Context, q jobsRequest) (listing[jobSummary], error) {
	page := func(after string, n int) ([]processing.Job, string, error) {
		page, err := h.backend.Processing(q.namespace).Page(ctx, processing.Limit(n), processing.Cursor(after))
		return page.Items, page.Cursor, err
	}
	return collect(q.after, q.limit, page, q.summarizeJob, nil)
}

// submitJobRequest is a pipeline: the unparsed body.
type submitJobRequest struct {
	namespace  string
	given      bool // the request names the namespace
	definition []byte
}

func (q *submitJobRequest) parse(in *input) {
	q.namespace = in.namespace()
	_, q.given = in.param("namespace")
	q.definition = in.definition()
}

// definition returns the body, which is a definition of a job.
func (in *input) definition() []byte {
	in.reads(yamlMedia)
	if in.err != nil {
		return nil
	}
	in.maxBody = min(in.maxBody, processing.MaxDefinition)
	definition, err := in.readBody()
	in.check(err)
	return definition
}

// jobChanged is the response to a change of a job.
type jobChanged struct {
	OK     bool   `json:"ok"`
	JobID  string `json:"job_id"`
	Status string `json:"status"`
}

// definedStore returns the store of the namespace of the request, or of that of the pipeline if the
// request names none.
func (h *handler) definedStore(q submitJobRequest) (*processing.Store, error) {
	if !q.given {
		own, err := processing.DefinitionNamespace(q.definition)
		if err != nil {
			return nil, allJobMistakes(err)
		}
		if own != "" {
			q.namespace = own
		}
	}
	return h.backend.Processing(q.namespace), nil
}

func (h *handler) submitJob(ctx context.Context, q submitJobRequest) (jobChanged, error) {
	store, err := h.definedStore(q)
	if err != nil {
		return jobChanged{}, err
	}
	made, err := store.Submit(ctx, q.definition)
	if err != nil {
		return jobChanged{}, allJobMistakes(err)
	}
	return jobChanged{true, string(made.Job), made.Status.String()}, nil
}

// allJobMistakes returns the error of a pipeline with all its mistakes; the error's own text has
// only the first few.
func allJobMistakes(err error) error {
	var bad *processing.DefinitionError
	if !errors.As(err, &bad) {
		return err
	}
	var all []string
	for _, p := range bad.Problems {
		if !p.Warning {
			all = append(all, fmt.Sprintf("line %d: %s", p.Line, p.Message))
		}
	}
	return engine.Errorf(engine.ErrInvalid, "the pipeline has mistakes: %s", strings.Join(all, "; "))
}

// jobRequest names a job. The id contains the namespace; a given namespace must match it.
type jobRequest struct {
	located
	id processing.JobID
}

func (q *jobRequest) parse(in *input) {
	q.id = processing.JobID(in.segment("id"))
	q.located.parse(in)
}

// jobStore returns the store of the job's namespace. An invalid id is treated as that of an unknown
// job.
func (h *handler) jobStore(ctx context.Context, q jobRequest) (*processing.Store, error) {
	store := h.backend.Processing(q.namespace)
	if q.given {
		return store, nil
	}
	own, err := store.Locate(ctx, q.id)
	if err != nil {
		return nil, noSuchJob(q.id, err)
	}
	return h.backend.Processing(own), nil
}

func noSuchJob(id processing.JobID, err error) error {
	if errors.Is(err, engine.ErrInvalid) {
		return engine.Errorf(engine.ErrNotFound, "job %.64s not found", id)
	}
	return err
}

// jobDetail is the body of /processing/jobs/:id.
type jobDetail struct {
	jobSummary
	YAML       string         `json:"yaml"`
	Savepoints []jobSavepoint `json:"savepoints"`
}

// jobSavepoint is a complete savepoint.
type jobSavepoint struct {
	ID               string `json:"id"`
	CreatedAt        int64  `json:"created_at"`
	RecordsProcessed int64  `json:"records_processed"`
}

// jobDetailRequest asks for the details of a job.
type jobDetailRequest struct {
	jobRequest
	fieldsAsked
}

func (q *jobDetailRequest) parse(in *input) {
	q.jobRequest.parse(in)
	q.fieldsAsked.parse(in)
}

func (h *handler) job(ctx context.Context, q jobDetailRequest) (jobDetail, error) {
	store, err := h.jobStore(ctx, q.jobRequest)
	if err != nil {
		return jobDetail{}, err
	}
	d, err := store.Get(ctx, q.id)
	if err != nil {
		return jobDetail{}, noSuchJob(q.id, err)
	}
	detail := jobDetail{q.summarizeJob(d.Job), string(d.Definition), []jobSavepoint{}}
	for _, s := range d.Savepoints {
		if s.Complete {
			detail.Savepoints = append(detail.Savepoints, jobSavepoint{string(s.ID), s.CreatedAt.UnixMilli(), s.RecordsProcessed})
		}
	}
	return detail, nil
}

func (h *handler) stopJob(ctx context.Context, q jobRequest) (jobChanged, error) {
	return h.changeJob(ctx, q, (*processing.Store).Stop)
}

func (h *handler) cancelJob(ctx context.Context, q jobRequest) (jobChanged, error) {
	return h.changeJob(ctx, q, (*processing.Store).Cancel)
}

func (h *handler) changeJob(
	ctx context.Context, q jobRequest, change func(*processing.Store, context.Context, processing.JobID) (processing.Status, error),
) (jobChanged, error) {
	store, err := h.jobStore(ctx, q)
	if err != nil {
		return jobChanged{}, err
	}
	status, err := change(store, ctx, q.id)
	if err != nil {
		return jobChanged{}, noSuchJob(q.id, err)
	}
	return jobChanged{true, string(q.id), status.String()}, nil
}

// jobWork is the body of /console/processing/jobs/:id: the fields missing in the specified detail.
type jobWork struct {
	JobID     string         `json:"job_id"`
	Reason    string         `json:"reason"`            // why it failed or is held up; "" if there is no problem
	Failure   *jobFailure    `json:"failure,omitempty"` // the record that failed it
	Held      bool           `json:"held"`              // it is running and waits for a sink, a source or a lookup
	Errors    int64          `json:"errors"`            // records sent to the error stream
	Late      int64          `json:"late"`
	Dropped   int64          `json:"dropped"`
	Missed    int64          `json:"missed"` // records trimmed before they were read
	Operators []operatorWork `json:"operators"`
}

// jobFailure is the record that failed a job. The source and the fields after it are empty if an
// operator made the record, such as a window.
type jobFailure struct {
	Operator    string `json:"operator"` // that failed; may be a source or a sink
	Reason      string `json:"reason"`
	Source      string `json:"source"`
	Stream      string `json:"stream"` // that the source reads, "" if it reads a measurement
	Measurement string `json:"measurement"`
	Partition   int    `json:"partition"`
	RecordID    string `json:"record_id"`
	Offset      uint64 `json:"offset"` // in the partition; of a point: its time in ms
}

func failureOf(f *processing.Failure) *jobFailure {
	if f == nil {
		return nil
	}
	shown := &jobFailure{Operator: f.Operator, Reason: f.Reason, Source: f.Source, Stream: f.Stream,
		Measurement: f.Measurement, Partition: f.Partition, Offset: f.Offset}
	if f.Source != "" {
		shown.RecordID = f.RecordID.String()
	}
	return shown
}

// operatorWork is the work of an operator so far.
type operatorWork struct {
	Name    string `json:"name"`
	In      int64  `json:"in"`
	Out     int64  `json:"out"`
	Errors  int64  `json:"errors"`
	Late    int64  `json:"late"`
	Dropped int64  `json:"dropped"`
}

func (h *handler) jobWork(ctx context.Context, q jobRequest) (jobWork, error) {
	store, err := h.jobStore(ctx, q)
	if err != nil {
		return jobWork{}, err
	}
	j, err := store.Get(ctx, q.id)
	if err != nil {
		return jobWork{}, noSuchJob(q.id, err)
	}
	m := &j.Metrics
	w := jobWork{JobID: string(j.ID), Reason: j.Reason, Failure: failureOf(j.Failure), Held: j.Held, Errors: m.Errors, Late: m.Late,
		Dropped: m.Dropped, Missed: m.Missed, Operators: []operatorWork{}}
	for _, o := range m.Operators {
		w.Operators = append(w.Operators, operatorWork(o))
	}
	return w, nil
}

func (h *handler) checkJobs(ctx context.Context, ns string, add func(finding)) (bool, error) {
	page, err := h.backend.Processing(ns).Page(ctx, processing.Limit(mostChecked))
	for _, j := range page.Items {
		switch {
		case j.Status == processing.Failed:
			add(finding{Kind: "job", Name: j.Name, Of: string(j.ID), Severity: "crit", Count: 1,
				Text: "failed" + suffix(": ", j.Reason)})
		case j.Held:
			add(finding{Kind: "job", Name: j.Name, Of: string(j.ID), Severity: "warn", Count: 1, Text: "waiting" + suffix(": ", j.Reason)})
		case j.Metrics.Errors > 0:
			add(finding{Kind: "job", Name: j.Name, Of: string(j.ID), Severity: "warn", Count: j.Metrics.Errors,
				Text: counted(j.Metrics.Errors, "record") + " could not be processed"})
		}
	}
	return page.Cursor != "", err
}

func (b staleBackend) Processing(ns string, _ ...floe.AccessOption) *processing.Store {
	return b.DB.Processing(ns, floe.Stale())
}
