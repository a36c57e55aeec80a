package lab

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Lease is an app's DHCP lease. Routes is option 121 as busybox formats it, "net/len gateway …".
type Lease struct {
	IP                                            netip.Addr
	Mask, Router, DNS, Domain, Hostname, MTU, NTP string
	Routes, Server                                string
}

// DHCP gets a lease for an interface of an app's namespace with udhcpc and configures the interface: address, MTU,
// routes, nameservers. The client does not keep running.
func (l *Lab) DHCP(ctx context.Context, short, ifName string) (Lease, error) {
	lease := filepath.Join(l.Dir, short+"."+ifName+".lease")
	if err := os.Remove(lease); err != nil && !os.IsNotExist(err) {
		return Lease{}, fmt.Errorf("get lease: %w", err)
	}
	if err := command(ctx, "ip", "-n", l.NS(short), "link", "set", ifName, "up"); err != nil {
		return Lease{}, fmt.Errorf("get lease: %w", err)
	}
	argv := []string{"udhcpc", "-i", ifName, "-f", "-n", "-q", "-t", "10", "-T", "1", "-A", "1", "-s", l.script()}
	for _, o := range []string{"staticroutes", "mtu", "ntpsrv", "hostname"} {
		argv = append(argv, "-O", o)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "LAB_LEASE="+lease, "LAB_RESOLV="+l.resolv(short))
	r, err := l.runInside(short, cmd)
	if err != nil {
		return Lease{}, err
	}
	if r.Code != 0 {
		return Lease{}, fmt.Errorf("get lease: udhcpc on %s of %s: status %d: %s", ifName, short, r.Code,
			strings.TrimSpace(r.Err))
	}
	text, err := os.ReadFile(lease)
	if err != nil {
		return Lease{}, fmt.Errorf("get lease: %w", err)
	}
	return parseLease(string(text))
}

func parseLease(text string) (Lease, error) {
	reported := map[string]string{}
	for line := range strings.Lines(text) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		reported[k] = v
	}
	ip, err := netip.ParseAddr(reported["ip"])
	if err != nil {
		return Lease{}, fmt.Errorf("read lease: %w", err)
	}
	return Lease{
		IP: ip, Mask: reported["mask"], Router: reported["router"], DNS: reported["dns"], Domain: reported["domain"],
		Hostname: reported["hostname"], MTU: reported["mtu"], NTP: reported["ntp"], Routes: reported["routes"],
		Server: reported["server"],
	}, nil
}
