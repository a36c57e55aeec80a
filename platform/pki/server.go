package pki

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// ServerTLS returns the TLS config of the node link's server. A client without a certificate may connect, but only to
// join. The handshake refuses a certificate that is not a node's, issued by this authority, currently valid and not
// revoked, whether it is sent or in the ticket of a session that is resumed.
func (a *Authority) ServerTLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		ClientAuth:     tls.VerifyClientCertIfGiven,
		ClientCAs:      poolOf(a.roots),
		Time:           a.opts.Now,
		WrapSession:    a.tickets.wrap,
		UnwrapSession:  a.tickets.unwrap,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.server.get() },
		VerifyConnection: func(state tls.ConnectionState) error { // for resumed sessions too
			if len(state.PeerCertificates) == 0 {
				return nil
			}
			peer, err := PeerOf(state)
			if err != nil {
				return err
			}
			return a.Admit(peer)
		},
	}
}

// ServerTLSInTurn is ServerTLS that calls turn once the client's first message has arrived, and answers only after it
// returns. Its error ends the handshake.
func (a *Authority) ServerTLSInTurn(turn func(net.Conn) error) *tls.Config {
	settings := a.ServerTLS()
	settings.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) { return nil, turn(hello.Conn) }
	return settings
}

// Admit checks that a node's certificate is neither expired nor revoked. Long-lived streams are checked again.
func (a *Authority) Admit(p Peer) error {
	if a.opts.Now().After(p.NotAfter) {
		return fmt.Errorf("admit node %s: certificate %s expired on %s", p.Node, p.Serial, p.NotAfter.Format(time.RFC3339))
	}
	return a.opts.Revoked.Check(p)
}

// serverCert is the server's current certificate, replaced after two thirds of its life.
type serverCert struct {
	authority *Authority

	mu   sync.Mutex
	cert *tls.Certificate
}

func (s *serverCert) get() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.authority.opts.Now()
	if s.cert != nil && now.Before(renewAt(s.cert.Leaf, 0)) && !now.Before(s.cert.Leaf.NotBefore) {
		return s.cert, nil // one that is not valid yet was made while the clock was ahead
	}
	next, err := s.authority.newServer()
	switch {
	case err == nil:
		s.cert = next
	case s.cert == nil || now.After(s.cert.Leaf.NotAfter):
		return nil, err // keep serving the old certificate while it is valid
	}
	return s.cert, nil
}

// newServer issues a server certificate for a fresh key that stays in memory. The chain ends with the CA itself, where
// a joining node looks for its pin.
func (a *Authority) newServer() (*tls.Certificate, error) {
	if len(a.opts.Names) == 0 {
		return nil, errors.New("make server certificate: no names: must have at least one host name or IP address")
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	hosts, ips := splitNames(a.opts.Names)
	leaf, err := a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "edgespan controller"}, DNSNames: hosts, IPAddresses: ips,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, key.Public(), a.opts.ServerLife)
	if err != nil {
		return nil, fmt.Errorf("make server certificate: %w", err)
	}
	return &tls.Certificate{
		Certificate: append([][]byte{leaf.Raw}, a.Roots()...),
		PrivateKey:  key, Leaf: leaf,
	}, nil
}
