package machinetest

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// SameInJSON converts a command to JSON and back and compares the bodies, or their JSON if the body
// carries max_value_size.
func SameInJSON(t *testing.T, p engine.Primitive, cmd engine.Command) {
	t.Helper()
	of := p.Command(cmd.Kind)
	shown, err := of.Show(nil, cmd, true)
	if err != nil {
		t.Errorf("%s %s: %x cannot be shown: %v", p.Name, of.Name, cmd.Body, err)
		return
	}
	if !utf8.Valid(cmd.Body) && bytes.Contains(shown, []byte("\uFFFD")) {
		return // JSON has no form for invalid UTF-8
	}
	in := codec.NewReader(cmd.Body)
	op := of.Parse(in.String(), shown, true)
	again, err := op.Limit(engine.DefaultMaxPayload)
	same := bytes.Equal(again.Body, cmd.Body)
	if err == nil && op.Limited != nil {
		// JSON lacks max_value_size, which the proposing node adds.
		var twice []byte
		twice, err = of.Show(nil, again, true)
		same = bytes.Equal(twice, shown)
	}
	if err != nil || !same {
		t.Errorf("%s %s: %x is shown as %s, and that makes %x, %v", p.Name, of.Name, cmd.Body, shown, again.Body, err)
	}
}

// ReadsBack converts the arguments or results of a query to JSON and back into again, an empty
// query of its kind, and compares both as JSON.
func ReadsBack(t testing.TB, again, q engine.Query, code func(*engine.Query, *codec.Fields)) {
	t.Helper()
	shown, _ := codec.AppendJSON(nil, true, func(f *codec.Fields) { code(&q, f) })
	if err := codec.ReadJSON(shown, true, func(f *codec.Fields) { code(&again, f) }); err != nil {
		t.Errorf("%T is shown as %s, which does not parse: %v", q, shown, err)
		return
	}
	if twice, _ := codec.AppendJSON(nil, true, func(f *codec.Fields) { code(&again, f) }); !bytes.Equal(shown, twice) {
		t.Errorf("%T is shown as %s, and read back as %s", q, shown, twice)
	}
}
