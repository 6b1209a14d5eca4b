package flow

import (
	"slices"
	"strings"
	"testing"
)

// TestReference: every table, key, path and operator that the parsers accept is documented, with
// its type, and nothing else.
func TestReference(t *testing.T) {
	known := make(map[string]bool)
	for _, table := range tables() {
		known[table.name] = true
		if tableDocs[table.name] == "" || !slices.Contains(tableOrder, table.name) {
			t.Errorf("table %s is not documented", table.name)
		}
		for _, k := range table.keys {
			name := table.name + "." + k.names[0]
			if known[name] = true; keyDoc(table.name, k.names[0]) == "" {
				t.Errorf("key %s is not documented", name)
			}
			if k.kind == "" && !slices.Contains([]string{"workflow.start", "parallel.as", "schema.const"}, name) {
				t.Errorf("key %s has no type", name)
			}
		}
	}
	for name := range tableDocs {
		if !known[name] {
			t.Errorf("there is no table %s", name)
		}
	}
	for name := range keyDocs {
		if !known[name] {
			t.Errorf("there is no key %s", name)
		}
	}
	for _, doc := range rootDocs {
		text := strings.NewReplacer("`", "", "<", "", ">", "").Replace(doc[0])
		if p, err := parsePath(text, pathRules{item: true}); err != nil {
			t.Errorf("%s: %v", doc[0], err)
		} else {
			known["root "+string('0'+rune(p.root))] = true
		}
	}
	for root := RootInput; root < RootStepInput; root++ {
		if !known["root "+string('0'+rune(root))] {
			t.Errorf("root %d is not documented", root)
		}
	}
}

// TestOperatorsAreDocumented: each operator has an example, and all examples hold.
func TestOperatorsAreDocumented(t *testing.T) {
	spelled := make(map[string]bool)
	for _, o := range operatorDocs {
		e, err := compileExpr(o[1])
		if err != nil {
			t.Errorf("%s: %v", o[1], err)
			continue
		}
		if holds, err := e.Eval(testValues); !holds || err != nil {
			t.Errorf("%s: %t, %v", o[1], holds, err)
		}
		for form := range strings.SplitSeq(o[0], ",") {
			spelled[form] = true
		}
	}
	for _, o := range []string{"and", "&&", "or", "||", "+", "-", "*", "/", "%", "**", "^", "==", "!=", "<", "<=", ">", ">=", "in",
		"contains", "startsWith", "endsWith", "matches", "??", ".."} {
		_, err := compileExpr("(input.n " + o + " input.n) != null")
		if (err == nil) != (spelled[o] && o != "..") {
			t.Errorf("operator %s: documented: %t, compiled: %v", o, spelled[o], err)
		}
	}
}
