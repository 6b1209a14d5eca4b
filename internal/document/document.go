package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"unicode/utf8"

	"github.com/floedb/floe/internal/rawjson"
	"github.com/floedb/floe/internal/yaml"
)

// Node is a value of a document, with the line on which it begins.
type Node struct {
	Kind      Kind
	Line      int
	Text      string // text; numbers and booleans as written
	Ambiguous string // the meaning of plain text in other versions of YAML
	Pairs     []Pair
	Items     []*Node
}

// Pair is a member of a table.
type Pair struct {
	Key   string
	Line  int
	Value *Node
}

// Kind is the kind of a node.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	Text
	List
	Table
)

func (k Kind) String() string {
	return [...]string{"null", "boolean", "number", "text", "list", "table"}[k]
}

// Describe returns a description of the node for messages.
func (n *Node) Describe() string {
	switch n.Kind {
	case Text:
		return Quote(n.Text)
	case Bool, Number:
		return Clip(n.Text)
	case Null:
		return "null"
	}
	return "a " + n.Kind.String()
}

// MaxSource is the maximum size of a document in bytes.
const MaxSource = 1 << 20

const (
	maxNodes    = 1 << 20 // per document, with all aliases followed
	maxContent  = 4 << 20 // bytes of text, likewise
	maxNodesIn  = 100     // nesting depth
	maxAliasing = 10_000  // aliases
)

// Read reads YAML or JSON. If that fails, it returns nil and adds a problem.
func Read(src []byte, r *Report) *Node {
	switch {
	case len(src) > MaxSource:
		r.Fail(1, "too-large", "the definition has %d bytes, at most %d are allowed", len(src), MaxSource)
		return nil
	case !utf8.Valid(src):
		line, at := invalidUTF8(src)
		r.Fail(line, "encoding", "byte 0x%02x is not UTF-8", at)
		return nil
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if isJSON(src) {
		return readJSON(src, r)
	}
	if i := bytes.IndexFunc(src, isControl); i >= 0 {
		r.Fail(1+bytes.Count(src[:i], []byte("\n")), "encoding", "byte 0x%02x is a control character: write it as an escape, in quotes",
			src[i])
		return nil
	}
	doc := parseYAML(src, r)
	if doc == nil {
		return nil
	}
	c := converter{Report: r, known: make(map[*yaml.Node]*converted)}
	n := c.convert(doc, 0)
	if n.err || c.failed {
		return nil
	}
	return n.node
}

// isControl reports whether a character is not allowed in YAML.
func isControl(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f }

func invalidUTF8(src []byte) (line int, at byte) {
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 {
			return 1 + bytes.Count(src[:i], []byte("\n")), src[i]
		}
		i += n
	}
	return 1, 0
}

// parseYAML parses one document.
func parseYAML(src []byte, r *Report) (doc *yaml.Node) {
	var root, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(src))
	switch err := decode(d, &root); {
	case errors.Is(err, io.EOF):
		r.Fail(1, "empty", "the definition is empty")
		return nil
	case err != nil:
		line, message := yamlError(err)
		r.Fail(line, "syntax", "%s", message)
		return nil
	}
	switch err := decode(d, &second); {
	case err == nil:
		r.Fail(second.Line, "documents", "a second document begins, one is allowed")
		return nil
	case !errors.Is(err, io.EOF):
		line, message := yamlError(err)
		r.Fail(line, "syntax", "%s", message)
		return nil
	}
	if root.Kind != yaml.DocumentNode || len(root.Content) != 1 {
		r.Fail(1, "empty", "the definition is empty")
		return nil
	}
	return root.Content[0]
}

// decode converts panics of the third-party parser, which hostile text might cause, to errors.
func decode(d *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	return d.Decode(n)
}

var (
	yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	// yamlGrammar matches errors whose lines the parser counts from 0.
	yamlGrammar = regexp.MustCompile(`^did not find expected (',' or|key$|'-' indicator|node content|<)|^found (undefined tag|duplicate %|incompatible YAML)`)
)

// yamlError extracts the line from an error of the parser.
func yamlError(err error) (line int, message string) {
	text := err.Error()
	m := yamlLine.FindStringSubmatch(text)
	line = 1
	if m != nil {
		text = text[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil && n > 0 {
			line = n
		}
		if m[1] != "" && yamlGrammar.MatchString(text) {
			line++
		}
	}
	return line, "not YAML: " + Clip(text)
}

// converter converts the YAML parser's nodes. The target of an alias is converted once and shared,
// but counts towards the sizes each time.
type converter struct {
	*Report
	known   map[*yaml.Node]*converted
	aliases int
	failed  bool
}

// converted is a node with its size.
type converted struct {
	node  *Node
	nodes int
	bytes int
	deep  int // number of levels, including its own
	done  bool
	err   bool
}

var broken = &converted{node: &Node{}, done: true, err: true}

func (c *converter) refuse(n *yaml.Node, code, format string, args ...any) *converted {
	c.failed = true
	c.Fail(n.Line, code, format, args...)
	return broken
}

func (c *converter) convert(n *yaml.Node, depth int) *converted {
	if n.Kind == yaml.AliasNode {
		if c.aliases++; c.aliases > maxAliasing {
			return c.refuse(n, "too-large", "more than %d aliases", maxAliasing)
		}
		if k := c.known[n.Alias]; k != nil && !k.done {
			return c.refuse(n, "alias", "alias *%s refers to itself", Clip(n.Value))
		} else if k != nil {
			return k
		}
		return c.refuse(n, "alias", "unknown alias *%s", Clip(n.Value))
	}
	switch {
	case depth > maxNodesIn:
		return c.refuse(n, "too-deep", "nested deeper than %d levels", maxNodesIn)
	case n.Style&yaml.TaggedStyle != 0:
		return c.refuse(n, "tag", "tag %s is not supported: put text in quotes", Clip(n.Tag))
	}
	k := &converted{node: &Node{Line: n.Line}, nodes: 1, deep: 1}
	if n.Anchor != "" {
		c.known[n] = k
	}
	switch n.Kind {
	case yaml.ScalarNode:
		c.scalar(n, k)
	case yaml.SequenceNode:
		k.node.Kind = List
		for _, item := range n.Content {
			k.node.Items = append(k.node.Items, c.child(k, item, depth))
		}
	case yaml.MappingNode:
		c.table(n, k, depth)
	}
	k.done = true
	switch {
	case c.failed:
	case k.nodes > maxNodes || k.bytes > maxContent:
		return c.refuse(n, "too-large", "with its aliases expanded, the definition has more than %d values or %d bytes", maxNodes,
			maxContent)
	case k.deep > maxNodesIn:
		return c.refuse(n, "too-deep", "nested deeper than %d levels", maxNodesIn)
	}
	return k
}

// child converts a part of a node and adds its size. After a problem the rest is skipped.
func (c *converter) child(of *converted, n *yaml.Node, depth int) *Node {
	if c.failed && len(c.Problems) >= MaxProblems {
		return broken.node
	}
	k := c.convert(n, depth+1)
	of.nodes, of.bytes, of.deep = of.nodes+k.nodes, of.bytes+k.bytes, max(of.deep, k.deep+1)
	return k.node
}

func (c *converter) table(n *yaml.Node, k *converted, depth int) {
	k.node.Kind = Table
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		value := c.child(k, n.Content[i+1], depth)
		if !c.key(key) {
			continue
		}
		if first, twice := seen[key.Value]; twice {
			c.Fail(key.Line, "duplicate-key", "duplicate key %s, first in line %d", Quote(key.Value), first)
			continue
		}
		seen[key.Value] = key.Line
		k.bytes += len(key.Value)
		k.node.Pairs = append(k.node.Pairs, Pair{key.Value, key.Line, value})
	}
}

// key reports whether a key is text.
func (c *converter) key(n *yaml.Node) bool {
	switch kind, _ := plain(n); {
	case n.Kind == yaml.AliasNode || n.Kind != yaml.ScalarNode:
		c.refuse(n, "key", "a key must be text")
	case n.Style&yaml.TaggedStyle != 0:
		c.refuse(n, "tag", "tag %s is not supported: put text in quotes", Clip(n.Tag))
	case n.Value == "<<" && n.Style == 0:
		c.refuse(n, "merge-key", "merge keys (<<) are not supported: write the keys out, or use an alias for the whole table")
	case kind != Text:
		c.refuse(n, "key", "key %s is %s: a key must be text, put it in quotes", Clip(n.Value), kind.article())
	default:
		return true
	}
	return false
}

func (k Kind) article() string {
	if k == Text || k == Null {
		return k.String()
	}
	return "a " + k.String()
}

func (c *converter) scalar(n *yaml.Node, k *converted) {
	k.bytes = len(n.Value)
	k.node.Text = n.Value
	k.node.Kind, k.node.Ambiguous = plain(n)
}

var (
	numberLike = regexp.MustCompile(`^[-+]?(\.[0-9]|[0-9])[0-9_.eExXoObBa-fA-F:+-]*$`)
	infinite   = regexp.MustCompile(`^[-+]?\.(inf|Inf|INF|nan|NaN|NAN)$`)
)

// plain returns the kind of a plain scalar. It follows JSON, and of YAML's own forms it accepts
// only the spellings of null and of booleans. Text that has another meaning in some version of YAML
// is ambiguous.
func plain(n *yaml.Node) (kind Kind, ambiguous string) {
	if n.Kind != yaml.ScalarNode || n.Style&^yaml.FlowStyle != 0 {
		return Text, ""
	}
	switch n.Value {
	case "", "~", "null", "Null", "NULL":
		return Null, ""
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return Bool, ""
	case "yes", "Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF", "y", "Y", "n", "N":
		return Text, "a boolean"
	}
	switch {
	case rawjson.IsNumber([]byte(n.Value)):
		return Number, ""
	case infinite.MatchString(n.Value), numberLike.MatchString(n.Value) && (n.Tag == "!!int" || n.Tag == "!!float"):
		return Text, "a number"
	}
	return Text, ""
}
