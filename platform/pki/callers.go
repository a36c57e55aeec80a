package pki

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of client certificates, and of the cache of verified ones.
const (
	longestChain  = 8
	largestChain  = 16 << 10 // bytes
	longestName   = 255      // octets of a certname
	maxCallers    = 16384
	certnameExtra = "-._" // in addition to letters and digits
)

// Shown is the identity in a client certificate. Neither field is set without a certificate.
type Shown struct {
	Node     string // UUID of a fleet node
	Certname string // CN in a certificate of the other CA
}

// Callers identifies clients of the REST server by their certificates. The handshake requests one and accepts any: a
// person whose browser presents another certificate can still authenticate with a token, and a refused client learns
// the reason. It is safe for concurrent use.
type Callers struct {
	authority *Authority
	files     OtherCA
	fault     func(error)

	mu     sync.Mutex
	known  map[[sha256.Size]byte]verified
	other  *otherCA
	looked time.Time
	stamp  string
}

// verified is a certificate whose chain was verified, cached until it expires.
type verified struct {
	shown Shown
	peer  Peer // of a fleet node
	chain []*x509.Certificate
	by    *otherCA // the state that verified a certname
	until time.Time
}

// Callers reads the other CA's files; without any, it accepts only fleet nodes. It calls fault once for each state of
// the files that it can't read later; the contents read before stay in effect.
func (a *Authority) Callers(files OtherCA, fault func(error)) (*Callers, error) {
	c := &Callers{authority: a, files: files, fault: fault, known: map[[sha256.Size]byte]verified{}, other: &otherCA{}}
	if files.Cert == "" {
		return c, nil
	}
	var err error
	c.looked, c.stamp = a.opts.Now(), files.stamp()
	c.other, err = files.read()
	return c, err
}

// Reload reads the files of the other CA. On an error the contents read before stay in effect.
func (c *Callers) Reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files.Cert == "" {
		return nil
	}
	c.looked, c.stamp = c.authority.opts.Now(), c.files.stamp()
	next, err := c.files.read()
	if err != nil {
		return err
	}
	c.other = next
	return nil
}

// Stale reports that a list of revoked certificates has expired. Its entries stay revoked, but later revocations of its
// CA are unknown.
func (c *Callers) Stale() error {
	other := c.otherNow()
	if other.until.IsZero() || !c.authority.opts.Now().After(other.until) {
		return nil
	}
	return fmt.Errorf("read revoked certificates: %s: list expired on %s", c.files.CRL, other.until.Format(time.RFC3339))
}

// TLS returns OperatorTLS that also requests a client certificate of either CA.
func (c *Callers) TLS() *tls.Config {
	settings := c.authority.OperatorTLS()
	settings.ClientAuth = tls.RequestClientCert
	settings.VerifyPeerCertificate = func(chain [][]byte, _ [][]*x509.Certificate) error { return checkChainSize(chain) }
	settings.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := settings.Clone()
		now.GetConfigForClient = nil
		now.ClientCAs = poolOf(slices.Concat(c.otherNow().roots, c.authority.roots)) // clients choose by these names
		return now, nil
	}
	return settings
}

// checkChainSize refuses oversized chains: a chain stays in memory as long as its connection.
func checkChainSize(chain [][]byte) error {
	size := 0
	for _, der := range chain {
		size += len(der)
	}
	if len(chain) > longestChain || size > largestChain {
		return fmt.Errorf("client certificates: %d of %d bytes: must be at most %d of %d", len(chain), size, longestChain,
			largestChain)
	}
	return nil
}

// otherNow returns the other CA's current state and checks the files periodically.
func (c *Callers) otherNow() *otherCA {
	c.mu.Lock()
	now := c.authority.opts.Now()
	due := c.files.Cert != "" && now.Sub(c.looked) >= reread
	if due {
		c.looked = now
		due = c.files.stamp() != c.stamp
	}
	c.mu.Unlock()
	if due {
		if err := c.Reload(); err != nil && c.fault != nil {
			c.fault(err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.other
}

// Identify identifies the other end of a connection. An invalid or expired certificate is an error whose text may be
// sent to the client.
func (c *Callers) Identify(state *tls.ConnectionState) (Shown, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return Shown{}, nil
	}
	if len(state.PeerCertificates) > longestChain {
		return Shown{}, fmt.Errorf("has a chain of %d certificates: must be at most %d", len(state.PeerCertificates),
			longestChain)
	}
	other, now := c.otherNow(), c.authority.opts.Now()
	key := sha256.Sum256(state.PeerCertificates[0].Raw)
	c.mu.Lock()
	v, known := c.known[key]
	c.mu.Unlock()
	if !known || !now.Before(v.until) || v.by != nil && v.by != other {
		var err error
		if v, err = c.verify(state.PeerCertificates, other, now); err != nil {
			return Shown{}, err
		}
		c.mu.Lock()
		if len(c.known) >= maxCallers {
			clear(c.known)
		}
		c.known[key] = v
		c.mu.Unlock()
	}
	err := error(nil)
	if v.by != nil {
		err = v.by.check(v.chain)
	} else {
		err = c.authority.Admit(v.peer)
	}
	if err != nil {
		return Shown{}, err
	}
	return v.shown, nil
}

// verify finds the CA of a certificate and the identity in it. A certificate that names no fleet node may still be the
// other CA's, which can be the same CA.
func (c *Callers) verify(certs []*x509.Certificate, other *otherCA, now time.Time) (verified, error) {
	leaf := certs[0]
	chain, err := chainOf(certs, c.authority.roots, now)
	if err == nil {
		var peer Peer
		if peer, err = peerOf(leaf); err == nil {
			return verified{shown: Shown{Node: peer.Node.String()}, peer: peer, chain: chain, until: endOf(chain)}, nil
		}
	}
	chain, otherErr := chainOf(certs, other.roots, now)
	switch {
	case otherErr != nil && (len(other.roots) == 0 || len(leaf.URIs) > 0):
		return verified{}, err // it names a fleet node
	case otherErr != nil:
		return verified{}, otherErr
	}
	name, err := certname(leaf)
	return verified{shown: Shown{Certname: name}, chain: chain, by: other, until: endOf(chain)}, err
}

// chainOf verifies a client's certificate against the given roots.
func chainOf(certs, roots []*x509.Certificate, now time.Time) ([]*x509.Certificate, error) {
	chains, err := certs[0].Verify(x509.VerifyOptions{
		Roots: poolOf(roots), Intermediates: poolOf(certs[1:]), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err == nil {
		return chains[0], nil
	}
	if ended := new(x509.CertificateInvalidError); errors.As(err, ended) && ended.Reason == x509.Expired {
		return nil, fmt.Errorf("certificate %s: valid only from %s to %s", serialText(certs[0]),
			certs[0].NotBefore.Format(time.RFC3339), certs[0].NotAfter.Format(time.RFC3339))
	}
	return nil, fmt.Errorf("certificate %s: signed by an unknown CA, or not for clients", serialText(certs[0]))
}

func endOf(chain []*x509.Certificate) time.Time {
	end := chain[0].NotAfter
	for _, cert := range chain {
		if cert.NotAfter.Before(end) {
			end = cert.NotAfter
		}
	}
	return end
}

// certname returns a certificate's CN if it has only the characters that Puppet allows.
func certname(cert *x509.Certificate) (string, error) {
	name := cert.Subject.CommonName
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune(certnameExtra, r)
	}
	if name == "" || len(name) > longestName || strings.ContainsFunc(name, bad) {
		return "", fmt.Errorf("certificate %s: invalid CN %.80q: must be 1 to %d of a-z, 0-9 and %s", serialText(cert),
			name, longestName, certnameExtra)
	}
	return name, nil
}
