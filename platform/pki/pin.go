package pki

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Pin is the SHA-256 of a certificate authority's public key, the value of `--ca-sha256`, with which a node trusts its
// controller before it has any certificate.
type Pin [sha256.Size]byte

// PinOf returns the pin of an authority's certificate.
func PinOf(cert *x509.Certificate) Pin { return sha256.Sum256(cert.RawSubjectPublicKeyInfo) }

// String returns the pin as 64 hexadecimal digits.
func (p Pin) String() string { return hex.EncodeToString(p[:]) }

// ParsePin reads a pin: 64 hexadecimal digits in either case, with or without colons between pairs, with or without the
// prefix "sha256:".
func ParsePin(text string) (Pin, error) {
	digits := strings.TrimPrefix(strings.ToLower(text), "sha256:")
	if strings.Contains(digits, ":") {
		for i := 2; i < len(digits); i += 3 {
			if digits[i] != ':' {
				return Pin{}, pinError(text)
			}
		}
		digits = strings.ReplaceAll(digits, ":", "")
	}
	var p Pin
	if len(digits) != hex.EncodedLen(len(p)) {
		return Pin{}, pinError(text)
	}
	if _, err := hex.Decode(p[:], []byte(digits)); err != nil {
		return Pin{}, pinError(text)
	}
	return p, nil
}

func pinError(text string) error {
	return fmt.Errorf("invalid CA fingerprint %.80q: must be 64 hexadecimal digits, the SHA-256 of the CA's public key",
		text)
}

// ErrPin reports that no certificate in a server's chain matches the pin.
var ErrPin = errors.New("the server's CA does not match --ca-sha256")

// PinnedTLS returns the client's TLS config for the Join call: it trusts only the authority with the pin, which must be
// in the server's chain, and verifies the server's name.
func PinnedTLS(pin Pin, host string, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: host,
		Time:       now,
		// VerifyConnection does all checks of the default, with the pinned CA as the only root
		InsecureSkipVerify: true, //nolint:gosec
		VerifyConnection: func(state tls.ConnectionState) error {
			return verifyPinned(state.PeerCertificates, pin, host, now())
		},
	}
}

func verifyPinned(shown []*x509.Certificate, pin Pin, host string, now time.Time) error {
	if len(shown) == 0 {
		return errors.New("verify server: no certificate")
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	found := false
	for _, cert := range shown[1:] {
		between.AddCert(cert)
		if cert.IsCA && PinOf(cert) == pin {
			roots.AddCert(cert)
			found = true
		}
	}
	if !found {
		return fmt.Errorf("verify server: %w: its CA is %s", ErrPin, pinsOf(shown[1:]))
	}
	_, err := shown[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: now, DNSName: host,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return fmt.Errorf("verify server: %w", err)
	}
	return nil
}

func pinsOf(certs []*x509.Certificate) string {
	if len(certs) == 0 {
		return "none"
	}
	pins := make([]string, len(certs))
	for i, c := range certs {
		pins[i] = PinOf(c).String()
	}
	return strings.Join(pins, ", ")
}
