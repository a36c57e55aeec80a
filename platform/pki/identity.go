package pki

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
)

const urn = "urn:edgespan:node:"

// oidSAN is the extension that holds subject alternative names (RFC 5280, 4.2.1.6).
var oidSAN = asn1.ObjectIdentifier{2, 5, 29, 17}

// Peer is a node as identified by its certificate.
type Peer struct {
	Node     uuid.UUID
	Serial   string // hexadecimal, lower case
	Joining  string // the join that the certificate belongs to; "" in certificates without one
	NotAfter time.Time
}

// PeerOf returns the node at the other end of a connection whose certificate chain was verified. A connection without a
// client certificate is an error.
func PeerOf(state tls.ConnectionState) (Peer, error) {
	if len(state.PeerCertificates) == 0 || len(state.VerifiedChains) == 0 {
		return Peer{}, errors.New("identify node: no verified client certificate: join first")
	}
	return peerOf(state.PeerCertificates[0])
}

func peerOf(cert *x509.Certificate) (Peer, error) {
	node, err := identity(cert.URIs, cert.Extensions)
	if err != nil {
		return Peer{}, fmt.Errorf("identify node: certificate %s: %w", serialText(cert), err)
	}
	return Peer{Node: node, Serial: serialText(cert), Joining: cert.Subject.SerialNumber, NotAfter: cert.NotAfter}, nil
}

func serialText(cert *x509.Certificate) string { return fmt.Sprintf("%x", cert.SerialNumber) }

// nodeURI returns a node's name in its certificate.
func nodeURI(node uuid.UUID) *url.URL {
	return &url.URL{Scheme: "urn", Opaque: strings.TrimPrefix(urn, "urn:") + node.String()}
}

// identity returns the one node that a certificate or a request names. It refuses additional names of any kind: they
// would be unchecked identities.
func identity(uris []*url.URL, extensions []pkix.Extension) (uuid.UUID, error) {
	names, err := countNames(extensions)
	if err != nil {
		return uuid.Nil, err
	}
	if names != 1 || len(uris) != 1 {
		return uuid.Nil, fmt.Errorf("has %d names, %d of them URIs: must have exactly one, %s<uuid>", names, len(uris), urn)
	}
	text := uris[0].String()
	word, found := strings.CutPrefix(text, urn)
	node, err := uuid.Parse(word)
	if !found || err != nil || node == uuid.Nil || node.String() != word {
		return uuid.Nil, fmt.Errorf("invalid name %.80q: must be %s<uuid in lower case>", text, urn)
	}
	return node, nil
}

// countNames counts subject alternative names of every kind, including those that crypto/x509 skips.
func countNames(extensions []pkix.Extension) (int, error) {
	n := 0
	for _, e := range extensions {
		if !e.Id.Equal(oidSAN) {
			continue
		}
		var names []asn1.RawValue
		if rest, err := asn1.Unmarshal(e.Value, &names); err != nil || len(rest) > 0 {
			return 0, errors.New("invalid alternative names")
		}
		n += len(names)
	}
	return n, nil
}

// fingerprint returns the SHA-256 of a public key's DER form.
func fingerprint(spki []byte) string { return fmt.Sprintf("%x", sha256.Sum256(spki)) }
