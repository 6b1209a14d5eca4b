package flow

import (
	"slices"
	"time"

	"github.com/floedb/floe/internal/cron"
)

// What schedules and triggers say when they leave a key out.
const (
	defaultCatchUpLimit = 100
	defaultBatchWait    = 5000
	maxBatch            = 1000
	catchUpRules        = uint8(cron.CatchUpAll) + 1
)

func (r *reader) schedule(v **Schedule) func(*node, string) {
	return func(n *node, at string) {
		s := &Schedule{Most: 1, CatchUpLimit: defaultCatchUpLimit, Input: []byte("{}")}
		before := len(r.problems)
		r.table(n, at,
			field{names: "cron", read: r.text(&s.Cron)},
			field{names: "interval interval_ms every", read: r.millis(&s.Every, 1)},
			field{names: "timezone time_zone", read: r.text(&s.Zone)},
			field{names: "max_concurrent", read: r.count(&s.Most, 0, maxCount)},
			field{names: "input", read: r.literal(&s.Input), null: true},
			field{names: "paused", read: r.boolean(&s.Paused)},
			field{names: "catch_up", read: word(r, &s.CatchUp, choice[uint8]{"one", uint8(cron.CatchUpOne)}, choice[uint8]{"none", uint8(cron.CatchUpNone)},
				choice[uint8]{"all", uint8(cron.CatchUpAll)})},
			field{names: "catch_up_limit", read: r.count(&s.CatchUpLimit, 1, cron.MaxAll)},
		)
		*v = s
		if len(r.problems) > before || n.kind != nodeTable {
			return
		}
		spec := cron.Spec{Cron: s.Cron, Every: time.Duration(s.Every) * time.Millisecond, Zone: s.Zone}
		if _, err := cron.Parse(spec); err != nil {
			line := n.line
			if c := n.get("cron"); c != nil {
				line = c.line
			}
			r.fail(line, "bad-schedule", "%s: %v", at, err)
		}
	}
}

func (r *reader) trigger(v **Trigger) func(*node, string) {
	return func(n *node, at string) {
		t := &Trigger{Mode: "shared", Batch: 1, Wait: defaultBatchWait, Start: "latest"}
		r.table(n, at,
			field{names: "stream", read: r.name(&t.Stream)},
			field{names: "namespace", read: r.name(&t.Namespace)},
			field{names: "consumer_group group", read: r.name(&t.Group)},
			field{names: "mode", read: word(r, &t.Mode, choice[string]{"shared", "shared"}, choice[string]{"exclusive", "exclusive"}, choice[string]{"key_shared", "key_shared"})},
			field{names: "batch_size", read: r.count(&t.Batch, 1, maxBatch)},
			field{names: "batch_timeout_ms batch_timeout", read: r.millis(&t.Wait, 0)},
			field{names: "start", read: word(r, &t.Start, choice[string]{"latest", "latest"}, choice[string]{"earliest", "earliest"})},
			field{names: "max_concurrent", read: r.count(&t.Most, 0, maxCount)},
		)
		if n.kind == nodeTable && n.get("stream") == nil {
			r.fail(n.line, "missing", "%s has no stream", at)
		}
		*v = t
	}
}

func (r *reader) attribute(n *node, at string) {
	a := Attribute{Kind: AttributeString}
	var from *Path
	r.table(n, at,
		field{names: "name", read: r.name(&a.Name)},
		field{names: "type", read: word(r, &a.Kind, choice[AttributeKind]{"string", AttributeString}, choice[AttributeKind]{"number", AttributeNumber},
			choice[AttributeKind]{"timestamp", AttributeTimestamp})},
		field{names: "from path", read: r.path(&from, pathRules{bare: true})},
	)
	if n.kind != nodeTable {
		return
	}
	switch {
	case n.get("name") == nil:
		r.fail(n.line, "missing", "%s has no name", at)
	case n.get("from path") == nil:
		r.fail(n.line, "missing", "%s has no from: say where its value is, such as $.input.customer_id", at)
	case from == nil:
		return
	case from.root != RootInput:
		r.fail(n.get("from path").line, "bad-path", "%s.from leads to something else than the input, which alone is there when a run starts", at)
	case slices.ContainsFunc(r.d.Attributes, func(other Attribute) bool { return other.Name == a.Name }):
		r.fail(n.get("name").line, "duplicate-name", "%s has the name %s, as another search attribute", at, quote(a.Name))
	default:
		a.From = *from
		r.d.Attributes = append(r.d.Attributes, a)
	}
}

// signals reads declared signals: a table by type, or a list.
func (r *reader) signals(n *node, at string) {
	if n.kind == nodeList {
		r.each(MaxSignals, r.listedSignal)(n, at)
		return
	}
	r.named(MaxSignals, func(name string, p *pair, at string) {
		s := Signal{Type: name}
		if p.value.kind != nodeNull {
			r.table(p.value, at, r.signalFields(&s)...)
		}
		r.declare(s, p.line, at)
	})(n, at)
}

func (r *reader) signalFields(s *Signal) []field {
	return []field{{names: "description", read: r.text(new(string))}, {names: "schema", read: r.schema(&s.Schema)}}
}

func (r *reader) listedSignal(n *node, at string) {
	var s Signal
	if n.kind == nodeText {
		r.name(&s.Type)(n, at)
	} else if r.table(n, at, append(r.signalFields(&s), field{names: "type name", read: r.name(&s.Type)})...); n.kind == nodeTable && n.get("type name") == nil {
		r.fail(n.line, "missing", "%s has no type", at)
	}
	r.declare(s, n.line, at)
}

func (r *reader) declare(s Signal, line int, at string) {
	if slices.ContainsFunc(r.d.Signals, func(other Signal) bool { return other.Type == s.Type }) {
		r.fail(line, "duplicate-name", "%s declares signal %s again", at, quote(s.Type))
		return
	}
	r.d.Signals = append(r.d.Signals, s)
}

func (r *reader) retention(n *node, at string) {
	d := r.d
	if n.kind != nodeTable {
		r.millis(&d.RetainFor, 0)(n, at)
		return
	}
	days := int64(0)
	r.table(n, at,
		field{names: "ms duration for", read: r.millis(&d.RetainFor, 0)},
		field{names: "days", read: r.count(&days, 0, 36_500)},
		field{names: "runs", read: r.count(&d.RetainRuns, 0, maxCount)},
	)
	if n.get("days") == nil {
		return
	}
	if d.RetainFor = days * 24 * 3600 * 1000; n.get("ms duration for") != nil {
		r.fail(n.get("days").line, "duplicate-key", "days and ms in %s say the same", at)
	}
}
