package cli

import (
	"github.com/spf13/cobra"

	"github.com/floedb/floe/dashboard"
)

func openAPICommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "openapi",
		Short: "Print the OpenAPI description of the HTTP API",
		Long: "Print the OpenAPI 3.1 description of the HTTP API in JSON, from which generators make clients in other languages.\n" +
			"A node serves the same description as /api/v1/openapi.json.",
		Args: takes(),
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		_, err := p.Stdout.Write(dashboard.OpenAPI())
		return err
	}
	return cmd
}
