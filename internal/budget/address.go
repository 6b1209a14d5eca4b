package budget

import "net/netip"

// Host returns the address that counts for an end of a connection: of IPv6 a network, since one
// customer has all of it.
func Host(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() && !addr.IsLoopback() {
		if network, err := addr.Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return addr
}

// AddressShare returns how many of so many connections one address may have: three fourths, so that
// others find a place; of few all.
func AddressShare(connections int) int { return max(connections/4*3, 16) }
