package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

// newTLS returns the TLS configuration with which nodes on 127.0.0.1 and their clients authenticate
// each other: both use the same certificate.
func newTLS(t *testing.T) *tls.Config {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

// TestTLS runs three nodes that authenticate each other by certificates, and a client that has one.
// Clients without a certificate must be refused.
func TestTLS(t *testing.T) {
	t.Parallel()
	c := &three{t: t, nodes: make([]*floe.Node, 3), tls: newTLS(t)}
	c.open()
	addr := c.peers[1].Addr
	client, err := floe.Dial(t.Context(), []string{addr}, floe.TLS(c.tls))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, ns := range namespaces() {
		if err := putAnyway(t, client.KV(ns)); err != nil {
			t.Errorf("put: %v", err)
		}
		ok[kv.Entry](t)(c.nodes[2].KV(ns).Get(t.Context(), "k"))
	}
	var dials sync.WaitGroup
	for name, conf := range map[string]*tls.Config{
		"in clear text":         nil,
		"without certificate":   {RootCAs: c.tls.RootCAs},
		"that trusts no server": {Certificates: c.tls.Certificates},
	} {
		var opts []floe.DialOption
		if conf != nil {
			opts = append(opts, floe.TLS(conf))
		}
		dials.Go(func() {
			if client, err := floe.Dial(t.Context(), []string{addr}, opts...); !errors.Is(err, floe.ErrUnavailable) {
				t.Errorf("dial %s: %v, want ErrUnavailable", name, err)
				if err == nil {
					client.Close()
				}
			}
		})
	}
	dials.Wait()
}
