package auth

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	"github.com/floedb/floe/internal/codec"
)

// SessionTime is the duration of a session.
const SessionTime = 12 * time.Hour

const tokenPrefix = "floe_st_"

// A token is floe_st_ | base64url of payload and signature. The payload:
//
//	version u8 (2) | id of the key, 8 bytes | random, 8 bytes | end of the session, uvarint ms since the epoch
//
// Sessions of a key that end at the same time have different tokens, so that one can be ended
// without the others. The signature is Ed25519 (RFC 8032), by the signer of the key, over context
// and payload.
const (
	tokenVersion = 2
	nonceBytes   = 8
	tokenContext = "floe session token\x00"
)

// sign returns a session token of the key with the given secret.
func sign(id string, secret []byte, ends time.Time) Secret {
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce) // never fails
	return signAs(id, secret, nonce, ends)
}

func signAs(id string, secret, nonce []byte, ends time.Time) Secret {
	raw, _ := hex.DecodeString(id)
	payload := append([]byte{tokenVersion}, raw...)
	payload = append(payload, nonce...)
	payload = codec.AppendUvarint(payload, uint64(ends.UnixMilli()))
	signature := ed25519.Sign(signer(secret), append([]byte(tokenContext), payload...))
	return Secret(tokenPrefix + base64.RawURLEncoding.EncodeToString(append(payload, signature...)))
}

// token is a parsed token that has not been verified.
type token struct {
	id                 string
	nonce              []byte
	ends               time.Time
	payload, signature []byte
}

func parseToken(s Secret) (t token, ok bool) {
	text, found := strings.CutPrefix(string(s), tokenPrefix)
	const longest = 256
	if !found || len(text) > longest {
		return t, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 1+idBytes+nonceBytes+1+ed25519.SignatureSize || b[0] != tokenVersion {
		return t, false
	}
	t.payload, t.signature = b[:len(b)-ed25519.SignatureSize], b[len(b)-ed25519.SignatureSize:]
	t.id, t.nonce = hex.EncodeToString(b[1:1+idBytes]), b[1+idBytes:1+idBytes+nonceBytes]
	r := codec.NewReader(t.payload[1+idBytes+nonceBytes:])
	ends := r.Uvarint()
	const latest = 1 << 50
	if r.Done() != nil || ends > latest {
		return t, false
	}
	t.ends = time.UnixMilli(int64(ends))
	return t, true
}

// signedBy reports whether the signature is the key's.
func (t *token) signedBy(p *proof) bool {
	return ed25519.Verify(p.public[:], append([]byte(tokenContext), t.payload...), t.signature)
}
