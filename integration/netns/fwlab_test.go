package netns_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"edgespan/integration/netns"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/platform/nft"
	"edgespan/platform/proc"
)

// fwLab is a node with two networks, an uplink and a world behind it, each in a separate network namespace. It applies
// desired states with the plain tools, so that the test covers the rules' text, not the platform.
type fwLab struct {
	t      *testing.T
	prefix string // of the namespaces' names
	runDir string
	procs  map[string]*exec.Cmd
}

var fwCount atomic.Int32

func newFwLab(t *testing.T) *fwLab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	dir, err := os.MkdirTemp("", "esfw")
	if err != nil {
		t.Fatal(err)
	}
	l := &fwLab{t: t, prefix: fmt.Sprintf("esfw%d-%d-", os.Getpid(), fwCount.Add(1)), runDir: dir,
		procs: map[string]*exec.Cmd{}}
	t.Cleanup(func() {
		for name := range l.procs {
			l.stop(name)
		}
		_ = os.RemoveAll(dir)
	})
	if err := os.Chmod(dir, 0o755); err != nil { // dnsmasq reads it as nobody
		t.Fatal(err)
	}
	for _, ns := range []string{"node", "a", "b", "c", "world"} {
		l.cmd("", "ip", "netns", "add", l.ns(ns))
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", l.ns(ns)).Run() })
		l.in(ns, "sh", "-c", "for f in /proc/sys/net/bridge/bridge-nf-call-*; do [ ! -e $f ] || echo 0 > $f; done")
		l.in(ns, "ip", "link", "set", "lo", "up")
	}
	l.in("node", "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", l.ns("world"))
	l.in("node", "ip", "addr", "add", "192.0.2.10/24", "dev", "eth0")
	l.in("node", "ip", "link", "set", "eth0", "up")
	l.in("world", "ip", "addr", "add", "192.0.2.77/24", "dev", "eth0")
	l.in("world", "ip", "addr", "add", "198.51.100.9/32", "dev", "eth0")
	l.in("world", "ip", "link", "set", "eth0", "up")
	l.in("world", "ip", "route", "add", "10.0.0.0/8", "via", "192.0.2.10")
	return l
}

func (l *fwLab) ns(short string) string { return l.prefix + short }

func (l *fwLab) cmd(stdin string, argv ...string) string {
	l.t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdin = strings.NewReader(stdin)
	out, err := c.CombinedOutput()
	if err != nil {
		l.t.Fatalf("%s: %v\n%s\n%s", strings.Join(argv, " "), err, out, stdin)
	}
	return string(out)
}

func (l *fwLab) in(ns string, argv ...string) string {
	l.t.Helper()
	return l.space(ns).Exec(l.t, argv...)
}

// space returns a namespace of the lab.
func (l *fwLab) space(ns string) *netns.NS {
	return &netns.NS{Name: l.ns(ns), Path: "/run/netns/" + l.ns(ns)}
}

// do runs f on a thread inside a namespace and fails the test on an error.
func (l *fwLab) do(ns string, f func() error) {
	l.t.Helper()
	l.space(ns).Do(l.t, f)
}

// inside runs f on a thread inside a namespace.
func (l *fwLab) inside(ns string, f func() error) error { return proc.In(l.space(ns).Path, f) }

// apply performs the plan from have to want.
func (l *fwLab) apply(have, want netstate.State) {
	l.t.Helper()
	for _, op := range netstate.Diff(have, want) {
		if op.Kind == netstate.KindChain {
			l.chains(op)
			continue
		}
		it := op.Items[0]
		if it.Want == nil {
			l.remove(it.Have)
		} else {
			l.make(op.Verb, it.Want)
		}
	}
}

func (l *fwLab) make(verb netstate.Verb, o netstate.Object) {
	l.t.Helper()
	n := func(argv ...string) { l.t.Helper(); l.in("node", argv...) }
	switch o := o.(type) {
	case netstate.Sysctl:
		n("sh", "-c", "echo "+o.Value+" > /proc/sys/"+o.Key)
	case netstate.File:
		l.write(o)
	case netstate.Link:
		if o.Type == netstate.Bridge {
			n("ip", "link", "add", o.Name, "address", o.MAC, "mtu", strconv.Itoa(o.MTU), "type", "bridge", "nf_call_iptables",
				"1")
		} else {
			n("ip", "link", "add", o.Name, "address", o.MAC, "mtu", strconv.Itoa(o.MTU), "type", "veth",
				"peer", "name", o.Peer.Name, "address", o.Peer.MAC, "mtu", strconv.Itoa(o.Peer.MTU), "netns", o.Peer.Netns)
		}
		n("ip", "link", "set", o.Name, "alias", o.Alias, "addrgenmode", "none")
	case netstate.Address:
		n("ip", "addr", "add", o.Prefix, "dev", o.Link, "noprefixroute")
	case netstate.Port:
		if o.Master != "" {
			n("ip", "link", "set", o.Link, "master", o.Master)
		}
		n("ip", "link", "set", o.Link, "up")
	case netstate.Route:
		n(append([]string{"ip", "route", "replace"}, fwRouteWords(o)...)...)
	case netstate.Rule:
		argv := []string{"ip", "rule", "add", "priority", strconv.Itoa(o.Priority), "lookup", strconv.Itoa(o.Table)}
		if o.From != "" {
			argv = append(argv, "from", o.From)
		}
		if o.To != "" {
			argv = append(argv, "to", o.To)
		}
		n(argv...)
	case netstate.Process:
		l.process(verb, o)
	}
}

func fwRouteWords(r netstate.Route) []string {
	return append(append([]string{string(r.Type), r.Dst}, strings.Fields(strings.TrimPrefix(r.Text(), string(r.Type)))...),
		"table", strconv.Itoa(r.Table), "metric", strconv.Itoa(r.Metric))
}

func (l *fwLab) remove(o netstate.Object) {
	l.t.Helper()
	switch o := o.(type) {
	case netstate.File:
		if err := os.Remove(filepath.Join(l.runDir, o.Path)); err != nil {
			l.t.Fatal(err)
		}
	case netstate.Port:
		l.in("node", "ip", "link", "set", o.Link, "nomaster", "down")
	case netstate.Link:
		l.in("node", "ip", "link", "del", o.Name)
	default:
		l.t.Fatalf("this lab can't remove %s", o.ID())
	}
}

func (l *fwLab) write(f netstate.File) {
	l.t.Helper()
	path := filepath.Join(l.runDir, f.Path)
	if f.Dir {
		if err := os.MkdirAll(path, 0o755); err != nil {
			l.t.Fatal(err)
		}
		return
	}
	tmp := filepath.Join(filepath.Dir(path), ".new")
	if err := os.WriteFile(tmp, []byte(f.Content), 0o644); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		l.t.Fatal(err)
	}
}

func (l *fwLab) process(verb netstate.Verb, p netstate.Process) {
	l.t.Helper()
	if verb == netstate.Reload {
		if err := l.procs[p.Name].Process.Signal(syscall.SIGHUP); err != nil {
			l.t.Fatal(err)
		}
		return
	}
	if verb == netstate.Change {
		l.stop(p.Name)
	}
	if err := os.MkdirAll(filepath.Join(l.runDir, p.Name), 0o755); err != nil {
		l.t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(l.runDir, p.Name, "out"))
	if err != nil {
		l.t.Fatal(err)
	}
	defer out.Close()
	c := exec.Command("ip", append([]string{"netns", "exec", l.ns("node")}, p.Argv...)...)
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.procs[p.Name] = c
	host, _, _ := strings.Cut(p.Probe.Addr, ":")
	l.until("an answer of "+p.Name, func() bool {
		return l.try("node", "dig", "+short", "+time=1", "+tries=1", "@"+host, p.Probe.Name) == host+"\n"
	})
}

// try runs a command that may fail and returns its output.
func (l *fwLab) try(ns string, argv ...string) string {
	c := exec.Command(argv[0], argv[1:]...)
	var out strings.Builder
	c.Stdout = &out
	if l.inside(ns, c.Start) == nil {
		_ = c.Wait() // it may fail
	}
	return out.String()
}

func (l *fwLab) until(what string, ok func() bool) {
	l.t.Helper()
	until(l.t, what, ok)
}

func (l *fwLab) stop(name string) {
	c := l.procs[name]
	delete(l.procs, name)
	_ = c.Process.Kill()
	_ = c.Wait()
}

// native writes and removes nftables tables, and chains of the one that all networks share.
func (l *fwLab) native(items []netstate.Item) {
	l.t.Helper()
	conn, err := nft.Open("/run/netns/" + l.ns("node"))
	if err != nil {
		l.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Claim(func(nft.Table) bool { return true }); err != nil {
		l.t.Fatal(err)
	}
	var us []nft.Update
	frames := nft.Update{Table: nft.Table{Family: netstate.BridgeFamily, Name: netinst.GuardTable}}
	guard := nft.Update{Table: nft.Table{Family: netstate.InetFamily, Name: netinst.GuardTable}}
	for _, it := range items {
		have, had := it.Have.(netstate.Chain)
		want, ok := it.Want.(netstate.Chain)
		u := &frames
		if netstate.InetFamily == want.Family || netstate.InetFamily == have.Family {
			u = &guard
		}
		switch {
		case !ok && have.IsTable():
			err = conn.Delete(nft.Table{Family: have.Family, Name: have.Name})
		case ok && want.IsTable() && want.Family == frames.Table.Family:
			us = append(us, nft.Update{Table: u.Table, Create: true, Lines: want.Rules,
				Keep: func(chain string) bool { return !strings.HasPrefix(chain, "ES-") }})
		case ok && want.IsTable():
			err = conn.Replace(nft.Table{Family: want.Family, Name: want.Name}, want.Rules)
		case ok:
			u.Lines = append(append(append(u.Lines, "chain "+want.Name+" {"), want.Rules...), "}")
			u.Set = append(u.Set, fwElements(want)...)
		default:
			u.Delete = append(u.Delete, have.Name)
		}
		if err != nil {
			l.t.Fatal(err)
		}
		if had {
			u.Unset = append(u.Unset, fwElements(have)...)
		}
	}
	for _, u := range []nft.Update{frames, guard} {
		if len(u.Lines)+len(u.Delete) > 0 {
			us = append(us, u)
		}
	}
	if err := conn.Update(us...); err != nil {
		l.t.Fatal(err)
	}
}

func fwElements(c netstate.Chain) (list []nft.Element) {
	for _, h := range c.Hooks {
		list = append(list, nft.Element{Map: h.Parent, Key: h.Match, Value: "jump " + c.Name})
	}
	return list
}

// chains performs one op of chains in one restore: they are declared, emptied, filled and hooked. Removed chains lose
// their hooks first.
func (l *fwLab) chains(op netstate.Op) {
	l.t.Helper()
	decl, del, add := map[string][]string{}, map[string][]string{}, map[string][]string{}
	var native []netstate.Item
	for _, it := range op.Items {
		o := it.Want
		if o == nil {
			o = it.Have
		}
		c := o.(netstate.Chain)
		if c.Family.Native() {
			native = append(native, it)
			continue
		}
		decl[c.Table] = append(decl[c.Table], ":"+c.Name+" - [0:0]")
		if it.Have != nil {
			for _, h := range it.Have.(netstate.Chain).Hooks {
				del[c.Table] = append(del[c.Table], fmt.Sprintf("-D %s %s -j %s", h.Parent, h.Match, c.Name))
			}
		}
		if it.Want == nil {
			add[c.Table] = append(add[c.Table], "-X "+c.Name)
			continue
		}
		for _, r := range c.Rules {
			add[c.Table] = append(add[c.Table], "-A "+c.Name+" "+r)
		}
		for _, h := range c.Hooks {
			add[c.Table] = append(add[c.Table], fmt.Sprintf("-I %s 1 %s -j %s", h.Parent, h.Match, c.Name))
		}
	}
	l.native(native)
	text := ""
	for _, table := range []string{"filter", "nat"} {
		if lines := slices.Concat(decl[table], del[table], add[table]); len(lines) > 0 {
			text += "*" + table + "\n" + strings.Join(lines, "\n") + "\nCOMMIT\n"
		}
	}
	l.cmd(text, "ip", "netns", "exec", l.ns("node"), "iptables-restore", "--noflush", "-w", "5")
}

// fwInput returns network n of the lab, with the subnet 10.<n>.0.0/24.
func (l *fwLab) fwInput(n int, guard bool, adapters ...netinst.Adapter) netinst.Input {
	id := uuid.MustParse(fmt.Sprintf("%08d-1111-4111-8111-111111111111", n))
	at := func(last byte) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(n), 0, last}) }
	return netinst.Input{
		Owner: netstate.Owner{Name: id.String(), Number: n},
		Config: netinst.NetworkInstanceConfig{
			UUID: id, Type: netinst.Local, Port: "uplink", SpoofGuard: guard, DNS: netinst.DNSConfig{Domain: "edge.test"},
			IPv4: netinst.IPv4Config{Subnet: netip.PrefixFrom(at(0), 24), Gateway: at(1), DHCPFirst: at(128),
				DHCPLast: at(254)},
			Routes: []netinst.StaticRoute{{Name: "inside", Destination: netip.MustParsePrefix("10.0.99.0/24"),
				Gateway: at(129)}},
		},
		Adapters: adapters, RunDir: l.runDir,
		Ports: []netinst.PortStatus{{
			PortConfig: netinst.PortConfig{Label: "wan", IfName: "eth0", Uplink: true, Labels: []string{"shared"}},
			Exists:     true, Up: true, LinkMTU: 1500,
			Addresses:     []netip.Prefix{netip.MustParsePrefix("192.0.2.10/24")},
			DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.77"))},
		}, {
			PortConfig: netinst.PortConfig{Label: "lab", IfName: "eth9", Labels: []string{"shared"}},
		}},
	}
}

// fwAdapter returns the only adapter of an app whose namespace is ns.
func (l *fwLab) fwAdapter(ns string, number int, addr string, acl ...netinst.ACLRule) netinst.Adapter {
	return netinst.Adapter{
		Config: netinst.AppAdapterConfig{
			AppUUID: uuid.NewSHA1(uuid.Nil, []byte(ns)), Activate: true,
			Spec: netinst.AdapterSpec{Netns: l.ns(ns), IfName: "eth0",
				Hostname: netinst.Hostname("app-" + ns), ACL: acl},
		},
		Lease: netinst.Lease{Number: number, IP: netip.MustParseAddr(addr),
			MAC: fmt.Sprintf("02:00:00:00:%02x:%02x", ns[0], number)},
	}
}

// plug configures the app's side of a veth, without DHCP.
func (l *fwLab) plug(ns, addr, gateway string) {
	l.t.Helper()
	l.in(ns, "ip", "addr", "add", addr+"/24", "dev", "eth0")
	l.in(ns, "ip", "link", "set", "eth0", "up")
	l.in(ns, "ip", "route", "add", "default", "via", gateway)
}

// fwWithoutServices removes what a test of packets doesn't need.
func fwWithoutServices(s netstate.State) netstate.State {
	out := netstate.State{}
	for id, o := range s {
		if id.Kind != netstate.KindProcess && id.Kind != netstate.KindFile {
			out[id] = o
		}
	}
	return out
}
