package dnsmasq

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// What a helper says stays in memory: the run folder is a tmpfs that it shares with others, and
// an app can have dnsmasq say a line for each packet. The file is opened for appending, so
// it can be emptied under a helper that goes on writing. While no daemon runs it grows; the
// next one empties it within a round.
const (
	outMax = 64 << 10 // octets of one helper
	// One round each outRound, and longer with many helpers: 2,000 of them a second cost some
	// thousandths of a core.
	outRound = 100 * time.Millisecond
	outEach  = 500 * time.Microsecond
)

// trimAll empties the outputs that have grown too large, and says when to look again.
func (h *Helpers) trimAll() time.Duration {
	h.guard.mu.Lock()
	names := slices.Collect(maps.Keys(h.guard.on))
	h.guard.mu.Unlock()
	for _, name := range names {
		trim(filepath.Join(h.folder(name), outFile))
	}
	return max(outRound, time.Duration(len(names))*outEach)
}

// trim empties a file that is larger than outMax. What fails is tried again in the next round.
func trim(path string) {
	if st, err := os.Lstat(path); err == nil && st.Mode().IsRegular() && st.Size() > outMax {
		_ = os.Truncate(path, 0)
	}
}
