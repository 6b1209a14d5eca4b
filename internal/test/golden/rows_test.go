package golden

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/engine"
)

// TestRowKinds: each kind of row of a machine is in the golden directory, or in the state of the
// golden log, or has a reason for its absence.
func TestRowKinds(t *testing.T) {
	var s state
	readJSON(t, filepath.Join(present, "log.json"), &s)
	stateDir := filepath.Join(unpack(t, readFile(t, filepath.Join(present, "directory.gz"))), "state")
	db, err := pebble.Open(stateDir, &pebble.Options{ReadOnly: true, Logger: pebbleLog{t}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	it, err := db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		s.Rows[rowKind(it.Key()[2], it.Key()[3:])]++
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	for machine, dir := range machines {
		kinds := rowKinds(t, dir)
		if len(kinds) == 0 {
			t.Errorf("no kinds of rows are found in %s", dir)
		}
		for kind := range kinds {
			name := rowKind(uint8(machine), []byte(kind))
			there := s.Rows[name] > 0
			if _, excused := absentRows[name]; !there && !excused {
				t.Errorf("row %s of %s is neither in the directory nor left by the log, and not listed as absent", name, dir)
			}
		}
	}
}

// absentRows gives the reasons why kinds of rows may be absent: they exist only briefly.
var absentRows = map[string]string{
	`2 "u"`: "goes within milliseconds: a batch of a push is due",
	`2 "x"`: "only while another shard has a batch of a push",
	`3 "g"`: "goes with the first firing of its timer",
	`4 "r"`: "only while the points of a series that is forgotten are removed",
	`4 "x"`: "only while rollups are made anew of what came late",
	`7 "i"`: "only while a message is in the exchange of a stage",
	`7 "q"`: "only while a message is on its way to another section",
}

// machines maps machines to the directories of their packages.
var machines = map[engine.MachineID]string{
	engine.MachineKV: "../../../kv", engine.MachineStream: "../../../stream", engine.MachineQueue: "../../../queue",
	engine.MachineTS:     "../../../ts",
	engine.MachineAction: "../../../action", engine.MachineWorkflow: "../../../workflow",
	engine.MachineProcessing: "../../../stream/processing", engine.MachineKeys: "../../auth",
}

func rowKind(machine uint8, key []byte) string {
	return strconv.Itoa(int(machine)) + " " + strconv.Quote(string(key[:1]))
}

// drawn matches the start of a drawing of a row in a comment: 'r' | ...
var drawn = regexp.MustCompile(`^//\s+'(.)'`)

// rowKinds returns the kinds of rows of a machine: the constants named after rows or, where there
// are none, the rows drawn in comments.
func rowKinds(t *testing.T, dir string) map[string]bool {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	named, pictured := make(map[string]bool), make(map[string]bool)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.Comments {
			for _, c := range group.List {
				if m := drawn.FindStringSubmatch(c.Text); m != nil {
					pictured[m[1]] = true
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 && strings.HasPrefix(v.Names[0].Name, "row") {
				if l, ok := v.Values[0].(*ast.BasicLit); ok && l.Kind == token.CHAR {
					named[strings.Trim(l.Value, "'")] = true
				}
			}
			return true
		})
	}
	if len(named) > 0 {
		return named
	}
	return pictured
}

// pebbleLog shows only errors.
type pebbleLog struct{ t *testing.T }

func (pebbleLog) Infof(string, ...any)             {}
func (l pebbleLog) Errorf(format string, a ...any) { l.t.Errorf(format, a...) }
func (l pebbleLog) Fatalf(format string, a ...any) { l.t.Fatalf(format, a...) }
