package auth

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Role is the access level of a key. Each role includes the previous ones.
type Role uint8

// The roles.
const (
	Read  Role = iota + 1 // read everything
	Write                 // change data
	Admin                 // change keys, read system namespaces
)

var roleNames = []string{Read: "read", Write: "write", Admin: "admin"}

func (r Role) String() string {
	if r < Read || r > Admin {
		return fmt.Sprintf("role %d", uint8(r))
	}
	return roleNames[r]
}

// ParseRole returns the role with the given name. Errors: ErrInvalid.
func ParseRole(name string) (Role, error) {
	if i := slices.Index(roleNames, name); i > 0 {
		return Role(i), nil
	}
	return 0, engine.Errorf(engine.ErrInvalid, "role %.64q is not one of read, write, admin", name)
}

// Limits of keys.
const (
	MaxKeys       = 1000 // per node
	MaxNamespaces = 64   // per key
	MaxMade       = 1000 // namespaces created by a key
	MaxEnded      = 100  // sessions of a key ended before they expired
	idBytes       = 8
	secretBytes   = 32
	keyPrefix     = "floe_sk_"
)

// Key is a key without its secret.
type Key struct {
	ID         string // 16 hexadecimal digits
	Name       string // given by the owner, may be empty
	Role       Role
	Namespaces []string // that the key is limited to, sorted; nil: all
	Created    time.Time
	Expires    time.Time // zero: never
	Used       time.Time // last use, within a few minutes; zero: never. Set only by List
}

// expired returns ErrUnauthorized if the key has expired.
func (k *Key) expired(now time.Time) error {
	if k.Expires.IsZero() || now.Before(k.Expires) {
		return nil
	}
	return engine.Errorf(engine.ErrUnauthorized, "key %s expired at %s", k.ID, k.Expires.UTC().Format(time.RFC3339))
}

// checkID returns ErrInvalid if id is not a key ID.
func checkID(id string) error {
	if len(id) != 2*idBytes {
		return engine.Errorf(engine.ErrInvalid, "key: malformed id %.64q", id)
	}
	return nil
}

// check returns ErrInvalid if a field of the key is invalid.
func (k *Key) check() error {
	switch {
	case k.Role < Read || k.Role > Admin:
		return engine.Errorf(engine.ErrInvalid, "key: role %d is not one of read, write, admin", k.Role)
	case k.Role == Admin && len(k.Namespaces) > 0:
		return engine.Errorf(engine.ErrInvalid, "key: an admin key cannot be limited to namespaces")
	case len(k.Namespaces) > MaxNamespaces:
		return engine.Errorf(engine.ErrInvalid, "key: %d namespaces, the limit is %d", len(k.Namespaces), MaxNamespaces)
	}
	if k.Name != "" {
		if err := engine.CheckName("key", k.Name); err != nil {
			return err
		}
	}
	for i, ns := range k.Namespaces {
		if err := engine.CheckWritable(ns); err != nil {
			return err
		}
		if i > 0 && ns <= k.Namespaces[i-1] {
			return engine.Errorf(engine.ErrInvalid, "key: namespaces are not in order, or %.255q is listed twice", ns)
		}
	}
	return nil
}

// Secret is a complete key, such as floe_sk_<id>_<secret>, or another value that must not be
// disclosed. It prints as ***.
type Secret string

// String returns ***.
func (Secret) String() string { return "***" }

// GoString returns ***.
func (Secret) GoString() string { return "***" }

// LogValue returns ***.
func (Secret) LogValue() slog.Value { return slog.StringValue("***") }

// MarshalText returns ***.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

// proof is the stored part of a secret.
type proof struct {
	hash   [sha256.Size]byte
	public [ed25519.PublicKeySize]byte
}

// newSecret returns the ID and the secret of a new key.
func newSecret() (id string, secret []byte) {
	b := make([]byte, idBytes+secretBytes)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b[:idBytes]), b[idBytes:]
}

func spell(id string, secret []byte) Secret {
	return Secret(keyPrefix + id + "_" + hex.EncodeToString(secret))
}

// parse splits a key into ID and secret; ok is false if s is not a key.
func (s Secret) parse() (id string, secret []byte, ok bool) {
	rest, ok := strings.CutPrefix(string(s), keyPrefix)
	id, text, cut := strings.Cut(rest, "_")
	secret, err := hex.DecodeString(text)
	return id, secret, ok && cut && err == nil && len(secret) == secretBytes && len(id) == 2*idBytes
}

func prove(secret []byte) (p proof) {
	p.hash = sha256.Sum256(secret)
	copy(p.public[:], signer(secret).Public().(ed25519.PublicKey))
	return p
}

// signer returns the key that signs the sessions of a key.
func signer(secret []byte) ed25519.PrivateKey {
	seed := sha256.Sum256(append([]byte("floe session signer\x00"), secret...))
	return ed25519.NewKeyFromSeed(seed[:])
}

// fits reports whether the secret matches p, in constant time.
func (p *proof) fits(secret []byte) bool {
	hash := sha256.Sum256(secret)
	return subtle.ConstantTimeCompare(hash[:], p.hash[:]) == 1
}
