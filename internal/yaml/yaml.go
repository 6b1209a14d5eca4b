package yaml

import (
	"io"

	"gopkg.in/yaml.v3"
)

// Node is an element of a document.
type Node = yaml.Node

// Decoder reads documents.
type Decoder = yaml.Decoder

// Encoder writes documents.
type Encoder = yaml.Encoder

// Kinds and styles of nodes.
const (
	DocumentNode = yaml.DocumentNode
	SequenceNode = yaml.SequenceNode
	MappingNode  = yaml.MappingNode
	ScalarNode   = yaml.ScalarNode
	AliasNode    = yaml.AliasNode

	TaggedStyle       = yaml.TaggedStyle
	DoubleQuotedStyle = yaml.DoubleQuotedStyle
	FlowStyle         = yaml.FlowStyle
)

// NewDecoder returns a decoder that reads from r.
func NewDecoder(r io.Reader) *Decoder { return yaml.NewDecoder(r) }

// NewEncoder returns an encoder that writes to w.
func NewEncoder(w io.Writer) *Encoder { return yaml.NewEncoder(w) }

// Unmarshal decodes the first document of source into v.
func Unmarshal(source []byte, v any) error { return yaml.Unmarshal(source, v) }
