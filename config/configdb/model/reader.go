package model

import (
	"edgespan/config/configdb"
	"edgespan/config/kv"
)

// Reader reads the store. A backend with a deadline implements it.
type Reader interface {
	// Get reads up to kv.MaxOps keys at one revision, in their order. An absent key has the zero ModRevision.
	Get(keys ...kv.Key) ([]kv.Entry, error)
	// List reads the keys below a prefix, in order.
	List(below kv.Prefix, o kv.ListOptions) (kv.Page, error)
}

// Blobs returns the content of documents by SHA-256, in hex. ReadBlob reads one. An implementation may cache contents,
// since the content of a name never changes.
type Blobs interface {
	Blob(sha string) (configdb.JSON, error)
	// Meter returns the limit of the computation that reads; nil means no limit.
	Meter() *configdb.Meter
}

// Source is everything that a computation reads in addition to a State.
type Source interface {
	Reader
	Blobs
}
