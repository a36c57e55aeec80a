package resolvconf

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
)

func write(t *testing.T, root, path, text string) {
	t.Helper()
	p := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	tmp := p + ".tmp"
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, p); err != nil {
		t.Fatal(err)
	}
}

func told(sources []netstate.DNSSource) string {
	var lines []string
	for _, s := range sources {
		line := fmt.Sprint(s.Program, " ", s.Path, " ", s.Link, " ", s.Servers)
		if s.Lease.IsValid() {
			line += " lease " + s.Lease.String()
		}
		if s.Skipped != "" {
			line += " skipped: " + s.Skipped
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestReadFindsWhatEachProgramHasWritten(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"run/systemd/resolve/netif/2":                 "SERVERS=192.0.2.1\n",
		"run/systemd/netif/links/2":                   "DNS=192.0.2.2\n",
		"run/systemd/netif/links/3":                   "DNS=192.0.2.3\n",
		"run/resolvconf/interface/eth0.dhclient":      "nameserver 192.0.2.4\n",
		"run/resolvconf/interface/eth0.100.udhcpc":    "nameserver 192.0.2.5\n",
		"run/dhcpcd/hook-state/resolv.conf/eth0.dhcp": "nameserver 192.0.2.6\n",
		"var/lib/dhcp/dhclient.eth0.leases": strings.Repeat("# long\n", 20000) +
			"lease {\n interface \"eth0\";\n fixed-address 192.0.2.9;\n option domain-name-servers 192.0.2.7;\n}\n",
		"var/lib/NetworkManager/dhclient-u-eth0.lease": "lease {\n interface \"eth9\";\n option domain-name-servers " +
			"192.0.2.8;\n}\n",
		"run/NetworkManager/resolv.conf": "nameserver 9.9.9.9\n",
	} {
		write(t, root, path, text)
	}
	write(t, root, "etc/x", "")
	// absolute: below the root all the same
	if err := os.Symlink("/run/NetworkManager/resolv.conf", filepath.Join(root, "etc/resolv.conf")); err != nil {
		t.Fatal(err)
	}
	got := Reader{Root: root}.Read([]Link{{"eth0", 2}, {"eth0.100", 3}})
	for link, want := range map[string]string{
		"eth0": `systemd-resolved /run/systemd/resolve/netif/2 true [192.0.2.1]
systemd-networkd /run/systemd/netif/links/2 true [192.0.2.2]
resolvconf /run/resolvconf/interface/eth0.dhclient true [192.0.2.4]
dhcpcd /run/dhcpcd/hook-state/resolv.conf/eth0.dhcp true [192.0.2.6]
dhclient /var/lib/dhcp/dhclient.eth0.leases true [192.0.2.7] lease 192.0.2.9
NetworkManager /run/NetworkManager/resolv.conf false [9.9.9.9]
resolv.conf /etc/resolv.conf false [9.9.9.9]`,
		"eth0.100": `systemd-networkd /run/systemd/netif/links/3 true [192.0.2.3]
resolvconf /run/resolvconf/interface/eth0.100.udhcpc true [192.0.2.5]
NetworkManager /run/NetworkManager/resolv.conf false [9.9.9.9]
resolv.conf /etc/resolv.conf false [9.9.9.9]`,
	} {
		if s := told(got[link]); s != want {
			t.Errorf("%s:\n%s\nwant\n%s", link, s, want)
		}
	}
}

// Who may write below the root can neither stop us nor lead us elsewhere.
func TestHostileFilesAreSkipped(t *testing.T) {
	root, external := t.TempDir(), t.TempDir()
	write(t, external, "secret", "nameserver 192.0.2.1\nDNS=192.0.2.1\n")
	write(t, root, "run/systemd/netif/links/3", strings.Repeat("DNS=192.0.2.1\n", maxFile/10))
	write(t, root, "etc/x", "")
	if err := os.Symlink(filepath.Join(external, "secret"), filepath.Join(root, "run/systemd/netif/links/2")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../../../../../.."+filepath.Join(external, "secret"),
		filepath.Join(root, "etc/resolv.conf")); err != nil {
		t.Fatal(err)
	}
	for n, path := range []string{"run/systemd/netif/links/4", "run/resolvconf/interface/eth4"} {
		p := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			if err := unix.Mkfifo(p, 0o644); err != nil {
				t.Fatal(err)
			}
		} else if err := os.Mkdir(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got := Reader{Root: root}.Read([]Link{{"eth2", 2}, {"eth3", 3}, {"eth4", 4}})
	for link, want := range map[string]string{
		"eth2": "systemd-networkd /run/systemd/netif/links/2 true [] skipped: is a symbolic link",
		"eth3": fmt.Sprintf("systemd-networkd /run/systemd/netif/links/3 true [] skipped: more than %d bytes", maxFile),
		"eth4": "systemd-networkd /run/systemd/netif/links/4 true [] skipped: not a regular file\nresolvconf " +
			"/run/resolvconf/interface/eth4 true [] skipped: not a regular file",
	} {
		if s := told(got[link]); s != want {
			t.Errorf("%s: %s, want %s", link, s, want)
		}
	}
}

func TestWatchTellsOfWhatIsWritten(t *testing.T) {
	root := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	links, asked := make(chan []Link, 1), make(chan struct{})
	var mu sync.Mutex
	now, times := "not yet", 0
	go Reader{Root: root}.Watch(ctx, links, asked, func(by map[string][]netstate.DNSSource) {
		mu.Lock()
		defer mu.Unlock()
		now, times = told(by["eth0"]), times+1
	})
	check := func(want string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			got := now
			mu.Unlock()
			if got == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("told %q, want %q", got, want)
			}
		}
	}
	links <- []Link{{"eth0", 2}}
	check("")
	// The folder comes after the watch, and a file in it; then another one in its place.
	write(t, root, "run/systemd/netif/links/2", "DNS=192.0.2.1\n")
	check("systemd-networkd /run/systemd/netif/links/2 true [192.0.2.1]")
	write(t, root, "run/systemd/netif/links/2", "DNS=192.0.2.2\n")
	check("systemd-networkd /run/systemd/netif/links/2 true [192.0.2.2]")
	// Nobody tells of what a link leads to from afar: it is read when somebody asks.
	write(t, root, "srv/resolv.conf", "nameserver 192.0.2.3\n")
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/srv/resolv.conf", filepath.Join(root, "etc/resolv.conf")); err != nil {
		t.Fatal(err)
	}
	networkd := "systemd-networkd /run/systemd/netif/links/2 true [192.0.2.2]\n"
	check(networkd + "resolv.conf /etc/resolv.conf false [192.0.2.3]")
	write(t, root, "srv/resolv.conf", "nameserver 192.0.2.4\n")
	asked <- struct{}{}
	check(networkd + "resolv.conf /etc/resolv.conf false [192.0.2.4]")
	if err := os.Remove(filepath.Join(root, "etc/resolv.conf")); err != nil {
		t.Fatal(err)
	}
	check(strings.TrimSpace(networkd))
	// Somebody who writes without end, of another link, is read at a pace and tells nothing.
	before := times
	for n := range 2000 {
		write(t, root, "run/systemd/netif/links/7", fmt.Sprint("DNS=192.0.2.", n%200, "\n"))
	}
	if err := os.Remove(filepath.Join(root, "run/systemd/netif/links/2")); err != nil {
		t.Fatal(err)
	}
	check("")
	mu.Lock()
	defer mu.Unlock()
	if times != before+1 {
		t.Errorf("told %d times", times-before)
	}
}
