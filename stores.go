package floe

import (
	"context"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workers"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
	"github.com/floedb/floe/workflow"
)

// stores are the stores of all primitives: the common part of Node and Client.
type stores struct {
	router   *engine.Router // to the leaders
	stale    *engine.Router // to any replica
	maxValue func() int
}

// attach makes the workers of all stores appear in listings.
func (s *stores) attach() {
	registrar := workers.NewRegistrar(s.router)
	s.router.Attach(registrar)
	s.stale.Attach(registrar)
}

// AccessOption changes how a store reaches its data.
type AccessOption interface{ applyAccess(access) access } // by value, so that getting a store allocates nothing

type access struct{ stale bool }

type staleOption struct{}

func (staleOption) applyAccess(a access) access {
	a.stale = true
	return a
}

// Stale makes any available replica answer reads, without asking the shard's leader. A replica that
// is cut off may lag without a bound, but it also answers if there is no leader. Watches and waits
// follow that replica. Writes are not affected.
func Stale() AccessOption { return staleOption{} }

func (s *stores) pick(opts []AccessOption) *engine.Router {
	var a access
	opts, _ = engine.Given(opts) // a nil option changes nothing: there is no error to return here
	for _, opt := range opts {
		a = opt.applyAccess(a)
	}
	if a.stale {
		return s.stale
	}
	return s.router
}

// KV returns the key-value store of a namespace. The namespace need not exist: the first write
// creates it.
func (s *stores) KV(namespace string, opts ...AccessOption) *kv.Store {
	return engine.StoreOf[kv.Store](s.pick(opts), namespace, s.maxValue())
}

// Stream returns the streams and consumer groups of a namespace.
func (s *stores) Stream(namespace string, opts ...AccessOption) *stream.Store {
	return engine.StoreOf[stream.Store](s.pick(opts), namespace, s.maxValue())
}

// Queue returns the queues of a namespace.
func (s *stores) Queue(namespace string, opts ...AccessOption) *queue.Store {
	return engine.StoreOf[queue.Store](s.pick(opts), namespace, s.maxValue())
}

// Action returns the actions of a namespace, with their runs and workers.
func (s *stores) Action(namespace string, opts ...AccessOption) *action.Store {
	return engine.StoreOf[action.Store](s.pick(opts), namespace, s.maxValue())
}

// Workflow returns the workflows of a namespace, with their runs.
func (s *stores) Workflow(namespace string, opts ...AccessOption) *workflow.Store {
	return engine.StoreOf[workflow.Store](s.pick(opts), namespace, s.maxValue())
}

// Processing returns the stream-processing jobs of a namespace.
func (s *stores) Processing(namespace string, opts ...AccessOption) *processing.Store {
	return engine.StoreOf[processing.Store](s.pick(opts), namespace, s.maxValue())
}

// TS returns the time series of a namespace.
func (s *stores) TS(namespace string, opts ...AccessOption) *ts.Store {
	return engine.StoreOf[ts.Store](s.pick(opts), namespace, s.maxValue())
}

// FloQL evaluates a query over the time series of a namespace; see package floql. It is shorthand
// for TS(namespace).Query. A namespace that does not exist has no series.
//
// Errors: *floql.Error for a mistake in the query, with its position; *floql.LimitError if it
// exceeds a limit; ErrInvalid if it needs points that only remain as rollups; ErrUnavailable; ctx's
// error.
func (s *stores) FloQL(ctx context.Context, namespace, query string, opts ...floql.Options) (*floql.Result, error) {
	return s.TS(namespace).Query(ctx, query, opts...)
}

// Txn starts a transaction over the primitives of a namespace.
func (s *stores) Txn(namespace string) *Txn {
	return &Txn{*engine.NewTxn(s.router, namespace, s.maxValue())}
}

// Namespaces returns the handle that creates and lists namespaces.
func (s *stores) Namespaces(opts ...AccessOption) *Namespaces {
	return &Namespaces{*engine.NewNamespaces(s.pick(opts))}
}

// MaxValueSize returns the limit of values and payloads, in bytes: Config.MaxValueSize of the
// nodes.
func (s *stores) MaxValueSize() int { return s.maxValue() }
