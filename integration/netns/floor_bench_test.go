package netns_test

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
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"

	"edgespan/integration/netns"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/platform/host"
	"edgespan/platform/proc"
)

// One local network until its gateway answers DNS, by the host's ops and by a
// program that does the same with nothing around it: netlink, one
// iptables-restore, one nft, dnsmasq, the same question. Each turn makes one of
// each in fresh namespaces, so the ratio is one of the same moment.
func BenchmarkNetworkUntilDNSAnswers(b *testing.B) {
	if os.Getuid() != 0 {
		b.Skip("needs root: makes network namespaces")
	}
	for _, command := range []string{"dnsmasq", "iptables-restore", "nft", "ip"} {
		if _, err := exec.LookPath(command); err != nil {
			b.Skipf("needs %s: make setup installs it", command)
		}
	}
	var ours, floor []time.Duration
	for i := range b.N {
		turns := []func(){
			func() { ours = append(ours, oneNetwork(b, byOps)) },
			func() { floor = append(floor, oneNetwork(b, byHand)) },
		}
		if i%2 == 1 { // who comes first finds colder caches
			slices.Reverse(turns)
		}
		for _, turn := range turns {
			turn()
		}
	}
	slices.Sort(ours)
	slices.Sort(floor)
	o, f := ours[len(ours)/2], floor[len(floor)/2]
	b.ReportMetric(0, "ns/op") // of a turn with its namespaces: says nothing
	b.ReportMetric(float64(o.Microseconds())/1000, "ms/ops")
	b.ReportMetric(float64(f.Microseconds())/1000, "ms/floor")
	b.ReportMetric(float64(o)/float64(f), "ops/floor")
}

// stage is a namespace with an uplink and the ground, before its first network.
type stage struct {
	ns   *netns.NS
	dir  string
	host *host.Host
	want netstate.State
	end  []func()
}

func oneNetwork(b *testing.B, make func(*testing.B, *stage)) time.Duration {
	b.Helper()
	s := &stage{ns: netns.New(b)}
	defer func() {
		for _, f := range slices.Backward(s.end) {
			f()
		}
		s.ns.Delete(b)
	}()
	dir, err := os.MkdirTemp("", "est")
	check(b, err)
	s.end = append(s.end, func() { _ = os.RemoveAll(dir) })
	check(b, os.Chmod(dir, 0o755)) // dnsmasq reads as nobody
	s.dir = filepath.Join(dir, "run")
	for _, argv := range []string{
		"ip link add eth0 type veth peer name far0", "ip addr add 192.0.2.2/24 dev eth0",
		"ip link set eth0 up", "ip link set far0 up", "ip route add default via 192.0.2.1",
	} {
		s.ns.Exec(b, strings.Fields(argv)...)
	}
	s.host, err = host.New(host.Config{RunDir: s.dir, NetnsPath: s.ns.Path})
	check(b, err)
	s.end = append(s.end, func() { _ = s.host.Close() })
	subnet := netip.MustParsePrefix("10.1.0.0/24")
	s.apply(b, ground, netinst.HostState([]netinst.HostNetwork{{Number: 1, Subnet: subnet}}))
	s.want = netinst.DesiredState(netinst.Input{
		Owner: owner(1), RunDir: s.dir,
		Config: netinst.NetworkInstanceConfig{
			UUID: uuid.MustParse(owner(1).Name), DisplayName: "lan", Type: netinst.Local, Port: "wan", SpoofGuard: true,
			IPv4: netinst.IPv4Config{
				Subnet: subnet, Gateway: netip.MustParseAddr("10.1.0.1"),
				DHCPFirst: netip.MustParseAddr("10.1.0.128"), DHCPLast: netip.MustParseAddr("10.1.0.254"),
			},
		},
		Ports: []netinst.PortStatus{{
			PortConfig: netinst.PortConfig{Label: "wan", IfName: "eth0", Uplink: true}, Exists: true, Up: true, LinkMTU: 1500,
			Gateways: []netip.Addr{netip.MustParseAddr("192.0.2.1")},
		}},
	}).State
	start := time.Now()
	make(b, s)
	return time.Since(start)
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (s *stage) apply(b *testing.B, o netstate.Owner, want netstate.State) {
	b.Helper()
	have, err := s.host.Observe(b.Context(), o, true)
	check(b, err)
	r := netstate.NewRun(netstate.Diff(have, want))
	for op, ok := r.Next(); ok; op, ok = r.Next() {
		r.Done(op, s.host.Do(b.Context(), o, op))
	}
	if fs := r.Failures(); len(fs) > 0 {
		b.Fatalf("apply: %+v", fs)
	}
}

// byOps is what the applier does; its process op ends with the answer.
func byOps(b *testing.B, s *stage) { s.apply(b, owner(1), s.want) }

// byHand is the floor.
func byHand(b *testing.B, s *stage) {
	var p netstate.Process
	filter, bridge := map[string]*strings.Builder{}, ""
	for _, id := range s.want.IDs() {
		switch o := s.want[id].(type) {
		case netstate.File:
			path := filepath.Join(s.dir, o.Path)
			if o.Dir {
				check(b, os.MkdirAll(path, 0o755))
				continue
			}
			check(b, os.MkdirAll(filepath.Dir(path), 0o755))
			check(b, os.WriteFile(path, []byte(o.Content), 0o644))
		case netstate.Chain:
			if o.Family == netstate.BridgeFamily {
				bridge = fmt.Sprintf("table bridge %s {\n%s\n}\n", o.Name, strings.Join(o.Rules, "\n"))
				continue
			}
			restoreLines(filter, o)
		case netstate.Process:
			p = o
		}
	}
	text := ""
	for _, table := range []string{"filter", "nat"} {
		t := filter[table]
		text += "*" + table + "\n" + filter[table+" names"].String() + t.String() + "COMMIT\n"
	}
	check(b, os.MkdirAll(filepath.Join(s.dir, p.Name), 0o755))
	check(b, proc.In(s.ns.Path, func() error {
		for _, c := range []struct{ argv, stdin string }{{"iptables-restore --noflush", text}, {"nft -f -", bridge}} {
			cmd := exec.Command(strings.Fields(c.argv)[0], strings.Fields(c.argv)[1:]...)
			cmd.Stdin = strings.NewReader(c.stdin)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s\n%s", c.argv, err, out, c.stdin)
			}
		}
		if err := s.links(); err != nil {
			return err
		}
		cmd, out := exec.Command(p.Argv[0], p.Argv[1:]...), &bytes.Buffer{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			return err
		}
		s.end = append(s.end, func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return ask(p.Probe)
	}))
}

// restoreLines spells a chain with its hooks for iptables-restore.
func restoreLines(tables map[string]*strings.Builder, c netstate.Chain) {
	for _, k := range []string{c.Table, c.Table + " names"} {
		if tables[k] == nil {
			tables[k] = &strings.Builder{}
		}
	}
	fmt.Fprintf(tables[c.Table+" names"], ":%s - [0:0]\n", c.Name)
	for _, r := range c.Rules {
		fmt.Fprintf(tables[c.Table], "-A %s %s\n", c.Name, r)
	}
	for _, h := range c.Hooks {
		at := "-I " + h.Parent + " 1"
		if h.Last {
			at = "-A " + h.Parent
		}
		fmt.Fprintf(tables[c.Table], "%s %s -j %s\n", at, h.Match, c.Name)
	}
}

// links makes the bridge with its address, routes and rules, in the namespace of
// the calling thread.
func (s *stage) links() error {
	h, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer h.Close()
	br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "es1", MTU: 1500}}
	if err := h.LinkAdd(br); err != nil {
		return err
	}
	addr, err := netlink.ParseAddr("10.1.0.1/24")
	if err != nil {
		return err
	}
	uplink, err := h.LinkByName("eth0")
	if err != nil {
		return err
	}
	all := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	steps := []error{h.AddrAdd(br, addr), h.LinkSetUp(br)}
	for _, id := range s.want.IDs() {
		switch o := s.want[id].(type) {
		case netstate.Route:
			r := &netlink.Route{Table: o.Table, Priority: o.Metric, Protocol: netstate.RouteProtocol, Dst: all}
			if o.Dst != "0.0.0.0/0" {
				r.Dst, err = netlink.ParseIPNet(o.Dst)
				steps = append(steps, err)
			}
			switch {
			case o.Type == netstate.Unreachable:
				r.Type = 7 // RTN_UNREACHABLE
			case o.Dev == "es1":
				r.LinkIndex, r.Scope = br.Index, netlink.SCOPE_LINK
			default:
				r.LinkIndex, r.Gw = uplink.Attrs().Index, netip.MustParseAddr(o.Via).AsSlice()
			}
			steps = append(steps, h.RouteAdd(r))
		case netstate.Rule:
			r := netlink.NewRule()
			r.Priority, r.Table = o.Priority, o.Table
			if o.From != "" {
				r.Src, err = netlink.ParseIPNet(o.From)
				steps = append(steps, err)
			}
			if o.To != "" {
				r.Dst, err = netlink.ParseIPNet(o.To)
				steps = append(steps, err)
			}
			steps = append(steps, h.RuleAdd(r))
		}
	}
	return errors.Join(steps...)
}

// ask asks until an answer comes, from the calling thread's namespace.
func ask(p netstate.Probe) error {
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(p.Name), dns.TypeA)
	c := &dns.Client{Timeout: 200 * time.Millisecond}
	end := time.Now().Add(3 * time.Second)
	for {
		_, _, err := c.Exchange(q, p.Addr)
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(5 * time.Millisecond) // as the host's probe does
	}
}
