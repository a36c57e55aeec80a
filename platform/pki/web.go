package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
)

// WebHandshake begins TLS as a client of a web server that the system's authorities vouch for. It starts no goroutine,
// and lasts until the deadline of conn: the error then wraps os.ErrDeadlineExceeded. Other errors name no time or
// number: they are the same for the same server.
func WebHandshake(conn net.Conn, host string) (net.Conn, error) {
	secured := tls.Client(conn, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12})
	err := secured.Handshake() //nolint:noctx // the deadline of conn bounds it
	rejected := new(tls.CertificateVerificationError)
	switch {
	case err == nil:
		return secured, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("no TLS handshake with %s: %w", host, os.ErrDeadlineExceeded)
	case errors.As(err, &rejected):
		return nil, fmt.Errorf("the certificate of %s %s", host, explainRejected(rejected.Err))
	}
	return nil, fmt.Errorf("no TLS handshake with %s", host)
}

func explainRejected(err error) string {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &authority):
		return "is signed by an unknown authority"
	case errors.As(err, &name):
		return "is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "has expired, or is not valid yet"
	}
	return "is not valid"
}
