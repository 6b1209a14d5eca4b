package flow

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/expression"
)

// samples are definitions that use every key.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	found := make(map[string][]byte)
	for _, pattern := range []string{"testdata/*.yaml", "testdata/*.json"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			found[name] = src
		}
	}
	return found
}

func mustParse(t testing.TB, src string) *Definition {
	t.Helper()
	d, problems := Parse([]byte(src))
	if d == nil {
		t.Fatalf("Parse: %v\nof %s", problems, src)
	}
	return d
}

func encode(d *Definition) []byte {
	e := codec.NewEncoder(nil)
	d.Code(&e)
	return e.Encoded()
}

func decodeDefinition(record []byte) (*Definition, error) {
	d := new(Definition)
	c := codec.NewDecoder(record)
	d.Code(&c)
	return d, c.Done()
}

// TestLimits: what is just allowed has a compiled form, and one more is refused.
func TestLimits(t *testing.T) {
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, at := range map[string]func(n int) (src string, most int){
		"steps": func(n int) (string, int) {
			return minimal + "steps:\n" + many(n-1, "  s%d: { sleep: 5, transitions: { success: flo.Completed } }\n"), MaxSteps
		},
		"transitions": func(n int) (string, int) {
			return "name: x\nstart:\n  waitForSignal: { type: a, timeout: 5s }\n  transitions:\n    success: flo.Completed\n" +
				many(n-1, "    o%d: flo.Completed\n"), MaxTransitions
		},
		"terminals": func(n int) (string, int) {
			return minimal + "terminals:\n" + many(n, "  t%d: failed\n"), MaxTerminals
		},
		"plans": func(n int) (string, int) {
			return minimal + "plans:\n" + many(n, "  p%d: { executors: [{ name: e, run: '@actions/e' }] }\n"), MaxPlans
		},
		"executors": func(n int) (string, int) {
			return minimal + "plans:\n  p:\n    executors:\n" + many(n, "      - { name: e%d, run: '@actions/e' }\n"), MaxExecutors
		},
		"branches": func(n int) (string, int) {
			return "name: x\nstart:\n  transitions: { success: flo.Completed }\n  parallel:\n    branches:\n" +
				many(n, "      b%d: '@actions/b'\n"), MaxBranches
		},
		"attributes": func(n int) (string, int) {
			return minimal + "searchAttributes:\n" + many(n, "  - { name: a%d, from: input.a }\n"), MaxAttributes
		},
		"signals": func(n int) (string, int) {
			return minimal + "signals:\n" + many(n, "  - a%d\n"), MaxSignals
		},
		"errors": func(n int) (string, int) {
			return minimal + "plans: { p: { executors: [{ name: e, run: '@actions/e' }], errors: { fatal: [" + many(n, "e%d,") +
				"] } } }", MaxNames
		},
		"paths": func(n int) (string, int) {
			return minimal + "output: [" + many(n, "$.input.a%d,") + "]", maxPaths
		},
		"paths of a key": func(n int) (string, int) {
			return minimal + "plans: { p: { executors: [{ name: e, run: '@actions/e' }], cache: { key: '" + strings.Repeat("{input}", n) +
				"' } } }", maxKey / len("{input}")
		},
		"members of a path": func(n int) (string, int) {
			return minimal + "output: $.steps._start.output" + strings.Repeat(".a", n), expression.MaxHops
		},
		"members of a path in a condition": func(n int) (string, int) {
			return strings.Replace(minimal, "run:", "when: 'signals.a"+strings.Repeat(".a", n)+"', run:", 1), expression.MaxHops
		},
		"terms": func(n int) (string, int) {
			return strings.Replace(minimal, "run:", "when: '1 in 1..2"+strings.Repeat("|| 1 in 1..2", n-1)+"', run:", 1), 1000 / 6
		},
		"schemas": func(n int) (string, int) {
			return minimal + "input_schema: " + strings.Repeat("{items: ", n-1) + "{}" + strings.Repeat("}", n-1), maxSchemaDepth
		},
		"attempts": func(n int) (string, int) {
			return strings.Replace(minimal, "run:", fmt.Sprintf("retry: { max: %d }, run:", n), 1), MaxAttempts
		},
	} {
		_, most := at(2)
		src, _ := at(most)
		d, problems := Parse([]byte(src))
		if d == nil {
			t.Errorf("%d %s: %v", most, name, problems)
			continue
		}
		if got, err := decodeDefinition(encode(d)); err != nil || !reflect.DeepEqual(got, d) {
			t.Errorf("%d %s: %v", most, name, err)
		}
		src, _ = at(most + 1)
		if d, problems := Parse([]byte(src)); d != nil || len(problems) == 0 {
			t.Errorf("%d %s: %+v", most+1, name, d)
		}
	}
}

// keysOfTwoWords are those whose spelling can differ.
const keysOfTwoWords = "timeout_ms max_steps input_schema search_attributes input_mapping max_attempts initial_delay_ms max_delay_ms " +
	"within_ms base_delay_ms " +
	"wait_for_signal on_timeout max_concurrency max_concurrent failure_threshold cooldown_ms half_open_max_calls rate_limit " +
	"max_per_second max_per_minute " +
	"max_per_hour window_ms min_samples ttl_ms invalidate_on catch_up catch_up_limit consumer_group batch_size batch_timeout_ms " +
	"additional_properties " +
	"min_length max_length min_items max_items initial_delay max_delay backoff_ms classify_error key_template jitter_ms"

// TestSpellings: every key may be written in snake_case and in camelCase.
func TestSpellings(t *testing.T) {
	used := make(map[string]bool)
	for name, src := range samples(t) {
		want := mustParse(t, string(src))
		snake, camels := string(src), string(src)
		for key := range strings.FieldsSeq(keysOfTwoWords) {
			either := regexp.MustCompile(`\b(` + key + `|` + document.Camel(key) + `)("?:)`)
			if either.MatchString(snake) {
				used[key] = true
			}
			snake = either.ReplaceAllString(snake, key+"$2")
			camels = either.ReplaceAllString(camels, document.Camel(key)+"$2")
		}
		for _, respelt := range []string{snake, camels} {
			if got := mustParse(t, respelt); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, want %+v, of %s", name, got, want, respelt)
			}
		}
	}
	for key := range strings.FieldsSeq(keysOfTwoWords) {
		if !used[key] {
			t.Errorf("no sample uses %s", key)
		}
	}
}

func TestSamples(t *testing.T) {
	for name, src := range samples(t) {
		d, problems := Parse(src)
		if len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		got, err := decodeDefinition(encode(d))
		if err != nil || !reflect.DeepEqual(got, d) {
			t.Errorf("%s: %v\nread %+v\nwant %+v", name, err, got, d)
		}
	}
}
