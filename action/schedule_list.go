package action

import (
	"cmp"
	"context"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/floedb/floe/internal/engine"
)

// Page returns a page of the schedules, in the order of their actions and names. A page ends early when its inputs exceed 4 MiB.
//
// Options: Limit, Cursor. Errors: ErrInvalid for a limit that is not 1-1000, and for what is no cursor.
func (s Schedules) Page(ctx context.Context, opts ...PageOption) (page Page[Schedule], err error) {
	o := listOptions{Listing: engine.NewListing()}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.apply(&o)
	}
	if o.err != nil {
		return page, o.err
	}
	q := schedulesQuery{namespace: s.store.scope.Namespace(), action: s.action, limit: o.Limit}
	if q.afterAction, q.afterName, err = s.parseCursor(o.Cursor); err != nil {
		return page, err
	}
	parts, _, err := engine.AskAll(ctx, &s.store.scope, q)
	if err != nil {
		return page, err
	}
	return mergeSchedules(parts, o.Limit), nil
}

// mergeSchedules makes a page of those of all shards. None of it is behind what a shard has told that has more.
func mergeSchedules(parts []*schedulesQuery, limit int) (page Page[Schedule]) {
	compare := func(a, b Schedule) int { return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(a.Name, b.Name)) }
	more := false
	for _, p := range parts {
		page.Items = append(page.Items, p.items...)
	}
	slices.SortFunc(page.Items, compare)
	for _, p := range parts {
		if !p.more {
			continue
		}
		more = true
		last := p.items[len(p.items)-1]
		end, _ := slices.BinarySearchFunc(page.Items, last, compare)
		page.Items = page.Items[:end+1]
	}
	if len(page.Items) > limit {
		page.Items, more = page.Items[:limit], true
	}
	if more {
		last := page.Items[len(page.Items)-1]
		page.Cursor = url.PathEscape(last.Action) + "/" + last.Name
	}
	return page
}

func (s Schedules) parseCursor(cursor string) (action, name string, err error) {
	if s.action != "" {
		err = checkAction(s.action)
	}
	if cursor == "" || err != nil {
		return "", "", err
	}
	escaped, name, ok := strings.Cut(cursor, "/")
	if action, err = url.PathUnescape(escaped); !ok || err != nil || checkSchedule(action, name) != nil || s.action != "" && s.action != action {
		return "", "", engine.Errorf(ErrInvalid, "action: cursor %.64q is not one of this listing: action/schedule", cursor)
	}
	return action, name, nil
}

// All iterates over the schedules, in the order of Page. Each pair is a schedule and nil, or a zero Schedule and an error, after which iteration
// ends; nothing runs before the first step, and break or a done ctx releases everything.
//
// Options and errors are those of Page.
func (s Schedules) All(ctx context.Context, opts ...PageOption) iter.Seq2[Schedule, error] {
	return engine.All(ctx, s.Page, opts, Cursor)
}
