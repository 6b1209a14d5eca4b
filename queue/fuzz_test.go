package queue_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/queue"
)

// command returns an operation's command for namespace n.
func command(tb testing.TB, op engine.Operation) engine.Command {
	tb.Helper()
	cmd, err := engine.OpOf(op).Limit(queue.DefaultMaxPayloadBytes)
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Namespace = "n"
	return cmd
}

// someOps returns operations that succeed one after another in an empty namespace, each as an
// entry. They leave a queue with messages in every state.
func someOps() []engine.Operation {
	return []engine.Operation{
		queue.ConfigureOp("q", queue.Settings{MaxLen: 100, MaxBytes: 10_000, MaxAttempts: 2, DeadRetention: time.Hour}),
		queue.EnqueueOp("q", []byte("dead"), queue.Priority(0), queue.DedupKey("k"), queue.Headers(map[string]string{"a": "1", "b": ""})),
		queue.EnqueueOp("q", []byte("leased"), queue.MaxAttempts(1)),
		queue.DequeueOp("q", queue.Max(2), queue.Lease(time.Second)),
		queue.NackOp("q", []queue.Receipt{"1-4"}, queue.ToDLQ(), queue.Reason("why")),
		engine.OpOfCondition(queue.Held("q", "2-4")),
		queue.ExtendOp("q", "2-4", 1500*time.Millisecond),
		queue.EnqueueManyOp("q", []queue.NewMessage{
			{Payload: []byte("a"), Options: []queue.EnqueueOption{queue.Headers(map[string]string{"trace": "x"})}},
			{Options: []queue.EnqueueOption{queue.Delay(time.Second)}}, {Payload: []byte("again")}, {Payload: []byte("acked")},
		}),
		queue.PauseOp("q"),
		queue.ResumeOp("q"),
		queue.DequeueOp("q", queue.Max(10)),
		queue.NackOp("q", []queue.Receipt{"5-11"}, queue.Delay(0)),
		queue.AckOp("q", "6-11", "3-11"),
		queue.EnqueueOp("fresh", []byte("f")),
	}
}

// otherOps returns further operations, as seed bodies.
func otherOps() []engine.Operation {
	return []engine.Operation{
		queue.PurgeOp("q"), queue.DeleteOp("q"), queue.RequeueOp("q", 1), queue.DeleteDeadOp("q", 1), queue.RedriveOp("q", 0, 0, "d"),
		queue.RedriveOp("q", 1<<64-1, 1<<64-1, ""), queue.RenewOp("q", time.Second, "7-11", "2-4"), queue.ReleaseOp("q", "7-11", "2-4"),
		queue.DeleteMessageOp("q", 1), queue.DeleteMessageOp("q", 4), queue.DeleteMessageOp("q", 5),
		queue.NackOp("q", []queue.Receipt{"7-11", "2-4"}, queue.Delay(time.Second), queue.Reason("all")),
	}
}

// FuzzApplyCommand applies arbitrary bodies: each is refused or carried out, and all rows stay
// consistent. Only a body that does not decode and was not admitted may panic. A command that Admit
// accepts is not malformed when it is applied. Time passes between the commands.
func FuzzApplyCommand(f *testing.F) {
	for _, op := range append(someOps(), otherOps()...) {
		cmd := command(f, op)
		f.Add(cmd.Kind, cmd.Body, uint16(0))
		f.Add(cmd.Kind, cmd.Body, uint16(2000))
		for kind := uint8(1); kind <= queue.NumKinds; kind++ {
			f.Add(kind, cmd.Body, uint16(1))
		}
	}
	f.Add(uint8(0), []byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, kind uint8, body []byte, wait uint16) {
		r := newRig(t, 1)
		for _, op := range someOps() {
			if out := r.Entry(0, command(t, op))[0]; out.Err != nil {
				t.Fatal(out.Err)
			}
		}
		r.Verify()
		r.Pass(int64(wait))
		cmd := engine.Command{Machine: engine.MachineQueue, Kind: kind, Namespace: "n", Body: body}
		p := engine.TableOf[queue.Store]()
		admitted := p.Admit(cmd, queue.DefaultMaxPayloadBytes)
		if admitted == nil {
			machinetest.SameInJSON(t, p, cmd)
		}
		for range 2 {
			out, stopped := r.Try(0, cmd)
			if stopped {
				if admitted == nil {
					t.Errorf("kind %d, body %q is admitted and stops the shard", kind, body)
				}
				return
			}
			var refused *engine.Error
			var conflict *queue.ReceiptError
			if out.Err != nil && !errors.As(out.Err, &refused) && !errors.As(out.Err, &conflict) {
				t.Errorf("kind %d, body %q: %v is no definite refusal", kind, body, out.Err)
			}
			if malformed := queue.DecodeBody(kind, body) != nil; malformed && out.Err == nil || malformed && admitted == nil {
				t.Errorf("kind %d, body %q does not decode: admitted: %v, result: %v", kind, body, admitted, out.Err)
			}
			r.Verify()
			r.Fire()
			r.Verify()
		}
	})
}

// FuzzDecodeRow decodes rows of all kinds; a row that decodes is encoded identically.
func FuzzDecodeRow(f *testing.F) {
	r := newRig(f, 1)
	for _, op := range someOps() {
		r.Entry(0, command(f, op))
	}
	for _, row := range r.Rows(0) {
		if row.Machine == engine.MachineQueue {
			f.Add(row.Key[0], row.Value)
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		if again, ok := queue.Recode(kind, b); ok && !bytes.Equal(again, b) {
			t.Errorf("row %q %x decodes and encodes as %x", kind, b, again)
		}
	})
}

// FuzzDecodeResult decodes results that no machine produced.
func FuzzDecodeResult(f *testing.F) {
	r := newRig(f, 1)
	for _, op := range someOps() {
		f.Add(r.Entry(0, command(f, op))[0].Result)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, op := range append(someOps(), otherOps()...) {
			engine.OpOf(op).Decode(b)
		}
	})
}

func FuzzReceipt(f *testing.F) {
	for _, s := range []string{"", "1-1", "01-1", "1--1", "-1-1", "1-", "18446744073709551616-1", "1-1 ", "+1-1", "1-1-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		op := engine.OpOf(queue.AckOp("q", queue.Receipt(s)))
		if op.Err != nil && !errors.Is(op.Err, queue.ErrInvalid) {
			t.Errorf("receipt %q: %v, want ErrInvalid", s, op.Err)
		}
	})
}
