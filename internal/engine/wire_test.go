package engine_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
	"github.com/floedb/floe/kv"
)

func newWire() *engine.Wire {
	return engine.NewWire([]engine.Primitive{engine.TableOf[kv.Store](), toy.Primitive()})
}

func TestErrorsArriveAsTheyWere(t *testing.T) {
	w := newWire()
	conflict := &kv.ConflictError{Key: "k", Revision: 7, Want: "absent"}
	for _, want := range []error{
		conflict,
		fmt.Errorf("wrapped: %w", conflict),
		&kv.BoundError{Key: "k", Value: -1, Delta: 3, Min: -5, Max: 1},
		&engine.NotLeaderError{Shard: 3, Node: 1, Leader: 2},
		&engine.TxnError{Index: 999, Condition: true, Err: conflict},
		&engine.TxnError{Index: 0, Err: engine.Errorf(engine.ErrNotFound, "no %q", "key")},
		engine.Errorf(engine.ErrReadOnly, "node is read-only"),
		engine.Errorf(engine.ErrBusy, ""),
		engine.ErrUnknownOutcome,
		context.DeadlineExceeded,
		errors.New("of no kind"),
	} {
		got := w.DecodeError(w.AppendError(nil, want))
		for _, kind := range []error{
			engine.ErrNotFound, engine.ErrConflict, engine.ErrExists, engine.ErrInvalid, engine.ErrBusy, engine.ErrUnauthorized,
			engine.ErrClosed,
			engine.ErrUnavailable, engine.ErrInUse, engine.ErrReadOnly, engine.ErrUnknownOutcome, context.DeadlineExceeded,
			context.Canceled,
		} {
			if errors.Is(got, kind) != errors.Is(want, kind) {
				t.Errorf("%v arrives as %v, which does not match %v as before", want, got, kind)
			}
		}
		if got.Error() != strings.TrimPrefix(want.Error(), "wrapped: ") {
			t.Errorf("%v arrives as %v", want, got)
		}
	}
	var c *kv.ConflictError
	if err := w.DecodeError(w.AppendError(nil, fmt.Errorf("wrapped: %w", conflict))); !errors.As(err, &c) || *c != *conflict {
		t.Errorf("%+v arrives as %v", conflict, err)
	}
	var txn *engine.TxnError
	if err := w.DecodeError(w.AppendError(nil, &engine.TxnError{Index: 5, Err: conflict})); !errors.As(err, &txn) || txn.Index != 5 ||
		!errors.As(err, &c) {
		t.Errorf("the error of a transaction arrives as %#v", err)
	}
}

func TestQueriesArriveAsTheyWere(t *testing.T) {
	w := newWire()
	at := time.UnixMilli(1_763_740_000_000)
	for _, tt := range []struct{ asked, answered engine.Query }{
		{&engine.NamespaceQuery{Name: "a", Wait: true},
			&engine.NamespaceQuery{Name: "a", Wait: true, Found: true, Info: engine.NamespaceInfo{
				Name: "a", Spread: true, CreatedAt: at, Counts: engine.Counts{Keys: 1, KeyBytes: 2, KeyReads: 3, KeySets: 4, KeyDeletes: 5,
					DeadKeys: 6, Streams: 7,
					Queues: 8, Measurements: 9, Series: 13, Points: 14, Actions: 10, Workflows: 11, Jobs: 12},
			}}},
		{&engine.NamespacesQuery{Prefix: "p", After: "a", Limit: 5},
			&engine.NamespacesQuery{Prefix: "p", After: "a", Limit: 5, Infos: []engine.NamespaceInfo{{Name: "b", CreatedAt: at}}}},
		{&toy.Counter{Namespace: "n", Name: "c", Min: 3}, &toy.Counter{Namespace: "n", Name: "c", Min: 3, Value: -9}},
	} {
		got, err := w.DecodeQuery(engine.AppendQuery(nil, tt.asked))
		if err != nil || !reflect.DeepEqual(got, tt.asked) {
			t.Errorf("%+v arrives as %+v, %v", tt.asked, got, err)
		}
		if err := engine.DecodeResults(got, engine.AppendResults(nil, tt.answered)); err != nil || !reflect.DeepEqual(got, tt.answered) {
			t.Errorf("the answer %+v arrives as %+v, %v", tt.answered, got, err)
		}
	}
	for _, b := range [][]byte{nil, {0}, {0, 9}, {9, 1}, {200, 1}, {1, 1, 0xff}} {
		if q, err := w.DecodeQuery(b); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("DecodeQuery(%x) = %+v, %v, want ErrInvalid", b, q, err)
		}
	}
}

func TestAdmit(t *testing.T) {
	w := newWire()
	const limit = 100
	put := func(n int) engine.Command {
		op := engine.OpOf(kv.PutOp("k", make([]byte, n)))
		op.Command.Namespace = "ns"
		return op.Command
	}
	in := func(c engine.Command, ns string) engine.Command { c.Namespace = ns; return c }
	txn := func(parts ...engine.Operation) engine.Command {
		// The command as an honest client with a larger limit would send it.
		var sent engine.Command
		_, _ = engine.NewTxn(engine.NewRouter(spy{&sent}), "ns", 1<<20).Do(parts...).Commit(t.Context())
		return sent
	}
	for name, tt := range map[string]struct {
		cmd engine.Command
		ok  bool
	}{
		"put":                          {put(limit), true},
		"put of too much":              {put(limit + 1), false},
		"put into a system namespace":  {in(put(1), "_system"), false},
		"put into no namespace":        {in(put(1), ""), false},
		"put into a control character": {in(put(1), "a\x00"), false},
		"unknown machine":              {engine.Command{Machine: 9, Kind: 1, Namespace: "ns"}, false},
		"no machine":                   {engine.Command{Machine: 200, Kind: 1, Namespace: "ns"}, false},
		"kind 0":                       {engine.Command{Machine: engine.MachineKV, Namespace: "ns"}, false},
		"unknown kind":                 {engine.Command{Machine: engine.MachineKV, Kind: 99, Namespace: "ns"}, false},
		"malformed":                    {engine.Command{Machine: engine.MachineKV, Kind: 1, Namespace: "ns", Body: []byte{0xff}}, false},
		"create namespace":             {engine.CreateNamespace("ns", true), true},
		"create system namespace":      {engine.CreateNamespace("_ns", true), false},
		"transaction":                  {txn(kv.PutOp("a", make([]byte, limit)), kv.DeleteOp("b")), true},
		"transaction with too much":    {txn(kv.DeleteOp("b"), kv.PutOp("a", make([]byte, limit+1))), false},
		"fire":                         {in(engine.Fire(), "ns"), false},
		"skip":                         {in(engine.Skip(1<<60), "ns"), false},
		"delivery":                     {engine.Command{Kind: 3, Namespace: "ns"}, false},
		"settle":                       {engine.Command{Kind: 4, Namespace: "ns"}, false},
	} {
		if err := w.Admit(tt.cmd, limit); (err == nil) != tt.ok || err != nil && !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%s: Admit = %v, want ok %v", name, err, tt.ok)
		}
	}
}

// spy is a door of one shard that records the proposed command.
type spy struct{ cmd *engine.Command }

func (spy) Shards() int { return 1 }
func (s spy) Propose(_ context.Context, _ engine.ShardID, cmd engine.Command) ([]byte, error) {
	*s.cmd = cmd
	return nil, engine.ErrUnavailable
}
func (spy) Take(context.Context, engine.ShardID, engine.Take) ([]byte, error) { return nil, nil }
func (spy) Query(context.Context, engine.ShardID, engine.Query) error         { return nil }

func FuzzDecodeError(f *testing.F) {
	w := newWire()
	f.Add(w.AppendError(nil, &engine.TxnError{Index: 1, Err: &kv.ConflictError{Key: "k"}}))
	f.Add(w.AppendError(nil, engine.ErrBusy))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := w.DecodeError(b); err == nil {
			t.Errorf("%x is no error", b)
		}
	})
}
