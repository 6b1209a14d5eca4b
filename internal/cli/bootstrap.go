package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
)

// bootstrapTime is how long it may take.
const bootstrapTime = 30 * time.Second

func bootstrapCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Make the key store, and show the first admin key once",
		Long: `Make the key store, and show the first admin key once.

From then on clients and users of the dashboard need a key. It takes the settings of
server start, and works on the data directory of a node that is stopped, or, from the
same machine, on one that is running. There is no way back.`,
		Example: `  floe server bootstrap > admin.key
  floe server bootstrap --data-dir /var/lib/floe -o json`,
		Args: takes(),
	}
	addSettings(cmd)
	out := addOutput(cmd, p)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := readConfig(cmd, p)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), bootstrapTime)
		defer cancel()
		k, secret, err := c.bootstrap(ctx)
		if err != nil {
			return coded(err)
		}
		if out.format != formatTable {
			return out.printKey(k, secret)
		}
		fmt.Fprintf(p.Stderr, "floe: there is a key store now; this is key %s, an admin's, which nobody can show again:\n", k.ID)
		_, err = fmt.Fprintln(p.Stdout, secret)
		return err
	}
	return cmd
}

// bootstrap makes the key store of the data directory, or of the node that has it.
func (c *config) bootstrap(ctx context.Context) (floe.Key, string, error) {
	if c.peers == nil {
		if err := c.checkDataDir(); err != nil {
			return floe.Key{}, "", err
		}
		node, err := floe.Open(floe.Config{DataDir: c.dataDir, Shards: c.shards})
		if err == nil {
			k, secret, err := node.Keys().Bootstrap(ctx)
			if closeErr := node.Close(); err == nil && closeErr != nil {
				err = closeErr
			}
			return k, secret, err
		}
		if !errors.Is(err, floe.ErrInUse) {
			return floe.Key{}, "", err
		}
	}
	return c.bootstrapRunning(ctx)
}

// bootstrapRunning asks the node that runs with these settings on this machine.
func (c *config) bootstrapRunning(ctx context.Context) (floe.Key, string, error) {
	opts, err := c.dialSelf()
	if err != nil {
		return floe.Key{}, "", err
	}
	host := c.bind
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1" // the node believes nobody who does not come from its own machine
	}
	addr := net.JoinHostPort(host, strconv.Itoa(c.port))
	client, err := floe.Dial(ctx, []string{addr}, opts...)
	if errors.Is(err, floe.ErrUnauthorized) {
		return floe.Key{}, "", &hintedError{fmt.Errorf("the node at %s has a key store already", addr), "its admins create further keys with floe key create"}
	}
	if err != nil {
		return floe.Key{}, "", &hintedError{fmt.Errorf("no node answers at %s: %w", addr, err), "start it, or say with --port and --bind where it listens"}
	}
	defer client.Close()
	return client.Keys().Bootstrap(ctx)
}

// dialSelf returns how to connect to a node with these settings: it is believed by its own certificate, and shown the same.
func (c *config) dialSelf() ([]floe.DialOption, error) {
	if c.tls.cert.name == "" {
		return nil, nil
	}
	certs, _, err := c.tls.load()
	if err != nil {
		return nil, err
	}
	own := certs[0].Certificate[0]
	return []floe.DialOption{floe.WithTLS(&tls.Config{
		Certificates:       certs,
		InsecureSkipVerify: true, // by names and authorities; it has to be the very certificate that is in the file
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || string(s.PeerCertificates[0].Raw) != string(own) {
				return errors.New("it shows another certificate than that of the file")
			}
			return nil
		},
	})}, nil
}
