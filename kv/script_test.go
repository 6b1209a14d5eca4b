package kv_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// TestScripts runs the scripts in testdata. Each line of a "run" is a store call, answered by one
// or more lines. After each line all counts are compared with a recount. Words may be quoted as in
// Go. "at" sets the time without other effects: timers go off only at "fire".
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
	machinetest.RunScripts(t, "testdata/scripts", func(t *testing.T) *machinetest.Script {
		r := newRig(t, 1)
		s := &script{&machinetest.Script{Rig: r.Rig, Limit: kv.DefaultMaxValueBytes, Operation: operation, Condition: condition,
			Result: value, Verify: r.verify}, r.store("n")}
		s.Other = s.other
		return s.Script
	})
}

type script struct {
	*machinetest.Script
	store *kv.Store
}

func (s *script) other(ctx context.Context, line, verb string, a machinetest.Args) bool {
	switch verb {
	case "json-get":
		b, err := s.store.JSONGet(ctx, a.Word(0), a.Word(1))
		s.Answer(line, string(b), err)
	case "get":
		s.get(ctx, a.Words)
	case "exists":
		ok, err := s.store.Exists(ctx, a.Word(0))
		s.Answer(line, ok, err)
	case "history":
		s.history(ctx, line, a.Word(0))
	case "scan":
		s.scan(ctx, a)
	case "wait-change":
		e, err := s.store.WaitChange(ctx, a.Word(0), revision(a.Word(1)))
		s.Answer(line, event(e), err)
	case "watch":
		s.watch(ctx, a)
	case "counts":
		s.counts()
	default:
		return false
	}
	return true
}

func revision(word string) uint64 { return uint64(machinetest.Number(word)) }

func putOptions(a machinetest.Args) (opts []kv.PutOption) {
	if ttl, ok := a.Named["ttl"]; ok && ttl == "keep" {
		opts = append(opts, kv.KeepTTL())
	} else if ok {
		opts = append(opts, kv.TTL(machinetest.Duration(ttl)))
	}
	switch cond := a.Named["if"]; cond {
	case "":
	case "absent":
		opts = append(opts, kv.IfAbsent())
	case "present":
		opts = append(opts, kv.IfPresent())
	default:
		opts = append(opts, kv.IfRevision(revision(cond)))
	}
	return opts
}

// operation returns a line's write as an operation of a transaction.
func operation(verb string, a machinetest.Args) (op engine.Operation, ok bool) {
	cond, conditional := a.Named["if"]
	switch verb {
	case "put":
		return kv.PutOp(a.Word(0), []byte(a.Word(1)), putOptions(a)...), true
	case "delete":
		var opts []kv.DeleteOption
		if conditional {
			opts = append(opts, kv.IfRevision(revision(cond)))
		}
		return kv.DeleteOp(a.Word(0), opts...), true
	case "touch":
		var opts []kv.TouchOption
		if conditional {
			opts = append(opts, kv.IfRevision(revision(cond)))
		}
		return kv.TouchOp(a.Word(0), machinetest.Duration(a.Word(1)), opts...), true
	case "persist":
		return kv.PersistOp(a.Word(0)), true
	case "incr":
		var opts []kv.IncrOption
		if v, ok := a.Named["min"]; ok {
			opts = append(opts, kv.Min(machinetest.Number(v)))
		}
		if v, ok := a.Named["max"]; ok {
			opts = append(opts, kv.Max(machinetest.Number(v)))
		}
		if v, ok := a.Named["ttl"]; ok {
			opts = append(opts, kv.TTL(machinetest.Duration(v)))
		}
		return kv.IncrOp(a.Word(0), machinetest.Number(a.Word(1)), opts...), true
	case "json-set":
		return kv.JSONSetOp(a.Word(0), a.Word(1), []byte(a.Word(2))), true
	case "json-delete":
		return kv.JSONDeleteOp(a.Word(0), a.Word(1)), true
	}
	return op, false
}

func value(v any) string {
	switch v := v.(type) {
	case kv.Written:
		return fmt.Sprintf("revision %d version %d", v.Revision, v.Version)
	case kv.Counted:
		return fmt.Sprintf("%d revision %d version %d", v.Value, v.Revision, v.Version)
	}
	return fmt.Sprint(v)
}

func condition(verb string, a machinetest.Args) (c engine.Condition, ok bool) {
	switch verb {
	case "absent":
		return kv.Absent(a.Word(0)), true
	case "present":
		return kv.Present(a.Word(0)), true
	case "revision":
		return kv.RevisionIs(a.Word(0), revision(a.Word(1))), true
	}
	return c, false
}

func entry(e kv.Entry) string {
	out := fmt.Sprintf("%q = %q revision %d version %d updated %s", e.Key, e.Value, e.Revision, e.Version, machinetest.Since(e.UpdatedAt))
	if !e.ExpiresAt.IsZero() {
		out += " expires " + machinetest.Since(e.ExpiresAt)
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
		s.Answer("get", entry(e), err)
		return
	}
	found, err := s.store.GetMany(ctx, keys...)
	if err != nil {
		s.Answer("get", "", err)
		return
	}
	for _, k := range keys {
		if e, ok := found[k]; ok {
			s.Printf("get: %s", entry(e))
		}
	}
}

func (s *script) history(ctx context.Context, line, k string) {
	versions, err := engine.Collect(s.store.History(k).All(ctx))
	if err != nil {
		s.Answer(line, "", err)
		return
	}
	s.Printf("%s: %d versions", line, len(versions))
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
		s.Printf("  version %d revision %d term %d at %s: %s", v.Version, v.Revision, v.Term, machinetest.Since(v.Time), what)
	}
}

func (s *script) scan(ctx context.Context, a machinetest.Args) {
	opts := []kv.ListOption{kv.Prefix(a.Word(0))}
	if limit, ok := a.Named["limit"]; ok {
		opts = append(opts, kv.Limit(int(machinetest.Number(limit))))
	}
	if a.Word(1) == "keys" {
		opts = append(opts, kv.NoValues())
	}
	pages := 0
	for cursor := ""; ; pages++ {
		page, err := s.store.Page(ctx, append(opts, kv.Cursor(cursor))...)
		if err != nil {
			s.Answer("scan", "", err)
			return
		}
		for _, it := range page.Items {
			s.Printf("scan: %s (%d bytes)", entry(it.Entry), it.Size)
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	s.Printf("scan: %d pages", pages+1)
}

func (s *script) watch(ctx context.Context, a machinetest.Args) {
	var opts []kv.WatchOption
	if from, ok := a.Named["from"]; ok {
		opts = append(opts, kv.FromRevision(revision(from)))
	}
	n := 0
	store := engine.StoreOf[kv.Store](engine.NewRouter(impatient{s.Rig}), s.store.Namespace(), 0)
	for e, err := range store.Watch(context.WithoutCancel(ctx), a.Word(0), opts...) {
		if err != nil {
			s.Answer("watch", "", err)
			return
		}
		if n++; n <= 12 {
			s.Printf("watch: %s", event(e))
		} else if n == 13 {
			s.Printf("watch: ...")
		}
	}
}

func (s *script) counts() {
	q := engine.NamespaceQuery{Name: s.store.Namespace()}
	if err := s.Rig.Query(context.Background(), 0, &q); err != nil {
		s.Answer("counts", "", err)
		return
	}
	c := q.Info.Counts
	s.Printf("counts: keys %d, bytes %d, sets %d, deletes %d, tombstones %d", c.Keys, c.KeyBytes,
		c.KeySets, c.KeyDeletes, c.DeadKeys)
}
