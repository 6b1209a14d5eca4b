package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/workflow"
)

const (
	// mostChecked bounds what is looked at of each kind, so that the answer takes milliseconds also in a namespace with everything. Who has more has a
	// monitoring.
	mostChecked = 500
	// muchLag is from how many records a group is behind that somebody may want to know: less is the present.
	muchLag = 100
	// runsOf is how old runs may be that have failed: those of last week were seen.
	runsOf = time.Hour
)

// problemList is the body of /console/problems.
type problemList struct {
	Namespace string        `json:"namespace"`
	Problems  []finding     `json:"problems"`  // the worst first
	Partial   []missingPart `json:"partial"`   // what could not be looked at
	Truncated bool          `json:"truncated"` // there is more of something than was looked at
}

// finding is something that needs somebody to look at it.
type finding struct {
	Kind     string `json:"kind"`     // node, shard, queue, group, action, workflow, worker or job
	Name     string `json:"name"`     // of that
	Of       string `json:"of"`       // of a group its stream, of a job its id, of a workflow the status of the runs, of a queue the state of the messages; or ""
	Severity string `json:"severity"` // crit or warn
	Count    int64  `json:"count"`    // of messages, records or runs; else 1
	Text     string `json:"text"`     // what is wrong with it, as the rest of a sentence
}

// missingPart is what could not be looked at, and why.
type missingPart struct {
	What  string `json:"what"`
	Error string `json:"error"`
}

// checks are all that is looked at.
var checks = []struct {
	what  string
	check func(h *handler, ctx context.Context, ns string, add func(finding)) (more bool, err error)
}{
	{"nodes and shards", (*handler).checkNodes},
	{"queues", (*handler).checkQueues},
	{"consumer groups", (*handler).checkGroups},
	{"actions", (*handler).checkActions},
	{"runs", (*handler).checkRuns},
	{"workers", (*handler).checkWorkers},
	{"processing jobs", (*handler).checkJobs},
}

// look is what a check has come to.
type look struct {
	found []finding
	more  bool
	err   error

	panicked error
}

// problems looks for what is wrong in a namespace. What can not be read is said, and the rest is told all the same: it is asked for when something is wrong.
// All is looked at at once: a shard without a leader keeps a read waiting for seconds, which would add up.
func (h *handler) problems(ctx context.Context, q namespaceRequest) (problemList, error) {
	list := problemList{Namespace: q.namespace, Problems: []finding{}, Partial: []missingPart{}}
	looks := make([]look, len(checks))
	var under sync.WaitGroup
	for i, c := range checks {
		under.Go(func() {
			l := &looks[i]
			defer func() {
				if cause := recover(); cause != nil {
					l.panicked = fmt.Errorf("%v\n%s", cause, debug.Stack())
				}
			}()
			l.more, l.err = c.check(h, ctx, q.namespace, func(p finding) { l.found = append(l.found, p) })
		})
	}
	under.Wait()
	for i, l := range looks {
		switch {
		case l.panicked != nil:
			panic(l.panicked) // where the handler recovers it
		case errors.Is(l.err, engine.ErrUnauthorized), ctx.Err() != nil:
			return problemList{}, cmp.Or(l.err, ctx.Err())
		case l.err != nil:
			list.Partial = append(list.Partial, missingPart{checks[i].what, l.err.Error()})
		}
		list.Problems = append(list.Problems, l.found...)
		list.Truncated = list.Truncated || l.more
	}
	slices.SortStableFunc(list.Problems, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(b.Count, a.Count)) // crit is before warn
	})
	return list, nil
}

// counted is a number of things: "1 run", "3 runs".
func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}

func (h *handler) checkNodes(ctx context.Context, _ string, add func(finding)) (bool, error) {
	s, err := h.backend.Stats(ctx)
	for _, n := range s.Nodes {
		if n.Status != "healthy" || n.Problem != "" {
			add(finding{Kind: "node", Name: n.ID, Severity: "crit", Count: 1, Text: "is " + string(n.Status) + suffix(": ", n.Problem)})
		}
	}
	var unled []string
	for _, sh := range s.Shards {
		if sh.Leader == 0 {
			unled = append(unled, strconv.Itoa(sh.ID))
		}
	}
	if n := len(unled); n > 0 {
		const most = 16
		name := strings.Join(unled[:min(n, most)], ", ") + suffix(", ", strings.Repeat("...", min(1, n/(most+1))))
		add(finding{Kind: "shard", Name: name, Severity: "crit", Count: int64(n), Text: "without a leader: what is there can not be read or written"})
	}
	if s.Disk.ReadOnly {
		add(finding{Kind: "node", Name: strconv.FormatUint(s.Node, 10), Severity: "crit", Count: 1, Text: "has a full disk: what takes space is refused"})
	}
	return false, err
}

func suffix(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

func (h *handler) checkQueues(ctx context.Context, ns string, add func(finding)) (bool, error) {
	page, err := h.backend.Queue(ns).Page(ctx, queue.Limit(mostChecked))
	for _, q := range page.Items {
		if q.Dead > 0 {
			add(finding{Kind: "queue", Name: q.Name, Of: "dlq", Severity: "crit", Count: q.Dead, Text: "has " + counted(q.Dead, "dead letter")})
		}
		if waiting := q.Ready + q.Delayed; q.Paused && waiting > 0 {
			add(finding{Kind: "queue", Name: q.Name, Severity: "warn", Count: waiting, Text: "is paused, with " + counted(waiting, "message") + " in it"})
		}
		if most := q.Settings.MaxLen; most > 0 && q.Ready+q.Delayed+q.Inflight >= most {
			add(finding{Kind: "queue", Name: q.Name, Severity: "crit", Count: most, Text: "is full, with " + counted(most, "message")})
		}
	}
	return page.Cursor != "", err
}

func (h *handler) checkGroups(ctx context.Context, ns string, add func(finding)) (bool, error) {
	streams, err := h.backend.Stream(ns).Page(ctx, stream.Limit(mostChecked))
	if err != nil {
		return false, err
	}
	looked, more := 0, streams.Cursor != ""
	for _, st := range streams.Items {
		if st.Records() == 0 {
			continue
		}
		if looked >= mostChecked {
			return true, nil
		}
		groups, err := h.backend.Stream(ns).Groups(st.Name).Page(ctx, stream.Limit(mostChecked-looked))
		if errors.Is(err, engine.ErrNotFound) { // it was deleted meanwhile
			continue
		}
		if err != nil {
			return false, err
		}
		looked, more = looked+len(groups.Items), more || groups.Cursor != ""
		for _, g := range groups.Items {
			lag := g.Lag()
			switch {
			case lag > 0 && len(g.Members) == 0:
				add(finding{Kind: "group", Name: g.Name, Of: st.Name, Severity: "warn", Count: lag, Text: "is " + counted(lag, "record") + " behind, and nobody reads"})
			case lag >= muchLag:
				add(finding{Kind: "group", Name: g.Name, Of: st.Name, Severity: "warn", Count: lag, Text: "is " + counted(lag, "record") + " behind"})
			}
		}
	}
	return more, nil
}

func (h *handler) checkActions(ctx context.Context, ns string, add func(finding)) (bool, error) {
	page, err := h.backend.Action(ns).Page(ctx, action.Limit(mostChecked))
	for _, a := range page.Items {
		if a.Runs.Pending > 0 && a.Workers == 0 {
			add(finding{Kind: "action", Name: a.Name, Severity: "crit", Count: a.Runs.Pending, Text: "has " + counted(a.Runs.Pending, "run") + " that wait, and no worker"})
		}
	}
	return page.Cursor != "", err
}

// checkRuns tells what has failed lately, by workflow, with the latest reason.
func (h *handler) checkRuns(ctx context.Context, ns string, add func(finding)) (more bool, _ error) {
	now := h.now()
	for _, ended := range []struct {
		status   workflow.Status
		word     string
		severity string
	}{{workflow.Failed, "failed", "crit"}, {workflow.TimedOut, "timed out", "warn"}} {
		page, err := h.backend.Workflow(ns).Runs().Page(ctx, workflow.InState(ended.status), workflow.StartedBetween(now.Add(-runsOf), now.Add(time.Minute)), workflow.Limit(mostChecked))
		if err != nil {
			return more, err
		}
		more = more || page.Cursor != ""
		count, latest := make(map[string]int64), make(map[string]workflow.RunInfo)
		var order []string
		for _, r := range page.Items { // the newest first
			if count[r.Workflow]++; count[r.Workflow] == 1 {
				latest[r.Workflow] = r
				order = append(order, r.Workflow)
			}
		}
		for _, name := range order {
			text := fmt.Sprintf("%s %s within an hour%s", counted(count[name], "run"), ended.word, suffix(", the last: ", latest[name].Error))
			add(finding{Kind: "workflow", Name: name, Of: ended.status.String(), Severity: ended.severity, Count: count[name], Text: text})
		}
	}
	return more, nil
}

func (h *handler) checkWorkers(ctx context.Context, ns string, add func(finding)) (bool, error) {
	page, err := h.backend.Action(ns).Workers().Page(ctx, action.Limit(mostChecked))
	for _, w := range page.Items {
		if w.Status == action.Unhealthy {
			add(finding{Kind: "worker", Name: w.ID, Severity: "warn", Count: 1, Text: "was not heard of for " + h.now().Sub(w.LastSeen).Round(time.Second).String()})
		}
	}
	return page.Cursor != "", err
}

func (h *handler) checkJobs(ctx context.Context, ns string, add func(finding)) (bool, error) {
	page, err := h.backend.Processing(ns).Page(ctx, processing.Limit(mostChecked))
	for _, j := range page.Items {
		switch {
		case j.Status == processing.Failed:
			add(finding{Kind: "job", Name: j.Name, Of: string(j.ID), Severity: "crit", Count: 1, Text: "has failed" + suffix(": ", j.Reason)})
		case j.Held:
			add(finding{Kind: "job", Name: j.Name, Of: string(j.ID), Severity: "warn", Count: 1, Text: "waits" + suffix(": ", j.Reason)})
		case j.Metrics.Errors > 0:
			add(finding{Kind: "job", Name: j.Name, Of: string(j.ID), Severity: "warn", Count: j.Metrics.Errors, Text: "could not work with " + counted(j.Metrics.Errors, "record")})
		}
	}
	return page.Cursor != "", err
}
