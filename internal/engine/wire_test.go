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
		{&engine.NamespaceQuery{Name: "a"}, &engine.NamespaceQuery{Name: "a", Gone: true, Info: engine.NamespaceInfo{CreatedAt: at}}},
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

func TestNotLeaderNamesTheLeader(t *testing.T) {
	for leader, want := range map[uint64]string{0: "no leader is known", 1: "node 1 is", 300: "node 300 is"} {
		err := &engine.NotLeaderError{Shard: 3, Node: 2, Leader: leader}
		expect(t, "error", err, "shard 3: node 2 is not its leader ("+want+")")
	}
}

// TestWireOfOtherVersions: results and errors that cannot be decoded are errors.
func TestWireOfOtherVersions(t *testing.T) {
	err := engine.DecodeResults(&toy.Counter{}, []byte{0x80})
	expect(t, "results", err, "results of query 1 of machine 15: malformed record: bad varint")
	w := newWire()
	for _, b := range []string{
		"", "\x00", "\x01", "\x01\x00", "\x01\x00\x09", "\x01\xc8\x01", "\x01\x00\x01\x80", "\x02", "\x02\xe8\x07\x00\x00\x07x", "\x03x",
	} {
		err := w.DecodeError([]byte(b))
		if !errors.Is(err, engine.ErrUnknownOutcome) || err.Error() != fmt.Sprintf("outcome unknown: malformed error: %x", b) {
			t.Errorf("%q is %v", b, err)
		}
	}
	inner := w.DecodeError([]byte("\x02\xe7\x07\x01\x02\x00\x00\x00\x07x"))
	expect(t, "nested", inner, "transaction: condition 999: outcome unknown: malformed error: 020000000778")
}

// TestDescribeAndReach uses a primitive of ten commands. The second one and the third one reach the
// namespace in their body.
func TestDescribeAndReach(t *testing.T) {
	p := engine.Primitive{ID: engine.MachineTest, Name: "many", New: func() engine.Machine { return nil }}
	for i := range uint8(10) {
		p.Commands = append(p.Commands, engine.CommandType{Kind: i + 1, Name: fmt.Sprint("c", i+1), From: engine.FromUsers,
			Admit: func(engine.Command, int) error { return nil }})
	}
	reaches := func(cmd engine.Command) []string { return []string{string(cmd.Body)} }
	p.Commands[1].Reaches, p.Commands[2].Reaches = reaches, reaches
	w := engine.NewWire([]engine.Primitive{p})
	c := func(kind uint8) engine.Command {
		return engine.Command{Machine: engine.MachineTest, Kind: kind, Namespace: "n", Body: fmt.Append(nil, "to", kind)}
	}
	delivery := txnOf(c(2))
	delivery.Kind = 3
	own := txnOf(c(2)) // of a machine that has the number of a transaction, and no command that reaches
	own.Machine = engine.MachineTest
	for _, tt := range []struct {
		cmd      engine.Command
		describe string
		reaches  bool
		reached  string
	}{
		{c(1), "many c1", false, "[]"},
		{c(2), "many c2", true, "[to2]"},
		{c(11), "unknown", false, "[]"},
		{engine.Command{Machine: 9, Kind: 1}, "unknown", false, "[]"},
		{engine.CreateNamespace("n", true), "engine create namespace", false, "[]"},
		{txnOf(c(1), c(2), c(1), c(3)), "many c1, many c2, many c3", true, "[to2 to3]"},
		{txnOf(c(1), c(4)), "many c1, many c4", false, "[]"},
		{txnOf(c(1), c(2), c(3), c(4), c(5), c(6), c(7), c(8), c(9), c(10)),
			"many c1, many c2, many c3, many c4, many c5, many c6, many c7, many c8", true, "[to2 to3]"},
		{engine.Command{Kind: 1, Namespace: "n", Body: []byte{0, 1, 7}}, "", true, "[]"}, // refused anyway
		{delivery, "engine deliver", false, "[]"},
		{own, "many c1", false, "[]"},
	} {
		expect(t, "describe", w.Describe(tt.cmd), tt.describe)
		expect(t, tt.describe+" reaches", fmt.Sprint(w.Reaches(tt.cmd), w.Reached(tt.cmd)), fmt.Sprint(tt.reaches, " ", tt.reached))
	}
}

// TestShrinks: a command is accepted while the disk is full if it frees space, and one that
// contains others if all of them do.
func TestShrinks(t *testing.T) {
	p := toy.Primitive()
	p.Commands[toy.Clear-1].Shrinks = true
	p.Commands[toy.Clear-1].From = engine.FromUsers | engine.FromLeaders | engine.FromShards
	p.Commands[toy.Add-1].From |= engine.FromLeaders
	r := newRigOf(t, 1, p)
	less, more := toy.Command{Kind: toy.Clear, Name: "a", Target: "b"}.In("n"), addTo("a", 1).In("n")
	for name, tt := range map[string]struct {
		cmd  engine.Command
		want bool
	}{
		"frees":             {less, true},
		"takes":             {more, false},
		"delete namespace":  {engine.DeleteNamespace("n"), true},
		"create namespace":  {engine.CreateNamespace("n", false), false},
		"fire":              {engine.Fire(), true},
		"transaction":       {txnOf(less, less), true},
		"mixed transaction": {txnOf(less, more), false},
		"bad transaction":   {cut(txnOf(less)), false},
		"duty":              {engine.Fenced(1, less), true},
		"duty that takes":   {engine.Fenced(1, more), false},
		"bad duty":          {engine.Command{Kind: 8}, false},
		"delivery":          {deliveryOf(less.AppendTo(nil)), true},
		"delivery of more":  {deliveryOf(more.AppendTo(nil)), false},
		"unknown message":   {deliveryOf([]byte{9}), true},
		"bad delivery":      {engine.Command{Kind: 3, Body: []byte{0x80}}, true},
	} {
		expect(t, name, r.execs[0].Shrinks(tt.cmd), tt.want)
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
