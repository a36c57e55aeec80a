package model

import (
	"edgespan/config/configdb"
	"edgespan/config/kv"
)

// Reader reads the store. A backend fulfils it once somebody gives it a deadline.
type Reader interface {
	// Get reads up to kv.MaxOps keys at one moment, in their order. An absent key has
	// the zero ModRevision.
	Get(keys ...kv.Key) ([]kv.Entry, error)
	// List reads the keys below a prefix, in order.
	List(below kv.Prefix, o kv.ListOptions) (kv.Page, error)
}

// Blobs has the content of documents by their SHA-256, in hex. ReadBlob reads one; whoever
// fulfils this may keep them, since the content of a name never changes.
type Blobs interface {
	Blob(sha string) (configdb.JSON, error)
	// Meter is what the computation may cost that reads; nil bounds nothing.
	Meter() *configdb.Meter
}

// Source is all that is read beside a State.
type Source interface {
	Reader
	Blobs
}
