// Package layers owns how a node's effective config is computed from its six layers:
//
//	base(software) ⊕ firmware ⊕ hardware ⊕ auto[node] ⊕ network ⊕ node[node]
//
// which base, firmware and hardware belong to a version string, which layer a value is
// from and what it shadows, and how the digests of a whole fleet are kept up to date
// (seed terragraph-configuration-management; reference terragraph-config §1.4 to §1.8).
//
// It never reads a file, never changes a document that it was given, and never lets an
// object be swallowed: that is a clash, which names both layers.
//
// Read first: layers.go, then choose.go.
package layers
