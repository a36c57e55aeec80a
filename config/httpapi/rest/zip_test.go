package rest

import (
	"bytes"
	"testing"
)

// The compressed form of a document is kept while it is requested, within a limit.
func TestWhatIsCompressedIsKeptAWhile(t *testing.T) {
	t.Parallel()
	var z zipped
	body := bytes.Repeat([]byte("x"), 5000)
	if first, again := z.of(body, true), z.of(body, true); &first[0] != &again[0] || len(z.new) != 1 {
		t.Errorf("compressed again: %d are kept", len(z.new))
	}
	if z.of(bytes.Clone(body), false); len(z.new) != 1 {
		t.Errorf("%d are kept", len(z.new))
	}
	for range 3 * maxZipped / 5000 {
		z.of(bytes.Clone(body), true)
	}
	if z.size > maxZipped+2*len(body) || len(z.new)+len(z.old) > 2*maxZipped/5000+2 {
		t.Errorf("%d bytes are kept, %d and %d documents", z.size, len(z.new), len(z.old))
	}
}
