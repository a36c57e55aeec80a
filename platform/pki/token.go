package pki

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Prefixes of tokens, so that secret scanners find them.
const (
	joinPrefix     = "esj_"
	operatorPrefix = "eso_"
	tokenOctets    = 32 // 256 random bits
)

// Reasons to refuse a token. A caller who holds its 256 bits may learn them.
var (
	ErrTokenForm    = errors.New("not a token")
	ErrTokenUnknown = errors.New("unknown token")
	ErrTokenExpired = errors.New("token expired")
	ErrTokenUsed    = errors.New("token already used")
	ErrTokenName    = errors.New("token for another name")
)

// JoinToken is the controller's record of a join token, without its text.
type JoinToken struct {
	Hash    string    `json:"hash"` // SHA-256 of the text, hexadecimal; the lookup key
	Name    string    `json:"name"` // the one node name it is valid for
	Expires time.Time `json:"expires"`
	Used    *TokenUse `json:"used,omitempty"`
}

// TokenUse records the request that spent a token.
type TokenUse struct {
	Node uuid.UUID `json:"node"`
	Key  string    `json:"key"` // fingerprint of the certified key
	At   time.Time `json:"at"`
}

// NewJoinToken creates a token for one node name. Its text is shown once.
func NewJoinToken(name string, expires time.Time) (text string, kept JoinToken, err error) {
	if name == "" {
		return "", JoinToken{}, errors.New("make join token: name: required")
	}
	text, hash, err := newToken(joinPrefix)
	return text, JoinToken{Hash: hash, Name: name, Expires: expires}, err
}

func newToken(prefix string) (text, hash string, err error) {
	var secret [tokenOctets]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return "", "", fmt.Errorf("make token: %w", err)
	}
	text = prefix + base64.RawURLEncoding.EncodeToString(secret[:])
	return text, hashOf(text), nil
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// JoinTokenHash returns the key of a token's record.
func JoinTokenHash(text string) (string, error) { return tokenHash(joinPrefix, text) }

// OperatorTokenHash returns the key of an operator token's record.
func OperatorTokenHash(text string) (string, error) { return tokenHash(operatorPrefix, text) }

// tokenHash never includes the text in its error: it may be most of a secret.
func tokenHash(prefix, text string) (string, error) {
	word, found := strings.CutPrefix(text, prefix)
	secret, err := base64.RawURLEncoding.Strict().DecodeString(word)
	if !found || err != nil || len(secret) != tokenOctets {
		return "", fmt.Errorf("read token: %w: must be %s and 43 letters, digits, - and _", ErrTokenForm, prefix)
	}
	return hashOf(text), nil
}

// Redeem spends a token on a node's request and returns the updated record; the caller stores it by compare-and-set
// before it issues anything. A token is spent once. Only the same node with the same key, whose answer was lost, can
// use it again until it expires; a copy of the answer is of no use to others.
func (t JoinToken) Redeem(now time.Time, text, name string, r Request) (JoinToken, error) {
	if !matches(t.Hash, text) {
		return JoinToken{}, fmt.Errorf("redeem token: %w", ErrTokenUnknown)
	}
	if t.Name != name {
		return JoinToken{}, fmt.Errorf("redeem token: %w: for %.80q, not for %.80q", ErrTokenName, t.Name, name)
	}
	if !now.Before(t.Expires) {
		return JoinToken{}, fmt.Errorf("redeem token of %.80q: %w on %s", t.Name, ErrTokenExpired,
			t.Expires.Format(time.RFC3339))
	}
	if t.Used != nil && (t.Used.Node != r.Node || t.Used.Key != r.Key) {
		return JoinToken{}, fmt.Errorf("redeem token of %.80q: %w on %s", t.Name, ErrTokenUsed,
			t.Used.At.Format(time.RFC3339))
	}
	if t.Used == nil {
		t.Used = &TokenUse{Node: r.Node, Key: r.Key, At: now}
	}
	return t, nil
}

// matches compares in constant time.
func matches(hash, text string) bool {
	return subtle.ConstantTimeCompare([]byte(hash), []byte(hashOf(text))) == 1
}

// Role is an operator's role; each role includes the permissions of the ones before it.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"   // read
	Operator Role = "operator" // write layers, push, roll back, confirm, release
	Admin    Role = "admin"    // tokens, certificates, secrets, nodes added and removed
)

// ParseRole parses a role.
func ParseRole(text string) (Role, error) {
	switch r := Role(text); r {
	case Viewer, Operator, Admin:
		return r, nil
	}
	return "", fmt.Errorf("invalid role %.40q: must be %s, %s or %s", text, Viewer, Operator, Admin)
}

// OperatorToken is the controller's record of an operator's token.
type OperatorToken struct {
	Hash    string    `json:"hash"`
	Name    string    `json:"name"` // the operator, for the audit log
	Role    Role      `json:"role"`
	Expires time.Time `json:"expires"` // zero: never
}

// NewOperatorToken creates a token for a person or a program.
func NewOperatorToken(name string, role Role, expires time.Time) (text string, kept OperatorToken, err error) {
	if _, err := ParseRole(string(role)); err != nil {
		return "", OperatorToken{}, err
	}
	text, hash, err := newToken(operatorPrefix)
	return text, OperatorToken{Hash: hash, Name: name, Role: role, Expires: expires}, err
}
