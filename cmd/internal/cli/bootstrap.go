package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
)

// bootstrapTime is the timeout of a bootstrap.
const bootstrapTime = 30 * time.Second

func bootstrapCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Create the key store and an admin key",
		Long: `Create the key store and the first admin key, and print the key once.

From then on clients and users of the dashboard need a key. This cannot be undone. The
command takes the settings of server start. It works on the data directory of a stopped
node, or, on the same machine, with a running node, given by its port or data directory.`,
		Example: `  floe server bootstrap --out admin.key
  floe server bootstrap --data-dir /var/lib/floe -o json`,
		Args: takes(),
	}
	addSettings(cmd)
	out := addOutput(cmd, p)
	file := addSecretOut(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := readConfig(cmd, p)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), bootstrapTime)
		defer cancel()
		shown := false
		k, err := c.bootstrap(ctx, floe.KeepKey(func(k floe.Key, secret string) error {
			if err := showFirst(p.Stdout, out, *file, k, secret); err != nil {
				return fmt.Errorf("no key store was created, because its key could not be shown: %w", err)
			}
			shown = true
			return nil
		}))
		if err != nil {
			err, useless := explainBootstrap(err, shown)
			if useless && *file != "" {
				os.Remove(*file)
			}
			return coded(err)
		}
		if out.format == formatTable {
			fmt.Fprintf(p.Stderr, "floe: created the key store with admin key %s; the key cannot be shown again\n", k.ID)
		}
		return nil
	}
	return cmd
}

// showFirst shows the first key before the key store exists. If that fails, or the process is
// killed, the store is not locked by a key that no user has.
func showFirst(stdout io.Writer, out *output, file string, k floe.Key, secret string) error {
	if file != "" {
		f, err := createSecret(file)
		if err == nil {
			err = writeSecret(f, secret)
		}
		if err != nil {
			return err
		}
		secret = ""
	}
	if out.format != formatTable {
		if err := out.printKey(k, secret); err != nil {
			return err
		}
	} else if file == "" {
		if _, err := fmt.Fprintln(stdout, secret); err != nil {
			return err
		}
	}
	to, ok := stdout.(*os.File)
	if !ok {
		return nil
	}
	if info, err := to.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	return to.Sync() // a full disk may be reported only here
}

// explainBootstrap adds to an error what became of a key that was shown although the store could
// not be created. It also reports whether the key is certainly useless.
func explainBootstrap(err error, shown bool) (explained error, useless bool) {
	switch hinted := (*hintedError)(nil); {
	case !shown || errors.As(err, &hinted):
		return err, false
	case errors.Is(err, floe.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		return &hintedError{err, "the key store may have been created; if so, the key shown is valid"}, false
	}
	return &hintedError{err, "the key shown is not valid"}, true
}

// bootstrap creates the key store in the data directory, or through the node that has the directory
// open. If no directory is named or present, it calls the running node with these settings: a key
// store in a new directory would be of no use to that node.
func (c *config) bootstrap(ctx context.Context, keep floe.BootstrapOption) (floe.Key, error) {
	if c.peers == nil && (c.named("data-dir") || c.hasData() || !c.named("port") && !c.answers()) {
		if err := c.checkDataDir(); err != nil {
			return floe.Key{}, err
		}
		node, err := floe.Open(floe.Config{DataDir: c.dataDir, Shards: c.shards})
		if err == nil {
			k, _, err := node.Keys().Bootstrap(ctx, keep)
			if closeErr := node.Close(); err == nil && closeErr != nil {
				err = closeErr
			}
			return k, err
		}
		if !errors.Is(err, floe.ErrInUse) {
			return floe.Key{}, err
		}
	}
	return c.bootstrapRunning(ctx, keep)
}

// hasData reports whether the data directory exists and has data.
func (c *config) hasData() bool {
	_, err := os.Stat(filepath.Join(c.dataDir, "FORMAT"))
	return err == nil
}

// answers reports whether something listens on the address of a node with these settings.
func (c *config) answers() bool {
	conn, err := net.DialTimeout("tcp", c.selfAddr(), time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// selfAddr is the address of the node with these settings, as seen from its own machine.
func (c *config) selfAddr() string { return localAddr(c.bind, c.port) }

// localAddr is the address of a listener, as seen from its own machine. A node only accepts a
// bootstrap from there.
func localAddr(bind string, port int) string {
	if ip, err := netip.ParseAddr(bind); err == nil && ip.IsUnspecified() {
		bind = "127.0.0.1"
	}
	return net.JoinHostPort(bind, strconv.Itoa(port))
}

// bootstrapRunning creates the key store through the running node with these settings on this
// machine.
func (c *config) bootstrapRunning(ctx context.Context, keep floe.BootstrapOption) (floe.Key, error) {
	opts, err := c.dialSelf()
	if err != nil {
		return floe.Key{}, err
	}
	addr := c.selfAddr()
	client, err := floe.Dial(ctx, []string{addr}, opts...)
	if errors.Is(err, floe.ErrUnauthorized) {
		return floe.Key{}, &hintedError{&textError{floe.ErrExists, fmt.Sprintf("the node at %s already has a key store", addr)},
			"its admins create further keys with floe key create"}
	}
	if err != nil {
		return floe.Key{}, &hintedError{&textError{err, fmt.Sprintf("no node answers at %s: %s", addr, reason(err, []string{addr}))},
			"start it, or say with --port and --bind where it listens, or with --data-dir where its data is"}
	}
	defer client.Close()
	k, _, err := client.Keys().Bootstrap(ctx, keep)
	return k, err
}

// dialSelf returns the options to connect to a node with these settings. Both ends use the node's
// certificate.
func (c *config) dialSelf() ([]floe.DialOption, error) {
	if c.tls.cert.name == "" {
		return nil, nil
	}
	certs, _, err := c.tls.load()
	if err != nil {
		return nil, err
	}
	own := certs[0].Certificate[0]
	return []floe.DialOption{floe.TLS(&tls.Config{
		Certificates:       certs,
		InsecureSkipVerify: true, // VerifyConnection replaces it: the certificate must be exactly that of the file
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || string(s.PeerCertificates[0].Raw) != string(own) {
				return errors.New("it shows another certificate than that of the file")
			}
			return nil
		},
	})}, nil
}
