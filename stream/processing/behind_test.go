package processing_test

import (
	"context"
	"testing"

	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream/processing"
)

// TestRecordsBehind: what is not read yet is shown while a job waits for a sink, also in lists, and nothing when it has been read.
func TestRecordsBehind(t *testing.T) {
	s, ctx := newStage(t, 1), context.Background()
	if err := s.queues.Configure(ctx, "work", queue.Settings{MaxLen: 2}); err != nil {
		t.Fatal(err)
	}
	id := s.submit("name: behind\nsources: [{name: in, stream: {name: in}}]\nsinks: [{name: work, queue: {name: work}}]\n")
	s.append("in", amount(1), amount(2), amount(3), amount(4), amount(5))
	behind := func(want int64) {
		t.Helper()
		job, page := processing.Job{}, processing.Page[processing.Job]{}
		s.lane(id, bed{asleep: func(<-chan struct{}, int64) {
			job = s.job(id)
			var err error
			if page, err = s.jobs.Page(ctx); err != nil || len(page.Items) != 1 {
				t.Fatalf("Page = %+v, %v", page, err)
			}
		}})
		if got, listed := job.Metrics.RecordsBehind, page.Items[0].Metrics.RecordsBehind; got != want || listed != want {
			t.Errorf("%d records behind, %d in the list, want %d", got, listed, want)
		}
	}
	behind(3)
	if err := s.queues.Configure(ctx, "work", queue.Settings{}); err != nil {
		t.Fatal(err)
	}
	behind(0)
}
