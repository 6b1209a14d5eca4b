package budget

import "net/netip"

// Host returns the address under which a peer's connections are counted. For IPv6 it is the /64
// network, since one customer owns all of it.
func Host(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() && !addr.IsLoopback() {
		if network, err := addr.Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return addr
}

// AddressShare returns how many of a number of connections one address may have: three quarters, so
// that other addresses find room. If the number is small, it may have all.
func AddressShare(connections int) int { return max(connections/4*3, 16) }
