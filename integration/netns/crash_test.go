package netns_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"

	"github.com/google/go-cmp/cmp"
)

// before returns a config of four networks and four apps, one of them on two networks. The last network has the subnet
// of the first.
func (l *lab) before() string {
	return "ports:\n" + wanDoc + "networkInstances:\n" +
		netDoc(1, 1400, "10.1.0.0/24", "one.edge") + netDoc(2, 1400, "10.2.0.0/24", "two.edge") +
		"    flows: drain\n" +
		netDoc(3, 1400, "10.3.0.0/24", "three.edge") + sharedDoc(5, "10.1.0.0/24") +
		"appNetworks:\n" + appDoc(4, webACL, l.attach(5, "eth50")) + appDoc(1, webACL, l.attach(1, "eth10"), l.attach(2, "eth11")) +
		appDoc(2, webACL, l.attach(1, "eth20")) + appDoc(3, webACL, l.attach(2, "eth30"))
}

// after returns the next config: other access rules for app 1, another dnsmasq for network 1, app 2 moved from network
// 1 to 2 with the same interface name, app 3 in another network's new subnet, network 3 removed and its subnet given
// to network 4, app 4 moved from network 5 to network 6, both with the subnet of network 1, the
// latter behind NAT.
func (l *lab) after() string {
	return "ports:\n" + wanDoc + "networkInstances:\n" +
		netDoc(1, 1300, "10.1.0.0/24", "other.edge") + "    flows: keep\n" + netDoc(2, 1400, "10.12.0.0/24", "two.edge") +
		netDoc(4, 1400, "10.3.0.0/24", "three.edge") + natDoc(6, "10.1.0.0/24") +
		"appNetworks:\n" + appDoc(4, webACL, l.attach(6, "eth50")) + appDoc(1, otherACL, l.attach(1, "eth10"), l.attach(2, "eth11")) +
		appDoc(2, webACL, l.attach(2, "eth20")) + appDoc(3, webACL, l.attach(2, "eth30"))
}

const otherACL = "{order: 1, direction: both, match: {ip: 198.51.100.0/24, protocol: udp}}"

func (l *lab) attach(n int, ifName string) string {
	return fmt.Sprintf("{networkInstance: %s, attach: {kind: veth, netns: %s, ifName: %s}", owner(n).Name, l.app.Name,
		ifName)
}

// turn changes the host from one config to another, and checks law 11 for each owner.
func (l *lab) turn(from, to desiredStates) {
	l.t.Helper()
	for _, u := range turns(from, to) {
		if fs := l.apply(l.t.Context(), u.owner, u.want); len(fs) > 0 {
			l.t.Fatalf("apply %s: %+v", u.owner.Name, fs)
		}
	}
	l.holds(from, to)
}

// holds checks that every owner of both configs has the state that the second desires.
func (l *lab) holds(from, to desiredStates) {
	l.t.Helper()
	for _, u := range turns(from, to)[1:] {
		if d := cmp.Diff(u.want.String(), l.observe(u.owner, true).String()); d != "" {
			l.t.Fatalf("observe %s (-want +got):\n%s", u.owner.Name, d)
		}
	}
}

// someOps performs the first ops of a change and reports whether there were more.
func (l *lab) someOps(from, to desiredStates, ops int) (did []string, more bool) {
	l.t.Helper()
	for _, u := range turns(from, to) {
		for _, op := range netstate.Diff(l.observe(u.owner, false), u.want) {
			if len(did) == ops {
				return did, true
			}
			if err := l.do(l.t.Context(), u.owner, op); err != nil {
				l.t.Fatalf("%s: %v", op, err)
			}
			did = append(did, op.String())
		}
	}
	return did, false
}

// crashWays are the changes of config that are interrupted after each of their ops.
var crashWays = map[string]func(*lab) (from, to string){
	"a network comes and goes": func(l *lab) (string, string) { return "{}", l.networkDoc(1) },
	"access rules change": func(l *lab) (string, string) {
		nets := "ports:\n" + wanDoc + "networkInstances:\n" + netDoc(1, 1400, "10.1.0.0/24", "edge") + "appNetworks:\n"
		return nets + appDoc(1, webACL, l.attach(1, "eth10")), nets + appDoc(1, otherACL, l.attach(1, "eth10"))
	},
	"dnsmasq is replaced": func(l *lab) (string, string) {
		app := "appNetworks:\n" + appDoc(1, webACL, l.attach(1, "eth10"))
		return "ports:\n" + wanDoc + "networkInstances:\n" + netDoc(1, 1400, "10.1.0.0/24", "one.edge") + app,
			"ports:\n" + wanDoc + "networkInstances:\n" + netDoc(1, 1300, "10.1.0.0/24", "two.edge") + app
	},
	"a subnet changes": func(l *lab) (string, string) {
		app := "appNetworks:\n" + appDoc(1, webACL, l.attach(1, "eth10"))
		return "ports:\n" + wanDoc + "networkInstances:\n" + netDoc(1, 1400, "10.1.0.0/24", "edge") + app,
			"ports:\n" + wanDoc + "networkInstances:\n" + netDoc(1, 1400, "10.11.0.0/24", "edge") + app
	},
	"two networks get one subnet": func(l *lab) (string, string) {
		app := "appNetworks:\n" + appDoc(1, webACL, l.attach(1, "eth10"))
		return "ports:\n" + wanDoc + "networkInstances:\n" + netDoc(1, 1400, "10.1.0.0/24", "edge") + app,
			"ports:\n" + wanDoc + "networkInstances:\n" + sharedDoc(1, "10.1.0.0/24") + natDoc(2, "10.1.0.0/24") + app +
				appDoc(2, otherACL, l.attach(2, "eth12"))
	},
	"a network of one subnet gets a port": func(l *lab) (string, string) {
		app := natDoc(2, "10.1.0.0/24") + "appNetworks:\n" + appDoc(1, webACL, l.attach(1, "eth10"))
		return "ports:\n" + wanDoc + "networkInstances:\n" + sharedDoc(1, "10.1.0.0/24") + app,
			"ports:\n" + wanDoc + "networkInstances:\n" + natDoc(1, "10.1.0.0/24") + app
	},
	"an adapter moves": func(l *lab) (string, string) {
		nets := "ports:\n" + wanDoc + "networkInstances:\n" + netDoc(1, 1400, "10.1.0.0/24", "one.edge") +
			netDoc(2, 1400, "10.2.0.0/24", "two.edge") + "appNetworks:\n"
		return nets + appDoc(1, webACL, l.attach(1, "eth10")), nets + appDoc(1, webACL, l.attach(2, "eth10"))
	},
}

// For each k: after k ops of a change, another process, which only has the run folder and the kernel, completes the
// change. Changes alternate with their reverse.
func TestAStopAfterAnyOpConverges(t *testing.T) {
	t.Parallel()
	for name, docs := range crashWays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			others := foreign(t, l)
			from, to := docs(l)
			a := l.desiredStates(from, desiredStates{})
			b := l.desiredStates(to, a)
			l.turn(desiredStates{}, a)
			start := picture(t, l.ns)
			for k, more := 0, true; more; k++ {
				more = false
				for _, w := range [][2]desiredStates{{a, b}, {b, a}} {
					did, left := l.someOps(w[0], w[1], k)
					more = more || left
					l.open()
					l.turn(w[0], w[1])
					if d := others.differ(); d != "" {
						t.Fatalf("stopped after %d ops, %q: what belongs to others differs:\n%s", k, did, d)
					}
				}
				if !more {
					t.Logf("%d ops", k)
				}
			}
			if d := cmp.Diff(sorted(start), sorted(picture(t, l.ns))); d != "" {
				t.Errorf("host differs (-before +after):\n%s", d)
			}
			l.turn(a, desiredStates{})
			others.same(t)
		})
	}
}

// An op that is canceled returns an OpError.
func TestAnOpThatIsStoppedIsAnOpError(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, op := range netstate.Diff(netstate.State{}, l.network(1)) {
		var e *netstate.OpError
		if err := l.host.Do(ctx, owner(1), op); !errors.As(err, &e) {
			t.Errorf("%s: error %v is no OpError", op, err)
		}
	}
	if left := l.observe(owner(1), true); len(left) > 0 {
		t.Errorf("stopped ops left:\n%s", left)
	}
}

// kills is the number of times at which each change is killed.
const kills = 3

// everyNthOp is how many ops lie between two stops of a cluster; 1 stops after each.
var everyNthOp = flag.Int("every-nth-op", 3, "stop a cluster after each nth op only")

// childEnv makes a copy of this test program the process to be killed. It contains the namespaces, the run folder, and
// the number of the change.
const childEnv = "EDGESPAN_NETNS_CHILD"

// A process that changes the host is killed (SIGKILL) at times spread over the change, even in the middle of an op.
// The next process completes the change.
func TestAKillAtAnyInstantConverges(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		child(t)
		return
	}
	t.Parallel()
	l := newLab(t)
	others := foreign(t, l)
	a := l.desiredStates(l.before(), desiredStates{})
	b := l.desiredStates(l.after(), a)
	l.turn(desiredStates{}, a)
	cut := 0
	for i, w := range [][2]desiredStates{{a, b}, {b, a}, {a, {}}, {{}, a}} {
		whole := l.killed(i, time.Hour) // to its end, to measure its duration
		l.open()
		l.holds(w[0], w[1])
		for k := range kills {
			l.turn(w[1], w[0])
			if l.killed(i, whole*time.Duration(k)/kills) < 0 {
				cut++
			}
			l.open()
			l.turn(w[0], w[1])
			others.same(t)
		}
	}
	t.Logf("%d of %d were killed before their end", cut, 4*kills)
	if cut < 2*kills {
		t.Errorf("only %d of %d were killed before their end", cut, 4*kills)
	}
}

// killed runs a child that performs one change and kills it some time after its first op. It returns how long the
// child took, or -1 if it was killed before its end.
func (l *lab) killed(way int, after time.Duration) time.Duration {
	l.t.Helper()
	l.close()
	cmd := exec.CommandContext(l.t.Context(), os.Args[0], "-test.run=^TestAKillAtAnyInstantConverges$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s %d", childEnv, l.ns.Name, l.app.Name, l.dir, way))
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "begin" {
		l.t.Fatalf("the child says %q", lines.Text())
	}
	began := time.Now()
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	done := lines.Scan() && lines.Text() == "end"
	took := time.Since(began)
	said := lines.Text()
	for lines.Scan() {
		said += "\n" + lines.Text()
	}
	if err := cmd.Wait(); err == nil && done {
		return took
	} else if !strings.Contains(fmt.Sprint(err), "killed") && !done {
		l.t.Fatalf("the child ended with %v: %s", err, said)
	}
	return -1
}

// child is the process to be killed.
func child(t *testing.T) {
	word := strings.Fields(os.Getenv(childEnv))
	l := &lab{t: t, ns: &netns.NS{Name: word[0], Path: "/run/netns/" + word[0]}, app: &netns.NS{Name: word[1]},
		dir: word[2]}
	l.open()
	a := l.desiredStates(l.before(), desiredStates{})
	b := l.desiredStates(l.after(), a)
	way := map[string][2]desiredStates{"0": {a, b}, "1": {b, a}, "2": {a, {}}, "3": {{}, a}}[word[3]]
	fmt.Println("begin")
	for _, u := range turns(way[0], way[1]) {
		if fs := l.apply(t.Context(), u.owner, u.want); len(fs) > 0 {
			t.Fatalf("apply %s: %+v", u.owner.Name, fs)
		}
	}
	fmt.Println("end")
}

// A kill right after an owner was marked leaves a folder without any object. The next start removes it.
func TestAMarkWithNothingBehindItGoesAtTheNextStart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	mark := func(n int, files ...string) {
		t.Helper()
		for _, f := range files {
			path := filepath.Join(l.dir, "ni", fmt.Sprint(n), f)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
				os.WriteFile(path, []byte(owner(n).Name+"\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	found := func(want ...netstate.Owner) {
		t.Helper()
		got, err := l.host.Owners(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("owners -want +got:\n%s", d)
		}
	}
	mark(1, "owner", ".new-123")
	mark(2, ".new-123")
	mark(3, "owner", "conf/dnsmasq.conf")
	mark(4, "owner")
	l.ns.Exec(t, "ip", "link", "add", "es4", "type", "bridge")
	l.open()
	found(owner(3), owner(4))
	for _, n := range []int{1, 2} {
		if _, err := os.Stat(filepath.Join(l.dir, "ni", fmt.Sprint(n))); err == nil {
			t.Errorf("the mark of network %d is left", n)
		}
	}
	mark(1, "owner") // of a network that is about to be created
	found(owner(1), owner(3), owner(4))
	// Other leftovers of a kill next to a mark do not keep the folder.
	mark(3, ".new-123")
	l.must(owner(3), netstate.State{})
	if _, err := os.Stat(filepath.Join(l.dir, "ni", "3")); err == nil {
		t.Error("the folder of network 3 is left")
	}
}
