package main

import (
	"fmt"
	"os"
	"strings"
)

// The lines of docs/performance.md before and after the table.
const (
	beginMark = "<!-- bench: begin -->\n"
	endMark   = "<!-- bench: end -->\n"
)

// replaceTable returns the text with the table between the marks replaced.
func replaceTable(text, table string) (string, error) {
	before, rest, found := strings.Cut(text, beginMark)
	if !found {
		return "", fmt.Errorf("no line %q", strings.TrimSpace(beginMark))
	}
	_, after, found := strings.Cut(rest, endMark)
	if !found {
		return "", fmt.Errorf("no line %q behind %q", strings.TrimSpace(endMark), strings.TrimSpace(beginMark))
	}
	return before + beginMark + "\n" + strings.TrimSpace(table) + "\n\n" + endMark + after, nil
}

func writePage(name, table string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	replaced, err := replaceTable(string(text), table)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, []byte(replaced), 0o644)
}
