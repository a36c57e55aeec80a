package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// OperatorTLS is the setting of the REST server: the same certificate as the node link's,
// and no client certificate, since operators show a token. A client that knows the pin
// finds the authority at the end of the chain.
func (a *Authority) OperatorTLS() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Time:                   a.opts.Now,
		SessionTicketsDisabled: true,
		NextProtos:             []string{"h2", "http/1.1"},
		GetCertificate:         a.shown,
	}
}

// shown is the certificate for a client of the API: the outside one where it has the name that
// the client asks for, else ours, which nodes and those who pin our CA want. Ours is shown too
// while the outside one can't be read or has ended.
func (a *Authority) shown(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if a.api != nil && hello.ServerName != "" {
		if external := a.api.at(a.opts.Now()); external != nil && external.Leaf.VerifyHostname(hello.ServerName) == nil {
			return external, nil
		}
	}
	return a.server.get()
}

// Older lets a setting of a server take clients of TLS 1.2 too.
func Older(c *tls.Config) *tls.Config {
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

// Trusts says whether one of the authority's roots has the pin: an outside CA that is being
// replaced has the old root beside the new one.
func (a *Authority) Trusts(p Pin) bool {
	for _, root := range a.roots {
		if PinOf(root) == p {
			return true
		}
	}
	return false
}

// ClientFiles are the PEM files by which a client knows a server, and shows who it is: an
// etcd cluster's.
type ClientFiles struct {
	CA        string // trusted roots; "" for those of the machine
	Cert, Key string // both or none
}

// TLS reads the files. Without any it is nil: the endpoints say whether TLS is spoken.
func (f ClientFiles) TLS() (*tls.Config, error) {
	if f == (ClientFiles{}) {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12} // etcd's own default and floor
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
