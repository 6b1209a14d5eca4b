package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/floedb/floe/queue"
)

var dlqRows = []row{
	{use: "list NAME", short: "List dead letters, oldest first", complete: listers{queueNames}, flags: dlqList},
	{use: "requeue NAME [SEQ]...", short: "Requeue dead letters", complete: listers{queueNames, deadSeqs}, flags: dlqRequeue,
		long: `Requeue dead letters at their old positions, as if they had not been delivered: those with
the given sequence numbers, all or none, or all that match --all or --contains.`},
	{use: "delete NAME [SEQ]...", short: "Delete dead letters",
		complete: listers{queueNames, deadSeqs}, asks: "it deletes dead letters for good", flags: dlqDelete,
		long: `Delete dead letters: those with the given sequence numbers, all or none, or all that match
--all or --contains.`},
}

func dlqList(_ *frame, cmd *cobra.Command) prepare {
	limit := int64(defaultMessages)
	flags := cmd.Flags()
	flags.Var(newFlag(&limit, "n", count(1)), "limit", "maximum number of results (default 100)")
	contains := flags.String("contains", "", "only dead letters with this text in payload or last error")
	return func(args []string) (callFunc, error) {
		opts := []queue.DeadOption{queue.Limit(int(min(limit, queue.MaxPageItems)))}
		if *contains != "" {
			opts = append(opts, queue.Contains(*contains))
		}
		return func(ctx context.Context, s *session) error {
			row := func(m queue.Message) []string {
				return []string{
					decimal(m.Seq), decimal(m.Priority), shownTime(m.DiedAt), fmt.Sprintf("%d/%d", m.Attempts, m.MaxAttempts), m.LastError,
					shownHeaders(m.Headers), s.cell(m.Payload),
				}
			}
			head := []string{"SEQ", "PRIORITY", "DIED", "ATTEMPTS", "LAST ERROR", "HEADERS", "PAYLOAD"}
			return s.printMessages(args[0], first(s.Queue(s.namespace).DeadLetters(args[0]).All(ctx, opts...), limit), head, row)
		}, nil
	}
}

// selection is the dead letters that a command selects.
type selection struct {
	all      bool
	contains string
	seqs     []uint64
}

func (l *selection) equip(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&l.all, "all", false, "all dead letters of the queue")
	flags.StringVar(&l.contains, "contains", "", "dead letters with this text in payload or last error")
}

// read parses the arguments after the queue's name. Exactly one way to select dead letters is
// required.
func (l *selection) read(cmd *cobra.Command, args []string) error {
	if err := exclusive(cmd, "all", "contains"); err != nil {
		return err
	}
	filtered := l.all || l.contains != ""
	switch {
	case filtered && len(args) > 0:
		return &usageError{fmt.Errorf("unexpected argument %q beside --all or --contains", args[0]), helpHint(cmd)}
	case !filtered && len(args) == 0:
		return &usageError{errors.New("SEQ is missing"), "name dead letters by their SEQ, or take them by --all or --contains"}
	}
	var err error
	l.seqs, err = readSeqs(cmd, args)
	return err
}

func readSeqs(cmd *cobra.Command, args []string) (seqs []uint64, err error) {
	for _, arg := range args {
		seq, err := strconv.ParseUint(arg, 10, 64)
		if err != nil {
			return nil, &usageError{fmt.Errorf("SEQ: %q is not a whole number", arg), helpHint(cmd)}
		}
		seqs = append(seqs, seq)
	}
	return seqs, nil
}

// seqsDone is the number of messages that a call has changed.
type seqsDone struct {
	OK        bool   `json:"ok"`
	Queue     string `json:"queue"`
	Namespace string `json:"namespace"`
	Count     int64  `json:"count"`
}

func (s *session) printSeqs(head, name string, n int64) error {
	return s.print(seqsDone{true, name, s.namespace, n}, table{head: []string{"QUEUE", head}, rows: [][]string{{name, decimal(n)}}})
}

func dlqRequeue(_ *frame, cmd *cobra.Command) prepare {
	var which selection
	which.equip(cmd)
	return func(args []string) (callFunc, error) {
		if err := which.read(cmd, args[1:]); err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			n, err := int64(len(which.seqs)), error(nil)
			if n > 0 {
				err = s.onSeqs(ctx, args[0], which.seqs, s.Queue(s.namespace).DeadLetters(args[0]).Requeue, queue.RequeueOp)
			} else {
				n, err = s.requeueAll(ctx, args[0], &which)
			}
			if err != nil {
				return full(err)
			}
			return s.printSeqs("REQUEUED", args[0], n)
		}, nil
	}
}

func (s *session) requeueAll(ctx context.Context, name string, which *selection) (int64, error) {
	var opts []queue.FilterOption
	if which.contains != "" {
		opts = append(opts, queue.Contains(which.contains))
	}
	n, err := s.Queue(s.namespace).DeadLetters(name).RequeueAll(ctx, opts...)
	if err != nil && n > 0 {
		err = fmt.Errorf("%d dead letters were requeued, then: %w", n, err)
	}
	return n, err
}

// onSeqs calls one for each message in one transaction.
func (s *session) onSeqs(ctx context.Context, name string, seqs []uint64, one func(context.Context, uint64) error,
	op func(string, uint64) queue.Op) error {
	if len(seqs) == 1 {
		return one(ctx, seqs[0]) // so that the error is that of the message, and not of an operation in a transaction
	}
	txn := s.Txn(s.namespace)
	for _, seq := range seqs {
		txn.Do(op(name, seq))
	}
	_, err := txn.Commit(ctx)
	return err
}

func dlqDelete(_ *frame, cmd *cobra.Command) prepare {
	var which selection
	which.equip(cmd)
	return func(args []string) (callFunc, error) {
		if err := which.read(cmd, args[1:]); err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			n, err := int64(len(which.seqs)), error(nil)
			if n > 0 {
				err = s.onSeqs(ctx, args[0], which.seqs, s.Queue(s.namespace).DeadLetters(args[0]).Delete, queue.DeleteDeadOp)
			} else {
				n, err = s.deleteAll(ctx, args[0], &which)
			}
			if err != nil {
				return err
			}
			return s.printSeqs("DELETED", args[0], n)
		}, nil
	}
}

// deleteAll deletes dead letters page by page.
func (s *session) deleteAll(ctx context.Context, name string, which *selection) (n int64, err error) {
	opts := []queue.DeadOption{queue.NoPayload(), queue.Limit(queue.MaxPageItems), nil}
	if which.contains != "" {
		opts = append(opts, queue.Contains(which.contains))
	}
	for cursor, more := "", true; more; more = cursor != "" {
		opts[2] = queue.Cursor(cursor)
		page, err := s.Queue(s.namespace).DeadLetters(name).Page(ctx, opts...)
		if err != nil {
			return n, err
		}
		cursor = page.Cursor
		var seqs []uint64
		for _, m := range page.Items {
			seqs = append(seqs, m.Seq)
		}
		if len(seqs) == 0 {
			continue
		}
		if err := s.onSeqs(ctx, name, seqs, s.Queue(s.namespace).DeadLetters(name).Delete, queue.DeleteDeadOp); err != nil {
			return n, err
		}
		n += int64(len(seqs))
	}
	return n, nil
}

// deadSeqs lists the dead letters of the queue before it on the command line.
func deadSeqs(ctx context.Context, s *session, before []string, _ string) (seqs []string, err error) {
	page, err := s.Queue(s.namespace).DeadLetters(before[0]).Page(ctx, queue.NoPayload())
	for _, m := range page.Items {
		seqs = append(seqs, decimal(m.Seq))
	}
	return seqs, err
}
