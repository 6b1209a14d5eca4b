package pipeline

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/expression"
)

// sink is the private part of a Sink.
type sink struct {
	line   int
	at     string
	match  TagSet
	key    *template
	prefix string // of keys, including the separator
	tags   []named
	fields []named
	time   *expression.Path
}

// named is a tag or field of a point, with its path in the record.
type named struct {
	name string
	path expression.Path
}

// sink reads a sink.
func (r *reader) sink(n *document.Node, at string) {
	s := Sink{}
	s.private.line, s.private.at = n.Line, at
	r.Table(n, at,
		document.Field{Names: "name", Read: r.Name(&s.Name)},
		document.Field{Names: "match", Read: r.match(&s)},
		document.Field{Names: "stream", Read: r.streamSink(&s)},
		document.Field{Names: "kv", Read: r.kvSink(&s)},
		document.Field{Names: "queue", Read: r.queueSink(&s)},
		document.Field{Names: "ts", Read: r.tsSink(&s)},
		r.refused("wasm", noWASM),
	)
	if n.Kind != document.Table {
		return
	}
	if s.Kind == 0 {
		r.Fail(n.Line, "missing", "%s has no target, expected one of stream, kv, queue and ts", at)
	}
	called(r, n, at, s.Name, r.job.Sinks, func(s *Sink) string { return s.Name })
	r.job.Sinks = append(r.job.Sinks, s)
}

// is sets the kind of a sink's target. A sink has one target.
func (r *reader) is(s *Sink, kind SinkKind, n *document.Node, at string) {
	if s.Kind != 0 {
		r.Fail(n.Line, "duplicate-key", "%s is a second target, expected one of stream, kv, queue and ts: add another sink",
			at)
	}
	s.Kind = kind
}

// match reads the tags. A record must have all of them.
func (r *reader) match(s *Sink) func(*document.Node, string) {
	one := func(n *document.Node, at string) {
		tag := ""
		if r.Text(&tag)(n, at); n.Kind == document.Text {
			s.private.match |= r.tag(tag, n.Line, at)
		}
	}
	return func(n *document.Node, at string) {
		if n.Kind == document.List {
			r.Each(MaxTags, one)(n, at)
			return
		}
		one(n, at)
	}
}

func (r *reader) streamSink(s *Sink) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		r.is(s, ToStream, n, at)
		if n.Kind == document.Text {
			r.Name(&s.Target)(n, at)
			return
		}
		r.Table(n, at,
			document.Field{Names: "name stream", Read: r.Name(&s.Target)},
			document.Field{Names: "key", Read: r.templateOf(&s.private.key)},
			document.Field{Names: "namespace", Read: r.Name(&s.Namespace)},
		)
		r.needs(n, at, "name stream")
	}
}

// needs reports missing keys of a table.
func (r *reader) needs(n *document.Node, at string, keys ...string) {
	for _, key := range keys {
		if n.Kind == document.Table && n.Get(key) == nil {
			word, _, _ := strings.Cut(key, " ")
			r.Fail(n.Line, "missing", "%s has no %s", at, word)
		}
	}
}

func (r *reader) kvSink(s *Sink) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		r.is(s, ToKV, n, at)
		separator := ":"
		r.Table(n, at,
			document.Field{Names: "key", Read: r.templateOf(&s.private.key)},
			document.Field{Names: "key_prefix prefix", Read: r.Text(&s.private.prefix)},
			document.Field{Names: "separator", Read: r.Text(&separator)},
			document.Field{Names: "write_mode mode",
				Read: document.Word(&r.Reader, &s.Mode, document.Is("upsert", Upsert), document.Is("if_absent", IfAbsent),
					document.Is("versioned", Versioned))},
			document.Field{Names: "ttl_ms ttl", Read: r.Millis(&s.TTL, 0)},
			document.Field{Names: "namespace", Read: r.Name(&s.Namespace)},
			ignored("name"),
		)
		if s.private.prefix != "" {
			s.private.prefix += separator
		}
	}
}

func (r *reader) queueSink(s *Sink) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		r.is(s, ToQueue, n, at)
		if n.Kind == document.Text {
			r.Name(&s.Target)(n, at)
			return
		}
		priority := int64(0)
		r.Table(n, at,
			document.Field{Names: "name queue", Read: r.Name(&s.Target)},
			document.Field{Names: "priority", Read: r.Count(&priority, 0, math.MaxUint8)},
			document.Field{Names: "delay_ms delay", Read: r.Millis(&s.Delay, 0)},
			document.Field{Names: "namespace", Read: r.Name(&s.Namespace)},
		)
		s.Priority = uint8(priority)
		r.needs(n, at, "name queue")
	}
}

func (r *reader) tsSink(s *Sink) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		r.is(s, ToTS, n, at)
		var value *expression.Path
		r.Table(n, at,
			document.Field{Names: "measurement name", Read: r.Name(&s.Target)},
			document.Field{Names: "tags", Read: r.paths(&s.private.tags)},
			document.Field{Names: "fields", Read: r.paths(&s.private.fields)},
			document.Field{Names: "value_field", Read: r.path(&value)},
			document.Field{Names: "timestamp time", Read: r.path(&s.private.time)},
			document.Field{Names: "namespace", Read: r.Name(&s.Namespace)},
		)
		r.needs(n, at, "measurement name")
		switch {
		case n.Kind != document.Table:
		case n.Get("fields") != nil && n.Get("value_field") != nil:
			r.Fail(n.Get("value_field").Line, "duplicate-key", "%s has both fields and value_field", at)
		case value != nil:
			s.private.fields = []named{{"value", *value}}
		case n.Get("fields") == nil && n.Get("value_field") == nil:
			r.Fail(n.Line, "missing", "%s has neither fields nor value_field", at)
		case n.Get("fields") != nil && n.Get("fields").Kind == document.Table && len(n.Get("fields").Pairs) == 0:
			r.Fail(n.Get("fields").Line, "missing", "%s.fields is empty", at)
		}
	}
}

// paths reads a table of names and paths, sorted by name.
func (r *reader) paths(v *[]named) func(*document.Node, string) {
	return r.Named(maxFields, func(name string, p *document.Pair, at string) {
		var path *expression.Path
		if r.path(&path)(p.Value, at); path == nil {
			return
		}
		i, _ := slices.BinarySearchFunc(*v, name, func(n named, name string) int { return strings.Compare(n.name, name) })
		*v = slices.Insert(*v, i, named{name, *path})
	})
}

var (
	errNoKey    = errors.New("the record has no key to write it by")
	errNoFields = errors.New("the record has none of the fields to write")
)

// write creates the write of a record.
func (s *Sink) write(i int, it *item) (Write, error) {
	w := Write{Sink: i, Record: it.Record}
	switch s.Kind {
	case ToStream:
		w.Key = stringOf(it.Key)
		if s.private.key != nil {
			key, ok, err := s.private.key.keyOf(it, nil)
			if err != nil {
				return w, err
			}
			if ok {
				w.Key = key
			}
		}
	case ToKV:
		w.Key = stringOf(it.Key)
		if s.private.key != nil {
			var err error
			if w.Key, _, err = s.private.key.keyOf(it, nil); err != nil {
				return w, err
			}
		}
		if w.Key == "" {
			return w, errNoKey
		}
		w.Key = s.private.prefix + w.Key
	case ToTS:
		var err error
		w.Point, err = s.point(it)
		return w, err
	}
	return w, nil
}

// point creates a point. Missing tags and fields are omitted.
func (s *Sink) point(it *item) (Point, error) {
	if _, err := it.JSON(); err != nil {
		return Point{}, err
	}
	p := Point{Time: it.EventTime}
	if s.private.time != nil {
		var err error
		if p.Time, err = timeOf(it.at(s.private.time)); err != nil {
			return p, fmt.Errorf("timestamp %s: %w", s.private.time, err)
		}
	}
	for i := range s.private.tags {
		if text, ok := textOf(it.at(&s.private.tags[i].path)); ok && text != "" {
			p.Tags = append(p.Tags, Tag{s.private.tags[i].name, text})
		}
	}
	for i := range s.private.fields {
		f := &s.private.fields[i]
		v, err := fieldOf(it.at(&f.path))
		if err != nil {
			return p, fmt.Errorf("field %s: %w", f.name, err)
		}
		if v != nil {
			p.Fields = append(p.Fields, Field{f.name, v})
		}
	}
	if len(p.Fields) == 0 {
		return p, errNoFields
	}
	return p, nil
}

// fieldOf returns the value of a field, nil if it is missing. All numbers become floats, so that
// the type of a field does not change.
func fieldOf(r gjson.Result) (any, error) {
	switch r.Type {
	case gjson.Null:
		return nil, nil
	case gjson.True, gjson.False:
		return r.Type == gjson.True, nil
	case gjson.Number:
		return numberOf(r)
	case gjson.String:
		return strings.Clone(r.Str), nil
	}
	return nil, errors.New("it is an array or object, expected a number, string or boolean")
}

// numberOf returns a number that fits a float64.
func numberOf(r gjson.Result) (float64, error) {
	if r.Type != gjson.Number {
		return 0, fmt.Errorf("%s is no number", document.Clip(r.Raw))
	}
	if math.IsInf(r.Num, 0) || math.IsNaN(r.Num) {
		return 0, fmt.Errorf("number %s is out of range", document.Clip(r.Raw))
	}
	if r.Num == 0 {
		if f, err := strconv.ParseFloat(r.Raw, 64); err != nil || f != 0 {
			return 0, fmt.Errorf("number %s is out of range", document.Clip(r.Raw))
		}
	}
	return r.Num, nil
}
