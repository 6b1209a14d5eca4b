package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard"
	"github.com/floedb/floe/internal/demo"
)

// demoOptions are the flags of floe demo.
type demoOptions struct {
	seed                             uint64
	port, metricsPort, dashboardPort int
	noOpen                           bool
}

func demoCommand(p Process) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run an in-memory demo shop with live traffic",
		Long: `Run an in-memory demo shop with live traffic, and open its dashboard.

The shop has customers, workers, workflows in all states, processing jobs, dead letters, a
lagging consumer, and time series. Equal seeds give equal orders. All data is lost when the
command ends.`,
		Example: `  floe demo
  floe demo --seed 7 --dashboard-port 8080 --no-open`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := &config{logLevel: slog.LevelWarn, spelled: make(map[string]string), text: make(map[string]string)}
			for i, f := range []struct {
				flag string
				port *int
			}{{"port", &o.port}, {"metrics-port", &o.metricsPort}, {"dashboard-port", &o.dashboardPort}} {
				if o.port != 0 && !cmd.Flags().Changed(f.flag) { // if the node uses any free port, this one does too
					*f.port = o.port + i
					c.text[f.flag] = strconv.Itoa(*f.port)
				}
				c.spelled[f.flag] = fmt.Sprintf("--%s=%d", f.flag, *f.port)
				if _, err := port(strconv.Itoa(*f.port)); err != nil {
					return &usageError{fmt.Errorf("--%s=%d: %w", f.flag, *f.port, err), helpHint(cmd)}
				}
			}
			return runDemo(cmd.Context(), p, c, o)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Uint64Var(&o.seed, "seed", 1, "seed `number` of the random data")
	flags.IntVar(&o.port, "port", defaultPort, "`port` for clients, 0 for any free port")
	flags.IntVar(&o.metricsPort, "metrics-port", 0, "`port` of the Prometheus metrics, 0 for any free port (default --port + 1)")
	flags.IntVar(&o.dashboardPort, "dashboard-port", 0, "`port` of the dashboard, 0 for any free port (default --port + 2)")
	flags.BoolVar(&o.noOpen, "no-open", false, "do not open a browser")
	return cmd
}

// runDemo runs the shop and the server of its node until ctx is done.
func runDemo(ctx context.Context, p Process, c *config, o demoOptions) error {
	s := &server{config: c, log: c.logger(p), ready: true}
	if err := s.openDemo(o); err != nil {
		s.closeSites()
		return err
	}
	say(p.Stdout, "floe %s loads a demo shop into memory, in a few seconds", floe.Version)
	shop := demo.New(s.node, o.seed)
	if err := shop.Load(ctx); err != nil {
		return s.stop(err)
	}
	served := dashboard.Options{Logger: s.log, LoopbackOnly: true}
	s.metrics.gate.open(dashboard.NewExporter(s.node, served))
	s.dashboard.gate.open(dashboard.New(s.node, served))
	url := fmt.Sprintf("http://%s/#/%s/overview", s.dashboard.addr, demo.Main)
	s.announceDemo(p, o, url)
	if !o.noOpen && isTerminal(p.Stdout) {
		openBrowser(url)
	}
	living, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- shop.Run(living) }()
	err := s.wait(ctx, p)
	cancel()
	return s.stop(errors.Join(err, <-ended))
}

// openDemo starts the listeners and opens the node.
func (s *server) openDemo(o demoOptions) (err error) {
	at := func(port int) string { return net.JoinHostPort(defaultBind, strconv.Itoa(port)) }
	if s.metrics, err = listen(at(o.metricsPort), http1, nil, s.log); err != nil {
		return s.config.listenError("metrics-", err)
	}
	if s.dashboard, err = listen(at(o.dashboardPort), http2, nil, s.log); err != nil {
		return s.config.listenError("dashboard-", err)
	}
	s.node, err = floe.Open(floe.Config{Listen: at(o.port), Logger: s.log})
	if network := (*net.OpError)(nil); errors.As(err, &network) && network.Op == "listen" {
		err = s.config.listenError("", err)
	}
	return err
}

// announceDemo prints the addresses of the demo and what to try.
func (s *server) announceDemo(p Process, o demoOptions, url string) {
	say(p.Stdout, "floe %s is ready, with a shop (seed %d)", floe.Version, o.seed)
	say(p.Stdout, "  clients    %s", s.node.Addr())
	say(p.Stdout, "  metrics    http://%s/metrics", s.metrics.addr)
	say(p.Stdout, "  dashboard  http://%s", s.dashboard.addr)
	say(p.Stdout, "  look at    %s", url)
	say(p.Stdout, "  or try     floe queue dlq list mail -n %s --addr %s", demo.Main, s.node.Addr())
	say(p.Stdout, "All of it is in memory, and gone after ctrl-c.")
}

// openBrowser opens a page in the browser of this machine, if possible.
func openBrowser(url string) {
	command, args := "xdg-open", []string{url}
	switch runtime.GOOS {
	case "darwin":
		command = "open"
	case "windows":
		command, args = "rundll32", []string{"url.dll,FileProtocolHandler", url}
	}
	// Without a browser, the user has the printed address.
	if cmd := exec.Command(command, args...); cmd.Start() == nil {
		go func() { _ = cmd.Wait() }()
	}
}
