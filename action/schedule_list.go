package action

import (
	"context"
	"iter"
	"net/url"
	"strings"

	"github.com/floedb/floe/internal/engine"
)

// Page returns a page of the schedules, ordered by action and name. A page ends early when its
// inputs exceed 4 MiB.
//
// Options: Limit, Cursor. Errors: ErrInvalid for a limit that is not 1-1000, and for an invalid
// cursor.
func (s Schedules) Page(ctx context.Context, opts ...PageOption) (page Page[Schedule], err error) {
	o, err := engine.PageOf(opts)
	if err != nil {
		return page, err
	}
	q := schedulesQuery{namespace: s.store.scope.Namespace(), action: s.action, limit: o.Limit}
	if q.afterAction, q.afterName, err = s.parseCursor(o.Cursor); err != nil {
		return page, err
	}
	parts, _, err := engine.AskAll(ctx, &s.store.scope, q)
	if err != nil {
		return page, err
	}
	found := func(q *schedulesQuery) ([]Schedule, bool, string) { return q.items, q.more, "" }
	// Action names do not contain NUL, so these strings sort by action and name.
	page = engine.Merge(parts, o.Limit, found, func(s Schedule) string { return s.Action + "\x00" + s.Name }, engine.First)
	if action, name, ok := strings.Cut(page.Cursor, "\x00"); ok {
		page.Cursor = url.PathEscape(action) + "/" + name
	}
	return page, nil
}

func (s Schedules) parseCursor(cursor string) (action, name string, err error) {
	if s.action != "" {
		err = checkAction(s.action)
	}
	if cursor == "" || err != nil {
		return "", "", err
	}
	escaped, name, ok := strings.Cut(cursor, "/")
	if action, err = url.PathUnescape(escaped); !ok || err != nil || checkSchedule(action, name) != nil || s.action != "" &&
		s.action != action {
		return "", "", engine.BadCursor(cursor)
	}
	return action, name, nil
}

// All iterates over the schedules, in the order of Page. Each pair is a schedule and nil, or a zero
// Schedule and an error, after which iteration ends; nothing runs before the first step, and break
// or a done ctx releases everything.
//
// Options and errors are those of Page.
func (s Schedules) All(ctx context.Context, opts ...PageOption) iter.Seq2[Schedule, error] {
	return engine.All(ctx, s.Page, opts)
}
