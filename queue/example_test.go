package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
)

func Example() {
	node, err := floe.Open(floe.Config{}) // in memory
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, jobs := context.Background(), node.Queue("default")

	jobs.Enqueue(ctx, "mail", []byte("newsletter"))
	jobs.Enqueue(ctx, "mail", []byte("password reset"), queue.Priority(10))

	messages, err := jobs.Dequeue(ctx, "mail", queue.Max(10))
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range messages {
		fmt.Printf("%d: %s\n", m.Seq, m.Payload)
		if _, err := jobs.Ack(ctx, "mail", m.Receipt); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 2: password reset
	// 1: newsletter
}

// Consume handles a queue's messages, several at a time, until its context ends. It returns once
// all started messages are settled.
func ExampleStore_Consume() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, stop := context.WithCancel(context.Background())
	jobs := node.Queue("default")

	for _, name := range []string{"ada", "nobody", "grace"} {
		jobs.Enqueue(ctx, "mail", []byte(name))
	}
	err = jobs.Consume(ctx, "mail", func(ctx context.Context, m queue.Message) error {
		if string(m.Payload) == "nobody" {
			return queue.Permanent(errors.New("no such address")) // another attempt would not help
		}
		fmt.Printf("a letter to %s\n", m.Payload)
		if string(m.Payload) == "grace" {
			stop()
		}
		return nil
	})
	fmt.Println("ended:", err)
	s, _ := jobs.Get(context.Background(), "mail")
	fmt.Printf("%d acked, %d dead\n", s.Acked, s.Dead)
	// Output:
	// a letter to ada
	// a letter to grace
	// ended: <nil>
	// 2 acked, 1 dead
}

// A message that fails is delivered again, and becomes a dead letter after its last attempt.
func Example_deadLetters() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, jobs := context.Background(), node.Queue("default")

	jobs.Configure(ctx, "mail", queue.Settings{MaxAttempts: 2, BackoffMin: queue.NoBackoff})
	jobs.Enqueue(ctx, "mail", []byte("to: nobody"))
	for range 2 {
		messages, _ := jobs.Dequeue(ctx, "mail")
		m := messages[0]
		fmt.Printf("attempt %d of %d\n", m.Attempts, m.MaxAttempts)
		jobs.Nack(ctx, "mail", []queue.Receipt{m.Receipt}, queue.Reason("no such address"))
	}
	for m, err := range jobs.DeadLetters("mail").All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("dead: %s (%s)\n", m.Payload, m.LastError)
	}
	n, _ := jobs.DeadLetters("mail").RequeueAll(ctx, queue.Contains("address"))
	fmt.Println("requeued:", n)
	// Output:
	// attempt 1 of 2
	// attempt 2 of 2
	// dead: to: nobody (no such address)
	// requeued: 1
}

// An order and the job to ship it are created together. The job ends together with its effects, if
// its lease has not ended before.
func Example_transaction() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, jobs := context.Background(), node.Queue("shop")

	enqueue := queue.EnqueueOp("ship", []byte("order:42"))
	res, err := node.Txn("shop").Do(kv.PutOp("order:42", []byte("new")), enqueue).Commit(ctx)
	if err != nil {
		log.Fatal(err)
	}
	job, err := enqueue.Result(res)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("job", job.Seq)

	messages, _ := jobs.Dequeue(ctx, "ship")
	ship := node.Txn("shop").Do(queue.AckOp("ship", messages[0].Receipt), kv.PutOp("order:42", []byte("shipped")))
	_, err = ship.Commit(ctx)
	fmt.Println("first:", err)
	_, err = ship.Commit(ctx)
	fmt.Println("again:", errors.Is(err, floe.ErrConflict))
	// Output:
	// job 1
	// first: <nil>
	// again: true
}
