package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// first returns the error of the first step of an iterator.
func first[T any](each func(func(T, error) bool)) (err error) {
	for _, err = range each {
		break
	}
	return err
}

// suiteImpossibleNames makes every call in namespaces with invalid names. Reads once reported that
// they had found nothing.
func suiteImpossibleNames(t *testing.T, db database) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for what, ns := range map[string]string{
		"empty": "", "long": strings.Repeat("n", 256), "control": "a\nb", "bytes": "\xff", "bidirectional": "a\u202eb",
	} {
		keys, streams, queues := db.KV(ns), db.Stream(ns), db.Queue(ns)
		for call, f := range map[string]func() error{
			"kv.Get":              func() error { _, err := keys.Get(ctx, "k"); return err },
			"kv.GetMany":          func() error { _, err := keys.GetMany(ctx, "a", "b"); return err },
			"kv.Exists":           func() error { _, err := keys.Exists(ctx, "k"); return err },
			"kv.History":          func() error { _, err := engine.Collect(keys.History("k").All(ctx)); return err },
			"kv.JSONGet":          func() error { _, err := keys.JSONGet(ctx, "k", "a"); return err },
			"kv.Page":             func() error { _, err := keys.Page(ctx); return err },
			"kv.All":              func() error { return first(keys.All(ctx)) },
			"kv.Watch":            func() error { return first(keys.Watch(ctx, "")) },
			"kv.Wait":             func() error { _, err := keys.Wait(ctx, "k"); return err },
			"kv.WaitChange":       func() error { _, err := keys.WaitChange(ctx, "k", 0); return err },
			"kv.Put":              func() error { _, err := keys.Put(ctx, "k", nil); return err },
			"kv.TryLock":          func() error { _, err := keys.TryLock(ctx, "k", time.Second); return err },
			"stream.Stats":        func() error { _, err := streams.Get(ctx, "s"); return err },
			"stream.Page":         func() error { _, err := streams.Page(ctx); return err },
			"stream.All":          func() error { return first(streams.All(ctx)) },
			"stream.Read":         func() error { _, err := streams.Read(ctx, "s"); return err },
			"stream.Read waits":   func() error { _, err := streams.Read(ctx, "s", stream.Wait(time.Hour)); return err },
			"stream.Follow":       func() error { return first(streams.Follow(ctx, "s")) },
			"stream.GroupStats":   func() error { _, err := streams.Groups("s").Get(ctx, "g"); return err },
			"stream.Groups":       func() error { return first(streams.Groups("s").All(ctx)) },
			"stream.Pending":      func() error { _, err := streams.Pending("s", "g").Page(ctx); return err },
			"stream.ReadGroup":    func() error { _, err := streams.ReadGroup(ctx, "s", "g", "c"); return err },
			"ReadGroup waits":     func() error { _, err := streams.ReadGroup(ctx, "s", "g", "c", stream.Wait(time.Hour)); return err },
			"stream.Append":       func() error { _, err := streams.Append(ctx, "s", stream.Message{}); return err },
			"queue.Stats":         func() error { _, err := queues.Get(ctx, "q"); return err },
			"queue.Page":          func() error { _, err := queues.Page(ctx); return err },
			"queue.Messages":      func() error { _, err := queues.Messages("q").Page(ctx); return err },
			"queue.DeadLetters":   func() error { _, err := queues.DeadLetters("q").Page(ctx); return err },
			"queue.Dequeue":       func() error { _, err := queues.Dequeue(ctx, "q"); return err },
			"Dequeue waits":       func() error { _, err := queues.Dequeue(ctx, "q", queue.Wait(time.Hour)); return err },
			"queue.Enqueue":       func() error { _, err := queues.Enqueue(ctx, "q", nil); return err },
			"Namespaces().Stats":  func() error { _, err := db.Namespaces().Get(ctx, ns); return err },
			"Namespaces().Create": func() error { return db.Namespaces().Create(ctx, ns) },
		} {
			if err := f(); !errors.Is(err, floe.ErrInvalid) {
				t.Errorf("%s in a namespace with an impossible name (%s): %v, want ErrInvalid", call, what, err)
			}
		}
	}
}
