package document

import (
	"bytes"

	"github.com/floedb/floe/internal/rawjson"
)

// isJSON reports whether a document is JSON. YAML is not quite a superset: it treats tabs,
// surrogate pairs and escaped slashes differently.
func isJSON(src []byte) bool {
	i := rawjson.SkipSpace(src, 0)
	return i < len(src) && src[i] == '{' && rawjson.Valid(src)
}

// jsonReader converts valid JSON to nodes.
type jsonReader struct {
	*Report
	src  []byte
	at   int
	line int
}

func readJSON(src []byte, r *Report) *Node {
	j := jsonReader{Report: r, src: src, line: 1}
	n := j.value(0)
	if r.Failed {
		return nil
	}
	return n
}

// ReadText parses the JSON in a text node. It returns nil if the JSON is invalid. Problems have the
// line of the text.
func ReadText(n *Node, r *Report) *Node {
	if !rawjson.Valid([]byte(n.Text)) {
		return nil
	}
	j := jsonReader{Report: r, src: []byte(n.Text), line: n.Line}
	return j.value(0)
}

// space skips white space and separators.
func (j *jsonReader) space() {
	for ; j.at < len(j.src); j.at++ {
		switch j.src[j.at] {
		case '\n':
			j.line++
		case ' ', '\t', '\r', ',', ':':
		default:
			return
		}
	}
}

func (j *jsonReader) value(depth int) *Node {
	j.space()
	n := &Node{Line: j.line}
	if depth > maxNodesIn {
		if !j.Failed {
			j.Fail(j.line, "too-deep", "nested deeper than %d levels", maxNodesIn)
		}
		end := rawjson.SkipValue(j.src, j.at)
		j.line += bytes.Count(j.src[j.at:end], []byte("\n"))
		j.at = end
		return n
	}
	switch c := j.src[j.at]; c {
	case '{':
		j.table(n, depth)
		return n
	case '[':
		n.Kind = List
		j.at++
		for j.space(); j.src[j.at] != ']'; j.space() {
			n.Items = append(n.Items, j.value(depth+1))
		}
		j.at++
		return n
	case 'n':
		n.Kind = Null
	case 't', 'f':
		n.Kind = Bool
	case '"':
		n.Kind = Text
	default:
		n.Kind = Number
	}
	end := rawjson.SkipValue(j.src, j.at)
	if n.Text = string(j.src[j.at:end]); n.Kind == Text {
		n.Text, _ = rawjson.Text(j.src[j.at:end])
	}
	j.at = end
	return n
}

func (j *jsonReader) table(n *Node, depth int) {
	n.Kind = Table
	seen := make(map[string]int)
	j.at++
	for j.space(); j.src[j.at] != '}'; j.space() {
		end := rawjson.SkipText(j.src, j.at)
		key, _ := rawjson.Text(j.src[j.at:end])
		line := j.line
		j.at = end
		value := j.value(depth + 1)
		if first, twice := seen[key]; twice {
			j.Fail(line, "duplicate-key", "duplicate key %s, first in line %d", Quote(key), first)
			continue
		}
		seen[key] = line
		n.Pairs = append(n.Pairs, Pair{key, line, value})
	}
	j.at++
}
