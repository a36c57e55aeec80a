// Package nodelink owns the link of node and controller: one bidirectional gRPC stream
// that the node opens (nodes sit behind NAT), over mutual TLS, and the Join call that comes
// before it with a token in place of a certificate.
//
// What it holds to:
//   - A node speaks for itself only: who speaks is read from the certificate, on every
//     stream and every renewal, never from a message.
//   - One stream for each node: the newest wins, the older one is ended with a reason.
//   - A wave of reconnects is spread by what each node was told at its greeting, and who comes
//     all the same takes turns: handshakes are computed a few at a time.
//   - Sending never blocks and reading is held back, never dropped: a slow or noisy node
//     delays no other. Queues, sizes, rates and the number of streams are bounded.
//   - A message above 256 KiB travels in pieces with a digest; no wire message reaches
//     1 MiB. What a peer of another version adds is skipped.
//   - A dead connection is found by keepalive from both sides.
//   - Goroutines: the server has two for a stream beside gRPC's own and one for all; the
//     client has two for its connection. Both have one more only while they write.
//
// It never judges a message, keeps no config and knows no store: it turns wire messages
// into the words of config/fleet/nodeproto and back. Delivery is at most once; what must arrive is
// acknowledged by the words themselves.
package nodelink
