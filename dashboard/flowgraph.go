package dashboard

import (
	"bytes"
	"regexp"
	"strconv"

	"github.com/floedb/floe/internal/flow"
)

// flowGraph returns the steps and terminals of a workflow, with the outcomes that connect them.
func flowGraph(d *flow.Definition, source []byte) graph {
	g := graph{Nodes: []graphNode{}, Edges: []graphEdge{}}
	for i := range d.Steps {
		s := &d.Steps[i]
		name := s.Name
		if name == flow.StartStep {
			name = "start"
		}
		g.Nodes = append(g.Nodes, graphNode{ID: s.Name, Kind: stepKind(s), Label: stepLabel(s), Line: lineOf(source, name)})
	}
	ends := make(map[string]bool)
	for i := range d.Steps {
		for _, t := range d.Steps[i].Transitions {
			to, end := "", t.To < 0
			if end {
				terminal := d.Terminal(t.To)
				to = "end:" + terminal.Name
				if !ends[to] {
					ends[to] = true
					g.Nodes = append(g.Nodes,
						graphNode{ID: to, Kind: "end-" + endStatus(terminal.Status), Label: terminal.Name,
							Line: lineOf(source, terminal.Name)})
				}
			} else {
				to = d.Steps[t.To].Name
			}
			g.Edges = append(g.Edges, graphEdge{From: d.Steps[i].Name, To: to, Label: t.Outcome})
		}
	}
	return g
}

func stepKind(s *flow.Step) string {
	switch s.Kind {
	case flow.KindWait:
		return "wait"
	case flow.KindSleep:
		return "sleep"
	case flow.KindParallel:
		return "parallel"
	}
	switch s.Call.Target {
	case flow.TargetPlan:
		return "plan"
	case flow.TargetWorkflow:
		return "workflow"
	}
	return "action"
}

// stepLabel describes a step in a few words.
func stepLabel(s *flow.Step) string {
	switch s.Kind {
	case flow.KindWait:
		return "signal " + s.Wait.Type
	case flow.KindSleep:
		return "pause"
	case flow.KindParallel:
		if s.Parallel.Each != nil {
			return "each: " + s.Parallel.Body.Name
		}
		return strconv.Itoa(len(s.Parallel.Branches)) + " branches"
	}
	return s.Call.Name
}

func endStatus(s flow.Status) string {
	switch s {
	case flow.Completed:
		return "completed"
	case flow.Failed:
		return "failed"
	case flow.Cancelled:
		return "cancelled"
	}
	return "timed_out"
}

// lineOf returns the number of the line that begins with the name as a key, 0 if none exists.
func lineOf(source []byte, name string) int {
	at := regexp.MustCompile(`(?m)^\s*["']?` + regexp.QuoteMeta(name) + `["']?\s*:`).FindIndex(source)
	if at == nil {
		return 0
	}
	end := at[0]
	for end < at[1] && (source[end] == '\n' || source[end] == ' ' || source[end] == '\r' || source[end] == '\t') {
		end++
	}
	return bytes.Count(source[:end], []byte("\n")) + 1
}
