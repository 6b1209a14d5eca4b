package cli

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
	"github.com/floedb/floe/workflow"
)

// stores are the types whose methods are operations: the stores and their collections.
var stores = []reflect.Type{
	reflect.TypeFor[*kv.Store](), reflect.TypeFor[kv.History](), reflect.TypeFor[*kv.Lock](),
	reflect.TypeFor[*stream.Store](), reflect.TypeFor[stream.Groups](), reflect.TypeFor[stream.Pending](),
	reflect.TypeFor[*queue.Store](), reflect.TypeFor[queue.Messages](), reflect.TypeFor[queue.DeadLetters](),
	reflect.TypeFor[*ts.Store](), reflect.TypeFor[ts.SeriesList](),
	reflect.TypeFor[*action.Store](), reflect.TypeFor[action.Runs](), reflect.TypeFor[action.Schedules](),
	reflect.TypeFor[action.Workers](),
	reflect.TypeFor[*workflow.Store](), reflect.TypeFor[workflow.Runs](), reflect.TypeFor[workflow.History](),
	reflect.TypeFor[workflow.Versions](), reflect.TypeFor[workflow.Schedule](),
	reflect.TypeFor[*processing.Store](), reflect.TypeFor[processing.Savepoints](),
	reflect.TypeFor[*floe.Namespaces](), reflect.TypeFor[*floe.Keys](),
}

// storeMethods returns the names of their methods, without "Store".
func storeMethods() []string {
	all := []string{"floe.Txn", "floe.Stats", "floe.StatsOf"} // of a Node or Client, whose other methods return stores
	for _, store := range stores {
		for i := range store.NumMethod() {
			name := store.Method(i).Name
			if name == "Namespace" {
				continue
			}
			of := strings.TrimPrefix(store.String(), "*")
			all = append(all, strings.TrimSuffix(of, ".Store")+"."+name)
		}
	}
	return all
}

// routes returns the routes that the table of roles of package dashboard lists.
func routes(t *testing.T) (all []string) {
	t.Helper()
	table, err := os.ReadFile(filepath.Join(root, "dashboard", "testdata", "roles.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) == 3 && !strings.HasPrefix(line, "#") {
			all = append(all, fields[1]+" "+strings.TrimPrefix(fields[2], "/api/v1"))
		}
	}
	return all
}

// commandPaths returns the commands that do something, without "floe".
func commandPaths(cmd *cobra.Command) (all []string) {
	below := cmd.Commands()
	if len(below) == 0 && cmd.Name() != "help" && !cmd.Hidden {
		return []string{strings.TrimPrefix(cmd.CommandPath(), "floe ")}
	}
	for _, c := range below {
		all = append(all, commandPaths(c)...)
	}
	return all
}

// TestSurfaces: what one of Go, HTTP and the command line can do, the others can do too, or
// testdata/surfaces.txt says why not.
func TestSurfaces(t *testing.T) {
	const table = "testdata/surfaces.txt"
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(Process{Stdout: io.Discard, Stderr: io.Discard, LookupEnv: lookup(nil)})
	exist := [3][]string{storeMethods(), routes(t), commandPaths(root)}
	var listed [3]map[string]bool
	for i := range listed {
		listed[i] = make(map[string]bool)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if n++; strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		columns := strings.Split(strings.TrimSpace(line), "|")
		if len(columns) != 4 {
			t.Errorf("%s:%d: %d columns, want 4", table, n, len(columns))
			continue
		}
		missing := false
		for i := range listed {
			for name := range strings.SplitSeq(columns[i], ",") {
				if name = strings.TrimSpace(name); name == "-" {
					missing = true
				} else {
					listed[i][name] = true
				}
			}
		}
		if reason := strings.TrimSpace(columns[3]); missing != (reason != "") {
			t.Errorf("%s:%d: a row has a reason if and only if something is missing", table, n)
		}
	}
	for i, kind := range []string{"method", "route", "command"} {
		for _, name := range exist[i] {
			if !listed[i][name] && !matchesAny(listed[i], name) {
				t.Errorf("the %s %q is in no row of %s: add it, with what does the same elsewhere", kind, name, table)
			}
			delete(listed[i], name)
		}
		for name := range listed[i] {
			if !strings.Contains(name, "*") {
				t.Errorf("%s names the %s %q, which does not exist", table, kind, name)
			}
		}
	}
}

// matchesAny reports whether a name matches one of the patterns with *.
func matchesAny(patterns map[string]bool, name string) bool {
	for p := range patterns {
		if strings.Contains(p, "*") {
			expr := strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, ".*")
			if regexp.MustCompile("^" + expr + "$").MatchString(name) {
				return true
			}
		}
	}
	return false
}
