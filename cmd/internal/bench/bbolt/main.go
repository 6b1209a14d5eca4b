// Bbolt reads random keys of a bbolt database for a while and prints the reads per second, for
// comparison with floe's reads. It is a module of its own, so that programs that embed floe do not
// depend on bbolt.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
)

const (
	valueBytes = 256
	perBatch   = 10_000
)

var bucket = []byte("kv")

func main() {
	dir := flag.String("dir", ".", "empty directory for the database")
	keys := flag.Int("keys", 100_000, "keys that exist")
	callers := flag.Int("callers", 2, "callers that read at a time")
	last := flag.Duration("time", 10*time.Second, "how long they read")
	flag.Parse()
	rate, err := measure(*dir, *keys, *callers, *last)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.0f\n", rate)
}

func measure(dir string, keys, callers int, last time.Duration) (rate float64, err error) {
	db, err := bolt.Open(filepath.Join(dir, "bolt.db"), 0o600, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	names, err := fill(db, keys)
	if err != nil {
		return 0, err
	}
	var over atomic.Bool
	var gets atomic.Int64
	var wait sync.WaitGroup
	errs := make([]error, callers)
	timer := time.AfterFunc(last, func() { over.Store(true) })
	defer timer.Stop()
	start := time.Now()
	for i := range callers {
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			n := int64(0)
			for ; !over.Load() && errs[i] == nil; n++ {
				errs[i] = get(db, names[rng.IntN(len(names))])
			}
			gets.Add(n)
		})
	}
	wait.Wait()
	return float64(gets.Load()) / time.Since(start).Seconds(), errors.Join(errs...)
}

// fill stores the keys and returns them.
func fill(db *bolt.DB, keys int) (names [][]byte, err error) {
	value := make([]byte, valueBytes)
	rng := rand.NewChaCha8([32]byte{})
	for len(names) < keys {
		err := db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(bucket)
			for range min(perBatch, keys-len(names)) {
				name := fmt.Appendf(nil, "%016x", rng.Uint64())
				_, _ = rng.Read(value)
				err = errors.Join(err, b.Put(name, value))
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// get reads a value as floe does: it returns a copy that the caller may keep.
func get(db *bolt.DB, name []byte) error {
	return db.View(func(tx *bolt.Tx) error {
		if v := append([]byte(nil), tx.Bucket(bucket).Get(name)...); len(v) != valueBytes {
			return fmt.Errorf("%s has %d bytes", name, len(v))
		}
		return nil
	})
}
