package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// greedy is the toy with a command that visits a given number of rows in one of three ways.
type greedy struct{ engine.Machine }

func (greedy) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	c, err := toy.Decode(cmd)
	if err != nil {
		return nil, err
	}
	tx.Set(counterRow(tx.Namespace(), "a"), []byte("12345678"))
	for range c.Delta {
		switch c.Name {
		case "get":
			tx.Get(counterRow(tx.Namespace(), "a"))
		case "iter":
			it := tx.Iter(counterRow(tx.Namespace(), ""), counterRow(tx.Namespace()+1, ""))
			for ok := it.First(); ok; ok = it.Next() {
			}
			it.Close()
		}
	}
	return nil, nil
}

// TestGuardOfEfforts: a command that visits more rows than allowed is detected, whichever way it
// reads them, and the maximum of each kind is recorded.
func TestGuardOfEfforts(t *testing.T) {
	p := toy.Primitive()
	own := p.New
	p.New = func() engine.Machine { return greedy{own()} }
	for _, way := range []string{"get", "iter"} {
		r := newRigOf(t, 1, p)
		r.tampered = true
		look := func(n int64) { r.apply(0, toy.Command{Kind: toy.Add, Name: way, Delta: n}.In("default")) }
		look(10)
		look(300)
		look(20)
		all := engine.MostEfforts(r.execs[0].Efforts(), r.execs[0].Efforts())
		if i := slices.IndexFunc(all, func(e engine.Effort) bool { return e.Command == "toy add" }); len(all) != 3 || i < 0 {
			t.Fatalf("%s: the efforts are %v", way, all)
		} else if e := all[i]; e.Count != 6 || e.Rows != 2 || e.Bytes != 37 || e.Looks != 300 || e.Sum.Looks != 660 ||
			way == "iter" && e.Iters != 300 {
			t.Errorf("%s: %v, %d looks together, want 6, with 2 rows, 37 bytes, 300 looks at most, and 660 together", way, e, e.Sum.Looks)
		}
		func() {
			defer func() {
				if err := fmt.Sprint(recover()); !strings.Contains(err, "toy add has looked at") ||
					!strings.Contains(err, fmt.Sprint(engine.MaxLooks)) {
					t.Errorf("%s: panic %q", way, err)
				}
			}()
			look(engine.MaxLooks + 1)
		}()
		if err := r.execs[0].Restore(); err != nil {
			t.Fatal(err)
		}
	}
}
