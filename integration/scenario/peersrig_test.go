package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// field is a fleet of peers in namespaces: a controller with its operator, and for each peer a node with a link to the
// controller, one to the segment of the tunnels, and one to its device.
//
//	controller          edge-1                      edge-2
//	mgmt 192.0.2.1 ──── mgmt0 192.0.2.11            mgmt0 192.0.2.12
//	seg ─────────────── under0 198.51.100.11 ······ under0 198.51.100.12
//	                    lan0 ── eth0 of a device    lan0 ── eth0 of a device
//	                            10.66.0.11                  10.66.0.12
//
// Devices have static neighbour entries for each other: the kernel repeats an ARP request only once a second, and a
// ping would wait for that.
type field struct {
	*office
	peers []*onePeer
}

// onePeer is one node with its device, "dev".
type onePeer struct {
	*world
	name string
	n    int // 1, 2, …
}

func (p *onePeer) device() netip.Addr { return netip.AddrFrom4([4]byte{10, 66, 0, byte(10 + p.n)}) }
func (p *onePeer) underlay() string   { return fmt.Sprint("198.51.100.", 10+p.n) }

// newField builds count peers, which have joined and run; each has a port `wan` on its underlay, and is in sync.
func newField(t testing.TB, count int, extra ...string) *field {
	t.Helper()
	hq := bareWorld(t, "isp")
	for _, line := range []string{
		"ip link add mgmt type bridge", "ip addr add 192.0.2.1/24 dev mgmt", "ip link set mgmt up",
		"ip link add seg type bridge", "ip link set seg up",
	} {
		hq.in("isp", strings.Fields(line)...)
	}
	f := &field{office: hq.open("lab", 8443, append(slices.Clone(quick), extra...)...)}
	f.remember(f.line("CA sha256:"))
	f.ok("network", "set", "sysParams.managedConfig=true", "ports.wan.ifName=under0", "ports.wan.uplink=false")
	f.peers = make([]*onePeer, count)
	for i := range f.peers {
		f.peers[i] = &onePeer{world: bareWorld(t, "dev"), name: fmt.Sprint("edge-", i+1), n: i + 1}
		f.cable(f.peers[i])
		p := f.peers[i]
		if r := p.join(f.run("nodes", "invite", p.name).Out, "--state-dir", p.StateDir()); r.Code != 0 {
			t.Fatalf("%s joins: %+v", p.name, r)
		}
		p.start("{}")
	}
	f.acquaint()
	for _, p := range f.peers {
		f.is(p.name, "InSync", ready)
	}
	return f
}

// bareWorld returns a lab of namespaces without links.
func bareWorld(t testing.TB, apps ...string) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), scaled(4*time.Minute))
	l, err := lab.Up(ctx,
		lab.Options{Binary: binary, Child: []string{os.Args[0], lab.ChildCommand}, Apps: apps, Bare: true})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	w := &world{TB: t, Lab: l, ctx: ctx}
	t.Cleanup(func() {
		defer cancel()
		if _, err := os.Stat(l.NodeLog()); err == nil && t.Failed() {
			t.Logf("the daemon's last words:\n%s", l.LastWords(30))
		}
		if err := l.Down(context.Background()); err != nil {
			t.Errorf("lab down: %v", err)
		}
	})
	return w
}

// cable creates a peer's links.
func (f *field) cable(p *onePeer) {
	f.w.Helper()
	hq := f.w.NS("isp")
	for _, line := range []string{
		"sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0",
		"ip link add mgmt0 type veth peer name mgmt" + p.name + " netns " + hq,
		"ip addr add 192.0.2." + fmt.Sprint(10+p.n) + "/24 dev mgmt0", "ip link set mgmt0 up",
		"ip link add under0 type veth peer name seg" + p.name + " netns " + hq,
		"ip addr add " + p.underlay() + "/24 dev under0", "ip link set under0 up",
		"ip -n " + hq + " link set mgmt" + p.name + " master mgmt up",
		"ip -n " + hq + " link set seg" + p.name + " master seg up",
		"ip link add lan0 type veth peer name eth0 netns " + p.NS("dev"), "ip link set lan0 up",
		"ip -n " + p.NS("dev") + " addr add " + p.device().String() + "/24 dev eth0",
		"ip -n " + p.NS("dev") + " link set eth0 up",
	} {
		p.in("node", strings.Fields(line)...)
	}
}

// describePeers returns the descriptors of all peers. The first one's underlay is an address, the others' a port; the
// last one has an executor.
func (f *field) describePeers() string {
	var docs []string
	for i, p := range f.peers {
		under := "{port: wan}"
		if i == 0 {
			under = "{address: " + p.underlay() + "}"
		}
		text := fmt.Sprintf("kind: PeerDescriptor\nmetadata: {name: %s}\nspec:\n  interfaces: {lan: {ifName: lan0, kind: "+
			"ethernet}}\n  underlays: {net: %s}\n", p.name, under)
		if i == len(f.peers)-1 {
			text += fmt.Sprintf("  executors: {pulse: {command: [/bin/sh, -c, \"echo $$ >>%s; exec sleep 4711\"]}}\n", p.pulse())
		}
		docs = append(docs, text)
	}
	return strings.Join(docs, "---\n")
}

// pulse returns the file to which the executor writes its pid at each start.
func (p *onePeer) pulse() string { return filepath.Join(p.Dir, "pulse") }

// pulses returns the pids that the executor has had.
func (p *onePeer) pulses() []string {
	p.Helper()
	text, err := os.ReadFile(p.pulse())
	if err != nil && !os.IsNotExist(err) {
		p.Fatal(err)
	}
	return strings.Fields(string(text))
}

// describeCluster returns the descriptor of a cluster of all peers.
func (f *field) describeCluster(leader *onePeer, topology string) string {
	text := fmt.Sprintf("kind: ClusterDescriptor\nmetadata: {name: yard}\nspec:\n  leader: %s\n  topology: %s\n  "+
		"members:\n", leader.name, topology)
	for _, p := range f.peers {
		text += fmt.Sprintf("    %s: {interfaces: lan, underlay: net}\n", p.name)
	}
	return text
}

// describeEncrypted describes the cluster as a star that the first peer leads, with WireGuard between its members.
func (f *field) describeEncrypted() string {
	return strings.Replace(f.describeCluster(f.peers[0], "star"), "  members:", "  encryption: wireguard\n  members:", 1)
}

// apply sends documents to the controller.
func (f *field) apply(docs string) {
	f.w.Helper()
	if r := f.with(docs, "apply", "-f", "-"); r.Code != 0 {
		f.w.Fatalf("apply: exit %d: %s%s", r.Code, r.Out, r.Err)
	}
}

// untilReady waits for the cluster with `wait`.
func (f *field) untilReady() {
	f.w.Helper()
	if r := f.run("wait", "cluster/yard", "--for", "ready", "--timeout", scaled(20*time.Second).String()); r.Code != 0 {
		f.w.Fatalf("wait cluster/yard: exit %d: %s%s\n%s", r.Code, r.Out, r.Err, f.told())
	}
}

// told returns the output of all commands that show the cluster, for a failure message.
func (f *field) told() string {
	f.w.Helper()
	out := f.run("clusters", "status", "yard").Out
	for _, p := range f.peers {
		out += f.run("peers", "status", p.name).Out
	}
	return out
}

// peerSeen and clusterSeen are parts of the output of -o json.
type peerSeen struct {
	Name, ID, Health, Why, Applied string
	Desired                        string `json:"wanted"`
	Online, Ready, Described       bool
	Clusters                       []string
	Counts                         map[string]int
	Parameters, Ignored            []parameterSeen
}

type parameterSeen struct {
	ID, Kind, Target, State, Review, Reason string
	Attempts                                int
}

type clusterSeen struct {
	State, Health, Why string
	Ready, Deployed    bool
	Tunnels            []struct {
		Between, States [2]string
		VNI             uint32
		Reason          string
	}
}

func (f *field) peer(p *onePeer) (s peerSeen) {
	f.w.Helper()
	f.json(&s, "peers", "status", p.name)
	return s
}

func (f *field) cluster() (s clusterSeen) {
	f.w.Helper()
	f.json(&s, "clusters", "status", "yard")
	return s
}

// json parses an answer; without one, into is unchanged.
func (f *field) json(into any, args ...string) {
	f.w.Helper()
	r := f.run(append(args, "-o", "json")...)
	if r.Out == "" {
		return
	}
	if err := json.Unmarshal([]byte(r.Out), into); err != nil {
		f.w.Fatalf("%v: %v: %s", args, err, r.Out)
	}
}

// of returns the parameters of one kind.
func (s peerSeen) of(kind string) (out []parameterSeen) {
	for _, p := range s.Parameters {
		if p.Kind == kind {
			out = append(out, p)
		}
	}
	return out
}

// cross pings from each device to each other one, once, and returns the pairs that failed.
func (f *field) cross(wait time.Duration) []string {
	f.w.Helper()
	var (
		mu   sync.Mutex
		bad  []string
		done sync.WaitGroup
	)
	for _, a := range f.peers {
		for _, b := range f.peers {
			if a == b {
				continue
			}
			done.Go(func() {
				argv := []string{"ping", "-n", "-c", "1", "-W", fmt.Sprint(wait.Seconds()), b.device().String()}
				if r, err := a.Exec(a.ctx, "dev", argv...); err != nil || r.Code != 0 {
					mu.Lock()
					defer mu.Unlock()
					bad = append(bad, a.name+" to "+b.name)
				}
			})
		}
	}
	done.Wait()
	slices.Sort(bad)
	return bad
}

// connected checks a ping between each two devices.
func (f *field) connected() {
	f.w.Helper()
	if bad := f.cross(2 * time.Second); len(bad) > 0 {
		f.w.Errorf("no ping goes from %v\n%s", bad, f.told())
	}
}

// pictures returns the hosts' state as the kernel reports it.
func (f *field) pictures() map[string]string {
	f.w.Helper()
	out := map[string]string{}
	for _, p := range f.peers {
		out[p.name] = p.dump("node")
	}
	return out
}

// undeploy undeploys the cluster, and checks that the hosts are as they were.
func (f *field) undeploy(before map[string]string) {
	f.w.Helper()
	f.ok("clusters", "undeploy", "yard")
	f.isAsBefore(before)
}

// isAsBefore waits until the cluster is undeployed, and then until the hosts are as they were: objects that all
// networks of a node share are removed after the last network.
func (f *field) isAsBefore(before map[string]string) {
	f.w.Helper()
	f.ok("wait", "cluster/yard", "--for", "undeployed", "--timeout", scaled(20*time.Second).String())
	var now map[string]string
	defer func() {
		for name := range before {
			if f.w.Failed() && now[name] != before[name] {
				f.w.Logf("%s after undeploy:\n%s", name, changed(before[name], now[name]))
			}
		}
	}()
	f.w.eventually("the hosts as they were", func() bool {
		now = f.pictures()
		return maps.Equal(now, before)
	})
}

// acquaint gives each device the others' MAC addresses.
func (f *field) acquaint() {
	f.w.Helper()
	for _, to := range f.peers {
		mac := to.in("dev", "cat", "/sys/class/net/eth0/address")
		for _, from := range f.peers {
			if from != to {
				from.in("dev", strings.Fields(fmt.Sprintf("ip neigh replace %s lladdr %s nud permanent dev eth0", to.device(),
					mac))...)
			}
		}
	}
}
