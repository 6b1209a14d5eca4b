package cli

import (
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestService runs the program as systemd does: it is told when the node serves and when it stops,
// and a SIGHUP has the dashboard show its new certificate, and the metrics, which have the same
// one.
func TestService(t *testing.T) {
	t.Parallel()
	path, a := build(t), newAuthority(t)
	issue := func(number int64) {
		a.issue("node", &x509.Certificate{
			SerialNumber: big.NewInt(number), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}, a.key)
	}
	issue(7)
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	told := func() string {
		t.Helper()
		if err := manager.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 64)
		n, err := manager.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	s := startBy(t, binary(path, func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket) }),
		"--data-dir", t.TempDir(), "--dashboard-tls-cert", a.file("node.pem"), "--dashboard-tls-key", a.file("node.key"))
	if got := told(); got != "READY=1" {
		t.Errorf("the service manager was told %q, want READY=1", got)
	}
	dashboard, metrics := strings.TrimPrefix(s.url, "https://"), strings.TrimSuffix(strings.TrimPrefix(s.scrape, "https://"), "/metrics")
	shown := func(addr string) int64 {
		t.Helper()
		pool := x509.NewCertPool()
		pool.AddCert(a.certificate())
		conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if at, too := shown(dashboard), shown(metrics); at != 7 || too != 7 {
		t.Errorf("the dashboard shows certificate %d, the metrics %d, want 7", at, too)
	}
	issue(8)
	s.signal(syscall.SIGHUP)
	for begun := time.Now(); shown(dashboard) != 8 || shown(metrics) != 8; {
		if time.Since(begun) > patience {
			t.Fatal("after SIGHUP an old certificate is still shown")
		}
	}
	s.signal(syscall.SIGTERM)
	if got := told(); got != "STOPPING=1" {
		t.Errorf("the service manager was told %q, want STOPPING=1", got)
	}
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d, stderr\n%s", code, s.stderr())
	}
}

// certificate returns the authority's own, as clients are given it.
func (a *authority) certificate() *x509.Certificate {
	a.t.Helper()
	pair, err := tls.LoadX509KeyPair(a.file("ca.pem"), a.file("ca.key"))
	a.must(err)
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	a.must(err)
	return cert
}
