package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// tlsFiles are the TLS files of one end of a connection. Each has the setting as it was given, such
// as "--tls-cert=node.pem", or "".
type tlsFiles struct{ cert, key, ca tlsFile }

type tlsFile struct{ name, spelled string }

// check returns an error for contradictory settings.
func (f *tlsFiles) check() error {
	switch {
	case f.cert.name != "" && f.key.name == "":
		return fmt.Errorf("%s: is of no use without its key, --tls-key", f.cert.spelled)
	case f.key.name != "" && f.cert.name == "":
		return fmt.Errorf("%s: is of no use without its certificate, --tls-cert", f.key.spelled)
	}
	return nil
}

// load returns the certificate of this end, none without a file, and the trusted authorities, nil
// without a file.
func (f *tlsFiles) load() (certs []tls.Certificate, authorities *x509.CertPool, err error) {
	if f.cert.name != "" {
		cert, err := tls.LoadX509KeyPair(f.cert.name, f.key.name)
		if err != nil {
			return nil, nil, fmt.Errorf("%s, %s: %w", f.cert.spelled, f.key.spelled, err)
		}
		certs = []tls.Certificate{cert}
	}
	if f.ca.name == "" {
		return certs, nil, nil
	}
	pem, err := os.ReadFile(f.ca.name)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.ca.spelled, err)
	}
	authorities = x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, nil, fmt.Errorf("%s: holds no certificate in PEM form", f.ca.spelled)
	}
	return certs, authorities, nil
}

// checkTLS returns an error for contradictory settings.
func (c *config) checkTLS() error {
	f := &c.tls
	f.cert.spelled, f.key.spelled, f.ca.spelled = c.spelled["tls-cert"], c.spelled["tls-key"], c.spelled["tls-client-ca"]
	if f.ca.name != "" && f.cert.name == "" {
		return fmt.Errorf("%s: the node needs a certificate itself, --tls-cert", f.ca.spelled)
	}
	return f.check()
}

// serverTLS returns the TLS configuration of the node's port, nil for clear text. The same
// authorities verify clients and other nodes.
func (c *config) serverTLS() (*tls.Config, error) {
	if c.tls.cert.name == "" {
		return nil, nil
	}
	certs, authorities, err := c.tls.load()
	if err != nil {
		return nil, err
	}
	c.cert.files = &c.tls
	c.cert.now.Store(&certs[0])
	c.cert.believed.Store(authorities)
	conf := &tls.Config{RootCAs: authorities, ClientCAs: authorities}
	c.cert.serve(conf)
	if authorities != nil {
		conf.ClientAuth = tls.RequireAndVerifyClientCert
		c.cert.believe(conf)
	}
	return conf, nil
}

// checkSiteTLS returns an error for contradictory TLS settings of a site; flags is the prefix of
// its flags.
func (c *config) checkSiteTLS(f *tlsFiles, flags string) error {
	f.cert.spelled, f.key.spelled = c.spelled[flags+"tls-cert"], c.spelled[flags+"tls-key"]
	switch {
	case f.cert.name != "" && f.key.name == "":
		return fmt.Errorf("%s: is of no use without its key, --%stls-key", f.cert.spelled, flags)
	case f.key.name != "" && f.cert.name == "":
		return fmt.Errorf("%s: is of no use without its certificate, --%stls-cert", f.key.spelled, flags)
	}
	return nil
}

// checkMetricsTLS returns an error for contradictory settings. Without files of its own, the
// metrics port uses those of the dashboard, because clients send API keys to both.
func (c *config) checkMetricsTLS() error {
	err := c.checkSiteTLS(&c.metricsTLS, "metrics-")
	if c.metricsTLS.cert.name == "" && !c.noDashboard {
		c.metricsTLS = c.dashboardTLS
		c.text["metrics-tls-cert"], c.text["metrics-tls-key"] = c.text["dashboard-tls-cert"], c.text["dashboard-tls-key"]
	}
	return err
}

// dashboardEncryption returns the TLS configuration of the dashboard, nil for clear text.
func (c *config) dashboardEncryption() (*tls.Config, error) {
	return c.dashboardCert.site(&c.dashboardTLS)
}

// metricsEncryption returns the TLS configuration of the metrics, nil for clear text.
func (c *config) metricsEncryption() (*tls.Config, error) { return c.metricsCert.site(&c.metricsTLS) }

// reloadTLS reloads the certificates for new connections.
func (c *config) reloadTLS() error {
	var bad []error
	for _, cert := range []*certificate{&c.cert, &c.dashboardCert, &c.metricsCert} {
		if cert.files != nil {
			bad = append(bad, cert.load())
		}
	}
	return errors.Join(bad...)
}

// clientTLS are the TLS flags of a command that calls a node.
type clientTLS struct {
	on    bool
	files tlsFiles
}

func (c *clientTLS) equip(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.BoolVar(&c.on, "tls", false, "use TLS with the system's CAs; also FLOE_TLS")
	flags.StringVar(&c.files.ca.name, "tls-ca", "", "use TLS with the CAs in this `file`; also FLOE_TLS_CA")
	flags.StringVar(&c.files.cert.name, "tls-cert", "", "`file` with the client certificate; also FLOE_TLS_CERT")
	flags.StringVar(&c.files.key.name, "tls-key", "", "`file` with the key of the certificate; also FLOE_TLS_KEY")
}

// config returns the TLS configuration, nil if TLS is not requested. Errors: *usageError for
// contradictory settings.
func (c *clientTLS) config(cmd *cobra.Command, p Process) (*tls.Config, error) {
	files := c.files
	for _, e := range []struct {
		flag, env string
		file      *tlsFile
	}{
		{"tls-ca", "FLOE_TLS_CA", &files.ca}, {"tls-cert", "FLOE_TLS_CERT", &files.cert}, {"tls-key", "FLOE_TLS_KEY", &files.key},
	} {
		e.file.spelled = "--" + e.flag + "=" + e.file.name
		if v, _ := p.LookupEnv(e.env); v != "" && !cmd.Flags().Changed(e.flag) {
			*e.file = tlsFile{v, e.env + "=" + v}
		}
	}
	on := c.on
	if v, _ := p.LookupEnv("FLOE_TLS"); v != "" && !cmd.Flags().Changed("tls") {
		if err := choose(&on, v, switches); err != nil {
			return nil, &usageError{fmt.Errorf("FLOE_TLS=%s: %w", v, err), helpHint(cmd)}
		}
	}
	if err := files.check(); err != nil {
		return nil, &usageError{err, helpHint(cmd)}
	}
	if !on && files.ca.name == "" && files.cert.name == "" {
		return nil, nil
	}
	certs, authorities, err := files.load()
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: certs, RootCAs: authorities}, nil
}
