package flow

import "fmt"

// tableOrder is the order of the tables in the reference.
var tableOrder = []string{
	"workflow", "step", "call", "retry", "poll", "wait_for_signal", "sleep", "parallel", "terminals", "plans", "executors", "breaker",
	"rate_limit", "tracking", "health",
	"cache", "fallback", "errors", "schedule", "trigger", "search_attributes", "signals", "retention", "schema",
}

// tableDocs describes the tables of definitions.
var tableDocs = map[string]string{
	"workflow": "The definition as a whole.",
	"step": "A step has exactly one of `run`, `wait_for_signal`, `sleep` and `parallel`. `input`, `retry`, `poll` and `timeout_ms` " +
		"belong to `run`; with `wait_for_signal`, `timeout_ms` is " +
		"the timeout of the wait.",
	"call":  "A call of an action, plan or workflow: a branch of a parallel step, or a compensation. The target alone is enough.",
	"retry": "How often a failed call is repeated. It replaces the retries of the action.",
	"poll": "How a call whose outcome is `pending` is repeated, with the same idempotency key. After the last poll the outcome is " +
		"`timeout`. Without `poll`, `pending` is an outcome like " +
		"any other.",
	"wait_for_signal": "Waits for a signal of the run, whose payload is the output. `outcome` in the payload names the outcome if the " +
		"step has a transition for it. The type alone is enough.",
	"sleep": "Waits for a time: a duration alone, or a table with one of `ms` and `until`.",
	"parallel": "Makes several calls at the same time: `branches`, or one call for each element of the array `each`. The " +
		"output has those of the branches, by name or in order.",
	"terminals": "An end of a run, by name. The status alone is enough. Every workflow has `flo.Completed`, `flo.Failed`, " +
		"`flo.Cancelled` and `flo.TimedOut`. The prefix `flo` is that of Flo, whose definitions floe reads; `floe` means the same.",
	"plans":     "A choice between executors, by name. See the documentation of the package.",
	"executors": "An executor of a plan.",
	"breaker":   "Keeps calls away from an executor that fails.",
	"rate_limit": "Limits the calls of an executor. All limits apply; 0 is no limit. Each is a token bucket that holds as many calls " +
		"as the limit says and refills evenly: after a pause they may all " +
		"start at once, so that the first second, minute or hour can see up to twice as many. In a spread namespace each shard has " +
		"its share, and at least one call.",
	"tracking":          "How an executor treats the outcome `pending`.",
	"health":            "How the health of executors is measured: successes and failures, with older ones fading.",
	"cache":             "Remembers outputs of the outcome `success`.",
	"fallback":          "The output of a plan in place of a failure.",
	"errors":            "How the plan treats errors, by their codes or outcomes.",
	"schedule":          "Starts runs at times: one of `cron` and `interval`.",
	"trigger":           "Starts runs for records of a stream.",
	"search_attributes": "A value by which runs are found, taken from the input at the start.",
	"signals":           "A declared signal, whose payloads are validated: a list, or a table by type.",
	"retention": "How long ended runs are kept: a duration, or a table. A run is removed as soon as either limit is reached, but no " +
		"earlier than 10 s after its end, so that callers who " +
		"wait for it can still read it. In a spread namespace `runs` applies to each shard.",
	"schema": "A subset of JSON Schema.",
}

// keyDocs describes the keys of tables.
var keyDocs = map[string]string{
	"workflow.kind": "may be left out",
	"workflow.name": "required",
	"workflow.version": "of the definition, a number or name, but not `latest`. A version cannot be replaced by another " +
		"definition",
	"workflow.namespace":   "that the workflow belongs to; it is refused elsewhere. Default: any",
	"workflow.idempotency": "whether a start may, must not or must have an idempotency key",
	"workflow.timeout_ms":  "of a run; its end is `timed_out`. Default: none",
	"workflow.max_steps": fmt.Sprintf("step visits of a run in all, after which it fails; default `%d`. At most %d of them "+
		"without a wait or a call that begins", DefaultSteps, DefaultVisits),
	"workflow.retention":         "see retention",
	"workflow.input_schema":      "that the input of a run must match; see schema",
	"workflow.signals":           "see signals; other signals are accepted as well",
	"workflow.search_attributes": "see search_attributes",
	"workflow.schedule":          "see schedule",
	"workflow.trigger":           "see trigger",
	"workflow.output":            "of a completed run; default: the output of its last step",
	"workflow.start": "required: the first step, which paths and results call `_start`. It may stand in `steps` as " +
		"`start` or `_start`",
	"workflow.steps":     fmt.Sprintf("the other steps, see step; at most %d together with `start`", MaxSteps),
	"workflow.terminals": "see terminals",
	"workflow.plans":     "see plans",

	"step.when":            "the step is skipped if it is false: the outcome is `skipped`",
	"step.wait_for_signal": "see wait_for_signal",
	"step.sleep":           "see sleep",
	"step.parallel":        "see parallel",
	"step.compensate": "a call that undoes the step if the run fails, times out or is cancelled; its default input is " +
		"`{\"input\", \"output\"}` of the visit. See call",
	"step.transitions": "required: the step or terminal that each outcome leads to. `success` is among them, unless the step has " +
		"outcomes of its own",
	"step.timeout_ms": "of an attempt, from its dispatch; default: that of the action",

	"call.run":           "the action, plan or workflow to call",
	"call.input":         "of the call; default: the input of the run",
	"call.input_mapping": "the same, as JSON in text",
	"call.retry":         "see retry; default: the retries of the action",
	"call.poll":          "see poll",
	"call.timeout_ms":    "of an attempt, from its dispatch; default: that of the action",

	"retry.max_attempts": "attempts in all",
	"retry.backoff": "`constant`, `linear`, `exponential`, `exponential-jitter` (between half and all of it); with a " +
		"duration behind it (`constant-500ms`, `exp-jitter-200ms`) that is the first delay or the jitter",
	"retry.initial_delay_ms": "before the second attempt",
	"retry.max_delay_ms":     "the longest delay; not below the first",
	"retry.jitter_ms":        "up to this is added to a delay or taken away",
	"retry.within_ms":        "no attempt begins later than this after the first. Default: no limit",
	"poll.initial_delay_ms":  "before the first poll; default: `base_delay_ms`",
	"poll.max_attempts":      "polls per attempt",
	"poll.backoff":           "as of retry",
	"poll.base_delay_ms":     "before the second poll",
	"poll.max_delay_ms":      "the longest delay; not below the first",
	"poll.jitter_ms":         "as of retry",

	"wait_for_signal.type":       "required: of the signal",
	"wait_for_signal.timeout_ms": "default: none",
	"wait_for_signal.on_timeout": "the outcome after the timeout, or the step or terminal that it leads to; default `timeout`, which " +
		"ends the run as `timed_out` if it has no transition",
	"wait_for_signal.schema": "that payloads must match, beside that of `signals`; see schema. A payload that does not match is " +
		"refused while the step is waiting. Before that, a signal must " +
		"match the schema of at least one step that waits for its type; the step takes the oldest one that matches its own and leaves " +
		"the others",
	"sleep.ms":    "required unless there is `until`",
	"sleep.until": "to a time in ms or as of RFC 3339",

	"parallel.each":     "to an array; the call is made for each element",
	"parallel.as":       "name: another name for `$.item`",
	"parallel.branches": "calls by name; see call",
	"parallel.any": "how many successes end the step and cancel the other branches; at most all of them. Default: all " +
		"must succeed, and the first failure cancels the others",
	"parallel.max_concurrency": "branches at the same time; 0 is no limit",
	"parallel.input":           "of the call; default: the element",

	"terminals.status": "of the run. An unknown one counts as failed, with a warning",
	"terminals.output": "of the run; default: as of the workflow",

	"plans.selection":     "the order in which executors are tried: by priority, in turn, at random, or by priority times health",
	"plans.executors":     "required: at least one; see executors",
	"plans.health":        "see health",
	"plans.cache":         "see cache",
	"plans.fallback":      "see fallback",
	"plans.errors":        "see errors",
	"executors.name":      "required",
	"executors.action":    "the same as `run`; `x` is short for `@actions/x`",
	"executors.priority":  "higher is tried first",
	"executors.breaker":   "see breaker",
	"executors.tracking":  "see tracking",
	"executors.run":       "required: an action or workflow. Plans are not nested",
	"breaker.cooldown_ms": "how long it stays open",

	"executors.rate_limit":        "see rate_limit",
	"breaker.failure_threshold":   "failures in a row that open it",
	"breaker.half_open_max_calls": "calls at the same time after the cooldown. The first success closes it, a failure opens it again",
	"rate_limit.max_per_second":   "calls",
	"rate_limit.max_per_minute":   "calls",
	"rate_limit.max_per_hour":     "calls",
	"tracking.mode":               "`async`: a pending call is waited for until `timeout_ms` has passed",
	"tracking.timeout_ms":         "of `async`. Default: no limit",
	"health.window_ms":            "after each window both counts are multiplied by `decay`",
	"health.decay":                "what is kept of the counts",
	"health.min_samples":          "an executor with fewer counts as healthy",
	"cache.ttl_ms":                "of an output",
	"cache.key": "required, such as `charge:{input.customer_id}`. A path into `input` reads the input of the step " +
		"first, then that of the run. A missing value means no caching",
	"cache.invalidate_on": "types of signals, to any run of the workflow, that invalidate all outputs",
	"fallback.value":      "required; text that is JSON is read as such",
	"fallback.condition":  "when all executors have failed, or after the first error",
	"errors.retryable":    "only these are retried with the same executor. Default: all",
	"errors.fatal":        "these are not retried: the next executor is tried at once",

	"schedule.cron":           "five or six fields, or `@hourly` and the like",
	"schedule.interval":       "ticks at whole multiples since 1970",
	"schedule.timezone":       "of `cron`, such as `Europe/Berlin`. Default: UTC",
	"schedule.max_concurrent": "a tick is skipped and counted while this many runs of the schedule are active; 0 is no limit",
	"schedule.input":          "of the runs",
	"schedule.paused":         "whether the schedule starts paused. A later version neither pauses nor resumes it",
	"schedule.catch_up": "which of the missed ticks run: the last, none, or all up to `catch_up_limit`. One that is late " +
		"by less than a minute was not missed",
	"schedule.catch_up_limit":      "of `all`",
	"trigger.stream":               "required",
	"trigger.namespace":            "of the stream; default: that of the workflow",
	"trigger.consumer_group":       "default `wf-<name of the workflow>`",
	"trigger.mode":                 "of the group",
	"trigger.batch_size":           "records of a run. With 1 the input is the payload, with more an array of records",
	"trigger.batch_timeout_ms":     "how long the first record of a batch waits for others",
	"trigger.start":                "where a new group begins in an existing stream",
	"trigger.max_concurrent":       "active runs of the trigger; 0 is no limit",
	"search_attributes.name":       "required",
	"search_attributes.type":       "a timestamp is a number of ms or text as of RFC 3339",
	"search_attributes.from":       "required: where the value is in the input, as `$.input.customer_id` or `input.customer_id`",
	"signals.type":                 "required",
	"signals.schema":               "that payloads of the type must match, whichever step takes them; see schema",
	"retention.ms":                 "how long ended runs are kept",
	"retention.days":               "the same in days",
	"retention.runs":               "ended runs of the workflow that are kept",
	"schema.type":                  "of the value. Default: any",
	"schema.required":              "members that an object must have",
	"schema.properties":            "schemas of members",
	"schema.items":                 "schema of elements",
	"schema.enum":                  "values that are allowed",
	"schema.const":                 "JSON: the only value that is allowed",
	"schema.minimum":               "of a number",
	"schema.maximum":               "of a number",
	"schema.min_length":            "characters of a string",
	"schema.max_length":            "characters of a string",
	"schema.min_items":             "elements of an array",
	"schema.max_items":             "elements of an array",
	"schema.title":                 "title, for readers",
	"schema.additional_properties": "whether an object may have other members than `properties`",
}

// rootDocs describes the roots of paths.
var rootDocs = [][2]string{
	{"`$.input`", "input of the run"},
	{"`$.steps.<name>.output`", "output of the last visit to a step; in `compensate`, of the visit that is undone"},
	{"`$.steps.<name>.outcome`", "its outcome"},
	{"`$.signals.<type>`", "payload of the last signal of the type that a step has taken"},
	{"`$.flo.run_id`", "id of the run; `$.floe` is the same as `$.flo`"},
	{"`$.flo.timestamp`", "time of the evaluation in ms"},
	{"`$.item`", "in `parallel` with `each`: the element; `as` gives it another name"},
	{"`$.index`", "in `parallel` with `each`: its index from 0"},
}

// operatorDocs describes the operators of expressions. Each has an example that is true for the
// values of the tests.
var operatorDocs = [][3]string{
	{"and,&&", `true and 1 < 2`, "both; the right side is evaluated only if the left is true"},
	{"or,||", `true or 1 > 2`, "either; the right side is evaluated only if the left is false"},
	{"not,!", `not (1 > 2) and !false`, "negation"},
	{"==,!=", `1 == 1.0 and [1, "a"] != null`, "equality of values of any type; numbers are equal by value, null equals only null"},
	{"<,<=,>,>=", `1 < 2 and "a" <= "b" and 2 > 1 and 2 >= 2`, "order of two numbers or two strings"},
	{"+,-,*,/,%", `1 + 2 * 3 - 4 == 3 and 7 / 2 == 3.5 and 7 % 4 == 3 and "a" + "b" == "ab"`,
		"arithmetic; `+` also joins strings; `%` takes integers"},
	{"-,+", `-input.n == -7 and +input.n == 7`, "sign of a number"},
	{"in,not in", `2 in [1, 2] and 3 not in [1, 2]`, "element of an array, or member of an object"},
	{"..", `3 in 1..5`, "range of integers, only behind `in`"},
	{"contains,startsWith,endsWith", `"abc" contains "b" and "abc" startsWith "a" and "abc" endsWith "c"`, "parts of strings"},
	{"[],.", `[10, 20][0 - 1] == 20 and input.list[0] == 1`,
		"element by index, from the end if it is negative, or member by name; null if it is missing"},
	{"?:", `(1 < 2 ? "a" : "b") == "a"`, "one or the other by a condition"},
	{"??", `(input.missing ?? 7) == 7`, "the right side if the left is null"},
	{"len()", `len("abc") == 3 and len([1, 2]) == 2`, "characters of a string, elements of an array, or members of an object"},
}

// limitsOfDefinitions returns the limits that are not shown in the tables of keys.
func limitsOfDefinitions() [][2]string {
	limit := func(what string, n int64, unit string) [2]string {
		return [2]string{what, fmt.Sprintf("%d%s", n, unit)}
	}
	return [][2]string{
		limit("definition", MaxSource, " bytes"), limit("steps", MaxSteps, ""), limit("transitions of a step", MaxTransitions,
			""), limit("branches", MaxBranches, ""),
		limit("elements of `each`", MaxItems, ""), limit("nested schemas", maxSchemaDepth, ""), limit("`required` and `enum` of a schema",
			maxListed, ""),
		limit("names in a list", MaxNames, ""),
	}
}

// Size formats a number of bytes for the reference.
func Size(n int) string {
	if n > 0 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
