package processing

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

const smallest = `{"kind":"Processing","name":"j","sources":[{"stream":{"name":"a","partitions":"all"}}],"sinks":[{"stream":{"name":"b"}}]}`

// TestAdmit: a submission by a user in another process must agree with its definition.
func TestAdmit(t *testing.T) {
	p, err := parse([]byte(smallest))
	if err != nil {
		t.Fatal(err)
	}
	admit := func(cmd engine.Command) error {
		cmd.Machine = engine.MachineProcessing
		of := table()
		err := of.Admit(cmd, 1000)
		if err == nil && !cmd.Spread {
			machinetest.SameInJSON(t, of, cmd)
		}
		return err
	}
	body := func(p *parsed, source []byte) submitBody {
		b := p.body(source)
		b.maxPayload = 1000
		return b
	}
	submit := func(change func(*submitBody)) error {
		c := body(p, []byte(smallest))
		c.numbers = numberAll(append([]numbered(nil), p.parts...))
		change(&c)
		return admit(engine.Command{Namespace: "own", Kind: kindSubmit, Body: encodeSubmit(c.name, &c)})
	}
	with := func(old, new string) func(*submitBody) {
		return func(c *submitBody) { c.source = []byte(strings.Replace(smallest, old, new, 1)) }
	}
	if err := submit(with(`"name":"j"`, `"name":"j","namespace":"own"`)); err != nil {
		t.Error(err)
	}
	if err := submit(func(*submitBody) {}); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*submitBody){
		"another name":               func(c *submitBody) { c.name = "k" },
		"another batch":              func(c *submitBody) { c.batch++ },
		"more workers":               func(c *submitBody) { c.parallelism = 1 << 20 },
		"larger payloads":            func(c *submitBody) { c.maxPayload++ },
		"no numbers":                 func(c *submitBody) { c.numbers = nil },
		"another number":             func(c *submitBody) { c.numbers[0].number = 7 },
		"another part":               func(c *submitBody) { c.numbers[0].name = "x" },
		"no definition":              func(c *submitBody) { c.source = nil },
		"a wrong one":                func(c *submitBody) { c.source = []byte("name: j") },
		"one that is long":           func(c *submitBody) { c.source = append(c.source, bytes.Repeat([]byte(" "), MaxDefinition)...) },
		"another namespace":          with(`"name":"j"`, `"name":"j","namespace":"other"`),
		"a sink for the audit":       with(`{"name":"b"}`, `{"name":"audit","namespace":"_system"}`),
		"a sink for a reserved name": with(`{"name":"b"}`, `{"name":"b","namespace":"_new"}`),
		"a lookup in a reserved name": with(`"sinks"`,
			`"operators":[{"type":"kv_lookup","lookup_key":"$.id","namespace":"_system"}],"sinks"`),
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
		c := body(k, looks)
		if spread {
			k.spread() // in a spread namespace it has a number
		}
		for _, to := range []bool{spread, !spread} {
			c.numbers = numberAll(append([]numbered(nil), k.parts...))
			cmd := engine.Command{Kind: kindSubmit, Spread: to, Body: encodeSubmit(c.name, &c)}
			if err := admit(cmd); (err != nil) != (to != spread) {
				t.Errorf("a lookup for a namespace that is spread %t, in one that is spread %t: %v", spread, to, err)
			}
		}
	}
	restore := restoreBody{edited: true, submitBody: body(p, []byte(smallest)), last: 9}
	restore.numbers = append([]numbered(nil), p.parts...)
	restore.numbers[0].number = 9
	if err := admit(engine.Command{Kind: kindRestore, Body: codec.EncodeFields(nil, &restore, (*restoreBody).code)}); err != nil {
		t.Error(err)
	}
	restore.numbers[0].number = 10
	if err := admit(engine.Command{Kind: kindRestore, Body: codec.EncodeFields(nil, &restore, (*restoreBody).code)}); err == nil {
		t.Error("a number behind the last one is admitted")
	}
}

// FuzzCommands: no body makes admit panic, and decoded bodies encode to the same bytes.
func FuzzCommands(f *testing.F) {
	j := jobBody{target{ref{1, 2}, 3}, 4}
	f.Add(kindStop, codec.EncodeFields(nil, &j, (*jobBody).code))
	s := submitBody{source: []byte(smallest), numbers: []numbered{{true, "a", "b", 1}}}
	f.Add(kindSubmit, encodeSubmit("j", &s))
	r := restoreBody{submitBody: s, edited: true}
	s.only = true
	f.Add(kindSubmit, encodeSubmit("j", &s))
	f.Add(kindRestore, codec.EncodeFields(nil, &r, (*restoreBody).code))
	r = restoreBody{submitBody: submitBody{numbers: s.numbers}, revision: 7, savepoint: 8, last: 9}
	f.Add(kindRestore, codec.EncodeFields(nil, &r, (*restoreBody).code))
	for kind := range uint8(len(table().Commands)) {
		for _, n := range []int64{0, 1, -1} {
			f.Add(kind, codec.EncodeFields(nil, &jobBody{target{ref{1, 2}, 3}, n}, (*jobBody).code))
		}
	}
	tick := tickCommand{
		status: Running, cursors: []cursorChange{{source: 1}}, state: []stateChange{{op: stateDelete, key: []byte("k")}},
		outputs: []output{{route: "x"}},
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
	report.failure = &Failure{Operator: "o", Source: "s", Measurement: "m", Partition: 3, RecordID: stream.ID{Millis: 5, Seq: 1}, Offset: 7}
	f.Add(kindReport, encode(nil, &report, (*reportCommand).code))
	tick.failure = report.failure
	f.Add(kindTick, encode(nil, &tick, (*tickCommand).code))
	pass := passCommand{epoch: 3, to: 2, says: true, progress: stageProgress{seen: true, newest: 7}, records: []byte{0}}
	stood := phaseCommand{savepoint: 3, copied: true, bytes: 9}
	f.Add(kindPhase, encode(nil, &stood, (*phaseCommand).code))
	f.Add(kindPass, encode(nil, &pass, (*passCommand).code))
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		p := table()
		if cmd := (engine.Command{Machine: engine.MachineProcessing, Kind: kind, Body: body}); p.Admit(cmd, 1<<20) == nil {
			machinetest.SameInJSON(t, p, cmd)
		}
		switch kind {
		case kindSubmit:
			in := codec.NewReader(body)
			if name := in.String(); in.Err() == nil {
				onceMore(t, codec.AppendString(nil, name), in.Rest(), (*submitBody).code, 0)
			}
		case kindRestore:
			onceMore(t, nil, body, (*restoreBody).code)
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
			onceMore(t, nil, body, (*jobBody).code)
		}
	})
}

// onceMore is again for bodies that are declared field by field. A body may also end with the
// default of an optional last field, which is encoded as nothing.
func onceMore[T any](t *testing.T, head, body []byte, code func(*T, *codec.Fields), optional ...byte) {
	var v T
	if codec.DecodeFields(body, &v, code) != nil {
		return
	}
	b := codec.EncodeFields(nil, &v, code)
	if !bytes.Equal(body, b) && !bytes.Equal(body, append(slices.Clip(b), optional...)) {
		t.Errorf("%x %x is read as %+v, which is written as %x", head, body, v, b)
	}
}

func again[T any](t *testing.T, body []byte, code func(*T, *codec.Coder)) {
	v, err := decodeBody(body, code)
	if err != nil {
		return
	}
	b := encode(nil, &v, code)
	if !bytes.HasPrefix(body, b) { // fields appended by a later layout are omitted when they have their defaults
		t.Errorf("%x is read as %+v, which is written as %x", body, v, b)
	}
	if v, err := decodeBody(b, code); err != nil || !bytes.Equal(encode(nil, &v, code), b) {
		t.Errorf("%x, which was written, is read as %+v, %v", b, v, err)
	}
}

// FuzzIDs: an id round-trips, and invalid strings are rejected.
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

// FuzzChunks: invalid savepoint chunks are errors.
func FuzzChunks(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) { _ = readChunk(b, func(byte, []byte, []byte) {}) })
}
