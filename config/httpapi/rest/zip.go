package rest

import (
	"bytes"
	"compress/gzip"
	"strconv"
	"strings"
	"sync"
)

// worthZipping is the size in bytes from which compression saves a packet.
const worthZipping = 1400

// maxZipped bounds the bytes of compressed answers in each half of the cache.
const maxZipped = 16 << 20

// acceptsZip reports whether a caller accepts gzip (RFC 9110 §12.5.3).
func acceptsZip(lines []string) bool {
	any := false
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
			desired := true
			if q, ok := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q="); ok {
				f, err := strconv.ParseFloat(q, 64)
				desired = err == nil && f > 0
			}
			switch name = strings.TrimSpace(name); {
			case strings.EqualFold(name, "gzip"):
				return desired
			case name == "*":
				any = desired
			}
		}
	}
	return any
}

// zipped caches compressed documents by the address of the original, which is immutable and kept alive by the cache:
// equal address means equal document. It evicts by halves, the older one first.
type zipped struct {
	mu       sync.Mutex
	new, old map[*byte]small
	size     int
	writers  sync.Pool
}

type small struct{ of, body []byte }

// of returns the compressed body. A kept one is cached, because it may be requested again.
func (z *zipped) of(body []byte, kept bool) []byte {
	if !kept {
		return z.make(body)
	}
	key := &body[0]
	z.mu.Lock()
	have, found := z.new[key]
	if !found {
		have, found = z.old[key]
	}
	z.mu.Unlock()
	if found && len(have.of) == len(body) {
		return have.body
	}
	have = small{body, z.make(body)}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.new == nil || z.size > maxZipped {
		z.old, z.new, z.size = z.new, map[*byte]small{}, 0
	}
	z.new[key] = have
	z.size += len(have.of) + len(have.body)
	return have.body
}

func (z *zipped) make(body []byte) []byte {
	w, _ := z.writers.Get().(*gzip.Writer)
	if w == nil {
		w, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	}
	defer z.writers.Put(w)
	var out bytes.Buffer
	out.Grow(len(body) / 3)
	w.Reset(&out)
	_, err := w.Write(body)
	if err = joinClose(w, err); err != nil {
		panic(err) // can't happen: it writes to memory
	}
	return out.Bytes()
}

func joinClose(w *gzip.Writer, err error) error {
	if closed := w.Close(); err == nil {
		err = closed
	}
	return err
}
