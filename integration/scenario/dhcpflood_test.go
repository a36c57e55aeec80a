package scenario

import (
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"
)

// folderSize returns the size of the files below a folder, in bytes.
func (w *world) folderSize(folder string) (sum int64) {
	w.Helper()
	err := filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if st, err := d.Info(); err == nil { // a file that is deleted meanwhile has none
			sum += st.Size()
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return sum
}

// An app sends DHCP requests as fast as it can, with its own MAC; dnsmasq logs a line for each. The network's run
// folder, which is in memory, contains at most 1 MB, with a daemon that truncates the log and without one.
func TestAFloodOfDHCPFillsNoRunFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll)))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.lease("client")
	everybody, all := net.HardwareAddr{255, 255, 255, 255, 255, 255}, netip.MustParseAddr("255.255.255.255")
	web, own, other := w.raw("web"), w.mac("web", "eth0"), w.mac("client", "eth0")
	w.in("web", "ip", "link", "set", "eth0", "up")
	folder := filepath.Join(w.Dir, "run", "ni", "1")
	request := func(chaddr net.HardwareAddr) []byte { // for an address that is not its own: refused by name
		return ether(everybody, own, etherIPv4,
			ipv4(netip.IPv4Unspecified(), all, 17, dhcpAsk(chaddr, 53, 1, 3, 54, 4, 10, 1, 0, 1, 50, 4, 10, 1, 0, 99)))
	}
	flood := func(what string, limit int64, frames ...[]byte) (peak int64) {
		t.Helper()
		before, sent := w.folderSize(folder), 0
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); sent++ {
			if err := web.send(frames[sent%len(frames)]); err != nil {
				t.Fatal(err)
			}
			if sent%200 == 0 {
				peak = max(peak, w.folderSize(folder)-before)
			}
		}
		peak = max(peak, w.folderSize(folder)-before)
		t.Logf("%s: %d requests, the run folder grows by %d octets", what, sent, peak)
		if peak > limit || sent < 5000 {
			t.Errorf("%s: it grows by %d octets, which may be %d, for %d requests", what, peak, limit, sent)
		}
		return peak
	}
	w.eventually("a line about a request", func() bool { // dnsmasq receives the flood
		before := w.folderSize(folder)
		if err := web.send(request(own)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond) // until the rate limit permits the next one
		return w.folderSize(folder) > before
	})
	flood("a daemon runs", 1<<20, request(own), request(other))
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	// Eight per second and a burst of 32 pass, with lines of some 80 bytes.
	flood("no daemon runs", 8<<10, request(own))
	flood("no daemon runs, in the name of another", 8<<10, request(other))
	w.lease("client")
}
