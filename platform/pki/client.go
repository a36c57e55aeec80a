package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// ClientTLS returns the TLS config of a client of the REST server: it trusts the authorities of a PEM text, or the
// system's without one, and verifies the server's name.
func ClientTLS(authorities []byte) (*tls.Config, error) {
	if len(authorities) == 0 {
		return &tls.Config{MinVersion: tls.VersionTLS13}, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, errors.New("no certificate: must be PEM")
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool}, nil
}
