package cli

import (
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"
)

// certificate is a certificate, with the trusted authorities, that can be reloaded from its files.
type certificate struct {
	files    *tlsFiles
	now      atomic.Pointer[tls.Certificate]
	believed atomic.Pointer[x509.CertPool] // nil: those of the system
}

// load reads the files. On error the current certificate and authorities stay.
func (c *certificate) load() error {
	certs, authorities, err := c.files.load()
	if err != nil {
		return err
	}
	if len(certs) > 0 {
		c.now.Store(&certs[0])
	}
	if authorities != nil {
		c.believed.Store(authorities)
	}
	return nil
}

// site reads the files and returns the TLS configuration of a site, nil without files.
func (c *certificate) site(f *tlsFiles) (*tls.Config, error) {
	if f.cert.name == "" {
		return nil, nil
	}
	c.files = f
	if err := c.load(); err != nil {
		return nil, err
	}
	conf := new(tls.Config)
	c.serve(conf)
	return conf, nil
}

// serve makes conf present the current certificate, as a server and as a client.
func (c *certificate) serve(conf *tls.Config) {
	conf.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil }
	conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.now.Load(), nil }
}

// believe makes the configuration of the port for clients and nodes verify peers with the current
// authorities, also as a client of other nodes.
func (c *certificate) believe(conf *tls.Config) {
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := &tls.Config{ClientAuth: conf.ClientAuth, ClientCAs: c.believed.Load(), NextProtos: []string{"h2"}}
		c.serve(now)
		return now, nil
	}
	// The standard verification uses the authorities from the start. VerifyConnection does the same
	// with the current ones.
	conf.InsecureSkipVerify = true
	conf.VerifyConnection = func(s tls.ConnectionState) error {
		opts := x509.VerifyOptions{Roots: c.believed.Load(), DNSName: s.ServerName, Intermediates: x509.NewCertPool()}
		for _, cert := range s.PeerCertificates[1:] {
			opts.Intermediates.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(opts)
		return err
	}
}
