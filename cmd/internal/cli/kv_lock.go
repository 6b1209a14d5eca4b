package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

var lockRows = []row{
	{use: "acquire KEY", short: "Acquire a lock", flags: lockAcquire,
		long: `Acquire a lock, which is a key with a time to live, and print its fencing token. Later holders
have greater tokens. If another holder has the lock, the exit code is 4.`,
		example: `  token=$(floe kv lock acquire nightly --ttl 5m --wait 1m -o raw | cut -f 2)
  floe kv lock renew nightly $token --ttl 5m
  floe kv lock release nightly $token`},
	{use: "renew KEY TOKEN", short: "Extend a lock", flags: lockRenew},
	{use: "release KEY TOKEN", short: "Release a lock", flags: lockRelease},
	{code: lockRun},
}

// defaultLockTTL is the default time to live of a lock.
const defaultLockTTL = 30 * time.Second

func addLockTTL(cmd *cobra.Command) *time.Duration {
	ttl := defaultLockTTL
	cmd.Flags().SortFlags = false
	cmd.Flags().Var(newFlag(&ttl, "duration", positiveDuration), "ttl", "time after which the lock expires unless renewed (default 30s)")
	return &ttl
}

// lockHeld is a lock that the caller holds.
type lockHeld struct {
	OK bool `json:"ok"`
	keyText
	Namespace string `json:"namespace"`
	Token     uint64 `json:"token"`
	ExpiresAt int64  `json:"expires_at"`
}

func (s *session) printLock(key string, token uint64, until time.Time) error {
	return s.print(
		lockHeld{true, newKeyText(key), s.namespace, token, until.UnixMilli()},
		table{head: []string{"LOCK", "TOKEN", "EXPIRES"}, rows: [][]string{{key, decimal(token), shownTime(until)}}},
	)
}

func lockAcquire(f *frame, cmd *cobra.Command) prepare {
	ttl := addLockTTL(cmd)
	var wait time.Duration
	cmd.Flags().Var(newFlag(&wait, "duration", durationOrNone), "wait", "time to wait while another holder has it (default 0s)")
	return func(args []string) (callFunc, error) {
		f.timeout += min(wait, forever-f.timeout) // not f.wait: an interrupted wait is no success
		return func(ctx context.Context, s *session) error {
			lock, until, err := acquire(ctx, s.KV(s.namespace), args[0], *ttl, wait)
			if errors.Is(err, floe.ErrConflict) {
				return &hintedError{&textError{err, fmt.Sprintf("lock %q is held", args[0])}, "--wait waits for it"}
			}
			if err != nil {
				return err
			}
			return s.printLock(args[0], lock.Token(), until)
		}, nil
	}
}

// acquire waits for changes of the key, and tries to acquire the lock after each one: a wait that
// ends never leaves the lock to a caller that does not know of it.
func acquire(ctx context.Context, store *kv.Store, key string, ttl, wait time.Duration) (*kv.Lock, time.Time, error) {
	end := time.Now().Add(wait)
	for {
		until := time.Now().Add(ttl)
		lock, err := store.TryLock(ctx, key, ttl)
		var held *kv.ConflictError
		if !errors.As(err, &held) || !time.Now().Before(end) {
			return lock, until, err
		}
		waiting, cancel := context.WithDeadline(ctx, end)
		_, changed := store.WaitChange(waiting, key, held.Revision)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, until, ctx.Err()
		case changed != nil && waiting.Err() != nil:
			return nil, until, err
		case changed != nil:
			return nil, until, changed
		}
	}
}

func parseToken(cmd *cobra.Command, arg string) (uint64, error) {
	token, err := strconv.ParseUint(arg, 10, 64)
	if err != nil || token == 0 {
		return 0, &usageError{fmt.Errorf("TOKEN: %q is not a token: floe kv lock acquire prints it", arg), helpHint(cmd)}
	}
	return token, nil
}

// lockLost makes an error about a lock that the caller does not hold a conflict.
func lockLost(key string, err error) error {
	if errors.Is(err, floe.ErrConflict) || errors.Is(err, floe.ErrNotFound) {
		err = &textError{floe.ErrConflict, fmt.Sprintf("lock %q is not held with this token: %v", key, err)}
		return &hintedError{err, "it has expired or was released; another holder may have it"}
	}
	return err
}

func lockRenew(_ *frame, cmd *cobra.Command) prepare {
	ttl := addLockTTL(cmd)
	return func(args []string) (callFunc, error) {
		token, err := parseToken(cmd, args[1])
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			until := time.Now().Add(*ttl)
			if err := s.KV(s.namespace).Touch(ctx, args[0], *ttl, kv.IfRevision(token)); err != nil {
				return lockLost(args[0], err)
			}
			return s.printLock(args[0], token, until)
		}, nil
	}
}

func lockRelease(_ *frame, cmd *cobra.Command) prepare {
	return func(args []string) (callFunc, error) {
		token, err := parseToken(cmd, args[1])
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			if _, err := s.KV(s.namespace).Delete(ctx, args[0], kv.IfRevision(token)); err != nil {
				return lockLost(args[0], err)
			}
			return s.print(keyDone{true, newKeyText(args[0]), s.namespace},
				table{head: []string{"RELEASED"}, rows: [][]string{{args[0]}}})
		}, nil
	}
}

// killDelay is how long a command that should end may still run.
const killDelay = 10 * time.Second

func lockRun(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run KEY -- COMMAND [ARGUMENT]...",
		Short: "Run a command while holding a lock",
		Long: `Acquire a lock, run COMMAND, and release the lock. The lock is renewed while the command runs.
If it is lost, the command gets SIGTERM, and the exit code is 4; otherwise it is that of the
command. FLOE_LOCK_TOKEN in its environment is the fencing token.`,
		Example: `  floe kv lock run nightly -- ./backup.sh --full
  floe kv lock run deploy --wait 1m -- make deploy`,
		Args: atLeast("KEY", "COMMAND"),
	}
	ttl := addLockTTL(cmd)
	var wait time.Duration
	cmd.Flags().Var(newFlag(&wait, "duration", positiveDuration), "wait", "time to wait while another holder has it (default no limit)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := exec.LookPath(args[1]); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
		defer cancel()
		err := f.connected(ctx, cmd, func(s *session) error {
			return f.explain(s.runLocked(cmd.Context(), f.Process, args[0], *ttl, wait, args[1:]))
		})
		if own := (*exitError)(nil); !errors.As(err, &own) && err != nil && cmd.Context().Err() != nil {
			err = interrupted(err)
		}
		return coded(err)
	}
	return cmd
}

func (s *session) runLocked(ctx context.Context, p Process, key string, ttl, wait time.Duration, command []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := time.AfterFunc(forever, func() {})
	if wait > 0 {
		patience = time.AfterFunc(wait, func() { cancel(&textError{floe.ErrConflict, fmt.Sprintf("lock %q is held", key)}) })
	}
	defer patience.Stop()
	err := s.KV(s.namespace).WithLock(ctx, key, ttl, func(ctx context.Context) error {
		if !patience.Stop() {
			return context.Cause(ctx)
		}
		run := exec.CommandContext(ctx, command[0], command[1:]...)
		run.Stdin, run.Stdout, run.Stderr = p.Stdin, p.Stdout, p.Stderr
		run.Env = append(run.Environ(), "FLOE_LOCK_TOKEN="+decimal(kv.LockOf(ctx).Token()))
		run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
		run.WaitDelay = killDelay
		err := run.Run()
		if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && ended.ExitCode() > 0 {
			return &exitError{fmt.Errorf("%s: %w", command[0], err), ended.ExitCode()}
		}
		return err
	})
	if cause := context.Cause(ctx); errors.Is(cause, floe.ErrConflict) && errors.Is(err, context.Canceled) {
		return cause
	}
	return err
}
