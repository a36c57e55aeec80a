// Package linkpb is the wire form of the node link, generated from link.proto by
// `make proto` and never edited. It owns the numbers of fields, which never change, and it is
// used by platform/nodelink alone.
package linkpb
