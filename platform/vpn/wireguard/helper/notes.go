package helper

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.zx2c4.com/wireguard/device"
)

const (
	// maxNotes bounds the addresses that are noted: strangers can send from any number of them.
	maxNotes = 32
	// maxLines bounds the output, which is in memory and never truncated: the last errors of a process tell why it ended.
	maxLines = 200
)

// noticed is what the log of wireguard-go tells of peers, which its protocol does not.
type noticed struct {
	mu    sync.Mutex
	out   io.Writer
	lines int
	seen  map[string]map[netip.Addr]time.Time // by kind
}

func newNoticed(out io.Writer) *noticed {
	return &noticed{out: out, seen: map[string]map[netip.Addr]time.Time{BadInitiation: {}, BadResponse: {}}}
}

// The formats of the messages (device/receive.go), each with the peer's address and port.
var formats = map[string]string{
	"Received invalid initiation message from %s": BadInitiation,
	"Received invalid response message from %s":   BadResponse,
}

func (n *noticed) logger() *device.Logger {
	return &device.Logger{
		Verbosef: func(format string, args ...any) {
			if kind := formats[format]; kind != "" && len(args) == 1 {
				n.note(kind, fmt.Sprint(args[0]), time.Now())
			}
		},
		Errorf: n.errorf,
	}
}

func (n *noticed) note(kind, from string, now time.Time) {
	at, err := netip.ParseAddrPort(from)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := n.seen[kind]
	if _, known := seen[at.Addr()]; !known && len(seen) >= maxNotes {
		oldest := at.Addr()
		for a, t := range seen {
			if first, ok := seen[oldest]; !ok || t.Before(first) {
				oldest = a
			}
		}
		delete(seen, oldest)
	}
	seen[at.Addr()] = now
}

func (n *noticed) errorf(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lines++; n.lines <= maxLines {
		fmt.Fprintf(n.out, "%s %s\n", time.Now().UTC().Format(time.RFC3339), fmt.Sprintf(format, args...))
	}
}

func (n *noticed) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	for kind, seen := range n.seen {
		for a, t := range seen {
			fmt.Fprintf(&b, "%s=%s %d\n", kind, a.Unmap().WithZone(""), t.Unix())
		}
	}
	return b.String()
}
