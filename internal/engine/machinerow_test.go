package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

type note struct{ page int64 }

func (n *note) code(c *codec.Coder) {
	c.Varint(&n.page)
	if c.More(n.page < 0) {
		c.Varint(&n.page)
	}
}

// titled commands take a name that starts with their body.
var titled = &engine.CommandRow[*shelf, string, int64]{
	Kind: 1, Name: "title", From: engine.FromUsers, Body: func(b *string, f *codec.Fields) { f.Text("begins", b) },
	Named: func(b *string, name string) error {
		if !strings.HasPrefix(name, *b) {
			return engine.Errorf(engine.ErrInvalid, "%s does not begin with %s", name, *b)
		}
		return nil
	},
	Apply:  func(s *shelf, b *string) (int64, error) { return int64(len(*b)), nil },
	Result: func(n *int64, f *codec.Fields) { f.Count("length", n) },
}

var notes = engine.Declare(engine.MachineQueue, "notes", func(string) error { return engine.Errorf(engine.ErrInvalid, "no name is good") },
	titled,
	&engine.MachineRow[*shelf, note]{
		Kind: 2, Name: "note", From: engine.FromShards, Shrinks: true, Body: (*note).code,
		Apply: func(s *shelf, n *note) ([]byte, error) { return []byte{byte(n.page)}, nil },
	})

func TestMachineRow(t *testing.T) {
	types := notes.Types()
	if c := types[1]; c.Kind != 2 || c.Name != "note" || c.From != engine.FromShards || !c.Shrinks || c.Admit != nil || c.Show != nil {
		t.Errorf("%+v", c)
	}
	calls := notes.NewCalls()
	for body, want := range map[string]int8{"\x06": 3, "\x01\x04": 2, "": -1, "\x02\x02\x02": -1} {
		cmd := engine.Command{Machine: engine.MachineQueue, Kind: 2, Body: []byte(body)}
		call, err := calls.Read(cmd)
		if want < 0 {
			if !errors.Is(err, engine.ErrMalformed) {
				t.Errorf("%x: %v, want ErrMalformed", body, err)
			}
			continue
		}
		if err != nil || call.Subject() != nil {
			t.Fatalf("%x: subject %q, %v", body, call.Subject(), err)
		}
		if got, err := call.Apply(nil); err != nil || len(got) != 1 || int8(got[0]) != want {
			t.Errorf("%x: %x, %v, want %d", body, got, err, want)
		}
		if name, n := notes.Makes(cmd); name != nil || n != 0 {
			t.Errorf("%x makes %d of %q", body, n, name)
		}
	}
}

// TestNamed: a row may validate names itself, against the body, for operations and for commands of
// other processes.
func TestNamed(t *testing.T) {
	admit := notes.Types()[0].Admit
	for _, c := range []struct {
		name, body string
		ok         bool
	}{{"abc", "ab", true}, {"", "", true}, {"ab", "abc", false}} {
		op := titled.Op(c.name, c.body, nil)
		if (op.Err == nil) != c.ok {
			t.Errorf("%q, %q: %v", c.name, c.body, op.Err)
		}
		body := codec.AppendString(codec.AppendString(nil, c.name), c.body)
		if err := admit(engine.Command{Kind: 1, Body: body}, 100); (err == nil) != c.ok {
			t.Errorf("%q, %q from another process: %v", c.name, c.body, err)
		}
		if op := titled.Op(c.name, c.body, engine.ErrBusy); op.Err != engine.ErrBusy {
			t.Errorf("%q: %v, want the error of the caller", c.name, op.Err)
		}
	}
}

// TestResultsAreApart: a result does not change when the next command is applied.
func TestResultsAreApart(t *testing.T) {
	calls := notes.NewCalls()
	var results [][]byte
	for _, body := range []string{"\x03abc\x02ab", "\x03abc\x00"} {
		call, err := calls.Read(engine.Command{Kind: 1, Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		result, err := call.Apply(nil)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, result)
	}
	if string(results[0]) != "\x02" || string(results[1]) != "\x00" {
		t.Errorf("%x", results)
	}
}

var numbered = &engine.CommandRow[*shelf, int64, engine.Nothing]{
	Kind: 1, Name: "number", From: engine.FromUsers, Unnamed: true, Body: func(n *int64,
		f *codec.Fields) {
		f.Count("n", n, codec.Range{Min: 1, Max: 9})
	},
	Run: func(*shelf, *int64) error { return nil },
}

// TestUnnamed: a body without a name consists of its fields alone, and no name is validated.
func TestUnnamed(t *testing.T) {
	of := engine.Declare(engine.MachineQueue, "numbers", func(string) error { return engine.ErrInvalid }, numbered)
	op := numbered.Op("any", 7, nil)
	if op.Err != nil || string(op.Command.Body) != "\x07" {
		t.Errorf("%x, %v", op.Command.Body, op.Err)
	}
	if err := of.Types()[0].Admit(op.Command, 100); err != nil {
		t.Error(err)
	}
	if call, err := of.NewCalls().Read(op.Command); err != nil || len(call.Subject()) != 0 {
		t.Errorf("subject %q, %v", call.Subject(), err)
	}
	shown, err := of.Types()[0].Show(nil, op.Command, false)
	if again := of.Types()[0].Parse("other", shown, false); err != nil || string(shown) != `{"n":7}` ||
		string(again.Command.Body) != "\x07" {
		t.Errorf("%s, %v, back %x, %v", shown, err, again.Command.Body, again.Err)
	}
	if op := numbered.Op("", 10, nil); op.Err == nil || op.Err.Error() != "numbers: n 10 is not in 1-9" {
		t.Errorf("10: %v", op.Err)
	}
}
