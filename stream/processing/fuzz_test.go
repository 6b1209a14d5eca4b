package processing

import (
	"bytes"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

const smallest = `{"kind":"Processing","name":"j","sources":[{"stream":{"name":"a","partitions":"all"}}],"sinks":[{"stream":{"name":"b"}}]}`

// TestAdmit: what a user in another process sends has to say what its definition says.
func TestAdmit(t *testing.T) {
	p, err := parse([]byte(smallest))
	if err != nil {
		t.Fatal(err)
	}
	submit := func(change func(*submitCommand)) error {
		c := p.command([]byte(smallest), 1000)
		c.numbers = numberAll(append([]numbered(nil), p.parts...))
		change(&c)
		return admit(engine.Command{Namespace: "own", Kind: kindSubmit, Body: encode(nil, &c, (*submitCommand).code)}, 1000)
	}
	with := func(old, new string) func(*submitCommand) {
		return func(c *submitCommand) { c.source = []byte(strings.Replace(smallest, old, new, 1)) }
	}
	if err := submit(with(`"name":"j"`, `"name":"j","namespace":"own"`)); err != nil {
		t.Error(err)
	}
	if err := submit(func(*submitCommand) {}); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*submitCommand){
		"another name":                func(c *submitCommand) { c.name = "k" },
		"another batch":               func(c *submitCommand) { c.batch++ },
		"more workers":                func(c *submitCommand) { c.parallelism = 1 << 20 },
		"larger payloads":             func(c *submitCommand) { c.maxPayload++ },
		"no numbers":                  func(c *submitCommand) { c.numbers = nil },
		"another number":              func(c *submitCommand) { c.numbers[0].number = 7 },
		"another part":                func(c *submitCommand) { c.numbers[0].name = "x" },
		"no definition":               func(c *submitCommand) { c.source = nil },
		"a wrong one":                 func(c *submitCommand) { c.source = []byte("name: j") },
		"one that is long":            func(c *submitCommand) { c.source = append(c.source, bytes.Repeat([]byte(" "), MaxDefinition)...) },
		"another namespace":           with(`"name":"j"`, `"name":"j","namespace":"other"`),
		"a sink for the audit":        with(`{"name":"b"}`, `{"name":"audit","namespace":"_system"}`),
		"a sink for a reserved name":  with(`{"name":"b"}`, `{"name":"b","namespace":"_new"}`),
		"a lookup in a reserved name": with(`"sinks"`, `"operators":[{"type":"kv_lookup","lookup_key":"$.id","namespace":"_system"}],"sinks"`),
	} {
		if err := submit(change); err == nil {
			t.Errorf("%s: admitted", what)
		}
	}
	looks := []byte(`{"kind":"Processing","name":"j","sources":[{"stream":{"name":"a","partitions":"all"}}],"operators":[{"type":"kv_lookup","lookup_key":"$.id"}],"sinks":[{"stream":{"name":"b"}}]}`)
	k, err := parse(looks)
	if err != nil {
		t.Fatal(err)
	}
	for _, spread := range []bool{false, true} {
		c := k.command(looks, 1000)
		if spread {
			k.spread() // there it has a number
		}
		for _, to := range []bool{spread, !spread} {
			c.numbers = numberAll(append([]numbered(nil), k.parts...))
			cmd := engine.Command{Kind: kindSubmit, Spread: to, Body: encode(nil, &c, (*submitCommand).code)}
			if err := admit(cmd, 1000); (err != nil) != (to != spread) {
				t.Errorf("a lookup for a namespace that is spread %t, in one that is spread %t: %v", spread, to, err)
			}
		}
	}
	restore := restoreCommand{edited: true, submitCommand: p.command([]byte(smallest), 1000), last: 9}
	restore.numbers = append([]numbered(nil), p.parts...)
	restore.numbers[0].number = 9
	if err := admit(engine.Command{Kind: kindRestore, Body: encode(nil, &restore, (*restoreCommand).code)}, 1000); err != nil {
		t.Error(err)
	}
	restore.numbers[0].number = 10
	if err := admit(engine.Command{Kind: kindRestore, Body: encode(nil, &restore, (*restoreCommand).code)}, 1000); err == nil {
		t.Error("a number behind the last one is admitted")
	}
}

// FuzzCommands: no body makes admit panic, and what is decoded is encoded as it was.
func FuzzCommands(f *testing.F) {
	j := jobCommand{target{ref{1, 2}, 3}, 4}
	f.Add(kindStop, encode(nil, &j, (*jobCommand).code))
	s := submitCommand{name: "j", source: []byte(smallest), numbers: []numbered{{true, "a", "b", 1}}}
	f.Add(kindSubmit, encode(nil, &s, (*submitCommand).code))
	r := restoreCommand{submitCommand: s, edited: true}
	s.only = true
	f.Add(kindSubmit, encode(nil, &s, (*submitCommand).codeSubmit))
	f.Add(kindRestore, encode(nil, &r, (*restoreCommand).code))
	tick := tickCommand{
		status: Running, cursors: []cursorChange{{source: 1}}, state: []stateChange{{op: stateDelete, key: []byte("k")}}, outputs: []output{{route: "x"}},
	}
	f.Add(kindTick, encode(nil, &tick, (*tickCommand).code))
	save := saveCommand{last: &savepointRow{numbers: s.numbers}, data: []byte{1}}
	f.Add(kindSave, encode(nil, &save, (*saveCommand).code))
	fill := fillCommand{last: true}
	f.Add(kindFill, encode(nil, &fill, (*fillCommand).code))
	follow := followCommand{status: Running, defined: true, definition: definitionRow{s.source, s.numbers}}
	f.Add(kindFollow, encode(nil, &follow, (*followCommand).code))
	report := reportCommand{status: Failed, reason: "r"}
	f.Add(kindReport, encode(nil, &report, (*reportCommand).code))
	pass := passCommand{epoch: 3, to: 2, says: true, stands: standing{seen: true, newest: 7}, records: []byte{0}}
	stood := phaseCommand{savepoint: 3, copied: true, bytes: 9}
	f.Add(kindPhase, encode(nil, &stood, (*phaseCommand).code))
	f.Add(kindPass, encode(nil, &pass, (*passCommand).code))
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		_ = admit(engine.Command{Kind: kind, Body: body}, 1<<20)
		switch kind {
		case kindSubmit:
			again(t, body, (*submitCommand).codeSubmit)
		case kindRestore:
			again(t, body, (*restoreCommand).code)
		case kindFollow:
			again(t, body, (*followCommand).code)
		case kindReport:
			again(t, body, (*reportCommand).code)
		case kindPhase:
			again(t, body, (*phaseCommand).code)
		case kindPass:
			again(t, body, (*passCommand).code)
		case kindTick:
			again(t, body, (*tickCommand).code)
		case kindBeginSave, kindSave:
			again(t, body, (*saveCommand).code)
		case kindFill:
			again(t, body, (*fillCommand).code)
		default:
			again(t, body, (*jobCommand).code)
		}
	})
}

func again[T any](t *testing.T, body []byte, code func(*T, *codec.Coder)) {
	v, err := decodeBody(body, code)
	if err != nil {
		return
	}
	b := encode(nil, &v, code)
	if !bytes.HasPrefix(body, b) { // fields that a later layout appended are left out where they have their defaults
		t.Errorf("%x is read as %+v, which is written as %x", body, v, b)
	}
	if v, err := decodeBody(b, code); err != nil || !bytes.Equal(encode(nil, &v, code), b) {
		t.Errorf("%x, which was written, is read as %+v, %v", b, v, err)
	}
}

// FuzzIDs: an id is what it was made of, and nothing else is one.
func FuzzIDs(f *testing.F) {
	f.Add(string(jobID(1_000_000_000_000, ref{3, 77})))
	f.Add("job-00000000000000000000000000")
	f.Fuzz(func(t *testing.T, text string) {
		if created, r, err := JobID(text).parse(); err == nil && string(jobID(created, r)) != text {
			t.Errorf("%q is read as %d %v, which is %s", text, created, r, jobID(created, r))
		}
		if created, r, err := SavepointID(text).parse(); err == nil && string(savepointID(created, r)) != text {
			t.Errorf("%q is read as %d %v", text, created, r)
		}
	})
}

// FuzzChunks: chunks of savepoints that are none are errors.
func FuzzChunks(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) { _ = readChunk(b, func(byte, []byte, []byte) {}) })
}
