package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

const (
	sessions    = 1200
	sessionTime = time.Hour
)

func (s *Shop) loadNamespaces(ctx context.Context) error {
	spaces := s.db.Namespaces()
	_, err := s.db.KV("default").Put(ctx, "hello", []byte("world"))
	return errors.Join(err, spaces.Create(ctx, Empty), spaces.Create(ctx, Analytics, floe.Spread()))
}

// firstNames are first names of customers.
var firstNames = []string{"Ada", "Bob", "Cyn", "Dan", "Eve", "Fay", "Gus", "Hal", "Ida", "Jon", "Kim", "Leo"}

func (s *Shop) loadKeys(ctx context.Context) error {
	store := s.db.KV(Main)
	r := s.random(keyStream, 0)
	var errs []error
	put := func(key, value string, opts ...kv.PutOption) {
		_, err := store.Put(ctx, key, []byte(value), opts...)
		errs = append(errs, err)
	}
	for i := range sessions {
		put(sessionKey(i), session(r), kv.TTL(sessionTime+time.Duration(r.IntN(3600))*time.Second))
	}
	for i := range customers {
		name := pick(r, firstNames...)
		put(fmt.Sprintf("user:c-%d", 1000+i),
			fmt.Sprintf(`{"name":%q,"mail":"%s.%d@example.com","level":%q,"since":%d}`, name, name, i, pick(r, "gold", "silver", "none"),
				2012+r.IntN(14)))
	}
	for _, item := range []string{"anvil", "chair", "cup", "desk", "kettle", "lamp", "poster", "rope", "unicorn"} {
		put("stock/"+item, fmt.Sprintf(`{"item":%q,"left":%d}`, item, stockOf(item, r.IntN(900))))
	}
	// An id beyond 2^53, a repeated name and the number 1.10 are hard cases for clients.
	put("config/checkout", `{"currency":"EUR","tenant":9007199254740993,"fee":1.10,"banks":["northbank"]}`)
	put("config/checkout", `{"currency":"EUR","tenant":9007199254740993,"fee":1.10,"banks":["northbank","southbank"]}`)
	put("config/checkout", `{"currency":"EUR","tenant":9007199254740993,"fee":1.25,"banks":["northbank","southbank"],"trial":true}`)
	put("config/mail", `{"from":"shop@example.com","per_minute":120}`)
	put("count/visits", "18446744")
	put("lock/nightly-report", "batch-7", kv.TTL(2*time.Hour))
	return errors.Join(errs...)
}

func stockOf(item string, left int) int {
	if item == "unicorn" {
		return 0
	}
	return 40 + left
}

func sessionKey(i int) string { return fmt.Sprintf("session/%04d", i) }

func session(r *rand.Rand) string {
	return fmt.Sprintf(`{"customer":"c-%d","cart":%d,"lang":%q}`, 1000+r.IntN(customers), r.IntN(5), pick(r, "de", "fr", "en", "nl"))
}

// tickKeys renews some sessions and changes the stock of an item.
func (s *Shop) tickKeys(ctx context.Context, r *rand.Rand, _ int) error {
	store := s.db.KV(Main)
	var errs []error
	for range 4 {
		_, err := store.Put(ctx, sessionKey(r.IntN(sessions)), []byte(session(r)),
			kv.TTL(sessionTime+time.Duration(r.IntN(3600))*time.Second))
		errs = append(errs, err)
	}
	item := pick(r, "cup", "lamp", "rope", "chair", "kettle", "desk", "anvil", "poster")
	_, err := store.JSONSet(ctx, "stock/"+item, "left", fmt.Append(nil, 40+r.IntN(900)))
	_, err2 := store.Incr(ctx, "count/visits", int64(1+r.IntN(40)))
	return errors.Join(append(errs, err, err2, s.keepLock(ctx))...)
}

// keepLock renews the lock of the night shift, as the holder of a lock does.
func (s *Shop) keepLock(ctx context.Context) error {
	return s.db.KV(Main).Touch(ctx, "lock/nightly-report", 2*time.Hour)
}
