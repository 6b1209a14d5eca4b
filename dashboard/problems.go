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

	"github.com/floedb/floe/internal/engine"
)

const (
	// mostChecked bounds what is looked at of each kind, so that the answer takes milliseconds also
	// in a namespace with everything. Who has more has a monitoring.
	mostChecked = 500
	// muchLag is from how many records a group is behind that somebody may want to know: less is
	// the present.
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
	Kind string `json:"kind"` // node, shard, queue, group, action, workflow, worker or job
	Name string `json:"name"` // of that
	// of a group its stream, of a job its id, of a workflow the status of the runs, of a queue the
	// state of the messages; or ""
	Of       string `json:"of"`
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

// problems looks for what is wrong in a namespace. What can not be read is said, and the rest is
// told all the same: it is asked for when something is wrong. All is looked at at once: a shard
// without a leader keeps a read waiting for seconds, which would add up.
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
		add(finding{Kind: "shard", Name: name, Severity: "crit", Count: int64(n),
			Text: "without a leader: what is there can not be read or written"})
	}
	if s.Disk.ReadOnly {
		add(finding{Kind: "node", Name: strconv.FormatUint(s.Node, 10), Severity: "crit", Count: 1,
			Text: "has a full disk: what takes space is refused"})
	}
	return false, err
}

func suffix(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}
