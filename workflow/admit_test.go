package workflow

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestAdmit checks commands of users in other processes. The machine also refuses a malformed body.
// It accepts bodies that only Admit rejects: users may not send them, but other machines may.
func TestAdmit(t *testing.T) {
	const most = 100
	r := machinetest.New(t, 1, engine.TableOf[action.Store](), table())
	definition := `{"kind":"Workflow","name":"w","version":"1","start":{"run":"@actions/a","transitions":{"success":"flo.Completed","failure":"flo.Failed"}}}`
	created, err := compile([]byte(definition))
	if err != nil {
		t.Fatal(err)
	}
	setUp := []engine.Op{create.Op("w", created, nil), start.Op("w", startBody{id: "mine", input: []byte("1")}, nil)}
	for _, op := range setUp {
		cmd := op.Command
		cmd.Namespace = "n"
		if _, err := r.Propose(t.Context(), 0, cmd); err != nil {
			t.Fatal(err)
		}
	}
	run, long := number{run: 1}, strings.Repeat("x", 1<<10+1)
	large := append(append([]byte{'"'}, bytes.Repeat([]byte{'x'}, most)...), '"')
	startOf := func(name string, change func(*startBody)) []byte {
		v := startBody{input: []byte("1")}
		change(&v)
		return command(kindStart, name, &v, (*startBody).code).Body
	}
	start := func(change func(*startBody)) []byte { return startOf("w", change) }
	signal := func(id string, v signalBody) []byte { return command(kindSignal, id, &v, (*signalBody).code).Body }
	cancel := func(id string, v cancelBody) []byte { return command(kindCancel, id, &v, (*cancelBody).code).Body }
	retry := func(id string, v retryBody) []byte { return command(kindRetry, id, &v, (*retryBody).code).Body }
	remove := func(name string, v versionBody) []byte {
		return command(kindRemoveVersion, name, &v, (*versionBody).code).Body
	}
	setDefault := func(name string, v versionBody) []byte {
		return command(kindSetDefault, name, &v, (*versionBody).code).Body
	}
	plan := func(name string, v planBody) []byte { return command(kindInvalidate, name, &v, (*planBody).code).Body }
	flag := func(name string) []byte { return command(kindEnable, name, new(bool), codec.Flag("")).Body }
	p, noText := table(), "\xff"
	for _, c := range []struct {
		kind      uint8
		good      []byte
		malformed [][]byte
		forbidden [][]byte // only Admit rejects them
	}{
		{kindStart, start(func(*startBody) {}), [][]byte{
			start(func(v *startBody) { v.key = []byte(long) }), start(func(v *startBody) { v.id = long }),
			start(func(v *startBody) { v.version = long }),
		}, [][]byte{
			startOf("", func(*startBody) {}), start(func(v *startBody) { v.input = large }),
			start(func(v *startBody) { v.input = []byte("no JSON") }),
			start(func(v *startBody) { v.source = "s" }), start(func(v *startBody) { v.parent = "p" }),
			start(func(v *startBody) { v.depth = 1 }),
			start(func(v *startBody) { v.notify = protocol.Notify{Machine: engine.MachineWorkflow} }),
			start(func(v *startBody) { v.version = noText }),
		}},
		{kindSignal, signal("", signalBody{run, "go", []byte("1")}), [][]byte{
			signal("mine", signalBody{run, "", nil}), signal("mine", signalBody{run, long, nil}),
		}, [][]byte{
			signal("", signalBody{run, "go", large}), signal("", signalBody{run, "go", []byte("no JSON")}),
			signal(long, signalBody{run, "go", nil}), signal("", signalBody{run, noText, nil}),
		}},
		{kindStart, start(func(v *startBody) { v.id, v.key, v.version, v.input = "mine", []byte{0xff}, "1", []byte{} }), nil, nil},
		{kindSignal, signal("mine", signalBody{run, "go", nil}), nil, nil},
		{kindCancel, cancel("", cancelBody{number{1 << 63, 1<<16 - 1}, []byte(noText)}), nil, nil},
		{kindCancel, cancel("", cancelBody{run, []byte("why")}), [][]byte{cancel("mine", cancelBody{run, []byte(long)})},
			[][]byte{cancel(long, cancelBody{})}},
		{kindRetry, retry("", retryBody{run, "s", []byte("1")}), [][]byte{retry("mine", retryBody{run, long, nil})}, [][]byte{
			retry("", retryBody{run, "s", large}), retry("", retryBody{run, "s", []byte("no JSON")}), retry(long, retryBody{}), retry("",
				retryBody{run, noText, nil}),
		}},
		{kindRemoveVersion, remove("w", versionBody{version: "1"}),
			[][]byte{remove("w", versionBody{}), remove("w", versionBody{version: long})}, [][]byte{
				remove("", versionBody{version: "1"}), remove("w", versionBody{version: "1", revision: 1}), remove("w",
					versionBody{version: noText}),
			}},
		{kindSetDefault, setDefault("w", versionBody{version: "1"}),
			[][]byte{setDefault("w", versionBody{}), setDefault("w", versionBody{version: long})}, [][]byte{
				setDefault("", versionBody{version: "1"}), setDefault("w", versionBody{version: "1", revision: 1}), setDefault("w",
					versionBody{version: noText}),
			}},
		{kindInvalidate, plan("w", planBody{plan: "p"}), [][]byte{plan("w", planBody{}), plan("w", planBody{plan: "p", executor: "e"})},
			[][]byte{plan("", planBody{plan: "p"})}},
		{kindEnable, flag("w"), nil, [][]byte{flag("")}},
		{kindDelete, flag("w"), nil, [][]byte{flag("")}},
		{kindPauseSchedule, flag("w"), nil, [][]byte{flag("")}},
	} {
		command := func(body []byte) engine.Command {
			return engine.Command{Machine: engine.MachineWorkflow, Kind: c.kind, Namespace: "n", Body: body}
		}
		if err := p.Admit(command(c.good), most); err != nil {
			t.Errorf("command %d: %v", c.kind, err)
		}
		machinetest.SameInJSON(t, p, command(c.good))
		for i, body := range slices.Concat(c.malformed, c.forbidden) {
			if err := p.Admit(command(body), most); !errors.Is(err, ErrInvalid) {
				t.Errorf("command %d, wrong body %d: Admit returned %v, want ErrInvalid", c.kind, i, err)
			}
		}
		for i, body := range c.malformed {
			if _, err := r.Propose(t.Context(), 0, command(body)); !errors.Is(err, ErrInvalid) {
				t.Errorf("command %d, malformed body %d: Propose returned %v, want ErrInvalid", c.kind, i, err)
			}
		}
		if err := p.Admit(command(c.good[:len(c.good)-1]), most); !errors.Is(err, engine.ErrMalformed) {
			t.Errorf("command %d that ends early: %v", c.kind, err)
		}
	}
	if err := p.Admit(engine.Command{Machine: engine.MachineWorkflow, Kind: kindDone}, most); !errors.Is(err, ErrInvalid) {
		t.Errorf("a command of machines: %v", err)
	}
}
