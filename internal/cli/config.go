package cli

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
)

// config is what a server was told.
type config struct {
	port          int // listen_port
	bind          string
	dataDir       string
	shards        int // 0: as the directory was created
	durability    floe.Durability
	noDashboard   bool
	dashboardPort int // 0 until check has worked it out
	dashboardBind string
	logLevel      slog.Level
	logFormat     string

	// spelled is how each setting was given, by its flag: "--shards=4" or "FLOE_SHARDS=4". Messages quote it.
	spelled map[string]string
}

// readConfig returns the configuration from flags, environment and presets, in this order. Its usageError has everything that
// is wrong with it.
func readConfig(cmd *cobra.Command, p Process) (*config, error) {
	c := &config{spelled: make(map[string]string)}
	var bad []error
	for _, s := range settings {
		value, spelled := s.find(cmd, p)
		c.spelled[s.flag] = spelled
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

// check works out what follows from other settings, and returns what does not go together.
func (c *config) check() []error {
	if c.noDashboard {
		return nil
	}
	c.spelled["dashboard-port"] = cmp.Or(c.spelled["dashboard-port"], fmt.Sprintf("--dashboard-port=%d", c.port+2))
	c.dashboardPort = cmp.Or(c.dashboardPort, c.port+2)
	switch {
	case c.dashboardPort > maxPort:
		return []error{fmt.Errorf("%s: the dashboard would be at port %d, but ports end at %d: choose one with --dashboard-port", c.spelled["port"], c.dashboardPort, maxPort)}
	case c.dashboardPort == c.port:
		return []error{fmt.Errorf("%s: is the port for clients and peers already (%s)", c.spelled["dashboard-port"], c.spelled["port"])}
	}
	return nil
}

// checkDataDir makes sure that the data directory is one and can be written to. The node would find out as well, but not be able
// to tell it from a directory that is locked.
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

// dashboardAddr is where the dashboard listens.
func (c *config) dashboardAddr() string {
	return net.JoinHostPort(c.dashboardBind, strconv.Itoa(c.dashboardPort))
}

// dashboardIsLocal reports whether only this machine can reach the dashboard.
func (c *config) dashboardIsLocal() bool {
	addr, err := netip.ParseAddr(c.dashboardBind)
	return err != nil || addr.Unmap().IsLoopback() // what is no address is localhost
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
