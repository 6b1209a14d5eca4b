package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
)

func keyCommand(p Process) *cobra.Command {
	f := &frame{Process: p}
	cmd := f.group("key", "Create, list, rotate and revoke API keys", keyRows)
	cmd.Long = `Create, list, rotate and revoke API keys.

The first one comes from floe server bootstrap, and is an admin's. These commands take the
role admin. A key is shown once, when it is created: the node keeps a hash of it.`
	f.equip(cmd)
	return cmd
}

var keyRows = []row{
	{use: "create", short: "Create an API key and show it once", flags: keyCreate,
		example: `  floe key create --role write --namespaces shop,billing --name checkout
  floe key create --role read --out reader.key
  floe key create --role write --expires 30d --name migration`},
	{use: "list", short: "List API keys without their secrets", run: apiKeyList},
	{use: "rotate ID", short: "Replace an API key with a new one", flags: keyRotate,
		long: `Replace an API key with a new one of the same role, namespaces and name, print it once, and
revoke the old one. With --keep the old key stays valid until floe key revoke, so that its
holders can switch. If the old key expires, the new one gets the same lifetime from now on.`,
		example: `  floe key rotate 0123456789abcdef --out checkout.key --keep`},
	{use: "revoke ID", short: "Revoke an API key and its sessions", asks: "it revokes the key and its sessions", run: keyRevoke},
}

// keySummary is a key in the output. Key is set only when the key has just been created.
type keySummary struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Role       string   `json:"role"`
	Namespaces []string `json:"namespaces"` // null: all
	CreatedAt  int64    `json:"created_at"`
	ExpiresAt  int64    `json:"expires_at,omitempty"`   // absent: never
	LastUsedAt int64    `json:"last_used_at,omitempty"` // absent: not yet, as far as is known
	Key        string   `json:"key,omitempty"`
}

func summarizeKey(k floe.Key, secret string) keySummary {
	sum := keySummary{ID: k.ID, Name: k.Name, Role: string(k.Role), Namespaces: k.Namespaces, CreatedAt: k.CreatedAt.UnixMilli(),
		Key: secret}
	if !k.ExpiresAt.IsZero() {
		sum.ExpiresAt = k.ExpiresAt.UnixMilli()
	}
	if !k.LastUsedAt.IsZero() {
		sum.LastUsedAt = k.LastUsedAt.UnixMilli()
	}
	return sum
}

func (k keySummary) shownNamespaces() string {
	if k.Namespaces == nil {
		return "all"
	}
	return strings.Join(k.Namespaces, ",")
}

// roles are the roles that a key can have.
var roles = []string{string(floe.RoleAdmin), string(floe.RoleWrite), string(floe.RoleRead)}

func keyCreate(_ *frame, cmd *cobra.Command) prepare {
	flags := cmd.Flags()
	role := flags.String("role", "", "`role` of the key: admin, write or read")
	namespaces := flags.StringSlice("namespaces", nil, "`names` of the namespaces of the key, separated by commas (default all)")
	name := flags.String("name", "", "display name")
	expires := addExpires(cmd, "never")
	file := addSecretOut(cmd)
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(roles, cobra.ShellCompDirectiveNoFileComp))
	return func(_ []string) (callFunc, error) {
		if *role == "" {
			return nil, &usageError{errors.New("--role is missing"), "it takes admin, write or read"}
		}
		if !slices.Contains(roles, *role) {
			return nil, &usageError{fmt.Errorf("--role=%s: not one of %s", *role, strings.Join(roles, ", ")), helpHint(cmd)}
		}
		opts := []floe.KeyOption{floe.KeyName(*name)}
		if cmd.Flags().Changed("namespaces") {
			if len(*namespaces) == 0 {
				return nil, &usageError{errors.New("--namespaces is empty"), "leave it out for a key that is good for all"}
			}
			opts = append(opts, floe.ForNamespaces(*namespaces...))
		}
		more, err := expires(floe.Key{})
		if err != nil {
			return nil, err
		}
		opts = append(opts, more...)
		return func(ctx context.Context, s *session) error {
			_, err := s.createKey(ctx, *file, floe.Role(*role), opts)
			return err
		}, nil
	}
}

// addExpires adds --expires to a command and returns a function that makes options of it. A key
// that replaces an old one gets the lifetime of the old one, unless the flag is given.
func addExpires(cmd *cobra.Command, otherwise string) func(old floe.Key) ([]floe.KeyOption, error) {
	flag := cmd.Flags().String("expires", "", "expiry: an RFC 3339 `time`, or a duration such as 30d (default "+
		otherwise+")")
	return func(old floe.Key) ([]floe.KeyOption, error) {
		if !cmd.Flags().Changed("expires") {
			if old.ExpiresAt.IsZero() {
				return nil, nil
			}
			return []floe.KeyOption{floe.KeyExpires(time.Now().Add(old.ExpiresAt.Sub(old.CreatedAt)))}, nil
		}
		if d, err := positiveDuration(*flag); err == nil {
			return []floe.KeyOption{floe.KeyExpires(time.Now().Add(d))}, nil
		}
		at, err := time.Parse(time.RFC3339, *flag)
		if err != nil {
			return nil, &usageError{fmt.Errorf("--expires=%s: neither a time such as 2027-01-31T00:00:00Z nor a duration such as 30d",
				*flag), helpHint(cmd)}
		}
		return []floe.KeyOption{floe.KeyExpires(at)}, nil
	}
}

// createKey creates a key, and prints it or writes it to a file.
func (s *session) createKey(ctx context.Context, file string, role floe.Role, opts []floe.KeyOption) (floe.Key, error) {
	var into *os.File
	if file != "" {
		var err error
		if into, err = createSecret(file); err != nil {
			return floe.Key{}, fmt.Errorf("--out: %w", err)
		}
	}
	k, secret, err := s.Keys().Create(ctx, role, opts...)
	if err != nil {
		if into != nil {
			into.Close()
			os.Remove(file)
		}
		return k, err
	}
	if into != nil {
		err, secret = writeSecret(into, secret), ""
	}
	if err == nil {
		err = s.printKey(k, secret)
	}
	if err != nil {
		return k, &hintedError{fmt.Errorf("key %s was created, but could not be shown: %w", k.ID, err),
			"revoke it with floe key revoke " + k.ID}
	}
	return k, nil
}

func keyRotate(_ *frame, cmd *cobra.Command) prepare {
	keep := cmd.Flags().Bool("keep", false, "keep the old key valid")
	expires := addExpires(cmd, "the lifetime of the old key")
	file := addSecretOut(cmd)
	return unchecked(func(ctx context.Context, s *session, args []string) error {
		keys, err := collected(s.Keys().All(ctx))
		if err != nil {
			return err
		}
		at := slices.IndexFunc(keys, func(k floe.Key) bool { return k.ID == args[0] })
		if at < 0 {
			return &textError{floe.ErrNotFound, fmt.Sprintf("key %.64q not found", args[0])}
		}
		old := keys[at]
		opts := []floe.KeyOption{floe.KeyName(old.Name)}
		if old.Namespaces != nil {
			opts = append(opts, floe.ForNamespaces(old.Namespaces...))
		}
		more, err := expires(old)
		if err != nil {
			return err
		}
		opts = append(opts, more...)
		if _, err := s.createKey(ctx, *file, old.Role, opts); err != nil || *keep {
			return err
		}
		if err := s.Keys().Revoke(ctx, old.ID); err != nil {
			return &hintedError{fmt.Errorf("the new key is valid, but the old one was not revoked: %w", err),
				"revoke it with floe key revoke " + old.ID}
		}
		return nil
	})
}

// printKey shows a new key.
func (o *output) printKey(k floe.Key, secret string) error {
	if o.format == formatRaw && secret == "" { // the key is in a file
		_, err := fmt.Fprintln(o.w, k.ID)
		return err
	}
	if o.format == formatRaw {
		_, err := fmt.Fprintln(o.w, secret)
		return err
	}
	sum := summarizeKey(k, secret)
	t := table{head: []string{"ID", "ROLE", "NAMESPACES"}, rows: [][]string{{sum.ID, sum.Role, sum.shownNamespaces()}}}
	if !k.ExpiresAt.IsZero() {
		t.head, t.rows[0] = append(t.head, "EXPIRES"), append(t.rows[0], shownTime(k.ExpiresAt))
	}
	if secret != "" {
		t.head, t.rows[0] = append(t.head, "KEY"), append(t.rows[0], secret)
	}
	return o.print(sum, t)
}

func apiKeyList(ctx context.Context, s *session, _ []string) error {
	keys, err := collected(s.Keys().All(ctx))
	if err != nil {
		return err
	}
	list, t := []keySummary{}, table{head: []string{"ID", "NAME", "ROLE", "NAMESPACES", "CREATED", "EXPIRES", "LAST USED"}}
	for _, k := range keys {
		sum := summarizeKey(k, "")
		list = append(list, sum)
		t.rows = append(t.rows, []string{sum.ID, sum.Name, sum.Role, sum.shownNamespaces(), shownTime(k.CreatedAt),
			shownOptionalTime(k.ExpiresAt), shownOptionalTime(k.LastUsedAt)})
	}
	return s.print(list, t)
}

// keyRevoked is the answer to a revocation.
type keyRevoked struct {
	OK bool   `json:"ok"`
	ID string `json:"id"`
}

func keyRevoke(ctx context.Context, s *session, args []string) error {
	if err := s.Keys().Revoke(ctx, args[0]); err != nil {
		return err
	}
	return s.print(keyRevoked{OK: true, ID: args[0]}, table{head: []string{"REVOKED"}, rows: [][]string{{args[0]}}})
}
