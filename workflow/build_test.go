package workflow_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/workflow"
)

// TestBuilder: a definition made in Go is compiled to the very same as the one in YAML.
func TestBuilder(t *testing.T) {
	built := workflow.New("all").Version("2").Description("everything").Timeout(time.Hour).Retain(time.Minute, 7).Idempotency("required").
		InputSchema(map[string]any{"required": []string{"n"}}).Output(map[string]any{"n": "$.input.n"}).
		Attribute("n", "number", "$.input.n").Attribute("who", "string", "$.input.who").
		Signal("go", map[string]any{"type": "object"}).
		Schedule(map[string]any{"cron": "0 6 * * *", "timezone": "Europe/Berlin"}).
		Trigger(map[string]any{"stream": "orders", "consumer_group": "flows"}).
		Start(workflow.Call("@actions/one").Input(map[string]any{"n": "$.input.n"}).Timeout(time.Second).
			Retry(workflow.RetryPolicy{Attempts: 3, Backoff: "exponential", Initial: time.Second, Max: time.Minute, Within: time.Hour}).
			Poll(4, time.Second, 2*time.Second, time.Minute).When("input.n > 1").Compensate(workflow.Call("@actions/undo")).
			To("success", "wait").To("failure", "bad")).
		Step("wait", workflow.WaitFor("go", time.Minute).OnTimeout("bad").To("success", "sleep").To("bad", "bad")).
		Step("sleep", workflow.Sleep(time.Second).To("success", "until")).
		Step("until", workflow.SleepUntil("$.input.at").To("success", "each")).
		Step("each", workflow.Each("$.input.items", workflow.Call("@workflow/item:3").Input("$.item"), 4).To("success", "fan")).
		Step("fan", workflow.Parallel(1).Branch("a", workflow.Call("@actions/a")).Branch("b", workflow.Call("@plan/b").Timeout(time.Second)).
			To("success", "flo.Completed")).
		Terminal("bad", workflow.Failed, map[string]any{"why": "$.steps._start.outcome"}).
		Plan("b", map[string]any{"executors": []map[string]any{{"name": "x", "run": "@actions/x"}}})
	const source = `
name: all
version: "2"
description: everything
timeout_ms: 3600000
retention: { ms: 60000, runs: 7 }
idempotency: required
input_schema: { required: [n] }
output: { n: $.input.n }
searchAttributes: [{ name: n, type: number, from: $.input.n }, { name: who, type: string, from: $.input.who }]
signals: { go: { schema: { type: object } } }
schedule: { cron: 0 6 * * *, timezone: Europe/Berlin }
trigger: { stream: orders, consumer_group: flows }
start:
  run: "@actions/one"
  input: { n: $.input.n }
  timeout_ms: 1000
  retry: { max_attempts: 3, backoff: exponential, initial_delay_ms: 1000, max_delay_ms: 60000, within_ms: 3600000 }
  poll: { initialDelayMs: 1000, maxAttempts: 4, backoff: exponential, baseDelayMs: 2000, maxDelayMs: 60000 }
  when: input.n > 1
  compensate: "@actions/undo"
  transitions: { success: wait, failure: bad }
steps:
  wait: { waitForSignal: { type: go, timeout_ms: 60000, onTimeout: bad }, transitions: { success: sleep, bad: bad } }
  sleep: { sleep: { ms: 1000 }, transitions: { success: until } }
  until: { sleep: { until: $.input.at }, transitions: { success: each } }
  each: { parallel: { each: $.input.items, run: "@workflow/item:3", input: $.item, max_concurrency: 4 }, transitions: { success: fan } }
  fan:
    parallel: { any: 1, branches: { a: { run: "@actions/a" }, b: { run: "@plan/b", timeout_ms: 1000 } } }
    transitions: { success: flo.Completed }
terminals: { bad: { status: failed, output: { why: $.steps._start.outcome } } }
plans: { b: { executors: [{ name: x, run: "@actions/x" }] } }
`
	if got, want := compiled(t, built.Definition()), compiled(t, []byte(source)); got != want {
		t.Errorf("built:\n%s\ncompiled:\n%q\nwant:\n%q", built.Definition(), got, want)
	}
	if problems := workflow.Validate(workflow.New("bad").Output(func() {}).Definition()); len(problems) == 0 {
		t.Error("what can not be written is a definition")
	}
}

// TestLongDurations: a duration that is too long is refused as that, and a part of a millisecond counts as a whole one.
func TestLongDurations(t *testing.T) {
	const most = math.MaxInt64
	call := func() *workflow.Step { return workflow.Call("@actions/a") }
	for name, b := range map[string]*workflow.Builder{
		"timeout":         workflow.New("w").Timeout(most).Start(call().To("success", "flo.Completed")),
		"retention":       workflow.New("w").Retain(most, 1).Start(call().To("success", "flo.Completed")),
		"step's timeout":  workflow.New("w").Start(call().Timeout(most).To("success", "flo.Completed")),
		"wait":            workflow.New("w").Start(workflow.WaitFor("go", most).To("success", "flo.Completed")),
		"sleep":           workflow.New("w").Start(workflow.Sleep(most).To("success", "flo.Completed")),
		"retry":           workflow.New("w").Start(call().Retry(workflow.RetryPolicy{Attempts: 2, Within: most}).To("success", "flo.Completed")),
		"poll":            workflow.New("w").Start(call().Poll(2, most, time.Second, time.Second).To("success", "flo.Completed")),
		"almost too long": workflow.New("w").Timeout(most - 1).Start(call().To("success", "flo.Completed")),
	} {
		problems := workflow.Validate(b.Definition())
		if len(problems) == 0 || !strings.Contains(problems[0].Message, "9223372036855") {
			t.Errorf("%s: %v", name, problems)
		}
	}
	for d, want := range map[time.Duration]string{1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", 2*time.Millisecond - 1: "2", 0: "0", -1: "0", -time.Millisecond: "-1"} {
		if text := string(workflow.New("w").Timeout(d).Definition()); text != `{"name":"w","timeout_ms":`+want+`}` {
			t.Errorf("%d ns: %s, want %s ms", d, text, want)
		}
	}
}

func compiled(t *testing.T, source []byte) string {
	t.Helper()
	d, problems := flow.Parse(source)
	if d == nil {
		t.Fatalf("%s\n%v", source, problems)
	}
	c := codec.NewEncoder(nil)
	d.Code(&c)
	return string(c.Encoded())
}
