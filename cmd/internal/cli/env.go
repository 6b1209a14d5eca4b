package cli

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// envDefaults are flags of client commands whose default is a variable of the environment. Other
// variables, such as FLOE_ADDR, are read where they are used.
var envDefaults = []struct{ flag, env string }{
	{"namespace", "FLOE_NAMESPACE"}, {"output", "FLOE_OUTPUT"}, {"timeout", "FLOE_TIMEOUT"},
}

// useEnv sets the flags of a command that were not given to their defaults in the environment.
func useEnv(cmd *cobra.Command, p Process) error {
	for _, d := range envDefaults {
		v, _ := p.LookupEnv(d.env)
		flag := cmd.Flags().Lookup(d.flag)
		if v == "" || flag == nil || flag.Changed || !strings.Contains(flag.Usage, d.env) { // some commands have another flag of the name
			continue
		}
		if err := flag.Value.Set(v); err != nil {
			return &usageError{fmt.Errorf("%s=%s: %w", d.env, v, err), helpHint(cmd)}
		}
	}
	return nil
}

// envNames returns the variables that commands and servers read.
func envNames() []string {
	known := []string{
		"FLOE_ADDR", "FLOE_API_KEY", "FLOE_CONFIG", "FLOE_LOCK_TOKEN", "FLOE_TLS", "FLOE_TLS_CA", "FLOE_TLS_CERT", "FLOE_TLS_KEY",
	}
	for _, d := range envDefaults {
		known = append(known, d.env)
	}
	for _, s := range settings {
		known = append(known, s.env())
	}
	return known
}

// serviceEnv matches the variables that Kubernetes sets for a service whose name begins with floe.
var serviceEnv = regexp.MustCompile(`_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP))?(_PROTO|_PORT|_ADDR)?$`)

// noteMisspelt prints a note for each variable of the environment that resembles one that floe
// reads. Environ has elements of the form NAME=VALUE.
func noteMisspelt(stderr io.Writer, environ []string) {
	known, suffixes := envNames(), []string(nil)
	for _, name := range known {
		suffixes = append(suffixes, strings.TrimPrefix(name, "FLOE_"))
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "FLOE") || slices.Contains(known, name) || serviceEnv.MatchString(name) {
			continue
		}
		if near := nearest(strings.TrimPrefix(strings.TrimPrefix(name, "FLOE"), "_"), suffixes); near != "" {
			fmt.Fprintf(stderr, "floe: note: the variable %s is not used: did you mean FLOE_%s?\n", name, near)
		}
	}
}
