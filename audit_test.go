package floe

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream"
)

// auditOf returns the entries of one of a node's audit streams.
func auditOf(t *testing.T, n *Node, name string) (entries []AuditEntry) {
	t.Helper()
	records, err := n.Stream(engine.SystemNamespace).Read(t.Context(), name, stream.FromBeginning(), stream.Limit(1000))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		var e AuditEntry
		if err := json.Unmarshal(r.Payload, &e); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

// TestAuditIsNotFlooded: all refusals of a read-only key make one audit entry, and those of a
// writing key a bounded number. Key changes go to a stream without limits on length or age.
func TestAuditIsNotFlooded(t *testing.T) {
	n, err := Open(Config{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx := t.Context()
	if _, _, err := n.Keys().Bootstrap(ctx); err != nil {
		t.Fatal(err)
	}
	holder := func(role Role) *Holder {
		t.Helper()
		_, secret, err := n.Keys().Create(ctx, role)
		if err != nil {
			t.Fatal(err)
		}
		h, err := n.Keys().AuthenticateKey(ctx, secret, "192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	const many = 1000
	reader, writer := holder(RoleRead), holder(RoleWrite)
	refused := engine.Errorf(ErrUnauthorized, "no")
	for i := range many {
		ns := fmt.Sprintf("invented%d", i)
		n.gate.record(reader.grant, "192.0.2.1", fmt.Sprintf("try %d", i), ns, refused)
		reader.Audit(ctx, AuditEntry{From: "192.0.2.1", Action: "PUT /" + ns, Namespace: ns}, refused)
		n.gate.note(ctx, AuditKeysStream, reader.grant, AuditEntry{From: "192.0.2.1", Action: "revoke key " + ns}, refused)
		n.gate.record(writer.grant, "192.0.2.1", "kv put", ns, nil)
		writer.Audit(ctx, AuditEntry{From: "192.0.2.1", Action: "PUT /" + ns, Namespace: ns}, nil)
	}
	n.gate.flush(ctx)
	byKey, counts := map[string]int{}, map[string]int64{}
	for _, e := range auditOf(t, n, AuditStream) {
		byKey[e.Key]++
		counts[e.Key] += max(1, e.Count)
		if e.Key == reader.Key().ID && (e.Action != "try 0" || e.Namespace != "invented0" || e.Result != "not allowed") {
			t.Errorf("the entry of refusals: %+v, want it to show the first", e)
		}
	}
	if got := byKey[reader.Key().ID]; got < 1 || got > 3 { // the node also flushes once a second
		t.Errorf("%d entries of refusals, want one", got)
	}
	if got := byKey[writer.Key().ID]; got > 2*sumsBurst {
		t.Errorf("%d entries of a key that writes, want about %d", got, sumsBurst)
	}
	if r, w := counts[reader.Key().ID], counts[writer.Key().ID]; r != 3*many || w != 2*many {
		t.Errorf("entries count %d refusals and %d writes, want %d and %d", r, w, 3*many, 2*many)
	}
	if got := len(auditOf(t, n, AuditKeysStream)); got != 3 {
		t.Errorf("%d changes of keys, want the three that were made", got)
	}
	info, err := n.Stream(engine.SystemNamespace).Get(ctx, AuditKeysStream)
	if err != nil || info.Retention != (stream.Retention{}) {
		t.Errorf("retention of the changes of keys: %+v, %v, want none", info.Retention, err)
	}
}

// TestRefusedKeyChanges: refused key changes go to the bounded stream, in a bounded number of
// entries. Without a key store all key changes are refused, and entries without a key show no role.
func TestRefusedKeyChanges(t *testing.T) {
	n, err := Open(Config{Shards: 1, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	client, err := Dial(t.Context(), []string{n.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const tries = 6 * sumsBurst
	start := time.Now()
	for range tries / 2 {
		if _, _, err := client.Keys().Create(t.Context(), RoleRead); !errors.Is(err, ErrConflict) {
			t.Fatalf("a key without a key store: %v", err)
		}
		if err := n.Keys().Revoke(t.Context(), "0123456789abcdef"); !errors.Is(err, ErrConflict) {
			t.Fatalf("a revocation without a key store: %v", err)
		}
	}
	n.gate.flush(t.Context())
	if got := auditOf(t, n, AuditKeysStream); len(got) > 0 {
		t.Errorf("%d entries among the changes of keys, such as %+v", len(got), got[0])
	}
	count, all := int64(0), auditOf(t, n, AuditStream)
	for _, e := range all {
		if count += max(1, e.Count); e.Role != "" || e.Key != "" {
			t.Errorf("an entry without a key: %+v", e)
		}
	}
	// Two holders tried, each with its own burst and rate, plus a sum per flush.
	seconds := int(time.Since(start).Seconds()) + 1
	if most := 2 * (sumsBurst + (sumsRate+1)*seconds); count != tries || len(all) > most {
		t.Errorf("%d entries count %d refusals, want %d in %d entries at most", len(all), count, tries, most)
	}
}

// TestWrongKeysLeaveATrace: the audit sums up wrong keys by address. The log mentions them at a
// limited rate, without the key.
func TestWrongKeysLeaveATrace(t *testing.T) {
	var log strings.Builder
	n, err := Open(Config{Shards: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := n.Keys().Bootstrap(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wrong := secret[:len(secret)-4] + "0000"
	for range 50 {
		if _, _, err := n.Keys().OpenSession(t.Context(), wrong, "192.0.2.1"); err == nil {
			t.Fatal("a wrong key opens a session")
		}
		if _, err := n.Keys().AuthenticateKey(t.Context(), wrong, "192.0.2.1"); err == nil {
			t.Fatal("a wrong key is good")
		}
	}
	n.gate.flush(t.Context())
	count, entries := int64(0), auditOf(t, n, AuditStream)
	for _, e := range entries {
		if count += e.Count; e.From != "192.0.2.1" || e.Key != "" || e.Result != "wrong key" {
			t.Errorf("an entry: %+v", e)
		}
	}
	if count != 100 || len(entries) > 3 { // the node also flushes once a second
		t.Errorf("%d wrong keys in %d entries, want 100 in one", count, len(entries))
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if lines := strings.Count(log.String(), "wrong API keys"); lines != 1 || !strings.Contains(log.String(), "192.0.2.1") ||
		strings.Contains(log.String(), wrong) {
		t.Errorf("%d lines, want one with the address and without the key:\n%s", lines, log.String())
	}
}

// TestRateOfSums: a key has its burst, then its rate; its token bucket is forgotten once it is full
// again.
func TestRateOfSums(t *testing.T) {
	var s sums
	entries := func(now int64) (own int) {
		for i := range 2 * sumsBurst {
			s.add(sumOf{action: fmt.Sprint(now, i)}, now)
		}
		for _, e := range s.take(now) {
			if e.Action != various {
				own++
			}
		}
		return own
	}
	second := time.Second.Milliseconds()
	for _, c := range []struct {
		at   int64
		want int
	}{{0, sumsBurst}, {0, 0}, {second, sumsRate}, {100 * second, sumsBurst}} {
		if got := entries(c.at); got != c.want {
			t.Errorf("at %d ms: %d entries, want %d", c.at, got, c.want)
		}
	}
	if s.take(200 * second); len(s.rates) != 0 {
		t.Errorf("%d rates are kept of keys that do nothing", len(s.rates))
	}
}
