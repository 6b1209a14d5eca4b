package flow

import "bytes"

// isJSON says whether a document is JSON. YAML has most of JSON in it, but not all: tabs, pairs of surrogates and escaped slashes mean other things there.
func isJSON(src []byte) bool {
	i := skipSpace(src, 0)
	return i < len(src) && src[i] == '{' && Valid(src)
}

// jsonReader makes nodes of valid JSON.
type jsonReader struct {
	*report
	src  []byte
	at   int
	line int
}

func readJSON(src []byte, r *report) *node {
	j := jsonReader{report: r, src: src, line: 1}
	n := j.value(0)
	if r.failed {
		return nil
	}
	return n
}

// space goes over white space and what separates values.
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

func (j *jsonReader) value(depth int) *node {
	j.space()
	n := &node{line: j.line}
	if depth > maxNodesIn {
		if !j.failed {
			j.fail(j.line, "too-deep", "nested deeper than %d levels", maxNodesIn)
		}
		end := skipValue(j.src, j.at, 0)
		j.line += bytes.Count(j.src[j.at:end], []byte("\n"))
		j.at = end
		return n
	}
	switch c := j.src[j.at]; c {
	case '{':
		j.table(n, depth)
		return n
	case '[':
		n.kind = nodeList
		j.at++
		for j.space(); j.src[j.at] != ']'; j.space() {
			n.items = append(n.items, j.value(depth+1))
		}
		j.at++
		return n
	case 'n':
		n.kind = nodeNull
	case 't', 'f':
		n.kind = nodeBool
	case '"':
		n.kind = nodeText
	default:
		n.kind = nodeNumber
	}
	end := skipValue(j.src, j.at, 0)
	if n.text = string(j.src[j.at:end]); n.kind == nodeText {
		n.text, _ = Text(j.src[j.at:end])
	}
	j.at = end
	return n
}

func (j *jsonReader) table(n *node, depth int) {
	n.kind = nodeTable
	seen := make(map[string]int)
	j.at++
	for j.space(); j.src[j.at] != '}'; j.space() {
		end := skipText(j.src, j.at)
		key, _ := Text(j.src[j.at:end])
		line := j.line
		j.at = end
		value := j.value(depth + 1)
		if first, twice := seen[key]; twice {
			j.fail(line, "duplicate-key", "key %s is there twice, first in line %d", quote(key), first)
			continue
		}
		seen[key] = line
		n.pairs = append(n.pairs, pair{key, line, value})
	}
	j.at++
}
