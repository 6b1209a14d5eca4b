package ts

import (
	"context"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// MaxTagValues is the maximum number of values of a tag that TagValues returns.
const MaxTagValues = 1000

// TagValues is a tag of a measurement, with its values.
type TagValues struct {
	Key       string
	Values    []string // in order, up to MaxTagValues
	Truncated bool     // there are more values
}

// TagValues returns the tags of the series of a measurement, in order, with the first values of
// each. Errors: ErrNotFound.
func (s *Store) TagValues(ctx context.Context, measurement string) ([]TagValues, error) {
	if err := engine.CheckName("measurement", measurement); err != nil {
		return nil, err
	}
	parts, _, err := engine.AskAll(ctx, &s.scope, tagsQuery{namespace: s.scope.Namespace(), name: measurement})
	if err != nil {
		return nil, err
	}
	all, found := make(map[string]*TagValues), false
	for _, p := range parts {
		found = found || p.found
		for _, t := range p.tags {
			if has := all[t.Key]; has != nil {
				has.join(t)
				continue
			}
			all[t.Key] = &t
		}
	}
	if !found {
		return nil, notFound(measurement)
	}
	tags := []TagValues{}
	for _, t := range all {
		tags = append(tags, *t)
	}
	slices.SortFunc(tags, func(a, b TagValues) int { return cmpString(a.Key, b.Key) })
	return tags, nil
}

// join adds the values of the tag in another shard.
func (t *TagValues) join(o TagValues) {
	t.Values = append(t.Values, o.Values...)
	slices.Sort(t.Values)
	t.Values = slices.Compact(t.Values)
	if t.Truncated = t.Truncated || o.Truncated; len(t.Values) > MaxTagValues {
		t.Values, t.Truncated = t.Values[:MaxTagValues], true
	}
}

// tagsQuery queries the tags of a measurement.
type tagsQuery struct {
	namespace, name string

	found bool // result: the measurement exists
	tags  []TagValues
}

// Machine returns engine.MachineTS.
func (*tagsQuery) Machine() engine.MachineID { return engine.MachineTS }

// Kind identifies the kind of query.
func (*tagsQuery) Kind() uint8 { return queryTags }

// Arguments codes the arguments of the query.
func (q *tagsQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("measurement", &q.name)
}

// Results codes the results.
func (q *tagsQuery) Results(f *codec.Fields) {
	f.Found(&q.found)
	codec.ListOf(f, "tags", &q.tags, func(t *TagValues, f *codec.Fields) {
		f.Text("key", &t.Key)
		codec.ListOf(f, "values", &t.Values, codec.Text)
		f.Bool("truncated", &t.Truncated)
	})
}

func (q *tagsQuery) answer(v *engine.View) error {
	q.found, q.tags = false, nil
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	v.Freeze()
	inc, ok, err := incarnationNow(v, ns, q.name)
	if err != nil || !ok {
		return err
	}
	q.found = true
	prefix := incKey(nil, rowTag, inc)
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		q.tags = append(q.tags, TagValues{Key: string(it.Key()[len(prefix):])})
	}
	if err := it.Close(); err != nil {
		return err
	}
	for i := range q.tags {
		if err := q.tags[i].read(v, inc); err != nil {
			return err
		}
	}
	return nil
}

// read reads the first values of a tag.
func (t *TagValues) read(v *engine.View, inc incarnation) error {
	prefix := valuesPrefix(nil, inc, t.Key)
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if len(t.Values) == MaxTagValues {
			t.Truncated = true
			break
		}
		t.Values = append(t.Values, string(it.Key()[len(prefix):]))
	}
	return it.Close()
}
