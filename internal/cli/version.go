package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
)

func versionCommand(p Process) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  takes(),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(p.Stdout, "floe %s (%s, %s/%s)\n", floe.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
