package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

var kvRows = []row{
	{code: kvSet},
	{use: "get KEY", short: "Print the value of a key", flags: kvGet},
	{use: "delete KEY", short: "Delete a key", run: kvDelete,
		long: "Delete a key. Its history is kept for a day."},
	{use: "list", short: "List keys in order", flags: kvList},
	{use: "history KEY", short: "List the versions of a key, newest first", run: kvHistory},
	{use: "touch KEY --ttl DURATION", short: "Change the time to live of a key", flags: kvTouch,
		long: "Change the time to live of a key. Its value, version and revision stay."},
	{use: "incr KEY", short: "Increment the number at a key", flags: kvIncr,
		long: `Increment the number at a key, and print the sum. A key that does not exist counts as 0. If the
sum is not between --min and --max, nothing is written and the exit code is 4.`,
		example: `  floe kv incr visits
  floe kv incr seats --by -2 --min 0`},
	{code: kvWatch},
	{use: "json", short: "Read and change parts of JSON documents", below: jsonRows},
	{use: "lock", short: "Acquire, renew and release locks", below: lockRows},
}

// keyText is a key in JSON.
type keyText struct {
	Key         string `json:"key"`
	KeyEncoding string `json:"key_encoding,omitempty"` // "base64" if the key is not text
}

func newKeyText(key string) keyText {
	text, encoding := jsonText(key)
	return keyText{text, encoding}
}

// valueText is a value in JSON.
type valueText struct {
	Value         string `json:"value"`
	ValueEncoding string `json:"value_encoding,omitempty"` // "base64" if the value is not text
}

func newValueText(value []byte) valueText {
	text, encoding := jsonText(string(value))
	return valueText{text, encoding}
}

func kvSet(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "set KEY [VALUE]",
		Aliases: []string{"put"},
		Short:   "Store a value",
		Long: `Store a value. VALUE is the argument itself, the content of a file as @FILE, or stdin as -
or without VALUE. A value that begins with @ can come on stdin, one that begins with a dash
after --.

If a condition does not hold, nothing is written and the exit code is 4.

With --lines or --ndjson there is no KEY, and many keys are stored in batches. Each batch is
stored as a whole or not at all; in a spread namespace it is one key.`,
		Example: `  floe kv set greeting hello
  floe kv set logo @logo.png --ttl 24h
  date | floe kv set lock --if-absent
  floe kv set balance 90 --if-revision 17
  floe kv set --ndjson @keys.ndjson`,
	}
	var ttl time.Duration
	var revision uint64
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(newFlag(&ttl, "duration", positiveDuration), "ttl", "time to live of the key (default no limit)")
	absent := flags.Bool("if-absent", false, "only if the key does not exist")
	flags.Var(newFlag(&revision, "n", parseRevision), "if-revision", "only if the key has this revision; 0: if it does not exist")
	many := addBulk(cmd, "a key, a tab and a value", "key, value, ttl_ms, key_encoding, value_encoding (base64)")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if many.lines || many.ndjson {
			return takes("[@FILE]")(cmd, args)
		}
		return takes("KEY", "[VALUE]")(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if given, err := many.given(cmd, []string{"if-absent", "if-revision"}, []string{"ttl"}); err != nil || given {
			if err != nil {
				return err
			}
			return f.setMany(cmd, many, args, ttl)
		}
		var opts []kv.PutOption
		if ttl > 0 {
			opts = append(opts, kv.TTL(ttl))
		}
		if *absent {
			opts = append(opts, kv.IfAbsent())
		}
		if flags.Changed("if-revision") {
			opts = append(opts, kv.IfRevision(revision))
		}
		if *absent && revision != 0 {
			return &usageError{fmt.Errorf("--if-revision=%d: contradicts --if-absent", revision), helpHint(cmd)}
		}
		value, err := f.payload(cmd, "VALUE", args[1:])
		if err != nil {
			return err
		}
		return f.call(cmd, func(ctx context.Context, s *session) error {
			written, err := s.KV(s.namespace).Put(ctx, args[0], value, opts...)
			if errors.Is(err, floe.ErrConflict) {
				return &hintedError{err, "nothing was written; floe kv get KEY -o json shows the current value and revision"}
			}
			if err != nil {
				return err
			}
			return s.printWritten(args[0], written)
		})
	}
	return cmd
}

// keyLine is a key in bulk input.
type keyLine struct {
	Key           *string `json:"key"`
	KeyEncoding   string  `json:"key_encoding"`
	Value         *string `json:"value"`
	ValueEncoding string  `json:"value_encoding"`
	TTLMillis     *int64  `json:"ttl_ms"`
}

func (l *keyLine) operation() (op floe.Op, size int, err error) {
	key, err := unquoted("key", l.Key, l.KeyEncoding)
	if err != nil {
		return nil, 0, err
	}
	value, err := unquoted("value", l.Value, l.ValueEncoding)
	if err != nil || l.TTLMillis == nil {
		return kv.PutOp(string(key), value), len(value), err
	}
	if *l.TTLMillis < 1 || *l.TTLMillis > math.MaxInt64/int64(time.Millisecond) {
		return nil, 0, fmt.Errorf("member \"ttl_ms\" is %d, it takes milliseconds from 1", *l.TTLMillis)
	}
	return kv.PutOp(string(key), value, kv.TTL(time.Duration(*l.TTLMillis)*time.Millisecond)), len(value), nil
}

// keysWritten is the result of storing many keys.
type keysWritten struct {
	OK        bool   `json:"ok"`
	Namespace string `json:"namespace"`
	Count     int    `json:"count"`
}

func (f *frame) setMany(cmd *cobra.Command, many *bulk, from []string, ttl time.Duration) error {
	var opts []kv.PutOption
	if ttl > 0 {
		opts = append(opts, kv.TTL(ttl))
	}
	spread, known := false, false
	l := load[floe.Op]{
		from:   from,
		blanks: many.ndjson,
		parse: func(line []byte) (floe.Op, int, error) {
			if many.ndjson {
				var l keyLine
				if err := parseMembers(line, &l); err != nil {
					return nil, 0, err
				}
				return l.operation()
			}
			key, value, found := bytes.Cut(line, []byte("\t"))
			if !found {
				return nil, 0, errors.New("has no tab between key and value")
			}
			return kv.PutOp(string(key), value, opts...), len(value), nil
		},
		send: func(ctx context.Context, s *session, batch []floe.Op) (int, error) {
			if !known {
				stats, err := s.Namespaces().Get(ctx, s.namespace)
				if err != nil && !errors.Is(err, floe.ErrNotFound) {
					return 0, err
				}
				spread, known = stats.Spread, true
			}
			if !spread {
				_, err := s.Txn(s.namespace).Do(batch...).Commit(ctx)
				return allOrNone(len(batch), err)
			}
			for i, op := range batch { // the keys are in several shards
				if _, err := s.Txn(s.namespace).Do(op).Commit(ctx); err != nil {
					return i, err
				}
			}
			return len(batch), nil
		},
		done: func(s *session, n int) error {
			return s.print(keysWritten{true, s.namespace, n}, table{head: []string{"KEYS"}, rows: [][]string{{decimal(n)}}})
		},
	}
	return l.run(f, cmd)
}

func parseRevision(v string) (uint64, error) {
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		return 0, errors.New("not a revision: it takes whole numbers from 0")
	}
	return n, nil
}

// keyWritten is the result of a write.
type keyWritten struct {
	OK bool `json:"ok"`
	keyText
	Namespace string `json:"namespace"`
	Version   uint64 `json:"version"` // number of versions that the key has had
	revisionText
}

// revisionText is a revision in JSON.
type revisionText struct {
	Revision uint64 `json:"revision"`
	LSN      uint64 `json:"lsn"` // older name
}

func newRevisionText(r uint64) revisionText { return revisionText{r, r} }

func (s *session) printWritten(key string, w kv.Written) error {
	return s.print(
		keyWritten{OK: true, keyText: newKeyText(key), Namespace: s.namespace, Version: w.Version,
			revisionText: newRevisionText(w.Revision)},
		table{head: []string{"KEY", "VERSION", "REVISION"}, rows: [][]string{{key, decimal(w.Version), decimal(w.Revision)}}},
	)
}

// keyDetail is a key with its value.
type keyDetail struct {
	Found bool `json:"found"`
	keyText
	Namespace string `json:"namespace"`
	valueText
	Version uint64 `json:"version"` // number of versions that the key has had
	revisionText
	Size      int    `json:"size"` // bytes of the value
	UpdatedAt int64  `json:"updated_at"`
	TTLMillis *int64 `json:"ttl_ms"` // remaining time; nil: does not expire
}

func kvGet(_ *frame, cmd *cobra.Command) prepare {
	access := addStale(cmd)
	return unchecked(func(ctx context.Context, s *session, args []string) error {
		e, err := s.KV(s.namespace, access()...).Get(ctx, args[0])
		if err != nil {
			return err
		}
		detail := keyDetail{
			Found: true, keyText: newKeyText(e.Key), Namespace: s.namespace, valueText: newValueText(e.Value),
			Version: e.Version, revisionText: newRevisionText(e.Revision), Size: len(e.Value), UpdatedAt: e.UpdatedAt.UnixMilli(),
		}
		if !e.ExpiresAt.IsZero() {
			detail.TTLMillis = new(max(0, time.Until(e.ExpiresAt).Milliseconds()))
		}
		return s.printValue(detail, e.Value)
	})
}

// addStale adds --stale to a command that reads, and returns a function that makes options of it.
func addStale(cmd *cobra.Command) func() []floe.AccessOption {
	stale := cmd.Flags().Bool("stale", false,
		"read the replica of the connected node, which may be outdated but needs no leader")
	return func() []floe.AccessOption {
		if *stale {
			return []floe.AccessOption{floe.Stale()}
		}
		return nil
	}
}

func kvDelete(ctx context.Context, s *session, args []string) error {
	written, err := s.KV(s.namespace).Delete(ctx, args[0])
	if err != nil {
		return err
	}
	return s.printWritten(args[0], written)
}

// keyList is a listing of all keys, in the form of a last page.
type keyList struct {
	Keys      []scanItem `json:"keys"`
	Count     int        `json:"count"`
	HasMore   bool       `json:"has_more"`
	Cursor    string     `json:"cursor"`
	Namespace string     `json:"namespace"`
}

// scanItem is a key in a listing.
type scanItem struct {
	keyText
	Size     int    `json:"size"`
	Version  uint64 `json:"version"`
	Revision uint64 `json:"revision"`
}

func kvList(_ *frame, cmd *cobra.Command) prepare {
	prefix := cmd.Flags().String("prefix", "", "only keys with this prefix")
	access := addStale(cmd)
	return unchecked(func(ctx context.Context, s *session, _ []string) error {
		return s.listKeys(ctx, s.KV(s.namespace, access()...), *prefix)
	})
}

func (s *session) listKeys(ctx context.Context, store *kv.Store, prefix string) error {
	row := func(item kv.Item) []string { return []string{item.Key, decimal(item.Size), decimal(item.Revision)} }
	document := func(item kv.Item) scanItem {
		return scanItem{newKeyText(item.Key), item.Size, item.Version, item.Revision}
	}
	items := store.All(ctx, kv.Prefix(prefix), kv.NoValues(), kv.Limit(kv.MaxPageItems))
	return printEach(s.output, items, []string{"KEY", "SIZE", "REVISION"}, document, row,
		func(keys []scanItem) any { return keyList{Keys: keys, Count: len(keys), Namespace: s.namespace} })
}

// keyHistory is the history of a key.
type keyHistory struct {
	keyText
	Namespace    string       `json:"namespace"`
	VersionCount int          `json:"version_count"` // number of versions listed
	Versions     []keyVersion `json:"versions"`      // newest first
}

type keyVersion struct {
	Version uint64 `json:"version"`
	revisionText
	Term            uint64 `json:"term"`
	TimestampMillis int64  `json:"timestamp_ms"`
	Size            int    `json:"size"`
	Tombstone       bool   `json:"tombstone"`
	Expired         bool   `json:"expired"` // a tombstone left by expiry
}

func kvHistory(ctx context.Context, s *session, args []string) error {
	versions, err := collected(s.KV(s.namespace).History(args[0]).All(ctx, kv.NoValues()))
	if err != nil {
		return err
	}
	return s.printHistory(args[0], versions)
}

func (s *session) printHistory(key string, versions []kv.Version) error {
	h := keyHistory{keyText: newKeyText(key), Namespace: s.namespace, VersionCount: len(versions)}
	t := table{head: []string{"VERSION", "REVISION", "TIME", "SIZE", "CHANGE"}}
	for _, v := range versions {
		h.Versions = append(h.Versions, keyVersion{
			Version: v.Version, revisionText: newRevisionText(v.Revision), Term: v.Term, TimestampMillis: v.Time.UnixMilli(), Size: v.Size,
			Tombstone: v.Tombstone, Expired: v.Expired,
		})
		change := kv.EventPut
		switch {
		case v.Expired:
			change = kv.EventExpire
		case v.Tombstone:
			change = kv.EventDelete
		}
		t.rows = append(t.rows, []string{decimal(v.Version), decimal(v.Revision), shownTime(v.Time), decimal(v.Size), change.String()})
	}
	return s.print(h, t)
}

// keyCounted is a counter after an increment.
type keyCounted struct {
	OK bool `json:"ok"`
	keyText
	Namespace string `json:"namespace"`
	Value     int64  `json:"value"`
	Version   uint64 `json:"version"`
	Revision  uint64 `json:"revision"`
}

func kvIncr(_ *frame, cmd *cobra.Command) prepare {
	by, low, high := int64(1), int64(math.MinInt64), int64(math.MaxInt64)
	var ttl time.Duration
	cmd.Flags().Var(newFlag(&by, "n", wholeNumber), "by", "amount to add; may be negative (default 1)")
	cmd.Flags().Var(newFlag(&low, "n", wholeNumber), "min", "minimum of the sum (default no limit)")
	cmd.Flags().Var(newFlag(&high, "n", wholeNumber), "max", "maximum of the sum (default no limit)")
	cmd.Flags().Var(newFlag(&ttl, "duration", positiveDuration), "ttl",
		"time to live of a new key; an existing key keeps its own")
	return func(args []string) (callFunc, error) {
		if low > high {
			return nil, &usageError{fmt.Errorf("--min=%d: is greater than --max, %d", low, high), helpHint(cmd)}
		}
		return func(ctx context.Context, s *session) error {
			opts := []kv.IncrOption{kv.Min(low), kv.Max(high)}
			if cmd.Flags().Changed("ttl") {
				opts = append(opts, kv.TTL(ttl))
			}
			n, err := s.KV(s.namespace).Incr(ctx, args[0], by, opts...)
			if err != nil {
				return err
			}
			return s.print(
				keyCounted{true, newKeyText(args[0]), s.namespace, n.Value, n.Version, n.Revision},
				table{rows: [][]string{{decimal(n.Value)}}},
			)
		}, nil
	}
}

// keyEvent is a change reported by a watch.
type keyEvent struct {
	Type string `json:"type"` // put, delete, expire; compacted: changes were missed, a snapshot follows
	keyText
	Namespace string `json:"namespace"`
	valueText
	Version uint64 `json:"version"`
	revisionText
	Size            int   `json:"size"`
	TimestampMillis int64 `json:"timestamp_ms"`
}

func kvWatch(f *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "watch PREFIX",
		Short: "Watch keys with a prefix",
		Long: `Print the keys that begin with PREFIX, and then every change of them, until SIGINT or
SIGTERM. '' is all keys. Each line has the event (put, delete or expire), the revision, the
key and the value, or is a JSON document. If changes were missed, a line says compacted, and
all keys are printed again.`,
		Args: takes("PREFIX"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.follow(cmd, func(ctx context.Context, s *session) error {
				for event, err := range s.KV(s.namespace).Watch(ctx, args[0]) {
					if err == nil {
						err = s.printEvent(event)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func (s *session) printEvent(e kv.Event) (err error) {
	switch s.format {
	case formatJSON:
		return s.encode(keyEvent{
			Type: e.Type.String(), keyText: newKeyText(e.Key), Namespace: s.namespace, valueText: newValueText(e.Value),
			Version: e.Version, revisionText: newRevisionText(e.Revision), Size: len(e.Value), TimestampMillis: e.Time.UnixMilli(),
		}, "")
	case formatRaw:
		err = s.writeRaw(e.Type.String(), decimal(e.Revision), e.Key, string(e.Value))
	default:
		_, err = fmt.Fprintf(s.w, "%-9v  %8d  %s  %s\n", e.Type, e.Revision, printable(e.Key), printable(shortened(e.Value)))
	}
	return err
}
