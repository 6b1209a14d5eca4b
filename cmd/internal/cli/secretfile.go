package cli

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"
)

// addSecretOut adds the flag --out of commands that show a key once.
func addSecretOut(cmd *cobra.Command) *string {
	return cmd.Flags().String("out", "", "write the key into this new `file`, which only its owner can read, and do not show it")
}

// createSecret creates a file for a secret. One that exists is not overwritten: it may hold a key
// that is still needed.
func createSecret(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// writeSecret fills a file and closes it. After an error there is no file.
func writeSecret(f *os.File, secret string) error {
	_, err := fmt.Fprintln(f, secret)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// warnOfReaders warns of a file with a secret that others on this machine can read.
func warnOfReaders(stderr io.Writer, name string) {
	if name == "" || runtime.GOOS == "windows" { // where the bits say nothing
		return
	}
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		fmt.Fprintf(stderr, "floe: warning: others can read %s, which holds a secret: chmod 600 %s\n", name, name)
	}
}
