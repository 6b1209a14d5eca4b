// Command 02-keys shows what a key can do beyond put and get: conditional writes, expiry, history,
// watches and locks.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		return err
	}
	defer node.Close()
	for _, part := range []func(context.Context, floe.DB, io.Writer) error{conditions, history, expiry, watch, lock} {
		if err := part(ctx, node, out); err != nil {
			return err
		}
	}
	return nil
}

// conditions lets two editors read the same price. The second write is refused, then repeated on
// top of the first.
func conditions(ctx context.Context, db floe.DB, out io.Writer) error {
	store := db.KV("shop")
	read, err := store.Put(ctx, "price/cup", []byte("10"), kv.IfAbsent())
	if err != nil {
		return err
	}
	if _, err := store.Put(ctx, "price/cup", []byte("12"), kv.IfRevision(read.Revision)); err != nil {
		return err
	}
	_, err = store.Put(ctx, "price/cup", []byte("11"), kv.IfRevision(read.Revision))
	fmt.Fprintf(out, "second editor: conflict %t\n", errors.Is(err, floe.ErrConflict))
	_, err = store.Update(ctx, "price/cup", func(e kv.Entry) ([]byte, error) {
		return append(e.Value, ".50"...), nil // may be called again if the key changes meanwhile
	})
	return err
}

func history(ctx context.Context, db floe.DB, out io.Writer) error {
	for v, err := range db.KV("shop").History("price/cup").All(ctx) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "version %d: %s\n", v.Version, v.Value)
	}
	return nil
}

// expiry stores a session for 50 ms and waits until it is gone.
func expiry(ctx context.Context, db floe.DB, out io.Writer) error {
	session, err := db.KV("shop").Put(ctx, "session/ann", []byte("token"), kv.TTL(50*time.Millisecond))
	if err != nil {
		return err
	}
	event, err := db.KV("shop").WaitChange(ctx, "session/ann", session.Revision)
	fmt.Fprintf(out, "%s: %v\n", event.Key, event.Type)
	return err
}

// watch receives the current keys first, then every change.
func watch(ctx context.Context, db floe.DB, out io.Writer) error {
	store := db.KV("shop")
	for event, err := range store.Watch(ctx, "price/") {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "watch: %v %s %q\n", event.Type, event.Key, event.Value)
		switch {
		case event.Type == kv.EventDelete:
			return nil
		case event.Key == "price/cup":
			_, err = store.Put(ctx, "price/lamp", []byte("30"))
		default:
			_, err = store.Delete(ctx, "price/cup")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lock makes a write depend on the lock, so a holder that has lost it cannot write.
func lock(ctx context.Context, db floe.DB, out io.Writer) error {
	store := db.KV("shop")
	return store.WithLock(ctx, "lock/report", 10*time.Second, func(ctx context.Context) error {
		_, err := store.TryLock(ctx, "lock/report", 10*time.Second)
		fmt.Fprintf(out, "second holder: conflict %t\n", errors.Is(err, floe.ErrConflict))
		_, err = db.Txn("shop").If(kv.LockOf(ctx).Held()).Do(kv.PutOp("report", []byte("done"))).Commit(ctx)
		fmt.Fprintf(out, "write under the lock: error %v\n", err)
		return err
	})
}
