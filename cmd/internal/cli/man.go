package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/floedb/floe"
)

// manCommand is hidden: packages of the program run it, users read the pages.
func manCommand(Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "man DIR",
		Short:             "Write the manual pages of all commands to a directory",
		Hidden:            true,
		Args:              takes("DIR"),
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
	}
	date := cmd.Flags().String("date", "", "`date` of the pages, such as 2026-11-28")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return err
		}
		for _, page := range manPages(cmd.Root(), *date) {
			if err := os.WriteFile(filepath.Join(args[0], page.name+".1"), []byte(page.text), 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

type manPage struct{ name, text string }

// manPages returns the page floe, and one for each command directly below it.
func manPages(root *cobra.Command, date string) []manPage {
	var names []string
	pages := make([]manPage, 1) // the first needs the names of the others
	for _, cmd := range root.Commands() {
		if !cmd.IsAvailableCommand() {
			continue
		}
		m := newManual(cmd, date)
		m.line(".BR floe (1)")
		pages = append(pages, manPage{m.name, m.b.String()})
		names = append(names, m.name)
	}
	m := newManual(root, date)
	for i, name := range names {
		m.line(".BR %s (1)%s", roff(name), strings.Repeat(",", min(1, len(names)-1-i)))
	}
	pages[0] = manPage{m.name, m.b.String()}
	return pages
}

// manual writes a page in the macros of man(7).
type manual struct {
	name string // of the page
	b    strings.Builder
}

// newManual writes the page of a command up to the names of other pages.
func newManual(cmd *cobra.Command, date string) *manual {
	m := &manual{name: strings.ReplaceAll(cmd.CommandPath(), " ", "-")}
	m.line(`.TH %s 1 "%s" "floe %s" "floe"`, strings.ToUpper(roff(m.name)), date, floe.Version)
	m.line(".SH NAME")
	m.line(`%s \- %s`, roff(m.name), roff(strings.ToLower(cmd.Short[:1])+cmd.Short[1:]))
	m.line(".SH SYNOPSIS")
	m.line(`.B %s`, roff(cmd.CommandPath()))
	if cmd.HasAvailableSubCommands() {
		m.line(`.I command`)
	}
	m.line(`.RI [ flags ]`)
	if _, args, found := strings.Cut(cmd.Use, " "); found {
		m.line(`.I %s`, roff(args))
	}
	m.line(".SH DESCRIPTION")
	m.describe(cmd)
	if cmd.HasAvailableSubCommands() {
		m.line(".SH COMMANDS")
		m.commands(cmd)
	}
	m.flags(".SH OPTIONS", cmd)
	m.line(".SH SEE ALSO")
	return m
}

// commands writes the commands below cmd. Those of floe have pages of their own.
func (m *manual) commands(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		switch {
		case !sub.IsAvailableCommand():
		case !cmd.HasParent():
			m.line(".TP")
			m.line(".B %s", roff(sub.Name()))
			m.line("%s.", roff(sub.Short))
		case sub.HasAvailableSubCommands():
			m.commands(sub)
		default:
			m.line(".SS %s", roff(strings.TrimSuffix(sub.UseLine(), " [flags]")))
			m.describe(sub)
			m.flags(".PP\nFlags:", sub)
		}
	}
}

// describe writes the long help of a command, whose paragraphs are apart by empty lines, and its
// examples.
func (m *manual) describe(cmd *cobra.Command) {
	text := cmd.Short + "."
	if cmd.Long != "" {
		text = cmd.Long
	}
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			m.line(".PP")
		}
		m.paragraph(paragraph)
	}
	if len(cmd.Aliases) > 0 {
		m.line(".PP\nAlso %s.", roff(strings.Join(cmd.Aliases, ", ")))
	}
	if cmd.Name() != "start" && cmd.Flags().Lookup("data-dir") != nil && cmd.Flags().Lookup("config") != nil {
		m.line(".PP\nThe flags include those of floe server start.")
	}
	if cmd.Example != "" {
		m.line(".PP\nExamples:\n.PP")
		m.paragraph(strings.Trim(cmd.Example, "\n"))
	}
}

// paragraph writes lines of prose, or indented lines as they are.
func (m *manual) paragraph(text string) {
	literal := strings.HasPrefix(text, " ")
	if literal {
		m.line(".nf")
	}
	for line := range strings.SplitSeq(text, "\n") {
		m.line("%s", roff(line))
	}
	if literal {
		m.line(".fi")
	}
}

// flags writes the flags of a command below a title, if there are any. The settings of a server are
// described once.
func (m *manual) flags(title string, cmd *cobra.Command) {
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || isSetting(f) && cmd.Name() != "start" {
			return
		}
		if title != "" {
			m.line("%s", title)
			title = ""
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		kind, usage := pflag.UnquoteUsage(f)
		m.line(".TP")
		m.line(`.BI "%s" "%s"`, roff(name), roff(strings.TrimRight(" "+kind, " ")))
		m.line("%s", roff(usage+shownDefault(f)))
	})
}

// shownDefault is the default of a flag whose help does not give one, in brackets after a space.
func shownDefault(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "0", "[]":
		return ""
	}
	if strings.Contains(f.Usage, "(default") {
		return ""
	}
	return fmt.Sprintf(" (default %s)", f.DefValue)
}

func (m *manual) line(format string, args ...any) { fmt.Fprintf(&m.b, format+"\n", args...) }

// roff escapes text: hyphens stay as they are typed, and no line is taken for a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\(rs`, "-", `\-`, `"`, `\(dq`, "\t", "    ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
