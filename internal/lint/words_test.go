package lint

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// phrases must not come back. Each has the words to use instead.
var phrases = []struct{ pattern, instead string }{
	{`(of|by|to|for) whom`, "name the actor: the caller, the consumer"},
	{`(?i:whoever)`, "name the actor: any client, the caller"},
	{`([Ss]ome|[Nn]o|[Ee]very|[Aa]ny)body`, "name the actor: a client, no worker, all members"},
	{`(?i:there is none)`, "if it does not exist; or nil, zero, empty"},
	{`(is|are|was|were) told`, "receives, is notified of, is set to"},
	{`(hears?|heard) (of|from)`, "receives, last heartbeat"},
	{`who (has|asks|wants)`, "name the actor"},
	{`what (there is|is to be|is had)`, "name the thing"},
	{`(?i:goes on)`, "continues, proceeds"},
	{`(?i:go on)`, "continue, proceed, resume"},
	{`by itself`, "automatically; alone"},
	{`died of`, "reason"},
	{`is there twice`, "is listed twice, is a duplicate"},
	{`which there is not`, "which does not exist"},
	{`which means nothing`, "unknown"},
	{`good for nothing`, "not valid"},
	{`is no (policy|rule|id) of`, "unknown policy, invalid id"},
	{`of which a share`, "part of it"},
	{`(?i:can not)`, "cannot"},
	{`as far as it is`, "if"},
	{`said every`, "sent every"},
}

// TestWords: documents, comments, errors and help texts, and the texts of the console, do not use
// phrases that read as if translated.
func TestWords(t *testing.T) {
	var all []string
	for _, p := range phrases {
		all = append(all, p.pattern)
	}
	any := regexp.MustCompile(`\b(` + strings.Join(all, "|") + `)\b`)
	for _, name := range tracked(t) {
		if !worded(name) {
			continue
		}
		for i, line := range strings.Split(read(t, name), "\n") {
			found := any.FindString(line)
			if found == "" {
				continue
			}
			for _, p := range phrases {
				if regexp.MustCompile(`^` + p.pattern + `$`).MatchString(found) {
					t.Errorf("%s:%d: %q: write %s", name, i+1, found, p.instead)
				}
			}
		}
	}
}

// worded reports whether the texts of a file are checked: documents, product code and the console.
func worded(name string) bool {
	switch {
	case strings.HasPrefix(name, "dashboard/console/dist/"), name == "CHANGELOG.md", strings.HasPrefix(name, "internal/test/"),
		strings.HasPrefix(name, "dashboard/console/e2e/"), strings.HasPrefix(name, "dashboard/console/test/"),
		strings.HasSuffix(name, "_test.go"), strings.Contains(name, "/testdata/"), strings.HasPrefix(name, "internal/lint/"):
		return false
	}
	switch path.Ext(name) {
	case ".go", ".md", ".ts", ".tsx":
		return true
	}
	return false
}
