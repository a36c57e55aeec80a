package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"edgespan/platform/lab"
)

func TestAnAppGetsItsLeaseItsNameAndItsOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	w.start(doc([]string{network(1,
		"    mtu: 1400\n    ntpServers: 192.0.2.123\n    routes:\n      lab: {destination: 203.0.113.0/24, gateway: "+
			"192.0.2.1}\n")},
		onNet(1, 1, "web", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	l := w.lease("web")
	got := fmt.Sprintf("ip %s mask %s router %s dns %s domain %s name %s mtu %s ntp %s", l.IP, l.Mask, l.Router, l.DNS,
		l.Domain, l.Hostname, l.MTU, l.NTP)
	want := "ip 10.1.0.128 mask 24 router 10.1.0.1 dns 10.1.0.1 domain n1.edge name app1 mtu 1400 ntp 192.0.2.123"
	if got != want {
		t.Errorf("the lease is\n %s\nwant\n %s", got, want)
	}
	for _, route := range []string{"203.0.113.0/24 10.1.0.1", "0.0.0.0/0 10.1.0.1", "192.0.2.0/24 10.1.0.1"} {
		if !strings.Contains(l.Routes, route) {
			t.Errorf("option 121 is %q, which lacks %q", l.Routes, route)
		}
	}
	for _, name := range []string{"app1", "app1.n1.edge"} {
		if ip := w.in("web", "dig", "+short", "@10.1.0.1", name); ip != "10.1.0.128" {
			t.Errorf("%s is %q", name, ip)
		}
		if ip := w.in("node", "dig", "+short", "@10.1.0.1", name); ip != "10.1.0.128" {
			t.Errorf("asked from the host, %s is %q", name, ip)
		}
	}
	if ip := w.in("web", "dig", "+short", "@10.1.0.1", lab.WebName); ip != lab.WebAddr {
		t.Errorf("%s is %q", lab.WebName, ip)
	}
}

// The time servers of the port in use, and of no other, come with the lease; those of the network come instead of them.
func TestTimeServersComeFromThePortInUse(t *testing.T) {
	t.Parallel()
	const wanServer, lteServer, own = "192.0.2.123", "203.0.113.123", "198.51.100.123"
	w := newWorldOf(t, lab.Options{Apps: []string{"web"}, Second: true})
	ports := func(wan string) string {
		return strings.NewReplacer("wan: {", "wan: {"+wan, "lte: {", "lte: {ntpServers: "+lteServer+", ").Replace(wan2)
	}
	both := byUplinks(ports("ntpServers: " + wanServer + ", "))
	is := func(why, want string) {
		t.Helper()
		w.eventually(why+": time servers "+want, func() bool { return w.lease("web").NTP == want })
	}
	w.start(both)
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	is("by wan", wanServer)
	w.sh("ip link set uplink0 down")
	is("wan is down", lteServer)
	w.sh("ip link set uplink0 up && ip route replace default via " + lab.Gateway + " dev uplink0")
	is("wan is up", wanServer)
	w.apply(strings.Replace(both, "port: uplink", "port: uplink\n    ntpServers: "+own, 1))
	is("the network has a server", own)
	w.apply(byUplinks(ports("")))
	is("nothing but lte has one", "")
}

func TestAKilledDaemonLosesNoPacketAndNoAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	ping, err := w.PingLoop("web", netip.MustParseAddr(lab.WebAddr), 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	ask, err := w.DNSLoop("web", netip.MustParseAddr("10.1.0.1"), lab.WebName, netip.MustParseAddr(lab.WebAddr),
		2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		flow(t, w, ping, ask)
		if err := w.node.Kill(); err != nil {
			t.Fatal(err)
		}
		flow(t, w, ping, ask)
		if took := w.restart(); took > scaled(time.Second) {
			t.Errorf("control came back after %v, want 1s", took)
		}
		w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	}
	flow(t, w, ping, ask)
	p, a := ping.Stop(), ask.Stop()
	if p.Lost+p.Wrong > 0 || a.Lost+a.Wrong > 0 {
		t.Errorf("pings: %v; answers: %v", p, a)
	}
	if p.Good < 200 || a.Good < 200 {
		t.Errorf("too little flowed to say anything: pings: %v; answers: %v", p, a)
	}
}

// pingOut starts a loop of pings to the provider's web server in each namespace.
func (w *world) pingOut(namespaces ...string) (loops []*lab.Loop) {
	w.Helper()
	for _, from := range namespaces {
		p, err := w.PingLoop(from, netip.MustParseAddr(lab.WebAddr), 5*time.Millisecond)
		if err != nil {
			w.Fatal(err)
		}
		loops = append(loops, p)
	}
	return loops
}

// flow waits until much traffic has passed.
func flow(t *testing.T, w *world, loops ...*lab.Loop) {
	t.Helper()
	for _, l := range loops {
		if err := l.WaitGood(w.ctx, 50); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARestartChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	w.start(doc([]string{network(1, ""), network(2, "")}, onNet(1, 1, "web", allowAll), onNet(2, 2, "client", allowAll)))
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
	before, apps := w.dump("node"), w.cli("get", "app", "-o", "json")
	helpers, files := w.dnsmasq(), w.folder()
	for _, part := range []string{"dnsmasq.conf", "chains.json", "process.json", "owner"} {
		if !strings.Contains(files, part) {
			t.Errorf("the run folder has no %s:\n%s", part, files)
		}
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		links := w.listen("ip", "monitor", "link", "address", "route", "rule")
		rules := w.listen("nft", "monitor")
		if err := w.node.Signal(signal); err != nil {
			t.Fatal(err)
		}
		<-w.node.Ended()
		if now := w.dump("node"); now != before {
			t.Errorf("after %v: %s", signal, changed(before, now))
		}
		w.restart()
		w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
		if now := w.dump("node"); now != before {
			t.Errorf("after the restart: %s", changed(before, now))
		}
		if now := w.dnsmasq(); now != helpers {
			t.Errorf("the dnsmasq were %q and are %q", helpers, now)
		}
		if now := w.folder(); now != files {
			t.Errorf("the run folder after %v and a restart:\n%s", signal, changed(files, now))
		}
		if now := w.cli("get", "app", "-o", "json"); now != apps {
			t.Errorf("the apps were\n%s\nand are\n%s", apps, now)
		}
		// The owned tables are claimed again, which the monitor prints as an addition.
		claims := regexp.MustCompile(`(?m)^add table (bridge|inet|arp) edgespan.*\n?`)
		if said := links() + claims.ReplaceAllString(rules(), ""); said != "" {
			t.Errorf("the restart changed:\n%s", said)
		}
	}
}

// listen runs a monitor in the node's namespace. The returned function stops it and returns its output. Before listen
// returns, a test change makes sure that the monitor is running.
func (w *world) listen(argv ...string) func() string {
	w.Helper()
	cmd := w.Command(w.ctx, "node", argv...)
	var out syncBuffer
	cmd.Stdout = &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	show := func(mark int) {
		w.Helper()
		chain := fmt.Sprintf("mark%d", mark)
		for end := time.Now().Add(5 * time.Second); !out.has(chain, fmt.Sprintf("192.0.2.%d", mark)); {
			if time.Now().After(end) {
				w.Fatalf("%v hears nothing", argv)
			}
			via := fmt.Sprintf("192.0.2.%d", mark)
			w.in("node", "ip", "route", "add", "203.0.113.0/24", "via", via)
			w.in("node", "ip", "route", "del", "203.0.113.0/24", "via", via)
			w.in("node", "nft", "add", "table", "inet", chain)
			w.in("node", "nft", "delete", "table", "inet", chain)
		}
	}
	show(201)
	begin := out.len()
	return func() string {
		w.Helper()
		end := out.len()
		show(202)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		var own []string
		for _, l := range strings.Split(out.string()[begin:end], "\n") {
			if strings.TrimSpace(l) != "" && !strings.Contains(l, "mark") && !strings.Contains(l, "203.0.113.0/24") &&
				!strings.HasPrefix(l, "# new generation") {
				own = append(own, l)
			}
		}
		return strings.Join(own, "\n")
	}
}

func changed(before, now string) string {
	old := map[string]int{}
	for _, l := range strings.Split(before, "\n") {
		old[l]++
	}
	var d []string
	for _, l := range strings.Split(now, "\n") {
		if old[l]--; old[l] < 0 {
			d = append(d, "+ "+l)
		}
	}
	for l, n := range old {
		if n > 0 {
			d = append(d, "- "+l)
		}
	}
	return strings.Join(d, "\n")
}

func TestAppsComeAndGoAndTheDNSOfNoOtherFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "guest")
	alone := doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll))
	both := doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll), onNet(2, 1, "guest", allowAll))
	w.start(alone)
	w.wait("ready", "app/"+app(1))
	w.lease("web")
	pid := w.dnsmasq()
	const every = 5 * time.Millisecond // both loops together remain below the limit of an adapter: 512 queries in a second
	own, err := w.DNSLoop("web", netip.MustParseAddr("10.1.0.1"), "app1.n1.edge", netip.MustParseAddr("10.1.0.128"),
		every)
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.DNSLoop("web", netip.MustParseAddr("10.1.0.1"), lab.WebName, netip.MustParseAddr(lab.WebAddr),
		every)
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		w.apply(both)
		w.wait("ready", "app/"+app(2))
		w.lease("guest")
		if ip := w.in("guest", "dig", "+short", "@10.1.0.1", "app2"); ip != "10.1.0.129" {
			t.Errorf("app2 is %q", ip)
		}
		// DHCP answers the remaining app too. The script would remove its address.
		w.in("web", "udhcpc", "-i", "eth0", "-n", "-q", "-s", "/bin/true")
		w.apply(alone)
		w.wait("absent", "app/"+app(2))
	}
	flow(t, w, own, out)
	for name, l := range map[string]*lab.Loop{"a name of the network": own, "a name out there": out} {
		if c := l.Stop(); c.Lost+c.Wrong > 0 || c.Good < 200 {
			t.Errorf("answers for %s: %v", name, c)
		}
	}
	if now := w.dnsmasq(); now != pid {
		t.Errorf("dnsmasq was %s and is %s", pid, now)
	}
}

// dnsmasq returns the pids of dnsmasq on the lab's node.
func (w *world) dnsmasq() string {
	w.Helper()
	return w.in("node", "sh", "-c",
		`for p in $(ip netns pids "$0"); do grep -qx dnsmasq /proc/$p/comm && echo $p; done; :`, w.NS("node"))
}

func TestAnEmptyConfigLeavesTheHostAsItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	for _, c := range []string{
		"ip link add foreign type bridge", "sysctl -qw net.ipv6.conf.foreign.accept_dad=0", "ip link set foreign up",
		"ip addr add 203.0.113.1/24 dev foreign", "ip rule add pref 555 from 203.0.113.0/24 lookup 555",
		"ip route add 203.0.114.0/24 via 192.0.2.1 table 555", "iptables -N FOREIGN", "iptables -A FORWARD -j FOREIGN",
		"iptables -A FOREIGN -s 203.0.113.9/32 -j DROP",
		"iptables -t nat -A POSTROUTING -s 203.0.113.0/24 -j MASQUERADE", "nft add table bridge foreign",
		"ipset create foreign hash:ip",
	} {
		w.in("node", strings.Fields(c)...)
	}
	// Foreign files below edgespan's folders, with similar names.
	others := map[string]string{
		filepath.Join(w.RunDir(), "notes"):                       "of others\n",
		filepath.Join(w.RunDir(), "ni", "1000x", "dnsmasq.conf"): "port=0\n",
		filepath.Join(w.StateDir(), "other.db"):                  "\x00\x01",
	}
	for path, text := range others {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	before, foreign := w.dump("node"), w.in("node", "ip", "link", "show", "foreign")
	w.start(doc([]string{network(1, ""), network(2, "")}, onNet(1, 1, "web", allowAll), onNet(2, 2, "client", allowAll)))
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
	w.lease("web")
	during := w.dump("node")
	for _, line := range strings.Split(before, "\n") {
		// The built-in chains get edgespan's jumps and forwarding is on; every other line remains.
		if !strings.Contains(during, line) && !strings.Contains(line, "conf.uplink0.forwarding") {
			t.Errorf("while our networks run this line of others is gone: %s", line)
		}
	}
	if now := w.in("node", "ip", "link", "show", "foreign"); now != foreign {
		t.Errorf("the foreign bridge was\n%s\nand is\n%s", foreign, now)
	}
	w.apply("{}")
	w.wait("absent", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
	if now := w.dump("node"); now != before {
		t.Errorf("the host differs:\n%s", changed(before, now))
	}
	if pid := w.dnsmasq(); pid != "" {
		t.Errorf("dnsmasq %s is left", pid)
	}
	for path, text := range others {
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("%s of others holds %q, %v", path, b, err)
		}
	}
	left, err := os.ReadDir(w.RunDir())
	if err != nil || len(left) != 5 { // both sockets, daemon.json and the foreign files
		t.Errorf("the run directory holds %v, %v", left, err)
	}
	if now := w.in("web", "ip", "-o", "link"); strings.Contains(now, "eth0") {
		t.Errorf("the app still has an adapter: %s", now)
	}
}

func TestSIGHUPReadsTheFileAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	w.start(doc([]string{network(1, "")}))
	w.wait("ready", "ni/"+ni(1))
	if err := w.WriteConfig([]byte(doc([]string{network(2, "")}))); err != nil {
		t.Fatal(err)
	}
	if err := w.node.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	w.wait("ready", "ni/"+ni(2))
	w.wait("absent", "ni/"+ni(1))
	for i, bad := range []string{"", "null", "[1]", "networkInstances: {x: 1}"} {
		if err := os.WriteFile(w.ConfigFile(), []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := w.node.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		w.eventually("the refusal of "+bad+" in the log", func() bool {
			log, err := os.ReadFile(w.NodeLog())
			return err == nil && strings.Count(string(log), "apply the config file") == i+1
		})
		w.wait("ready", "ni/"+ni(2))
	}
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart() // the file is invalid now: the last good config runs
	w.wait("ready", "ni/"+ni(2))
}

// eventually waits for a condition.
func (w *world) eventually(what string, ok func() bool) {
	w.Helper()
	w.eventuallyIn(20*time.Second, what, ok)
}

// eventuallyIn is eventually with another limit, scaled. Where an answer costs a program, it asks less often: the tests
// beside this one need the processors, too.
func (w *world) eventuallyIn(limit time.Duration, what string, ok func() bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, scaled(limit))
	defer cancel()
	for {
		asked := time.Now()
		if ok() {
			return
		}
		select {
		case <-ctx.Done():
			w.Fatalf("%s never came", what)
		case <-time.After(min(max(20*time.Millisecond, 2*time.Since(asked)), 400*time.Millisecond)):
		}
	}
}

func TestPlanShowsAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	w.start("{}")
	before := w.dump("node")
	d, err := w.Config([]byte(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll))))
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.CLIWith(w.ctx, string(d), "plan", "-f", "-", "-o", "json")
	if err != nil || r.Code != 0 {
		t.Fatalf("plan: exit %d, %v: %s", r.Code, err, r.Err)
	}
	var plan struct {
		Changes []struct{ Op, Kind, ID, Owner string }
	}
	if err := json.Unmarshal([]byte(r.Out), &plan); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, c := range plan.Changes {
		kinds[c.Kind]++
		if c.Op != "add" || c.Owner != ni(1) && c.Owner != "host" {
			t.Errorf("planned %+v on an empty host", c)
		}
	}
	for _, k := range []string{"file", "link", "address", "route", "rule", "chain", "process"} {
		if kinds[k] == 0 {
			t.Errorf("nothing of kind %s is planned: %v", k, kinds)
		}
	}
	if now := w.dump("node"); now != before {
		t.Errorf("the plan changed the host:\n%s", changed(before, now))
	}
}
