package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/spf13/cobra"

	"github.com/floedb/floe/internal/spelling"
)

// defaultConfigFile is read from the working directory if no other file is named.
const defaultConfigFile = "floe.toml"

// configFile is a parsed configuration file.
type configFile struct {
	name    string               // "": no file
	entries map[string]fileEntry // by key, such as "dashboard.bind"
	bad     []error              // each with its line
}

type fileEntry struct {
	text    string // in the format of a flag
	spelled string // file, line, key and value
}

// findConfigFile reads the named file, or the default one. A missing default file is not an error.
func findConfigFile(cmd *cobra.Command, p Process) (*configFile, error) {
	name, from := cmd.Flag("config").Value.String(), "--config"
	if env, _ := p.LookupEnv("FLOE_CONFIG"); env != "" && !cmd.Flags().Changed("config") {
		name, from = env, "FLOE_CONFIG"
	}
	chosen := name != ""
	if !chosen {
		name = defaultConfigFile
	}
	b, err := readSmall(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !chosen:
		return &configFile{}, nil
	case err != nil:
		return nil, &usageError{fmt.Errorf("%s=%s: %w", from, name, err), helpHint(cmd)}
	}
	return parseConfigFile(name, b), nil
}

// maxSmallFile is the maximum size of a settings file. A device named by mistake then causes an
// error instead of exhausting the memory.
const maxSmallFile = 1 << 20

// readSmall reads a settings file.
func readSmall(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSmallFile+1))
	if err == nil && len(b) > maxSmallFile {
		err = fmt.Errorf("is longer than %d bytes", maxSmallFile)
	}
	return b, err
}

// parseConfigFile parses a TOML file. The field bad lists all mistakes.
func parseConfigFile(name string, b []byte) *configFile {
	f := &configFile{name: name, entries: make(map[string]fileEntry)}
	var document map[string]any
	if err := toml.Unmarshal(b, &document); err != nil {
		f.bad = []error{f.syntaxError(err)}
		return f
	}
	lines := linesOf(b)
	f.walk("", document, lines)
	slices.SortStableFunc(f.bad, func(a, b error) int { return lineOf(a) - lineOf(b) })
	return f
}

// lineError is a mistake on a line.
type lineError struct {
	name string
	line int
	text string
}

func (e *lineError) Error() string { return fmt.Sprintf("%s:%d: %s", e.name, e.line, e.text) }

func lineOf(err error) int {
	if e := (*lineError)(nil); errors.As(err, &e) {
		return e.line
	}
	return 0
}

func (f *configFile) syntaxError(err error) error {
	if bad := (*toml.DecodeError)(nil); errors.As(err, &bad) {
		line, column := bad.Position()
		return &lineError{f.name, line, fmt.Sprintf("column %d: %s", column, strings.TrimPrefix(bad.Error(), "toml: "))}
	}
	return fmt.Errorf("%s: %w", f.name, err)
}

// linesOf returns the line of each key and table of a well-formed document.
func linesOf(b []byte) map[string]int {
	lines := make(map[string]int)
	var p unstable.Parser
	p.Reset(b)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		path := ""
		if e.Kind == unstable.KeyValue {
			path = table
		}
		line := 0
		for it := e.Key(); it.Next(); {
			key := it.Node()
			line = p.Shape(key.Raw).Start.Line
			path = joinKey(path, string(key.Data))
			if lines[path] == 0 {
				lines[path] = line
			}
		}
		if e.Kind == unstable.Table || e.Kind == unstable.ArrayTable {
			table = path
		}
	}
	return lines
}

func joinKey(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// walk adds the values of a table to the entries.
func (f *configFile) walk(path string, t map[string]any, lines map[string]int) {
	for name, value := range t {
		key := joinKey(path, name)
		line := lines[key]
		if line == 0 {
			line = lines[path] // for a key of an inline table
		}
		s := settingOf(key)
		below, isTable := value.(map[string]any)
		switch {
		case s == nil && isTable && isSection(key):
			f.walk(key, below, lines)
		case s == nil && isSection(key):
			f.bad = append(f.bad, &lineError{f.name, line, fmt.Sprintf("%s is a table: its keys go below one line with [%s]", key, key)})
		case s == nil:
			f.unknown(key, isTable, line)
		default:
			text, err := s.fromFile(value)
			spelled := fmt.Sprintf("%s:%d: %s", f.name, line, key)
			if err != nil {
				f.bad = append(f.bad, &lineError{f.name, line, fmt.Sprintf("%s: %v", key, err)})
				continue
			}
			f.entries[key] = fileEntry{text, spelled + " = " + shownValue(value)}
		}
	}
}

func shownValue(value any) string {
	switch v := value.(type) {
	case string:
		return strconv.Quote(v)
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".eNI") {
			text += ".0" // so that it does not look like an integer
		}
		return text
	case map[string]any:
		return "a table"
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = shownValue(v[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(value)
}

// unknown records an unknown key, with the nearest known one.
func (f *configFile) unknown(key string, isTable bool, line int) {
	what, near := "key", ""
	var names []string
	name := ""
	for _, s := range settings {
		names = append(names, s.path())
		if s.flag == strings.NewReplacer("_", "-", ".", "-").Replace(key) { // the name of the flag or environment variable
			name = s.path()
		}
	}
	if isTable {
		what, name, names = "table", "", sections()
	}
	if name == "" {
		name = nearest(key, names)
	}
	if name != "" {
		near = fmt.Sprintf(": did you mean %s?", name)
	}
	f.bad = append(f.bad, &lineError{f.name, line, fmt.Sprintf("unknown %s %s%s", what, key, near)})
}

// path is the path of the setting in the file.
func (s *setting) path() string { return strings.TrimPrefix(s.key, "!") }

func settingOf(path string) *setting {
	for i := range settings {
		if settings[i].path() == path {
			return &settings[i]
		}
	}
	return nil
}

// sections are the tables of the file.
func sections() (names []string) {
	for _, s := range settings {
		if table, _, found := strings.Cut(s.path(), "."); found && !slices.Contains(names, table) {
			names = append(names, table)
		}
	}
	return names
}

func isSection(name string) bool { return slices.Contains(sections(), name) }

// The types of values in the file.
const (
	tomlString   = "a string"
	tomlInteger  = "an integer"
	tomlBoolean  = "true or false"
	tomlList     = "a list of strings without commas"
	tomlSize     = "a string such as \"64MiB\", or bytes"
	tomlDuration = "a string such as \"100ms\""
)

// tomlKind returns the type of the setting in the file.
func (s *setting) tomlKind() string {
	switch {
	case s.kind == "":
		return tomlBoolean
	case s.kind == "n" || s.kind == "port":
		return tomlInteger
	case s.kind == "size":
		return tomlSize
	case s.kind == "duration":
		return tomlDuration
	case strings.HasSuffix(s.kind, ",..."):
		return tomlList
	}
	return tomlString
}

// fromFile converts a value to the format of a flag.
func (s *setting) fromFile(value any) (string, error) {
	kind := s.tomlKind()
	switch v := value.(type) {
	case string:
		if kind == tomlString || kind == tomlSize || kind == tomlDuration {
			return v, nil
		}
	case int64:
		if kind == tomlInteger || kind == tomlSize {
			return strconv.FormatInt(v, 10), nil
		}
	case bool:
		if kind == tomlBoolean {
			return strconv.FormatBool(v != strings.HasPrefix(s.key, "!")), nil
		}
	case []any:
		if text, ok := listText(v); ok && kind == tomlList {
			return text, nil
		}
	}
	return "", fmt.Errorf("%s is not %s", shownValue(value), kind)
}

func listText(list []any) (string, bool) {
	var parts []string
	for _, item := range list {
		text, ok := item.(string)
		if !ok || strings.Contains(text, ",") {
			return "", false
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ","), true
}

// nearest returns the most similar name, "" if none is similar.
func nearest(name string, names []string) string {
	for _, other := range names {
		// The same key in another table, or outside of tables.
		if _, last, found := strings.Cut(other, "."); found && last == name {
			return other
		}
	}
	return spelling.Nearest(name, names)
}
