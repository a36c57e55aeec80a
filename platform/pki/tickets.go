package pki

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"edgespan/platform/store"
)

// Session tickets spare a node that comes back the signatures of a handshake (ADR 0093). Their keys are as secret as
// the CA's: who has one can write a session of any node. They lie beside it, so that tickets outlive a restart, and
// count only for as long as that CA issues: after a rotation each node is shown its successor.
const (
	ticketsFile = "tickets.pem"
	blockTicket = "EDGESPAN TICKET KEY"
	ticketMade  = "Made" // headers of a block
	ticketCA    = "CA"
	ticketTurn  = 24 * time.Hour     // a key encrypts tickets for so long
	ticketLife  = 7 * 24 * time.Hour // of a ticket, as TLS 1.3 allows at most
)

// tickets are the keys of session tickets, replaced in turn.
type tickets struct {
	path string
	ca   string // pin of the issuing CA
	now  func() time.Time

	mu       sync.Mutex
	keys     []ticketKey // newest first
	settings *tls.Config // has the keys; nil: not made yet
}

type ticketKey struct {
	secret [32]byte
	made   time.Time
}

func newTickets(dir string, ca Pin, now func() time.Time) *tickets {
	return &tickets{path: filepath.Join(dir, ticketsFile), ca: ca.String(), now: now}
}

// wrap encrypts a session.
func (t *tickets) wrap(c tls.ConnectionState, s *tls.SessionState) ([]byte, error) {
	return t.current().EncryptTicket(c, s)
}

// unwrap decrypts a session, nil if its key is unknown. crypto/tls then checks that its certificates are valid and of a
// trusted CA, and VerifyConnection that they are not revoked.
func (t *tickets) unwrap(ticket []byte, c tls.ConnectionState) (*tls.SessionState, error) {
	return t.current().DecryptTicket(ticket, c)
}

// current returns settings with the current keys.
func (t *tickets) current() *tls.Config {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if t.settings == nil {
		t.keys = readTickets(t.path, t.ca)
	} else if t.keys[0].within(now, ticketTurn) {
		return t.settings
	}
	t.keys = slices.DeleteFunc(t.keys, func(k ticketKey) bool { return !k.within(now, ticketLife+ticketTurn) })
	if len(t.keys) == 0 || !t.keys[0].within(now, ticketTurn) {
		next := ticketKey{made: now}
		_, _ = rand.Read(next.secret[:]) // it never fails
		t.keys = slices.Insert(t.keys, 0, next)
		_ = writeTickets(t.path, t.ca, t.keys) // a disk that fails costs the next restart full handshakes
	}
	secrets := make([][32]byte, len(t.keys))
	for i, k := range t.keys {
		secrets[i] = k.secret
	}
	t.settings = &tls.Config{}
	t.settings.SetSessionTicketKeys(secrets)
	return t.settings
}

// within reports whether a key is younger than d. One of a clock that was ahead is not.
func (k ticketKey) within(now time.Time, d time.Duration) bool {
	age := now.Sub(k.made)
	return age >= 0 && age < d
}

// readTickets reads stored keys. It returns none from a file that is missing or damaged, or that others may read, and
// none of another CA.
func readTickets(path, ca string) (keys []ticketKey) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 != 0 || info.Size() > largestFile {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		k := ticketKey{}
		if block.Headers[ticketCA] != ca {
			continue
		}
		made, err := time.Parse(time.RFC3339, block.Headers[ticketMade])
		if err != nil || block.Type != blockTicket || copy(k.secret[:], block.Bytes) != len(block.Bytes) ||
			len(block.Bytes) != len(k.secret) {
			return nil
		}
		k.made = made
		keys = append(keys, k)
	}
	slices.SortStableFunc(keys, func(a, b ticketKey) int { return b.made.Compare(a.made) })
	return keys
}

func writeTickets(path, ca string, keys []ticketKey) error {
	var text []byte
	for _, k := range keys {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: blockTicket, Bytes: k.secret[:],
			Headers: map[string]string{ticketCA: ca, ticketMade: k.made.UTC().Format(time.RFC3339)}})...)
	}
	return store.WriteFile(path, text, 0o600)
}
