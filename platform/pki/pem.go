package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"
)

// Types of PEM blocks. Trusted roots share a node's file with its own chain and have a type of their own, so that the
// two can't be confused.
const (
	blockKey  = "PRIVATE KEY"
	blockCert = "CERTIFICATE"
	blockRoot = "EDGESPAN TRUSTED ROOT"
)

const largestFile = 1 << 20 // octets of a file of keys or certificates

// bundle holds the contents of one of edgespan's PEM files.
type bundle struct {
	key   crypto.Signer // nil for none
	chain []*x509.Certificate
	roots []*x509.Certificate
}

// readBundle reads a PEM file. It refuses a key in a file that others may read; forbidden holds the mode bits to
// refuse.
func readBundle(path string, forbidden os.FileMode) (bundle, error) {
	info, err := os.Stat(path)
	if err != nil {
		return bundle{}, fmt.Errorf("read certificates: %w", err)
	}
	if info.Size() > largestFile {
		return bundle{}, fmt.Errorf("read certificates: %s: %d bytes: must be at most %d", path, info.Size(), largestFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return bundle{}, fmt.Errorf("read certificates: %w", err)
	}
	b, err := parseBundle(text)
	if err != nil {
		return bundle{}, fmt.Errorf("read certificates: %s: %w", path, err)
	}
	if b.key != nil && info.Mode().Perm()&forbidden != 0 {
		return bundle{}, fmt.Errorf("read certificates: %s: contains a key and has mode %04o: must not be readable by "+
			"others: run chmod 600",
			path, info.Mode().Perm())
	}
	return b, nil
}

// Life returns when the first certificate of a PEM text is valid.
func Life(text []byte) (begin, end time.Time, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == blockCert {
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return time.Time{}, time.Time{}, fmt.Errorf("parse certificate: %w", err)
			}
			return c.NotBefore, c.NotAfter, nil
		}
	}
	return time.Time{}, time.Time{}, errors.New("parse certificate: no certificate in PEM form")
}

func parseBundle(text []byte) (bundle, error) {
	var b bundle
	for n := 1; ; n++ {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		if err := b.add(block); err != nil {
			return bundle{}, fmt.Errorf("PEM block %d (%.40s): %w", n, block.Type, err)
		}
		text = rest
	}
	if b.key == nil && len(b.chain) == 0 && len(b.roots) == 0 {
		return bundle{}, errors.New("no PEM block: must be keys and certificates in PEM")
	}
	return b, nil
}

func (b *bundle) add(block *pem.Block) (err error) {
	switch block.Type {
	case blockKey, "EC PRIVATE KEY":
		if b.key != nil {
			return errors.New("second key: must have one")
		}
		b.key, err = parseKey(block)
	case blockCert:
		b.chain, err = appendCert(b.chain, block.Bytes)
	case blockRoot:
		b.roots, err = appendCert(b.roots, block.Bytes)
	case "EC PARAMETERS": // openssl writes them before a key
	default:
		err = fmt.Errorf("unknown type: must be %s or %s", blockKey, blockCert)
	}
	return err
}

func parseKey(block *pem.Block) (crypto.Signer, error) {
	if block.Type != blockKey {
		return x509.ParseECPrivateKey(block.Bytes)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("is a %T: must be a signing key", key)
	}
	return signer, nil
}

func appendCert(to []*x509.Certificate, der []byte) ([]*x509.Certificate, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return append(to, cert), nil
}

// format returns the file form of a bundle.
func (b bundle) format() ([]byte, error) {
	var out []byte
	if b.key != nil {
		der, err := x509.MarshalPKCS8PrivateKey(b.key)
		if err != nil {
			return nil, err
		}
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: der})...)
	}
	for _, c := range b.chain {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: blockCert, Bytes: c.Raw})...)
	}
	for _, c := range b.roots {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: blockRoot, Bytes: c.Raw})...)
	}
	return out, nil
}

// newKey creates a key: ECDSA on P-256, which every external CA and TLS library accepts.
func newKey() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// sameKey reports whether two public keys are equal.
func sameKey(a, b crypto.PublicKey) bool {
	switch k := a.(type) {
	case *ecdsa.PublicKey:
		return k.Equal(b)
	case ed25519.PublicKey:
		return k.Equal(b)
	default:
		e, ok := a.(interface{ Equal(x crypto.PublicKey) bool })
		return ok && e.Equal(b)
	}
}

func rawOf(certs []*x509.Certificate) [][]byte {
	out := make([][]byte, len(certs))
	for i, c := range certs {
		out[i] = c.Raw
	}
	return out
}

func parseAll(ders [][]byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for _, der := range ders {
		var err error
		if out, err = appendCert(out, der); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func poolOf(certs []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool
}
