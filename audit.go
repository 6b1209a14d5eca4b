package floe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/floedb/floe/internal/auth"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream"
)

// AuditStream is the stream, in the namespace "_system", of what users of keys have changed: an AuditEntry as a JSON document in each record.
const AuditStream = "audit"

// AuditEntry says who has done what. Requests of the dashboard have an entry each. What comes through the port for clients, perhaps a hundred
// thousand times a second, is summed up: what the same key has done from the same address with the same action, namespace and result within about a second
// is one entry.
type AuditEntry struct {
	At        int64  `json:"at"`              // ms since the epoch; of several, when the first was done
	Key       string `json:"key"`             // id
	Name      string `json:"name"`            // of the key
	Role      Role   `json:"role"`            // of the key
	From      string `json:"from"`            // address
	Action    string `json:"action"`          // such as "PUT /api/v1/kv/namespaces/shop/keys/a", or "kv put" through the port for clients
	Namespace string `json:"namespace"`       // "" if it is about none
	Result    string `json:"result"`          // "ok", or what went wrong; of a sum only of what kind that was
	Count     int64  `json:"count,omitempty"` // how often, of a sum
	Until     int64  `json:"until,omitempty"` // when the last was done, of a sum
}

// Bounds of the audit stream: what is older or more goes.
const (
	auditAge = 90 * 24 * time.Hour
	auditLen = 1_000_000
)

// How long entries may take to be written: while the node runs, and when it is closed.
const (
	auditTime = 5 * time.Second
	auditLast = 500 * time.Millisecond
)

// Sums of audits.
const (
	auditEvery = time.Second
	// maxSums bounds the different ones within that time. What is beyond is summed up by key alone.
	maxSums = 10_000
)

// sums gathers what clients do until it is written.
type sums struct {
	mu  sync.Mutex // guards all; nothing is called under it
	all map[sumOf]*sum
}

// sumOf is what entries are summed up by.
type sumOf struct {
	grant                           *auth.Grant
	from, action, namespace, result string
}

type sum struct{ count, first, last int64 }

// add notes something.
func (s *sums) add(k sumOf, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[k]
	if one == nil && len(s.all) >= maxSums {
		k = sumOf{grant: k.grant, action: "various", result: k.result}
		one = s.all[k]
	}
	if one == nil {
		one = &sum{first: now}
		if s.all == nil {
			s.all = make(map[sumOf]*sum)
		}
		s.all[k] = one
	}
	one.count++
	one.last = now
}

// take returns what there is, in the order of time.
func (s *sums) take() (entries []AuditEntry) {
	s.mu.Lock()
	all := s.all
	s.all = nil
	s.mu.Unlock()
	for k, one := range all {
		e := AuditEntry{At: one.first, Until: one.last, Count: one.count, From: k.from, Action: k.action, Namespace: k.namespace, Result: k.result}
		e.of(k.grant)
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b AuditEntry) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Action, b.Action))
	})
	return entries
}

// of says whose entry it is, nil being the host program.
func (e *AuditEntry) of(grant *auth.Grant) {
	if grant != nil {
		k := grant.Key()
		e.Key, e.Name, e.Role = k.ID, k.Name, Role(k.Role.String())
	}
}

// Audit appends an entry to the audit stream. At, Result and what belongs to the key are filled in; err is what came of the action. It does nothing if
// there is no key store, and through a Client. That the entry could not be written is told in the log.
func (h *Holder) Audit(ctx context.Context, e AuditEntry, err error) {
	if _, remote := h.of.db.(*Client); remote || h.grant.IsOpen() {
		return
	}
	h.of.note(ctx, h.grant, e, err)
}

// note appends an entry about what a holder did, nil being the host program. It goes on when ctx ends: whoever hangs up has done it all the same.
func (g *gatekeeper) note(ctx context.Context, grant *auth.Grant, e AuditEntry, err error) {
	e.At, e.Result = time.Now().UnixMilli(), "ok"
	if err != nil {
		e.Result = err.Error()
	}
	e.of(grant)
	g.write(context.WithoutCancel(ctx), e)
}

// record notes what a client did; it is written later, so that nobody waits for it.
func (g *gatekeeper) record(grant *auth.Grant, from, action, namespace string, err error) {
	g.sums.add(sumOf{grant, from, action, namespace, kindOf(err)}, time.Now().UnixMilli())
}

// kindOf says in a word what went wrong, so that entries can be summed up by it.
func kindOf(err error) string {
	if err == nil {
		return "ok"
	}
	for _, kind := range []struct {
		err  error
		name string
	}{
		{ErrUnknownOutcome, "outcome unknown"}, {ErrUnauthorized, "not allowed"}, {ErrInvalid, "invalid"}, {ErrNotFound, "not found"}, {ErrConflict, "conflict"},
		{ErrExists, "exists"}, {ErrBusy, "busy"}, {ErrReadOnly, "read-only"}, {ErrUnavailable, "unavailable"}, {context.Canceled, "cancelled"},
	} {
		if errors.Is(err, kind.err) {
			return kind.name
		}
	}
	return "failed"
}

// runAudit writes what clients did, until ctx is done.
func (g *gatekeeper) runAudit() {
	tick := time.NewTicker(auditEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.flush(g.ctx)
		case <-g.ctx.Done():
			return
		}
	}
}

// flush writes what clients have done so far.
func (g *gatekeeper) flush(ctx context.Context) {
	for part := range slices.Chunk(g.sums.take(), stream.MaxBatch) {
		g.write(ctx, part...)
	}
}

// write appends entries.
func (g *gatekeeper) write(ctx context.Context, entries ...AuditEntry) {
	ctx, cancel := context.WithTimeout(ctx, auditTime)
	defer cancel()
	messages := make([]stream.Message, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		e.Action, e.Result = withoutSecrets(e.Action), withoutSecrets(e.Result)
		payload, err := json.Marshal(e)
		if err != nil {
			g.log.Error("audit entry was not written", "action", e.Action, "key", e.Key, "err", err)
			continue
		}
		messages = append(messages, stream.Message{Payload: payload})
	}
	if err := g.append(ctx, messages); err != nil && !errors.Is(err, ErrClosed) {
		g.log.Error("audit entries were not written", "entries", len(entries), "first", entries[0].Action, "key", entries[0].Key, "err", err)
	}
}

func (g *gatekeeper) append(ctx context.Context, messages []stream.Message) error {
	if !g.audited.Load() {
		err := g.send(ctx, stream.CreateOp(AuditStream, stream.MaxAge(auditAge), stream.MaxLen(auditLen)))
		if err != nil && !errors.Is(err, ErrExists) {
			return err
		}
		g.audited.Store(true)
	}
	return g.send(ctx, stream.AppendManyOp(AuditStream, messages))
}

// secrets are keys and session tokens, wherever somebody has put them by mistake.
var secrets = regexp.MustCompile(`floe_s[kt]_[0-9A-Za-z_-]+`)

func withoutSecrets(text string) string { return secrets.ReplaceAllLiteralString(text, "***") }

// send writes to the system namespace, which is closed to users.
func (g *gatekeeper) send(ctx context.Context, op engine.Operation) error {
	o := engine.OpOf(op)
	cmd, err := o.Limit(g.base.maxValue())
	if err != nil {
		return err
	}
	cmd.Namespace = engine.SystemNamespace
	_, err = g.base.router.Propose(ctx, o.Route, cmd)
	return err
}
