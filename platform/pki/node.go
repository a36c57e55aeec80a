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

// Request is a node's wish for a certificate whose own signature was checked: whoever
// sent it has the key.
type Request struct {
	Node uuid.UUID
	Key  string // SHA-256 of the public key, hexadecimal: the same key asks again after a lost answer

	// Joining goes into the certificate: which of the node's joins it is of. No request says it,
	// whoever issues does.
	Joining string

	public crypto.PublicKey
}

// ParseRequest reads a PKCS #10 request in DER. It names one node and nothing else; its
// key is ECDSA on P-256 or P-384, or Ed25519.
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

// Issued is a certificate for a node, with all that the node needs to use it.
type Issued struct {
	Peer
	Chain [][]byte // DER, the node's first
	Roots [][]byte // DER, what the node trusts
}

// Issue signs a node's certificate. Whether the node may have one was decided before.
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
	// The issuing certificate travels along: another replica may trust only its root.
	return Issued{Peer: peer, Chain: [][]byte{cert.Raw, a.roots[0].Raw}, Roots: a.Roots()}, nil
}

// Renew issues the next certificate of a node that proved with its present one who it
// is. A request for another node, or of a revoked one, is refused.
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

// renewAt is when a certificate is due: after two thirds of its life, and up to a tenth of
// the life later; spread (0 to 1) says where, so that nodes that joined together do not
// renew together. It was issued in the middle of the time that it counts, or, by a former release,
// near the begin: that one is due after five sixths.
func renewAt(cert *x509.Certificate, spread float64) time.Time {
	life := cert.NotAfter.Sub(cert.NotBefore) / 2
	return cert.NotAfter.Add(-life/3 + time.Duration(spread*float64(life)/10))
}
