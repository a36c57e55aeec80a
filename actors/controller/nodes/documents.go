package nodes

import (
	"sync"

	"edgespan/config"
	"edgespan/config/layers"
)

// maxDocuments is how many documents are cached for nodes with the same config.
const maxDocuments = 8

// documents caches the canonical documents of configs. Nodes with the same config share the same bytes.
type documents struct {
	mu   sync.Mutex
	last [maxDocuments]document
	next int
}

type document struct {
	md5  string
	text []byte
}

// get returns the document of layers, by the MD5 of their config.
func (d *documents) get(md5 string, set layers.Set) ([]byte, error) {
	d.mu.Lock()
	for _, one := range d.last {
		if one.md5 == md5 && md5 != "" {
			d.mu.Unlock()
			return one.text, nil
		}
	}
	d.mu.Unlock()
	o, clashes := set.Effective()
	if clashes != nil {
		return nil, clashes
	}
	text := config.AppendCanonical(nil, o)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last[d.next] = document{md5, text}
	d.next = (d.next + 1) % maxDocuments
	return text, nil
}
