package flow

import (
	"reflect"
	"strings"
	"testing"
)

// TestOtherSpellings: what the public documentation of flo writes in another way means the same.
func TestOtherSpellings(t *testing.T) {
	const rest = "\nplans: { p: { executors: [{ name: e, run: '@actions/e' }] } }\n"
	step := func(fields string) string {
		return "name: x\nstart: { run: '@plan/p', transitions: { success: flo.Completed }, " + fields + " }" + rest
	}
	plan := func(fields string) string {
		return "name: x\nstart: { run: '@plan/p', transitions: { success: flo.Completed } }\nplans: { p: { " + fields + " } }\n"
	}
	executor := func(fields string) string { return plan("executors: [{ name: e, " + fields + " }]") }
	top := func(fields string) string { return step("") + fields + "\n" }
	const first = "run: '@plan/p', transitions: { success: flo.Completed } }"
	for name, spellings := range map[string][]string{
		"start": {"name: x\nstart: { " + first + rest, "name: x\n_start: { " + first + rest,
			"name: x\nsteps: { _start: { " + first + " }" + rest, "name: x\nsteps: { start: { " + first + " }" + rest},
		"attribute": {top("searchAttributes: [{ name: a, type: string, from: $.input.b }]"),
			top("searchAttributes: [{ name: a, from: input.b }]"), top("search_attributes: [{ name: a, path: $.input.b }]")},
		"attempts": {step("retry: { max_attempts: 7 }"), step("retry: { max: 7 }"), step("retry: { maxAttempts: 7 }")},
		"first pause": {step("retry: { initial_delay_ms: 250 }"), step("retry: { backoffMs: 250 }"),
			step("retry: { initialDelayMs: 250 }"), step("retry: { initial_delay: 250ms }")},
		"jitter": {step("retry: { backoff: exponential_jitter }"), step("retry: { backoff: exponential-jitter }"),
			step("retry: { backoff: exp-jitter }"), step("retry: { backoff: exp_jitter }")},
		"jitter of 200 ms": {step("retry: { backoff: exponential_jitter, jitter_ms: 200 }"), step("retry: { backoff: exp-jitter-200ms }"),
			step("retry: { backoff: exponential-jitter-200ms }")},
		"time limit": {step("timeout_ms: 300000"), step("timeout: 5m"), step("timeoutMs: 300000"), step("timeout: 300s")},
		"input": {step("input: { a: $.input.b, c: 1 }"), step(`inputMapping: '{"a": "$.input.b", "c": 1}'`),
			step(`input_mapping: { a: $.input.b, c: 1 }`)},
		"executor": {executor("run: '@actions/a'"), executor("action: '@actions/a'"), executor("action: a")},
		"rate": {executor("run: '@actions/a', rate_limit: { max_per_second: 5 }"),
			executor("run: '@actions/a', rateLimit: { maxPerSecond: 5 }")},
		"errors": {plan("executors: [{ name: e, run: '@actions/a' }], errors: { fatal: [x] }"),
			plan("executors: [{ name: e, run: '@actions/a' }], classifyError: { fatal: [x] }"),
			plan("executors: [{ name: e, run: '@actions/a' }], classify_error: { fatal: [x] }")},
		"cache": {plan("executors: [{ name: e, run: '@actions/a' }], cache: { ttl_ms: 60000, key: 'k:{input.a}' }"),
			plan("executors: [{ name: e, run: '@actions/a' }], cache: { ttl: 1m, keyTemplate: 'k:{input.a}' }")},
		"version of a child": {strings.Replace(step(""), "@plan/p", "@workflow/w", 1),
			strings.Replace(step(""), "@plan/p", "@workflow/w:latest", 1)},
		"version": {top("version: '1.10'"), top("version: 1.10")},
		"built-in names": {step("when: $.flo.run_id != ''"),
			strings.Replace(step("when: $.floe.run_id != ''"), "flo.Completed", "floe.Completed", 1)},
		"signal": {waits("type: go, timeoutMs: 60000"), waits("type: go, timeout_ms: 60000"), waits("type: go, timeout: 1m")},
	} {
		want := mustParse(t, spellings[0])
		for _, other := range spellings[1:] {
			if got := mustParse(t, other); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s\nis %+v\nwant %+v", name, other, got, want)
			}
		}
	}
	d := mustParse(t, top("description: what it is for\nnamespace: shop\noutput: $.steps._start.output"))
	if d.Description != "what it is for" || d.Namespace != "shop" || d.Output == nil {
		t.Errorf("%+v", d)
	}
}

func waits(fields string) string {
	return "name: x\nstart: { waitForSignal: { " + fields + " }, transitions: { success: flo.Completed } }\n"
}
