package main

import (
	"context"
	"fmt"

	"github.com/floedb/floe/queue"
)

const mailQueue = "mail"

// mail is a message of the queue.
type mail struct {
	ID      string `json:"id"` // for the Message-ID, by which a mail server detects repeats
	To      string `json:"to"`
	Subject string `json:"subject"`
}

func mailOf(o order) mail {
	m := mail{ID: o.ID + "." + o.Status, To: o.Email, Subject: fmt.Sprintf("Your order of %v is %s", o.Total, o.Status)}
	if o.Reason != "" {
		m.Subject += ": " + o.Reason
	}
	return m
}

// deliver sends mails until ctx ends. A failed mail is retried with a back-off and becomes a dead
// letter after 10 attempts. The dashboard lists dead letters and requeues them.
func (s *shop) deliver(ctx context.Context) error {
	return s.mails().Consume(ctx, mailQueue, func(ctx context.Context, m queue.MessageOf[mail]) error {
		return s.send(ctx, m.Value)
	}, queue.Concurrency(4), queue.OnError(func(m *queue.Message, err error) { s.log.Warn("mail failed", "error", err) }))
}

// logMail stands for a mail server.
func (s *shop) logMail(_ context.Context, m mail) error {
	s.log.Info("mail sent", "to", m.To, "subject", m.Subject)
	return nil
}
