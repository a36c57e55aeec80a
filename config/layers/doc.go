// Package layers owns how a node's effective config is computed from its six layers:
//
//	base(software) ⊕ firmware ⊕ hardware ⊕ auto[node] ⊕ network ⊕ node[node]
//
// It selects the base, firmware and hardware layers of a version string, finds the layer that set a value and the
// values it shadows, and keeps the digests of a whole fleet up to date (seed terragraph-configuration-management;
// reference terragraph-config §1.4 to §1.8).
//
// It never reads a file, never changes its input documents, and never lets another value replace an object: that is a
// clash, which names both layers.
//
// Read layers.go first, then choose.go.
package layers
