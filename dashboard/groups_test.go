package dashboard

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/stream"
)

const (
	groupRoute       = "GET /api/v1/streams/:name/groups/:group"
	pendingRoute     = "GET /api/v1/streams/:name/groups/:group/pending"
	membersRoute     = "GET /api/v1/streams/:name/groups/:group/members"
	deleteGroupRoute = "DELETE /api/v1/streams/:name/groups/:group"
	mailersPath      = ordersPath + "/groups/mailers"
)

// groupContract goes before streamContract, which trims the stream.
var groupContract = []contractRow{
	{groupRoute, mailersPath + "?namespace=shop", "", 200, fields{
		"stream": is{"orders"}, "group": is{"mailers"}, "namespace": is{"shop"}, "mode": is{"shared"}, "members": is{1}, "pending": is{1},
		"lag":            is{1},
		"ack_timeout_ms": is{3600000}, "max_deliver": is{5}, "cursors": items{
			fields{"partition": is{0}, "last_delivered": text, "acked": text, "lag": integer},
			fields{"partition": is{1}, "last_delivered": text, "acked": text, "lag": integer},
		},
	}},
	{groupRoute, ordersPath + "/groups/idle?namespace=shop&unknown=1", "", 200, fields{
		"stream": is{"orders"}, "group": is{"idle"}, "namespace": is{"shop"}, "mode": is{"exclusive"}, "members": is{0}, "pending": is{0},
		"lag":            is{0},
		"ack_timeout_ms": is{30000}, "max_deliver": is{5},
		"cursors": list{fields{"partition": integer, "last_delivered": text, "acked": text, "lag": is{0}}},
	}},
	{groupRoute, ordersPath + "/groups/none?namespace=shop", "", 404, failure},
	{groupRoute, "/api/v1/streams/none/groups/mailers?namespace=shop", "", 404, failure},
	{groupRoute, mailersPath, "", 404, failure},

	{pendingRoute, mailersPath + "/pending?namespace=shop", "", 200, items{fields{
		"id_ms": integer, "id_seq": integer, "partition": integer, "consumer": is{"ada"}, "deliveries": is{1}, "delivered_at": integer,
		"ack_deadline": integer,
	}}},
	{pendingRoute, mailersPath + "/pending?namespace=shop&limit=1&after=9223372036854775807-0", "", 200, list{fields{
		"id_ms": integer, "id_seq": integer, "partition": integer, "consumer": text, "deliveries": integer, "delivered_at": integer,
		"ack_deadline": integer,
	}}},
	{pendingRoute, ordersPath + "/groups/idle/pending?namespace=shop", "", 200, items{}},
	{pendingRoute, ordersPath + "/groups/none/pending?namespace=shop", "", 404, failure},
	{pendingRoute, mailersPath + "/pending?namespace=nowhere", "", 404, failure},
	{pendingRoute, mailersPath + "/pending?namespace=shop&after=x", "", 400, failure},

	{membersRoute, mailersPath + "/members?namespace=shop", "", 200, items{fields{
		"consumer": is{"ada"}, "pending": is{1}, "joined_at": integer, "last_seen": integer,
	}}},
	{membersRoute, mailersPath + "/members?namespace=shop&after=ada", "", 200, items{}},
	{membersRoute, ordersPath + "/groups/idle/members?namespace=shop", "", 200, items{}},
	{membersRoute, ordersPath + "/groups/none/members?namespace=shop", "", 404, failure},
	{membersRoute, mailersPath + "/members?namespace=shop&limit=1001", "", 400, failure},

	{deleteGroupRoute, ordersPath + "/groups/idle?namespace=shop&force=true", "", 400, failure},
}

// groupEndContract goes behind streamContract.
var groupEndContract = []contractRow{
	{deleteGroupRoute, ordersPath + "/groups/idle?namespace=shop", "", 200,
		fields{"ok": is{true}, "stream": is{"orders"}, "group": is{"idle"}}},
	{deleteGroupRoute, ordersPath + "/groups/idle?namespace=shop", "", 404, failure},
	{deleteGroupRoute, "/api/v1/streams/none/groups/idle?namespace=shop", "", 404, failure},
	{deleteGroupRoute, mailersPath + "?namespace=nowhere", "", 404, failure},
	{deleteGroupRoute, mailersPath + "?namespace=_floe", "", 400, failure},
	{deleteStreamRoute, ordersPath + "?namespace=shop&force=true", "", 200, fields{"ok": is{true}, "stream": is{"orders"}}},
	{groupRoute, mailersPath + "?namespace=shop", "", 404, failure},
}

// TestPendingContinues pages through what is pending in order of partition and place, also when the
// last one of a page has been trimmed meanwhile.
func TestPendingContinues(t *testing.T) {
	for _, namespace := range []string{"default", "wide"} {
		node := openNode(t)
		seedKV(t, node) // makes the spread namespace
		store := node.Stream(namespace)
		ctx := t.Context()
		if err := store.Create(ctx, "s", stream.Partitions(3)); err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			if _, err := store.Append(ctx, "s", stream.Message{Payload: fmt.Append(nil, i)}, stream.Partition(i%3)); err != nil {
				t.Fatal(err)
			}
		}
		for n := 0; n < 30; {
			got, err := store.ReadGroup(ctx, "s", "g", "ada", stream.Limit(30))
			if err != nil || len(got) == 0 {
				t.Fatalf("ReadGroup = %v, %v", got, err)
			}
			n += len(got)
		}
		h := New(node, Options{})
		base := "/api/v1/streams/s/groups/g/pending?limit=7&namespace=" + namespace
		var got []int
		for next := ""; ; {
			page := listed[pendingMessage](t, base+next, get(h, base+next))
			if len(page) == 0 {
				break
			}
			for _, m := range page {
				if m.Consumer != "ada" || m.Deliveries != 1 || m.AckDeadlineMillis-m.DeliveredAtMillis != 30_000 {
					t.Errorf("pending message %+v", m)
				}
				got = append(got, m.Partition)
			}
			last := page[len(page)-1]
			next = fmt.Sprintf("&after=%d-%d", last.IDMillis, last.IDSeq)
			if len(got) == 7 { // seven of partition 0: leave its last two
				if _, err := store.Trim(ctx, "s", stream.MaxLen(2)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if want := []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2}; !slices.Equal(got, want) {
			t.Errorf("namespace %s: partitions of what is pending are %v, want %v", namespace, got, want)
		}
	}
}

// TestMessageToBeDeliveredAgain: a message between two deliveries has no consumer, but still has
// the time of its last delivery.
func TestMessageToBeDeliveredAgain(t *testing.T) {
	node := openNode(t)
	store := node.Stream("default")
	ctx := t.Context()
	if _, err := store.Append(ctx, "s", stream.Message{}); err != nil {
		t.Fatal(err)
	}
	got, err := store.ReadGroup(ctx, "s", "g", "ada")
	if err != nil || len(got) != 1 {
		t.Fatalf("ReadGroup = %v, %v", got, err)
	}
	h := New(node, Options{})
	const path = "/api/v1/streams/s/groups/g/pending"
	delivered := listed[pendingMessage](t, "pending", get(h, path))[0].DeliveredAtMillis
	if delivered == 0 {
		t.Error("delivered_at is 0 while a consumer has the message")
	}
	if _, err := store.Nack(ctx, "s", "g", stream.RefsOf(got), stream.Delay(time.Hour)); err != nil {
		t.Fatal(err)
	}
	pending := listed[pendingMessage](t, "pending", get(h, path))
	if len(pending) != 1 || pending[0].Consumer != "" || pending[0].DeliveredAtMillis != delivered || pending[0].Deliveries != 1 ||
		pending[0].AckDeadlineMillis == 0 {
		t.Errorf("pending is %+v, want one message that nobody has", pending)
	}
}

func TestGroupMembersContinue(t *testing.T) {
	node := openNode(t)
	store := node.Stream("default")
	if err := store.Create(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for i := range 25 {
		consumer := fmt.Sprintf("c%02d", i)
		want = append(want, consumer)
		if _, err := store.ReadGroup(t.Context(), "s", "g", consumer); err != nil {
			t.Fatal(err)
		}
	}
	h := New(node, Options{})
	for after := ""; ; after = got[len(got)-1] {
		page := listed[groupMember](t, "members", get(h, "/api/v1/streams/s/groups/g/members?limit=10&after="+after))
		if len(page) == 0 {
			break
		}
		for _, m := range page {
			got = append(got, m.Consumer)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("members are %q, want %q", got, want)
	}
}
