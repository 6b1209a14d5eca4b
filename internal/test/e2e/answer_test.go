package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
)

// TestLargeAnswersAreRefused: a transaction with 60 dequeues of 3 MiB each would return more than a
// command may. It must be refused definitely and as a whole, by a node and through a client,
// without leasing a message. Formerly it was applied and then returned an error.
func TestLargeAnswersAreRefused(t *testing.T) {
	const messages, size, fit = 60, 3 << 20, 20
	node, err := floe.Open(floe.Config{Shards: 1, Listen: "127.0.0.1:0", MaxValueSize: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	client, err := floe.Dial(t.Context(), []string{node.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	q := client.Queue("default")
	for range messages {
		if _, err := q.Enqueue(t.Context(), "q", make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	for name, db := range map[string]floe.DB{"node": node, "client": client} {
		txn := db.Txn("default")
		for range messages {
			txn.Do(queue.DequeueOp("q", queue.Lease(time.Hour)))
		}
		var which *floe.TxnError
		if _, err := txn.Commit(t.Context()); !errors.Is(err, floe.ErrInvalid) || errors.Is(err, floe.ErrUnknownOutcome) ||
			!errors.As(err, &which) || which.Index < fit {
			t.Errorf("%s: 60 dequeues: %v, want a refusal of one behind the first %d", name, err, fit)
		}
		if st, err := q.Get(t.Context(), "q"); err != nil || st.Inflight != 0 || st.Ready != messages || st.Dequeued != 0 {
			t.Errorf("%s: after the refusal %+v, %v", name, st, err)
		}
	}
	txn, dequeues := client.Txn("default"), make([]queue.OpOf[[]queue.Message], fit)
	for i := range dequeues {
		dequeues[i] = queue.DequeueOp("q", queue.Lease(time.Hour))
		txn.Do(dequeues[i])
	}
	res, err := txn.Commit(t.Context())
	if err != nil {
		t.Fatalf("%d dequeues: %v", fit, err)
	}
	for i, dequeue := range dequeues {
		if got, err := dequeue.Result(res); err != nil || len(got) != 1 || len(got[0].Payload) != size {
			t.Errorf("dequeue %d has %d messages, %v", i, len(got), err)
		}
	}
}
