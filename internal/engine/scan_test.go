package engine_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// looker is the toy with a query that scans all rows repeatedly, until it must end or has scanned
// them often enough.
type looker struct {
	engine.Machine
	times int                        // number of scans over all rows; 0: unlimited
	row   func(v *engine.View)       // called for each row
	gets  func(v *engine.View) error // replaces the scan if set
}

func (l *looker) Duties() []engine.Duty { return []engine.Duty{{Name: "look"}} }

func (l *looker) sum(v *engine.View, sum *toy.Sum) error {
	if l.gets != nil {
		return l.gets(v)
	}
	ns, _ := v.Namespace(sum.Namespace)
	for n := 0; n < l.times || l.times == 0; n++ {
		it, err := v.Iter(counterRow(ns, ""), counterRow(ns+1, ""))
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			sum.Count++
			it.Value()
			l.row(v)
		}
		if err := it.Close(); err != nil {
			return fmt.Errorf("the machine's own: %w", err)
		}
	}
	return nil
}

func newLooker(t *testing.T, l *looker) *rig {
	p := toy.Primitive()
	own := p.New
	p.New = func() engine.Machine { l.Machine = own(); return l }
	p.Queries[1] = engine.QueryRow(p.Queries[1].Kind, "sum", (*looker).sum)
	r := newRigOf(t, 1, p)
	for i := range 100 {
		r.apply(0, toy.Command{Kind: toy.Add, Name: fmt.Sprint("counter", i), Delta: 1}.In("default"))
	}
	return r
}

// TestQueryEndsWithItsCaller: a query over many rows used to run to its end after its caller had
// gone, and Close waited for it.
func TestQueryEndsWithItsCaller(t *testing.T) {
	for name, want := range map[string]error{"caller": context.Canceled, "close": engine.ErrClosed} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stop := make(chan struct{})
			rows := 0
			l := &looker{row: func(*engine.View) {
				switch rows++; {
				case rows != 1000:
				case name == "caller":
					cancel()
				default:
					close(stop)
				}
			}}
			r := newLooker(t, l)
			err := r.execs[0].Query(ctx, &toy.Sum{Namespace: "default"}, engine.Replica{Now: func() int64 { return r.now }, Stop: stop})
			if !errors.Is(err, want) || strings.Contains(err.Error(), "own") {
				t.Errorf("err = %v, want %v as it is", err, want)
			}
			if rows < 1000 || rows > 1300 {
				t.Errorf("it has looked at %d rows, want not many more than 1,000", rows)
			}
		})
	}
}

// TestGetsEndWithTheCaller: the same for a query that reads rows one by one.
func TestGetsEndWithTheCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	l := &looker{gets: func(v *engine.View) error {
		for ; ; n++ {
			if n == 1000 {
				cancel()
			}
			if _, _, err := v.Get(counterRow(0, "counter1")); err != nil {
				return err
			}
		}
	}}
	r := newLooker(t, l)
	err := r.execs[0].Query(ctx, &toy.Sum{Namespace: "default"}, engine.Replica{Now: func() int64 { return r.now }})
	if !errors.Is(err, context.Canceled) || n > 1300 {
		t.Errorf("err = %v after %d rows", err, n)
	}
}

// TestQueriesHaveABudget: a query is Full when a page should end, by rows or by bytes, counted anew
// for each request. It is refused if it continues too far. Reads of a duty have no bound.
func TestQueriesHaveABudget(t *testing.T) {
	full, rows := 0, 0
	l := &looker{times: 200, row: func(v *engine.View) {
		if rows++; v.Full() && full == 0 {
			full = rows
		}
	}}
	r := newLooker(t, l)
	ask := func() error {
		full, rows = 0, 0
		return r.execs[0].Query(t.Context(), &toy.Sum{Namespace: "default"}, engine.Replica{Now: func() int64 { return r.now }})
	}
	for range 2 {
		if err := ask(); err != nil || full != 10_000 || rows != 20_000 {
			t.Fatalf("full after %d rows of %d, %v", full, rows, err)
		}
	}
	large := make([]byte, 8<<20)
	r.tampered = true
	for i := range 100 {
		k := append([]byte{0, 0, byte(engine.MachineTest)}, counterRow(0, fmt.Sprint("counter", i))...)
		if err := r.db.Set(k, large, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	l.times = 0
	err := ask()
	if !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(engine.MaxScanBytes)) ||
		!strings.Contains(err.Error(), "toy") {
		t.Errorf("err = %v, want ErrInvalid that names the limit", err)
	}
	if full != 2 || rows != engine.MaxScanBytes/len(large)+1 {
		t.Errorf("full after %d rows of %d", full, rows)
	}
	l.times, rows = 3, 0
	lead := r.execs[0].Duties(1, func() engine.LeadDoor { return &leadDoor{} })[0].Lead
	if err := lead.View(t.Context(), func(v *engine.View) error { return l.sum(v, &toy.Sum{Namespace: "default"}) }); err != nil ||
		rows != 300 {
		t.Errorf("a duty: %d rows, %v", rows, err)
	}
}

// counterRow is the key of a counter's row.
func counterRow(ns uint32, name string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, ns), name...)
}
