package queue_test

import (
	"context"
	"fmt"
	"log"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
)

// A view encodes and decodes messages as JSON of a Go type.
func ExampleJSON() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	type mail struct{ To, Subject string }
	ctx, stop := context.WithCancel(context.Background())
	mails := queue.JSON[mail](node.Queue("default"))

	mails.Enqueue(ctx, "mail", mail{"ada", "welcome"})
	mails.Enqueue(ctx, "mail", mail{"grace", "welcome back"})
	err = mails.Consume(ctx, "mail", func(ctx context.Context, m queue.MessageOf[mail]) error {
		fmt.Printf("attempt %d: %q to %s\n", m.Attempts, m.Value.Subject, m.Value.To)
		if m.Value.To == "grace" {
			stop()
		}
		return nil // the message is acked
	})
	fmt.Println("ended:", err)
	// Output:
	// attempt 1: "welcome" to ada
	// attempt 1: "welcome back" to grace
	// ended: <nil>
}
