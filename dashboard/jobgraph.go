package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/floedb/floe/internal/yaml"
)

// jobGraph returns the sources, operators and sinks of a pipeline, and the flow between them: all
// records pass the operators in order, and then go to the sinks whose tags they carry. It uses the
// source text, so that a pipeline with mistakes can be displayed too.
func jobGraph(source []byte) graph {
	g := graph{Nodes: []graphNode{}, Edges: []graphEdge{}}
	var doc yaml.Node
	if yaml.Unmarshal(source, &doc) != nil || len(doc.Content) == 0 {
		return g
	}
	root := doc.Content[0]
	var before []string
	for i, n := range elements(root, "sources") {
		kind, label := target(n, "stream", "ts")
		id := g.id("source", i, n)
		g.Nodes = append(g.Nodes, graphNode{ID: id, Kind: cmp.Or(kind, "source"), Label: label, Line: n.Line})
		before = append(before, id)
	}
	for i, n := range elements(root, "operators") {
		id := g.id("operator", i, n)
		g.Nodes = append(g.Nodes, graphNode{ID: id, Kind: cmp.Or(textOf(n, "type"), "operator"),
			Label: cmp.Or(textOf(n, "condition"), textOf(n, "function"), textOf(n, "key_expression")), Line: n.Line})
		g.connect(before, id, "")
		before = []string{id}
	}
	for i, n := range elements(root, "sinks") {
		kind, label := target(n, "stream", "kv", "queue", "ts")
		id := g.id("sink", i, n)
		g.Nodes = append(g.Nodes, graphNode{ID: id, Kind: cmp.Or(kind, "sink"), Label: label, Line: n.Line})
		var tags []string
		for _, tag := range elements(n, "match") {
			tags = append(tags, tag.Value)
		}
		g.connect(before, id, strings.Join(tags, ", "))
	}
	return g
}

func (g *graph) connect(from []string, to, label string) {
	for _, f := range from {
		g.Edges = append(g.Edges, graphEdge{From: f, To: to, Label: label})
	}
}

// member returns a member of a mapping, nil if it is missing.
func member(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// elements returns the elements of a list member.
func elements(n *yaml.Node, key string) []*yaml.Node {
	if list := member(n, key); list != nil && list.Kind == yaml.SequenceNode {
		return list.Content
	}
	return nil
}

// textOf returns a text member, "" if it is missing or not a text.
func textOf(n *yaml.Node, key string) string {
	if m := member(n, key); m != nil && m.Kind == yaml.ScalarNode {
		return m.Value
	}
	return ""
}

// id returns the identifier of a pipeline part: its name, else its position; both if another part
// has the same name.
func (g *graph) id(what string, i int, n *yaml.Node) string {
	place := fmt.Sprintf("%s %d", what, i+1)
	name := cmp.Or(textOf(n, "name"), place)
	if slices.ContainsFunc(g.Nodes, func(other graphNode) bool { return other.ID == name }) {
		name += ", " + place
	}
	return name
}

// target returns the kind of a source or sink, and what it reads or writes.
func target(n *yaml.Node, kinds ...string) (kind, label string) {
	for _, kind := range kinds {
		if m := member(n, kind); m != nil {
			return kind, cmp.Or(textOf(m, "name"), textOf(m, "measurement"), textOf(m, "key"))
		}
	}
	return "", ""
}
