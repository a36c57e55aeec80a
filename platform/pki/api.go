package pki

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// reread is how often the files of the external API certificate are checked.
const reread = 10 * time.Second

// APIFault returns why the external API certificate is out of date with its files, or not served at all.
func (a *Authority) APIFault() error {
	if a.api == nil {
		return nil
	}
	a.api.certificateAt(a.opts.Now())
	a.api.mu.Lock()
	defer a.api.mu.Unlock()
	return a.api.reported
}

// apiCert is the external certificate of the API, read from its files when they change.
type apiCert struct {
	files Files
	tell  func(error) // nil: faults are not reported

	mu       sync.Mutex
	cert     *tls.Certificate // the last valid one
	looked   time.Time
	fault    error        // of the last read
	written  [2]time.Time // mtimes of the files that cert comes from
	reported error
}

// certificateAt returns the certificate to serve at a time, nil if there is none. It reports each fault once.
func (c *apiCert) certificateAt(now time.Time) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := now.Sub(c.looked); c.looked.IsZero() || d < 0 || d >= reread {
		c.looked = now
		c.fault = c.read(now)
	}
	cert, err := c.cert, c.fault
	if cert != nil && now.After(cert.Leaf.NotAfter) {
		cert, err = nil, fmt.Errorf("read server certificate: %s expired on %s", c.files.Cert,
			cert.Leaf.NotAfter.Format(time.RFC3339))
	}
	if c.tell != nil && (err == nil) != (c.reported == nil) {
		c.tell(err)
	}
	c.reported = err
	return cert
}

// read reads the files if they changed.
func (c *apiCert) read(now time.Time) error {
	var written [2]time.Time
	for i, path := range []string{c.files.Cert, c.files.Key} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("read server certificate: %w", err)
		}
		written[i] = info.ModTime()
	}
	if c.cert != nil && written == c.written {
		return nil
	}
	chain, err := readBundle(c.files.Cert, 0o007)
	if err != nil {
		return err
	}
	key, err := readBundle(c.files.Key, 0o007)
	if err != nil {
		return err
	}
	if len(chain.chain) == 0 || key.key == nil || !sameKey(chain.chain[0].PublicKey, key.key.Public()) {
		return fmt.Errorf("read server certificate: %s and %s do not match", c.files.Cert, c.files.Key)
	}
	if now.After(chain.chain[0].NotAfter) {
		return fmt.Errorf("read server certificate: %s expired on %s", c.files.Cert,
			chain.chain[0].NotAfter.Format(time.RFC3339))
	}
	c.written = written
	c.cert = &tls.Certificate{Certificate: rawOf(chain.chain), PrivateKey: key.key, Leaf: chain.chain[0]}
	return nil
}
