package dashboard

import (
	_ "embed"
	"strings"
	"sync"
)

//go:embed glossary.txt
var glossaryText string

// glossary returns the entries of glossary.txt.
var glossary = sync.OnceValue(func() map[string]string {
	entries := make(map[string]string)
	for line := range strings.Lines(glossaryText) {
		if name, meaning, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.HasPrefix(name, "#") {
			entries[name] = meaning
		}
	}
	return entries
})

// described returns the meaning of a name in one of the scopes, else what it means everywhere.
func described(name string, scopes ...string) string {
	for _, scope := range scopes {
		if meaning, ok := glossary()[scope+"."+name]; ok {
			return meaning
		}
	}
	return glossary()[name]
}
