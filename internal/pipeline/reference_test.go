package pipeline

import (
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/expression"
)

// TestReference: every table, key, condition and function that the parsers take is documented, and
// nothing else.
func TestReference(t *testing.T) {
	known := make(map[string]bool)
	kinds := kindNames()
	for _, table := range tables() {
		known[table.name] = true
		if tableDocs[table.name] == "" {
			t.Errorf("table %s is not documented", table.name)
		}
		if kind, ok := strings.CutPrefix(table.name, "operators."); ok {
			kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == kind })
		}
		for _, names := range table.keys {
			known[table.name+"."+names[0]] = true
			if keyDocs[table.name+"."+names[0]] == "" {
				t.Errorf("key %s.%s is not documented", table.name, names[0])
			}
		}
	}
	if len(kinds) > 0 {
		t.Errorf("operators without documentation: %v", kinds)
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
	forms := []string{"not_empty", "key_not_empty"}
	for name := range shortForms {
		forms = append(forms, name)
	}
	for _, c := range conditionDocs {
		name, _, _ := strings.Cut(c[0], ":")
		at := slices.Index(forms, name)
		if at < 0 {
			t.Errorf("there is no condition %s", name)
			continue
		}
		if forms = slices.Delete(forms, at, at+1); name != c[0] {
			if _, err := parseCondition(c[0]); err != nil {
				t.Errorf("%s: %v", c[0], err)
			}
		}
	}
	if len(forms) > 0 {
		t.Errorf("conditions without documentation: %v", forms)
	}
	for _, f := range expression.Functions() {
		if f.Doc == "" {
			t.Errorf("function %s is not documented", f.Call)
		}
	}
}
