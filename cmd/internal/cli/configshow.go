package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
)

func configCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration as a file",
		Long: `Print the effective configuration as a file.

The command takes the settings of server start. A comment behind each value names its
source. Secrets are in separate files, which are only named.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(cmd, p)
			if err != nil {
				return err
			}
			return c.print(p.Stdout)
		},
	}
	addSettings(cmd)
	return cmd
}

// print writes all settings as TOML. A setting without a value becomes a comment.
func (c *config) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# The configuration of floe %s.\n", floe.Version)
	for _, table := range append([]string{""}, sections()...) {
		if table != "" {
			fmt.Fprintf(&b, "\n[%s]\n", table)
		}
		for i := range settings {
			s := &settings[i]
			in, name, found := strings.Cut(s.path(), ".")
			if !found {
				in, name = "", in
			}
			if in == table {
				b.WriteString(c.line(s, name))
			}
		}
	}
	c.printMemory(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *config) line(s *setting, name string) string {
	text := c.text[s.flag]
	if text == "" && s.kind != "" {
		return fmt.Sprintf("# %-36s # %s\n", name+" =", s.help)
	}
	return fmt.Sprintf("%-38s # %s\n", name+" = "+s.inFile(text), c.origin(s))
}

// origin returns the source of a value.
func (c *config) origin(s *setting) string {
	spelled := c.spelled[s.flag]
	switch name, _, _ := strings.Cut(spelled, "="); {
	case c.file != "" && strings.HasPrefix(spelled, c.file+":"):
		place, _, _ := strings.Cut(strings.TrimPrefix(spelled, c.file+":"), ":")
		return c.file + ", line " + place
	case name == s.env(), name == "GOMEMLIMIT", name == "cgroup":
		return name
	case c.flagged[s.flag]:
		return "--" + s.flag
	}
	return "default"
}

// inFile is the inverse of fromFile.
func (s *setting) inFile(text string) string {
	switch s.tomlKind() {
	case tomlBoolean:
		on := switches[text]
		return strconv.FormatBool(on != strings.HasPrefix(s.key, "!"))
	case tomlInteger:
		if digits := strings.TrimLeft(text, "+0"); digits != "" { // TOML does not allow 007
			return digits
		}
		return "0"
	case tomlList:
		var parts []string
		for _, part := range splitList(text) {
			parts = append(parts, strconv.Quote(part))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return strconv.Quote(text)
}
