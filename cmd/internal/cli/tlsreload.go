package cli

import (
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"
)

// certificate is one that is read again from its files when it has been replaced, and so are the
// authorities by which others are believed.
type certificate struct {
	files    *tlsFiles
	now      atomic.Pointer[tls.Certificate]
	believed atomic.Pointer[x509.CertPool] // nil: those of the system
}

// load reads the files; on an error what there was stays.
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

// site reads the files and returns how a site is encrypted with them, nil if there are none.
func (c *certificate) site(f *tlsFiles) (*tls.Config, error) {
	if f.cert.name == "" {
		return nil, nil
	}
	c.files = f
	if err := c.load(); err != nil {
		return nil, err
	}
	conf := &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	c.serve(conf)
	return conf, nil
}

// serve makes a configuration show the certificate, as a server and as a client.
func (c *certificate) serve(conf *tls.Config) {
	conf.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil }
	conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.now.Load(), nil }
}

// believe makes a configuration of the port for clients and nodes believe others by the authorities
// that there are now, also as a client of other nodes.
func (c *certificate) believe(conf *tls.Config) {
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := &tls.Config{ClientAuth: conf.ClientAuth, ClientCAs: c.believed.Load(), NextProtos: []string{"h2"}}
		c.serve(now)
		return now, nil
	}
	// The standard verification has the authorities of the beginning. This is the same with those
	// of now.
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
