package lint

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// places lists the product files that import the package of a primitive, apart from the package
// itself and everyPrimitive. These are the files that a change of the primitive's API may touch,
// and that a new primitive needs. Programs that load or test floe (cmd/internal/bench,
// cmd/internal/stress, internal/demo, internal/test) are not part of the product.
var places = map[string][]string{
	"kv": {"cmd/internal/cli/bench.go", "cmd/internal/cli/kv.go", "cmd/internal/cli/kv_lock.go", "dashboard/events.go",
		"dashboard/kv.go", "dashboard/kvwork.go", "dashboard/txnparts.go", "stream/processing/sink.go"},
	"queue": {"cmd/internal/cli/queue.go", "cmd/internal/cli/queue_admin.go", "cmd/internal/cli/queue_dlq.go", "dashboard/queues.go",
		"dashboard/queuework.go", "dashboard/txnparts.go", "internal/metrics/contents.go", "stream/processing/sink.go"},
	"stream": {"audit.go", "cmd/internal/cli/group.go", "cmd/internal/cli/stream.go", "cmd/internal/cli/streamrecord.go",
		"dashboard/groups.go", "dashboard/groupwork.go", "dashboard/streams.go", "dashboard/streamwork.go", "dashboard/txnparts.go",
		"internal/metrics/contents.go"},
	"ts": {"cmd/internal/cli/ts.go", "cmd/internal/cli/ts_read.go", "dashboard/chart.go", "dashboard/timeseries.go",
		"dashboard/txnparts.go", "stream/processing/sink.go"},
	"action": {"cmd/internal/cli/action.go", "cmd/internal/cli/schedule.go", "cmd/internal/cli/worker.go",
		"cmd/internal/cli/workerlife.go", "dashboard/actions.go", "dashboard/actionwork.go", "dashboard/schedulework.go",
		"dashboard/txnparts.go", "dashboard/workerwork.go", "internal/metrics/contents.go", "workflow/call_action.go"},
	"workflow": {"cmd/internal/cli/workflow.go", "cmd/internal/cli/workflow_info.go", "cmd/internal/cli/workflow_run.go",
		"dashboard/txnparts.go", "dashboard/workflow_runs.go", "dashboard/workflow_starts.go", "dashboard/workflows.go",
		"internal/metrics/contents.go"},
	"stream/processing": {"cmd/internal/cli/processing.go", "config.go", "dashboard/console.go", "dashboard/jobwork.go",
		"dashboard/processing.go", "internal/metrics/contents.go"},
}

// everyPrimitive lists the files that have a line for each primitive.
var everyPrimitive = []string{"floe.go", "internal/primitive/primitive.go", "stores.go"}

// TestPlacesOfAPrimitive: a new primitive needs few files outside its own package.
func TestPlacesOfAPrimitive(t *testing.T) {
	found := make(map[string][]string)
	for _, s := range sources(t) {
		if s.isTest() || !ofProduct(s) {
			continue
		}
		for _, spec := range s.ast.Imports {
			name, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
			if _, primitive := places[name]; ok && primitive && !strings.HasPrefix(s.name, name+"/") {
				found[name] = append(found[name], s.name)
			}
		}
	}
	for name, want := range places {
		want = slices.Sorted(slices.Values(slices.Concat(want, everyPrimitive)))
		if got := slices.Sorted(slices.Values(found[name])); !slices.Equal(got, want) {
			t.Errorf("package %s is imported by\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func ofProduct(s *source) bool {
	for _, dir := range []string{"examples/", "cmd/internal/bench/", "cmd/internal/stress/", "internal/demo/", "internal/test/",
		"workflow/workflowtest/"} {
		if strings.HasPrefix(s.name, dir) {
			return false
		}
	}
	return true
}

// maxOperationFiles bounds the files of a package that name an operation: its row, its behaviour,
// the method of the store, and the operation of a transaction.
const maxOperationFiles = 4

// moreFiles lists operations with more files. Claims block, so the store has a separate loop and a
// check for claimable work. Streams forward records to shards and streams by appends.
var moreFiles = map[string]int{"queue.dequeue": 5, "stream.readGroup": 5, "stream.appendMessages": 6}

// TestFilesOfAnOperation: an operation is declared once, and few files name it.
func TestFilesOfAnOperation(t *testing.T) {
	byDir := make(map[string][]*source)
	for _, s := range sources(t) {
		if !s.isTest() {
			byDir[s.dir()] = append(byDir[s.dir()], s)
		}
	}
	rows := 0
	for dir, files := range byDir {
		for _, s := range files {
			for _, row := range commandRows(s.ast) {
				rows++
				var naming []string
				for _, in := range files {
					if row.isNamedIn(in.ast) {
						naming = append(naming, in.name)
					}
				}
				most := max(maxOperationFiles, moreFiles[dir+"."+row.variable])
				if len(naming) > most {
					t.Errorf("%d files name the operation %s of %s, want %d at most: %s", len(naming), row.variable, dir, most,
						strings.Join(naming, " "))
				}
			}
		}
	}
	if rows < 80 {
		t.Errorf("found %d rows of commands, want more", rows)
	}
}

// commandRow is a row of a command table: the names by which other files refer to it.
type commandRow struct{ variable, kind string }

// commandRows returns the rows that a file declares: variables of type engine.CommandRow.
func commandRows(f *ast.File) (rows []commandRow) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range g.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok || len(v.Names) != len(v.Values) {
				continue
			}
			for i, value := range v.Values {
				if u, ok := value.(*ast.UnaryExpr); ok {
					value = u.X
				}
				lit, ok := value.(*ast.CompositeLit)
				if !ok || !isRow(lit.Type) {
					continue
				}
				row := commandRow{variable: v.Names[i].Name}
				for _, e := range lit.Elts {
					if field, ok := e.(*ast.KeyValueExpr); ok && field.Key.(*ast.Ident).Name == "Kind" {
						if kind, ok := field.Value.(*ast.Ident); ok {
							row.kind = kind.Name
						}
					}
				}
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// isRow reports whether a type is an instance of engine.CommandRow.
func isRow(t ast.Expr) bool {
	i, ok := t.(*ast.IndexListExpr)
	return ok && selector(i.X) == "engine.CommandRow"
}

// isNamedIn reports whether a file uses the row's variable or its kind.
func (r commandRow) isNamedIn(f *ast.File) (named bool) {
	var look func(n ast.Node) bool
	look = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr: // x.name is a field or a method
			ast.Inspect(n.X, look)
			return false
		case *ast.KeyValueExpr: // so is name: value
			ast.Inspect(n.Value, look)
			return false
		case *ast.Field:
			ast.Inspect(n.Type, look)
			return false
		case *ast.FuncDecl: // and the name of a method
			ast.Inspect(n.Type, look)
			if n.Body != nil {
				ast.Inspect(n.Body, look)
			}
			return false
		case *ast.Ident:
			// An identifier declared inside a function has an object outside the file's scope.
			isOurs := n.Obj == nil || f.Scope.Lookup(n.Name) == n.Obj
			named = named || isOurs && (n.Name == r.variable || n.Name == r.kind)
		}
		return !named
	}
	ast.Inspect(f, look)
	return named
}
