package kv_test

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
	"github.com/floedb/floe/kv"
)

// TestScripts runs the scripts in testdata. Each line of a "run" is a call of the store, answered by one or more lines;
// after each line all counts are compared with a recount. Words may be quoted as in Go. Time is given by "at" and moves
// nothing by itself: timers go off when the script says "fire".
//
//	at 10s                         the time since the beginning
//	put k v ttl=5s if=absent       if: absent, present or a revision
//	delete k if=3   touch k 5s if=3   persist k   incr k 1 min=0 max=9 ttl=5s
//	json-set k path raw   json-delete k path   json-get k path
//	get k ...   exists k   history k   scan prefix limit=2 keys   wait-change k 3
//	watch prefix from=3            everything a watch tells before it would wait
//	txn absent k ; put k v ; ...   conditions: absent k, present k, revision k 3
//	fire   restart   counts   timers
//	repeat 3 incr k 1
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		r := newRig(t, 1)
		s := &script{rig: r, store: r.store("n")}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown directive %q, want run", d.Cmd)
			}
			s.out.Reset()
			for _, line := range strings.Split(d.Input, "\n") {
				for range repeats(&line) {
					s.line(line)
					r.verify()
				}
			}
			return s.out.String()
		})
	})
}

// repeats takes "repeat n" off the line.
func repeats(line *string) int {
	rest, ok := strings.CutPrefix(*line, "repeat ")
	if !ok {
		return 1
	}
	n, rest, _ := strings.Cut(rest, " ")
	*line = rest
	return int(number(n))
}

type script struct {
	rig   *rig
	store *kv.Store
	out   strings.Builder
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// args are the words of a line: positional ones and name=value.
type args struct {
	words []string
	named map[string]string
}

func (a args) word(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return ""
}

func parseArgs(line string) args {
	a := args{named: make(map[string]string)}
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			a.words = append(a.words, must(strconv.Unquote(quoted)))
			rest = rest[len(quoted):]
			continue
		}
		word, after, _ := strings.Cut(rest, " ")
		rest = after
		if name, value, ok := strings.Cut(word, "="); ok {
			a.named[name] = value
		} else {
			a.words = append(a.words, word)
		}
	}
	return a
}

func (s *script) line(line string) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nothing here waits: what would, ends with this context's error
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	if verb == "txn" {
		s.txn(ctx, rest)
		return
	}
	a := parseArgs(rest)
	if op, ok := operation(verb, a); ok {
		s.op(ctx, line, op)
		return
	}
	switch verb {
	case "at":
		s.rig.now = epoch + must(time.ParseDuration(a.word(0))).Milliseconds()
		s.printf("at %s", a.word(0))
	case "fire":
		s.printf("fire: %d", s.rig.fire())
	case "restart":
		s.rig.restart()
		s.printf("restart")
	case "json-get":
		b, err := s.store.JSONGet(ctx, a.word(0), a.word(1))
		s.answer(line, string(b), err)
	case "get":
		s.get(ctx, a.words)
	case "exists":
		ok, err := s.store.Exists(ctx, a.word(0))
		s.answer(line, strconv.FormatBool(ok), err)
	case "history":
		s.history(ctx, line, a.word(0))
	case "scan":
		s.scan(ctx, a)
	case "wait-change":
		e, err := s.store.WaitChange(ctx, a.word(0), number(a.word(1)))
		s.answer(line, event(e), err)
	case "watch":
		s.watch(ctx, a)
	case "counts":
		s.counts()
	case "timers":
		s.timers()
	default:
		s.printf("%s: unknown command", line)
	}
}

func (s *script) answer(line, result string, err error) {
	if err != nil {
		result = describe(err)
	}
	s.printf("%s: %s", strings.TrimSpace(line), result)
}

// describe words an error with its kind, so that a script sees what errors.Is would say.
func describe(err error) string {
	for kind, name := range map[error]string{kv.ErrNotFound: "NotFound", kv.ErrConflict: "Conflict", kv.ErrInvalid: "Invalid"} {
		if errors.Is(err, kind) {
			return name + ": " + err.Error()
		}
	}
	if errors.Is(err, context.Canceled) {
		return "waits"
	}
	return err.Error()
}

func number(word string) uint64 { return must(strconv.ParseUint(word, 10, 64)) }

func signed(word string) int64 { return must(strconv.ParseInt(word, 10, 64)) }

func putOptions(a args) (opts []kv.PutOption) {
	if ttl, ok := a.named["ttl"]; ok {
		opts = append(opts, kv.TTL(must(time.ParseDuration(ttl))))
	}
	switch cond := a.named["if"]; cond {
	case "":
	case "absent":
		opts = append(opts, kv.IfAbsent())
	case "present":
		opts = append(opts, kv.IfPresent())
	default:
		opts = append(opts, kv.IfRevision(number(cond)))
	}
	return opts
}

// operation returns what a line writes, as an operation of a transaction.
func operation(verb string, a args) (op engine.Op, ok bool) {
	cond, conditional := a.named["if"]
	switch verb {
	case "put":
		return kv.PutOp(a.word(0), []byte(a.word(1)), putOptions(a)...), true
	case "delete":
		var opts []kv.DeleteOption
		if conditional {
			opts = append(opts, kv.IfRevision(number(cond)))
		}
		return kv.DeleteOp(a.word(0), opts...), true
	case "touch":
		var opts []kv.TouchOption
		if conditional {
			opts = append(opts, kv.IfRevision(number(cond)))
		}
		return kv.TouchOp(a.word(0), must(time.ParseDuration(a.word(1))), opts...), true
	case "persist":
		return kv.PersistOp(a.word(0)), true
	case "incr":
		var opts []kv.IncrOption
		if v, ok := a.named["min"]; ok {
			opts = append(opts, kv.Min(signed(v)))
		}
		if v, ok := a.named["max"]; ok {
			opts = append(opts, kv.Max(signed(v)))
		}
		if v, ok := a.named["ttl"]; ok {
			opts = append(opts, kv.TTL(must(time.ParseDuration(v))))
		}
		return kv.IncrOp(a.word(0), signed(a.word(1)), opts...), true
	case "json-set":
		return kv.JSONSetOp(a.word(0), a.word(1), []byte(a.word(2))), true
	case "json-delete":
		return kv.JSONDeleteOp(a.word(0), a.word(1)), true
	}
	return op, false
}

// op proposes one operation by itself.
func (s *script) op(ctx context.Context, line string, op engine.Op) {
	cmd, err := op.Limit(kv.DefaultMaxValueBytes)
	if err != nil {
		s.answer(line, "", err)
		return
	}
	cmd.Namespace = s.store.Namespace()
	result, err := s.rig.Propose(ctx, 0, cmd)
	if err != nil {
		s.answer(line, "", err)
		return
	}
	v, err := op.Decode(result)
	s.answer(line, value(v), err)
}

func value(v any) string {
	if w, ok := v.(kv.Written); ok {
		return fmt.Sprintf("revision %d version %d", w.Revision, w.Version)
	}
	return fmt.Sprint(v)
}

func (s *script) txn(ctx context.Context, line string) {
	txn := s.rig.txn(s.store.Namespace())
	for _, part := range strings.Split(line, ";") {
		verb, rest, _ := strings.Cut(strings.TrimSpace(part), " ")
		a := parseArgs(rest)
		switch verb {
		case "absent":
			txn.If(kv.Absent(a.word(0)))
		case "present":
			txn.If(kv.Present(a.word(0)))
		case "revision":
			txn.If(kv.RevisionIs(a.word(0), number(a.word(1))))
		default:
			op, _ := operation(verb, a)
			txn.Do(op)
		}
	}
	res, err := txn.Commit(ctx)
	if err != nil {
		s.answer("txn", "", err)
		return
	}
	var values []string
	for _, v := range res.Values {
		values = append(values, value(v))
	}
	s.answer("txn", strings.Join(values, ", "), nil)
}

// since is a time as the script writes it.
func since(t time.Time) string {
	return (time.Duration(t.UnixMilli()-epoch) * time.Millisecond).String()
}

func entry(e kv.Entry) string {
	out := fmt.Sprintf("%q = %q revision %d version %d updated %s", e.Key, e.Value, e.Revision, e.Version, since(e.UpdatedAt))
	if !e.ExpiresAt.IsZero() {
		out += " expires " + since(e.ExpiresAt)
	}
	return out
}

func event(e kv.Event) string {
	out := fmt.Sprintf("%v %q revision %d version %d", e.Type, e.Key, e.Revision, e.Version)
	if e.Type == kv.EventPut {
		out += fmt.Sprintf(" = %q", e.Value)
	}
	return out
}

func (s *script) get(ctx context.Context, keys []string) {
	if len(keys) == 1 {
		e, err := s.store.Get(ctx, keys[0])
		s.answer("get", entry(e), err)
		return
	}
	found, err := s.store.GetMany(ctx, keys...)
	if err != nil {
		s.answer("get", "", err)
		return
	}
	for _, k := range keys {
		if e, ok := found[k]; ok {
			s.printf("get: %s", entry(e))
		}
	}
}

func (s *script) history(ctx context.Context, line, k string) {
	versions, err := s.store.History(ctx, k)
	if err != nil {
		s.answer(line, "", err)
		return
	}
	s.printf("%s: %d versions", line, len(versions))
	for i, v := range versions {
		if len(versions) > 10 && i >= 3 && i < len(versions)-3 {
			continue
		}
		what := fmt.Sprintf("%q", v.Value)
		if v.Tombstone {
			what = "deleted"
		}
		if v.Expired {
			what = "expired"
		}
		s.printf("  version %d revision %d term %d at %s: %s", v.Version, v.Revision, v.Term, since(v.Time), what)
	}
}

func (s *script) scan(ctx context.Context, a args) {
	opts := []kv.ListOption{kv.Prefix(a.word(0))}
	if limit, ok := a.named["limit"]; ok {
		opts = append(opts, kv.Limit(int(signed(limit))))
	}
	if a.word(1) == "keys" {
		opts = append(opts, kv.WithoutValues())
	}
	pages := 0
	for cursor := ""; ; pages++ {
		page, err := s.store.Page(ctx, append(opts, kv.Cursor(cursor))...)
		if err != nil {
			s.answer("scan", "", err)
			return
		}
		for _, it := range page.Items {
			s.printf("scan: %s (%d bytes)", entry(it.Entry), it.Size)
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	s.printf("scan: %d pages", pages+1)
}

func (s *script) watch(ctx context.Context, a args) {
	var opts []kv.WatchOption
	if from, ok := a.named["from"]; ok {
		opts = append(opts, kv.FromRevision(number(from)))
	}
	n := 0
	for e, err := range s.store.Watch(ctx, a.word(0), opts...) {
		if err != nil {
			s.answer("watch", "", err)
			return
		}
		if n++; n <= 12 {
			s.printf("watch: %s", event(e))
		} else if n == 13 {
			s.printf("watch: ...")
		}
	}
}

func (s *script) counts() {
	q := engine.NamespaceQuery{Name: s.store.Namespace()}
	if err := s.rig.Query(context.Background(), 0, &q); err != nil {
		s.answer("counts", "", err)
		return
	}
	c := q.Info.Counts
	s.printf("counts: keys %d, bytes %d, sets %d, deletes %d, tombstones %d", c.Keys, c.KeyBytes,
		c.KeySets, c.KeyDeletes, c.DeadKeys)
}

func (s *script) timers() {
	for _, r := range rows(s.rig.t, s.rig.db, 0) {
		if r.machine == 0 && r.key[0] == 't' {
			s.printf("timer: %s %q", since(time.UnixMilli(key.Int64(r.key[1:]))), r.key[14:])
		}
	}
}
