package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/floedb/floe/internal/yaml"
)

// Mapping is a table of a definition created in Go. YAML writes its members in order.
//
// A value is a Mapping, a list of them, text, or a duration, which is written in milliseconds. Any
// other value is written as encoding/json writes it.
type Mapping []Member

// Member is a key with its value.
type Member struct {
	Key   string
	Value any
}

// With returns a Mapping of one member.
func With(key string, value any) Mapping { return Mapping{{key, value}} }

// Set adds a member.
func (m *Mapping) Set(key string, value any) { *m = append(*m, Member{key, value}) }

// Opt adds a member unless its value is zero or an empty list.
func (m *Mapping) Opt(key string, value any) {
	if v := reflect.ValueOf(value); v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
		return
	}
	m.Set(key, value)
}

// OptJSON adds a member unless its value is nil.
func (m *Mapping) OptJSON(key string, value any) {
	if value != nil {
		m.Set(key, value)
	}
}

// OptOrNone adds a number unless it is 0. A negative one is written as 0.
func (m *Mapping) OptOrNone(key string, value int64) {
	if value != 0 {
		m.Set(key, max(value, 0))
	}
}

// OptPairs adds a table of text, sorted by name, unless it is empty.
func (m *Mapping) OptPairs(key string, values map[string]string) {
	all := Mapping{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all.Set(name, values[name])
	}
	m.Opt(key, all)
}

// Millis returns a duration in milliseconds, rounded away from zero.
func Millis(d time.Duration) int64 {
	n, rest := int64(d/time.Millisecond), d%time.Millisecond
	switch {
	case rest > 0:
		n++
	case rest < 0:
		n--
	}
	return n
}

// YAML returns the document. If a value cannot be written, it returns a comment with the reason.
func (m Mapping) YAML() []byte {
	node, err := nodeOf(m)
	if err == nil {
		var b bytes.Buffer
		e := yaml.NewEncoder(&b)
		e.SetIndent(2)
		if err = e.Encode(node); err == nil {
			return b.Bytes()
		}
	}
	return []byte("# " + strings.ReplaceAll(err.Error(), "\n", " ") + "\n")
}

func nodeOf(value any) (*yaml.Node, error) {
	switch v := value.(type) {
	case Mapping:
		return v.node()
	case []Mapping:
		all := &yaml.Node{Kind: yaml.SequenceNode}
		for _, m := range v {
			node, err := m.node()
			if err != nil {
				return nil, err
			}
			all.Content = append(all.Content, node)
		}
		return all, nil
	case time.Duration:
		value = Millis(v)
	case string:
		return textNode(v)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return jsonNode(d)
}

func (m Mapping) node() (*yaml.Node, error) {
	all := &yaml.Node{Kind: yaml.MappingNode}
	if len(m) == 0 {
		all.Style = yaml.FlowStyle
	}
	for _, member := range m {
		key, err := textNode(member.Key)
		if err != nil {
			return nil, err
		}
		value, err := nodeOf(member.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", member.Key, err)
		}
		all.Content = append(all.Content, key, value)
	}
	return all, nil
}

// jsonNode returns the next value of d. In objects, keys are values that precede their members.
func jsonNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case string:
		return textNode(v)
	case json.Delim:
		all := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
		if v == '[' {
			all.Kind = yaml.SequenceNode
		}
		for d.More() {
			node, err := jsonNode(d)
			if err != nil {
				return nil, err
			}
			all.Content = append(all.Content, node)
		}
		_, err := d.Token()
		return all, err
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(token)}, nil
}

// textNode returns a text node, quoted if the text could have another meaning. The library misses
// some cases: merge keys, leading line feeds, and text that is text only in YAML 1.2.
func textNode(text string) (*yaml.Node, error) {
	node := new(yaml.Node)
	if err := node.Encode(text); err != nil || !utf8.ValidString(text) {
		return node, err
	}
	if kind, ambiguous := plain(node); kind != Text || ambiguous != "" || text == "<<" || text != node.Value {
		return &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: text}, nil
	}
	return node, nil
}
