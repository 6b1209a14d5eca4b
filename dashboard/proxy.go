package dashboard

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientOf returns the address of the client that sent a request, without a port. It is the address
// of the connection. If that is a trusted proxy, it is the last address in X-Forwarded-For that is
// not one of a trusted proxy. Addresses that the client itself puts into that header come earlier
// and are ignored.
func (h *handler) clientOf(r *http.Request) string {
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		peer = r.RemoteAddr
	}
	if len(h.proxies) == 0 || !h.trusts(peer) {
		return peer
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		addr, ok := parseHop(hop)
		if !ok {
			break // earlier addresses are unknown
		}
		if peer = addr.String(); !h.trusts(peer) {
			break
		}
	}
	return peer
}

// trusts reports whether an address is one of a trusted proxy.
func (h *handler) trusts(address string) bool {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(h.proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// parseHop parses an element of X-Forwarded-For; some proxies add a port.
func parseHop(hop string) (netip.Addr, bool) {
	hop = strings.TrimSpace(hop)
	if addr, err := netip.ParseAddr(strings.Trim(hop, "[]")); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	withPort, err := netip.ParseAddrPort(hop)
	return withPort.Addr().Unmap().WithZone(""), err == nil
}
