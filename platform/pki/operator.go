package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// OperatorTLS returns the TLS config of the REST server: the node link's certificate, and no client certificate,
// because operators authenticate with a token. A client that knows the pin finds the authority at the end of the chain.
func (a *Authority) OperatorTLS() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Time:                   a.opts.Now,
		SessionTicketsDisabled: true,
		NextProtos:             []string{"h2", "http/1.1"},
		GetCertificate:         a.certificateFor,
	}
}

// certificateFor returns the certificate for a client of the API: the external one if it has the name that the client
// requests, otherwise the authority's, which nodes and clients with the CA's pin need. The authority's also replaces
// an external one that is unreadable or expired.
func (a *Authority) certificateFor(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if a.api != nil && hello.ServerName != "" {
		if external := a.api.certificateAt(a.opts.Now()); external != nil &&
			external.Leaf.VerifyHostname(hello.ServerName) == nil {
			return external, nil
		}
	}
	return a.server.get()
}

// AllowTLS12 makes a server's TLS config accept TLS 1.2 clients too.
func AllowTLS12(c *tls.Config) *tls.Config {
	c.MinVersion = tls.VersionTLS12
	if inner := c.GetConfigForClient; inner != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			now, err := inner(hello)
			if now != nil {
				now.MinVersion = tls.VersionTLS12
			}
			return now, err
		}
	}
	return c
}

// HasRoot reports whether one of the authority's roots has the pin: an external CA that is being replaced has both the
// old and the new root.
func (a *Authority) HasRoot(p Pin) bool {
	for _, root := range a.roots {
		if PinOf(root) == p {
			return true
		}
	}
	return false
}

// ClientFiles names the PEM files by which a client verifies a server and authenticates, such as an etcd cluster's.
type ClientFiles struct {
	CA        string // trusted roots; "" for those of the machine
	Cert, Key string // both or none
}

// TLS reads the files. Without any it returns nil: the endpoints then decide whether TLS is used.
func (f ClientFiles) TLS() (*tls.Config, error) {
	if f == (ClientFiles{}) {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12} // etcd's own default and minimum
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("read client TLS: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read client TLS: %s: no certificate: must be PEM", f.CA)
		}
	}
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return nil, errors.New("read client TLS: certificate and key: only one of them given: must be both or neither")
	case f.Cert != "":
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("read client TLS: %s and %s: %w", f.Cert, f.Key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
