package bench

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"edgespan/platform/proc"
)

// floor is the program of ours with nothing around it.
type floor struct {
	*place
	h       *netlink.Handle
	helpers []*exec.Cmd
}

func (p *place) floor() *floor {
	p.Helper()
	f := &floor{place: p}
	p.check(proc.In(p.ns.Path, func() (err error) {
		f.h, err = netlink.NewHandle()
		return err
	}))
	p.end = append(p.end, f.h.Close, func() {
		for _, c := range f.helpers {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	f.restore("*filter\n:F-FWD - [0:0]\n-I FORWARD 1 -j F-FWD\nCOMMIT\n*nat\n:F-POST - [0:0]\n-I POSTROUTING 1 -j " +
		"F-POST\nCOMMIT\n")
	return f
}

func (f *floor) restore(text string) {
	f.Helper()
	f.check(proc.In(f.ns.Path, func() error {
		cmd := exec.Command("iptables-restore", "--noflush")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("iptables-restore: %w: %s\n%s", err, out, text)
		}
		return nil
	}))
}

func (f *floor) bridge(n int) string { return fmt.Sprintf("fb%d", n) }

// network makes one: bridge without an IPv6 address of its own, address, route
// table and rules, one restore of its chains, dnsmasq.
func (f *floor) network(n int) {
	f.Helper()
	f.link(n)
	f.restore(f.chains(n))
	f.dnsmasq(n)
}

// networks makes many in the order that costs least: the links of all, one restore of all
// chains, and each dnsmasq once no more addresses come, since each of these wakes all of those.
func (f *floor) networks(count int) {
	f.Helper()
	text := ""
	for n := range count {
		f.link(n + 1)
		text += f.chains(n + 1)
	}
	f.restore(text)
	for n := range count {
		f.dnsmasq(n + 1)
	}
}

// batch makes many networks with the fewest commands: one ip for all links, addresses, routes and rules, one restore of
// all chains, and four dnsmasqs at a time, each of which comes back when it serves.
func (f *floor) batch(count int) {
	f.Helper()
	var links, chains strings.Builder
	for n := 1; n <= count; n++ {
		fmt.Fprintf(&links, "link add %[1]s type bridge\nlink set %[1]s addrgenmode none\naddr add %[2]s/24 dev %[1]s\n"+
			"link set %[1]s up\nroute add %[3]s dev %[1]s table %[4]d\nroute add default via 192.0.2.1 dev eth0 table %[4]d\n"+
			"rule add from %[3]s lookup %[4]d pref %[4]d\nrule add to %[3]s lookup %[4]d pref %[5]d\n",
			f.bridge(n), gateway(n), subnet(n), 20000+n, 21000+n)
		chains.WriteString(f.chains(n))
	}
	f.check(proc.In(f.ns.Path, func() error {
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(links.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ip -batch: %w: %s", err, out)
		}
		return nil
	}))
	f.restore(chains.String())
	waiting := make(chan string, count)
	for n := 1; n <= count; n++ {
		waiting <- f.dnsmasqConf(n, "hostsfile")
	}
	close(waiting)
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() { errs <- proc.In(f.ns.Path, func() error { return startEach(waiting) }) }()
	}
	for range cap(errs) {
		f.check(<-errs)
	}
	f.end = append(f.end, func() { f.endHelpers() })
}

// startEach starts one dnsmasq after the other.
func startEach(confs <-chan string) error {
	for conf := range confs {
		if out, err := exec.Command("dnsmasq", "-C", conf).CombinedOutput(); err != nil {
			return fmt.Errorf("dnsmasq -C %s: %w: %s", conf, err, out)
		}
	}
	return nil
}

// endHelpers ends the dnsmasqs of this place that went into the background.
func (f *floor) endHelpers() {
	for pid := range strings.FieldsSeq(f.place.helpers()) {
		n, err := strconv.Atoi(pid)
		f.check(err)
		f.check(unix.Kill(n, unix.SIGKILL))
	}
}

// link makes a network's bridge, route table and rules.
func (f *floor) link(n int) {
	f.Helper()
	name, gw, sub := f.bridge(n), gateway(n), subnet(n)
	br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: 1500}}
	f.check(f.h.LinkAdd(br))
	addr := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(gw, sub.Bits()))}
	uplink, err := f.h.LinkByName("eth0")
	f.check(err)
	from, to := netlink.NewRule(), netlink.NewRule()
	from.Priority, from.Table, from.Src = 20000+n, 20000+n, ipNet(sub)
	to.Priority, to.Table, to.Dst = 21000+n, 20000+n, ipNet(sub)
	f.check(errors.Join(
		f.h.LinkSetIP6AddrGenMode(br, 1), // IN6_ADDR_GEN_MODE_NONE
		f.h.AddrAdd(br, addr), f.h.LinkSetUp(br),
		f.h.RouteAdd(&netlink.Route{Table: 20000 + n, Dst: ipNet(sub), LinkIndex: br.Index, Scope: netlink.SCOPE_LINK}),
		f.h.RouteAdd(&netlink.Route{
			Table: 20000 + n, Dst: ipNet(netip.PrefixFrom(netip.IPv4Unspecified(), 0)),
			LinkIndex: uplink.Attrs().Index, Gw: net.IPv4(192, 0, 2, 1),
		}),
		f.h.RuleAdd(from), f.h.RuleAdd(to),
	))
}

// chains are what a restore makes a network's chains of.
func (f *floor) chains(n int) string {
	return fmt.Sprintf("*filter\n:F%[1]d-FWD - [0:0]\n"+
		"-A F%[1]d-FWD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A F%[1]d-FWD -j DROP\n"+
		"-A F-FWD -i %[2]s -j F%[1]d-FWD\n-A F-FWD -o %[2]s -j F%[1]d-FWD\nCOMMIT\n"+
		"*nat\n:F%[1]d-POST - [0:0]\n-A F%[1]d-POST -o eth0 -j MASQUERADE\n-A F-POST -s %[3]s -j F%[1]d-POST\nCOMMIT\n",
		n, f.bridge(n), subnet(n))
}

func (f *floor) dnsmasq(n int) {
	f.Helper()
	path := f.dnsmasqConf(n, "hostsdir")
	f.check(proc.In(f.ns.Path, func() error {
		cmd, out := exec.Command("dnsmasq", "-k", "-C", path), &bytes.Buffer{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			return err
		}
		f.helpers = append(f.helpers, cmd)
		return nil
	}))
}

// dnsmasqConf writes the config of a network's dnsmasq. It reads its hosts from a "hostsdir", which it watches, or once
// from a "hostsfile".
func (f *floor) dnsmasqConf(n int, hosts string) string {
	f.Helper()
	dir := filepath.Join(f.dir, fmt.Sprint(n))
	f.check(os.MkdirAll(filepath.Join(dir, "hosts"), 0o755))
	last := subnet(n).Addr().As4()
	first := last
	first[3], last[3] = 128, 254
	if n == 0 {
		last[2] += 7
	}
	conf := fmt.Sprintf("port=53\nno-resolv\nserver=192.0.2.1\ninterface=%s\nbind-dynamic\nexcept-interface=lo\n"+
		"dhcp-range=%s,%s,1h\ndhcp-%s=%s/hosts\ndhcp-leasefile=%[5]s/leases\npid-file=%[5]s/pid\naddress=/gateway.lan/%[6]s\n",
		f.bridge(n), netip.AddrFrom4(first), netip.AddrFrom4(last), hosts, dir, gateway(n))
	path := filepath.Join(dir, "conf")
	f.check(os.WriteFile(path, []byte(conf), 0o644))
	f.check(os.Chmod(dir, 0o777)) // the lease file is dnsmasq's
	return path
}

// adapter makes a veth pair, a lease and a chain of rules.
func (f *floor) adapter(k, n, rules int) {
	f.Helper()
	name := fmt.Sprintf("fv%d", k)
	addr := subnet(n).Addr()
	for range 300 + k {
		addr = addr.Next()
	}
	mac := net.HardwareAddr{2, 0, 0, 0, byte(k >> 8), byte(k)}
	f.check(os.WriteFile(filepath.Join(f.dir, fmt.Sprint(n), "hosts", name), fmt.Appendf(nil, "%s,%s\n", mac, addr),
		0o644))
	f.rules(k, n, rules, fmt.Sprintf("-I F%[1]d-FWD 2 -m physdev --physdev-in %[3]s -g F%[1]d-%[2]d\n", n, k, name))

	ns, err := os.Open(f.apps[k].Path)
	f.check(err)
	defer ns.Close()
	br, err := f.h.LinkByName(f.bridge(n))
	f.check(err)
	v := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name, MTU: 1500, MasterIndex: br.Attrs().Index},
		PeerName:  "eth0", PeerNamespace: netlink.NsFd(ns.Fd()), PeerHardwareAddr: mac,
	}
	f.check(f.h.LinkAdd(v))
	f.check(f.h.LinkSetIP6AddrGenMode(v, 1))
	f.check(f.h.LinkSetUp(v))
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// rules writes an adapter's chain whole.
func (f *floor) rules(k, n, rules int, more ...string) {
	f.Helper()
	text := &strings.Builder{}
	fmt.Fprintf(text, "*filter\n:F%d-%d - [0:0]\n", n, k)
	for i := range rules {
		fmt.Fprintf(text, "-A F%d-%d -d 198.51.%d.%d/32 -p tcp -m tcp --dport 443 -j ACCEPT\n", n, k, i/250, i%250+1)
	}
	fmt.Fprintf(text, "-A F%d-%d -j DROP\n%sCOMMIT\n", n, k, strings.Join(more, ""))
	f.restore(text.String())
}

// remove takes all of it away: dnsmasqs, chains, routes and rules, and the links in
// one deletion of a group.
func (f *floor) remove() {
	f.Helper()
	for _, p := range f.helpers {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
	f.helpers = nil
	f.restore("*nat\n-F\n-X\nCOMMIT\n*filter\n-F\n-X\nCOMMIT\n")
	links := f.doom(f.h, "fb", "fv")
	rules, err := f.h.RuleList(netlink.FAMILY_V4)
	f.check(err)
	for _, r := range rules {
		if r.Table > 20000 {
			f.check(f.h.RuleDel(&r))
		}
	}
	f.reap(links)
}

const group = 7

// doom takes the links whose names begin so down and into one group.
func (p *place) doom(h *netlink.Handle, prefixes ...string) int {
	p.Helper()
	links, err := h.LinkList()
	p.check(err)
	n := 0
	for _, l := range links {
		if slices.ContainsFunc(prefixes, func(s string) bool { return strings.HasPrefix(l.Attrs().Name, s) }) {
			err := h.LinkSetDown(l)
			if err == nil {
				err = h.LinkSetGroup(l, group)
			}
			if errors.Is(err, unix.ENODEV) {
				continue // gone with the namespace of its peer
			}
			p.check(err)
			n++
		}
	}
	return n
}

// reap deletes what is doomed, in one deletion.
func (p *place) reap(doomed int) {
	p.Helper()
	if doomed == 0 {
		return
	}
	p.check(proc.In(p.ns.Path, func() error {
		req := nl.NewNetlinkRequest(unix.RTM_DELLINK, unix.NLM_F_ACK)
		req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		req.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(group)))
		if _, err := req.Execute(unix.NETLINK_ROUTE, 0); !errors.Is(err, unix.ENODEV) {
			return err
		}
		return nil // all of them went with the namespaces of their peers meanwhile
	}))
}

// clear deletes every link of the place: the kernel does that for a namespace that
// goes, too, but later, in the time of the next turn.
func (p *place) clear() {
	p.Helper()
	var h *netlink.Handle
	p.check(proc.In(p.ns.Path, func() (err error) {
		h, err = netlink.NewHandle()
		return err
	}))
	defer h.Close()
	p.reap(p.doom(h, "es", "fb", "fv", "eth"))
}
