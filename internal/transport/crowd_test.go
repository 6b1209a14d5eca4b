package transport

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/budget"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

// from is a connection with a given remote address.
type from struct {
	net.Conn
	addr string
}

func (f from) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f.addr)) }

// arrive returns the guest for a connection from an address, nil if there is no place.
func (c *crowd) arrive(t *testing.T, addr string) *guest {
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	return c.admit(from{a, addr})
}

// TestPlaces: an address has a share of the connections, with an IPv6 network counting as one
// address, and nodes have places reserved for them.
func TestPlaces(t *testing.T) {
	c := newCrowd(10, time.Minute)
	c.share, c.reserved = 4, 2
	told := 0
	c.crowds = func(netip.Addr) { told++ }
	c.learn("192.0.2.9:9000")
	c.learn("a.name:9000")
	defer c.closeAll()
	count := func(n int, addr func(i int) string) (in []*guest) {
		for i := range n {
			if g := c.arrive(t, addr(i)); g != nil {
				in = append(in, g)
			}
		}
		return in
	}
	v4 := count(8, func(i int) string { return fmt.Sprintf("192.0.2.1:%d", 1000+i) })
	v6 := count(8, func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1000", i+1) })
	if len(v4) != 4 || len(v6) != 4 || told != 8 {
		t.Errorf("%d and %d connections of two addresses, %d told; want their shares, 4", len(v4), len(v6), told)
	}
	if err := v4[0].Close(); err != nil {
		t.Error(err)
	}
	if c.arrive(t, "192.0.2.1:2000") == nil {
		t.Error("a place that was given back is not to be had")
	}
	if near := count(8, func(int) string { return "127.0.0.1:1000" }); len(near) != 2 {
		t.Errorf("%d connections of this machine, want the 2 that are left", len(near))
	}
	if nodes := count(8, func(int) string { return "192.0.2.9:1000" }); len(nodes) != 2 {
		t.Errorf("%d connections of a node beyond the limit, want the 2 that are reserved", len(nodes))
	}
}

// TestStrangersAreClosed: a connection without an accepted stream is closed, however active it is;
// one with an accepted stream stays.
func TestStrangersAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(10, time.Hour)
		c.strange = greetTimeout
		idle, refused, greeting, welcomed := c.arrive(t, "192.0.2.1:1"), c.arrive(t, "192.0.2.1:2"), c.arrive(t, "192.0.2.1:3"), c.arrive(t,
			"192.0.2.1:4")
		defer c.closeAll()
		open := func(g *guest) bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.conns[g]
		}
		<-time.After(greetTimeout - time.Second)
		for _, g := range []*guest{refused, greeting, welcomed} {
			g.begins()
		}
		refused.greeted(false, false)
		welcomed.greeted(true, false)
		<-time.After(2 * time.Second)
		if open(idle) || !open(refused) || !open(greeting) || !open(welcomed) {
			t.Errorf("after 6 s: idle %t, refused %t, greeting %t, welcomed %t", open(idle), open(refused), open(greeting), open(welcomed))
		}
		<-time.After(greetTimeout)
		if open(refused) || !open(greeting) || !open(welcomed) {
			t.Errorf("after 11 s: refused %t, greeting %t, welcomed %t", open(refused), open(greeting), open(welcomed))
		}
		welcomed.begins()
		welcomed.greeted(false, false)
		<-time.After(2 * greetTimeout)
		if !open(welcomed) {
			t.Error("a connection that has been welcomed is closed for a stream that was not")
		}
	})
}

// TestStrangersLearnNothing: a peer without the secret or a key gets no HMAC to test secrets with.
// It does not learn the identity of this node or its members.
func TestStrangersLearnNothing(t *testing.T) {
	r := newRig(t)
	for name, sent := range map[string][]byte{
		"as a node":              testHello(asNode),
		"as a node, sealed":      testHello(func(h *hello) { asNode(h); h.seal = h.sealed([]byte("another secret")) }),
		"as a node, no member":   testHello(func(h *hello) { asNode(h); h.identity.Node = 9; h.seal = make([]byte, proofBytes) }),
		"of another version":     testHello(func(h *hello) { h.version = Version + 1 }),
		"for a node that is not": testHello(func(h *hello) { h.to = 77 }),
	} {
		s := r.stream(r.http(), pathDoor)
		if _, err := s.in.Write(frameOf(sent)); err != nil {
			t.Fatal(err)
		}
		b, err := readFrame(s.r, nil, maxHello)
		if err != nil {
			t.Fatal(err)
		}
		var w welcome
		if err := decoded("welcome", b, w.code); err != nil {
			t.Fatal(err)
		}
		if w.refusal == nil || len(w.proof) > 0 || len(w.members) > 0 || !reflect.DeepEqual(w.identity, shard.Introduction{}) {
			t.Errorf("%s: %+v", name, w)
		}
		if err := testWire().DecodeError(w.refusal); name[:4] == "as a" && err.Error() != errSecret.Error() {
			t.Errorf("%s: %v, want the same for each", name, err)
		}
	}
}

// TestUnfinishedHellos: unfinished hellos take memory only for as many as are handled at a time,
// whatever the number of streams, and honest clients get their turn.
func TestUnfinishedHellos(t *testing.T) {
	t.Parallel()
	l := budget.Divide(budget.Least, 2)
	p := New(Config{Wire: engine.NewWire(nil), Limits: &l})
	defer p.Close()
	if most := int64(max(l.Connections, 64)) * maxHello; p.greeting.limit > most || p.greeting.share > p.greeting.limit/2 {
		t.Errorf("%d bytes for hellos, %d of them for an address, want %d at most", p.greeting.limit, p.greeting.share, most)
	}
	r := newRig(t)
	r.peer.accepted.mu.Lock()
	clear(r.peer.accepted.nodes) // nodes on this machine, like the strangers
	r.peer.accepted.mu.Unlock()
	begun := frameOf(testHello(nil))
	for range maxGreeted/shareOf + 8 {
		s := r.stream(r.http(), pathDoor)
		if _, err := s.in.Write(begun[:len(begun)-1]); err != nil {
			t.Fatal(err)
		}
	}
	r.peer.greeting.mu.Lock()
	used := r.peer.greeting.used
	r.peer.greeting.mu.Unlock()
	if used == 0 || used > r.peer.greeting.share {
		t.Errorf("%d bytes of hellos of one address, its share is %d", used, r.peer.greeting.share)
	}
	for { // its turn comes when the first strangers time out, which may be later than an attempt to connect lasts
		if c, err := Dial(t.Context(), Config{Wire: testWire()}, []string{r.addr}); err == nil {
			defer c.Close()
			r.well(c)
			return
		}
	}
}
