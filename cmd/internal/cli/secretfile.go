package cli

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"
)

// addSecretOut adds the flag --out to a command that shows a key once.
func addSecretOut(cmd *cobra.Command) *string {
	return cmd.Flags().String("out", "", "write the key to this new `file`, readable only by its owner, instead of printing it")
}

// createSecret creates a file for a secret. It does not overwrite an existing file, which may hold
// a key that is still needed.
func createSecret(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// writeSecret writes the secret to a file and closes it. On error it removes the file.
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

// warnOfReaders prints a warning if other users of this machine can read a file with a secret.
func warnOfReaders(stderr io.Writer, name string) {
	if name == "" || runtime.GOOS == "windows" { // permission bits mean nothing on Windows
		return
	}
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		fmt.Fprintf(stderr, "floe: warning: others can read %s, which holds a secret: chmod 600 %s\n", name, name)
	}
}
