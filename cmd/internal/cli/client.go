package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/transport"
)

// frame is shared by all commands that call a node: flags, payloads and the output of results. Most
// are rows; see row. A command does its work in f.call or f.follow.
type frame struct {
	Process
	addrs     []string
	namespace string
	output    *output
	timeout   time.Duration
	wait      time.Duration // maximum time that the node waits for data, in addition to the timeout
	completes bool          // the command only completes names
	tls       clientTLS
	apiKey    string // as given: the key itself, or @ and a file name
}

// forever is a timeout that does not end.
const forever time.Duration = math.MaxInt64 / 2

// defaultAddr is the default address for clients of a server on this machine.
const defaultAddr = "127.0.0.1:9000"

// equip adds the common flags to a command and its subcommands.
func (f *frame) equip(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.SortFlags = false
	f.namespace, f.timeout = "default", 10*time.Second
	addAddrs := func(v string) ([]string, error) {
		more, err := nodeAddrs(v)
		return append(f.addrs, more...), err
	}
	flags.Var(newFlag(&f.addrs, "host:port,...", addAddrs), "addr",
		"addresses of one or more nodes; also FLOE_ADDR (default "+defaultAddr+")")
	flags.VarP(newFlag(&f.namespace, "name", func(v string) (string, error) { return v, notEmpty(v) }), "namespace", "n",
		"namespace; also FLOE_NAMESPACE (default default)")
	f.output = addOutput(cmd, f.Process)
	flags.Var(newFlag(&f.timeout, "duration", positiveDuration), "timeout", "timeout of a call; also FLOE_TIMEOUT (default 10s)")
	// The flag does not parse it, because the flag's errors quote the value.
	flags.StringVar(&f.apiKey, "api-key", "", "API `key`, or @file to read it from a file; also FLOE_API_KEY")
	f.tls.equip(cmd)
	_ = cmd.RegisterFlagCompletionFunc("namespace", f.completeNamespace)
	for _, name := range []string{"addr", "timeout"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions) // the only error is an unknown flag
	}
	withoutFiles(cmd)
}

// session is the connection of a command.
type session struct {
	*floe.Client
	*output
	namespace string
}

// call connects and runs do, within the timeout. If the user interrupts a command that has --wait,
// call returns nil; without --wait it returns errInterrupted.
func (f *frame) call(cmd *cobra.Command, do func(context.Context, *session) error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout+min(f.wait, math.MaxInt64-f.timeout))
	defer cancel()
	err := f.connected(ctx, cmd, func(s *session) error {
		err := do(ctx, s)
		if err == nil || errors.Is(err, floe.ErrNotFound) {
			s.noteNamespace(ctx, f, cmd)
		}
		return f.explain(err)
	})
	if err != nil && cmd.Context().Err() != nil {
		if f.wait > 0 {
			return nil
		}
		err = interrupted(err)
	}
	return coded(err)
}

// follow is call for commands that run until stopped. The timeout covers the connection only.
func (f *frame) follow(cmd *cobra.Command, do func(context.Context, *session) error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	err := f.connected(ctx, cmd, func(s *session) error {
		s.noteNamespace(ctx, f, cmd)
		return f.explain(do(cmd.Context(), s))
	})
	if cmd.Context().Err() != nil {
		return nil
	}
	return coded(err)
}

// connected connects within ctx and runs do with the connection.
func (f *frame) connected(ctx context.Context, cmd *cobra.Command, do func(*session) error) error {
	s, err := f.connect(ctx, cmd)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}

func (f *frame) connect(ctx context.Context, cmd *cobra.Command) (*session, error) {
	addrs := f.addrs
	if env, _ := f.LookupEnv("FLOE_ADDR"); len(addrs) == 0 && env != "" {
		var err error
		if addrs, err = nodeAddrs(env); err != nil {
			return nil, &usageError{fmt.Errorf("FLOE_ADDR=%s: %w", env, err), helpHint(cmd)}
		}
	}
	if len(addrs) == 0 {
		addrs = []string{defaultAddr}
	}
	encryption, err := f.tls.config(cmd, f.Process)
	if err != nil {
		return nil, err
	}
	var opts []floe.DialOption
	if encryption != nil {
		opts = append(opts, floe.TLS(encryption))
	}
	key, err := f.key(cmd)
	if err != nil {
		return nil, err
	}
	if key != "" {
		opts = append(opts, floe.APIKey(key))
	}
	client, err := floe.Dial(ctx, addrs, opts...)
	if err != nil && cmd.Context().Err() != nil {
		return nil, errInterrupted
	}
	if errors.Is(err, floe.ErrUnauthorized) {
		text := fmt.Sprintf("the node at %s: %s", strings.Join(addrs, ", "), reason(err, addrs))
		return nil, &hintedError{&textError{err, text}, keyHint}
	}
	if err != nil {
		text := fmt.Sprintf("no node answers at %s: %s", strings.Join(addrs, ", "), reason(err, addrs))
		hint := dialHint(err, encryption != nil)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			hint += fmt.Sprintf("; or allow more than %v with --timeout", f.timeout)
		}
		return nil, &hintedError{&textError{err, text}, hint}
	}
	return &session{client, f.output, f.namespace}, nil
}

// keyHint is the hint if a node requires another key.
const keyHint = "pass a key with --api-key or FLOE_API_KEY; an administrator creates one with floe key create"

// key returns the API key to send, "" for none.
func (f *frame) key(cmd *cobra.Command) (string, error) {
	given, from := f.apiKey, "--api-key"
	if env, _ := f.LookupEnv("FLOE_API_KEY"); env != "" && !cmd.Flags().Changed("api-key") {
		given, from = env, "FLOE_API_KEY"
	}
	name, isFile := strings.CutPrefix(given, "@")
	if !isFile {
		return strings.TrimSpace(given), nil
	}
	b, err := readFile(from, name)
	if err == nil {
		warnOfReaders(f.Stderr, name)
	}
	return string(bytes.TrimSpace(b)), err
}

// reason returns the cause of a failed connection on one line, without the addresses and prefixes
// that the message has already.
func reason(err error, addrs []string) string {
	known := []string{"floe: dial: ", "no connection: "}
	if len(addrs) == 1 {
		known = append(known, addrs[0]+": ")
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	for _, prefix := range known {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}

// dialHint returns the hint for a failed connection. If only one end encrypts, neither can read
// what the other sends.
func dialHint(err error, encrypted bool) string {
	certificate, call, lookup := (*tls.CertificateVerificationError)(nil), (*os.SyscallError)(nil), (*net.DNSError)(nil)
	switch {
	case errors.Is(err, transport.ErrWebServer):
		return "--addr and FLOE_ADDR take the port for clients, which server start prints first (default 9000)"
	case errors.As(err, &certificate):
		return "say with --tls-ca by which authorities the node is to be believed"
	case errors.As(err, &call) || errors.As(err, &lookup):
		return "start one with floe server start, or say with --addr or FLOE_ADDR where one is"
	case encrypted:
		return "the node may want a certificate that it believes, --tls-cert; or it does not encrypt, and takes no --tls and --tls-ca"
	}
	return "say with --addr or FLOE_ADDR where one is; if it encrypts, with --tls-ca by which authorities it is to be believed"
}

// explain adds a hint to the error of a call.
func (f *frame) explain(err error) error {
	if hinted := (*hintedError)(nil); errors.As(err, &hinted) {
		return err
	}
	for _, e := range []struct {
		kind error
		hint string
	}{
		{floe.ErrUnauthorized, keyHint},
		{floe.ErrUnknownOutcome, "it may have happened or not: look before repeating it"},
		{floe.ErrReadOnly, "its disk is full: make room there; floe server status shows how much is free"},
		{context.DeadlineExceeded, fmt.Sprintf("the call may take %v; allow more with --timeout, or see floe cluster status", f.timeout)},
		{floe.ErrBusy, "the node has too much to do: try again later"},
		{floe.ErrUnavailable, "floe cluster status shows which nodes answer and which shards have a leader"},
	} {
		if errors.Is(err, e.kind) {
			return &hintedError{err, e.hint}
		}
	}
	return err
}

// maxPayloadBytes is the largest payload that any node accepts.
const maxPayloadBytes = 16 << 20

// payload returns the bytes for an argument that the help calls what. An argument with @ in front
// names a file; - or no argument means stdin; any other argument is the payload itself.
func (f *frame) payload(cmd *cobra.Command, what string, args []string) ([]byte, error) {
	switch {
	case len(args) > 0 && args[0] == "-" && f.Stdin != nil:
	case len(args) > 0 && args[0] == "@":
		return nil, &usageError{fmt.Errorf("%s: @ without the name of a file", what), "a value that begins with @ itself can come on stdin"}
	case len(args) > 0 && strings.HasPrefix(args[0], "@"):
		return readFile(what, args[0][1:])
	case len(args) > 0:
		return []byte(args[0]), nil
	case f.Stdin == nil || isTerminal(f.Stdin):
		return nil, &usageError{fmt.Errorf("%s is missing", what), "give it as an argument, as @file or on stdin"}
	}
	type read struct {
		b   []byte
		err error
	}
	done := make(chan read, 1)
	// Only the other end can end a read of a terminal or pipe. An interrupted command leaves the
	// read behind, and it ends with the process.
	go func() {
		b, err := readPayload(what, f.Stdin)
		done <- read{b, err}
	}()
	select {
	case r := <-done:
		return r.b, r.err
	case <-cmd.Context().Done():
		return nil, coded(errInterrupted)
	}
}

func readFile(what, name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer file.Close()
	return readPayload(what, file)
}

func readPayload(what string, r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxPayloadBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if len(b) > maxPayloadBytes {
		return nil, fmt.Errorf("%s: is longer than %d bytes, the most that any node takes", what, maxPayloadBytes)
	}
	return b, nil
}

// isTerminal reports whether stream is a character device: a terminal, or a device such as
// /dev/null.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// parsed is the value of a flag that is checked as soon as it is set. Its errors describe what is
// wrong with the value.
type parsed[T any] struct {
	to    *T
	kind  string // type of the value, as the help shows it
	parse func(string) (T, error)
	text  string
}

func newFlag[T any](to *T, kind string, parse func(string) (T, error)) *parsed[T] {
	return &parsed[T]{to: to, kind: kind, parse: parse}
}

func (p *parsed[T]) String() string { return p.text }

func (p *parsed[T]) Type() string { return p.kind }

// Set is called each time the flag is given.
func (p *parsed[T]) Set(text string) error {
	value, err := p.parse(text)
	if err != nil {
		return err
	}
	*p.to, p.text = value, text
	return nil
}

func nodeAddrs(v string) (addrs []string, err error) {
	for addr := range strings.SplitSeq(v, ",") {
		addr = strings.TrimSpace(addr)
		if err := hostPort(addr); err != nil {
			return nil, fmt.Errorf("%q %w", addr, err)
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// positiveDuration parses a Go duration, or days alone: 7d.
func positiveDuration(v string) (time.Duration, error) {
	const day = 24 * time.Hour
	d, err := time.ParseDuration(v)
	if number, isDays := strings.CutSuffix(v, "d"); isDays {
		var days int64
		days, err = strconv.ParseInt(number, 10, 64)
		d = time.Duration(min(days, math.MaxInt64/int64(day))) * day
	}
	if err != nil || d <= 0 {
		return 0, errors.New("not a duration such as 500ms, 60s, 24h or 7d")
	}
	return d, nil
}

// durationOrNone is positiveDuration that also accepts zero.
func durationOrNone(v string) (time.Duration, error) {
	if v == "0" || v == "0s" {
		return 0, nil
	}
	d, err := positiveDuration(v)
	if err != nil {
		return 0, errors.New("not a duration such as 0s, 500ms, 60s, 24h or 7d")
	}
	return d, nil
}

// within parses whole numbers from low to high.
func within(low, high int) func(string) (int, error) {
	return func(v string) (int, error) {
		n, err := strconv.Atoi(v)
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("not a whole number from %d to %d", low, high)
		}
		return n, nil
	}
}

// count parses whole numbers of at least low.
func count(low int64) func(string) (int64, error) {
	return func(v string) (int64, error) {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < low {
			return 0, fmt.Errorf("not a whole number from %d on", low)
		}
		return n, nil
	}
}

// sizeFrom parses a number of bytes, plain or with a unit, such as 10MiB.
func sizeFrom(low int64) func(string) (int64, error) {
	return func(v string) (int64, error) { return size(v, low, math.MaxInt64) }
}

// exclusive returns an error if more than one of the named flags is given.
func exclusive(cmd *cobra.Command, names ...string) error {
	first := ""
	for _, name := range names {
		switch {
		case !cmd.Flags().Changed(name):
		case first == "":
			first = name
		default:
			return &usageError{fmt.Errorf("--%s: contradicts --%s", name, first), helpHint(cmd)}
		}
	}
	return nil
}

// ordered returns an error if both flags are given and the first time is not before the second.
func ordered(cmd *cobra.Command, first string, from time.Time, second string, to time.Time) error {
	if !cmd.Flags().Changed(first) || !cmd.Flags().Changed(second) || from.Before(to) {
		return nil
	}
	return &usageError{fmt.Errorf("--%s=%s: is not before --%s, %s", first, shownTime(from), second, shownTime(to)), helpHint(cmd)}
}

// parseTime parses a time in the format of all commands: ms since the epoch, RFC 3339, now, or a
// duration before now as -1h or now-1h.
func parseTime(v string) (time.Time, error) {
	if v == "now" {
		return time.Now(), nil
	}
	if ms, err := strconv.ParseInt(v, 10, 64); err == nil {
		return time.UnixMilli(ms), nil
	}
	if ago, found := strings.CutPrefix(strings.TrimPrefix(v, "now"), "-"); found {
		if d, err := positiveDuration(ago); err == nil {
			return time.Now().Add(-d), nil
		}
	}
	if t, err := time.Parse(time.RFC3339, v); err == nil {
		return t, nil
	}
	return time.Time{}, errors.New("not a time: ms since the epoch, RFC 3339 such as 2025-11-21T16:00:00Z, now or -1h")
}

func wholeNumber(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, errors.New("not a whole number")
	}
	return n, nil
}
