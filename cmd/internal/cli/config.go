package cli

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
)

// config is the configuration of a server.
type config struct {
	port          int // listen_port; see check for the defaults of port and bind
	bind          string
	nodeID        uint64      // 0: not in a cluster
	peers         []floe.Peer // nil: single node
	secretFile    string
	tls           tlsFiles // ca verifies clients and other nodes
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

	memory         int64 // 0: no limit
	allowed        int64 // detected memory of the process; 0 if memory was set or is unknown
	files          int   // maximum number of open files of the process; 0: any number
	maxConnections int   // for this and the next three, 0: as memory allows
	maxInFlight    int
	maxWaiting     int
	maxRequests    int

	noMetrics      bool
	metricsPort    int // see checkMetrics
	metricsBind    string
	metricsHosts   []string
	metricsTLS     tlsFiles // those of the dashboard if not set
	metricsObjects int

	cert, dashboardCert, metricsCert certificate
	logLevel                         slog.Level
	logFormat                        string

	// spelled maps the flag of a setting to how it was given: "--shards=4" or "FLOE_SHARDS=4".
	// Messages quote it.
	spelled map[string]string
	// text maps the flag of a setting to the text of its value, including derived values.
	text    map[string]string
	flagged map[string]bool // settings given as flags
	file    string          // the configuration file, "" if none exists
}

// readConfig returns the configuration from flags, environment, configuration file and defaults, in
// this order of precedence. Its usageError lists all mistakes.
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

// named reports whether a setting was given and is not just a default.
func (c *config) named(flag string) bool {
	return c.flagged[flag] || c.spelled[flag] != "" && c.spelled[flag] != "--"+flag+"="+c.text[flag]
}

// check derives the settings that depend on others, and returns the contradictions.
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

// checkPort applies the default of a port, which is the node's own port plus behind, and returns
// what is wrong with the port.
func (c *config) checkPort(flag, what string, port *int, behind int) []error {
	if c.spelled[flag] == "" && c.port != 0 { // if the node uses any free port, this one does too
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

// The default address of a single node.
const (
	defaultPort = 9000
	defaultBind = "127.0.0.1"
)

// checkCluster makes the node listen, by default, at its address in the list of peers.
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
		bad = append(bad, fmt.Errorf("%s: a cluster needs a shared secret: --secret-file is missing", c.spelled["peers"]))
	}
	self := slices.IndexFunc(c.peers, func(p floe.Peer) bool { return p.ID == c.nodeID })
	switch {
	case c.nodeID == 0:
		return append(bad, fmt.Errorf("%s: which of them this node is has to be said with --node-id", c.spelled["peers"]))
	case self < 0:
		return append(bad, fmt.Errorf("%s: is not among them (%s)", c.spelled["node-id"], c.spelled["peers"]))
	}
	host, number, _ := net.SplitHostPort(c.peers[self].Addr) // checked before
	c.bind = cmp.Or(c.bind, host)
	if c.spelled["port"] == "" {
		c.port, _ = port(number)
		c.spelled["port"] = fmt.Sprintf("--port=%d", c.port)
	}
	return bad
}

// secret reads the shared secret of the cluster's nodes; nil for a single node.
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

// minSecret is the minimum length of a secret in bytes.
const minSecret = 16

// credentials are the contents of the secret and TLS files of a server.
type credentials struct {
	secret                   []byte
	node, dashboard, metrics *tls.Config // nil: clear text
}

// credentials reads the files.
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

// listenAddr is the bind address for clients and other nodes.
func (c *config) listenAddr() string { return net.JoinHostPort(c.bind, strconv.Itoa(c.port)) }

// checkDataDir checks that the data directory is a directory, writable, and not that of another
// program. The node would detect some of this too, but could not distinguish it from a locked
// directory.
func (c *config) checkDataDir() error {
	hint := "choose another directory with --data-dir"
	err := os.MkdirAll(c.dataDir, 0o700)
	if err == nil {
		err = probe(c.dataDir)
	}
	if err == nil {
		err = foreign(c.dataDir)
	}
	if errors.Is(err, fs.ErrPermission) {
		hint += ", or give this user write access"
	}
	if err != nil {
		return &hintedError{fmt.Errorf("%s: %w", c.spelled["data-dir"], err), hint}
	}
	return nil
}

func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".probe-*")
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return fmt.Errorf("cannot create a file: %w", failed.Err) // its name would say nothing
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// ownFile matches what an interrupted first start leaves in the data directory, and what is in the
// root of a new file system.
var ownFile = regexp.MustCompile(`^(LOCK|COUNTS|log|state|BALLAST\..*|FORMAT\.tmp|\.probe-.*|lost\+found)$`)

// foreign returns an error if dir holds files, but no data of a node.
func foreign(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	other := ""
	for _, e := range entries {
		switch {
		case e.Name() == "FORMAT":
			return nil
		case other == "" && !ownFile.MatchString(e.Name()):
			other = e.Name()
		}
	}
	if other != "" {
		return fmt.Errorf("the directory is not empty and has no data of floe; it holds %s", other)
	}
	return nil
}

// dashboardAddr is the bind address of the dashboard.
func (c *config) dashboardAddr() string {
	return net.JoinHostPort(c.dashboardBind, strconv.Itoa(c.dashboardPort))
}

// metricsAddr is the bind address of the metrics.
func (c *config) metricsAddr() string {
	return net.JoinHostPort(c.metricsBind, strconv.Itoa(c.metricsPort))
}

// isLocal reports whether a listener at host is only reachable from this machine.
func isLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// shownDir is the data directory as shown in the start-up lines.
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
