package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// shelf is the object of the test's commands: names of books.
type shelf struct{ books []string }

type putBody struct {
	books []string
	at    int64
}

func (b *putBody) code(f *codec.Fields) {
	if f.Parsing() {
		b.at = 7
	}
	f.Count("at", &b.at, codec.Range{Min: 1, Max: 9})
	codec.RestOf(f, "books", &b.books, func(s *string, f *codec.Fields) { f.Text("", s, codec.Range{Max: 5}) }, codec.Range{Max: 3})
}

func (b *putBody) check() error {
	if b.at == 8 {
		return engine.Errorf(engine.ErrConflict, "8 is taken")
	}
	return nil
}

func (b *putBody) limit() error {
	if len(b.books) == 2 {
		return engine.Errorf(engine.ErrBusy, "never two")
	}
	return nil
}

func (b *putBody) payload() (n int) {
	for _, book := range b.books {
		n = max(n, len(book))
	}
	return n
}

var (
	put = &engine.CommandRow[*shelf, putBody, int64]{
		Kind: 1, Name: "put", From: engine.FromUsers | engine.FromShards, Body: (*putBody).code, Check: (*putBody).check,
		Limit:   (*putBody).limit,
		Payload: (*putBody).payload, Size: func(b *putBody) int { return 6 * len(b.books) }, Reset: func(b *putBody) { clear(b.books) },
		Makes: func(b *putBody) int { return len(b.books) },
		Apply: func(s *shelf, b *putBody) (int64, error) {
			for _, book := range b.books {
				if book == "bad" {
					return 0, engine.Errorf(engine.ErrInvalid, "a bad book")
				}
			}
			s.books = append(s.books, b.books...)
			return int64(len(s.books)), nil
		},
		Result: func(n *int64, f *codec.Fields) { f.Count("books", n) },
	}
	empty = &engine.CommandRow[*shelf, engine.Nothing, engine.Nothing]{
		Kind: 2, Name: "empty", From: engine.FromUsers, Shrinks: true,
		Run: func(s *shelf, _ *engine.Nothing) error {
			if len(s.books) == 0 {
				return engine.Errorf(engine.ErrNotFound, "no books")
			}
			s.books = nil
			return nil
		},
	}
	list = &engine.CommandRow[*shelf, engine.Nothing, []string]{
		Kind: 3, Name: "list", From: engine.FromLeaders,
		Encoded: func(s *shelf, _ *engine.Nothing) ([]byte, error) {
			return codec.AppendString(nil, strings.Join(s.books, ",")), nil
		},
		Result: func(books *[]string, f *codec.Fields) {
			var all string
			f.Text("books", &all)
			*books = strings.Split(all, ",")
		},
	}
	shelves = engine.Declare(engine.MachineTest, "shelf", func(name string) error { return engine.CheckName("shelf", name) }, put, empty,
		list)
)

func TestCommandRows(t *testing.T) {
	types := shelves.Types()
	for i, want := range []string{"1 put users shrinks: false", "2 empty users shrinks: true", "3 list leaders shrinks: false"} {
		c := types[i]
		from := map[bool]string{true: "users", false: "leaders"}[c.From&engine.FromUsers != 0]
		if got := fmt.Sprintf("%d %s %s shrinks: %t", c.Kind, c.Name, from, c.Shrinks); got != want ||
			(c.Admit != nil) != (from == "users") {
			t.Errorf("command %d is %q, want %q", i, got, want)
		}
	}
	calls := shelves.NewCalls()
	s := new(shelf)
	apply := func(op engine.Op) (any, error) {
		t.Helper()
		cmd, err := op.Limit(100)
		if err != nil {
			t.Fatal(err)
		}
		if cmd.Machine != engine.MachineTest || op.Route != "a" {
			t.Errorf("a command of machine %d goes to %q", cmd.Machine, op.Route)
		}
		call, err := calls.Read(cmd)
		if err != nil || string(call.Subject()) != "a" {
			t.Fatalf("%x is read as one about %q, %v", cmd.Body, call.Subject(), err)
		}
		result, err := call.Apply(s)
		if err != nil {
			return nil, err
		}
		return op.Decode(result)
	}
	for _, c := range []struct {
		op   engine.Op
		want string
	}{
		{empty.Op("a", engine.Nothing{}, nil), "<nil> no books"},
		{put.Op("a", putBody{[]string{"x", "y", "z"}, 1}, nil), "3 <nil>"},
		{put.Op("a", putBody{[]string{"w"}, 9}, nil), "4 <nil>"},
		{put.Op("a", putBody{[]string{"bad"}, 9}, nil), "<nil> a bad book"},
		{list.Op("a", engine.Nothing{}, nil), "[x y z w] <nil>"},
		{empty.Op("a", engine.Nothing{}, nil), "<nil> <nil>"},
		{put.Op("a", putBody{nil, 1}, nil), "0 <nil>"},
	} {
		result, err := apply(c.op)
		if got := fmt.Sprint(result, " ", err); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if _, err := calls.Read(engine.Command{Machine: engine.MachineTest, Kind: 4}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("kind 4 is read: %v", err)
	}
	if _, err := calls.Read(engine.Command{Machine: engine.MachineTest}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("kind 0 is read: %v", err)
	}
	for _, result := range [][]byte{nil, {0x80}, {1, 2}} {
		if n, err := put.Decode(result); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("result %x is %d, %v", result, n, err)
		}
		if v, err := empty.Op("a", engine.Nothing{}, nil).Decode(result); v != nil || (err != nil) != (result != nil) {
			t.Errorf("result %x of nothing is %v, %v", result, v, err)
		}
	}
}

// TestCommandRowRefuses: an invalid body is refused when it is built and again when it is admitted.
// Limits for users do not apply to machines.
func TestCommandRowRefuses(t *testing.T) {
	callers := errors.New("known to be wrong")
	p := engine.Primitive{ID: engine.MachineTest, Name: "shelf", New: func() engine.Machine { return nil }, Commands: shelves.Types()}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		body   putBody
		err    error
		want   string // "": valid
		raw    string // body in the log, for one that cannot be built
		admits bool   // from a machine
	}{
		{name: "a", body: putBody{[]string{"12345"}, 1}},
		{name: "", body: putBody{nil, 1}, want: `shelf name is empty`, raw: "\x00\x01", admits: true},
		{name: "a", body: putBody{nil, 0}, want: "shelf: at 0 is not in 1-9", raw: "\x01a\x00"},
		{name: "a", body: putBody{nil, 10}, want: "shelf: at 10 is not in 1-9", raw: "\x01a\x0a"},
		{name: "a", body: putBody{[]string{"123456"}, 1}, want: "of 6 bytes exceeds 5", raw: "\x01a\x01\x06123456"},
		{name: "a", body: putBody{make([]string, 4), 1}, want: "shelf: 4 books are not in 0-3", raw: "\x01a\x01\x00\x00\x00\x00"},
		{name: "a", body: putBody{nil, 8}, want: "8 is taken", raw: "\x01a\x08"},
		{name: "a", body: putBody{make([]string, 2), 1}, want: "never two", raw: "\x01a\x01\x00\x00", admits: true},
		{name: "a", body: putBody{[]string{"12345"}, 1}, err: callers, want: "known to be wrong", raw: "\x01a\x01\x0512345", admits: true},
		{name: "", body: putBody{nil, 0}, err: callers, want: "shelf name is empty"},
	} {
		op := put.Op(c.name, c.body, c.err)
		cmd, err := op.Limit(5)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) || err != nil && op.Command.Body != nil {
			t.Errorf("%q %+v: %v, want %q", c.name, c.body, err, c.want)
		}
		if err != nil {
			cmd.Machine, cmd.Kind, cmd.Body = engine.MachineTest, 1, []byte(c.raw)
		}
		if c.raw == "" && err != nil {
			continue
		}
		if err := p.Admit(cmd, 5); c.err == nil &&
			((err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q is admitted: %v, want %q", cmd.Body, err, c.want)
		}
		if _, err := shelves.NewCalls().Read(cmd); (err == nil) != (c.admits || c.want == "") {
			t.Errorf("%q is read: %v", cmd.Body, err)
		}
		if name, n := shelves.Makes(cmd); c.want == "" && (string(name) != "a" || n != 1) || !c.admits && c.want != "" && n != 0 {
			t.Errorf("%q makes %d of %q", cmd.Body, n, name)
		}
	}
	large := put.Op("a", putBody{[]string{"12345"}, 1}, nil)
	if _, err := large.Limit(4); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a payload over the limit: %v", err)
	}
	if err := p.Admit(large.Command, 4); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a payload over the limit is admitted: %v", err)
	}
	for _, body := range []string{"", "\x05a", "\x01a", "\x01a\x80", "\x01a\x01\x05x"} {
		if err := p.Admit(engine.Command{Machine: engine.MachineTest, Kind: 1, Body: []byte(body)}, 5); !errors.Is(err,
			engine.ErrMalformed) {
			t.Errorf("body %q: %v, want ErrMalformed", body, err)
		}
	}
	for _, body := range []string{"", "\x01ab"} {
		if err := p.Admit(engine.Command{Machine: engine.MachineTest, Kind: 2, Body: []byte(body)}, 5); !errors.Is(err,
			engine.ErrMalformed) {
			t.Errorf("body %q without fields: %v, want ErrMalformed", body, err)
		}
	}
	for _, kind := range []uint8{0, 2, 3, 4} {
		if name, n := shelves.Makes(engine.Command{Kind: kind, Body: []byte("\x01a")}); n != 0 || name != nil {
			t.Errorf("kind %d makes %d of %q", kind, n, name)
		}
	}
}

func TestCommandRowJSON(t *testing.T) {
	types := shelves.Types()
	if fields := types[0].Fields(); len(fields) != 2 || fields[0].Name != "at" || fields[1].Type != codec.ListType ||
		types[1].Fields() != nil {
		t.Errorf("fields are %+v and %+v", fields, types[1].Fields())
	}
	op := put.Op("a", putBody{[]string{"x"}, 3}, nil)
	if shown, err := types[0].Show([]byte("is "), op.Command, false); err != nil || string(shown) != `is {"at":3,"books":["x"]}` {
		t.Errorf("a command is shown as %s, %v", shown, err)
	}
	if shown, err := types[1].Show(nil, empty.Op("a", engine.Nothing{}, nil).Command, false); err != nil || string(shown) != `{}` {
		t.Errorf("a command without fields is shown as %s, %v", shown, err)
	}
	if _, err := types[0].Show(nil, engine.Command{Kind: 1, Body: []byte("\x01a")}, false); !errors.Is(err, engine.ErrMalformed) {
		t.Errorf("half a body is shown: %v", err)
	}
	for _, c := range []struct {
		kind      int
		src, want string
	}{
		{1, `{"books":["x"]}`, "0161070178"},
		{1, `{"at":9}`, "016109"},
		{2, `{}`, "0161"},
		{1, `{"at":0}`, "shelf: at 0 is not in 1-9"},
		{1, `{"at":"x"}`, `shelf: field "at": want an integer`},
		{2, `{"at":1}`, `shelf: field "at": unknown`},
		{1, `{"books":["",""]}`, "never two"},
	} {
		op := types[c.kind-1].Parse("a", []byte(c.src), false)
		got := fmt.Sprintf("%x", op.Command.Body)
		if op.Err != nil {
			got = op.Err.Error()
		}
		if !strings.HasPrefix(got, c.want) || op.Err != nil && len(op.Command.Body) > 0 || op.Err == nil && got != c.want {
			t.Errorf("%s makes %s, want %s", c.src, got, c.want)
		}
	}
}

// TestCommandRowReuse: reused bodies carry nothing over from one call to the next, and concurrent
// calls do not share one.
func TestCommandRowReuse(t *testing.T) {
	long, short := put.Op("a", putBody{[]string{"x", "y", "z"}, 1}, nil), put.Op("a", putBody{nil, 1}, nil)
	for range 3 {
		if _, n := shelves.Makes(long.Command); n != 3 {
			t.Errorf("%d books of 3", n)
		}
		if _, n := shelves.Makes(short.Command); n != 0 {
			t.Errorf("%d books of none", n)
		}
		if op := put.Make("a", func(b *putBody) error {
			if b.at = 1; len(b.books) > 0 && b.books[0] != "" {
				t.Errorf("a new body holds %q", b.books)
			}
			b.books = nil
			return nil
		}); op.Err != nil {
			t.Error(op.Err)
		}
	}
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			for range 200 {
				book := strings.Repeat("x", i+1)
				cmd := put.Op("a", putBody{[]string{book}, 1}, nil).Command
				if _, b, err := put.Read(cmd); err != nil || b.books[0] != book {
					t.Errorf("%q is read as %+v, %v", book, b, err)
				}
				if n, err := put.Decode([]byte{byte(i)}); err != nil || n != int64(i) {
					t.Errorf("result %d is %d, %v", i, n, err)
				}
			}
		})
	}
	callers.Wait()
}

// capped is the body of a command that carries max_value_size.
type capped struct {
	n   int64
	max int
}

func (b *capped) code(f *codec.Fields) {
	f.Count("n", &b.n, codec.Range{Max: 5})
	if !f.Parsing() {
		f.Int("max", &b.max)
	}
}

func TestLimitedAndAdmittedRows(t *testing.T) {
	limited := &engine.CommandRow[*shelf, capped, engine.Nothing]{Kind: 1, Name: "limited", From: engine.FromUsers,
		Body: (*capped).code, Limited: func(b *capped, maxPayload int) { b.max = maxPayload },
		Run: func(*shelf, *capped) error { return nil }}
	admitted := &engine.CommandRow[*shelf, capped, engine.Nothing]{Kind: 2, Name: "admitted", From: engine.FromUsers,
		Body: (*capped).code, Run: func(*shelf, *capped) error { return nil },
		Admit: func(b *capped) error {
			if b.n >= 3 {
				return errNo
			}
			return nil
		}}
	rows := engine.Declare(engine.MachineTest, "shelf", func(string) error { return nil }, engine.Row[*shelf](limited), admitted,
		engine.RawRow[*shelf]{Kind: 3, Name: "raw", From: engine.FromShards})
	op := limited.Op("a", capped{n: 4}, nil)
	for _, most := range []int{70, 71, 70} {
		cmd, err := op.Limit(most)
		_, b, readErr := limited.Read(cmd)
		expect(t, "limited", fmt.Sprint(b, err, readErr), fmt.Sprintf("{4 %d} <nil> <nil>", most))
	}
	parse := rows.Types()[1].Parse
	for src, want := range map[string]string{
		`{"n":2}`: "<nil>", `{"n":3}`: "no", `{"n":6}`: "shelf: n 6 is not in 0-5",
		`{"n":"x"}`: `shelf: field "n": want an integer, got "x"`,
	} {
		op := parse("a", []byte(src), false)
		expect(t, "parsed "+src, op.Err, want)
	}
	name, n := rows.Makes(engine.Command{Machine: engine.MachineTest, Kind: 3})
	expect(t, "a raw row makes", fmt.Sprint(name, n), "[] 0")
}

// librarian applies the commands of the shelves.
type librarian struct {
	engine.Machine
	calls engine.Calls[*shelf]
}

func (librarian) Restore(*engine.View) error { return nil }

func (l librarian) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	call, err := l.calls.Read(cmd)
	if err != nil {
		return nil, err
	}
	set(tx, "k")
	return call.Apply(&shelf{books: []string{"first"}})
}

func TestRowsAreProposed(t *testing.T) {
	r := newRigOf(t, 1, engine.Primitive{ID: engine.MachineTest, Name: "shelf", Commands: shelves.Types(),
		New: func() engine.Machine { return librarian{calls: shelves.NewCalls()} }})
	scope := engine.NewRouter(r).Scope("n", 9)
	n, err := put.Do(t.Context(), &scope, "a", putBody{[]string{"x"}, 1}, nil)
	expect(t, "Do", fmt.Sprint(n, err), "2 <nil>")
	_, err = put.Do(t.Context(), &scope, "a", putBody{[]string{"x"}, 1}, errNo)
	expect(t, "Do of what is refused", err, errNo)
	n, err = put.Send(t.Context(), &scope, "a", func(b *putBody) error { b.books, b.at = []string{"x", "y", "z"}, 1; return nil })
	expect(t, "Send", fmt.Sprint(n, err), "4 <nil>")
	_, err = put.Send(t.Context(), &scope, "a", func(*putBody) error { return errNo })
	expect(t, "Send of what is refused", err, errNo)
}
