package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/test/reference"
)

const configurationIntro = `# Configuration of a server

A setting of ` + "`floe server start`" + ` has a key in the configuration file, a flag and an environment
variable. A flag takes precedence over the environment, the environment over the file. The file is
given by ` + "`--config` or `FLOE_CONFIG`; without either it is `floe.toml`" + ` in the working directory, if
that exists. Unknown keys are errors. ` + "`floe server config`" + ` prints the effective configuration.

- A **size** is a number of bytes, or text such as ` + "`\"64KiB\"`, `\"64MiB\"` or `\"1GiB\"`" + `.
- A **duration** is text such as ` + "`\"100ms\"`, `\"1h30m\"` or `\"7d\"`" + `.
- A **list** is a list of strings in the file, and separated by commas elsewhere.
`

// kindNames are the types of settings, where the help has a shorter word.
var kindNames = map[string]string{
	"": "boolean", "n": "integer", "port": "integer", "dir": "path", "file": "path", "ip": "IP address", "when": "string",
	"level": "string", "format": "string", "name": "host names", "origin": "origins", "address": "addresses",
	"id=host:port": "`id=host:port`",
}

// inHelp matches the default of a setting at the end of its help.
var inHelp = regexp.MustCompile(` \(default (.*)\)$`)

// TestConfigurationReference: docs/reference/configuration.md agrees with the table of settings.
func TestConfigurationReference(t *testing.T) {
	page := configurationIntro
	for _, section := range append([]string{""}, sections()...) {
		var rows [][]string
		for i := range settings {
			s := &settings[i]
			if in, _, found := strings.Cut(s.path(), "."); found && in == section || !found && section == "" {
				rows = append(rows, s.reference())
			}
		}
		page += fmt.Sprintf("\n## %s\n", cmp.Or(section, "Top level"))
		page += reference.Table([]string{"key", "flag and variable", "type", "default", "meaning"}, rows)
	}
	reference.Check(t, "configuration.md", page)
}

// reference returns the row of a setting.
func (s *setting) reference() []string {
	kind, listed := strings.CutSuffix(s.kind, ",...")
	if name := kindNames[kind]; name != "" {
		kind = name
	}
	if listed {
		kind = "list of " + kind
	}
	help, preset := s.help, reference.Code(s.preset)
	if m := inHelp.FindStringSubmatch(help); m != nil {
		help, preset = strings.TrimSuffix(help, m[0]), m[1]
	}
	if s.kind == "" {
		preset = reference.Code(s.inFile("false"))
	}
	if key, inverse := strings.CutPrefix(s.key, "!"); inverse {
		help += fmt.Sprintf(" (in the file: `%s = false`)", key)
	}
	return []string{reference.Code(s.path()), reference.Code("--"+s.flag) + "\n" + reference.Code(s.env()), kind, preset, help}
}
