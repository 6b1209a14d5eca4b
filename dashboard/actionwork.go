package dashboard

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/codec"
)

const actionPath = "/api/v1/actions/:name"

var actionWorkRoutes = []route{
	endpoint("PUT "+actionPath, (*handler).registerAction, "Register an action with all its settings, or change them."),
	endpoint("DELETE "+actionPath, (*handler).deleteAction, "Delete an action. One with runs that have not ended requires force=true."),
	endpoint("GET "+actionPath+"/runs/:id", (*handler).actionRun,
		"Get a run. With wait_ms it waits for the end of the run. With Accept: text/event-stream, its present state and its end are events."),
	endpoint("POST "+actionPath+"/runs/:id/cancel", (*handler).cancelActionRun, "Cancel a run. The parameter reason says why."),
	endpoint("PUT "+actionPath+"/enable", (*handler).enableAction, "Allow invocations of an action."),
	endpoint("PUT "+actionPath+"/disable", (*handler).disableAction, "Refuse invocations of an action; its runs continue."),
}

// actionDone is the response to an operation on an action.
type actionDone struct {
	OK   bool   `json:"ok"`
	Name string `json:"name"`
}

// registerActionRequest has the settings of an action; those that are absent get the defaults.
type registerActionRequest struct {
	actionRequest
	description, owner string
	timeout            time.Duration // 0: the default
	maxAttempts        int           // 0: the default
	backedOff          bool          // backoff_min_ms or backoff_max_ms is given
	shortest, longest  time.Duration
	running, perKey    int
	retained           bool // retention_ms or retained_runs is given
	keepFor            time.Duration
	keep               int
	rate               action.Rate
}

// Defaults for a pair of settings when only the other one is given.
const (
	shortestBackoff = time.Second
	longestBackoff  = 5 * time.Minute
	runsKeptFor     = 7 * 24 * time.Hour
	runsKept        = 10_000
)

func (q *registerActionRequest) parse(in *input) {
	q.actionRequest.parse(in)
	q.shortest, q.longest, q.keepFor, q.keep = shortestBackoff, longestBackoff, runsKeptFor, runsKept
	readFields(in, q, (*registerActionRequest).fields)
}

func (q *registerActionRequest) fields(f *codec.Fields) {
	attempt := codec.Range{Min: attemptMillis.min, Max: attemptMillis.max, Optional: true}
	f.Text("description", &q.description, codec.Range{Max: action.MaxTextBytes})
	f.Text("owner", &q.owner, codec.Range{Max: action.MaxTextBytes})
	f.Duration("timeout_ms", &q.timeout, attempt)
	f.Int("max_attempts", &q.maxAttempts, codec.Range{Min: 1, Max: action.MaxAttemptsLimit, Optional: true})
	q.backedOff = f.Given("backoff_min_ms", q.backedOff) || f.Given("backoff_max_ms", q.backedOff)
	f.Duration("backoff_min_ms", &q.shortest, codec.Range{Max: delayMillis.max})
	f.Duration("backoff_max_ms", &q.longest, codec.Range{Max: delayMillis.max})
	f.Int("max_running", &q.running)
	f.Int("max_running_per_key", &q.perKey)
	q.retained = f.Given("retention_ms", q.retained) || f.Given("retained_runs", q.retained)
	f.Duration("retention_ms", &q.keepFor, codec.Range{Max: delayMillis.max})
	f.Int("retained_runs", &q.keep)
	if f.Given("rate", q.rate != action.Rate{}) {
		codec.Object(f, "rate", &q.rate, rateFields)
	}
}

func rateFields(r *action.Rate, f *codec.Fields) {
	f.Int("limit", &r.Limit)
	f.Duration("per_ms", &r.Per, codec.Range{Max: delayMillis.max})
	f.Int("burst", &r.Burst)
}

func (q *registerActionRequest) options() []action.RegisterOption {
	opts := []action.RegisterOption{action.Description(q.description), action.Owner(q.owner), action.MaxRunning(q.running),
		action.MaxRunningPerKey(q.perKey), action.RateLimit(q.rate)}
	if q.timeout > 0 {
		opts = append(opts, action.Timeout(q.timeout))
	}
	if q.maxAttempts > 0 {
		opts = append(opts, action.MaxAttempts(q.maxAttempts))
	}
	if q.backedOff {
		opts = append(opts, action.Backoff(q.shortest, q.longest))
	}
	if q.retained {
		opts = append(opts, action.Retain(q.keepFor, q.keep))
	}
	return opts
}

// actionRegistered is the response to PUT. Each change of the settings makes a new version.
type actionRegistered struct {
	OK      bool   `json:"ok"`
	Name    string `json:"name"`
	Version int    `json:"version"`
}

func (h *handler) registerAction(ctx context.Context, q registerActionRequest) (actionRegistered, error) {
	version, err := h.backend.Action(q.namespace).Register(ctx, q.name, q.options()...)
	return actionRegistered{true, q.name, version}, err
}

// deleteActionRequest names an action to delete, with force also with runs that have not ended.
type deleteActionRequest struct {
	actionRequest
	force bool
}

func (q *deleteActionRequest) parse(in *input) {
	q.actionRequest.parse(in)
	q.force = in.boolean("force")
}

func (h *handler) deleteAction(ctx context.Context, q deleteActionRequest) (actionDone, error) {
	var opts []action.DeleteOption
	if q.force {
		opts = append(opts, action.Force())
	}
	err := h.backend.Action(q.namespace).Delete(ctx, q.name, opts...)
	return actionDone{true, q.name}, unlessForced(err)
}

// actionSwitched is the response to enable and disable.
type actionSwitched struct {
	OK      bool   `json:"ok"`
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
}

func (h *handler) enableAction(ctx context.Context, q actionRequest) (actionSwitched, error) {
	err := h.backend.Action(q.namespace).Enable(ctx, q.name)
	return actionSwitched{true, q.name, true}, err
}

func (h *handler) disableAction(ctx context.Context, q actionRequest) (actionSwitched, error) {
	err := h.backend.Action(q.namespace).Disable(ctx, q.name)
	return actionSwitched{true, q.name, false}, err
}

// actionRunRequest asks for a run, or for the end of a run.
type actionRunRequest struct {
	runRequest
	wait
	follows bool // as events
	last    string
}

func (q *actionRunRequest) parse(in *input) {
	q.runRequest.parse(in)
	q.wait.parameter(in)
	if q.follows = in.wantsEvents(); q.follows {
		q.last = in.lastEvent()
		if millis, status, _ := strings.Cut(q.last, "-"); q.last != "" {
			_, ok := anyMillis.parse(millis)
			if _, err := action.ParseStatus(status); err != nil || !ok {
				in.invalid("the event after which the events continue is %.64q, it takes the id of an event of the run", q.last)
			}
		}
	}
}

// followedRun is a run, or its events.
type followedRun struct {
	actionRun
	follow func(ctx context.Context) iter.Seq2[event, error]
}

func (r followedRun) events() func(ctx context.Context) iter.Seq2[event, error] { return r.follow }

// actionRunEvent returns a run as an event. Its id is the time at which the run came to its status,
// and that status.
func actionRunEvent(r action.Run) event {
	at := r.CreatedAt
	for _, t := range []time.Time{r.StartedAt, r.CompletedAt} {
		if t.After(at) {
			at = t
		}
	}
	return event{fmt.Sprintf("%d-%s", at.UnixMilli(), r.Status), showRun(r)}
}

func (h *handler) actionRun(ctx context.Context, q actionRunRequest) (followedRun, error) {
	namespace, err := h.locateRun(ctx, q.runRequest)
	if err != nil {
		return followedRun{}, err
	}
	store := h.backend.Action(namespace)
	run, err := store.Runs().Get(ctx, q.runRequest.id)
	if err == nil && q.follows {
		var end func(ctx context.Context) (event, error)
		if !run.Status.Final() {
			end = func(ctx context.Context) (event, error) {
				run, err := store.Wait(ctx, q.runRequest.id)
				return actionRunEvent(run), err
			}
		}
		return followedRun{follow: runEvents(actionRunEvent(run), q.last, end)}, nil
	}
	if err == nil && q.time > 0 && !run.Status.Final() {
		err = q.until(ctx, func(ctx context.Context) error {
			_, err := store.Wait(ctx, q.runRequest.id)
			return err
		})
		if err == nil {
			run, err = store.Runs().Get(ctx, q.runRequest.id)
		}
	}
	return followedRun{actionRun: showRun(run)}, err
}

// cancelRunRequest cancels a run for a reason.
type cancelRunRequest struct {
	runRequest
	reason string
}

func (q *cancelRunRequest) parse(in *input) {
	q.runRequest.parse(in)
	q.reason = in.text("reason")
}

func (h *handler) cancelActionRun(ctx context.Context, q cancelRunRequest) (runChanged, error) {
	return h.changeRun(ctx, q.runRequest, func(s *action.Store, ctx context.Context, id action.RunID) error {
		return s.Cancel(ctx, id, q.reason)
	})
}
