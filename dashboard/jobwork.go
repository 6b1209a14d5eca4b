package dashboard

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream/processing"
)

// planPath changes nothing, although its method is POST.
const planPath = "/api/v1/processing/plan"

var jobWorkRoutes = []route{
	endpoint("PUT "+jobsPath, (*handler).applyJob,
		"Make the job of the definition's name run with the definition, which is the body, YAML or JSON. "+
			"It is created if it does not exist, else it keeps its state. If state would be lost, drop_state=true is required."),
	endpoint("POST "+planPath, (*handler).planJob, "Get what PUT /processing/jobs with the same body would change."),
	endpoint("PUT "+jobsPath+"/:id/start", (*handler).startJob, "Resume a job that does not run, with its state."),
	endpoint("PUT "+jobsPath+"/:id/rescale", (*handler).rescaleJob, "Set the number of processors that a job may use."),
	endpoint("POST "+jobsPath+"/:id/restore", (*handler).restoreJob,
		"Resume a job that does not run, with the state of a savepoint if one is given. The body may have another definition. "+
			"restart_source names sources, separated by commas, that start anew."),
	endpoint("GET "+jobsPath+"/:id/savepoints", (*handler).jobSavepoints, "List the savepoints of a job, oldest first."),
	endpoint("POST "+jobsPath+"/:id/savepoints", (*handler).createSavepoint,
		"Create a savepoint of a job. With wait_ms it waits until the savepoint is complete."),
	endpoint("DELETE "+jobsPath+"/:id/savepoints/:savepoint", (*handler).deleteSavepoint, "Delete a savepoint."),
}

// applyJobRequest is a definition, the unparsed body, and the state with which its job continues.
type applyJobRequest struct {
	submitJobRequest
	stateAsked
}

func (q *applyJobRequest) parse(in *input) {
	q.stateAsked.parse(in)
	q.submitJobRequest.parse(in)
}

// stateAsked says with which state a job continues.
type stateAsked struct {
	options []processing.RestoreOption
	drop    bool
}

func (q *stateAsked) parse(in *input) {
	if id := in.nonEmpty("savepoint"); id != "" {
		q.options = append(q.options, processing.FromSavepoint(processing.SavepointID(id)))
	}
	if q.drop = in.boolean("drop_state"); q.drop {
		q.options = append(q.options, processing.DropState())
	}
}

// jobPlan lists which state of a job is kept and dropped.
type jobPlan struct {
	Kept    []string `json:"kept"`
	Dropped []string `json:"dropped"`
	New     []string `json:"new"`
	Notes   []string `json:"notes"`
}

func planOf(p *processing.Plan) jobPlan {
	list := func(texts []string) []string { return append([]string{}, texts...) }
	return jobPlan{list(p.Kept), list(p.Dropped), list(p.New), list(p.Notes)}
}

// jobApplied is the response to PUT.
type jobApplied struct {
	jobChanged
	Created bool `json:"created"`
	Changed bool `json:"changed"` // it got another definition, or was resumed
	jobPlan
}

func (h *handler) applyJob(ctx context.Context, q applyJobRequest) (jobApplied, error) {
	store, err := h.definedStore(q.submitJobRequest)
	if err != nil {
		return jobApplied{}, err
	}
	done, err := store.Apply(ctx, q.definition, q.options...)
	switch {
	case errors.Is(err, engine.ErrConflict) && done.Plan.Drops() && !q.drop:
		return jobApplied{}, fmt.Errorf("%w; to drop it, set drop_state=true", err)
	case err != nil:
		return jobApplied{}, allJobMistakes(err)
	}
	return jobApplied{jobChanged{true, string(done.Job), done.Status.String()}, done.Made, done.Changed, planOf(&done.Plan)}, nil
}

// jobPlanned is what PUT would change.
type jobPlanned struct {
	JobID   string `json:"job_id"` // "" if it would be created
	Created bool   `json:"created"`
	Changed bool   `json:"changed"`
	jobPlan
}

func (h *handler) planJob(ctx context.Context, q applyJobRequest) (jobPlanned, error) {
	store, err := h.definedStore(q.submitJobRequest)
	if err != nil {
		return jobPlanned{}, err
	}
	would, err := store.PlanApply(ctx, q.definition, q.options...)
	if err != nil {
		return jobPlanned{}, allJobMistakes(err)
	}
	return jobPlanned{string(would.Job), would.Made, would.Changed, planOf(&would.Plan)}, nil
}

func (h *handler) startJob(ctx context.Context, q jobRequest) (jobChanged, error) {
	return h.changeJob(ctx, q, func(s *processing.Store, ctx context.Context, id processing.JobID) (processing.Status, error) {
		return s.Restore(ctx, id)
	})
}

// rescaleRequest has the parallelism of a job.
type rescaleRequest struct {
	jobRequest
	parallelism int
}

func (q *rescaleRequest) parse(in *input) {
	q.jobRequest.parse(in)
	readFields(in, q, (*rescaleRequest).fields)
}

func (q *rescaleRequest) fields(f *codec.Fields) {
	need(f, "parallelism")
	f.Int("parallelism", &q.parallelism, codec.Range{Min: 1, Max: processing.MaxParallelism})
}

func (h *handler) rescaleJob(ctx context.Context, q rescaleRequest) (jobChanged, error) {
	return h.changeJob(ctx, q.jobRequest, func(s *processing.Store, ctx context.Context, id processing.JobID) (processing.Status, error) {
		if err := s.Rescale(ctx, id, q.parallelism); err != nil {
			return 0, err
		}
		d, err := s.Get(ctx, id)
		return d.Status, err
	})
}

// restoreRequest says with which state, and which definition, a job resumes.
type restoreRequest struct {
	jobRequest
	stateAsked
}

func (q *restoreRequest) parse(in *input) {
	q.jobRequest.parse(in)
	q.stateAsked.parse(in)
	if names := in.nonEmpty("restart_source"); names != "" {
		for name := range strings.SplitSeq(names, ",") {
			q.options = append(q.options, processing.RestartSource(name))
		}
	}
	if definition := in.definition(); len(definition) > 0 {
		q.options = append(q.options, processing.ReplaceDefinition(definition))
	}
}

func (h *handler) restoreJob(ctx context.Context, q restoreRequest) (jobChanged, error) {
	store, err := h.existingJob(ctx, q.jobRequest)
	if err != nil {
		return jobChanged{}, err
	}
	status, err := store.Restore(ctx, q.id, q.options...)
	if err != nil {
		return jobChanged{}, allJobMistakes(err)
	}
	return jobChanged{true, string(q.id), status.String()}, nil
}

// existingJob is like jobStore, and refuses an unknown id, so that a later error is about the other
// parts of the request.
func (h *handler) existingJob(ctx context.Context, q jobRequest) (*processing.Store, error) {
	store, err := h.jobStore(ctx, q)
	if err != nil {
		return nil, err
	}
	if _, err := store.Get(ctx, q.id); err != nil {
		return nil, noSuchJob(q.id, err)
	}
	return store, nil
}

// savepointDetail is a savepoint, complete or not.
type savepointDetail struct {
	jobSavepoint
	Complete bool  `json:"complete"`
	Bytes    int64 `json:"bytes"`
}

func detailSavepoint(s processing.Savepoint) savepointDetail {
	return savepointDetail{jobSavepoint{string(s.ID), s.CreatedAt.UnixMilli(), s.RecordsProcessed}, s.Complete, s.Bytes}
}

// savepointsRequest asks for limit savepoints of a job, after a cursor.
type savepointsRequest struct {
	jobRequest
	after string
	limit int
}

func (q *savepointsRequest) parse(in *input) {
	q.jobRequest.parse(in)
	q.after = in.text("after")
	q.limit = in.listLimit()
}

func (h *handler) jobSavepoints(ctx context.Context, q savepointsRequest) (listing[savepointDetail], error) {
	store, err := h.existingJob(ctx, q.jobRequest)
	if err != nil {
		return listing[savepointDetail]{}, err
	}
	page := func(after string, n int) ([]processing.Savepoint, string, error) {
		page, err := store.Savepoints(q.id).Page(ctx, processing.Limit(n), processing.Cursor(after))
		return page.Items, page.Cursor, err
	}
	return collect(q.after, q.limit, page, detailSavepoint, nil)
}

// createSavepointRequest asks for a savepoint of a job.
type createSavepointRequest struct {
	jobRequest
	wait
}

func (q *createSavepointRequest) parse(in *input) {
	q.jobRequest.parse(in)
	q.wait.parameter(in)
}

func (h *handler) createSavepoint(ctx context.Context, q createSavepointRequest) (savepointDetail, error) {
	store, err := h.jobStore(ctx, q.jobRequest)
	if err != nil {
		return savepointDetail{}, err
	}
	id, err := store.Savepoints(q.id).Create(ctx)
	if err == nil && q.wait.time > 0 {
		err = q.until(ctx, func(ctx context.Context) error {
			_, err := store.AwaitSavepoint(ctx, q.id, id)
			return err
		})
	}
	if err != nil {
		return savepointDetail{}, noSuchJob(q.id, err)
	}
	made, err := store.Savepoints(q.id).Get(ctx, id)
	return detailSavepoint(made), err
}

// savepointRequest names a savepoint of a job.
type savepointRequest struct {
	jobRequest
	savepoint string
}

func (q *savepointRequest) parse(in *input) {
	q.jobRequest.parse(in)
	q.savepoint = in.segment("savepoint")
}

// savepointDeleted is the response to DELETE.
type savepointDeleted struct {
	OK bool   `json:"ok"`
	ID string `json:"id"`
}

func (h *handler) deleteSavepoint(ctx context.Context, q savepointRequest) (savepointDeleted, error) {
	store, err := h.existingJob(ctx, q.jobRequest)
	if err != nil {
		return savepointDeleted{}, err
	}
	return savepointDeleted{true, q.savepoint}, store.Savepoints(q.id).Delete(ctx, processing.SavepointID(q.savepoint))
}
