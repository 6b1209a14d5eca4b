package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

var groupRows = []row{
	{use: "create STREAM GROUP", short: "Create a consumer group", complete: listers{streamNames, nil}, flags: groupCreate,
		long: `Create a consumer group. Its mode defines how consumers share the records. shared: any
consumer gets any record. exclusive: one consumer gets all records until it leaves or is
silent. key_shared: the records of a key go to one consumer at a time, in order.

The first read of a missing group creates it too.`,
		example: `  floe stream group create orders billing --mode key_shared
  floe stream group create orders audit --from end --ack-timeout 5m --max-attempts 0`},
	{code: groupRead},
	{use: "ack STREAM GROUP ID...", short: "Acknowledge records", complete: pendingNames, flags: groupAck},
	{use: "nack STREAM GROUP ID...", short: "Return records for redelivery", complete: pendingNames, flags: groupNack},
	{use: "extend STREAM GROUP ID...", short: "Extend the acknowledgement timeout of records", complete: pendingNames, flags: groupExtend},
	{use: "pending STREAM GROUP", short: "List the pending records of a group",
		complete: listers{streamNames, groupNames}, run: groupPending,
		long: `List the pending records of a group: delivered ones with their consumer and deadline, and
those waiting for redelivery with its time and reason.`},
	{use: "members STREAM GROUP", short: "List the consumers of a group", complete: listers{streamNames, groupNames}, run: groupMembers},
	{use: "leave STREAM GROUP CONSUMER", short: "Remove a consumer from a group",
		complete: listers{streamNames, groupNames, consumerNames}, run: groupLeave},
	{use: "seek STREAM GROUP WHERE", short: "Set the position of a consumer group",
		complete: listers{streamNames, groupNames, startNames}, flags: groupSeek,
		long: `Set the position of a consumer group to WHERE: an ID, a time such as 2025-11-21T16:00:00Z,
beginning or end. All records from there on are delivered, again if necessary. Pending
records are forgotten.`},
	{use: "configure STREAM GROUP", short: "Change the settings of a consumer group",
		complete: listers{streamNames, groupNames}, flags: groupConfigure,
		long: `Change the settings of a consumer group; other settings stay. They apply from the next
delivery or failure of a record on. The mode cannot be changed.`,
		example: `  floe stream group configure orders billing --ack-timeout 5m
  floe stream group configure orders billing --max-attempts 0 --backoff-max 1h`},
	{use: "info STREAM GROUP", short: "Show a group's offsets, lag and members",
		complete: listers{streamNames, groupNames}, run: groupInfo},
	{use: "lag STREAM [GROUP]", short: "Show the lag of groups by partition", complete: listers{streamNames, groupNames}, run: groupLag,
		long: `Show the lag of a group, or of all groups of a stream, by partition: the number of undelivered
records, and the age of the oldest one.`},
	{use: "list STREAM", short: "List the groups of a stream", complete: listers{streamNames}, run: groupList},
	{use: "delete STREAM GROUP", short: "Delete a consumer group",
		complete: listers{streamNames, groupNames}, asks: "it deletes the positions and pending records of the group", run: groupDelete},
}

// groupDone is the result of a change to a group that has no other result.
type groupDone struct {
	OK        bool   `json:"ok"`
	Stream    string `json:"stream"`
	Group     string `json:"group"`
	Namespace string `json:"namespace"`
}

func (s *session) printGroupDone(head, name, group string) error {
	return s.print(groupDone{true, name, group, s.namespace}, table{head: []string{"STREAM", head}, rows: [][]string{{name, group}}})
}

func groupCreate(_ *frame, cmd *cobra.Command) prepare {
	mode, from := stream.Shared, stream.SeekOption(stream.FromBeginning())
	ackTimeout, attempts := stream.DefaultAckTimeout, stream.DefaultMaxAttempts
	backoffMin, backoffMax := stream.DefaultBackoffMin, stream.DefaultBackoffMax
	flags := cmd.Flags()
	flags.Var(newFlag(&mode, "mode", groupMode), "mode", "mode: shared, exclusive or key_shared (default shared)")
	flags.Var(newFlag(&from, "where", parseStart), "from",
		"start position: an ID, a time, beginning or end (default beginning)")
	flags.Var(newFlag(&ackTimeout, "duration", positiveDuration), "ack-timeout",
		"time after which an unacknowledged record is redelivered (default 30s)")
	maxDeliveries(cmd, &attempts, " (default 5)")
	flags.Var(newFlag(&backoffMin, "duration", durationOrNone), "backoff-min",
		"delay before the second delivery, doubled for each further one (default 1s)")
	flags.Var(newFlag(&backoffMax, "duration", durationOrNone), "backoff-max", "maximum delay between deliveries (default 5m)")
	_ = cmd.RegisterFlagCompletionFunc("mode",
		cobra.FixedCompletions([]string{"shared", "exclusive", "key_shared"}, cobra.ShellCompDirectiveNoFileComp))
	return func(args []string) (callFunc, error) {
		shortest, longest, err := backoff(cmd, backoffMin, backoffMax)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			err := s.Stream(s.namespace).Groups(args[0]).Create(ctx, args[1], from,
				stream.InMode(mode), stream.AckTimeout(ackTimeout), stream.MaxAttempts(attempts), stream.Backoff(shortest, longest))
			if errors.Is(err, floe.ErrExists) {
				return &hintedError{err, "floe stream group info STREAM GROUP shows it, floe stream group seek moves it"}
			}
			if err != nil {
				return err
			}
			return s.printGroupDone("GROUP", args[0], args[1])
		}, nil
	}
}

func groupMode(v string) (m stream.Mode, err error) {
	err = choose(&m, v, map[string]stream.Mode{"shared": stream.Shared, "exclusive": stream.Exclusive, "key_shared": stream.KeyShared})
	return m, err
}

// maxDeliveries adds the flag --max-attempts, which fills n, and its older name --max-deliver to a
// command.
func maxDeliveries(cmd *cobra.Command, n *int, absent string) {
	flags := cmd.Flags()
	flag := newFlag(n, "n", within(0, stream.MaxAttemptsLimit))
	flags.Var(flag, "max-attempts", "maximum number of deliveries before the dead-letter stream; 0: no limit"+absent)
	flags.Var(flag, "max-deliver", "")
	_ = flags.MarkHidden("max-deliver")
}

// backoff returns the minimum and maximum back-off from the flags. If only one flag is given, the
// default of the other follows it where needed.
func backoff(cmd *cobra.Command, shortest, longest time.Duration) (_, _ time.Duration, err error) {
	givenMin, givenMax := cmd.Flags().Changed("backoff-min"), cmd.Flags().Changed("backoff-max")
	if shortest <= longest {
		return shortest, longest, nil
	}
	switch {
	case givenMin && givenMax:
		return 0, 0, &usageError{fmt.Errorf("--backoff-min=%v: is longer than --backoff-max, %v", shortest, longest), helpHint(cmd)}
	case givenMin:
		return shortest, shortest, nil
	}
	return longest, longest, nil
}

// deliveryList is the records delivered to a consumer.
type deliveryList struct {
	Stream     string         `json:"stream"`
	Group      string         `json:"group"`
	Consumer   string         `json:"consumer"`
	Namespace  string         `json:"namespace"`
	Deliveries []deliveryText `json:"deliveries"`
	Count      int            `json:"count"`
}

type deliveryText struct {
	recordText
	Attempt     int    `json:"attempt"`
	AckDeadline *int64 `json:"ack_deadline"` // nil: no acknowledgement needed
}

func newDeliveryText(d stream.Delivery) deliveryText {
	return deliveryText{newRecordText(d.Record), d.Attempt, optionalMillis(d.Deadline)}
}

// consumption holds the arguments of group read.
type consumption struct {
	stream, group, consumer string
	limit                   int
	wait                    time.Duration
	ack, noAck              bool
}

// followWait is how long one call of a follow waits for records.
const followWait = time.Minute

func groupRead(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "read STREAM GROUP CONSUMER",
		Short: "Read new records as a consumer",
		Long: `Read new records as a consumer of a group, creating the group if missing: first records
that are due for redelivery, then new ones. Acknowledge each with floe stream group ack.
Otherwise it is redelivered after the timeout, and finally moved to the dead-letter stream
STREAM.dlq.

With --ack records are acknowledged after they are printed, with --no-ack before. It is
no failure if there are no records. With --follow and one of these flags, the consumer
leaves the group when it is interrupted.`,
		Example: `  floe stream group read orders billing ann --limit 10 --wait 5s
  floe stream group read orders audit bob --follow --ack -o json >> audit.log`,
		Args: takes("STREAM", "GROUP", "CONSUMER"),
	}
	c := consumption{limit: defaultRecords}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(newFlag(&c.limit, "n", within(1, stream.MaxReadLimit)), "limit",
		"maximum number of records, with --follow per batch (default 100)")
	flags.Var(newFlag(&c.wait, "duration", durationOrNone), "wait", "time to wait for a record (default 0s)")
	flags.BoolVar(&c.ack, "ack", false, "acknowledge records after printing them")
	flags.BoolVar(&c.noAck, "no-ack", false, "acknowledge records on delivery: each is delivered at most once")
	follow := flags.Bool("follow", false, "continue until interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, names := range [][]string{{"ack", "no-ack"}, {"follow", "wait"}} {
			if err := exclusive(cmd, names...); err != nil {
				return err
			}
		}
		c.stream, c.group, c.consumer = args[0], args[1], args[2]
		if *follow {
			return f.follow(cmd, func(ctx context.Context, s *session) error { return s.consume(ctx, &c) })
		}
		f.wait = c.wait
		return f.call(cmd, func(ctx context.Context, s *session) error {
			ds, err := s.take(ctx, &c)
			if err != nil {
				return err
			}
			if err := s.printDeliveries(&c, ds); err != nil {
				return err
			}
			return s.ackTaken(ctx, &c, ds)
		})
	}
	return f.completing(cmd, streamNames, groupNames, consumerNames)
}

// consume reads records and prints them until ctx is done. If the records are acknowledged by then
// (--ack or --no-ack), the consumer leaves the group at the end.
func (s *session) consume(ctx context.Context, c *consumption) error {
	c.wait = followWait
	if c.ack || c.noAck {
		defer func() {
			ctx, cancel := parting(ctx)
			defer cancel()
			_ = s.Stream(s.namespace).Leave(ctx, c.stream, c.group, c.consumer) // if this fails, the group drops the silent consumer later
		}()
	}
	for {
		ds, err := s.take(ctx, c)
		if err != nil {
			return err
		}
		for _, d := range ds {
			if err := s.printDelivery(d); err != nil {
				return err
			}
		}
		if err := s.ackPrinted(ctx, c, ds); err != nil {
			return err
		}
	}
}

// ackPrinted acknowledges printed records, even while the command is being stopped.
func (s *session) ackPrinted(ctx context.Context, c *consumption, ds []stream.Delivery) error {
	ctx, cancel := parting(ctx)
	defer cancel()
	return s.ackTaken(ctx, c, ds)
}

// lastWords is the time limit for the last calls of a command that is being stopped.
const lastWords = 2 * time.Second

// parting returns a context for calls that must be made even while the command is being stopped. It
// ends lastWords after ctx.
func parting(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastWords, cancel) })
	return longer, func() {
		stop()
		cancel()
	}
}

func (s *session) take(ctx context.Context, c *consumption) ([]stream.Delivery, error) {
	opts := []stream.GroupReadOption{stream.Limit(c.limit), stream.Wait(c.wait)}
	if c.noAck {
		opts = append(opts, stream.NoAck())
	}
	return s.Stream(s.namespace).ReadGroup(ctx, c.stream, c.group, c.consumer, opts...)
}

func (s *session) ackTaken(ctx context.Context, c *consumption, ds []stream.Delivery) error {
	if !c.ack || len(ds) == 0 {
		return nil
	}
	_, err := s.Stream(s.namespace).Ack(ctx, c.stream, c.group, stream.RefsOf(ds)...)
	return err
}

func (s *session) printDeliveries(c *consumption, ds []stream.Delivery) error {
	list := deliveryList{c.stream, c.group, c.consumer, s.namespace, []deliveryText{}, len(ds)}
	t := table{head: []string{"ID", "PARTITION", "ATTEMPT", "KEY", "HEADERS", "PAYLOAD"}}
	for _, d := range ds {
		list.Deliveries = append(list.Deliveries, newDeliveryText(d))
		t.rows = append(t.rows, []string{d.ID.String(), decimal(d.Partition), decimal(d.Attempt), d.Key, shownHeaders(d.Headers),
			s.cell(d.Payload)})
	}
	return s.print(list, t)
}

// printDelivery prints a delivered record.
func (s *session) printDelivery(d stream.Delivery) (err error) {
	switch s.format {
	case formatJSON:
		return s.encode(newDeliveryText(d), "")
	case formatRaw:
		err = s.writeRaw(d.ID.String(), decimal(d.Partition), decimal(d.Attempt), d.Key, shownHeaders(d.Headers), string(d.Payload))
	default:
		_, err = fmt.Fprintf(s.w, "%-17v  %4d  %2d  %s  %s  %s\n",
			d.ID, d.Partition, d.Attempt, printable(d.Key), printable(shownHeaders(d.Headers)), printable(shortened(d.Payload)))
	}
	return err
}

// groupHandled is the number of records that a call has changed.
type groupHandled struct {
	OK        bool   `json:"ok"` // all requested records
	Stream    string `json:"stream"`
	Group     string `json:"group"`
	Namespace string `json:"namespace"`
	Count     int    `json:"count"`
}

// handle calls do for the group's records with the given IDs and prints how many it changed. It
// returns ErrConflict if those are not all of them.
func (s *session) handle(ctx context.Context, head string, args []string, ids []stream.ID, do func([]stream.Ref) (int, error)) error {
	slices.SortFunc(ids, stream.ID.Compare)
	ids = slices.Compact(ids)
	refs, err := s.Stream(s.namespace).Refs(ctx, args[0], ids...)
	if err != nil {
		return err
	}
	n := 0
	if len(refs) > 0 {
		if n, err = do(refs); err != nil {
			return err
		}
	} else if _, err := s.Stream(s.namespace).Groups(args[0]).Get(ctx, args[1]); err != nil {
		return err // the group does not exist
	}
	err = s.print(
		groupHandled{n == len(ids), args[0], args[1], s.namespace, n},
		table{head: []string{"STREAM", "GROUP", head}, rows: [][]string{{args[0], args[1], decimal(n)}}},
	)
	if err == nil && n < len(ids) {
		return &hintedError{
			&textError{floe.ErrConflict, fmt.Sprintf("stream %q: %d of %d records are not pending in group %q", args[0], len(ids)-n,
				len(ids), args[1])},
			"they were acknowledged before, never delivered, or trimmed; floe stream group pending STREAM GROUP lists what is pending",
		}
	}
	return err
}

var pendingNames = listers{streamNames, groupNames, pendingIDs}

// onRecords calls do for the records with the given IDs.
func onRecords(cmd *cobra.Command, head string,
	do func(ctx context.Context, s *stream.Store, name, group string, refs []stream.Ref) (int, error)) prepare {
	return func(args []string) (callFunc, error) {
		ids, err := parseIDs(cmd, args[2:])
		return func(ctx context.Context, s *session) error {
			return s.handle(ctx, head, args, ids, func(refs []stream.Ref) (int, error) {
				return do(ctx, s.Stream(s.namespace), args[0], args[1], refs)
			})
		}, err
	}
}

func groupAck(_ *frame, cmd *cobra.Command) prepare {
	return onRecords(cmd, "ACKED", func(ctx context.Context, s *stream.Store, name, group string, refs []stream.Ref) (int, error) {
		return s.Ack(ctx, name, group, refs...)
	})
}

func groupNack(_ *frame, cmd *cobra.Command) prepare {
	var delay time.Duration
	flags := cmd.Flags()
	flags.Var(newFlag(&delay, "duration", durationOrNone), "delay",
		"delay before redelivery (default the back-off of the group)")
	reason := flags.String("reason", "", "reason, shown with dead letters")
	return onRecords(cmd, "NACKED", func(ctx context.Context, s *stream.Store, name, group string, refs []stream.Ref) (int, error) {
		var opts []stream.NackOption
		if flags.Changed("delay") {
			opts = append(opts, stream.Delay(delay))
		}
		if *reason != "" {
			opts = append(opts, stream.Reason(*reason))
		}
		return s.Nack(ctx, name, group, refs, opts...)
	})
}

func groupExtend(_ *frame, cmd *cobra.Command) prepare {
	d := stream.DefaultAckTimeout
	cmd.Flags().Var(newFlag(&d, "duration", positiveDuration), "for", "new duration from now (default 30s)")
	return onRecords(cmd, "EXTENDED", func(ctx context.Context, s *stream.Store, name, group string, refs []stream.Ref) (int, error) {
		e, err := s.ExtendMany(ctx, name, group, refs, d)
		return e.Records, err
	})
}

// pendingText is a pending record in JSON.
type pendingText struct {
	idText
	Partition   int     `json:"partition"`
	Consumer    *string `json:"consumer"` // nil: awaiting redelivery
	Deliveries  int     `json:"deliveries"`
	DeliveredAt int64   `json:"delivered_at"` // the last delivery
	AckDeadline int64   `json:"ack_deadline"` // or the time of the redelivery
	Reason      string  `json:"reason"`
}

func newPendingText(r stream.PendingRecord) pendingText {
	t := pendingText{
		idText: newIDText(r.ID), Partition: r.Ref.Partition, Deliveries: r.Ref.Attempt, DeliveredAt: r.DeliveredAt.UnixMilli(),
		AckDeadline: r.Deadline.UnixMilli(), Reason: r.Reason,
	}
	if r.Consumer != "" {
		t.Consumer = &r.Consumer
	}
	return t
}

func groupPending(ctx context.Context, s *session, args []string) error {
	row := func(r stream.PendingRecord) []string {
		consumer := r.Consumer
		if consumer == "" {
			consumer = "-"
		}
		return []string{
			r.ID.String(), decimal(r.Ref.Partition), consumer, decimal(r.Ref.Attempt), shownTime(r.DeliveredAt),
			shownOptionalTime(r.Deadline), r.Reason,
		}
	}
	head := []string{"ID", "PARTITION", "CONSUMER", "DELIVERIES", "DELIVERED", "DEADLINE", "REASON"}
	return printEach(s.output,
		s.Stream(s.namespace).Pending(args[0], args[1]).All(ctx, stream.Limit(stream.MaxPageItems)), head, newPendingText, row, nil)
}

// memberText is a consumer in JSON.
type memberText struct {
	Consumer string `json:"consumer"`
	Pending  int    `json:"pending"`
	Holder   bool   `json:"holder"` // the only active consumer of an exclusive group
	JoinedAt int64  `json:"joined_at"`
	LastSeen int64  `json:"last_seen"`
}

func groupMembers(ctx context.Context, s *session, args []string) error {
	g, err := s.Stream(s.namespace).Groups(args[0]).Get(ctx, args[1])
	if err != nil {
		return err
	}
	list, t := membersOf(&g)
	return s.print(list, t)
}

func membersOf(g *stream.GroupStats) ([]memberText, table) {
	list, t := []memberText{}, table{name: "member", head: []string{"CONSUMER", "PENDING", "JOINED", "LAST SEEN"}}
	for _, m := range g.Members {
		list = append(list, memberText{m.Consumer, m.Pending, m.Consumer == g.Holder, m.JoinedAt.UnixMilli(), m.LastSeen.UnixMilli()})
		t.rows = append(t.rows, []string{m.Consumer, decimal(m.Pending), shownTime(m.JoinedAt), shownTime(m.LastSeen)})
	}
	return list, t
}

func groupLeave(ctx context.Context, s *session, args []string) error {
	if err := s.Stream(s.namespace).Leave(ctx, args[0], args[1], args[2]); err != nil {
		return err
	}
	return s.printGroupDone("GROUP", args[0], args[1])
}

func groupConfigure(_ *frame, cmd *cobra.Command) prepare {
	var ackTimeout, backoffMin, backoffMax time.Duration
	var attempts int
	flags := cmd.Flags()
	flags.Var(newFlag(&ackTimeout, "duration", positiveDuration), "ack-timeout",
		"time after which an unacknowledged record is redelivered")
	maxDeliveries(cmd, &attempts, "")
	flags.Var(newFlag(&backoffMin, "duration", durationOrNone), "backoff-min",
		"delay before the second delivery, doubled for each further one")
	flags.Var(newFlag(&backoffMax, "duration", durationOrNone), "backoff-max", "maximum delay between deliveries")
	return func(args []string) (callFunc, error) {
		var opts []stream.SettingOption
		if flags.Changed("ack-timeout") {
			opts = append(opts, stream.AckTimeout(ackTimeout))
		}
		if flags.Changed("max-attempts") || flags.Changed("max-deliver") {
			opts = append(opts, stream.MaxAttempts(attempts))
		}
		pauses := flags.Changed("backoff-min") || flags.Changed("backoff-max")
		if len(opts) == 0 && !pauses {
			return nil, &usageError{errors.New("nothing to change: set at least one of --ack-timeout, --max-attempts, --backoff-min, --backoff-max"), helpHint(cmd)}
		}
		return func(ctx context.Context, s *session) error {
			if pauses {
				g, err := s.Stream(s.namespace).Groups(args[0]).Get(ctx, args[1])
				if err != nil {
					return err
				}
				if !flags.Changed("backoff-min") {
					backoffMin = g.BackoffMin
				}
				if !flags.Changed("backoff-max") {
					backoffMax = g.BackoffMax
				}
				shortest, longest, err := backoff(cmd, backoffMin, backoffMax)
				if err != nil {
					return err
				}
				opts = append(opts, stream.Backoff(shortest, longest))
			}
			if err := s.Stream(s.namespace).Groups(args[0]).Configure(ctx, args[1], opts...); err != nil {
				return err
			}
			return s.printGroupDone("GROUP", args[0], args[1])
		}, nil
	}
}

func groupSeek(_ *frame, cmd *cobra.Command) prepare {
	var partition int
	cmd.Flags().Var(newFlag(&partition, "n", within(0, stream.MaxPartitions-1)), "partition",
		"partition to set the position in (default all)")
	return func(args []string) (callFunc, error) {
		to, err := parseStart(args[2])
		if err != nil {
			return nil, &usageError{fmt.Errorf("WHERE: %q is %w", args[2], err), helpHint(cmd)}
		}
		return func(ctx context.Context, s *session) error {
			var opts []stream.SeekPartOption
			if cmd.Flags().Changed("partition") {
				opts = append(opts, stream.Partition(partition))
			}
			if err := s.Stream(s.namespace).Seek(ctx, args[0], args[1], to, opts...); err != nil {
				return err
			}
			return s.printGroupDone("GROUP", args[0], args[1])
		}, nil
	}
}

func startNames(context.Context, *session, []string, string) ([]string, error) {
	return []string{"beginning", "end"}, nil
}

// groupSummary is a group in a listing.
type groupSummary struct {
	Name          string            `json:"name"`
	Mode          string            `json:"mode"`
	Members       int               `json:"members"`
	Pending       int               `json:"pending"`
	Lag           int64             `json:"lag"`            // number of undelivered records
	LastDelivered map[string]string `json:"last_delivered"` // by partition
}

func summarizeGroup(g stream.GroupStats) groupSummary {
	sum := groupSummary{g.Name, g.Mode.String(), len(g.Members), g.Pending(), g.Lag(), map[string]string{}}
	for _, c := range g.Cursors {
		if !c.LastDelivered.IsZero() {
			sum.LastDelivered[decimal(c.Partition)] = c.LastDelivered.String()
		}
	}
	return sum
}

var groupHead = []string{"GROUP", "MODE", "MEMBERS", "PENDING", "LAG"}

func groupRow(g stream.GroupStats) []string {
	return []string{g.Name, g.Mode.String(), decimal(len(g.Members)), decimal(g.Pending()), decimal(g.Lag())}
}

// groupDetail is a group with its cursors and members.
type groupDetail struct {
	Stream           string       `json:"stream"`
	Group            string       `json:"group"`
	Namespace        string       `json:"namespace"`
	Mode             string       `json:"mode"`
	Members          []memberText `json:"members"`
	Pending          int          `json:"pending"`
	Lag              int64        `json:"lag"`
	AckTimeoutMillis int64        `json:"ack_timeout_ms"`
	MaxAttempts      int          `json:"max_deliver"` // 0: no limit; the JSON name is that of REST
	BackoffMinMillis int64        `json:"backoff_min_ms"`
	BackoffMaxMillis int64        `json:"backoff_max_ms"`
	CreatedAt        int64        `json:"created_at"`
	Cursors          []cursorText `json:"cursors"`
}

type cursorText struct {
	Partition     int     `json:"partition"`
	LastDelivered *string `json:"last_delivered"`
	Acked         *string `json:"acked"` // all records up to this one are acknowledged
	Pending       int     `json:"pending"`
	Lag           int64   `json:"lag"`
	LagMillis     int64   `json:"lag_ms"` // age of the oldest undelivered record
}

func newCursorText(c stream.GroupCursor) cursorText {
	return cursorText{c.Partition, optionalID(c.LastDelivered), optionalID(c.Acked), c.Pending, c.Lag, c.LagTime.Milliseconds()}
}

func groupInfo(ctx context.Context, s *session, args []string) error {
	g, err := s.Stream(s.namespace).Groups(args[0]).Get(ctx, args[1])
	if err != nil {
		return err
	}
	return s.printGroup(args[0], &g)
}

func (s *session) printGroup(name string, g *stream.GroupStats) error {
	members, of := membersOf(g)
	d := groupDetail{
		Stream: name, Group: g.Name, Namespace: s.namespace, Mode: g.Mode.String(), Members: members, Pending: g.Pending(), Lag: g.Lag(),
		AckTimeoutMillis: g.AckTimeout.Milliseconds(), MaxAttempts: g.MaxAttempts, BackoffMinMillis: g.BackoffMin.Milliseconds(),
		BackoffMaxMillis: g.BackoffMax.Milliseconds(), CreatedAt: g.CreatedAt.UnixMilli(),
	}
	about := table{name: "group", rows: [][]string{
		{"name", g.Name}, {"mode", d.Mode}, {"ack timeout", shownDuration(g.AckTimeout)}, {"max attempts", decimal(g.MaxAttempts)},
		{"back-off", shownDuration(g.BackoffMin) + " to " + shownDuration(g.BackoffMax)}, {"created", shownTime(g.CreatedAt)},
	}}
	cursors := table{name: "partition", head: []string{"PARTITION", "LAST DELIVERED", "ACKED", "PENDING", "LAG"}}
	for _, c := range g.Cursors {
		d.Cursors = append(d.Cursors, newCursorText(c))
		cursors.rows = append(cursors.rows, []string{decimal(c.Partition), shownID(c.LastDelivered), shownID(c.Acked), decimal(c.Pending),
			decimal(c.Lag)})
	}
	tables := []table{about, cursors}
	if len(members) > 0 {
		tables = append(tables, of)
	}
	return s.print(d, tables...)
}

// lagText is the lag of a group in a partition.
type lagText struct {
	Group string `json:"group"`
	cursorText
}

func groupLag(ctx context.Context, s *session, args []string) error {
	of := s.Stream(s.namespace).Groups(args[0])
	if len(args) > 1 {
		g, err := of.Get(ctx, args[1])
		if err != nil {
			return err
		}
		return s.printLag(g)
	}
	all, err := collected(of.All(ctx))
	if err != nil {
		return err
	}
	return s.printLag(all...)
}

func (s *session) printLag(groups ...stream.GroupStats) error {
	list, t := []lagText{}, table{head: []string{"GROUP", "PARTITION", "LAST DELIVERED", "PENDING", "LAG", "OLDEST"}}
	for _, g := range groups {
		for _, c := range g.Cursors {
			list = append(list, lagText{g.Name, newCursorText(c)})
			t.rows = append(t.rows, []string{g.Name, decimal(c.Partition), shownID(c.LastDelivered), decimal(c.Pending), decimal(c.Lag),
				shownDuration(c.LagTime.Round(time.Millisecond))})
		}
	}
	return s.print(list, t)
}

func groupList(ctx context.Context, s *session, args []string) error {
	return printEach(s.output, s.Stream(s.namespace).Groups(args[0]).All(ctx), groupHead, summarizeGroup, groupRow, nil)
}

func groupDelete(ctx context.Context, s *session, args []string) error {
	if err := s.Stream(s.namespace).Groups(args[0]).Delete(ctx, args[1]); err != nil {
		return err
	}
	return s.printGroupDone("DELETED", args[0], args[1])
}

// groupNames lists the groups of the stream before it on the command line.
func groupNames(ctx context.Context, s *session, before []string, begun string) (names []string, err error) {
	page, err := s.Stream(s.namespace).Groups(before[0]).Page(ctx, stream.Prefix(begun), stream.Limit(stream.MaxPageItems))
	for _, g := range page.Items {
		names = append(names, g.Name)
	}
	return names, err
}

// consumerNames lists the members of the group before it on the command line.
func consumerNames(ctx context.Context, s *session, before []string, _ string) (names []string, err error) {
	g, err := s.Stream(s.namespace).Groups(before[0]).Get(ctx, before[1])
	for _, m := range g.Members {
		names = append(names, m.Consumer)
	}
	return names, err
}

// pendingIDs lists the pending records of the group before it on the command line.
func pendingIDs(ctx context.Context, s *session, before []string, _ string) (ids []string, err error) {
	page, err := s.Stream(s.namespace).Pending(before[0], before[1]).Page(ctx, stream.Limit(stream.MaxPageItems))
	for _, r := range page.Items {
		ids = append(ids, r.ID.String())
	}
	return ids, err
}
