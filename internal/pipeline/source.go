package pipeline

import (
	"slices"
	"strconv"
	"strings"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/expression"
)

// source reads a source.
func (r *reader) source(n *document.Node, at string) {
	s := Source{IdleAfter: defaultIdle, Disorder: -1}
	var time *expression.Path
	r.Table(n, at,
		document.Field{Names: "name", Read: r.Name(&s.Name)},
		document.Field{Names: "stream", Read: r.streamSource(&s)},
		document.Field{Names: "ts", Read: r.tsSource(&s)},
		document.Field{Names: "event_time", Read: r.path(&time)},
		document.Field{Names: "watermark", Read: r.watermark(&s)},
		document.Field{Names: "max_future_ms max_future", Read: r.Millis(&r.job.MaxFuture, 0)},
		document.Field{Names: "stop_at", Read: r.stopAt},
		r.refused("wasm", noWASM),
		r.refused("triggers trigger", "jobs have no triggers: a job runs continuously"),
	)
	if n.Kind != document.Table {
		return
	}
	if time != nil {
		s.EventTime = time.String()
		s.private.time = time
	}
	if s.Disorder < 0 {
		if s.Disorder = 0; time != nil {
			s.Disorder = defaultDisorder
		}
	}
	switch {
	case s.Stream == nil && s.TS == nil && n.Get("stream") == nil && n.Get("ts") == nil:
		r.Fail(n.Line, "missing", "%s has neither stream nor ts, expected one of them", at)
	case n.Get("stream") != nil && n.Get("ts") != nil:
		r.Fail(n.Line, "duplicate-key", "%s has stream and ts, expected one of them", at)
	}
	called(r, n, at, s.Name, r.job.Sources, func(s *Source) string { return s.Name })
	r.job.Sources = append(r.job.Sources, s)
}

func (r *reader) watermark(s *Source) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		r.Table(n, at,
			document.Field{Names: "max_out_of_orderness_ms max_out_of_orderness", Read: r.Millis(&s.Disorder, 0)},
			document.Field{Names: "idle_timeout_ms idle_timeout", Read: r.Millis(&s.IdleAfter, 0)},
		)
	}
}

func (r *reader) streamSource(s *Source) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		v := &StreamSource{}
		s.Stream = v
		if n.Kind == document.Text {
			r.Name(&v.Stream)(n, at)
			return
		}
		r.Table(n, at,
			document.Field{Names: "name stream", Read: r.Name(&v.Stream)},
			document.Field{Names: "partitions partition", Read: r.partitions(v)},
			document.Field{Names: "start start_at", Read: r.start(&v.Start, &v.StartID)},
			document.Field{Names: "namespace", Read: r.ownNamespace},
			document.Field{Names: "stop_at", Read: r.stopAt},
			document.Field{Names: "batch_size", Read: r.Count(new(int64), 1, document.MaxMillis)},
			document.Field{Names: "poll_interval_ms poll_interval", Read: r.Millis(new(int64), 0)},
		)
		if n.Kind != document.Table {
			return
		}
		if n.Get("name stream") == nil {
			r.Fail(n.Line, "missing", "%s has no name", at)
		}
		if n.Get("partitions partition") == nil {
			r.Warn(n.Line, "default", "%s has no partitions: it reads all of them, where Flo reads partition 0", at)
		}
	}
}

// ownNamespace reads the namespace of a source, which must be the job's.
func (r *reader) ownNamespace(n *document.Node, at string) {
	name := ""
	if r.Name(&name)(n, at); name == "" {
		return
	}
	if r.job.Namespace != "" && r.job.Namespace != name {
		r.Fail(n.Line, "bad-value", "%s is %s, but the job is in %s: a job reads only its own namespace", at, document.Quote(name),
			document.Quote(r.job.Namespace))
		return
	}
	r.job.Namespace = name
}

const maxPartition = 1023

// partitions reads 0, "0-3", "0,2", [0, 2] or all.
func (r *reader) partitions(v *StreamSource) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		var all []int
		ok := true
		switch n.Kind {
		case document.Number, document.Text:
			if strings.TrimSpace(n.Text) == "all" {
				return
			}
			for part := range strings.SplitSeq(n.Text, ",") {
				ok = ok && addPartitions(&all, part)
			}
		case document.List:
			for _, item := range n.Items {
				ok = ok && item.Kind == document.Number && addPartitions(&all, item.Text)
			}
		default:
			ok = false
		}
		if !ok || len(all) == 0 {
			r.Fail(n.Line, "bad-value", `%s is %s, expected all, a partition such as 0, or several such as "0-3" or "0,2", of 0 to %d`, at,
				n.Describe(), maxPartition)
			return
		}
		slices.Sort(all)
		v.Partitions = slices.Compact(all)
	}
}

func addPartitions(all *[]int, text string) bool {
	from, to, isRange := strings.Cut(strings.TrimSpace(text), "-")
	first, err := strconv.ParseUint(strings.TrimSpace(from), 10, 16)
	last := first
	if err == nil && isRange {
		last, err = strconv.ParseUint(strings.TrimSpace(to), 10, 16)
	}
	if err != nil || last < first || last > maxPartition || len(*all) > maxPartition {
		return false
	}
	for p := first; p <= last; p++ {
		*all = append(*all, int(p))
	}
	return true
}

// start reads earliest, latest or an ID.
func (r *reader) start(v *Start, id *ID) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		switch text := n.Text; {
		case n.Kind == document.Text && text == "earliest":
			*v = StartEarliest
		case n.Kind == document.Text && text == "latest":
			*v = StartLatest
		case n.Kind == document.Text || n.Kind == document.Number:
			var err error
			if *id, err = parseID(text); err == nil {
				*v = StartAt
				return
			}
			fallthrough
		default:
			r.Fail(n.Line, "bad-value", "%s is %s, expected earliest, latest or an id such as 1763740800000-0", at, n.Describe())
		}
	}
}

func (r *reader) tsSource(s *Source) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		v := &TSSource{Field: "value", Poll: defaultPoll, Delay: defaultDelay}
		s.TS = v
		var id ID
		r.Table(n, at,
			document.Field{Names: "measurement name", Read: r.Name(&v.Measurement)},
			document.Field{Names: "field", Read: r.Name(&v.Field)},
			document.Field{Names: "tags", Read: r.pairs(&v.Tags)},
			document.Field{Names: "poll_interval_ms poll_interval", Read: r.Millis(&v.Poll, 1)},
			document.Field{Names: "delay_ms delay", Read: r.Millis(&v.Delay, 0)},
			document.Field{Names: "start", Read: r.start(&v.Start, &id)},
			document.Field{Names: "namespace", Read: r.ownNamespace},
			document.Field{Names: "stop_at", Read: r.stopAt},
			ignored("batch_size"),
		)
		if n.Kind != document.Table {
			return
		}
		if n.Get("measurement name") == nil {
			r.Fail(n.Line, "missing", "%s has no measurement", at)
		}
		if v.Start == StartAt {
			r.Fail(n.Get("start").Line, "bad-value", "%s.start is an id, expected earliest or latest: points have no ids", at)
		}
	}
}
