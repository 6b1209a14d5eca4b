package main

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
)

// namespace holds all data of the shop. It is in one shard, so a transaction can change any of it.
const namespace = "shop"

// shop is the shop of one node. All of its data is in db, so any number of nodes can serve it.
type shop struct {
	db   floe.DB // a floe.Node, or the floe.Client of a node elsewhere
	log  *slog.Logger
	send func(context.Context, mail) error // delivers a mail
}

func newShop(db floe.DB, log *slog.Logger) *shop {
	s := &shop{db: db, log: log}
	s.send = s.logMail
	return s
}

// The stores of the shop. They are cheap to make.
func (s *shop) store() *kv.Store        { return s.db.KV(namespace) }
func (s *shop) carts() kv.View[cart]    { return kv.JSON[cart](s.store()) }
func (s *shop) orders() kv.View[order]  { return kv.JSON[order](s.store()) }
func (s *shop) mails() queue.View[mail] { return queue.JSON[mail](s.db.Queue(namespace)) }
func (s *shop) replica() *kv.Store      { return s.db.KV(namespace, floe.Stale()) }
func orderKey(id string) string         { return "order/" + id }
func cartKey(id string) string          { return "cart/" + id }
func productKey(sku string) string      { return "product/" + sku }
func stockKey(sku string) string        { return "stock/" + sku }

//go:embed order.yaml
var orderDefinition []byte

//go:embed revenue.yaml
var revenueDefinition []byte

// setUp creates the actions, the workflow, the job, the queue and the catalog. Each node does so at
// each start; repeating it changes nothing. setUp waits while the cluster has no quorum.
func (s *shop) setUp(ctx context.Context) error {
	for {
		err := s.define(ctx)
		if !errors.Is(err, floe.ErrUnavailable) {
			return err
		}
		s.log.Info("waiting for the cluster", "error", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *shop) define(ctx context.Context) error {
	for name := range s.actions() {
		if _, err := s.db.Action(namespace).Register(ctx, name, action.Backoff(200*time.Millisecond, time.Minute)); err != nil {
			return err
		}
	}
	if _, err := s.db.Workflow(namespace).Create(ctx, orderDefinition); err != nil {
		return err
	}
	if _, err := s.db.Processing(namespace).Apply(ctx, revenueDefinition); err != nil {
		return err
	}
	if err := s.db.Queue(namespace).Configure(ctx, mailQueue, queue.Settings{MaxAttempts: 10}); err != nil {
		return err
	}
	return s.stockUp(ctx)
}

// run serves the shop, executes the actions of the workflow and sends mails until ctx ends. It
// returns when the requests, actions and mails in progress are finished.
func (s *shop) run(ctx context.Context, l net.Listener) error {
	parts := []func(context.Context) error{s.work, s.deliver, func(ctx context.Context) error { return s.serve(ctx, l) }}
	return together(ctx, len(parts), func(ctx context.Context, i int) error { return parts[i](ctx) })
}

// grace is how long requests in flight may take when the shop stops. Then they are cancelled, as
// are the long polls of the dashboard.
const grace = 3 * time.Second

func (s *shop) serve(ctx context.Context, l net.Listener) error {
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       time.Minute,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	waiting, cancel := context.WithTimeout(requests, grace)
	defer cancel()
	err := server.Shutdown(waiting)
	if errors.Is(err, context.DeadlineExceeded) {
		cut()
		err = server.Close()
	}
	<-ended // http.ErrServerClosed
	return err
}
