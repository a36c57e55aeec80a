package guest

import (
	"net"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// The Attacks of a hostile app, each for some seconds.
var Attacks = []string{"spoof", "arp", "flows", "dhcp", "fragments", "random"}

// attack sends what an app must not, from its link. What it sends carries no beacon, but for "spoof", whose beacons
// name no app: none may arrive anywhere.
func attack(kind, link string) {
	i, err := net.InterfaceByName(link)
	if err != nil {
		return
	}
	if kind == "flows" || kind == "dhcp" {
		attackFromAbove(kind, link)
		return
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	to := &unix.SockaddrLinklayer{Ifindex: i.Index, Protocol: htons(unix.ETH_P_ALL)}
	for n := range 2000 {
		_ = unix.Sendto(fd, hostileFrame(kind, n, i.HardwareAddr), 0, to)
		time.Sleep(2 * time.Millisecond)
	}
}

// attackFromAbove opens flows, or asks for addresses under many names.
func attackFromAbove(kind, link string) {
	for n := range 2000 {
		if kind == "dhcp" && n%100 == 0 {
			_ = exec.Command("udhcpc", "-i", link, "-f", "-q", "-n", "-t", "1", "-T", "1", "-C", "-x",
				"0x3d:"+hexOf(n), "-s", "/bin/true").Run()
			continue
		}
		if c, err := net.Dial("udp4", net.JoinHostPort("198.51.100.80", portOf(n))); err == nil {
			_, _ = c.Write([]byte("x"))
			_ = c.Close()
		}
	}
}
