package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"edgespan/platform/store"
)

// Lifetimes of certificates. A CA is backdated, to allow for a clock that is ahead when it is made.
const (
	caLife     = 20 * 365 * 24 * time.Hour
	defaultAge = 30 * 24 * time.Hour
	shortest   = time.Minute
	caBackdate = 365 * 24 * time.Hour
)

// Options are an authority's settings.
type Options struct {
	Dir        string           // holds ca.pem of edgespan's own CA, made at the first start, and keys of session tickets
	External   ExternalCA       // files of another CA, in place of edgespan's own
	API        Files            // certificate for operators, by its names, in place of the authority's
	Names      []string         // host names and IP addresses of the node link's server certificate
	NodeLife   time.Duration    // lifetime of a node's certificate; 0: 30 days
	ServerLife time.Duration    // lifetime of the server certificate; 0: 30 days
	APIFault   func(error)      // receives why the API certificate can't be served, and nil once it can; may be nil
	Now        func() time.Time // nil: the clock
	Revoked    *Revocations     // nil: no certificate is revoked
}

// ExternalCA names the PEM files of an external CA. Cert has the issuing certificate first; every certificate in it is
// trusted as a root. The files are read once.
type ExternalCA struct{ Cert, Key string }

// Files names a certificate and its key, in PEM. They are read again when they change.
type Files struct{ Cert, Key string }

// Authority issues and verifies certificates. It is safe for concurrent use.
type Authority struct {
	opts    Options
	key     crypto.Signer
	roots   []*x509.Certificate
	server  *serverCert
	tickets *tickets
	api     *apiCert // nil: operators get the authority's certificate
}

// Open reads the authority, and creates edgespan's own CA at the first start. Only the holder of the controller's store
// calls it, so that two first starts can't create two CAs.
func Open(opts Options) (*Authority, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	for _, life := range []*time.Duration{&opts.NodeLife, &opts.ServerLife} {
		if *life == 0 {
			*life = defaultAge
		}
		if *life < shortest {
			return nil, fmt.Errorf("open CA: certificate validity %v: must be at least %v", *life, shortest)
		}
	}
	a := &Authority{opts: opts}
	load := a.loadOwn
	if opts.External != (ExternalCA{}) {
		load = a.loadExternalCA
	}
	if err := load(); err != nil {
		return nil, fmt.Errorf("open CA: %w", err)
	}
	if err := a.checkIssuer(); err != nil {
		return nil, fmt.Errorf("open CA: %w", err)
	}
	a.server, a.tickets = &serverCert{authority: a}, newTickets(opts.Dir, a.Pin(), opts.Now)
	if _, err := a.server.get(); err != nil {
		return nil, fmt.Errorf("open CA: %w", err)
	}
	if opts.API != (Files{}) {
		// If it can't be read, serve the API with the authority's certificate: a controller that does not start can't
		// be reached at all.
		a.api = &apiCert{files: opts.API, tell: opts.APIFault}
		_ = a.APIFault() // reported by the callback
	}
	return a, nil
}

func (a *Authority) loadOwn() error {
	path := filepath.Join(a.opts.Dir, "ca.pem")
	b, err := readBundle(path, 0o077)
	if errors.Is(err, fs.ErrNotExist) {
		if b, err = newCA(a.opts.Now()); err != nil {
			return err
		}
		err = writeBundle(path, b)
	}
	if err != nil {
		return err
	}
	if b.key == nil || len(b.chain) == 0 {
		return fmt.Errorf("%s has to hold one key and its certificate", path)
	}
	a.key, a.roots = b.key, b.chain
	return nil
}

func (a *Authority) loadExternalCA() error {
	out := a.opts.External
	b, err := readBundle(out.Cert, 0o007)
	if err != nil {
		return err
	}
	a.roots = b.chain
	if len(a.roots) == 0 {
		return fmt.Errorf("%s holds no certificate", out.Cert)
	}
	if out.Key == "" {
		return errors.New("CA key: required: the controller issues the certificates of nodes")
	}
	if b, err = readBundle(out.Key, 0o007); err != nil {
		return err
	}
	if b.key == nil {
		return fmt.Errorf("%s holds no key", out.Key)
	}
	a.key = b.key
	return nil
}

// checkIssuer refuses a CA that can't issue valid certificates.
func (a *Authority) checkIssuer() error {
	ca, now := a.roots[0], a.opts.Now()
	switch {
	case !ca.IsCA || !ca.BasicConstraintsValid:
		return fmt.Errorf("certificate %s: not a CA certificate", serialText(ca))
	case ca.KeyUsage != 0 && ca.KeyUsage&x509.KeyUsageCertSign == 0:
		return fmt.Errorf("certificate %s: not allowed to sign certificates", serialText(ca))
	case now.After(ca.NotAfter):
		return fmt.Errorf("certificate %s of the CA expired on %s", serialText(ca), ca.NotAfter.Format(time.RFC3339))
	case !sameKey(ca.PublicKey, a.key.Public()):
		return fmt.Errorf("certificate %s of the CA and its key do not match", serialText(ca))
	}
	return nil
}

// Pin returns the value that a joining node passes to --ca-sha256.
func (a *Authority) Pin() Pin { return PinOf(a.roots[0]) }

// Roots returns the certificates that a node of this controller trusts, in DER.
func (a *Authority) Roots() [][]byte { return rawOf(a.roots) }

func newCA(now time.Time) (bundle, error) {
	key, err := newKey()
	if err != nil {
		return bundle{}, err
	}
	serial, err := newSerial()
	if err != nil {
		return bundle{}, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: fmt.Sprintf("edgespan CA %x", serial.Bytes()[:4])},
		NotBefore: now.Add(-caBackdate), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return bundle{}, fmt.Errorf("make CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return bundle{key: key, chain: []*x509.Certificate{cert}}, err
}

// newSerial returns 127 random bits, never zero and never negative in DER.
func newSerial() (*big.Int, error) {
	top := new(big.Int).Lsh(big.NewInt(1), 126)
	n, err := rand.Int(rand.Reader, top)
	if err != nil {
		return nil, err
	}
	return n.Add(n, top), nil
}

// writeBundle replaces a file that holds a key, readable by its owner only. Key and certificates share one file, so
// that a power failure can't separate them.
func writeBundle(path string, b bundle) error {
	text, err := b.format()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return store.WriteFile(path, text, 0o600)
}

// issue signs a certificate for a public key.
func (a *Authority) issue(t *x509.Certificate, public crypto.PublicKey, life time.Duration) (*x509.Certificate, error) {
	now, ca := a.opts.Now(), a.roots[0]
	if !now.Before(ca.NotAfter) {
		return nil, fmt.Errorf("the CA's certificate expired on %s", ca.NotAfter.Format(time.RFC3339))
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	// Backdate the start by a whole lifetime: a certificate issued while the clock is ahead stays valid once the clock
	// is corrected. If the clock is ahead by more, the current certificate would have expired, and none is issued for
	// it.
	life = min(life, ca.NotAfter.Sub(now))
	t.SerialNumber, t.NotBefore, t.NotAfter = serial, now.Add(-life), now.Add(life)
	t.BasicConstraintsValid, t.KeyUsage = true, x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, t, ca, public, a.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// splitNames separates host names from IP addresses.
func splitNames(names []string) (hosts []string, ips []net.IP) {
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			ips = append(ips, ip)
		} else {
			hosts = append(hosts, n)
		}
	}
	return hosts, ips
}
