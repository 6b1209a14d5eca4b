package workflow

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/call"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rig"
)

// TestAdmit: commands of users in other processes are checked as those of users in this one are, and can not say what only machines say.
func TestAdmit(t *testing.T) {
	const most = 100
	r := rig.New(t, 1, engine.TableOf(action.Primitive), table())
	run, long := target{run: 1}, strings.Repeat("x", 1<<10+1)
	large := append(append([]byte{'"'}, bytes.Repeat([]byte{'x'}, most)...), '"')
	start := func(change func(*startCommand)) []byte {
		v := startCommand{name: "w", input: []byte("1")}
		change(&v)
		return encode(nil, &v, (*startCommand).code)
	}
	signal := func(v signalCommand) []byte { return encode(nil, &v, (*signalCommand).code) }
	cancel := func(v cancelCommand) []byte { return encode(nil, &v, (*cancelCommand).code) }
	retry := func(v retryCommand) []byte { return encode(nil, &v, (*retryCommand).code) }
	remove := func(v removeCommand) []byte { return encode(nil, &v, (*removeCommand).code) }
	plan := func(v planCommand) []byte { return encode(nil, &v, (*planCommand).code) }
	name := func(v nameCommand) []byte { return encode(nil, &v, (*nameCommand).code) }
	for _, c := range []struct {
		kind  uint8
		good  []byte
		wrong [][]byte
	}{
		{kindStart, start(func(*startCommand) {}), [][]byte{
			start(func(v *startCommand) { v.name = "" }), start(func(v *startCommand) { v.input = large }), start(func(v *startCommand) { v.input = []byte("no JSON") }),
			start(func(v *startCommand) { v.source = "s" }), start(func(v *startCommand) { v.parent = "p" }), start(func(v *startCommand) { v.depth = 1 }),
			start(func(v *startCommand) { v.notify = call.Notify{Machine: engine.MachineWorkflow} }), start(func(v *startCommand) { v.key = long }),
			start(func(v *startCommand) { v.id = long }),
		}},
		{kindSignal, signal(signalCommand{run, "go", []byte("1")}), [][]byte{
			signal(signalCommand{run, "", nil}), signal(signalCommand{run, long, nil}), signal(signalCommand{run, "go", large}), signal(signalCommand{run, "go", []byte("no JSON")}),
			signal(signalCommand{target{id: long}, "go", nil}),
		}},
		{kindCancel, cancel(cancelCommand{run, "why"}), [][]byte{cancel(cancelCommand{run, long}), cancel(cancelCommand{target{id: long}, ""})}},
		{kindRetry, retry(retryCommand{run, "s", []byte("1")}), [][]byte{
			retry(retryCommand{run, long, nil}), retry(retryCommand{run, "s", large}), retry(retryCommand{run, "s", []byte("no JSON")}), retry(retryCommand{target{id: long}, "", nil}),
		}},
		{kindRemoveVersion, remove(removeCommand{name: "w", version: "1"}), [][]byte{
			remove(removeCommand{name: "", version: "1"}), remove(removeCommand{name: "w"}), remove(removeCommand{name: "w", version: long}),
			remove(removeCommand{name: "w", version: "1", revision: 1}),
		}},
		{kindInvalidate, plan(planCommand{name: "w", plan: "p"}), [][]byte{plan(planCommand{name: "", plan: "p"}), plan(planCommand{name: "w"})}},
		{kindEnable, name(nameCommand{name: "w"}), [][]byte{name(nameCommand{})}},
		{kindDelete, name(nameCommand{name: "w"}), [][]byte{name(nameCommand{})}},
		{kindPauseSchedule, name(nameCommand{name: "w"}), [][]byte{name(nameCommand{})}},
	} {
		command := func(body []byte) engine.Command {
			return engine.Command{Machine: engine.MachineWorkflow, Kind: c.kind, Namespace: "n", Body: body}
		}
		if err := admit(command(c.good), most); err != nil {
			t.Errorf("command %d: %v", c.kind, err)
		}
		for i, body := range c.wrong {
			if err := admit(command(body), most); !errors.Is(err, ErrInvalid) {
				t.Errorf("command %d, wrong in way %d: %v", c.kind, i, err)
			}
			if _, err := r.Propose(t.Context(), 0, command(body)); err == nil && c.kind != kindRemoveVersion { // what a home tells is not refused
				t.Errorf("command %d, wrong in way %d, is carried out", c.kind, i)
			}
		}
		if err := admit(command(c.good[:len(c.good)-1]), most); !errors.Is(err, engine.ErrMalformed) {
			t.Errorf("command %d that ends early: %v", c.kind, err)
		}
	}
	if err := admit(engine.Command{Machine: engine.MachineWorkflow, Kind: kindDone}, most); !errors.Is(err, ErrInvalid) {
		t.Errorf("a command of machines: %v", err)
	}
}
