package pki

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Files of a node's state folder.
const (
	linkFile = "link.pem" // key, chain and trusted roots: one file, so that a power failure can't separate them
	joinFile = "join.key" // key of a join without an answer yet
)

// ErrNotJoined reports that a node has no certificate yet.
var ErrNotJoined = errors.New("node not joined: run 'edgespan join' first")

// Credentials hold a node's key, its certificate and its trusted roots. They are safe for concurrent use.
type Credentials struct {
	dir  string
	node uuid.UUID
	now  func() time.Time

	mu   sync.Mutex
	held bundle
	next crypto.Signer // key of the pending request

	sessions tls.ClientSessionCache // with the current certificate
}

// sessionsOf returns a cache for the sessions of a certificate: one for each controller.
func sessionsOf() tls.ClientSessionCache { return tls.NewLRUClientSessionCache(8) }

// OpenCredentials reads the files stored at the join. Without them the error is ErrNotJoined, and the credentials can
// be used to join. now may be nil for the system clock.
func OpenCredentials(dir string, node uuid.UUID, now func() time.Time) (*Credentials, error) {
	if now == nil {
		now = time.Now
	}
	c := &Credentials{dir: dir, node: node, now: now, sessions: sessionsOf()}
	path := filepath.Join(dir, linkFile)
	held, err := readBundle(path, 0o077)
	if errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("open credentials: %w", ErrNotJoined)
	}
	if err == nil {
		err = c.check(held, time.Time{})
	}
	if err != nil {
		return nil, fmt.Errorf("open credentials: %s: %w", path, err)
	}
	c.held = held
	return c, nil
}

// Bound returns the node that the certificate in a state folder names, uuid.Nil without a readable one.
func Bound(dir string) uuid.UUID {
	b, err := readBundle(filepath.Join(dir, linkFile), 0o077)
	if err != nil || len(b.chain) == 0 {
		return uuid.Nil
	}
	peer, err := peerOf(b.chain[0])
	if err != nil {
		return uuid.Nil
	}
	return peer.Node
}

// check checks that a bundle fits the node. A zero time skips the lifetimes: at the start, a clock that is behind must
// not hide the certificates.
func (c *Credentials) check(b bundle, now time.Time) error {
	if b.key == nil || len(b.chain) == 0 || len(b.roots) == 0 {
		return errors.New("must have a key, a certificate and a trusted root")
	}
	leaf := b.chain[0]
	if !sameKey(leaf.PublicKey, b.key.Public()) {
		return errors.New("certificate and key do not match")
	}
	peer, err := peerOf(leaf)
	if err != nil {
		return err
	}
	if peer.Node != c.node {
		return fmt.Errorf("the certificate is for node %s, this is %s", peer.Node, c.node)
	}
	if now.IsZero() {
		return nil
	}
	_, err = leaf.Verify(x509.VerifyOptions{
		Roots: poolOf(b.roots), Intermediates: poolOf(b.chain[1:]), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}

// Node returns the node that these credentials belong to.
func (c *Credentials) Node() uuid.UUID { return c.node }

// JoinRequest returns a DER request for the first certificate. Its key stays on disk until Install, so that a join
// whose answer was lost can be repeated with the same token.
func (c *Credentials) JoinRequest() ([]byte, error) {
	path := filepath.Join(c.dir, joinFile)
	b, err := readBundle(path, 0o077)
	if errors.Is(err, fs.ErrNotExist) {
		if b.key, err = newKey(); err == nil {
			err = writeBundle(path, b)
		}
	}
	if err == nil && b.key == nil {
		err = fmt.Errorf("%s holds no key: remove it", path)
	}
	if err != nil {
		return nil, fmt.Errorf("make join request: %w", err)
	}
	return c.request(b.key)
}

// RenewalRequest returns a DER request with a new key. A lost answer costs nothing: the next request has another key.
func (c *Credentials) RenewalRequest() ([]byte, error) {
	key, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("make renewal request: %w", err)
	}
	return c.request(key)
}

func (c *Credentials) request(key crypto.Signer) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{URIs: []*url.URL{nodeURI(c.node)}},
		key)
	if err != nil {
		return nil, fmt.Errorf("make certificate request: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = key
	return der, nil
}

// Install checks the answer to the last request and replaces the stored files with it. New connections use it at once.
func (c *Credentials) Install(chain, roots [][]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := bundle{key: c.next}
	var err error
	if b.chain, err = parseAll(chain); err == nil {
		b.roots, err = parseAll(roots)
	}
	if err == nil {
		err = c.check(b, c.now())
	}
	if err == nil {
		err = writeBundle(filepath.Join(c.dir, linkFile), b)
	}
	if err != nil {
		return fmt.Errorf("install certificate: %w", err)
	}
	c.held, c.next, c.sessions = b, nil, sessionsOf() // a session has the certificate that began it
	if err := os.Remove(filepath.Join(c.dir, joinFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("install certificate: %w", err)
	}
	return nil
}

// TLS returns the node's TLS config for the link to a controller with that host name or address.
func (c *Credentials) TLS(host string) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held.chain) == 0 {
		return nil, fmt.Errorf("connect: %w", ErrNotJoined)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: host,
		RootCAs:    poolOf(c.held.roots),
		Time:       c.now,

		ClientSessionCache: c.sessions,
		Certificates: []tls.Certificate{{
			Certificate: rawOf(withoutRoots(c.held.chain)), PrivateKey: c.held.key, Leaf: c.held.chain[0],
		}},
	}, nil
}

// withoutRoots returns a chain without self-signed certificates: who trusts one has it (RFC 8446, 4.4.2), and the
// controller would keep a copy of it for each connection.
func withoutRoots(chain []*x509.Certificate) []*x509.Certificate {
	return append(chain[:1:1], slices.DeleteFunc(slices.Clone(chain[1:]), func(c *x509.Certificate) bool {
		return bytes.Equal(c.RawSubject, c.RawIssuer) && c.CheckSignatureFrom(c) == nil
	})...)
}

// RenewAt returns when to renew the certificate: after two thirds of its life plus up to a tenth; spread is a random
// number from 0 to 1. It is zero if the node has not joined.
func (c *Credentials) RenewAt(spread float64) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held.chain) == 0 {
		return time.Time{}
	}
	return renewAt(c.held.chain[0], spread)
}

// Peer returns the node named by its certificate; ErrNotJoined without one.
func (c *Credentials) Peer() (Peer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held.chain) == 0 {
		return Peer{}, ErrNotJoined
	}
	return peerOf(c.held.chain[0])
}

// IsUnknownCA reports whether a handshake failed because the other end's certificate has an unknown CA. It inspects the
// text: gRPC keeps only the text of a failed handshake, not the error.
func IsUnknownCA(err error) bool {
	return err != nil && strings.Contains(err.Error(), x509.UnknownAuthorityError{}.Error())
}

// Identity is a node's certificate with its key and the roots that it trusts, as PEM texts for other programs. Path is
// the file that they are from, which changes when they are renewed.
type Identity struct{ Certificate, Key, CA, Path string }

// IdentityOf reads the identity in a node's state folder. Without one the error wraps ErrNotJoined.
func IdentityOf(dir string) (Identity, error) {
	b, err := readBundle(filepath.Join(dir, linkFile), 0o077)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNotJoined
	}
	if err != nil {
		return Identity{}, fmt.Errorf("read the node's identity: %w", err)
	}
	var texts [3]string
	for i, part := range []bundle{{chain: b.chain}, {key: b.key}, {chain: b.roots}} {
		text, err := part.format()
		if err != nil {
			return Identity{}, fmt.Errorf("read the node's identity: %w", err)
		}
		texts[i] = string(text)
	}
	return Identity{texts[0], texts[1], texts[2], filepath.Join(dir, linkFile)}, nil
}
