package flow

import (
	"slices"
	"time"

	"github.com/floedb/floe/internal/cron"
	"github.com/floedb/floe/internal/document"
)

// Defaults of the keys of schedules and triggers.
const (
	defaultCatchUpLimit = 100
	defaultBatchWait    = 5000
	maxBatch            = 1000
	catchUpRules        = uint8(cron.CatchUpAll) + 1
)

func (r *reader) schedule(v **Schedule) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		s := &Schedule{Most: 1, CatchUpLimit: defaultCatchUpLimit, Input: []byte("{}")}
		before := len(r.Problems)
		r.Table(n, at,
			document.Field{Names: "cron", Read: r.Text(&s.Cron)},
			document.Field{Names: "interval interval_ms every", Read: r.Millis(&s.Every, cron.MinEvery.Milliseconds())},
			document.Field{Names: "timezone time_zone", Read: r.Text(&s.Zone)},
			document.Field{Names: "max_concurrent", Read: r.Count(&s.Most, 0, maxCount)},
			document.Field{Names: "input", Read: r.literal(&s.Input), Null: true},
			document.Field{Names: "paused", Read: r.Boolean(&s.Paused)},
			document.Field{Names: "catch_up",
				Read: document.Word(&r.Reader, &s.CatchUp, document.Is("one", uint8(cron.CatchUpOne)),
					document.Is("none", uint8(cron.CatchUpNone)),
					document.Is("all", uint8(cron.CatchUpAll)))},
			document.Field{Names: "catch_up_limit", Read: r.Count(&s.CatchUpLimit, 1, cron.MaxAll)},
		)
		*v = s
		if len(r.Problems) > before || n.Kind != document.Table {
			return
		}
		spec := cron.Spec{Cron: s.Cron, Every: time.Duration(s.Every) * time.Millisecond, Zone: s.Zone}
		if _, err := cron.Parse(spec); err != nil {
			line := n.Line
			if c := n.Get("cron"); c != nil {
				line = c.Line
			}
			r.Fail(line, "bad-schedule", "%s: %v", at, err)
		}
	}
}

func (r *reader) trigger(v **Trigger) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		t := &Trigger{Mode: "shared", Batch: 1, Wait: defaultBatchWait, Start: "latest"}
		r.Table(n, at,
			document.Field{Names: "stream", Read: r.Name(&t.Stream)},
			document.Field{Names: "namespace", Read: r.Name(&t.Namespace)},
			document.Field{Names: "consumer_group group", Read: r.Name(&t.Group)},
			document.Field{Names: "mode", Read: document.Word(&r.Reader, &t.Mode, document.Is("shared", "shared"),
				document.Is("exclusive", "exclusive"), document.Is("key_shared", "key_shared"))},
			document.Field{Names: "batch_size", Read: r.Count(&t.Batch, 1, maxBatch)},
			document.Field{Names: "batch_timeout_ms batch_timeout", Read: r.Millis(&t.Wait, 0)},
			document.Field{Names: "start", Read: document.Word(&r.Reader, &t.Start, document.Is("latest", "latest"),
				document.Is("earliest", "earliest"))},
			document.Field{Names: "max_concurrent", Read: r.Count(&t.Most, 0, maxCount)},
		)
		if n.Kind == document.Table && n.Get("stream") == nil {
			r.Fail(n.Line, "missing", "%s has no stream", at)
		}
		*v = t
	}
}

func (r *reader) attribute(n *document.Node, at string) {
	a := Attribute{Kind: AttributeString}
	var from *Path
	r.Table(n, at,
		document.Field{Names: "name", Read: r.Name(&a.Name)},
		document.Field{Names: "type", Read: document.Word(&r.Reader, &a.Kind, document.Is("string", AttributeString),
			document.Is("number", AttributeNumber),
			document.Is("timestamp", AttributeTimestamp))},
		document.Field{Names: "from path", Read: r.path(&from, pathRules{bare: true})},
	)
	if n.Kind != document.Table {
		return
	}
	switch {
	case n.Get("name") == nil:
		r.Fail(n.Line, "missing", "%s has no name", at)
	case n.Get("from path") == nil:
		r.Fail(n.Line, "missing", "%s has no from: add a path such as $.input.customer_id", at)
	case from == nil:
		return
	case from.root != RootInput:
		r.Fail(n.Get("from path").Line, "bad-path",
			"%s.from is not a path into the input, the only data at the start of a run", at)
	case slices.ContainsFunc(r.d.Attributes, func(other Attribute) bool { return other.Name == a.Name }):
		r.Fail(n.Get("name").Line, "duplicate-name", "%s has the name %s, like another search attribute", at, document.Quote(a.Name))
	default:
		a.From = *from
		r.d.Attributes = append(r.d.Attributes, a)
	}
}

// signals reads the declared signals: a table by type, or a list.
func (r *reader) signals(n *document.Node, at string) {
	if n.Kind == document.List {
		r.Each(MaxSignals, r.listedSignal)(n, at)
		return
	}
	r.Named(MaxSignals, func(name string, p *document.Pair, at string) {
		s := Signal{Type: name}
		if p.Value.Kind != document.Null {
			r.Table(p.Value, at, r.signalFields(&s)...)
		}
		r.declare(s, p.Line, at)
	})(n, at)
}

func (r *reader) signalFields(s *Signal) []document.Field {
	return []document.Field{{Names: "description", Read: r.Text(new(string))}, {Names: "schema", Read: r.schema(&s.Schema)}}
}

func (r *reader) listedSignal(n *document.Node, at string) {
	var s Signal
	if n.Kind == document.Text {
		r.Name(&s.Type)(n, at)
	} else if r.Table(n, at, append(r.signalFields(&s),
		document.Field{Names: "type name", Read: r.Name(&s.Type)})...); n.Kind == document.Table && n.Get("type name") == nil {
		r.Fail(n.Line, "missing", "%s has no type", at)
	}
	r.declare(s, n.Line, at)
}

func (r *reader) declare(s Signal, line int, at string) {
	if slices.ContainsFunc(r.d.Signals, func(other Signal) bool { return other.Type == s.Type }) {
		r.Fail(line, "duplicate-name", "%s declares signal %s again", at, document.Quote(s.Type))
		return
	}
	r.d.Signals = append(r.d.Signals, s)
}

func (r *reader) retention(n *document.Node, at string) {
	d := r.d
	if n.Kind != document.Table {
		r.Millis(&d.RetainFor, 0)(n, at)
		return
	}
	days := int64(0)
	r.Table(n, at,
		document.Field{Names: "ms duration for", Read: r.Millis(&d.RetainFor, 0)},
		document.Field{Names: "days", Read: r.Count(&days, 0, 36_500)},
		document.Field{Names: "runs", Read: r.Count(&d.RetainRuns, 0, maxCount)},
	)
	if n.Get("days") == nil {
		return
	}
	if d.RetainFor = days * 24 * 3600 * 1000; n.Get("ms duration for") != nil {
		r.Fail(n.Get("days").Line, "duplicate-key", "%s has both days and ms", at)
	}
}
