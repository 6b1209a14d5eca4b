package lint

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Groups of packages in the table below.
const (
	primitives = "kv stream stream/processing queue ts floql action workflow"
	helpers    = "internal/arena internal/key internal/codec internal/budget internal/meter internal/rawjson"
)

// imports lists which packages of floe each package may import, except in test files:
//
//	cmd -> cmd/internal/cli -> dashboard -> floe (root) -> primitives -> internal/engine
//
// A folder that is not listed has the row of its nearest listed parent.
var imports = map[string]struct{ allowed, reason string }{
	"cmd":      {"cmd/internal/cli", "cmd is a doorway: what it does belongs into cmd/internal/cli, where it can be tested"},
	"examples": {". dashboard " + primitives, "examples show what a user can do, and a user has no internal packages"},
	"cmd/internal/cli": {". dashboard internal/budget cmd/internal/stress internal/demo internal/transport internal/rawjson internal/spelling " +
		primitives, "the command line is written against the public API"},
	"dashboard": {". dashboard/console internal/codec internal/engine internal/flow internal/rawjson internal/spelling internal/yaml " + primitives,
		"the dashboard must work on a node as well as on a remote client; it draws definitions, which internal/flow reads; " +
			"internal/codec reads the bodies of operations"},
	"dashboard/console": {"", "the console is files and a handler of them"},
	".": {"internal/auth internal/budget internal/engine internal/shard internal/transport internal/primitive " +
		"internal/workers internal/metrics " +
		primitives, "the root puts primitives and shards together; it knows nothing of what serves it"},
	"kv": {"internal/engine internal/protocol internal/workloop " + helpers,
		"primitives know the engine, not each other"},
	"stream": {"internal/protocol internal/engine internal/workloop internal/workers " + helpers,
		"primitives know the engine, not each other"},
	"stream/processing": {"stream kv queue ts internal/engine internal/protocol internal/document internal/pipeline " + helpers,
		"processing takes only command types of its sources and sinks"},
	"queue": {"internal/engine internal/protocol internal/workloop internal/workers " + helpers,
		"primitives know the engine, not each other"},
	"ts": {"floql internal/agg internal/engine internal/protocol internal/points/line internal/points internal/pushdown " + helpers,
		"primitives know the engine, not each other; ts carries out FloQL"},
	"floql": {"internal/agg internal/codec internal/pushdown internal/spelling", "FloQL knows nothing of storage"},
	"action": {"internal/engine internal/workloop internal/protocol internal/workers internal/cron internal/schedule " +
		helpers, "primitives know the engine, not each other"},
	"workflow": {"action internal/document internal/protocol internal/cron internal/engine internal/flow internal/schedule " +
		helpers, "a workflow invokes actions; it knows no other primitive"},
	"workflow/workflowtest": {"action stream workflow internal/engine", "tests of host programs run the machine itself"},
	"internal/engine": {"internal/wait " + helpers,
		"the engine knows no primitive and no shard, so that machines stay deterministic and testable alone"},
	"internal/shard": {"internal/engine internal/overlayfs internal/raftlog " + helpers,
		"a shard knows machines only through the engine"},
	"internal/transport": {"internal/auth internal/engine internal/shard " + helpers,
		"the transport carries what shards say, whatever it means"},
	"internal/primitive": {"internal/auth internal/engine " + primitives, "the list of primitives names them, and nothing else"},
	"internal/raftlog":   {"", "the log store must be provable alone"},
	"internal/agg":       {"internal/codec", "aggregation knows nothing of storage, nor of the language"},
	"internal/auth": {"internal/engine " + helpers,
		"who may do what is told from commands and queries, whatever machine they are for"},
	"internal/arena":     {"", "helpers depend on nothing"},
	"internal/key":       {"", "helpers depend on nothing"},
	"internal/overlayfs": {"", "helpers depend on nothing"},
	"internal/protocol":  {"internal/engine internal/codec", "what machines ask of each other, whichever they are"},
	"internal/codec":     {"internal/rawjson internal/spelling", "helpers depend on nothing else"},
	"internal/cron":      {"", "what times a schedule has is told apart from who runs it"},
	"internal/schedule":  {"internal/cron internal/engine " + helpers, "the duty of schedules knows nothing of what a tick does"},
	"internal/document": {"internal/rawjson internal/spelling internal/yaml",
		"what reads and writes documents knows nothing of what they define"},
	"internal/flow": {"internal/codec internal/cron internal/document internal/expression internal/rawjson",
		"the language of definitions knows nothing of who runs them"},
	"internal/expression": {"internal/codec internal/document internal/rawjson",
		"expressions know nothing of where their values come from"},
	"internal/pipeline": {"internal/agg internal/codec internal/document internal/expression internal/rawjson",
		"what jobs compute knows nothing of who runs them"},
	"internal/points/line": {"", "a parser knows nothing of what becomes of its lines"},
	"internal/points":      {"internal/codec", "a codec knows nothing of who keeps its bytes"},
	"internal/pushdown":    {"internal/agg", "what floql and ts exchange knows neither of them: floql imports it"},
	"internal/budget":      {"", "helpers depend on nothing"},
	"internal/meter":       {"", "helpers depend on nothing"},
	"internal/metrics": {"internal/engine internal/meter internal/shard " + primitives,
		"metrics are made of what the node and its primitives say of themselves"},
	"internal/test/plant": {"", "helpers depend on nothing"},
	"internal/rawjson":    {"", "helpers depend on nothing"},
	"internal/spelling":   {"", "helpers depend on nothing"},
	"internal/wait":       {"", "who may proceed is decided without reading state, so that it can be tested alone"},
	"internal/workers":    {"internal/engine internal/workloop " + helpers, "the list of workers knows nothing of what they work on"},
	"internal/yaml":       {"", "helpers depend on nothing"},
	"internal/workloop":   {"internal/engine", "the loop knows nothing of what it works off; of the engine it takes the errors"},
	"internal/lint":       {"", "the rules apply to the project, they are no part of it"},
	// Test suites; only tests import them.
	"internal/test/check": {". internal/engine internal/shard internal/test/toy " + helpers + " " + primitives,
		"checkers compare what nodes answer with what they promise"},
	"cmd/internal/stress": {". " + primitives, "loads use what users use"},
	"cmd/internal/bench": {". dashboard cmd/internal/stress internal/engine internal/primitive internal/shard internal/raftlog " +
		helpers + " " + primitives, "benchmarks measure nodes beside bare files and databases"},
	"internal/demo": {". " + primitives, "a demo shows what users can do, by what they have"},
	"internal/test/e2e": {". dashboard internal/engine internal/primitive internal/shard internal/test/check " + primitives,
		"the command line is exercised as a process"},
	"internal/test/floqltest": {"floql internal/pushdown", "the tests of the language run on any source"},
	"internal/test/workload": {"internal/auth internal/engine internal/test/check " + primitives,
		"works use what users use, and say what is checked of it"},
	"internal/test/lesson":      {"", "a lesson is a program that prints; its test needs nothing of floe"},
	"internal/test/mutants":     {"", "it changes sources, and knows none of them"},
	"internal/test/quota":       {"", "any suite may count its rounds"},
	"internal/test/reference":   {"", "a page is made by the test beside its tables"},
	"internal/test/machinetest": {"internal/engine internal/shard internal/test/quota " + helpers, "a rig runs machines of any kind"},
	"internal/test/toy":         {"internal/engine " + helpers, "a machine for tests is written like any other"},
	"internal/test/golden": {"internal/engine internal/shard internal/auth internal/test/workload internal/primitive " + helpers +
		" " + primitives, "it records and reads what all primitives write"},
	"internal/test/sim": {". internal/engine internal/shard internal/raftlog internal/transport internal/test/check " +
		"internal/primitive internal/test/toy " + helpers + " " + primitives, "the simulator replaces the world around shards"},
}

// behind lists libraries that only one package imports, so that they can be replaced there.
var behind = map[string]struct{ by, reason string }{
	"gopkg.in/yaml.v3": {"internal/yaml", "it is archived"},
}

func TestSeams(t *testing.T) {
	for _, s := range sources(t) {
		for _, spec := range s.ast.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if seam, ok := behind[name]; ok && s.dir() != seam.by {
				t.Errorf("%s: only %s imports %s: %s", s.at(spec), seam.by, name, seam.reason)
			}
		}
	}
}

func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		row := s.dir()
		for imports[row].reason == "" && row != "." {
			row = path.Dir(row)
		}
		if row == "." && s.dir() != "." {
			t.Errorf("%s: add a row for the package to the table in internal/lint/imports_test.go: what may it import, and why no more?",
				s.name)
			continue
		}
		allowed := strings.Fields(imports[row].allowed)
		for _, spec := range s.ast.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			imported, own := strings.CutPrefix(name, module)
			if !own {
				continue
			}
			imported = strings.TrimPrefix(imported, "/")
			if imported == "" {
				imported = "."
			}
			if !slices.Contains(allowed, imported) {
				t.Errorf("%s: %s must not import %s: %s", s.at(spec), row, name, imports[row].reason)
			}
		}
	}
}
