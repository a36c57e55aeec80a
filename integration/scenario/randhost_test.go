package scenario

import (
	wire "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"edgespan/netinst"
)

// noticeTime is how long dnsmasq may take to read a changed file.
const noticeTime = 2 * time.Second

// seedForeign creates foreign objects on the node, some with names, numbers and marks similar to edgespan's, and the
// links to enslave.
func (r *random) seedForeign() {
	script := `set -e
for l in es1000 es01 esx es1b2; do ip link add $l type bridge; ip link set $l addrgenmode none; done
ip link set es1000 group 20101; ip link set esx up; ip addr add 198.51.100.200/32 dev esx
ip rule add priority 20001 from 203.0.113.0/24 lookup main
ip rule add priority 17998 from 203.0.113.0/24 lookup 20001 protocol 101
ip route add 203.0.120.0/24 via 192.0.2.1 table 20001 protocol static
ip route add 203.0.114.0/24 via 192.0.2.1 table 555
for c in ESX-FWD ES1000-FWD ES01-FWD DOCKER; do iptables -N $c; iptables -A $c -s 203.0.113.7 -j DROP; iptables ` +
		`-t nat -N $c; done
iptables -A FORWARD -s 203.0.113.1 -j DROP
iptables -A INPUT -s 203.0.113.2 -j DOCKER
iptables -t nat -A POSTROUTING -s 203.0.113.0/24 -j MASQUERADE
nft add table bridge es1x
nft add table inet es1
nft add chain inet es1 es1 '{ type filter hook forward priority 10; }'
nft add rule inet es1 es1 ip saddr 203.0.113.8 drop
for l in lan0 lan1 ext1 ext2; do ip link add $l type veth peer name p-$l netns $0; ip link set $l up; ip -n $0 ` +
		`link set p-$l up; done
mkdir -p $1/ni/1000x $1/ni/01; echo of others >$1/notes; echo port=0 >$1/ni/1000x/dnsmasq.conf; echo x >$1/ni/01/owner`
	r.in("node", "sh", "-c", script, r.NS("isp"), r.RunDir())
	r.eventually("addresses that are not tentative", func() bool {
		return !strings.Contains(r.in("node", "ip", "-o", "addr"), "tentative")
	})
}

// ours matches the marks of edgespan's objects and of enslaved links in the output of tools.
var ours = regexp.MustCompile(`\bES(-|[1-9]\d{0,2}-)|\b(es[1-9]\d{0,2}(a\d+)?|lan[01]|ext[12]|vm[12])\b|` +
	`^(1[5689]|2[012])\d{3}:.*proto 101|table (20\d{3}|[34]\d{4}) proto 101|es-doomed|^(\*|COMMIT|:[A-Z]+ ACCEPT)`)

var timers = regexp.MustCompile(`(hello_timer|tcn_timer|topology_change_timer|gc_timer) +[0-9.]+|\[\d+:\d+\]`)

// others returns everything on the node that is not edgespan's.
func (r *random) others() []string {
	const script = `ip -d -o link; ip -o addr; ip rule; ip route show table all; ip -6 route show table all
iptables-save | grep -v '^#'; nft -a list table bridge es1x; nft -a -s list table inet es1
for f in notes ni/1000x/dnsmasq.conf ni/01/owner; do stat -c '%n %i %Y %a' $0/$f; cat $0/$f; done`
	var out []string
	inet := false
	for line := range strings.Lines(r.in("node", "sh", "-c", script, r.RunDir())) {
		inet = inet || strings.HasPrefix(line, "table inet es1")
		if inet || !ours.MatchString(line) {
			out = append(out, timers.ReplaceAllString(line, ""))
		}
	}
	return out
}

// link is one line of ip -j link.
type link struct {
	IfIndex                 int
	IfName, Master, Address string
	MTU                     int
}

func (r *random) kernelLinks(args ...string) []link {
	var all []link
	text := r.in("node", append(append([]string{"ip"}, args...), "-j", "link")...)
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		r.Fatalf("ip -j link: %v: %s", err, text)
	}
	return all
}

var borrowable = regexp.MustCompile(`^(lan[01]|ext[12])$`)

// borrowed returns the indices of the foreign links that the daemon may enslave.
func (r *random) borrowed() map[string]int {
	found := map[string]int{}
	for _, l := range r.kernelLinks() {
		if borrowable.MatchString(l.IfName) {
			found[l.IfName] = l.IfIndex
		}
	}
	return found
}

// verify compares the kernel's state with the current config.
func (r *random) verify() {
	r.Helper()
	all, err := r.adapters()
	if err != nil {
		r.Fatal(err)
	}
	bridges := r.bridges()
	r.verifyAddresses(all)
	r.verifyLinks(all, bridges)
	r.verifyMarks(bridges)
	r.verifyNames(all, bridges)
	if d := cmp.Diff(r.foreign, r.others()); d != "" {
		r.fail("what belongs to others moved (-before +now):\n%s", d)
	}
}

// bridges returns the numbers of the networks.
func (r *random) bridges() map[int]int {
	items, err := r.client.List(r.ctx, "ni")
	if err != nil {
		r.Fatal(err)
	}
	numbers := map[int]int{}
	for _, it := range items {
		s, _ := it.Status.(map[string]any)
		for i := range r.now.nets {
			if n, _ := s["number"].(float64); it.ID == ni(i) {
				numbers[i] = int(n)
			}
		}
	}
	return numbers
}

// verifyAddresses checks that no address or MAC is shared, and that fixed ones are used.
func (r *random) verifyAddresses(all map[string]adapterStatus) {
	r.Helper()
	holder := map[string]string{}
	hold := func(what, who string) {
		if other, shared := holder[what]; shared {
			r.fail("%s is shared by the adapters %s and %s", what, other, who)
		}
		holder[what] = who
	}
	for id, s := range all {
		if s.MAC != "" {
			hold(s.MAC, id)
		}
		if s.IP != "" {
			hold(s.IP+" on "+s.NetworkInstance, id)
		}
	}
	for i, a := range r.now.apps {
		for j, c := range a.adapters {
			id := fmt.Sprintf("%s/%d", app(i), j)
			s := all[id]
			if s.Activated && (c.mac != "" && s.MAC != c.mac || c.ip != "" && s.IP != c.ip ||
				(s.IP != "") != r.now.nets[c.net].local) {
				r.fail("adapter %s is %+v, desired are %+v", id, s, *c)
			}
		}
	}
}

// verifyLinks checks that the links are those that the config needs, in their places.
func (r *random) verifyLinks(all map[string]adapterStatus, bridges map[int]int) {
	r.Helper()
	want := map[string]string{}  // link of the node to its bridge
	peers := map[string]string{} // namespace and link of an app to its MAC
	for i, n := range r.now.nets {
		br := fmt.Sprintf("es%d", bridges[i])
		want[br] = ""
		if !n.local && n.port != "" {
			want[map[string]string{"lan": "lan0", "lan2": "lan1"}[n.port]] = br
		}
	}
	for i, a := range r.now.apps {
		for j, c := range a.adapters {
			s := all[fmt.Sprintf("%s/%d", app(i), j)]
			if !s.Activated {
				continue
			}
			want[s.HostIfName] = fmt.Sprintf("es%d", bridges[c.net])
			if c.kind == "veth" {
				peers[c.ns+" "+c.ifName] = s.MAC
			}
		}
	}
	for l := range r.links {
		if _, used := want[l]; !used {
			want[l] = ""
		}
	}
	got := map[string]string{}
	doomed := func() (n int) {
		clear(got)
		for _, l := range r.kernelLinks() {
			if ours.MatchString(l.IfName) && !strings.HasPrefix(l.IfName, "es-doomed") {
				got[l.IfName] = l.Master
			} else if strings.HasPrefix(l.IfName, "es-doomed") && l.IfName != "es-doomedx" {
				n++
			}
		}
		return n
	}
	r.eventually("the end of what is doomed", func() bool { return doomed() == 0 })
	if !maps.Equal(got, want) {
		r.fail("links and their bridges are %v, want %v", got, want)
	}
	if now := r.borrowed(); !maps.Equal(now, r.links) {
		r.fail("the links of others were %v and are %v", r.links, now)
	}
	r.verifyPeers(peers)
}

func (r *random) verifyPeers(want map[string]string) {
	r.Helper()
	got := map[string]string{}
	for _, ns := range drawnNS {
		if ns == lateNS && !r.late {
			continue
		}
		for _, l := range r.kernelLinks("-n", r.NS(ns)) {
			if l.IfName != "lo" {
				got[ns+" "+l.IfName] = l.Address
			}
		}
	}
	if !maps.Equal(got, want) {
		r.fail("the apps' interfaces are %v, want %v", got, want)
	}
}

// numbered matches objects with the number of a network, by tool.
var numbered = map[string]*regexp.Regexp{
	"chains":      regexp.MustCompile(`(?m)^:ES([1-9]\d{0,2})-`),
	"tables":      regexp.MustCompile(`table 20(\d{3}) proto 101`),
	"rules":       regexp.MustCompile(`(?m)^2[012](\d{3}):.*proto 101`),
	"frames":      regexp.MustCompile(`(?m)^\tchain ES([1-9]\d{0,2})-`), // of nft
	"dnsmasq":     regexp.MustCompile(`--conf-file=\S*/ni/(\d+)/`),
	"run folders": regexp.MustCompile(`(?m)^run/([1-9]\d{0,2})$`),
	"addresses":   regexp.MustCompile(`(?m) es(\d+) +inet (\S+)`),
}

// verifyMarks checks that every existing network has all its marks, and no other network has any.
func (r *random) verifyMarks(bridges map[int]int) {
	r.Helper()
	text := r.in("node", "sh", "-c", `iptables-save; ip rule; ip route show table all; nft list table bridge edgespan; ip -o -4 addr
for p in $(ip netns pids "$0"); do tr '\0' ' ' </proc/$p/cmdline; echo; done`, r.NS("node"))
	for _, f := range r.runFolders() {
		text += "\nrun/" + f
	}
	pools := map[string][]string{}
	for i, n := range r.now.nets {
		number := fmt.Sprint(bridges[i])
		for _, k := range []string{"chains", "run folders"} {
			pools[k] = append(pools[k], number)
		}
		if n.local {
			pools["dnsmasq"] = append(pools["dnsmasq"], number)
			if !n.off {
				pools["tables"], pools["rules"] = append(pools["tables"], number), append(pools["rules"], number)
			}
			pools["addresses"] = append(pools["addresses"], number+" "+n.gateway.String())
			if n.shared {
				pools["addresses"] = append(pools["addresses"], number+" "+netinst.AnswerAddr(bridges[i]).String()+"/32")
			}
		}
	}
	for what, mark := range numbered {
		var got []string
		for _, m := range mark.FindAllStringSubmatch(text, -1) {
			if n := strings.TrimLeft(m[1], "0"); n != "" { // 22000 ends the host's tree of rules
				got = append(got, strings.Join(append([]string{n}, m[2:]...), " "))
			}
		}
		slices.Sort(got)
		slices.Sort(pools[what])
		if what == "frames" { // only networks with adapters or open ports have these
			pools[what] = slices.DeleteFunc(slices.Clone(pools["chains"]), func(n string) bool { return !slices.Contains(got, n) })
			slices.Sort(pools[what])
		}
		if what != "dnsmasq" && what != "addresses" { // each network has these
			got = slices.Compact(got)
		}
		if !slices.Equal(got, pools[what]) {
			r.fail("%s of networks are %v, want %v", what, got, pools[what])
		}
	}
}

// verifyNames checks that each network's DNS server knows its apps with their addresses, and no others.
func (r *random) verifyNames(all map[string]adapterStatus, bridges map[int]int) {
	r.Helper()
	index := map[string]int{}
	for _, l := range r.kernelLinks() {
		index[l.IfName] = l.IfIndex
	}
	for n, net := range r.now.nets {
		if !net.local {
			continue
		}
		server := net.gateway.Addr()
		if net.shared {
			server = netinst.AnswerAddr(bridges[n])
		}
		for i := 1; i <= maxApps; i++ {
			a, ok := r.now.apps[i]
			if !ok {
				a.name = app(i)
			}
			var want []string
			for j := range a.adapters {
				if s := all[fmt.Sprintf("%s/%d", app(i), j)]; s.NetworkInstance == ni(n) && s.IP != "" {
					want = append(want, s.IP)
				}
			}
			slices.Sort(want)
			for end := time.Now().Add(noticeTime); ; {
				got := r.ask(server, index[fmt.Sprint("es", bridges[n])], a.name+"."+net.domain)
				if slices.Equal(got, want) {
					break
				}
				if time.Now().After(end) {
					r.fail("network %d answers %v for %s.%s, want %v", n, got, a.name, net.domain, want)
				}
			}
		}
	}
}

// ask returns the addresses of a name from a network's DNS server, in order. Several bridges may have the server's
// address.
func (r *random) ask(server netip.Addr, bridge int, name string) []string {
	found := []string{}
	d := &net.Dialer{Timeout: time.Second, Control: func(_, _ string, c syscall.RawConn) (err error) {
		index := wire.BigEndian.Uint32(wire.NativeEndian.AppendUint32(nil, uint32(bridge))) // ip(7)
		return errors.Join(c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_UNICAST_IF, int(index))
		}), err)
	}}
	err := r.inside("node", func() error {
		q := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA)
		in, _, err := (&dns.Client{Timeout: time.Second, Dialer: d}).Exchange(q, netip.AddrPortFrom(server, 53).String())
		if err != nil {
			return err
		}
		for _, rr := range in.Answer {
			if a, ok := rr.(*dns.A); ok {
				found = append(found, a.A.String())
			}
		}
		return nil
	})
	if err != nil {
		return []string{err.Error()}
	}
	slices.Sort(found)
	return found
}
