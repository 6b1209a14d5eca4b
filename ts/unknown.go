package ts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/pushdown"
)

var _ pushdown.Namer[floql.Selection] = source{}

// Unknown implements pushdown.Namer. It reads up to 1,000 names of each kind from each shard, and
// looks up each value of a filter in the index, so that its cost does not depend on the number of
// series.
func (s source) Unknown(ctx context.Context, sel floql.Selection) (all []pushdown.Unknown, err error) {
	name := sel.Measurement
	of, every, _, rollup := splitRollup(name)
	if rollup {
		name = of
	}
	m, err := s.store.Get(ctx, name)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalid) {
		known, err := s.measurements(ctx, name)
		return []pushdown.Unknown{{Message: fmt.Sprintf("unknown measurement %.200q", name), Name: name, Known: known}}, err
	}
	if err != nil {
		return nil, err
	}
	lacks := func(what, wanted string, known []string) {
		if !slices.Contains(known, wanted) {
			message := fmt.Sprintf("measurement %q has no %s %.200q", name, what, wanted)
			all = append(all, pushdown.Unknown{Message: message, Name: wanted, Known: known})
		}
	}
	if rollup {
		var lengths []string
		for _, d := range m.Retention.Downsample {
			lengths = append(lengths, formatEvery(d.Every))
		}
		lacks("rollup", formatEvery(every), lengths)
	}
	var fields []string
	for _, f := range m.Fields {
		fields = append(fields, f.Name)
	}
	for _, f := range sel.Fields {
		lacks("field", f, fields)
	}
	unknown, err := s.unknownTags(ctx, name, sel.Filters[:min(len(sel.Filters), maxFilters)])
	return append(all, unknown...), err
}

// measurements returns the names of all measurements or, if they exceed a page, of those that begin
// like the given name.
func (s source) measurements(ctx context.Context, name string) (names []string, err error) {
	_, first := utf8.DecodeRuneInString(name)
	for _, prefix := range []string{"", name[:first]} {
		page, err := s.store.Page(ctx, Limit(engine.MaxPageItems), Prefix(prefix))
		if err != nil {
			return nil, err
		}
		names = nil
		for _, m := range page.Items {
			names = append(names, m.Name)
		}
		if page.Cursor == "" {
			break
		}
	}
	return names, nil
}

// unknownTags returns the tags of filters that a measurement does not have, and the values.
func (s source) unknownTags(ctx context.Context, measurement string, filters []floql.Filter) (all []pushdown.Unknown, err error) {
	var tags []TagValues
	var keys []string
	for i := range filters {
		f := &filters[i]
		if f.Matches("") { // also series without the tag
			continue
		}
		if f.Op == floql.Equal {
			q := seriesQuery{namespace: s.store.Namespace(), name: measurement, tags: tagList{{f.Tag, f.Value}}, limit: 1}
			parts, _, err := engine.AskAll(ctx, &s.store.scope, q)
			if err != nil {
				return all, err
			}
			if slices.ContainsFunc(parts, func(q *seriesQuery) bool { return len(q.items) > 0 }) {
				continue
			}
		}
		if tags == nil {
			if tags, err = s.store.TagValues(ctx, measurement); err != nil {
				return all, err
			}
			for _, t := range tags {
				keys = append(keys, t.Key)
			}
		}
		at := slices.Index(keys, f.Tag)
		switch {
		case at < 0:
			all = append(all, pushdown.Unknown{
				Message: fmt.Sprintf("measurement %q has no tag %.200q", measurement, f.Tag), Name: f.Tag, Known: keys,
			})
		case f.Op == floql.Equal:
			all = append(all, pushdown.Unknown{
				Message: fmt.Sprintf("tag %q of %q has no value %.200q", f.Tag, measurement, f.Value),
				Name:    f.Value, Known: tags[at].Values,
			})
		}
	}
	return all, nil
}
