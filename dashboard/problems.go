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
	// mostChecked limits the objects checked of each type, so that the response takes milliseconds
	// even in a large namespace. Larger installations have their own monitoring.
	mostChecked = 500
	// muchLag is the minimum lag of a group that is reported: a smaller lag is normal.
	muchLag = 100
	// runsOf is the maximum age of reported failed runs: older failures have been seen.
	runsOf = time.Hour
)

// problemList is the body of /console/problems.
type problemList struct {
	Namespace string        `json:"namespace"`
	Problems  []finding     `json:"problems"`  // most severe first
	Partial   []missingPart `json:"partial"`   // checks that failed
	Truncated bool          `json:"truncated"` // some objects were not checked
}

// finding is a problem that needs attention.
type finding struct {
	Kind string `json:"kind"` // node, shard, queue, group, action, workflow, worker or job
	Name string `json:"name"` // of the object
	// of a group its stream, of a job its id, of a workflow the status of the runs, of a queue the
	// state of the messages; or ""
	Of       string `json:"of"`
	Severity string `json:"severity"` // crit or warn
	Count    int64  `json:"count"`    // of messages, records or runs; else 1
	Text     string `json:"text"`     // the problem, as the rest of a sentence
}

// missingPart is a failed check, with its error.
type missingPart struct {
	What  string `json:"what"`
	Error string `json:"error"`
}

// checks are all checks.
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

// look is the result of a check.
type look struct {
	found []finding
	more  bool
	err   error

	panicked error
}

// problems looks for problems in a namespace. It reports checks that fail and still returns the
// other results, because it is used when something is wrong. The checks run concurrently: a shard
// without a leader delays a read by seconds, which would add up.
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
			panic(l.panicked) // the handler recovers it
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

// counted formats a number of objects: "1 run", "3 runs".
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
			add(finding{Kind: "node", Name: n.ID, Severity: "crit", Count: 1, Text: string(n.Status) + suffix(": ", n.Problem)})
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
			Text: "no leader: its data cannot be read or written"})
	}
	if s.Disk.ReadOnly {
		add(finding{Kind: "node", Name: strconv.FormatUint(s.Node, 10), Severity: "crit", Count: 1,
			Text: "disk full: writes that need space are rejected"})
	}
	return false, err
}

func suffix(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}
