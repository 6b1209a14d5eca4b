package dashboard

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/floedb/floe/internal/engine"
)

// hostSet returns the names as a set for checkHost.
func hostSet(hosts []string) map[string]bool {
	set := make(map[string]bool, len(hosts))
	for _, host := range hosts {
		set[canonicalHost(host)] = true
	}
	return set
}

// checkHost returns errMisdirected unless the Host header names a loopback address or one of the
// hosts. nil allows all.
//
// A browser that reaches 127.0.0.1 through a foreign name (DNS rebinding) sends that name, and
// treats the response as belonging to the foreign site. All methods therefore need the check.
func checkHost(hosts map[string]bool, header string) error {
	if hosts == nil {
		return nil
	}
	host := canonicalHost((&url.URL{Host: header}).Hostname())
	if isLoopback(host) || hosts[host] {
		return nil
	}
	return engine.Errorf(errMisdirected, "unknown host %.255q: use localhost, or add it to the dashboard's hosts", host)
}

// checkNear rejects requests from other machines while there is no key store, if LocalUntilKeys is
// set.
func (h *handler) checkNear(r *http.Request) error {
	if !h.localUntil || h.isNear(r) {
		return nil
	}
	locked, err := h.backend.Keys().Enabled(r.Context())
	if err == nil && !locked {
		err = engine.Errorf(errForbidden,
			"this node has no API keys yet and accepts only local requests: create keys with floe server bootstrap there, or start it with "+
				"--insecure")
	}
	return err
}

// isNear reports whether a request comes from this machine.
func (h *handler) isNear(r *http.Request) bool {
	from, err := netip.ParseAddr(h.clientOf(r))
	if err != nil {
		return false
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return from.Unmap().IsLoopback() || local != nil && local.AddrPort().Addr().Unmap() == from.Unmap()
}

func canonicalHost(host string) string {
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
