package machinetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Script runs lines that call a primitive in namespace "n" of a rig with one shard. A line is a
// verb and words, which may be quoted as in Go and include name=value arguments. Each line is
// answered by one or more lines. Verbs of every primitive:
//
// Each read of takes, duties, restarts and Verify fails once; see Rig.FailReads.
//
//	at 10s                the time since the beginning
//	fire                  timers go off, which they do not by themselves
//	restart   timers
//	txn verb ... ; ...    operations and conditions, all or none
//	repeat 3 verb ...
//
// A call that would wait returns the error of a cancelled context.
type Script struct {
	Rig *Rig
	Out strings.Builder

	Limit     int // maximum size of values and payloads
	Operation func(verb string, a Args) (engine.Operation, bool)
	Condition func(verb string, a Args) (engine.Condition, bool)
	Other     func(ctx context.Context, line, verb string, a Args) (known bool)
	Result    func(v any) string // of an operation
	Verify    func()             // after each line
}

// RunScripts runs the scripts in a directory, each on a Script of its own.
func RunScripts(t *testing.T, dir string, begin func(t *testing.T) *Script) {
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		s := begin(t)
		s.Rig.FailReads(nil)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown directive %q, want run", d.Cmd)
			}
			s.Out.Reset()
			for line := range strings.SplitSeq(d.Input, "\n") {
				s.run(strings.TrimSpace(line))
			}
			return s.Out.String()
		})
	})
}

// Args are the words of a line: positional ones and name=value.
type Args struct {
	Words []string
	Named map[string]string
}

func parse(line string) (verb string, a Args) {
	verb, rest, _ := strings.Cut(line, " ")
	a.Named = make(map[string]string)
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			word, _ := strconv.Unquote(quoted)
			a.Words = append(a.Words, word)
			rest = rest[len(quoted):]
			continue
		}
		word, after, _ := strings.Cut(rest, " ")
		rest = after
		if name, value, ok := strings.Cut(word, "="); ok {
			a.Named[name] = value
		} else {
			a.Words = append(a.Words, word)
		}
	}
	return verb, a
}

// Word returns a positional word, or "".
func (a Args) Word(i int) string {
	if i < len(a.Words) {
		return a.Words[i]
	}
	return ""
}

// Has reports whether a named value is set.
func (a Args) Has(name string) bool { return a.Named[name] != "" }

// Duration parses a word; an invalid one ends the test.
func Duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		panic(err)
	}
	return d
}

// Number parses a word; an invalid one ends the test.
func Number(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// Since formats a time as in scripts.
func Since(t time.Time) string { return t.Sub(time.UnixMilli(Epoch)).String() }

// Printf answers with a line.
func (s *Script) Printf(format string, args ...any) { fmt.Fprintf(&s.Out, format+"\n", args...) }

// Answer writes the result of a line, or its error.
func (s *Script) Answer(line string, result any, err error) {
	if err != nil {
		result = describe(err)
	}
	text := fmt.Sprintf("%s: %v", line, result)
	s.Printf("%s", strings.ReplaceAll(text, ": \n", ":\n"))
}

// describe formats an error with its kind, so that a script shows what errors.Is would match.
func describe(err error) string {
	for _, kind := range []struct {
		err  error
		name string
	}{{engine.ErrNotFound, "NotFound"}, {engine.ErrConflict, "Conflict"}, {engine.ErrInvalid, "Invalid"}, {engine.ErrBusy, "Busy"}} {
		if errors.Is(err, kind.err) {
			return kind.name + ": " + err.Error()
		}
	}
	if errors.Is(err, context.Canceled) {
		return "waits"
	}
	return err.Error()
}

func (s *Script) run(line string) {
	times := int64(1)
	if rest, ok := strings.CutPrefix(line, "repeat "); ok {
		word, rest, _ := strings.Cut(rest, " ")
		times, line = Number(word), rest
	}
	for range times {
		s.line(line)
		s.Verify()
	}
}

func (s *Script) line(line string) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	verb, a := parse(line)
	if c, ok := s.Condition(verb, a); ok {
		s.op(line, engine.OpOfCondition(c))
		return
	}
	if op, ok := s.Operation(verb, a); ok {
		s.op(line, engine.OpOf(op))
		return
	}
	switch verb {
	case "txn":
		s.txn(line)
	case "at":
		s.Rig.Pass(Epoch + Duration(a.Word(0)).Milliseconds() - s.Rig.Now())
		s.Printf("at %s", a.Word(0))
	case "fire":
		s.Printf("fire: %d", s.Rig.Fire())
	case "restart":
		s.Rig.Restart()
		s.Printf("restart")
	case "timers":
		s.timers()
	default:
		if !s.Other(ctx, line, verb, a) {
			s.Printf("%s: unknown command", line)
		}
	}
}

// op proposes one operation on its own.
func (s *Script) op(line string, op engine.Op) {
	cmd, err := op.Limit(s.Limit)
	if err != nil {
		s.Answer(line, "", err)
		return
	}
	cmd.Namespace = "n"
	result, err := s.Rig.Propose(context.Background(), 0, cmd)
	if err != nil {
		s.Answer(line, "", err)
		return
	}
	var v any
	if op.Decode != nil {
		v, err = op.Decode(result)
	}
	s.Answer(line, s.Result(v), err)
}

func (s *Script) txn(line string) {
	txn := engine.NewTxn(s.Rig.Router(), "n", s.Limit)
	for part := range strings.SplitSeq(strings.TrimPrefix(line, "txn "), ";") {
		verb, a := parse(strings.TrimSpace(part))
		if c, ok := s.Condition(verb, a); ok {
			txn.If(c)
		} else if op, ok := s.Operation(verb, a); ok {
			txn.Do(op)
		} else {
			s.Printf("%s: unknown operation", verb)
		}
	}
	res, err := txn.Commit(context.Background())
	var results []string
	if err == nil {
		for _, v := range res.Values {
			results = append(results, s.Result(v))
		}
	}
	s.Answer(line, strings.Join(results, " ; "), err)
}

func (s *Script) timers() {
	for _, r := range s.Rig.Rows(0) {
		if r.Machine == 0 && r.Key[0] == 't' {
			s.Printf("timer: %s %q", Since(time.UnixMilli(key.Int64(r.Key[1:]))), r.Key[14:])
		}
	}
}
