package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/budget"
)

// setting is one setting of a server. Its environment variable is FLOE_ followed by the flag's
// name.
type setting struct {
	flag   string
	key    string // key in the configuration file; "!" in front inverts the boolean
	kind   string // type of the value, as the help shows it; "" for a switch
	preset string
	help   string
	set    func(c *config, value string) error // the error describes what is wrong with the value
}

// settings are all settings, in the order of their help.
var settings = []setting{
	{"data-dir", "data_dir", "dir", "./floe-data", "data directory, created if missing", func(c *config, v string) error {
		c.dataDir = v
		return notEmpty(v)
	}},
	{"shards", "shards", "n", "",
		"number of shards, 1 to 256, fixed when the directory is created (default 4, or that of the directory)",
		func(c *config, v string) (err error) {
			c.shards, err = integer(v, "number of shards", 256)
			return err
		}},
	{"durability", "durability", "when", "sync",
		"when a write is acknowledged: sync (fsynced) or async (written, fsynced within --sync-interval)",
		func(c *config, v string) error {
			return choose(&c.durability, v, map[string]floe.Durability{"sync": floe.Sync, "async": floe.Async})
		}},
	{"sync-interval", "sync_interval", "duration", "100ms",
		"maximum time until a write is fsynced with the durability async",
		func(c *config, v string) (err error) {
			c.syncInterval, err = positiveDuration(v)
			return err
		}},
	{"clock-catch-up", "clock.catch_up", "duration", "7d",
		"maximum lead of the data over the clock; within it, time runs at half speed until the clock has caught up",
		func(c *config, v string) (err error) {
			c.clockCatchUp, err = positiveDuration(v)
			return err
		}},
	{"cache-size", "cache_size", "size", "",
		"memory for cached data (default a quarter of --memory, or 256MiB)",
		func(c *config, v string) (err error) {
			c.cacheSize, err = size(v, 1<<20, 1<<40)
			return err
		}},
	{"memory", "memory", "size", "",
		"memory budget of the node, shared by caches, queues and connections; requests beyond it are rejected (default " +
			"GOMEMLIMIT, or 90 % of the cgroup's limit, or unlimited)",
		func(c *config, v string) (err error) {
			c.memory, err = size(v, budget.Least, 1<<45)
			return err
		}},
	{"max-connections", "limits.max_connections", "n", "",
		"maximum number of connections of clients and nodes, and, up to 4096, of the dashboard (default by --memory, at " +
			"most 10000)",
		func(c *config, v string) (err error) {
			c.maxConnections, err = integer(v, "number of connections", 1_000_000)
			return err
		}},
	{"max-in-flight", "limits.max_in_flight", "n", "",
		"maximum number of concurrent client calls; of one namespace three quarters of it (default by --memory, at most 65536)",
		func(c *config, v string) (err error) {
			c.maxInFlight, err = integer(v, "number of calls", 1_000_000)
			return err
		}},
	{"max-waiting", "limits.max_waiting", "n", "",
		"maximum number of waiting client calls, such as watches and long polls (default by --memory, at most 100000)",
		func(c *config, v string) (err error) {
			c.maxWaiting, err = integer(v, "number of calls", 100_000)
			return err
		}},
	{"max-requests", "limits.max_requests", "n", "",
		"maximum number of concurrent dashboard requests; more are rejected with 429 (default by --memory, at most 1024)",
		func(c *config, v string) (err error) {
			c.maxRequests, err = integer(v, "number of requests", 1_000_000)
			return err
		}},
	{"max-value-size", "max_value_size", "size", "1MiB",
		"maximum size of a value or payload, at most 16MiB",
		func(c *config, v string) (err error) {
			c.maxValueSize, err = size(v, 1, 16<<20)
			return err
		}},
	{"port", "listen_port", "port", "",
		"port for clients and nodes, 0 for any free port (default 9000, in a cluster that of the node in --peers)",
		func(c *config, v string) (err error) {
			c.port, err = port(v)
			return err
		}},
	{"bind", "bind", "ip", "",
		"bind address for clients and nodes; clients on other machines are rejected until there are keys (default " +
			"127.0.0.1, in a cluster that of the node in --peers)",
		func(c *config, v string) error {
			c.bind = v
			return address(v)
		}},
	{"node-id", "cluster.node_id", "n", "", "ID of this node in --peers", func(c *config, v string) error {
		id, err := nodeID(v)
		c.nodeID = id
		return err
	}},
	{"peers", "cluster.peers", "id=host:port,...", "",
		"all nodes of the cluster, including this one; fixed when the directory is created (default a single node)",
		func(c *config, v string) (err error) {
			c.peers, err = peers(v)
			return err
		}},
	{"secret-file", "cluster.secret_file", "file", "",
		"file with the shared secret of the cluster's nodes, at least 16 bytes",
		func(c *config, v string) error {
			c.secretFile = v
			return notEmpty(v)
		}},
	{"tls-cert", "tls.cert", "file", "",
		"file with the TLS certificate of the port for clients and nodes; the dashboard has --dashboard-tls-cert",
		func(c *config, v string) error {
			c.tls.cert.name = v
			return notEmpty(v)
		}},
	{"tls-key", "tls.key", "file", "", "file with the key of that certificate", func(c *config, v string) error {
		c.tls.key.name = v
		return notEmpty(v)
	}},
	{"tls-client-ca", "tls.client_ca", "file", "",
		"file with the CAs of clients and nodes (default no client certificates; nodes are verified by the system's CAs)",
		func(c *config, v string) error {
			c.tls.ca.name = v
			return notEmpty(v)
		}},
	{"insecure", "insecure", "", "",
		"accept clients on other machines while there are no keys",
		func(c *config, v string) error {
			return choose(&c.insecure, v, switches)
		}},
	{"no-dashboard", "!dashboard.enabled", "", "", "disable the dashboard and the HTTP API", func(c *config, v string) error {
		return choose(&c.noDashboard, v, switches)
	}},
	{"dashboard-port", "dashboard_port", "port", "",
		"port of the dashboard, 0 for any free port (default --port + 2)",
		func(c *config, v string) (err error) {
			c.dashboardPort, err = port(v)
			return err
		}},
	{"dashboard-bind", "dashboard.bind", "ip", "127.0.0.1",
		"bind address of the dashboard; clients on other machines are rejected until there are keys",
		func(c *config, v string) error {
			c.dashboardBind = v
			return address(v)
		}},
	{"dashboard-hosts", "dashboard.hosts", "name,...", "",
		"further host names of the dashboard, accepted while it is bound to this machine and there are no keys",
		func(c *config, v string) error {
			c.dashboardHosts = splitList(v)
			return hostNames(c.dashboardHosts)
		}},
	{"dashboard-cors-origins", "dashboard.cors_origins", "origin,...", "",
		"origins, such as https://ops.example.com, whose pages may call the dashboard",
		func(c *config, v string) error {
			c.corsOrigins = splitList(v)
			for _, origin := range c.corsOrigins {
				if err := http.NewCrossOriginProtection().AddTrustedOrigin(origin); err != nil {
					return err
				}
			}
			return nil
		}},
	{"dashboard-trusted-proxies", "dashboard.trusted_proxies", "address,...", "",
		"addresses of reverse proxies of dashboard and metrics, such as 10.0.0.0/8, whose X-Forwarded-For is trusted",
		func(c *config, v string) (err error) {
			c.trustedProxies, err = networks(splitList(v))
			return err
		}},
	{"dashboard-tls-cert", "dashboard.tls_cert", "file", "",
		"file with the TLS certificate of the dashboard",
		func(c *config, v string) error {
			c.dashboardTLS.cert.name = v
			return notEmpty(v)
		}},
	{"dashboard-tls-key", "dashboard.tls_key", "file", "", "file with the key of that certificate", func(c *config, v string) error {
		c.dashboardTLS.key.name = v
		return notEmpty(v)
	}},
	{"no-metrics", "!metrics.enabled", "", "", "disable the metrics", func(c *config, v string) error {
		return choose(&c.noMetrics, v, switches)
	}},
	{"metrics-port", "metrics_port", "port", "",
		"port of the Prometheus metrics, 0 for any free port (default --port + 1)",
		func(c *config, v string) (err error) {
			c.metricsPort, err = port(v)
			return err
		}},
	{"metrics-bind", "metrics.bind", "ip", "127.0.0.1", "bind address of the metrics", func(c *config, v string) error {
		c.metricsBind = v
		return address(v)
	}},
	{"metrics-hosts", "metrics.hosts", "name,...", "",
		"further host names of the metrics, accepted while they are bound to this machine and there are no keys",
		func(c *config, v string) error {
			c.metricsHosts = splitList(v)
			return hostNames(c.metricsHosts)
		}},
	{"metrics-tls-cert", "metrics.tls_cert", "file", "",
		"file with the TLS certificate of the metrics (default that of the dashboard)",
		func(c *config, v string) error {
			c.metricsTLS.cert.name = v
			return notEmpty(v)
		}},
	{"metrics-tls-key", "metrics.tls_key", "file", "", "file with the key of that certificate", func(c *config, v string) error {
		c.metricsTLS.key.name = v
		return notEmpty(v)
	}},
	{"metrics-objects", "metrics.objects", "n", "1000",
		"maximum number of objects of a kind (queues, streams, groups, ...) with their own series; the others are added up",
		func(c *config, v string) (err error) {
			c.metricsObjects, err = integer(v, "number of objects", 1_000_000)
			return err
		}},
	{"log-level", "log.level", "level", "info",
		"minimum level of log lines: debug, info, warn or error",
		func(c *config, v string) error {
			return choose(&c.logLevel, v, map[string]slog.Level{
				"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
			})
		}},
	{"log-format", "log.format", "format", "text", "format of the log on stderr: text or json", func(c *config, v string) error {
		return choose(&c.logFormat, v, map[string]string{"text": "text", "json": "json"})
	}},
}

// switches are the values of a boolean setting.
var switches = map[string]bool{"true": true, "1": true, "false": false, "0": false}

func (s *setting) env() string {
	return "FLOE_" + strings.ToUpper(strings.ReplaceAll(s.flag, "-", "_"))
}

// text is the value of a flag. It accepts anything: settings are checked together, whatever their
// source.
type text struct{ value, kind string }

func (t *text) String() string     { return t.value }
func (t *text) Set(v string) error { t.value = v; return nil }
func (t *text) Type() string       { return t.kind }

func addSettings(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.String("config", "", "configuration `file`; also FLOE_CONFIG (default floe.toml, if it exists)")
	for _, s := range settings {
		flag := flags.VarPF(&text{s.preset, s.kind}, s.flag, "", s.help)
		if s.kind == "" {
			flag.NoOptDefVal = "true"
		}
		// The only error is an unknown flag.
		_ = cmd.RegisterFlagCompletionFunc(s.flag, completed(s.kind))
	}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
}

// isSetting reports whether a flag is a setting. Other commands have flags of the same name.
func isSetting(f *pflag.Flag) bool {
	return slices.ContainsFunc(settings, func(s setting) bool { return s.flag == f.Name && s.help == f.Usage })
}

// completed returns the completion for values of a kind.
func completed(kind string) cobra.CompletionFunc {
	values := map[string][]string{
		"when": {"sync", "async"}, "level": {"debug", "info", "warn", "error"}, "format": {"text", "json"}, "": {"true", "false"},
	}[kind]
	directive := cobra.ShellCompDirectiveNoFileComp
	switch kind {
	case "dir":
		directive = cobra.ShellCompDirectiveFilterDirs
	case "file":
		directive = cobra.ShellCompDirectiveDefault
	}
	return cobra.FixedCompletions(values, directive)
}

// find returns the value of a setting and how it was spelled, "" if it has none. Flags take
// precedence over the environment, the environment over the file.
func (s *setting) find(cmd *cobra.Command, p Process, f *configFile) (value, spelled string) {
	if flag := cmd.Flags().Lookup(s.flag); flag.Changed {
		return flag.Value.String(), "--" + s.flag + "=" + flag.Value.String()
	}
	// Kubernetes sets FLOE_PORT=tcp://10.0.0.1:9000 for a service called floe. That is not a
	// setting of this server.
	if v, _ := p.LookupEnv(s.env()); v != "" && !strings.HasPrefix(v, "tcp://") {
		return v, s.env() + "=" + v
	}
	if e, given := f.entries[s.path()]; given {
		return e.text, e.spelled
	}
	if s.preset == "" {
		return "", ""
	}
	return s.preset, "--" + s.flag + "=" + s.preset
}

// splitList splits a list into its parts.
func splitList(v string) (parts []string) {
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// size parses a number of bytes, such as 1048576 or 1MiB.
func size(v string, least, most int64) (int64, error) {
	number, factor := strings.TrimSpace(v), int64(1)
	for i, unit := range []string{"KiB", "MiB", "GiB"} {
		if rest, found := strings.CutSuffix(number, unit); found {
			number, factor = strings.TrimSpace(rest), 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return 0, errors.New("not a size: it takes bytes, or a whole number with KiB, MiB or GiB behind")
	}
	if n *= factor; n < least || n > most {
		return 0, fmt.Errorf("%s is not between %s and %s", shownSize(n), shownSize(least), shownSize(most))
	}
	return n, nil
}

func shownSize(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if shift := 10 * (3 - i); n != 0 && n%(1<<shift) == 0 {
			return strconv.FormatInt(n>>shift, 10) + unit
		}
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

const maxPort = 1<<16 - 1

func integer(v, what string, most int) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("not a %s: it takes 1 to %d", what, most)
	}
	return n, nil
}

// port parses a port to listen on; 0 is any free port.
func port(v string) (int, error) {
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("not a port: it takes 0 to %d", maxPort)
	}
	return int(n), nil
}

func nodeID(v string) (uint64, error) {
	id, err := strconv.ParseUint(v, 10, 64)
	if err != nil || id == 0 {
		return 0, errors.New("not a node id: it takes whole numbers from 1")
	}
	return id, nil
}

// peers parses the nodes of a cluster, as "1=10.0.0.1:9000,2=10.0.0.2:9000".
func peers(v string) ([]floe.Peer, error) {
	var all []floe.Peer
	for part := range strings.SplitSeq(v, ",") {
		number, addr, found := strings.Cut(strings.TrimSpace(part), "=")
		id, err := nodeID(number)
		if err != nil || !found {
			return nil, fmt.Errorf("%q is not id=host:port", part)
		}
		if err := hostPort(addr); err != nil {
			return nil, fmt.Errorf("%q of node %d %w", addr, id, err)
		}
		if slices.ContainsFunc(all, func(p floe.Peer) bool { return p.ID == id }) {
			return nil, fmt.Errorf("node %d is listed twice", id)
		}
		if at := slices.IndexFunc(all, func(p floe.Peer) bool { return p.Addr == addr }); at >= 0 {
			return nil, fmt.Errorf("nodes %d and %d have the same address, %s", all[at].ID, id, addr)
		}
		if len(all) == maxPeers {
			return nil, fmt.Errorf("a cluster has at most %d nodes", maxPeers)
		}
		all = append(all, floe.Peer{ID: id, Addr: addr})
	}
	return all, nil
}

// maxPeers is the maximum number of nodes in a cluster.
const maxPeers = 7

// hostPort checks an address to connect to.
func hostPort(v string) error {
	host, number, err := net.SplitHostPort(v)
	if n, parseErr := port(number); err != nil || host == "" || parseErr != nil || n == 0 {
		return errors.New("is not host:port")
	}
	return nil
}

func address(v string) error {
	if _, err := netip.ParseAddr(v); err != nil && v != "localhost" {
		return errors.New("not an IP address")
	}
	return nil
}

// hostNames checks host names as they appear in requests, without ports.
func hostNames(names []string) error {
	for _, name := range names {
		if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
			continue
		}
		bad := strings.IndexFunc(name, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._", r))
		})
		if bad >= 0 {
			return fmt.Errorf("invalid host name or address %q: only letters, digits, - and . are allowed, without scheme, port or path", name)
		}
	}
	return nil
}

// networks parses single addresses and networks such as 10.0.0.0/8.
func networks(names []string) (all []netip.Prefix, err error) {
	for _, name := range names {
		p, err := netip.ParsePrefix(name)
		if addr, notAlone := netip.ParseAddr(name); notAlone == nil {
			p, err = netip.PrefixFrom(addr.Unmap().WithZone(""), addr.Unmap().BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", name)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

func notEmpty(v string) error {
	if v == "" {
		return errors.New("is empty")
	}
	return nil
}

// choose sets *to to the value that the map holds for a name.
func choose[T any](to *T, value string, of map[string]T) error {
	chosen, known := of[value]
	if !known {
		return fmt.Errorf("not one of %s", strings.Join(slices.Sorted(maps.Keys(of)), ", "))
	}
	*to = chosen
	return nil
}
