// Package pki owns certificates and tokens: the controller's certificate authority (its own, or the files of an
// external one), the node link's server certificate, node certificates with their renewal and revocation, the TLS
// settings of both ends, join tokens and operator tokens.
//
// Rules:
//   - TLS 1.3 only. A node may resume a session of the last seven days; the certificate in
//     its ticket is checked like one that is sent, on each connection.
//   - A node certificate has one name, `urn:edgespan:node:<uuid>`, as its only subject
//     alternative name. Its subject is empty and never read.
//   - The pin of `--ca-sha256` is the SHA-256 of the authority's public key (its DER
//     SubjectPublicKeyInfo), not of its certificate: a certificate renewed with the same
//     key keeps its pin. By hand: `openssl x509 -in ca.pem -pubkey -noout |
//     openssl pkey -pubin -outform der | sha256sum`.
//   - The key of the server certificate is created at each start and never stored on disk.
//   - A client of the REST server may present a certificate of the fleet, or of one other
//     CA, Puppet's, which can't name a fleet node.
//   - A token is 256 random bits; only its SHA-256 is stored, bound to one node's name.
//
// It never decides which nodes may join: it reports whether a token, a request and a name match, and its caller stores
// that the token is used in the transaction that adds the node. It opens no connections and keeps no list of nodes.
//
// Read authority.go first (the CA and its certificates), then node.go and token.go.
package pki
