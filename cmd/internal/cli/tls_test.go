package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/machinetest"
)

// authority signs the certificates of a test. Its own is in ca.pem of dir.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.issue("ca", a.cert, nil)
	return a
}

// issue writes NAME.pem and NAME.key; with no signer the certificate signs itself.
func (a *authority) issue(name string, cert *x509.Certificate, signer *ecdsa.PrivateKey) *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, signer)
	a.must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	a.must(err)
	a.must(os.WriteFile(a.file(name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	a.must(os.WriteFile(a.file(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// certify issues a certificate for a node or client on this machine.
func (a *authority) certify(name string) {
	a.t.Helper()
	a.issue(name, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.key)
}

// TestTLS has a node that encrypts, and one that also wants certificates, and clients of all kinds.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.certify("node")
	a.certify("client")
	cert := "--tls-cert " + a.file("node.pem") + " --tls-key " + a.file("node.key")
	open := start(t, strings.Fields("--shards 1 --data-dir "+t.TempDir()+" "+cert)...)
	defer open.stop()
	closed := start(t, strings.Fields("--shards 1 --data-dir "+t.TempDir()+" --bind 0.0.0.0 "+cert+" --tls-client-ca "+a.file("ca.pem"))...)
	defer closed.stop()
	_, port, _ := net.SplitHostPort(closed.addr)
	closed.addr = "127.0.0.1:" + port
	plain := start(t, "--shards", "1", "--data-dir", t.TempDir())
	defer plain.stop()
	if !strings.Contains(open.stdout, "\n  tls        on\n") ||
		!strings.Contains(closed.stdout, "\n  tls        on, clients and other nodes show certificates\n") {
		t.Errorf("stdout\n%s%s", open.stdout, closed.stdout)
	}
	if strings.Contains(closed.stderr(), "lets everybody") {
		t.Errorf("a node that wants certificates warns\n%s", closed.stderr())
	}
	ca := "--tls-ca " + a.file("ca.pem")
	shown := " --tls-cert " + a.file("client.pem") + " --tls-key " + a.file("client.key")
	var calls sync.WaitGroup
	for _, tc := range []struct {
		at     *running
		args   string
		env    map[string]string
		code   int
		stderr string // parts, by |
	}{
		{at: open, args: ca},
		{at: open, args: ca + shown},
		{at: open, env: map[string]string{"FLOE_TLS_CA": a.file("ca.pem")}},
		{at: closed, args: ca + shown},
		{at: closed, env: map[string]string{"FLOE_TLS_CA": a.file("ca.pem"), "FLOE_TLS_CERT": a.file("client.pem"),
			"FLOE_TLS_KEY": a.file("client.key")}},
		{at: plain, env: map[string]string{"FLOE_TLS": "true"}, args: "--tls=false"},
		{at: open, code: 5, stderr: "no node answers|hint: say with --addr or FLOE_ADDR where one is; if it encrypts, with --tls-ca"},
		{at: open, args: "--tls", code: 5, stderr: "unknown authority|hint: say with --tls-ca"},
		{at: closed, args: ca, code: 5, stderr: "no node answers|hint: the node may want a certificate that it believes, --tls-cert"},
		{at: plain, args: ca, code: 5,
			stderr: "no node answers|hint: the node may want a certificate that it believes, --tls-cert; or it does not encrypt"},
		{at: plain, env: map[string]string{"FLOE_TLS": "1"}, code: 5,
			stderr: "no node answers|hint: the node may want a certificate that it believes, --tls-cert; or it does not encrypt"},
		{at: open, args: "--tls-ca " + a.file("ca.key"), code: 1, stderr: "error: --tls-ca=|ca.key: holds no certificate in PEM form"},
		{at: open, args: "--tls-ca nowhere", code: 1, stderr: "error: --tls-ca=nowhere: |no such file"},
		{at: open, args: "--tls-cert a --tls-key b", code: 1, stderr: "error: --tls-cert=a, --tls-key=b: |no such file"},
		{at: open, args: "--tls-cert a", code: 2, stderr: "error: --tls-cert=a: is of no use without its key, --tls-key\n"},
		{at: open, env: map[string]string{"FLOE_TLS_KEY": "b"}, code: 2,
			stderr: "error: FLOE_TLS_KEY=b: is of no use without its certificate, --tls-cert\n"},
		{at: open, env: map[string]string{"FLOE_TLS": "yes"}, code: 2, stderr: "error: FLOE_TLS=yes: not one of 0, 1, false, true\n"},
		{at: open, args: "--tls=perhaps", code: 2, stderr: "error: --tls=perhaps: not one of false, true\n"},
	} {
		calls.Go(func() { // each refusal takes its time
			args := strings.Fields("kv set k v --timeout 3s --addr " + tc.at.addr + " " + tc.args)
			code, _, stderr := run(t, tc.env, args...)
			if code != tc.code {
				t.Errorf("floe %v with %v: exit code %d, want %d; stderr\n%s", args, tc.env, code, tc.code, stderr)
			}
			for part := range strings.SplitSeq(tc.stderr, "|") {
				if !strings.Contains(stderr, part) {
					t.Errorf("floe %v with %v: stderr lacks %q:\n%s", args, tc.env, part, stderr)
				}
			}
		})
	}
	calls.Wait()
}

// TestTLSCluster runs three nodes that show each other certificates.
func TestTLSCluster(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.certify("node")
	secret := secretFile(t)
	addrs := []string{machinetest.FreeAddr(t), machinetest.FreeAddr(t), machinetest.FreeAddr(t)}
	for i, addr := range addrs {
		_, port, _ := net.SplitHostPort(addr)
		s := start(t, "--data-dir", t.TempDir(), "--shards", "1", "--port", port, "--node-id", strconv.Itoa(i+1), "--secret-file", secret,
			"--peers", fmt.Sprintf("1=%s,2=%s,3=%s", addrs[0], addrs[1], addrs[2]),
			"--tls-cert", a.file("node.pem"), "--tls-key", a.file("node.key"), "--tls-client-ca", a.file("ca.pem"))
		defer s.stop()
	}
	awaitHealthy(t, map[string]string{
		"FLOE_ADDR": addrs[0], "FLOE_TLS_CA": a.file("ca.pem"), "FLOE_TLS_CERT": a.file("node.pem"), "FLOE_TLS_KEY": a.file("node.key"),
	}, len(addrs))
}

// TestReloadAuthorities: after SIGHUP a node believes clients by the authorities that its file has
// then, and shows its new certificate.
func TestReloadAuthorities(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	before.certify("node")
	before.certify("client")
	after.certify("node")
	after.certify("client")
	hangups := make(chan os.Signal, 1)
	s := startBy(t, as(Process{LookupEnv: lookup(nil), Hangups: hangups}), "--shards", "1", "--data-dir", t.TempDir(), "--tls-cert",
		before.file("node.pem"), "--tls-key", before.file("node.key"), "--tls-client-ca", before.file("ca.pem"))
	defer s.stop()
	as := func(a *authority) int {
		code, _, _ := run(t, nil, "server", "status", "--addr", s.addr, "--tls-ca", a.file("ca.pem"), "--tls-cert", a.file("client.pem"),
			"--tls-key", a.file("client.key"))
		return code
	}
	if old, other := as(before), as(after); old != 0 || other == 0 {
		t.Fatalf("before: exit codes %d with its authority and %d with another one", old, other)
	}
	for _, name := range []string{"node.pem", "node.key", "ca.pem"} {
		b, err := os.ReadFile(after.file(name))
		after.must(err)
		after.must(os.WriteFile(before.file(name), b, 0o600))
	}
	hangups <- syscall.SIGHUP
	for late := time.Now().Add(patience); as(after) != 0; {
		if time.Now().After(late) {
			t.Fatalf("the new authority is not believed; stderr\n%s", s.stderr())
		}
	}
	if code := as(&authority{t: t, dir: before.dir}); code == 0 { // whose client's certificate is of the old authority
		t.Error("the old authority is still believed")
	}
}
