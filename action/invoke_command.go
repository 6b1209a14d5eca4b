package action

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// codeInvoke codes an invocation without its name. JSON omits the fields that only machines set.
func codeInvoke(v *protocol.Invoke, f *codec.Fields) {
	if c := f.Binary(); c != nil {
		v.CodeRest(c)
		return
	}
	if f.Parsing() {
		v.Priority = DefaultPriority
	}
	f.OptionalBytes("input", &v.Input)
	f.Byte("priority", &v.Priority)
	f.SignedMillis("delay_ms", &v.Delay, codec.Range{Max: maxMillis})
	f.SignedMillis("timeout_ms", &v.Timeout, codec.Range{Min: 1, Max: maxMillis, Optional: true})
	f.SignedMillis("expiry_ms", &v.Expires, codec.Range{Min: 1, Max: maxMillis, Optional: true})
	f.Varint("max_attempts", &v.MaxAttempts, codec.Range{Min: 1, Max: MaxAttemptsLimit, Optional: true})
	codeLabels(f, &v.Labels)
	codeBlob(f, "concurrency_key", &v.ConcurrencyKey, codec.Range{Max: MaxKeyBytes})
	codeBlob(f, "idempotency_key", &v.IdempotencyKey, codec.Range{Max: MaxKeyBytes})
	f.Bool("awaited", &v.Awaited)
	if f.Checking() {
		f.Text("source", &v.Source, codec.Range{Max: MaxTextBytes})
	}
}

// limitInvoke rejects fields reserved for machines and inputs that are not valid JSON. Parsing is
// slow, so Apply does not repeat it.
func limitInvoke(v *protocol.Invoke) error {
	if v.Notify.Machine != 0 || v.Source != "" || v.Repeated {
		return engine.Errorf(ErrInvalid, "action: invocation has fields that only machines may set")
	}
	return checkInput(v.Input)
}

// checkInput returns an error for an input that is neither empty nor JSON in UTF-8.
func checkInput(input []byte) error {
	if len(input) > 0 && !(utf8.Valid(input) && json.Valid(input)) {
		return engine.Errorf(ErrInvalid, "action: input is not valid JSON: %.40q", input)
	}
	return nil
}

func (i *Invoked) code(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		var in invoked
		in.code(c)
		*i = Invoked{Run: in.runLocation.id(), LSN: in.lsn, Duplicate: in.duplicate}
		return
	}
	f.Text("run_id", (*string)(&i.Run))
	f.Bool("duplicate", &i.Duplicate)
	f.Uvarint("lsn", &i.LSN)
}

func codeCancel(v *protocol.Cancel, f *codec.Fields) {
	codeRef(&v.Ref, f)
	codeBlob(f, "reason", &v.Reason, codec.Range{Max: MaxReasonBytes})
}

// fields codes a registration. Its binary form is that of the action's row.
func (s *spec) fields(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		s.code(c)
		return
	}
	if f.Parsing() {
		*s = defaultSpec
	}
	codeBlob(f, "owner", &s.owner, codec.Range{Max: MaxTextBytes})
	codeBlob(f, "description", &s.description, codec.Range{Max: MaxTextBytes})
	f.SignedMillis("timeout_ms", &s.timeout, codec.Range{Min: 1, Max: maxMillis})
	f.Varint("max_retries", &s.maxRetries, codec.Range{Max: MaxAttemptsLimit - 1})
	f.SignedMillis("backoff_min_ms", &s.backoffMin, codec.Range{Max: maxMillis})
	f.SignedMillis("backoff_max_ms", &s.backoffMax, codec.Range{Min: s.backoffMin, Max: maxMillis})
	f.SignedMillis("retention_ms", &s.retainFor, codec.Range{Min: 1, Max: maxMillis})
	f.Varint("retained_runs", &s.retainRuns, codec.Range{Max: MaxRetainedRuns})
	f.Varint("max_running", &s.maxRunning, codec.Range{Max: MaxRunningLimit})
	f.Varint("max_running_per_key", &s.maxPerKey, codec.Range{Max: MaxRunningLimit})
	f.Varint("rate_limit", &s.rate.limit, codec.Range{Max: MaxRateLimit})
	f.Varint("rate_burst", &s.rate.burst, codec.Range{Min: min(s.rate.limit, 1), Max: MaxRateLimit})
	f.SignedMillis("rate_window_ms", &s.rate.per, codec.Range{Min: min(s.rate.limit, 1), Max: maxRatePer})
}

func (s *spec) check() error {
	switch r := &s.rate; {
	case r.limit == 0 && (r.per != 0 || r.burst != 0):
		return engine.Errorf(ErrInvalid, "action: a rate of 0 runs")
	case r.limit > 0 && r.burst > maxRateMicros/r.interval():
		return engine.Errorf(ErrInvalid, "action: burst %d is too large for one run per %d ms", r.burst, r.per/r.limit)
	}
	return nil
}

// adoptBody carries an action's definition from its home shard to the other shards.
type adoptBody struct {
	name       string
	gone       bool // it was deleted
	definition definition
}

func (a *adoptBody) code(c *codec.Coder) {
	c.String(&a.name)
	c.Bool(&a.gone)
	a.definition.code(c)
}
