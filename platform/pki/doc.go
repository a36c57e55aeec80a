// Package pki owns certificates and tokens: the controller's certificate authority (its
// own, or the files of an outside one), the server certificate of the node link, the
// certificates of nodes with their renewal and revocation, the TLS settings of both ends,
// join tokens and the tokens of operators.
//
// What it holds to:
//   - TLS 1.3 only, no session tickets: each connection shows its certificate anew.
//   - A node's certificate names one thing, `urn:edgespan:node:<uuid>`, as its only
//     subject alternative name. Its subject is empty and never read.
//   - The pin of `--ca-sha256` is the SHA-256 of the authority's public key (its DER
//     SubjectPublicKeyInfo), not of its certificate: a certificate that is renewed with
//     the same key keeps its pin. By hand: `openssl x509 -in ca.pem -pubkey -noout |
//     openssl pkey -pubin -outform der | sha256sum`.
//   - The key of the server certificate is made at each start and is never on a disk.
//   - A client of the REST server may show a certificate of the fleet, or of one other CA,
//     Puppet's, which can name no node of the fleet.
//   - A token is 256 random bits; only its SHA-256 is kept, bound to one node's name.
//
// It never decides who may join: it says whether a token, a request and a name fit, and
// its caller stores that the token is used in the transaction that knows the node. It
// opens no connection and keeps no list of nodes.
package pki
