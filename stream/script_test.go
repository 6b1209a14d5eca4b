package stream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// TestScripts runs the scripts in testdata, see machinetest.Script. Each line is an operation or a
// call of the store; after each line all rows are verified. A record is written as
// partition/offset, a delivery of it as partition/offset@attempt.
//
//	create s partitions=2 age=1h len=9      append s body key=k partition=1 dedup=producer:1 if=0s-0
//	trim s before=1s-0 len=3                retention s age=1h len=9            delete s force=yes
//	group s g mode=shared timeout=1s deliver=3 backoff=1s,5s from=end
//	take s g c limit=2 mode=shared timeout=1s deliver=3 backoff=1s,5s noack=yes
//	ack s g 0/1@1 ...   nack s g 0/1@1 ... delay=1s reason=text dlq=yes   extend s g 1m 0/1@1   leave s g c
//	seek s g begin      seek s g end        seek s g after=1s-0                 drop s g
//	read s after=0s-0 limit=2 partition=1   stats s   groups s   pending s g   members s g   list
//
// IDs are written as the time since the beginning and their number in it.
func TestScripts(t *testing.T) {
	stream.StartTurns()
	machinetest.RunScripts(t, "testdata/scripts", func(t *testing.T) *machinetest.Script {
		r, store := newStore(t)
		s := &script{&machinetest.Script{Rig: r, Limit: stream.DefaultMaxPayloadBytes, Operation: scriptOp, Condition: scriptCondition,
			Result: scriptResult, Verify: r.Verify}, store}
		s.Other = s.other
		return s.Script
	})
}

type script struct {
	*machinetest.Script
	store *stream.Store
}

func scriptOp(verb string, a machinetest.Args) (op engine.Operation, ok bool) {
	s, group := a.Word(0), a.Word(1)
	switch verb {
	case "create":
		return stream.CreateOp(s, createOptions(a)...), true
	case "append":
		return appendOperation(s, a), true
	case "trim":
		var opts []stream.TrimOption
		if a.Has("before") {
			opts = append(opts, stream.Before(scriptID(a.Named["before"])))
		}
		if a.Has("len") {
			opts = append(opts, stream.MaxLen(machinetest.Number(a.Named["len"])))
		}
		if a.Has("bytes") {
			opts = append(opts, stream.MaxBytes(machinetest.Number(a.Named["bytes"])))
		}
		if a.Has("dry") {
			opts = append(opts, stream.DryRun())
		}
		return stream.TrimOp(s, opts...), true
	case "retention":
		return stream.SetRetentionOp(s, retention(a)), true
	case "delete":
		if a.Has("force") {
			return stream.DeleteOp(s, stream.Force()), true
		}
		return stream.DeleteOp(s), true
	case "group":
		return stream.CreateGroupOp(s, group, groupOptions(a)...), true
	case "ack":
		return stream.AckOp(s, group, refs(a.Words[2:])...), true
	case "nack":
		var opts []stream.NackOption
		if a.Has("delay") {
			opts = append(opts, stream.Delay(machinetest.Duration(a.Named["delay"])))
		}
		if a.Has("dlq") {
			opts = append(opts, stream.ToDLQ())
		}
		return stream.NackOp(s, group, refs(a.Words[2:]), append(opts, stream.Reason(a.Named["reason"]))...), true
	case "extend":
		return stream.ExtendOp(s, group, refs(a.Words[3:]), machinetest.Duration(a.Word(2))), true
	case "leave":
		return stream.LeaveOp(s, group, a.Word(2)), true
	case "seek":
		if a.Has("partition") {
			return stream.SeekOp(s, group, seekTo(a), stream.Partition(int(machinetest.Number(a.Named["partition"])))), true
		}
		return stream.SeekOp(s, group, seekTo(a)), true
	case "configure":
		return stream.ConfigureGroupOp(s, group, settings(a)...), true
	case "drop":
		return stream.DeleteGroupOp(s, group), true
	}
	return nil, false
}

func appendOperation(s string, a machinetest.Args) engine.Operation {
	var opts []stream.AppendOption
	if a.Has("partition") {
		opts = append(opts, stream.Partition(int(machinetest.Number(a.Named["partition"]))))
	}
	if producer, sequence, ok := strings.Cut(a.Named["dedup"], ":"); ok {
		opts = append(opts, stream.Dedup(producer, uint64(machinetest.Number(sequence))))
	}
	if a.Has("if") {
		opts = append(opts, stream.IfLastID(scriptID(a.Named["if"])))
	}
	return stream.AppendOp(s, stream.Message{Key: a.Named["key"], Payload: []byte(a.Word(1))}, opts...)
}

func scriptCondition(verb string, a machinetest.Args) (engine.Condition, bool) {
	if verb != "last" {
		return nil, false
	}
	return stream.LastIDIs(a.Word(0), int(machinetest.Number(a.Word(1))), scriptID(a.Word(2))), true
}

func createOptions(a machinetest.Args) (opts []stream.CreateOption) {
	if a.Has("partitions") {
		opts = append(opts, stream.Partitions(int(machinetest.Number(a.Named["partitions"]))))
	}
	if a.Has("age") {
		opts = append(opts, stream.MaxAge(machinetest.Duration(a.Named["age"])))
	}
	if a.Has("len") {
		opts = append(opts, stream.MaxLen(machinetest.Number(a.Named["len"])))
	}
	if a.Has("bytes") {
		opts = append(opts, stream.MaxBytes(machinetest.Number(a.Named["bytes"])))
	}
	return opts
}

func retention(a machinetest.Args) (r stream.Retention) {
	if a.Has("age") {
		r.MaxAge = machinetest.Duration(a.Named["age"])
	}
	if a.Has("len") {
		r.MaxLen = machinetest.Number(a.Named["len"])
	}
	if a.Has("bytes") {
		r.MaxBytes = machinetest.Number(a.Named["bytes"])
	}
	return r
}

// config returns the configuration of a group.
func config(a machinetest.Args) (opts []stream.ConfigOption) {
	if a.Has("mode") {
		mode, err := stream.ParseMode(a.Named["mode"])
		if err != nil {
			panic(err)
		}
		opts = append(opts, stream.InMode(mode))
	}
	for _, o := range settings(a) {
		opts = append(opts, o)
	}
	return opts
}

// settings returns the settings of a group that can be changed.
func settings(a machinetest.Args) (opts []stream.SettingOption) {
	if a.Has("timeout") {
		opts = append(opts, stream.AckTimeout(machinetest.Duration(a.Named["timeout"])))
	}
	if a.Has("deliver") {
		opts = append(opts, stream.MaxAttempts(int(machinetest.Number(a.Named["deliver"]))))
	}
	if low, high, ok := strings.Cut(a.Named["backoff"], ","); ok {
		opts = append(opts, stream.Backoff(machinetest.Duration(low), machinetest.Duration(high)))
	}
	return opts
}

func groupOptions(a machinetest.Args) (opts []stream.GroupOption) {
	for _, o := range config(a) {
		opts = append(opts, o)
	}
	if a.Named["from"] == "end" {
		opts = append(opts, stream.FromEnd())
	}
	return opts
}

func seekTo(a machinetest.Args) stream.SeekOption {
	switch {
	case a.Has("after"):
		return stream.After(scriptID(a.Named["after"]))
	case a.Word(2) == "end":
		return stream.FromEnd()
	}
	return stream.FromBeginning()
}

// scriptID parses an ID in the form used by scripts.
func scriptID(text string) stream.ID {
	since, seq, _ := strings.Cut(text, "-")
	return stream.ID{Millis: machinetest.Epoch + machinetest.Duration(since).Milliseconds(), Seq: uint64(machinetest.Number(seq))}
}

func writeID(id stream.ID) string {
	if id.IsZero() {
		return "none"
	}
	return fmt.Sprintf("%s-%d", machinetest.Since(id.Time()), id.Seq)
}

func refs(words []string) (all []stream.Ref) {
	for _, w := range words {
		var r stream.Ref
		if _, err := fmt.Sscanf(w, "%d/%d@%d", &r.Partition, &r.Offset, &r.Attempt); err != nil {
			panic(err)
		}
		all = append(all, r)
	}
	return all
}

func writeRef(r stream.Ref) string { return fmt.Sprintf("%d/%d@%d", r.Partition, r.Offset, r.Attempt) }

func scriptResult(v any) string {
	switch v := v.(type) {
	case nil:
		return "ok"
	case stream.Appended:
		text := fmt.Sprintf("%s at %d/%d", writeID(v.ID), v.Partition, v.Offset)
		if v.Duplicate {
			text += ", a duplicate"
		}
		return text
	case stream.Extended:
		if v.Records == 0 {
			return "0"
		}
		return fmt.Sprintf("%d until %s", v.Records, machinetest.Since(v.Until))
	}
	return fmt.Sprint(v)
}

func (s *script) other(ctx context.Context, line, verb string, a machinetest.Args) bool {
	name, group := a.Word(0), a.Word(1)
	switch verb {
	case "take":
		s.take(ctx, line, a)
	case "read":
		s.read(ctx, line, a)
	case "stats":
		st, err := s.store.Get(ctx, name)
		s.Answer(line, describeStats(st), err)
	case "groups":
		for g, err := range s.store.Groups(name).All(ctx) {
			s.Answer("group", fmt.Sprintf("%s %v, lag %d, pending %d%s", g.Name, g.Mode, g.Lag(), g.Pending(), describeHolder(g)), err)
		}
	case "members":
		g, err := s.store.Groups(name).Get(ctx, group)
		s.Answer(line, len(g.Members), err)
		for _, m := range g.Members {
			s.Printf("  %s: %d pending, joined %s", m.Consumer, m.Pending, machinetest.Since(m.JoinedAt))
		}
	case "pending":
		s.pending(ctx, line, name, group)
	case "list":
		for st, err := range s.store.All(ctx) {
			s.Answer("list", st.Name, err)
		}
	default:
		return false
	}
	return true
}

func describeHolder(g stream.GroupStats) string {
	if g.Holder == "" {
		return ""
	}
	return ", holder " + g.Holder
}

func describeStats(st stream.Stats) string {
	text := fmt.Sprintf("%d records of %d", st.Records(), st.Appended)
	if r := st.Retention.String(); r != "" {
		text += ", keeps " + r
	}
	for _, p := range st.Partitions {
		text += fmt.Sprintf("\n  %d: %d records of %d bytes, from %d %s to %d %s", p.Partition, p.Records, p.Bytes, p.First,
			writeID(p.FirstID), p.Last, writeID(p.LastID))
	}
	return text
}

func (s *script) take(ctx context.Context, line string, a machinetest.Args) {
	var opts []stream.GroupReadOption
	for _, o := range config(a) {
		opts = append(opts, o)
	}
	if a.Has("limit") {
		opts = append(opts, stream.Limit(int(machinetest.Number(a.Named["limit"]))))
	}
	if a.Has("noack") {
		opts = append(opts, stream.NoAck())
	}
	ds, err := s.store.ReadGroup(context.WithoutCancel(ctx), a.Word(0), a.Word(1), a.Word(2), opts...)
	text := "nothing"
	if len(ds) > 0 {
		text = ""
	}
	for _, d := range ds {
		text += fmt.Sprintf("\n  %s %q", writeRef(d.Ref()), d.Payload)
		if d.Key != "" {
			text += fmt.Sprintf(" key %q", d.Key)
		}
		if !d.Deadline.IsZero() {
			text += " until " + machinetest.Since(d.Deadline)
		}
	}
	s.Answer(line, text, err)
}

func (s *script) read(ctx context.Context, line string, a machinetest.Args) {
	var opts []stream.ReadOption
	if a.Has("after") {
		opts = append(opts, stream.After(scriptID(a.Named["after"])))
	}
	if a.Has("limit") {
		opts = append(opts, stream.Limit(int(machinetest.Number(a.Named["limit"]))))
	}
	if a.Has("partition") {
		opts = append(opts, stream.Partition(int(machinetest.Number(a.Named["partition"]))))
	}
	recs, err := s.store.Read(ctx, a.Word(0), opts...)
	text := "nothing"
	if len(recs) > 0 {
		text = ""
	}
	for _, r := range recs {
		text += fmt.Sprintf("\n  %s %d/%d %q", writeID(r.ID), r.Partition, r.Offset, r.Payload)
		if len(r.Headers) > 0 {
			text += fmt.Sprintf(" headers %q", r.Headers)
		}
	}
	s.Answer(line, text, err)
}

func (s *script) pending(ctx context.Context, line, name, group string) {
	text := ""
	for p, err := range s.store.Pending(name, group).All(ctx) {
		if err != nil {
			s.Answer(line, "", err)
			return
		}
		text += fmt.Sprintf("\n  %s", writeRef(p.Ref))
		if p.Consumer != "" {
			text += " of " + p.Consumer
		}
		text += " until " + sinceOrNever(p.Deadline)
		if p.Reason != "" {
			text += fmt.Sprintf(", %q", p.Reason)
		}
	}
	if text == "" {
		text = "nothing"
	}
	s.Answer(line, text, nil)
}

func sinceOrNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return machinetest.Since(t)
}
