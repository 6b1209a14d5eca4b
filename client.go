package floe

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/peer"
	"github.com/floedb/floe/internal/primitive"
)

// Client is a node or a cluster in other processes, with the same stores as a Node. Its methods may be used by many goroutines at once.
//
// It asks the leader of each shard, finds the next one when that changes, and connects again by itself, to any member of the cluster, until the ctx of
// a call ends. Reads are repeated until they are answered, writes only while they have certainly not happened; one whose answer got lost is
// ErrUnknownOutcome. A call is ErrUnavailable only if nodes answer, and for 5 seconds none of them knows a leader or can help otherwise. Watches,
// Follow and everything that waits outlast that too: they go on, where they were, until their ctx ends. A call whose ctx has ended returns ctx's error,
// which matches none of floe's; a write may have happened then.
type Client struct {
	stores
	door *peer.Client
}

// DialOption changes how Dial connects.
type DialOption func(*dialOptions)

type dialOptions struct{ tls *tls.Config }

// WithTLS encrypts the connections.
func WithTLS(c *tls.Config) DialOption { return func(o *dialOptions) { o.tls = c } }

// Dial connects to a node, or to a cluster of which it is given some or all nodes, each as host:port. It returns when one of them has answered. ctx bounds
// that only.
//
// Errors: ErrInvalid without an address; ErrUnavailable, within 5 seconds, with the reason for each of them.
func Dial(ctx context.Context, addrs []string, opts ...DialOption) (*Client, error) {
	if len(addrs) == 0 {
		return nil, engine.Errorf(ErrInvalid, "floe: dial: no address")
	}
	var o dialOptions
	for _, opt := range opts {
		opt(&o)
	}
	door, err := peer.Dial(ctx, peer.Config{Wire: engine.NewWire(primitive.All()), TLS: o.tls}, addrs)
	if err != nil {
		return nil, fmt.Errorf("floe: dial: %w", err)
	}
	c := &Client{stores{engine.NewRouter(door), engine.NewRouter(door.StaleDoor()), door.MaxValue}, door}
	c.attach()
	return c, nil
}

// Stats returns figures about the node that is asked, whichever that is.
func (c *Client) Stats(ctx context.Context) (Stats, error) { return decodeStats(c.door.Stats(ctx)) }

// StatsOf returns what a node of the cluster, by its id, says about itself, through the one that Stats would ask. Errors: ErrNotFound if there is
// no such node; ErrUnavailable if it does not answer that one; ctx's.
func (c *Client) StatsOf(ctx context.Context, id uint64) (Stats, error) {
	if id == 0 { // would be the one that is asked
		return Stats{}, noNode(id)
	}
	return decodeStats(c.door.StatsOf(ctx, id))
}

// Close ends the connections and returns when all goroutines have ended. Calls that wait get ErrClosed. A second Close does nothing.
func (c *Client) Close() error {
	c.door.Close()
	return nil
}
