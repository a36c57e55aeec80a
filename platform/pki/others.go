package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// OtherCA names the PEM files of a CA outside the fleet whose certificates name nodes by their subject's CN, such as
// Puppet's. They are read again when they change.
type OtherCA struct {
	Cert string // its certificates, each trusted as a root
	CRL  string // its lists of revoked certificates; "" for none
}

// otherCA holds the contents of the files.
type otherCA struct {
	roots   []*x509.Certificate
	revoked map[string]bool // by issuer and serial number
	until   time.Time       // when the first of the lists expires; zero: never
}

const blockCRL = "X509 CRL"

// read reads the files, or returns all their faults.
func (o OtherCA) read() (*otherCA, error) {
	b, err := readBundle(o.Cert, 0o007)
	if err == nil && len(b.chain) == 0 {
		err = fmt.Errorf("read certificates: %s: no certificate: must be PEM", o.Cert)
	}
	out := &otherCA{roots: b.chain, revoked: map[string]bool{}}
	for _, ca := range b.chain {
		if err == nil && (!ca.IsCA || !ca.BasicConstraintsValid) {
			err = fmt.Errorf("read certificates: %s: certificate %s: not a CA certificate", o.Cert, serialText(ca))
		}
	}
	if err != nil || o.CRL == "" {
		return out, err
	}
	return out, out.readCRL(o.CRL)
}

func (o *otherCA) readCRL(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read revoked certificates: %w", err)
	}
	for n := 1; ; n++ {
		block, rest := pem.Decode(text)
		switch {
		case block == nil && n == 1:
			return fmt.Errorf("read revoked certificates: %s: no PEM block: must be %s", path, blockCRL)
		case block == nil:
			return nil
		case block.Type != blockCRL:
			return fmt.Errorf("read revoked certificates: %s: PEM block %d: unexpected %.40q: must be %s", path, n, block.Type,
				blockCRL)
		}
		if err := o.revoke(block.Bytes); err != nil {
			return fmt.Errorf("read revoked certificates: %s: PEM block %d: %w", path, n, err)
		}
		text = rest
	}
}

// revoke adds one list. An expired one stays in effect: its entries stay revoked.
func (o *otherCA) revoke(der []byte) error {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(o.roots, func(ca *x509.Certificate) bool {
		return bytes.Equal(ca.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(ca) == nil
	})
	if i < 0 {
		return errors.New("not signed by a certificate of the CA")
	}
	for _, e := range list.RevokedCertificateEntries {
		o.revoked[string(list.RawIssuer)+"\x00"+e.SerialNumber.String()] = true
	}
	if end := list.NextUpdate; !end.IsZero() && (o.until.IsZero() || end.Before(o.until)) {
		o.until = end
	}
	return nil
}

// check refuses a chain that contains a revoked certificate.
func (o *otherCA) check(chain []*x509.Certificate) error {
	for _, cert := range chain {
		if o.revoked[string(cert.RawIssuer)+"\x00"+cert.SerialNumber.String()] {
			return fmt.Errorf("certificate %s: %w by its CA", serialText(cert), ErrRevoked)
		}
	}
	return nil
}

// stamp identifies a state of the files.
func (o OtherCA) stamp() string {
	var out string
	for _, path := range []string{o.Cert, o.CRL} {
		if info, err := os.Stat(path); err != nil {
			out += "none;"
		} else {
			out += fmt.Sprint(info.ModTime().UnixNano(), info.Size(), ";")
		}
	}
	return out
}
