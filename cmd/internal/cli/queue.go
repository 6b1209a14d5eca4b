package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
)

var queueRows = []row{
	{code: queueEnqueue},
	{code: queueDequeue},
	{use: "ack NAME RECEIPT...", short: "Acknowledge messages atomically", complete: listers{queueNames, nil}, flags: queueAck},
	{use: "nack NAME RECEIPT", short: "Return a message for redelivery", complete: listers{queueNames, nil}, flags: queueNack},
	{use: "extend NAME RECEIPT", short: "Extend a lease", complete: listers{queueNames, nil}, flags: queueExtend},
	{use: "release NAME RECEIPT...", short: "Return messages as if they had not been delivered",
		complete: listers{queueNames, nil}, flags: queueRelease,
		long: `Return messages to a queue as if they had not been delivered: they are ready at once, and the
delivery does not count as an attempt. Messages whose leases have ended are skipped.`},
	{use: "peek NAME", short: "List messages in delivery order", complete: listers{queueNames}, flags: queuePeek},
	{use: "get NAME SEQ", short: "Show a message by its sequence number", complete: listers{queueNames, nil}, flags: queueGet},
	{use: "remove NAME SEQ...", short: "Delete messages by sequence number", complete: listers{queueNames, nil}, flags: queueRemove,
		long: `Delete messages by sequence number, all or none. They must be ready, delayed or dead letters;
leased messages are settled by their consumers.`},
	{use: "stats NAME", short: "Show the statistics and settings of a queue", complete: listers{queueNames}, run: queueStats},
	{use: "list", short: "List queues with their sizes", run: queueList},
	{use: "purge NAME", short: "Remove all messages, even leased, except dead letters",
		complete: listers{queueNames}, asks: "it removes all messages of the queue", run: queuePurge},
	{use: "pause NAME", short: "Pause the deliveries of a queue", complete: listers{queueNames},
		run: onQueue("PAUSED", (*queue.Store).Pause)},
	{use: "resume NAME", short: "Resume the deliveries of a queue", complete: listers{queueNames},
		run: onQueue("RESUMED", (*queue.Store).Resume)},
	{use: "configure NAME", short: "Change a queue's settings, creating it if missing",
		complete: listers{queueNames}, flags: queueConfigure,
		example: `  floe queue configure mail --max-attempts 3 --backoff-min 10s
  floe queue configure mail --max-len 100000 --dead-retention 30d`},
	{use: "delete NAME", short: "Delete a queue with its settings",
		complete: listers{queueNames}, asks: "it deletes the queue with all messages and dead letters", flags: queueDelete},
	{use: "dlq", short: "List, requeue and delete dead letters", below: dlqRows},
}

// enqueued is the result of an enqueue.
type enqueued struct {
	OK        bool   `json:"ok"`
	Queue     string `json:"queue"`
	Namespace string `json:"namespace"`
	Seq       uint64 `json:"seq"`
	LSN       uint64 `json:"lsn"`
	Duplicate bool   `json:"duplicate"` // an earlier call has enqueued it
}

func queueEnqueue(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "enqueue NAME [PAYLOAD]",
		Short: "Enqueue a message, creating the queue if missing",
		Long: `Enqueue a message, creating the queue if missing. PAYLOAD is the argument itself, the
content of a file as @FILE, or stdin as - or without PAYLOAD. One that begins with a dash
follows --.

With --lines or --ndjson many messages are enqueued in batches, each as a whole or not at all.`,
		Example: `  floe queue enqueue mail 'to: ada' --priority 10
  floe queue enqueue reminders @text --delay 24h --header source=web
  floe queue enqueue invoices '{"order":42}' --dedup order-42
  floe queue enqueue mail --lines @addresses.txt`,
		Args: takes("NAME", "[PAYLOAD]"),
	}
	priority, attempts := queue.DefaultPriority, 0
	var delay time.Duration
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(newFlag(&priority, "n", within(0, queue.MaxPriority)), "priority", "priority, 0 to 255, lower is more urgent (default 100)")
	flags.Var(newFlag(&delay, "duration", durationOrNone), "delay", "delay before the first delivery (default 0s)")
	flags.Var(newFlag(&attempts, "n", within(1, queue.MaxAttemptsLimit)), "max-attempts",
		"maximum deliveries before the message becomes a dead letter (default that of the queue)")
	var headers map[string]string
	addHeader := func(v string) (map[string]string, error) { return withHeader(headers, v) }
	flags.Var(newFlag(&headers, "k=v", addHeader), "header", "header of the message; repeatable")
	dedup := flags.String("dedup", "", "dedup key: no second message with the same key within the queue's dedup window")
	many := addBulk(cmd, "a payload", "payload, priority, delay_ms, dedup_key, headers, max_attempts, payload_encoding (base64)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts := []queue.EnqueueOption{queue.Priority(priority), queue.Delay(delay), queue.Headers(headers)}
		if attempts > 0 {
			opts = append(opts, queue.MaxAttempts(attempts))
		}
		given, err := many.given(cmd, []string{"dedup"}, []string{"priority", "delay", "max-attempts", "header"})
		if err != nil {
			return err
		}
		if given {
			return f.enqueueMany(cmd, many, args, opts)
		}
		if flags.Changed("dedup") {
			opts = append(opts, queue.DedupKey(*dedup))
		}
		payload, err := f.payload(cmd, "PAYLOAD", args[1:])
		if err != nil {
			return err
		}
		return f.call(cmd, func(ctx context.Context, s *session) error {
			e, err := s.Queue(s.namespace).Enqueue(ctx, args[0], payload, opts...)
			if err != nil {
				return full(err)
			}
			return s.print(
				enqueued{true, args[0], s.namespace, e.Seq, e.LSN, e.Duplicate},
				table{head: []string{"QUEUE", "SEQ", "DUPLICATE"},
					rows: [][]string{{args[0], decimal(e.Seq), strconv.FormatBool(e.Duplicate)}}},
			)
		})
	}
	return f.completing(cmd, queueNames, nil)
}

// messageLine is a message in bulk input, as in the JSON API.
type messageLine struct {
	Payload         *string           `json:"payload"`
	PayloadEncoding string            `json:"payload_encoding"`
	Priority        *int              `json:"priority"`
	DelayMillis     int64             `json:"delay_ms"`
	DedupKey        string            `json:"dedup_key"`
	Headers         map[string]string `json:"headers"`
	MaxAttempts     *int              `json:"max_attempts"`
}

func (l *messageLine) message() (m queue.NewMessage, err error) {
	if m.Payload, err = unquoted("payload", l.Payload, l.PayloadEncoding); err != nil {
		return m, err
	}
	if l.DelayMillis < 0 || l.DelayMillis > math.MaxInt64/int64(time.Millisecond) {
		return m, fmt.Errorf("member \"delay_ms\" is %d, it takes milliseconds from 0", l.DelayMillis)
	}
	m.Options = []queue.EnqueueOption{queue.Delay(time.Duration(l.DelayMillis) * time.Millisecond), queue.Headers(l.Headers)}
	if l.Priority != nil {
		if _, err := within(0, queue.MaxPriority)(decimal(*l.Priority)); err != nil {
			return m, fmt.Errorf("member \"priority\" is %d: %w", *l.Priority, err)
		}
		m.Options = append(m.Options, queue.Priority(*l.Priority))
	}
	if l.MaxAttempts != nil {
		if _, err := within(1, queue.MaxAttemptsLimit)(decimal(*l.MaxAttempts)); err != nil {
			return m, fmt.Errorf("member \"max_attempts\" is %d: %w", *l.MaxAttempts, err)
		}
		m.Options = append(m.Options, queue.MaxAttempts(*l.MaxAttempts))
	}
	if l.DedupKey != "" {
		if len(l.DedupKey) > queue.MaxDedupKeyBytes {
			return m, fmt.Errorf("member \"dedup_key\" of %d bytes exceeds %d", len(l.DedupKey), queue.MaxDedupKeyBytes)
		}
		m.Options = append(m.Options, queue.DedupKey(l.DedupKey))
	}
	return m, nil
}

// enqueuedMany is the result of enqueuing many messages.
type enqueuedMany struct {
	OK         bool   `json:"ok"`
	Queue      string `json:"queue"`
	Namespace  string `json:"namespace"`
	Count      int    `json:"count"`
	Duplicates int    `json:"duplicates"` // enqueued by earlier calls
}

func (f *frame) enqueueMany(cmd *cobra.Command, many *bulk, args []string, opts []queue.EnqueueOption) error {
	name, duplicates := args[0], 0
	l := load[queue.NewMessage]{
		from:   args[1:],
		blanks: many.ndjson,
		parse: func(line []byte) (queue.NewMessage, int, error) {
			if !many.ndjson {
				return queue.NewMessage{Payload: line, Options: opts}, len(line), nil
			}
			var l messageLine
			err := parseMembers(line, &l)
			if err != nil {
				return queue.NewMessage{}, 0, err
			}
			m, err := l.message()
			return m, len(m.Payload), err
		},
		send: func(ctx context.Context, s *session, batch []queue.NewMessage) (int, error) {
			all, err := s.Queue(s.namespace).EnqueueMany(ctx, name, batch)
			for _, e := range all {
				if e.Duplicate {
					duplicates++
				}
			}
			return allOrNone(len(batch), err)
		},
		done: func(s *session, n int) error {
			return s.print(
				enqueuedMany{true, name, s.namespace, n, duplicates},
				table{head: []string{"QUEUE", "MESSAGES", "DUPLICATES"}, rows: [][]string{{name, decimal(n), decimal(duplicates)}}},
			)
		},
	}
	return l.run(f, cmd)
}

// full adds a hint to the error of a call that adds messages to a full queue.
func full(err error) error {
	if errors.Is(err, floe.ErrBusy) {
		return &hintedError{err, "if the queue is full, retry after messages are consumed, or raise its limit with floe queue configure"}
	}
	return err
}

// messageList is the messages returned by a call.
type messageList struct {
	Queue     string        `json:"queue"`
	Namespace string        `json:"namespace"`
	Messages  []messageText `json:"messages"`
	Count     int           `json:"count"`
}

// messageText is a message in JSON.
type messageText struct {
	Seq         uint64 `json:"seq"`
	Priority    int    `json:"priority"`
	State       string `json:"state"`
	Attempts    int    `json:"attempts"`
	MaxAttempts int    `json:"max_attempts"`
	Receipt     string `json:"receipt,omitempty"` // receipt of the delivery
	EnqueuedAt  int64  `json:"enqueued_at"`
	LeaseUntil  *int64 `json:"lease_until"`  // set for a leased message
	AvailableAt *int64 `json:"available_at"` // set for a delayed message
	DiedAt      *int64 `json:"died_at"`      // set for a dead letter
	LastError   string `json:"last_error"`
	headersText
	payloadText
	Size int `json:"size"` // payload in bytes
}

func newMessageText(m queue.Message) messageText {
	return messageText{
		Seq: m.Seq, Priority: m.Priority, State: m.State.String(), Attempts: m.Attempts, MaxAttempts: m.MaxAttempts,
		Receipt:    string(m.Receipt),
		EnqueuedAt: m.EnqueuedAt.UnixMilli(), LeaseUntil: optionalMillis(m.LeaseUntil), AvailableAt: optionalMillis(m.AvailableAt),
		DiedAt: optionalMillis(m.DiedAt), LastError: m.LastError, headersText: newHeadersText(m.Headers),
		payloadText: newPayloadText(m.Payload), Size: m.Size,
	}
}

// work holds the arguments of queue dequeue.
type work struct {
	queue       string
	most        int
	lease, wait time.Duration
	ack         bool
}

func queueDequeue(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dequeue NAME",
		Short: "Lease messages, most urgent first",
		Long: `Lease messages, most urgent first, then oldest first. No other consumer gets them until their
leases end: by floe queue ack RECEIPT, which removes them, by nack, or by expiry. After nack
or expiry they are redelivered after a delay, or become dead letters.

With --ack messages are acknowledged after they are printed. The command succeeds if there
are no messages.`,
		Example: `  floe queue dequeue mail --max 10 --wait 20s
  floe queue dequeue mail -o raw | cut -f 1          # the receipt
  floe queue dequeue mail --follow --ack -o json >> mail.log`,
		Args: takes("NAME"),
	}
	w := work{most: 1, lease: queue.DefaultLease}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(newFlag(&w.most, "n", within(1, queue.MaxBatch)), "max", "maximum number of messages, with --follow per batch (default 1)")
	flags.Var(newFlag(&w.lease, "duration", positiveDuration), "lease", "duration of the lease (default 30s)")
	flags.Var(newFlag(&w.wait, "duration", durationOrNone), "wait", "time to wait for a message (default 0s)")
	flags.BoolVar(&w.ack, "ack", false, "acknowledge messages after printing them")
	follow := flags.Bool("follow", false, "continue until interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := exclusive(cmd, "follow", "wait"); err != nil {
			return err
		}
		w.queue = args[0]
		if *follow {
			return f.follow(cmd, func(ctx context.Context, s *session) error { return s.work(ctx, &w) })
		}
		f.wait = w.wait
		return f.call(cmd, func(ctx context.Context, s *session) error {
			ms, err := s.lease(ctx, &w)
			if err != nil {
				return err
			}
			if err := s.printLeased(&w, ms); err != nil {
				return err
			}
			return s.ackLeased(ctx, &w, ms)
		})
	}
	return f.completing(cmd, queueNames)
}

// work leases messages and prints them until ctx is done.
func (s *session) work(ctx context.Context, w *work) error {
	w.wait = followWait
	for {
		ms, err := s.lease(ctx, w)
		if err != nil {
			return err
		}
		for _, m := range ms {
			if err := s.printMessage(m); err != nil {
				return err
			}
		}
		if err := s.ackLeased(ctx, w, ms); err != nil {
			return err
		}
	}
}

func (s *session) lease(ctx context.Context, w *work) ([]queue.Message, error) {
	return s.Queue(s.namespace).Dequeue(ctx, w.queue, queue.Max(w.most), queue.Lease(w.lease), queue.Wait(w.wait))
}

func (s *session) ackLeased(ctx context.Context, w *work, ms []queue.Message) error {
	if !w.ack || len(ms) == 0 {
		return nil
	}
	var receipts []queue.Receipt
	for _, m := range ms {
		receipts = append(receipts, m.Receipt)
	}
	_, err := s.Queue(s.namespace).Ack(ctx, w.queue, receipts...)
	return err
}

func (s *session) printLeased(w *work, ms []queue.Message) error {
	list := messageList{w.queue, s.namespace, []messageText{}, len(ms)}
	t := table{head: []string{"RECEIPT", "SEQ", "PRIORITY", "ATTEMPT", "HEADERS", "PAYLOAD"}}
	for _, m := range ms {
		list.Messages = append(list.Messages, newMessageText(m))
		t.rows = append(t.rows, []string{string(m.Receipt), decimal(m.Seq), decimal(m.Priority), decimal(m.Attempts),
			shownHeaders(m.Headers), s.cell(m.Payload)})
	}
	return s.print(list, t)
}

// printMessage prints a leased message.
func (s *session) printMessage(m queue.Message) (err error) {
	switch s.format {
	case formatJSON:
		return s.encode(newMessageText(m), "")
	case formatRaw:
		err = s.writeRaw(string(m.Receipt), decimal(m.Seq), decimal(m.Priority), decimal(m.Attempts), shownHeaders(m.Headers),
			string(m.Payload))
	default:
		_, err = fmt.Fprintf(s.w, "%-15s  %6d  %3d  %2d  %s  %s\n",
			m.Receipt, m.Seq, m.Priority, m.Attempts, printable(shownHeaders(m.Headers)), printable(shortened(m.Payload)))
	}
	return err
}

// queueDone is the result of a change to a queue that has no other result.
type queueDone struct {
	OK        bool   `json:"ok"`
	Queue     string `json:"queue"`
	Namespace string `json:"namespace"`
}

func (s *session) printQueueDone(head, name string) error {
	return s.print(queueDone{true, name, s.namespace}, table{head: []string{head}, rows: [][]string{{name}}})
}

// leaseEnded adds a hint to the error for a receipt that is no longer valid.
func leaseEnded(err error) error {
	if errors.Is(err, floe.ErrConflict) {
		return &hintedError{err, "nothing changed; unless acknowledged, the message is redelivered with another receipt"}
	}
	return err
}

// receiptsDone is the result of a change to deliveries.
type receiptsDone struct {
	OK        bool     `json:"ok"`
	Queue     string   `json:"queue"`
	Namespace string   `json:"namespace"`
	Receipts  []string `json:"receipts"`
}

func (s *session) printReceipts(head, name string, receipts []string) error {
	t := table{head: []string{"QUEUE", head}}
	for _, r := range receipts {
		t.rows = append(t.rows, []string{name, r})
	}
	return s.print(receiptsDone{true, name, s.namespace, receipts}, t)
}

func queueAck(_ *frame, cmd *cobra.Command) prepare {
	return func(args []string) (callFunc, error) {
		var receipts []queue.Receipt
		for _, arg := range args[1:] {
			receipts = append(receipts, queue.Receipt(arg))
		}
		return func(ctx context.Context, s *session) error {
			if _, err := s.Queue(s.namespace).Ack(ctx, args[0], receipts...); err != nil {
				return leaseEnded(err)
			}
			return s.printReceipts("ACKED", args[0], args[1:])
		}, nil
	}
}

func queueNack(_ *frame, cmd *cobra.Command) prepare {
	var delay time.Duration
	flags := cmd.Flags()
	flags.Var(newFlag(&delay, "duration", durationOrNone), "delay",
		"delay before redelivery (default the back-off of the queue)")
	bury := flags.Bool("to-dlq", false, "make the message a dead letter now")
	reason := flags.String("reason", "", "reason, shown with dead letters")
	return func(args []string) (callFunc, error) {
		if err := exclusive(cmd, "delay", "to-dlq"); err != nil {
			return nil, err
		}
		opts := []queue.NackOption{queue.Reason(*reason)}
		if flags.Changed("delay") {
			opts = append(opts, queue.Delay(delay))
		}
		if *bury {
			opts = append(opts, queue.ToDLQ())
		}
		return func(ctx context.Context, s *session) error {
			if _, err := s.Queue(s.namespace).Nack(ctx, args[0], []queue.Receipt{queue.Receipt(args[1])}, opts...); err != nil {
				return leaseEnded(err)
			}
			return s.printReceipts("NACKED", args[0], args[1:])
		}, nil
	}
}

func queueRelease(_ *frame, cmd *cobra.Command) prepare {
	return func(args []string) (callFunc, error) {
		var receipts []queue.Receipt
		for _, arg := range args[1:] {
			receipts = append(receipts, queue.Receipt(arg))
		}
		return func(ctx context.Context, s *session) error {
			n, err := s.Queue(s.namespace).Release(ctx, args[0], receipts...)
			if err != nil {
				return err
			}
			return s.printSeqs("RELEASED", args[0], n)
		}, nil
	}
}

// leaseExtended is the new end of a message's lease.
type leaseExtended struct {
	OK         bool   `json:"ok"`
	Queue      string `json:"queue"`
	Namespace  string `json:"namespace"`
	Receipt    string `json:"receipt"`
	LeaseUntil int64  `json:"lease_until"`
}

func queueExtend(_ *frame, cmd *cobra.Command) prepare {
	lease := queue.DefaultLease
	cmd.Flags().Var(newFlag(&lease, "duration", positiveDuration), "lease", "new duration from now (default 30s)")
	return unchecked(func(ctx context.Context, s *session, args []string) error {
		until, err := s.Queue(s.namespace).Extend(ctx, args[0], queue.Receipt(args[1]), lease)
		if err != nil {
			return leaseEnded(err)
		}
		return s.print(
			leaseExtended{true, args[0], s.namespace, args[1], until.UnixMilli()},
			table{head: []string{"QUEUE", "EXTENDED", "LEASE UNTIL"}, rows: [][]string{{args[0], args[1], shownTime(until)}}},
		)
	})
}

// first returns an iterator over at most limit items.
func first[T any](items iter.Seq2[T, error], limit int64) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		left := limit
		for item, err := range items {
			if !yield(item, err) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

// defaultMessages is the default limit of a listing of messages.
const defaultMessages = 100

func queuePeek(_ *frame, cmd *cobra.Command) prepare {
	limit, state := int64(defaultMessages), queue.State(0)
	flags := cmd.Flags()
	flags.Var(newFlag(&limit, "n", count(1)), "limit", "maximum number of results (default 100)")
	flags.Var(newFlag(&state, "state", messageState), "state", "only this state: ready, delayed or leased")
	_ = cmd.RegisterFlagCompletionFunc("state",
		cobra.FixedCompletions([]string{"ready", "delayed", "leased"}, cobra.ShellCompDirectiveNoFileComp))
	return func(args []string) (callFunc, error) {
		opts := []queue.MessageOption{queue.Limit(int(min(limit, queue.MaxPageItems)))}
		if state != 0 {
			opts = append(opts, queue.InState(state))
		}
		return func(ctx context.Context, s *session) error {
			row := func(m queue.Message) []string {
				until := m.LeaseUntil
				if until.IsZero() {
					until = m.AvailableAt
				}
				return []string{
					decimal(m.Seq), decimal(m.Priority), m.State.String(), shownOptionalTime(until), fmt.Sprintf("%d/%d", m.Attempts,
						m.MaxAttempts),
					m.LastError, shownHeaders(m.Headers), s.cell(m.Payload),
				}
			}
			head := []string{"SEQ", "PRIORITY", "STATE", "UNTIL", "ATTEMPTS", "LAST ERROR", "HEADERS", "PAYLOAD"}
			return s.printMessages(args[0], first(s.Queue(s.namespace).Messages(args[0]).All(ctx, opts...), limit), head, row)
		}, nil
	}
}

func queueGet(_ *frame, cmd *cobra.Command) prepare {
	return func(args []string) (callFunc, error) {
		seqs, err := readSeqs(cmd, args[1:])
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			m, err := s.Queue(s.namespace).Messages(args[0]).Get(ctx, seqs[0])
			if err != nil {
				return err
			}
			return s.print(newMessageText(m), table{rows: [][]string{
				{"seq", decimal(m.Seq)}, {"state", m.State.String()}, {"priority", decimal(m.Priority)}, {"attempts",
					fmt.Sprintf("%d/%d", m.Attempts, m.MaxAttempts)},
				{"enqueued", shownTime(m.EnqueuedAt)}, {"leased until", shownOptionalTime(m.LeaseUntil)}, {"available",
					shownOptionalTime(m.AvailableAt)},
				{"died", shownOptionalTime(m.DiedAt)}, {"last error", m.LastError}, {"headers", shownHeaders(m.Headers)}, {"payload",
					s.cell(m.Payload)},
			}})
		}, nil
	}
}

func queueRemove(_ *frame, cmd *cobra.Command) prepare {
	return func(args []string) (callFunc, error) {
		seqs, err := readSeqs(cmd, args[1:])
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			if err := s.onSeqs(ctx, args[0], seqs, s.Queue(s.namespace).Messages(args[0]).Delete, queue.DeleteMessageOp); err != nil {
				return err
			}
			return s.printSeqs("REMOVED", args[0], int64(len(seqs)))
		}, nil
	}
}

func messageState(v string) (state queue.State, err error) {
	err = choose(&state, v, map[string]queue.State{"ready": queue.Ready, "delayed": queue.Delayed, "leased": queue.Leased})
	return state, err
}

func (s *session) printMessages(name string, all iter.Seq2[queue.Message, error], head []string, row func(queue.Message) []string) error {
	return printEach(s.output, all, head, newMessageText, row,
		func(list []messageText) any { return messageList{name, s.namespace, list, len(list)} })
}

func queueNames(ctx context.Context, s *session, _ []string, begun string) (names []string, err error) {
	page, err := s.Queue(s.namespace).Page(ctx, queue.Prefix(begun), queue.Limit(queue.MaxPageItems))
	for _, q := range page.Items {
		names = append(names, q.Name)
	}
	return names, err
}
