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

// Streams in the namespace "_system" that record actions of API keys. Each record is an AuditEntry
// as a JSON document.
const (
	// AuditStream records changes of data, refused requests and wrong keys: up to 90 days and a
	// million entries.
	AuditStream = "audit"
	// AuditKeysStream records changes of keys, including changes whose outcome is unknown. It has
	// no limits, so no entry is ever evicted. Refused changes are in AuditStream.
	AuditKeysStream = "audit-keys"
)

// AuditEntry records an action of an API key. Each change of a key and each change made through the
// dashboard has its own entry. Requests at the client port may arrive at a hundred thousand a
// second, so they are aggregated. Requests of one key with the same address, action, namespace and
// result within about a second share one entry. Requests refused for missing rights, at either
// port, are aggregated by key, address and result; Action and Namespace are those of the first one.
// A key has at most 10 entries a second on average, and 100 in a burst. Further entries are
// aggregated by result.
type AuditEntry struct {
	At        int64  `json:"at"`              // ms since the epoch; of the first one if aggregated
	Key       string `json:"key"`             // id
	Name      string `json:"name"`            // of the key
	Role      Role   `json:"role"`            // of the key, "" without one
	From      string `json:"from"`            // client address
	Action    string `json:"action"`          // such as "PUT /api/v1/kv/namespaces/shop/keys/a", or "kv put" at the client port
	Namespace string `json:"namespace"`       // "" if the action concerns none
	Result    string `json:"result"`          // "ok" or the error; if aggregated, only the kind of error
	Count     int64  `json:"count,omitempty"` // number of actions, if aggregated
	Until     int64  `json:"until,omitempty"` // ms since the epoch of the last one, if aggregated
}

// Limits of AuditStream; older and excess entries are removed.
const (
	auditAge = 90 * 24 * time.Hour
	auditLen = 1_000_000
)

// Timeouts for writing entries, while the node runs and when it closes.
const (
	auditTime = 5 * time.Second
	auditLast = 500 * time.Millisecond
)

// Limits of aggregation.
const (
	auditEvery = time.Second
	// maxSums bounds the number of sums within that time. Beyond it, actions are aggregated by key
	// alone.
	maxSums = 10_000
	// sumsBurst and sumsRate (per second) limit the sums of a key, so that no key fills the stream
	// alone.
	sumsBurst = 100
	sumsRate  = 10
)

// sums aggregates actions of clients until they are written.
type sums struct {
	mu    sync.Mutex // guards the fields below; no calls under it
	all   map[sumOf]*sum
	rates map[*auth.Grant]*sumRate
}

// sumRate is the token bucket of a key's entries: each takes one of sumsBurst tokens, which are
// refilled at sumsRate.
type sumRate struct {
	tokens float64
	at     int64 // ms
}

func (r *sumRate) refill(now int64) {
	r.tokens = min(sumsBurst, r.tokens+sumsRate*float64(max(0, now-r.at))/1000)
	r.at = now
}

// sumOf is the key by which entries are aggregated.
type sumOf struct {
	grant                           *auth.Grant
	from, action, namespace, result string
}

type sum struct {
	count, first, last int64
	action, namespace  string // of the first action
}

const various = "various"

// refused counts an action that the key has no right to. Action and namespace are not part of the
// aggregation key, so trying many names adds no entries.
func (s *sums) refused(k sumOf, now int64) {
	action, namespace := k.action, k.namespace
	k.action, k.namespace = "", ""
	s.addAs(k, action, namespace, now)
}

// add counts an action.
func (s *sums) add(k sumOf, now int64) { s.addAs(k, k.action, k.namespace, now) }

// addAs counts an action in an entry that shows the given action and namespace.
func (s *sums) addAs(k sumOf, action, namespace string, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[k]
	if one == nil && !s.allowLocked(k.grant, now) {
		k = sumOf{grant: k.grant, action: various, result: k.result}
		action, namespace = various, ""
		one = s.all[k]
	}
	if one == nil {
		one = &sum{first: now, action: action, namespace: namespace}
		if s.all == nil {
			s.all = make(map[sumOf]*sum)
		}
		s.all[k] = one
	}
	one.count++
	one.last = now
}

// allow reports whether a key may have another entry that is not a sum.
func (s *sums) allow(grant *auth.Grant, now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allowLocked(grant, now)
}

// allowLocked reports whether a key may have another separate entry.
func (s *sums) allowLocked(grant *auth.Grant, now int64) bool {
	r := s.rates[grant]
	if r == nil {
		if s.rates == nil {
			s.rates = make(map[*auth.Grant]*sumRate)
		}
		r = &sumRate{tokens: sumsBurst, at: now}
		s.rates[grant] = r
	}
	if r.refill(now); r.tokens < 1 || len(s.all) >= maxSums {
		return false
	}
	r.tokens--
	return true
}

// forgetLocked drops the rates of keys that have all their tokens, including those of revoked keys.
func (s *sums) forgetLocked(now int64) {
	for grant, r := range s.rates {
		if r.refill(now); r.tokens == sumsBurst {
			delete(s.rates, grant)
		}
	}
}

// take removes the sums and returns them as entries, in order of time.
func (s *sums) take(now int64) (entries []AuditEntry) {
	s.mu.Lock()
	all := s.all
	s.all = nil
	s.forgetLocked(now)
	s.mu.Unlock()
	for k, one := range all {
		e := AuditEntry{At: one.first, Until: one.last, Count: one.count, From: k.from, Action: one.action, Namespace: one.namespace,
			Result: k.result}
		e.of(k.grant)
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b AuditEntry) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Action, b.Action))
	})
	return entries
}

// of sets the key of the entry; nil is the host program.
func (e *AuditEntry) of(grant *auth.Grant) {
	if grant != nil {
		k := grant.Key()
		if e.Key, e.Name = k.ID, k.Name; k.ID != "" { // the grant without a key has no role
			e.Role = Role(k.Role.String())
		}
	}
}

// Audit appends an entry to AuditStream. It fills in At, Result and the fields of the key; err is
// the outcome of the action. Actions that the key has no right to are aggregated, and written about
// a second later. Audit does nothing without a key store, or through a Client. Failures to write an
// entry are logged.
func (h *Holder) Audit(ctx context.Context, e AuditEntry, err error) {
	if _, remote := h.of.db.(*Client); remote || h.grant.IsOpen() {
		return
	}
	h.of.note(ctx, AuditStream, h.grant, e, err)
}

// note appends an entry about an action of a holder, or with nil of the host program. It continues
// after ctx ends: an action is recorded even if the client has disconnected.
func (g *gatekeeper) note(ctx context.Context, name string, grant *auth.Grant, e AuditEntry, err error) {
	if errors.Is(err, ErrUnauthorized) {
		g.record(grant, e.From, e.Action, e.Namespace, err)
		return
	}
	e.At, e.Result = time.Now().UnixMilli(), "ok"
	if errors.Is(err, ErrInvalid) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) || errors.Is(err, ErrExists) {
		name = AuditStream // nothing has changed, and refused actions can be repeated without end
	}
	if name == AuditStream && !g.sums.allow(grant, e.At) {
		g.sums.add(sumOf{grant: grant, action: various, result: kindOf(err)}, e.At)
		return
	}
	if err != nil {
		e.Result = err.Error()
	}
	e.of(grant)
	g.write(context.WithoutCancel(ctx), name, e)
}

// record counts an action of a client. The entry is written later, so the client does not wait for
// it.
func (g *gatekeeper) record(grant *auth.Grant, from, action, namespace string, err error) {
	k, now := sumOf{grant, from, action, namespace, kindOf(err)}, time.Now().UnixMilli()
	if errors.Is(err, ErrUnauthorized) {
		g.sums.refused(k, now)
		return
	}
	g.sums.add(k, now)
}

// wrongKeyEvery is the minimum interval between log lines about wrong keys.
const wrongKeyEvery = 10 * time.Second

// wrongKey records a wrong key from an address: aggregated in the audit, and occasionally in the
// log.
func (g *gatekeeper) wrongKey(from string) {
	now := time.Now().UnixMilli()
	g.sums.add(sumOf{from: from, action: "present a key", result: "wrong key"}, now)
	g.wrong.Add(1)
	if last := g.wrongTold.Load(); now-last >= wrongKeyEvery.Milliseconds() && g.wrongTold.CompareAndSwap(last, now) {
		g.log.Warn("wrong API keys were presented", "count", g.wrong.Swap(0), "last_from", from)
	}
}

// kindOf returns the kind of an error in a word or two, so that entries can be aggregated by it.
func kindOf(err error) string {
	if err == nil {
		return "ok"
	}
	for _, kind := range []struct {
		err  error
		name string
	}{
		{ErrUnknownOutcome, "outcome unknown"}, {ErrUnauthorized, "not allowed"}, {ErrInvalid, "invalid"}, {ErrNotFound,
			"not found"}, {ErrConflict, "conflict"},
		{ErrExists, "exists"}, {ErrBusy, "busy"}, {ErrReadOnly, "read-only"}, {ErrUnavailable, "unavailable"}, {context.Canceled,
			"cancelled"},
	} {
		if errors.Is(err, kind.err) {
			return kind.name
		}
	}
	return "failed"
}

// runAudit writes the actions of clients, until ctx is done.
func (g *gatekeeper) runAudit() {
	tick := time.NewTicker(auditEvery)
	defer tick.Stop()
	look := time.NewTicker(usesEvery)
	defer look.Stop()
	for {
		select {
		case <-tick.C:
			g.flush(g.ctx)
		case <-look.C:
			g.noteUses(g.ctx)
		case <-g.ctx.Done():
			return
		}
	}
}

// usesEvery is the interval at which a node records which keys were used.
const usesEvery = 30 * time.Second

// noteUses records when keys were used. A use that could not be recorded is recorded the next time,
// if the key is used again.
func (g *gatekeeper) noteUses(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, auditTime)
	defer cancel()
	if err := g.gate.NoteUses(ctx); err != nil {
		g.log.Debug("uses of keys were not recorded", "err", err)
	}
}

// flush writes the actions aggregated so far.
func (g *gatekeeper) flush(ctx context.Context) {
	for part := range slices.Chunk(g.sums.take(time.Now().UnixMilli()), stream.MaxBatch) {
		g.write(ctx, AuditStream, part...)
	}
}

// write appends entries to one of the streams.
func (g *gatekeeper) write(ctx context.Context, name string, entries ...AuditEntry) {
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
	if err := g.append(ctx, name, messages); err != nil && !errors.Is(err, ErrClosed) {
		g.log.Error("audit entries were not written", "entries", len(entries), "first", entries[0].Action, "key", entries[0].Key, "err",
			err)
	}
}

func (g *gatekeeper) append(ctx context.Context, name string, messages []stream.Message) error {
	if !g.audited.Load() {
		for _, op := range []engine.Operation{
			stream.CreateOp(AuditKeysStream), stream.CreateOp(AuditStream, stream.MaxAge(auditAge), stream.MaxLen(auditLen)),
		} {
			if err := g.send(ctx, op); err != nil && !errors.Is(err, ErrExists) {
				return err
			}
		}
		g.audited.Store(true)
	}
	return g.send(ctx, stream.AppendManyOp(name, messages))
}

// secrets matches keys and session tokens, which users may have put anywhere by mistake.
var secrets = regexp.MustCompile(`floe_s[kt]_[0-9A-Za-z_-]+`)

func withoutSecrets(text string) string { return secrets.ReplaceAllLiteralString(text, "***") }

// send writes to the system namespace, which users cannot write to.
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
