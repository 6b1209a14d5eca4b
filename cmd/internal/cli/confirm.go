package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// asking makes a command that destroys data ask for confirmation on a terminal, unless --force is
// given. Effect is what the command does, as the beginning of a question. A command with a --force
// of its own gets it with the confirmation. Without a terminal there is no question.
func (f *frame) asking(cmd *cobra.Command, effect string) *cobra.Command {
	if cmd.Flags().Lookup("force") == nil {
		cmd.Flags().Bool("force", false, "do not ask for confirmation on a terminal")
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dry := cmd.Flags().Lookup("dry-run")
		if cmd.Flags().Changed("force") || dry != nil && dry.Changed || !isPerson(f.Stdin) || !isPerson(f.Stderr) {
			return run(cmd, args)
		}
		prompt := fmt.Sprintf("%s %s: %s. Continue? [y/N] ", cmd.CommandPath(), strings.Join(args, " "), effect)
		if err := confirm(cmd.Context(), f.Stdin, f.Stderr, prompt); err != nil {
			return coded(err)
		}
		if err := cmd.Flags().Set("force", "true"); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

// isPerson reports whether stream is a terminal. Scripts often have /dev/null for stdin, which is a
// character device too.
func isPerson(stream any) bool {
	if !isTerminal(stream) {
		return false
	}
	own, err := stream.(*os.File).Stat()
	null, nullErr := os.Stat(os.DevNull)
	return err == nil && (nullErr != nil || !os.SameFile(own, null))
}

// confirm asks a question and returns nil if the answer is yes.
func confirm(ctx context.Context, in io.Reader, out io.Writer, prompt string) error {
	if _, err := io.WriteString(out, prompt); err != nil {
		return err
	}
	answer := make(chan string, 1)
	// Only the other end can end a read of a terminal. An interrupted command leaves the read
	// behind, and it ends with the process.
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // without an answer it is no
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case text := <-answer:
		if text == "y" || text == "yes" {
			return nil
		}
		return &hintedError{errors.New("not confirmed: nothing was changed"), "--force does not ask"}
	case <-ctx.Done():
		_, _ = io.WriteString(out, "\n") // behind the prompt
		return errInterrupted
	}
}
