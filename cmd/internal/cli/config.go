package cli

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
)

// config is what a server was told.
type config struct {
	port          int // listen_port; see check for what it and bind are by default
	bind          string
	nodeID        uint64      // 0: not in a cluster
	peers         []floe.Peer // nil: the node is alone
	secretFile    string
	tls           tlsFiles // ca is that of clients
	dataDir       string
	shards        int // 0: as the directory was created
	durability    floe.Durability
	insecure      bool
	noDashboard   bool
	dashboardPort int // see check
	dashboardBind string

	syncInterval   time.Duration
	clockCatchUp   time.Duration
	cacheSize      int64
	maxValueSize   int64
	dashboardHosts []string
	corsOrigins    []string
	trustedProxies []netip.Prefix
	dashboardTLS   tlsFiles

	memory         int64 // 0: no bound
	allowed        int64 // what the memory was found to be, 0 if it was said or is not known
	files          int   // that the process may have open; 0: any number
	maxConnections int   // this and the following: 0: as memory allows
	maxInFlight    int
	maxWaiting     int
	maxRequests    int

	noMetrics      bool
	metricsPort    int // see checkMetrics
	metricsBind    string
	metricsHosts   []string
	metricsTLS     tlsFiles // those of the dashboard if there are no others
	metricsObjects int

	cert, dashboardCert, metricsCert certificate
	logLevel                         slog.Level
	logFormat                        string

	// spelled is how each setting was given, by its flag: "--shards=4" or "FLOE_SHARDS=4". Messages
	// quote it.
	spelled map[string]string
	// text is what each setting is, as it is spelled, by its flag; what follows from others too.
	text    map[string]string
	flagged map[string]bool // what was given as a flag
	file    string          // the configuration file, "" if there is none
}

// readConfig returns the configuration from flags, environment and presets, in this order. Its
// usageError has everything that is wrong with it.
func readConfig(cmd *cobra.Command, p Process) (*config, error) {
	file, err := findConfigFile(cmd, p)
	if err != nil {
		return nil, err
	}
	c := &config{spelled: make(map[string]string), text: make(map[string]string), flagged: make(map[string]bool), file: file.name}
	bad := slices.Clone(file.bad)
	for _, s := range settings {
		value, spelled := s.find(cmd, p, file)
		c.spelled[s.flag], c.text[s.flag], c.flagged[s.flag] = spelled, value, cmd.Flags().Changed(s.flag)
		if spelled == "" {
			continue
		}
		if err := s.set(c, value); err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", spelled, err))
		}
	}
	if len(bad) == 0 {
		bad = c.check()
	}
	if len(bad) > 0 {
		return nil, &usageError{errors.Join(bad...), helpHint(cmd)}
	}
	return c, nil
}

// named reports whether a setting was given, and not only preset.
func (c *config) named(flag string) bool {
	return c.flagged[flag] || c.spelled[flag] != "" && c.spelled[flag] != "--"+flag+"="+c.text[flag]
}

// check works out what follows from other settings, and returns what does not go together.
func (c *config) check() []error {
	if bad := c.checkCluster(); len(bad) > 0 {
		return bad
	}
	if c.spelled["port"] == "" {
		c.port = defaultPort
		c.spelled["port"] = fmt.Sprintf("--port=%d", c.port)
	}
	c.findMemory()
	c.bind = cmp.Or(c.bind, defaultBind)
	c.text["port"], c.text["bind"] = strconv.Itoa(c.port), c.bind
	if err := c.checkTLS(); err != nil {
		return []error{err}
	}
	var bad []error
	if err := c.checkMemory(); err != nil {
		bad = append(bad, err)
	}
	if !c.noMetrics {
		bad = append(bad, c.checkPort("metrics-port", "the metrics", &c.metricsPort, 1)...)
	}
	if !c.noDashboard {
		if err := c.checkSiteTLS(&c.dashboardTLS, "dashboard-"); err != nil {
			return append(bad, err)
		}
	}
	if !c.noMetrics {
		if err := c.checkMetricsTLS(); err != nil {
			return append(bad, err)
		}
	}
	if c.noDashboard {
		return bad
	}
	bad = append(bad, c.checkPort("dashboard-port", "the dashboard", &c.dashboardPort, 2)...)
	if !c.noMetrics && c.dashboardPort == c.metricsPort && c.dashboardPort != 0 {
		bad = append(bad, fmt.Errorf("%s: is the port of the metrics already (%s)", c.spelled["dashboard-port"], c.spelled["metrics-port"]))
	}
	return bad
}

// checkPort makes a port of something what it is by default, so far behind the node's own, and
// returns what is wrong with it.
func (c *config) checkPort(flag, what string, port *int, behind int) []error {
	if c.spelled[flag] == "" && c.port != 0 { // beside any free port it is on another
		*port = c.port + behind
	}
	c.spelled[flag] = cmp.Or(c.spelled[flag], fmt.Sprintf("--%s=%d", flag, *port))
	c.text[flag] = strconv.Itoa(*port)
	switch {
	case *port > maxPort:
		return []error{fmt.Errorf("%s: %s would be at port %d, but ports end at %d: choose one with --%s", c.spelled["port"], what, *port,
			maxPort, flag)}
	case *port == c.port && c.port != 0:
		return []error{fmt.Errorf("%s: is the port for clients and other nodes already (%s)", c.spelled[flag], c.spelled["port"])}
	}
	return nil
}

// Where a node alone listens by default.
const (
	defaultPort = 9000
	defaultBind = "127.0.0.1"
)

// checkCluster makes the node listen, by default, where the others look for it.
func (c *config) checkCluster() (bad []error) {
	if c.peers == nil {
		for _, flag := range []string{"node-id", "secret-file"} {
			if spelled := c.spelled[flag]; spelled != "" {
				bad = append(bad, fmt.Errorf("%s: is for a cluster, but there are no --peers", spelled))
			}
		}
		return bad
	}
	if c.secretFile == "" && len(c.peers) > 1 {
		bad = append(bad, fmt.Errorf("%s: the nodes know each other by a secret, but there is no --secret-file", c.spelled["peers"]))
	}
	self := slices.IndexFunc(c.peers, func(p floe.Peer) bool { return p.ID == c.nodeID })
	switch {
	case c.nodeID == 0:
		return append(bad, fmt.Errorf("%s: which of them this node is has to be said with --node-id", c.spelled["peers"]))
	case self < 0:
		return append(bad, fmt.Errorf("%s: is not among them (%s)", c.spelled["node-id"], c.spelled["peers"]))
	}
	host, number, _ := net.SplitHostPort(c.peers[self].Addr) // has been checked
	c.bind = cmp.Or(c.bind, host)
	if c.spelled["port"] == "" {
		c.port, _ = port(number)
		c.spelled["port"] = fmt.Sprintf("--port=%d", c.port)
	}
	return bad
}

// secret reads what the nodes of a cluster know each other by; nil if the node is alone.
func (c *config) secret() ([]byte, error) {
	if c.secretFile == "" {
		return nil, nil
	}
	b, err := readSmall(c.secretFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.spelled["secret-file"], err)
	}
	if b = bytes.TrimSpace(b); len(b) < minSecret {
		return nil, fmt.Errorf("%s: holds %d bytes, a secret has at least %d", c.spelled["secret-file"], len(b), minSecret)
	}
	return b, nil
}

// minSecret is how many bytes a node takes for a secret.
const minSecret = 16

// credentials are what is in the files that a server is told of.
type credentials struct {
	secret                   []byte
	node, dashboard, metrics *tls.Config // nil: clear text
}

// credentials reads them.
func (c *config) credentials() (_ *credentials, err error) {
	var all credentials
	if all.secret, err = c.secret(); err != nil {
		return nil, err
	}
	if all.node, err = c.serverTLS(); err != nil {
		return nil, err
	}
	if !c.noDashboard {
		if all.dashboard, err = c.dashboardEncryption(); err != nil {
			return nil, err
		}
	}
	if !c.noMetrics {
		all.metrics, err = c.metricsEncryption()
	}
	return &all, err
}

// listenAddr is where the node listens for clients and other nodes.
func (c *config) listenAddr() string { return net.JoinHostPort(c.bind, strconv.Itoa(c.port)) }

// checkDataDir makes sure that the data directory is one and can be written to. The node would find
// out as well, but not be able to tell it from a directory that is locked.
func (c *config) checkDataDir() error {
	err := os.MkdirAll(c.dataDir, 0o700)
	if err == nil {
		err = probe(c.dataDir)
	}
	if err != nil {
		return &hintedError{fmt.Errorf("%s: %w", c.spelled["data-dir"], err), "choose another directory with --data-dir"}
	}
	return nil
}

func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// dashboardAddr is where the dashboard is to listen.
func (c *config) dashboardAddr() string {
	return net.JoinHostPort(c.dashboardBind, strconv.Itoa(c.dashboardPort))
}

// metricsAddr is where the metrics are to be.
func (c *config) metricsAddr() string {
	return net.JoinHostPort(c.metricsBind, strconv.Itoa(c.metricsPort))
}

// isLocal reports whether only this machine can reach what listens at a host.
func isLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// shownDir is the data directory as the start-up lines have it.
func (c *config) shownDir() string {
	if abs, err := filepath.Abs(c.dataDir); err == nil {
		return abs
	}
	return c.dataDir
}

func (c *config) logger(p Process) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.logLevel}
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(p.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(p.Stderr, opts))
}
