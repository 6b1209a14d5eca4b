package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream"
)

var groupRoutes = []route{
	endpoint("GET /api/v1/streams/:name/groups/:group", (*handler).group, "Get a consumer group."),
	endpoint("GET /api/v1/streams/:name/groups/:group/pending", (*handler).groupPending,
		"List the pending records of a group."),
	endpoint("GET /api/v1/streams/:name/groups/:group/members", (*handler).groupMembers, "List the consumers of a group."),
	endpoint("DELETE /api/v1/streams/:name/groups/:group", (*handler).deleteGroup, "Delete a consumer group."),
}

// groupRequest names a consumer group.
type groupRequest struct {
	streamRequest
	group string
}

func (q *groupRequest) parse(in *input) {
	q.streamRequest.parse(in)
	q.group = in.segment("group")
}

// groupDetail is the body of /streams/:name/groups/:group.
type groupDetail struct {
	Stream           string        `json:"stream"`
	Group            string        `json:"group"`
	Namespace        string        `json:"namespace"`
	Mode             string        `json:"mode"`
	Members          int           `json:"members"`
	Pending          int           `json:"pending"`
	Lag              int64         `json:"lag"`
	AckTimeoutMillis int64         `json:"ack_timeout_ms"`
	MaxAttempts      int           `json:"max_deliver"` // 0: no limit
	Cursors          []groupCursor `json:"cursors"`
}

// groupCursor is the position of a group in a partition. 0-0 is not the ID of any record.
type groupCursor struct {
	Partition     int    `json:"partition"`
	LastDelivered string `json:"last_delivered"`
	Acked         string `json:"acked"` // all messages up to this one are acknowledged
	Lag           int64  `json:"lag"`
}

func (h *handler) group(ctx context.Context, q groupRequest) (groupDetail, error) {
	g, err := h.backend.Stream(q.namespace).Groups(q.name).Get(ctx, q.group)
	if err != nil {
		return groupDetail{}, err
	}
	cursors := make([]groupCursor, 0, len(g.Cursors))
	for _, c := range g.Cursors {
		cursors = append(cursors, groupCursor{
			Partition: c.Partition, LastDelivered: c.LastDelivered.String(), Acked: c.Acked.String(), Lag: c.Lag,
		})
	}
	return groupDetail{
		Stream:           q.name,
		Group:            q.group,
		Namespace:        q.namespace,
		Mode:             g.Mode.String(),
		Members:          len(g.Members),
		Pending:          g.Pending(),
		Lag:              g.Lag(),
		AckTimeoutMillis: g.AckTimeout.Milliseconds(),
		MaxAttempts:      g.MaxAttempts,
		Cursors:          cursors,
	}, nil
}

// groupPendingRequest asks for limit pending messages after a given one.
type groupPendingRequest struct {
	groupRequest
	after string // its ID, "": all
	limit int
}

func (q *groupPendingRequest) parse(in *input) {
	q.groupRequest.parse(in)
	if _, given := in.recordID("after"); given {
		q.after = in.text("after")
	}
	q.limit = in.listLimit()
}

// pendingMessage is an unacknowledged message of a group.
type pendingMessage struct {
	IDMillis          int64  `json:"id_ms"`
	IDSeq             uint64 `json:"id_seq"`
	Partition         int    `json:"partition"`
	Consumer          string `json:"consumer"` // "": none, it waits for redelivery
	Deliveries        int    `json:"deliveries"`
	DeliveredAtMillis int64  `json:"delivered_at"` // last delivery
	AckDeadlineMillis int64  `json:"ack_deadline"` // redelivered after this time
}

func (h *handler) groupPending(ctx context.Context, q groupPendingRequest) (listing[pendingMessage], error) {
	store := h.backend.Stream(q.namespace)
	page := func(after string, n int) ([]stream.PendingRecord, string, error) {
		cursor, err := pendingCursor(ctx, store, q.name, after)
		if err != nil {
			return nil, "", err
		}
		page, err := store.Pending(q.name, q.group).Page(ctx, stream.Cursor(cursor), stream.Limit(n))
		if err != nil || page.Cursor == "" {
			return page.Items, "", err
		}
		return page.Items, page.Items[len(page.Items)-1].ID.String(), nil
	}
	return collect(q.after, q.limit, page, describePending, nil)
}

func describePending(r stream.PendingRecord) pendingMessage {
	return pendingMessage{
		IDMillis:          r.ID.Millis,
		IDSeq:             r.ID.Seq,
		Partition:         r.Ref.Partition,
		Consumer:          r.Consumer,
		Deliveries:        r.Ref.Attempt,
		DeliveredAtMillis: r.DeliveredAt.UnixMilli(),
		AckDeadlineMillis: r.Deadline.UnixMilli(),
	}
}

// pendingCursor returns the cursor of a listing after the record with the given ID, "" for no ID.
// If the record has been trimmed, so have the earlier ones of its partition, and the listing
// continues at the start of the partition.
func pendingCursor(ctx context.Context, store *stream.Store, name, after string) (string, error) {
	if after == "" {
		return "", nil
	}
	id, err := stream.ParseID(after)
	if err != nil || id.IsZero() {
		return "", err
	}
	refs, err := store.Refs(ctx, name, id)
	if err != nil {
		return "", err
	}
	if len(refs) == 1 {
		return fmt.Sprintf("%d-%d", refs[0].Partition, refs[0].Offset), nil
	}
	stats, err := store.Get(ctx, name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d-0", id.Seq%uint64(len(stats.Partitions))), nil
}

// epochMillis converts a time for the API, 0 for none.
func epochMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// groupMembersRequest asks for limit consumers with names after a given one.
type groupMembersRequest struct {
	groupRequest
	after string
	limit int
}

func (q *groupMembersRequest) parse(in *input) {
	q.groupRequest.parse(in)
	q.after = in.lastName()
	q.limit = in.listLimit()
}

// groupMember is a consumer of a group.
type groupMember struct {
	Consumer       string `json:"consumer"`
	Pending        int    `json:"pending"`
	JoinedAtMillis int64  `json:"joined_at"`
	LastSeenMillis int64  `json:"last_seen"`
}

func (h *handler) groupMembers(ctx context.Context, q groupMembersRequest) (listing[groupMember], error) {
	g, err := h.backend.Stream(q.namespace).Groups(q.name).Get(ctx, q.group)
	if err != nil {
		return listing[groupMember]{}, err
	}
	page := func(after string, n int) ([]stream.Member, string, error) {
		left := slices.DeleteFunc(slices.Clone(g.Members), func(m stream.Member) bool { return m.Consumer <= after })
		members, behind := cut(left, n, func(m stream.Member) string { return m.Consumer })
		return members, behind, nil
	}
	return collect(q.after, q.limit, page, func(m stream.Member) groupMember {
		return groupMember{
			Consumer: m.Consumer, Pending: m.Pending, JoinedAtMillis: epochMillis(m.JoinedAt), LastSeenMillis: epochMillis(m.LastSeen),
		}
	}, nil)
}

// groupDeleted is the response to a DELETE.
type groupDeleted struct {
	OK     bool   `json:"ok"`
	Stream string `json:"stream"`
	Group  string `json:"group"`
}

func (h *handler) deleteGroup(ctx context.Context, q groupRequest) (groupDeleted, error) {
	if err := h.backend.Stream(q.namespace).Groups(q.name).Delete(ctx, q.group); err != nil {
		return groupDeleted{}, err
	}
	return groupDeleted{OK: true, Stream: q.name, Group: q.group}, nil
}

func (h *handler) checkGroups(ctx context.Context, ns string, add func(finding)) (bool, error) {
	streams, err := h.backend.Stream(ns).Page(ctx, stream.Limit(mostChecked))
	if err != nil {
		return false, err
	}
	looked, more := 0, streams.Cursor != ""
	for _, st := range streams.Items {
		if st.Records() == 0 {
			continue
		}
		if looked >= mostChecked {
			return true, nil
		}
		groups, err := h.backend.Stream(ns).Groups(st.Name).Page(ctx, stream.Limit(mostChecked-looked))
		if errors.Is(err, engine.ErrNotFound) { // it was deleted meanwhile
			continue
		}
		if err != nil {
			return false, err
		}
		looked, more = looked+len(groups.Items), more || groups.Cursor != ""
		for _, g := range groups.Items {
			lag := g.Lag()
			switch {
			case lag > 0 && len(g.Members) == 0:
				add(finding{Kind: "group", Name: g.Name, Of: st.Name, Severity: "warn", Count: lag,
					Text: counted(lag, "record") + " behind, no active consumer"})
			case lag >= muchLag:
				add(finding{Kind: "group", Name: g.Name, Of: st.Name, Severity: "warn", Count: lag,
					Text: counted(lag, "record") + " behind"})
			}
		}
	}
	return more, nil
}
