package floe

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"

	"github.com/floedb/floe/internal/auth"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/transport"
)

// Client is a connection to a node or cluster in other processes, with the same stores as a Node.
// Its methods are safe for concurrent use.
//
// Calls go to the leader of the shard. If the leader changes or a connection breaks, the client
// finds the new leader or reconnects to any member of the cluster, until the ctx of the call ends.
// Reads are retried until they are answered. Writes are retried only if they have certainly not
// happened; if the answer to a write is lost, the error is ErrUnknownOutcome. A call fails with
// ErrUnavailable only if nodes answer but none of them can reach a leader for 5 seconds. Watches,
// Follow and other waiting calls outlast such outages: they resume at their position, until their
// ctx ends. A call whose ctx has ended returns ctx's error, which matches none of floe's errors. A
// write may have happened then.
type Client struct {
	stores
	door *transport.Client
	gate gatekeeper
}

// DialOption changes how Dial connects.
type DialOption interface{ applyDial(*dialOptions) }

type dialOption func(*dialOptions)

func (f dialOption) applyDial(o *dialOptions) { f(o) }

type dialOptions struct {
	tls *tls.Config
	key string
}

// TLS encrypts the connections.
func TLS(c *tls.Config) DialOption { return dialOption(func(o *dialOptions) { o.tls = c }) }

// APIKey authenticates the client with a key that Keys.Create returned. Nodes without a key store
// accept any client.
func APIKey(key string) DialOption { return dialOption(func(o *dialOptions) { o.key = key }) }

// maxKeyText is more than the length of any key.
const maxKeyText = 1024

// Dial connects to a node, or to a cluster by the addresses of some or all of its nodes, each as
// host:port. It returns once one of them has answered. ctx bounds only the connecting.
//
// Errors: ErrInvalid without an address, or for one that is not host:port; ErrUnauthorized if the
// nodes reject the key; ErrUnavailable, within 5 seconds, with the reason for each address.
func Dial(ctx context.Context, addrs []string, opts ...DialOption) (*Client, error) {
	if len(addrs) == 0 {
		return nil, engine.Errorf(ErrInvalid, "floe: dial: no address")
	}
	for _, addr := range addrs {
		if !isHostPort(addr) {
			return nil, engine.Errorf(ErrInvalid, "floe: dial: address %q is not host:port", addr)
		}
	}
	opts, err := engine.Given(opts)
	if err != nil {
		return nil, fmt.Errorf("floe: dial: %w", err)
	}
	var o dialOptions
	for _, opt := range opts {
		opt.applyDial(&o)
	}
	if len(o.key) > maxKeyText { // a node would refuse to read it
		return nil, engine.Errorf(ErrUnauthorized, "floe: dial: wrong API key: it has %d bytes", len(o.key))
	}
	door, err := transport.Dial(ctx, transport.Config{Wire: engine.NewWire(primitive.All()), TLS: o.tls, Key: auth.Secret(o.key)}, addrs)
	if err != nil {
		return nil, fmt.Errorf("floe: dial: %w", err)
	}
	c := &Client{stores: stores{router: engine.NewRouter(door), stale: engine.NewRouter(door.StaleDoor()), maxValue: door.MaxValue},
		door: door}
	c.attach()
	c.gate.open(0, &c.stores, c, slog.New(slog.DiscardHandler))
	c.gate.gate.Attach(door, door)
	return c, nil
}

// Keys returns the API keys of the node or cluster. Listing and changing keys requires the role
// admin.
func (c *Client) Keys() *Keys { return &Keys{gate: &c.gate} }

// Stats returns figures about the node that answers the call, which can be any node.
func (c *Client) Stats(ctx context.Context) (Stats, error) { return decodeStats(c.door.Stats(ctx)) }

// StatsOf returns the figures of the node with the given id, queried through the node that answers
// Stats. Errors: ErrNotFound if there is no such node; ErrUnavailable if that node cannot reach it;
// ctx's error.
func (c *Client) StatsOf(ctx context.Context, id uint64) (Stats, error) {
	if id == 0 { // 0 would mean the answering node
		return Stats{}, noNode(id)
	}
	return decodeStats(c.door.StatsOf(ctx, id))
}

// Close closes the connections and returns when all goroutines have ended. Waiting calls fail with
// ErrClosed. A second Close does nothing.
func (c *Client) Close() error {
	c.door.Close()
	c.gate.close()
	return nil
}
