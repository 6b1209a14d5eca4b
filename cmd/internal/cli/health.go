package cli

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// healthTime is the timeout of a health check. Containers repeat theirs every few seconds.
const healthTime = 3 * time.Second

func healthCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check the health of the node on this machine",
		Long: `Check the health of the node on this machine, for example as the health check of a container.

The command takes the settings of server start and calls /health on the port of the metrics, or
on that of the dashboard if there are no metrics. It needs no key. The exit code is 0 if the node
can read and write, or is only read-only, and 5 if not.`,
		Example: `  floe server health
  floe server health --config /etc/floe/floe.toml`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(cmd, p)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTime)
			defer cancel()
			return c.health(ctx, p.Stdout)
		},
	}
	addSettings(cmd)
	return cmd
}

// health prints the state of the running node with these settings, or returns it as an error.
func (c *config) health(ctx context.Context, w io.Writer) error {
	url := scheme(&c.metricsTLS) + "://" + localAddr(c.metricsBind, c.metricsPort) + "/health"
	switch {
	case c.noMetrics && c.noDashboard:
		return &hintedError{errors.New("the node serves no health checks"), "enable the metrics or the dashboard"}
	case c.noMetrics:
		url = scheme(&c.dashboardTLS) + "://" + localAddr(c.dashboardBind, c.dashboardPort) + "/health"
	}
	status, err := readHealth(ctx, url)
	if err != nil {
		return &exitError{err, exitUnavailable}
	}
	_, err = fmt.Fprintln(w, status)
	return err
}

// readHealth returns the state of a healthy node.
func readHealth(ctx context.Context, url string) (string, error) {
	// The node is on this machine and no secret is sent. Its certificate is for other names.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := transport.RoundTrip(req)
	if network := (*net.OpError)(nil); errors.As(err, &network) {
		err = network.Err // the message has the address already
	}
	if err != nil {
		const hint = "start the node, or pass the settings it was started with"
		return "", &hintedError{fmt.Errorf("no node answers at %s: %w", url, err), hint}
	}
	defer resp.Body.Close()
	var health struct {
		Status   string `json:"status"`
		ReadOnly bool   `json:"read_only"`
		Problem  string `json:"problem"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&health); err != nil || health.Status == "" {
		return "", fmt.Errorf("%s is not the health of a node: %s", url, resp.Status)
	}
	if health.ReadOnly {
		health.Status += ", read-only"
	}
	if health.Problem != "" {
		health.Status += ": " + health.Problem
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the node is not healthy: %s", health.Status)
	}
	return health.Status, nil
}
