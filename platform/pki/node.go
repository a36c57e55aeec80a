package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"
)

const largestRequest = 8 << 10 // octets of a certificate request

// Request is a node's certificate request with a valid signature: the sender has the key.
type Request struct {
	Node uuid.UUID
	Key  string // SHA-256 of the public key, hexadecimal: a request repeated after a lost answer has the same key

	// Joining goes into the certificate and identifies the join it belongs to. The issuer sets it, not the request.
	Joining string

	public crypto.PublicKey
}

// ParseRequest reads a PKCS #10 request in DER. It must name one node and nothing else; its key is ECDSA on P-256 or
// P-384, or Ed25519.
func ParseRequest(der []byte) (Request, error) {
	if len(der) > largestRequest {
		return Request{}, fmt.Errorf("read certificate request: %d bytes: must be at most %d", len(der), largestRequest)
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return Request{}, fmt.Errorf("read certificate request: %w", err)
	}
	switch key := csr.PublicKey.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if bits := key.Params().BitSize; bits != 256 && bits != 384 {
			return Request{}, fmt.Errorf("read certificate request: curve of %d bits: must be P-256, P-384 or Ed25519",
				bits)
		}
	default:
		return Request{}, fmt.Errorf("read certificate request: %s key: must be P-256, P-384 or Ed25519",
			csr.PublicKeyAlgorithm)
	}
	if err := csr.CheckSignature(); err != nil {
		return Request{}, fmt.Errorf("read certificate request: %w", err)
	}
	node, err := identity(csr.URIs, csr.Extensions)
	if err != nil {
		return Request{}, fmt.Errorf("read certificate request: %w", err)
	}
	return Request{Node: node, Key: fingerprint(csr.RawSubjectPublicKeyInfo), public: csr.PublicKey}, nil
}

// Issued is a node's certificate with everything the node needs to use it.
type Issued struct {
	Peer
	Chain [][]byte // DER, the node's first
	Roots [][]byte // DER, the node's trusted roots
}

// Issue signs a node's certificate. The caller has already authorized it.
func (a *Authority) Issue(r Request) (Issued, error) {
	cert, err := a.issue(&x509.Certificate{
		Subject: pkix.Name{SerialNumber: r.Joining},
		URIs:    []*url.URL{nodeURI(r.Node)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, r.public, a.opts.NodeLife)
	if err != nil {
		return Issued{}, fmt.Errorf("issue certificate of node %s: %w", r.Node, err)
	}
	peer, err := peerOf(cert)
	if err != nil {
		return Issued{}, err
	}
	// Include the issuing certificate: another replica may trust only its root.
	return Issued{Peer: peer, Chain: [][]byte{cert.Raw, a.roots[0].Raw}, Roots: a.Roots()}, nil
}

// Renew issues the next certificate of a node that authenticated with its present one. It refuses a request for another
// node or of a revoked one.
func (a *Authority) Renew(p Peer, der []byte) (Issued, error) {
	r, err := ParseRequest(der)
	if err != nil {
		return Issued{}, fmt.Errorf("renew certificate of node %s: %w", p.Node, err)
	}
	if r.Node != p.Node {
		return Issued{}, fmt.Errorf("renew certificate of node %s: the request names node %s: a node can only act for itself",
			p.Node, r.Node)
	}
	if err := a.Admit(p); err != nil {
		return Issued{}, fmt.Errorf("renew: %w", err)
	}
	r.Joining = p.Joining
	return a.Issue(r)
}

// renewAt returns when to renew a certificate: after two thirds of its life plus up to a tenth; spread (0 to 1) chooses
// the point, so that nodes that joined together don't renew together. A certificate is issued in the middle of its
// validity or, by a former release, near its start: that one is due after five sixths.
func renewAt(cert *x509.Certificate, spread float64) time.Time {
	life := cert.NotAfter.Sub(cert.NotBefore) / 2
	return cert.NotAfter.Add(-life/3 + time.Duration(spread*float64(life)/10))
}
