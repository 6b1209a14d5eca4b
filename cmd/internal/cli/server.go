package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard"
	"github.com/floedb/floe/internal/budget"
)

// closeTime is the time limit for closing the node: the 5 s that it waits for other nodes, and 1 s
// for the disk. Without a limit, a node that hangs would block the process forever.
const closeTime = 6 * time.Second

func serverCommand(p Process) *cobra.Command {
	return group("server", "Run and maintain a node", startCommand(p), bootstrapCommand(p), configCommand(p), statusCommand(p),
		healthCommand(p), verifyCommand(p))
}

func startCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Run a node until SIGINT or SIGTERM",
		Long: `Run a node until SIGINT or SIGTERM.

It then responds with 503, also on /health, finishes its requests, closes the data directory
and exits with 0 within 10 seconds. A second signal ends it at once. Exit status: 1 if the
node cannot start or fails, 2 for invalid arguments, 7 if its data directory was removed.

Each flag can also be an environment variable (--data-dir is FLOE_DATA_DIR) or a key of the
configuration file, see floe server config. Flags take precedence over the environment, the
environment over the file.`,
		Example: `  floe server start
  floe server start --data-dir /var/lib/floe --durability async
  floe server start --dashboard-port 8080 --log-format json
  floe server start --node-id 1 --secret-file secret \
      --peers 1=10.0.0.1:9000,2=10.0.0.2:9000,3=10.0.0.3:9000`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(cmd, p)
			if err != nil {
				return err
			}
			return runServer(cmd.Context(), c, p)
		},
	}
	addSettings(cmd)
	return cmd
}

// server is a node and its HTTP sites.
type server struct {
	config    *config
	log       *slog.Logger
	node      *floe.Node
	dashboard *site // nil: off
	metrics   *site // nil: off
	ready     bool  // readiness has been announced
}

// runServer runs a server until ctx is done or it fails.
func runServer(ctx context.Context, c *config, p Process) error {
	s := &server{config: c, log: c.logger(p)}
	c.boundMemory()
	if c.allowed > 0 && c.allowed < budget.Least {
		s.log.Warn("there is less memory than a node needs", "memory", shownSize(c.allowed), "least", shownSize(budget.Least))
	}
	warnOfReaders(p.Stderr, c.secretFile)
	if err := s.open(); err != nil {
		return err
	}
	s.announce(p)
	if s.ready {
		s.notify(p, "READY=1")
	}
	err := s.wait(ctx, p)
	s.log.Info("stopping")
	s.notify(p, "STOPPING=1")
	return s.stop(err)
}

// open first reads all files of the configuration, so that nothing is started if one is missing.
// Then it listens before it opens the node, which may take seconds. So a port in use is detected at
// once, and /health answers meanwhile.
func (s *server) open() (err error) {
	files, err := s.config.credentials()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.closeSites()
		}
	}()
	if !s.config.noDashboard {
		if s.dashboard, err = listen(s.config.dashboardAddr(), http2, files.dashboard, s.log); err != nil {
			return s.config.listenError("dashboard-", err)
		}
	}
	if !s.config.noMetrics {
		if s.metrics, err = listen(s.config.metricsAddr(), http1, files.metrics, s.log); err != nil {
			return s.config.listenError("metrics-", err)
		}
	}
	s.config.files = budget.Files()
	for _, site := range s.sites() {
		site.crowd.bound(s.config.limits().HTTPConnections, s.config.trustedProxies)
	}
	if s.node, err = openNode(s.config, files, s.log); err != nil {
		return err
	}
	if s.metrics != nil {
		s.metrics.gate.open(dashboard.NewExporter(s.node, dashboard.Options{
			Logger: s.log, LoopbackOnly: isLocal(s.config.metricsBind), Hosts: s.config.metricsHosts,
			MetricsObjects: s.config.metricsObjects, LocalUntilKeys: !s.config.insecure,
			TrustedProxies: s.config.trustedProxies,
		}))
	}
	if s.dashboard != nil {
		limits := s.config.limits()
		s.dashboard.gate.open(dashboard.New(s.node, dashboard.Options{
			MaxConcurrent: limits.HTTPRequests, MaxHeldBytes: limits.HTTPBodies,
			Logger: s.log, LoopbackOnly: isLocal(s.config.dashboardBind), Hosts: s.config.dashboardHosts, CORSOrigins: s.config.corsOrigins,
			LocalUntilKeys: !s.config.insecure,
			TrustedProxies: s.config.trustedProxies,
		}))
	}
	return nil
}

// sites returns the HTTP sites of the server.
func (s *server) sites() (all []*site) {
	for _, site := range []*site{s.dashboard, s.metrics} {
		if site != nil {
			all = append(all, site)
		}
	}
	return all
}

func (s *server) closeSites() {
	for _, site := range s.sites() {
		site.close()
	}
}

func openNode(c *config, files *credentials, log *slog.Logger) (*floe.Node, error) {
	if err := c.checkDataDir(); err != nil {
		return nil, err
	}
	node, err := floe.Open(floe.Config{
		DataDir: c.dataDir, Shards: c.shards, Durability: c.durability, SyncInterval: c.syncInterval, ClockCatchUp: c.clockCatchUp,
		CacheSize: c.cacheSize, MaxValueSize: int(c.maxValueSize), Logger: log,
		Memory: c.memory, MaxConnections: c.maxConnections, MaxInFlight: c.maxInFlight, MaxWaiting: c.maxWaiting,
		Listen: c.listenAddr(), NodeID: c.nodeID, Peers: c.peers, Secret: files.secret, TLS: files.node, Insecure: c.insecure,
	})
	var network *net.OpError
	switch {
	case errors.As(err, &network) && network.Op == "listen":
		err = c.listenError("", err)
	case errors.Is(err, floe.ErrInUse):
		err = &hintedError{err, "stop the other node, or choose another directory with --data-dir"}
	case errors.Is(err, syscall.ENOSPC):
		err = &hintedError{err, "the disk of the data directory is full: free space, or choose another directory with --data-dir"}
	case errors.Is(err, floe.ErrInvalid) && c.shards != 0 && c.peers == nil:
		err = &hintedError{fmt.Errorf("%s: %w", c.spelled["shards"], err), "omit --shards to use the directory's number of shards"}
	}
	return node, err
}

// lookTime is how long the start waits to find out whether API keys exist.
const lookTime = 200 * time.Millisecond

// announce prints the addresses and settings of the server.
func (s *server) announce(p Process) {
	stats, _ := s.node.Stats(context.Background()) // zero if the node is closed already
	if s.ready = s.isReady(); s.ready {
		say(p.Stdout, "floe %s is ready", floe.Version)
	} else {
		say(p.Stdout, "floe %s waits for other nodes", floe.Version)
	}
	say(p.Stdout, "  data       %s (shards: %d, durability: %s)", s.config.shownDir(), len(stats.Shards), stats.Durability)
	say(p.Stdout, "  clients    %s", s.node.Addr())
	switch {
	case s.config.tls.ca.name != "":
		say(p.Stdout, "  tls        on, clients and other nodes show certificates")
	case s.config.tls.cert.name != "":
		say(p.Stdout, "  tls        on")
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	locked, _ := s.node.Keys().Enabled(ctx) // a node of a cluster may first need to find a leader
	if locked {
		say(p.Stdout, "  keys       needed")
	}
	closed := !locked && !s.config.insecure
	reached := !isLocal(s.config.bind) || s.metrics != nil && !isLocal(s.config.metricsBind) || s.dashboard != nil &&
		!isLocal(s.config.dashboardBind)
	if closed && reached && s.config.tls.ca.name == "" {
		say(p.Stderr,
			"floe: warning: there are no keys yet, so other machines are refused: make the first one with floe server bootstrap, or "+
				"start with --insecure")
	}
	locked = locked || closed // suppresses the warnings below
	if !locked && !isLocal(s.config.bind) && s.config.tls.ca.name == "" {
		say(p.Stderr, "floe: warning: other machines can reach the port for clients, which lets anyone read and write everything")
	}
	if s.config.peers != nil {
		say(p.Stdout, "  cluster    node %d of %d", s.config.nodeID, len(s.config.peers))
	}
	if s.metrics == nil {
		say(p.Stdout, "  metrics    off")
	} else {
		say(p.Stdout, "  metrics    %s://%s/metrics", scheme(&s.config.metricsTLS), s.metrics.addr)
	}
	if !locked && s.metrics != nil && !isLocal(s.config.metricsBind) {
		say(p.Stderr, "floe: warning: other machines can reach the metrics, which name queues, streams and the like")
	}
	if s.config.noDashboard {
		say(p.Stdout, "  dashboard  off")
		return
	}
	say(p.Stdout, "  dashboard  %s://%s", scheme(&s.config.dashboardTLS), s.dashboard.addr)
	if locked {
		return
	}
	if !isLocal(s.config.dashboardBind) {
		say(p.Stderr, "floe: warning: other machines can reach the dashboard, which lets anyone read and write everything")
	}
}

// say prints a line. Errors are ignored: they are no reason not to serve.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }

func scheme(f *tlsFiles) string {
	if f.cert.name != "" {
		return "https"
	}
	return "http"
}

// isReady reports whether the node can answer and write.
func (s *server) isReady() bool {
	stats, err := s.node.Stats(context.Background())
	return err == nil && stats.State == "ok"
}

// wait returns when ctx is done, or with the reason why the server cannot continue. It prints a
// line when a node of a cluster becomes ready.
func (s *server) wait(ctx context.Context, p Process) error {
	// The node has no signal for a failure, and one more second of 503 is harmless.
	check := time.NewTicker(time.Second)
	defer check.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		if s.ready {
			look.Stop()
		}
		select {
		case <-look.C:
			if s.ready = s.isReady(); s.ready {
				_, _ = fmt.Fprintf(p.Stdout, "floe %s is ready\n", floe.Version)
				s.notify(p, "READY=1")
			}
		case <-p.Hangups:
			if err := s.config.reloadTLS(); err != nil {
				s.log.Error("certificates were not read again, those that there are stay", "err", err)
			} else {
				s.log.Info("certificates were read again")
			}
		case <-ctx.Done():
			return nil
		case err := <-s.dashboard.broken():
			return err
		case err := <-s.metrics.broken():
			return err
		case <-check.C:
			if err := s.node.Err(); err != nil {
				return explainFailure(err)
			}
		}
	}
}

// explainFailure returns the error of a process whose node has failed. A missing file has an exit
// code of its own, so that no supervisor starts the node again in a new, empty directory.
func explainFailure(err error) error {
	failed := fmt.Errorf("node has failed: %w", err)
	if errors.Is(err, fs.ErrNotExist) {
		return &exitError{failed, exitRemoved}
	}
	return failed
}

// stop shuts everything down. It returns cause, or else the error of closing.
func (s *server) stop(cause error) error {
	var drained sync.WaitGroup
	for _, site := range s.sites() {
		drained.Go(site.drain)
	}
	drained.Wait()
	if err := closeNode(s.node); cause == nil {
		return err
	}
	return cause
}

// closeNode closes the node within closeTime.
func closeNode(node *floe.Node) error {
	closed := make(chan error, 1)
	go func() { closed <- node.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(closeTime):
		return fmt.Errorf("the node did not close within %v; what it acknowledged is in its log", closeTime)
	}
}
