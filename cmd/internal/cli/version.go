package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
)

// version is the version of the program in JSON.
type version struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func versionCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version of this program", Args: takes()}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	o := addOutput(cmd, p)
	cmd.RunE = func(*cobra.Command, []string) error {
		v := version{floe.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH}
		if o.format == formatTable {
			_, err := fmt.Fprintln(p.Stdout, versionLine())
			return err
		}
		return o.print(v, table{rows: [][]string{{v.Version, v.Go, v.OS, v.Arch}}})
	}
	return cmd
}

// versionLine is the version of the program for people.
func versionLine() string {
	return fmt.Sprintf("floe %s (%s, %s/%s)", floe.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
