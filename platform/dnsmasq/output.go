package dnsmasq

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A helper's output is in memory: the run folder is a tmpfs that helpers share, and an app can make dnsmasq print a
// line for each packet. The file is opened for appending, so it can be truncated while a helper writes. It grows while
// no daemon runs; the next daemon truncates it within a round.
const (
	outMax = 64 << 10 // bytes per helper
	// The length of a round: outRound, or longer with many helpers. 2,000 helpers per second cost some thousandths of a
	// core.
	outRound = 100 * time.Millisecond
	outEach  = 500 * time.Microsecond
)

// trimAll truncates the outputs that have grown too large, and returns the time to the next round.
func (h *Helpers) trimAll() time.Duration {
	h.guard.mu.Lock()
	names := slices.Collect(maps.Keys(h.guard.on))
	h.guard.mu.Unlock()
	for _, name := range names {
		trim(filepath.Join(h.folder(name), outFile))
	}
	return max(outRound, time.Duration(len(names))*outEach)
}

// trim truncates a file that is larger than outMax. The next round retries a failure.
func trim(path string) {
	if st, err := os.Lstat(path); err == nil && st.Mode().IsRegular() && st.Size() > outMax {
		_ = os.Truncate(path, 0)
	}
}
