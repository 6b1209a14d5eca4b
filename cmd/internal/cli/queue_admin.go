package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
)

// queueSummary is a queue in a listing.
type queueSummary struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Ready     int64  `json:"ready"`
	Inflight  int64  `json:"inflight"`
	Pending   int64  `json:"pending"` // ready or delayed
	Available int64  `json:"available"`
	Enqueued  int64  `json:"enqueued"`
	Dequeued  int64  `json:"dequeued"`
	DLQCount  int64  `json:"dlq_count"`
	Paused    bool   `json:"paused"`
}

func (s *session) summarizeQueue(q queue.Stats) queueSummary {
	return queueSummary{
		Name: q.Name, Namespace: s.namespace, Ready: q.Ready + q.Delayed, Inflight: q.Inflight, Pending: q.Ready + q.Delayed,
		Available: q.Ready,
		Enqueued:  q.Enqueued, Dequeued: q.Dequeued, DLQCount: q.Dead, Paused: q.Paused,
	}
}

// queueDetail is a queue with its details.
type queueDetail struct {
	queueSummary
	Delayed    int64         `json:"delayed"`
	Bytes      int64         `json:"bytes"`
	Duplicates int64         `json:"duplicates"`
	Acked      int64         `json:"acked"`
	Expired    int64         `json:"expired"`
	Purged     int64         `json:"purged"`
	Discarded  int64         `json:"discarded"`
	CreatedAt  int64         `json:"created_at"`
	Settings   queueSettings `json:"settings"`
}

type queueSettings struct {
	MaxLen              int64 `json:"max_len"`   // 0: no limit
	MaxBytes            int64 `json:"max_bytes"` // 0: no limit
	MaxAttempts         int   `json:"max_attempts"`
	BackoffMinMillis    int64 `json:"backoff_min_ms"`
	BackoffMaxMillis    int64 `json:"backoff_max_ms"`
	DeadRetentionMillis int64 `json:"dead_retention_ms"` // 0: forever
	DedupWindowMillis   int64 `json:"dedup_window_ms"`
}

func newQueueSettings(s queue.Settings) queueSettings {
	return queueSettings{
		s.MaxLen, s.MaxBytes, s.MaxAttempts, max(s.BackoffMin, 0).Milliseconds(), s.BackoffMax.Milliseconds(),
		s.DeadRetention.Milliseconds(),
		s.DedupWindow.Milliseconds(),
	}
}

// settingsTable is a table of settings.
func settingsTable(s queue.Settings) table {
	unbounded := func(n int64) string {
		if n == 0 {
			return "no bound"
		}
		return decimal(n)
	}
	retention := "for ever"
	if s.DeadRetention > 0 {
		retention = shownDuration(s.DeadRetention)
	}
	pauses := shownDuration(s.BackoffMin) + " to " + shownDuration(s.BackoffMax)
	if s.BackoffMin <= 0 {
		pauses = "none"
	}
	return table{name: "settings", rows: [][]string{
		{"max length", unbounded(s.MaxLen)}, {"max bytes", unbounded(s.MaxBytes)}, {"max attempts", decimal(s.MaxAttempts)}, {"back-off",
			pauses},
		{"dead letters kept", retention}, {"dedup window", shownDuration(s.DedupWindow)},
	}}
}

func queueStats(ctx context.Context, s *session, args []string) error {
	q, err := s.Queue(s.namespace).Get(ctx, args[0])
	if err != nil {
		return err
	}
	return s.printStats(q)
}

func (s *session) printStats(q queue.Stats) error {
	d := queueDetail{
		queueSummary: s.summarizeQueue(q), Delayed: q.Delayed, Bytes: q.Bytes, Duplicates: q.Duplicates, Acked: q.Acked, Expired: q.Expired,
		Purged: q.Purged, Discarded: q.Discarded, CreatedAt: q.CreatedAt.UnixMilli(), Settings: newQueueSettings(q.Settings),
	}
	state := "delivering"
	if q.Paused {
		state = "paused"
	}
	now := table{name: "now", rows: [][]string{
		{"state", state}, {"ready", decimal(q.Ready)}, {"delayed", decimal(q.Delayed)}, {"inflight", decimal(q.Inflight)}, {"dead",
			decimal(q.Dead)},
		{"bytes", decimal(q.Bytes)},
	}}
	ever := table{name: "ever", rows: [][]string{
		{"created", shownTime(q.CreatedAt)}, {"enqueued", decimal(q.Enqueued)}, {"duplicates", decimal(q.Duplicates)}, {"dequeued",
			decimal(q.Dequeued)},
		{"acked", decimal(q.Acked)}, {"expired", decimal(q.Expired)}, {"purged", decimal(q.Purged)}, {"discarded", decimal(q.Discarded)},
	}}
	return s.print(d, now, ever, settingsTable(q.Settings))
}

func queueList(ctx context.Context, s *session, _ []string) error {
	row := func(q queue.Stats) []string {
		return []string{
			q.Name, decimal(q.Ready), decimal(q.Delayed), decimal(q.Inflight), decimal(q.Dead), decimal(q.Enqueued),
			decimal(q.Acked),
			strconv.FormatBool(q.Paused),
		}
	}
	head := []string{"NAME", "READY", "DELAYED", "INFLIGHT", "DEAD", "ENQUEUED", "ACKED", "PAUSED"}
	return printEach(s.output, s.Queue(s.namespace).All(ctx, queue.Limit(queue.MaxPageItems)), head, s.summarizeQueue,
		row, nil)
}

// queuePurged is the number of messages removed by a purge.
type queuePurged struct {
	OK        bool   `json:"ok"`
	Queue     string `json:"queue"`
	Namespace string `json:"namespace"`
	Purged    int64  `json:"purged"`
}

func queuePurge(ctx context.Context, s *session, args []string) error {
	n, err := s.Queue(s.namespace).Purge(ctx, args[0])
	if err != nil {
		return err
	}
	return s.print(
		queuePurged{true, args[0], s.namespace, n},
		table{head: []string{"QUEUE", "PURGED"}, rows: [][]string{{args[0], decimal(n)}}},
	)
}

// onQueue returns the run of a command that changes a queue.
func onQueue(head string, do func(*queue.Store, context.Context, string) error) runFunc {
	return func(ctx context.Context, s *session, args []string) error {
		if err := do(s.Queue(s.namespace), ctx, args[0]); err != nil {
			return err
		}
		return s.printQueueDone(head, args[0])
	}
}

// queueConfigured is the new settings of a queue.
type queueConfigured struct {
	OK        bool          `json:"ok"`
	Queue     string        `json:"queue"`
	Namespace string        `json:"namespace"`
	Settings  queueSettings `json:"settings"`
}

func queueConfigure(_ *frame, cmd *cobra.Command) prepare {
	var to queue.Settings
	flags := cmd.Flags()
	flags.Var(newFlag(&to.MaxLen, "n", count(0)), "max-len", "maximum number of messages, without dead letters; 0: no limit")
	flags.Var(newFlag(&to.MaxBytes, "size", sizeFrom(0)), "max-bytes", "maximum bytes of payloads; 0: no limit")
	flags.Var(newFlag(&to.MaxAttempts, "n", within(1, queue.MaxAttemptsLimit)), "max-attempts",
		"maximum deliveries before a message becomes a dead letter (new queues: 5)")
	flags.Var(newFlag(&to.BackoffMin, "duration", durationOrNone), "backoff-min",
		"delay before the second delivery, doubled for each further one; 0s: none (new queues: 1s)")
	flags.Var(newFlag(&to.BackoffMax, "duration", positiveDuration), "backoff-max", "maximum delay between deliveries (new queues: 5m)")
	flags.Var(newFlag(&to.DeadRetention, "duration", durationOrNone), "dead-retention", "retention of dead letters; 0s: no limit")
	flags.Var(newFlag(&to.DedupWindow, "duration", positiveDuration), "dedup-window", "time a dedup key is remembered (new queues: 1h)")
	return func(args []string) (callFunc, error) {
		if _, _, err := backoff(cmd, to.BackoffMin, to.BackoffMax); err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			q, err := s.Queue(s.namespace).Get(ctx, args[0])
			if err != nil && !errors.Is(err, floe.ErrNotFound) {
				return err
			}
			settings := changed(cmd, q.Settings, to)
			if err := s.Queue(s.namespace).Configure(ctx, args[0], settings); err != nil {
				return err
			}
			if q, err = s.Queue(s.namespace).Get(ctx, args[0]); err != nil {
				return err
			}
			return s.print(queueConfigured{true, args[0], s.namespace, newQueueSettings(q.Settings)}, settingsTable(q.Settings))
		}, nil
	}
}

// changed returns s with the settings that are given as flags taken from to. If only one of the
// back-off flags is given, the other value follows it where needed.
func changed(cmd *cobra.Command, s, to queue.Settings) queue.Settings {
	given := cmd.Flags().Changed
	if given("max-len") {
		s.MaxLen = to.MaxLen
	}
	if given("max-bytes") {
		s.MaxBytes = to.MaxBytes
	}
	if given("max-attempts") {
		s.MaxAttempts = to.MaxAttempts
	}
	if given("dead-retention") {
		s.DeadRetention = to.DeadRetention
	}
	if given("dedup-window") {
		s.DedupWindow = to.DedupWindow
	}
	if given("backoff-max") {
		s.BackoffMax = to.BackoffMax
		if !given("backoff-min") {
			s.BackoffMin = min(s.BackoffMin, s.BackoffMax)
		}
	}
	if given("backoff-min") {
		if s.BackoffMin = to.BackoffMin; to.BackoffMin == 0 {
			s.BackoffMin = queue.NoBackoff
		}
		if !given("backoff-max") && s.BackoffMin > s.BackoffMax {
			s.BackoffMax = 0 // the default maximum, or BackoffMin if that is longer
		}
	}
	return s
}

func queueDelete(_ *frame, cmd *cobra.Command) prepare {
	force := cmd.Flags().Bool("force", false, "delete the queue even if it is not empty")
	return unchecked(func(ctx context.Context, s *session, args []string) error {
		if !*force {
			q, err := s.Queue(s.namespace).Get(ctx, args[0])
			if err != nil {
				return err
			}
			if held := q.Ready + q.Delayed + q.Inflight; held+q.Dead > 0 {
				text := fmt.Sprintf("queue %q holds %d messages and %d dead letters", args[0], held, q.Dead)
				return &hintedError{&textError{floe.ErrConflict, text}, "--force deletes them too"}
			}
		}
		if err := s.Queue(s.namespace).Delete(ctx, args[0]); err != nil {
			return err
		}
		return s.printQueueDone("DELETED", args[0])
	})
}
