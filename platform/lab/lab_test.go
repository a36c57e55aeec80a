package lab

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ChildCommand {
		os.Exit(ChildMain(os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// up builds a lab whose "edgespan" is a shell script.
func up(t *testing.T, script string) *Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	bin := filepath.Join(t.TempDir(), "edgespan")
	if err := os.WriteFile(bin, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := Up(t.Context(), Options{Binary: bin, Child: []string{os.Args[0], ChildCommand}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Errorf("Down: %v", err)
		}
	})
	return l
}

// commandTimeout bounds one command: dig waits 15 s for a server that is gone.
const commandTimeout = 30 * time.Second

// must runs a command in a namespace and wants status 0.
func must(t *testing.T, l *Lab, short string, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	r, err := l.Exec(ctx, short, argv...)
	if err != nil || r.Code != 0 {
		t.Fatalf("%s: %v in %s: status %d: %s", argv, err, short, r.Code, r.Err)
	}
	return strings.TrimSpace(r.Out)
}

// byHand makes by commands what a daemon would: a bridge with DHCP, DNS and NAT, and
// app-client on it.
func byHand(t *testing.T, l *Lab) {
	t.Helper()
	client := l.NS(AppClient)
	for _, line := range []string{
		"ip link add br0 type bridge",
		"ip addr add 10.10.0.1/24 dev br0",
		"ip link set br0 up",
		"ip link add v0 type veth peer name eth0 netns " + client,
		"ip link set v0 master br0 up",
		"sysctl -qw net.ipv4.ip_forward=1",
		"iptables -t nat -A POSTROUTING -s 10.10.0.0/24 -o " + Uplink + " -j MASQUERADE",
		"iptables -A FORWARD -p tcp --dport 443 -j DROP",
		"dnsmasq --conf-file=/dev/null --interface=br0 --bind-interfaces --except-interface=lo --no-resolv --no-hosts " +
			"--pid-file= --user=root" +
			" --dhcp-leasefile=" + l.Dir + "/leases --dhcp-range=10.10.0.128,10.10.0.254,1h --server=" + DNSAddr +
			" --domain=demo.edge --dhcp-option=26,1400 --dhcp-option=121,0.0.0.0/0,10.10.0.1 " +
			"--host-record=web.demo.edge,10.10.0.7",
	} {
		must(t, l, "node", strings.Fields(line)...)
	}
}

func TestALabIsAWorldForANode(t *testing.T) {
	l := up(t, "exit 0")

	t.Run("the provider answers the node", func(t *testing.T) {
		if got := must(t, l, "node", "dig", "+short", "@"+DNSAddr, WebName); got != WebAddr {
			t.Errorf("dig: %q", got)
		}
		if got := must(t, l, "node", "dig", "+tcp", "@"+DNSAddr, "nobody.example.net"); !strings.Contains(got, "NXDOMAIN") {
			t.Errorf("dig: %s", got)
		}
		for _, port := range []string{"80", "443"} {
			got := must(t, l, "node", "curl", "-sS", "-m", "5", "http://"+WebAddr+":"+port+"/")
			if !strings.HasPrefix(got, webText+", you are "+NodeAt+":") {
				t.Errorf("port %s: %q", port, got)
			}
		}
	})

	byHand(t, l)
	t.Run("a lease is set up", func(t *testing.T) {
		lease, err := l.DHCP(t.Context(), AppClient, "eth0")
		if err != nil {
			t.Fatal(err)
		}
		if lease.MTU != "1400" || lease.DNS != "10.10.0.1" || lease.Domain != "demo.edge" ||
			lease.Routes != "0.0.0.0/0 10.10.0.1" || lease.Mask != "24" {
			t.Errorf("lease: %+v", lease)
		}
		addrs := must(t, l, AppClient, "ip", "-4", "addr", "show", "dev", "eth0")
		if !strings.Contains(addrs, lease.IP.String()+"/24") || !strings.Contains(addrs, "mtu 1400") {
			t.Errorf("eth0: %s", addrs)
		}
		if got := must(t, l, AppClient, "ip", "route", "show", "default"); !strings.Contains(got, "via 10.10.0.1 dev eth0") {
			t.Errorf("default route: %q", got)
		}
	})
	t.Run("names are resolved by the lease's server, and the machine's file is as before", func(t *testing.T) {
		before, _ := os.ReadFile("/etc/resolv.conf")
		if got := must(t, l, AppClient, "curl", "-sS", "-m", "5", "http://"+WebName+"/"); !strings.Contains(got, "you are "+
			NodeAt) {
			t.Errorf("curl by name: %q", got)
		}
		after, _ := os.ReadFile("/etc/resolv.conf")
		if string(before) != string(after) {
			t.Error("/etc/resolv.conf changed")
		}
	})
	t.Run("a denied flow is seen as denied", func(t *testing.T) {
		r, err := l.Exec(t.Context(), AppClient, "curl", "-sS", "-m", "1", "http://"+WebAddr+":443/")
		if err != nil || r.Code != 28 {
			t.Errorf("curl: status %d, %v", r.Code, err)
		}
	})
	t.Run("an app can serve", func(t *testing.T) {
		if err := l.HTTPServer(t.Context(), AppClient, "0.0.0.0:8080", "client"); err != nil {
			t.Fatal(err)
		}
		if got := must(t, l, AppClient, "curl", "-sS", "http://127.0.0.1:8080/"); !strings.HasPrefix(got,
			"client, you are 127.0.0.1") {
			t.Errorf("curl: %q", got)
		}
	})
	t.Run("loops count what is lost and nothing else", func(t *testing.T) { loopsCount(t, l) })
}

func loopsCount(t *testing.T, l *Lab) {
	server, web := netip.MustParseAddr("10.10.0.1"), netip.MustParseAddr(WebAddr)
	ping, err := l.PingLoop(AppClient, web, 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	names, err := l.DNSLoop(AppClient, server, "web.demo.edge", netip.MustParseAddr("10.10.0.7"), 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := l.DNSLoop(AppClient, server, "web.demo.edge", netip.MustParseAddr("10.10.0.8"), 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, loop := range []*Loop{ping, names} {
		if err := loop.WaitGood(ctx, 20); err != nil {
			t.Fatal(err)
		}
	}
	if c := names.Stop(); c.Lost+c.Wrong != 0 || c.Good != c.Sent {
		t.Errorf("DNS: %s", c)
	}
	if c := wrong.Stop(); c.Good != 0 || c.Wrong == 0 || c.Wrong != c.Sent {
		t.Errorf("DNS with another answer than wanted: %s", c)
	}
	must(t, l, "node", "iptables", "-I", "FORWARD", "-p", "icmp", "-j", "DROP")
	sent := ping.Count().Sent
	for ping.Count().Sent < sent+20 && ctx.Err() == nil {
		<-time.After(5 * time.Millisecond)
	}
	must(t, l, "node", "iptables", "-D", "FORWARD", "-p", "icmp", "-j", "DROP")
	if err := ping.WaitGood(ctx, 5); err != nil {
		t.Fatal(err)
	}
	if c := ping.Stop(); c.Lost < 15 || c.Good < 25 || c.Good+c.Lost+c.Wrong != c.Sent {
		t.Errorf("ping through a drop of 20: %s", c)
	}
}

func TestDownLeavesNothing(t *testing.T) {
	l := up(t, "exit 0")
	var pids []string
	// What forks away from its parent and ignores every polite signal is ended too.
	must(t, l, "node", "sh", "-c", "trap '' TERM HUP; setsid sleep 1000 >/dev/null 2>&1 & echo $! >"+l.Dir+"/pid")
	text, err := os.ReadFile(l.Dir + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	pids = append(pids, strings.TrimSpace(string(text)))
	if err := l.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob("/run/netns/" + l.Name + "-*"); left != nil {
		t.Errorf("namespaces left: %v", left)
	}
	if _, err := os.Stat(l.Dir); !os.IsNotExist(err) {
		t.Errorf("folder left: %v", err)
	}
	for _, pid := range pids {
		if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("process left: %s", stat)
		}
	}
	if err := l.Down(t.Context()); err != nil {
		t.Errorf("Down twice: %v", err)
	}
}

// A process that is forked while the others are being ended goes too.
func TestDownEndsWhatForksMeanwhile(t *testing.T) {
	l := up(t, "exit 0")
	must(t, l, "node", "sh", "-c",
		`for i in 1 2 3 4; do setsid sh -c 'trap "" TERM HUP; while :; do sleep 1000 & done' >/dev/null 2>&1 & done; `+
			`sleep 0.2`)
	path := filepath.Join("/run/netns", l.NS("node"))
	held, err := os.Open(path) // so that the namespace has no other's number after it is gone
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }() // only read from
	var ns unix.Stat_t
	if err := unix.Fstat(int(held.Fd()), &ns); err != nil {
		t.Fatal(err)
	}
	if err := l.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if pid, err := strconv.Atoi(filepath.Base(p)); err == nil && lives(pid, ns) {
			t.Errorf("process %d is left", pid)
		}
	}
}

func TestABareLabHasItsNamespacesAndNoLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	l, err := Up(t.Context(), Options{Binary: "/bin/true", Apps: []string{"dev"}, Bare: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Errorf("Down: %v", err)
		}
	})
	for _, short := range []string{"node", "dev"} {
		if links := must(t, l, short, "ip", "-o", "link"); strings.Count(links, "\n") != 0 ||
			!strings.Contains(links, "lo:") {
			t.Errorf("%s has %s", short, links)
		}
	}
	if l.HasNamespace("isp") {
		t.Error("a bare lab has a provider")
	}
}

func TestUpReplacesALabOfItsName(t *testing.T) {
	l := up(t, "exit 0")
	must(t, l, "node", "ip", "link", "add", "leftover", "type", "bridge")
	again, err := Up(t.Context(), Options{Name: l.Name, Dir: l.Dir, Binary: l.Binary, Child: l.child})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := again.Exec(t.Context(), "node", "ip", "link", "show", "leftover"); err != nil || r.Code == 0 {
		t.Errorf("the earlier lab is still there: %v %s", err, r.Out)
	}
}

func TestADaemonIsStartedWatchedAndKilled(t *testing.T) {
	l := up(t, `case "$1" in
node) echo "started with $*"; touch "$7/up"; exec sleep 1000 ;;
get) test -e "$(dirname "$EDGESPAN_SOCKET")/up" || { echo not yet >&2; exit 8; } ;;
cat) cat; echo to-err >&2; exit 4 ;;
esac
`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	n, err := l.StartNode(l.NodeCmd())
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", l.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if _, err := l.WaitControl(ctx, n); err != nil {
		t.Fatal(err)
	}
	r, err := l.CLIWith(ctx, "input", "cat")
	if err != nil || r != (Result{"input", "to-err\n", 4}) {
		t.Errorf("CLI: %+v, %v", r, err)
	}
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	if ws, ok := n.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		t.Errorf("ended by %v", n.cmd.ProcessState)
	}
	if err := os.Remove(filepath.Join(l.RunDir(), "up")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.WaitControl(ctx, n); err == nil ||
		!strings.Contains(err.Error(), "started with node --config "+l.ConfigFile()) {
		t.Errorf("an ended daemon's last words: %v", err)
	}
}

func TestConfigGivesNamespacesTheLabsNames(t *testing.T) {
	l := &Lab{Name: "x", apps: []string{AppWeb}}
	got, err := l.Config([]byte(`
ports: {wan: {ifName: uplink0, uplink: true}}
appNetworks:
  a:
    adapters:
      0: {attach: {kind: veth, netns: app-web}}
      "1": {attach: {kind: veth, netns: other}}
  b: {displayName: nothing attached}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"appNetworks":{"a":{"adapters":{"0":{"attach":{"kind":"veth","netns":"x-app-web"}},` +
		`"1":{"attach":{"kind":"veth","netns":"other"}}}},"b":{"displayName":"nothing attached"}},` +
		`"ports":{"wan":{"ifName":"uplink0","uplink":true}}}`
	var tree any
	if err := json.Unmarshal(got, &tree); err != nil {
		t.Fatal(err)
	}
	if flat, _ := json.Marshal(tree); string(flat) != want {
		t.Errorf("got  %s\nwant %s", flat, want)
	}
	if _, err := l.Config([]byte("a: [")); err == nil {
		t.Error("what is no YAML is accepted")
	}
}

func TestAnEchoRequestHasAChecksumOfZero(t *testing.T) {
	for _, seq := range []uint16{0, 1, 0xffff, 0x8000} {
		var sum uint32
		p := EchoRequest(0xbeef, seq)
		for i := 0; i < len(p); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(p[i:]))
		}
		for sum > 0xffff {
			sum = sum>>16 + sum&0xffff
		}
		if sum != 0xffff { // RFC 1071: the sum over a packet with its checksum is all ones
			t.Errorf("sequence %d: %#x", seq, sum)
		}
	}
}

func TestALabHasASecondProvider(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	l, err := Up(t.Context(), Options{
		Binary: "/bin/true", Child: []string{os.Args[0], ChildCommand}, Second: true, MTU: 9000, MTU2: 1420,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Errorf("Down: %v", err)
		}
	})
	for _, c := range []struct{ dev, at, gateway, isp, peer, mtu string }{
		{Uplink, NodeAt, Gateway, "isp", "node0", "9000"}, {Uplink2, NodeAt2, Gateway2, isp2Short, "node1", "1420"},
	} {
		must(t, l, "node", "ip", "route", "replace", DNSAddr, "via", c.gateway, "dev", c.dev)
		must(t, l, "node", "ip", "route", "replace", WebAddr, "via", c.gateway, "dev", c.dev)
		if got := must(t, l, "node", "dig", "+short", "@"+DNSAddr, ProviderName); got != c.gateway {
			t.Errorf("%s: the provider says that it is %q", c.dev, got)
		}
		if got := must(t, l, "node", "curl", "-sS", "-m", "5", "http://"+WebAddr+"/"); !strings.HasPrefix(got, webText+
			", you are "+c.at+":") {
			t.Errorf("%s: %q", c.dev, got)
		}
		for ns, dev := range map[string]string{"node": c.dev, c.isp: c.peer} {
			if got := must(t, l, ns, "cat", "/sys/class/net/"+dev+"/mtu"); got != c.mtu {
				t.Errorf("%s of %s has MTU %s, want %s", dev, ns, got, c.mtu)
			}
		}
	}
	if got := must(t, l, "node", "ip", "route", "show", "default"); !strings.Contains(got, "via "+Gateway2+" dev "+Uplink2+
		" metric 100") {
		t.Errorf("default routes: %s", got)
	}
}
