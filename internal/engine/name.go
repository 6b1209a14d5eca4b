package engine

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxNameBytes is the maximum length of the name of a namespace, stream, queue, action, ...
const MaxNameBytes = 255

// DefaultNamespace always exists.
const DefaultNamespace = "default"

// CheckName returns ErrInvalid unless name is 1 to 255 bytes of UTF-8 without control characters.
// It also refuses line and paragraph separators and bidirectional controls, which make one name
// look like another. The message starts with the kind of name, such as "namespace".
func CheckName(what, name string) error {
	if isPlain(name) {
		return nil
	}
	switch {
	case name == "":
		return Errorf(ErrInvalid, "%s name is empty", what)
	case len(name) > MaxNameBytes:
		return Errorf(ErrInvalid, "%s name of %d bytes exceeds %d", what, len(name), MaxNameBytes)
	case !utf8.ValidString(name):
		return Errorf(ErrInvalid, "%s name %q is not valid UTF-8", what, name)
	}
	for _, r := range name {
		if unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			return Errorf(ErrInvalid, "%s name %q holds the control character %U", what, name, r)
		}
	}
	return nil
}

// isPlain reports whether a name is printable ASCII, as most are. Every write checks a name, and
// Unicode class lookups are slow.
func isPlain(name string) bool {
	if name == "" || len(name) > MaxNameBytes {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// SystemNamespace is where floe stores the data that it writes for its users to read.
const SystemNamespace = "_system"

// IsSystem reports whether a namespace belongs to floe itself and refuses writes of users.
func IsSystem(namespace string) bool { return strings.HasPrefix(namespace, "_") }
