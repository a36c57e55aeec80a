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

// Bounds of what a caller may show, and of what is remembered of those that did.
const (
	longestChain  = 8
	largestChain  = 16 << 10 // bytes
	longestName   = 255      // octets of a certname
	maxCallers    = 16384
	certnameExtra = "-._" // beside letters and digits
)

// Shown is who a client certificate names. Neither is set if none was shown.
type Shown struct {
	Node     string // UUID of a node of the fleet
	Certname string // CN in a certificate of the other CA
}

// Callers tells who shows a client certificate to the REST server. The handshake asks for one
// and takes any: a person whose browser shows another one may still say who it is by a
// token, and one who is refused is told why. Callers may be used from several goroutines.
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

// verified is a certificate whose chain was found good, until it ends.
type verified struct {
	shown Shown
	peer  Peer // of a node of the fleet
	chain []*x509.Certificate
	by    *otherCA // whose state counted, for a certname
	until time.Time
}

// Callers reads the other CA's files; without any, only nodes of the fleet are known. Fault
// hears, once for each state of the files, why they can't be read later on; what was read
// before counts on then.
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

// Reload reads the files of the other CA. With an error what was read before stays in force.
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

// Stale says that a list of revoked certificates has ended. What it names stays revoked, and what its CA
// has revoked since is not known here.
func (c *Callers) Stale() error {
	other := c.otherNow()
	if other.until.IsZero() || !c.authority.opts.Now().After(other.until) {
		return nil
	}
	return fmt.Errorf("read revoked certificates: %s: list expired on %s", c.files.CRL, other.until.Format(time.RFC3339))
}

// TLS is OperatorTLS that asks for a client certificate of either CA.
func (c *Callers) TLS() *tls.Config {
	settings := c.authority.OperatorTLS()
	settings.ClientAuth = tls.RequestClientCert
	settings.VerifyPeerCertificate = func(chain [][]byte, _ [][]*x509.Certificate) error { return smallChain(chain) }
	settings.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := settings.Clone()
		now.GetConfigForClient = nil
		now.ClientCAs = poolOf(slices.Concat(c.otherNow().roots, c.authority.roots)) // a client chooses by their names
		return now, nil
	}
	return settings
}

// smallChain refuses what nobody needs to show: it stays in memory for as long as its connection.
func smallChain(chain [][]byte) error {
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

// otherNow is what holds of the other CA; it looks at the files from time to time.
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

// Of is who is at the other end of a connection. A certificate that counts for nothing, or no
// longer, is an error that may be told to whoever showed it.
func (c *Callers) Of(state *tls.ConnectionState) (Shown, error) {
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

// verify finds the CA of a certificate, and whom it names. What names no node of the fleet may
// still be the other CA's, which can be the same.
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
		return verified{}, err // it was meant for the fleet
	case otherErr != nil:
		return verified{}, otherErr
	}
	name, err := certname(leaf)
	return verified{shown: Shown{Certname: name}, chain: chain, by: other, until: endOf(chain)}, err
}

// chainOf verifies a client's certificate against some roots.
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

// certname is a certificate's CN, in the letters that Puppet allows.
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
