// Package nodelink owns the link between node and controller: one bidirectional gRPC stream that the node opens (nodes
// sit behind NAT), over mutual TLS, and the Join call before it, which uses a token instead of a certificate.
//
// Rules:
//   - A node speaks only for itself: its identity comes from the certificate, on every
//     stream and every renewal, never from a message.
//   - One stream per node: the newest wins, the older one is ended with a reason.
//   - Each node receives a reconnect spread at its greeting, and nodes that still connect
//     together take turns: a few handshakes are computed at a time.
//   - Sending never blocks, and reading is throttled, never dropped: a slow or noisy node
//     delays no other. Queues, sizes, rates and the number of streams are bounded.
//   - A message above 256 KiB travels in pieces with a digest; no wire message reaches
//     1 MiB. Additions of a peer's other version are skipped.
//   - Both sides detect a dead connection by keepalive.
//   - Goroutines: the server has one per stream besides gRPC's own and one for all; the
//     client has two for its connection. Both have one more only while they write.
//
// It never validates a message, keeps no config and knows no store: it converts wire messages to the types of
// config/fleet/nodeproto and back. Delivery is at most once; messages that must arrive have acknowledgements in
// nodeproto.
//
// Read server.go and stream.go first for the controller's end, client.go for the node's.
package nodelink
