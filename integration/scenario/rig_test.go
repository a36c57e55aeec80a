// Package scenario tests the real daemon in a lab of network namespaces, with real clients.
//
// It never looks inside the daemon: it uses the command line, the kernel and packets.
//
// Tests that mostly wait, for packets that must not arrive or in rounds, and that measure no time, are t.Parallel: two
// at a time, each in its lab, after the tests that measure.
package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"edgespan/platform/lab"
)

var binary string

// TestMain builds the daemon once, and is the child process of the labs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == lab.ChildCommand {
		os.Exit(lab.ChildMain(os.Args[2:], os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == etcdCommand {
		os.Exit(etcdMain(os.Args[2]))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Geteuid() != 0 {
		fmt.Println("scenario: skipped: needs root for network namespaces")
		return 0
	}
	dir, err := os.MkdirTemp("", "esbin")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "edgespan")
	build := exec.Command("go", "build", "-ldflags=-s", "-o", binary, "edgespan/cmd/edgespan")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build edgespan: %v\n%s", err, out)
		return 1
	}
	start := medianStart()
	slowness = min(max(float64(start)/float64(commonStart), 1), maxSlowness)
	fmt.Printf("scenario: a program starts within %v: limits are %.1f times as long\n", start.Round(10*time.Microsecond),
		slowness)
	return m.Run()
}

// slowness is how many times as long things take as on a common machine. Limits of time grow with it, and nothing else
// does: what a test asks for is the same everywhere.
var slowness float64

const (
	commonStart = time.Millisecond // of a program, with nothing beside
	maxSlowness = 5
)

// scaled returns a limit as this machine has it.
func scaled(limit time.Duration) time.Duration { return time.Duration(float64(limit) * slowness) }

// medianStart measures the start of a program: most of what tests wait for begins with one.
func medianStart() time.Duration {
	var took []time.Duration
	for range 25 {
		began := time.Now()
		_ = exec.Command("true").Run() // only its time counts
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// world is a lab with a daemon in it.
type world struct {
	testing.TB
	*lab.Lab
	ctx  context.Context
	node *lab.Node
}

// newWorld builds a lab with the named apps' namespaces; no daemon is running yet.
func newWorld(t testing.TB, apps ...string) *world {
	t.Helper()
	return newWorldOf(t, lab.Options{Apps: apps})
}

// newWorldOf is newWorld with more options of the lab: MTUs, a second uplink.
func newWorldOf(t testing.TB, o lab.Options) *world {
	t.Helper()
	limit := scaled(4*time.Minute) * time.Duration(max(1, *flushRuns/5))
	if _, bench := t.(*testing.B); bench {
		limit = time.Hour // of all runs; go test -timeout ends it
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	o.Binary, o.Child = binary, []string{os.Args[0], lab.ChildCommand}
	l, err := lab.Up(ctx, o)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	w := &world{TB: t, Lab: l, ctx: ctx}
	t.Cleanup(func() {
		defer cancel()
		if t.Failed() {
			t.Logf("the daemon's last words:\n%s", l.LastWords(30))
		}
		if err := l.Down(context.Background()); err != nil {
			t.Errorf("lab down: %v", err)
		}
	})
	return w
}

// start writes the config file and starts the daemon with it.
func (w *world) start(doc string, env ...string) {
	w.Helper()
	if err := w.WriteConfig([]byte(doc)); err != nil {
		w.Fatal(err)
	}
	w.restart(env...)
}

// restart starts a daemon on the existing state, and returns how long it took to answer.
func (w *world) restart(env ...string) time.Duration {
	w.Helper()
	cmd := w.NodeCmd()
	cmd.Env = append(os.Environ(), env...)
	n, err := w.StartNode(cmd)
	if err != nil {
		w.Fatal(err)
	}
	w.node = n
	took, err := w.WaitControl(w.ctx, n)
	if err != nil {
		w.Fatal(err)
	}
	return took
}

// apply makes doc the node's config.
func (w *world) apply(doc string) {
	w.Helper()
	b, err := w.Config([]byte(doc))
	if err != nil {
		w.Fatal(err)
	}
	if r, err := w.CLIWith(w.ctx, string(b), "apply", "-f", "-"); err != nil || r.Code != 0 {
		w.Fatalf("apply: exit %d, %v: %s", r.Code, err, r.Err)
	}
}

// wait waits for targets as `edgespan wait` names them.
func (w *world) wait(what string, targets ...string) {
	w.Helper()
	for _, t := range targets {
		r, err := w.CLI(w.ctx, "wait", t, "--for", what, "--timeout", scaled(20*time.Second).String())
		if err != nil || r.Code != 0 {
			w.Fatalf("wait %s for %s: exit %d, %v: %s", t, what, r.Code, err, r.Err)
		}
	}
}

// cli runs a command that must succeed.
func (w *world) cli(args ...string) string {
	w.Helper()
	r, err := w.CLI(w.ctx, args...)
	if err != nil || r.Code != 0 {
		w.Fatalf("edgespan %s: exit %d, %v: %s%s", strings.Join(args, " "), r.Code, err, r.Err, r.Out)
	}
	return r.Out
}

// status reads the status of one resource.
func (w *world) status(kind, id string) map[string]any {
	w.Helper()
	var one struct{ Status map[string]any }
	if err := json.Unmarshal([]byte(w.cli("get", kind, id, "-o", "json")), &one); err != nil {
		w.Fatal(err)
	}
	return one.Status
}

// in runs a command in a namespace that must succeed.
func (w *world) in(short string, argv ...string) string {
	w.Helper()
	r, err := w.Exec(w.ctx, short, argv...)
	if err != nil || r.Code != 0 {
		w.Fatalf("%s: %s: status %d, %v: %s", short, strings.Join(argv, " "), r.Code, err, r.Err)
	}
	return strings.TrimSpace(r.Out)
}

// fails runs a command in a namespace that must fail.
func (w *world) fails(short string, argv ...string) {
	w.Helper()
	r, err := w.Exec(w.ctx, short, argv...)
	if err != nil {
		w.Fatal(err)
	}
	if r.Code == 0 {
		w.Errorf("%s: %s: succeeded: %s", short, strings.Join(argv, " "), r.Out)
	}
}

// lease gets a lease on eth0 of an app.
func (w *world) lease(app string) lab.Lease {
	w.Helper()
	l, err := w.DHCP(w.ctx, app, "eth0")
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// folder returns every file of the run folder with its mode, inode, modification time and content, without dnsmasq's
// leases, the daemon's socket, and daemon.json, which says how the daemon was started.
func (w *world) folder() string {
	w.Helper()
	var b strings.Builder
	err := filepath.WalkDir(w.RunDir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() == fs.ModeSocket || d.Name() == "leases" || d.Name() == "daemon.json" {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(w.RunDir(), path)
		if err != nil {
			return err
		}
		at := st.ModTime().UnixNano()
		if d.IsDir() {
			if rel == "." { // the socket is in it
				at = 0
			}
			fmt.Fprintf(&b, "%s %s inode %d at %d\n", rel, st.Mode(), st.Sys().(*syscall.Stat_t).Ino, at)
			return nil
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %s inode %d at %d: %q\n", rel, st.Mode(), st.Sys().(*syscall.Stat_t).Ino, at, text)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return b.String()
}

// dump returns the complete network state of a namespace.
func (w *world) dump(short string) string {
	w.Helper()
	var b bytes.Buffer
	// An owned nftables table names its owner.
	has := regexp.MustCompile(`^\s*flags( owner)?.*$| # progname .*$`)
	// nft prints this match in one of two forms, depending on whether it could load the extension of iptables.
	connlimit := regexp.MustCompile(`add @connlimit\d+ \{[^}]*\}`)
	meter := regexp.MustCompile(`__meter\d+`) // the kernel numbers them
	timer := regexp.MustCompile(`(hello_timer|tcn_timer|topology_change_timer|gc_timer|forward_delay_timer) +[0-9.]+`)
	for _, c := range []string{
		"ip -d -o link", "ip -o addr", "ip rule", "ip route show table all", "ip -6 route show table all", "iptables-save",
		"nft -s list ruleset",
		`sysctl -a --pattern ^net.ipv4.(ip_forward|conf.[^.]*.forwarding)$|bridge-nf-call-ip`,
	} {
		lines := strings.Split(w.in(short, strings.Fields(c)...), "\n")
		slices.Sort(lines)
		fmt.Fprintf(&b, "== %s\n", c)
		for _, line := range lines {
			if !strings.HasPrefix(line, "#") { // iptables-save writes the time
				line = meter.ReplaceAllString(connlimit.ReplaceAllString(line, "xt match connlimit"), "meter")
				fmt.Fprintln(&b, has.ReplaceAllString(timer.ReplaceAllString(line, "$1"), ""))
			}
		}
	}
	return b.String()
}

func ni(n int) string  { return fmt.Sprintf("10000000-0000-4000-8000-%012d", n) }
func app(n int) string { return fmt.Sprintf("a0000000-0000-4000-8000-%012d", n) }

// network returns one network of a config: number n has 10.n.0.0/24 and domain n<n>.edge.
func network(n int, more string) string {
	return fmt.Sprintf("  %s:\n    displayName: net%d\n    type: local\n    port: wan\n    ipv4: {subnet: "+
		"10.%d.0.0/24}\n    dns: {domain: n%d.edge}\n%s", ni(n), n, n, n, more)
}

// onNet returns one app of a config with an adapter on network n in namespace ns.
func onNet(a, n int, ns, acl string) string {
	return fmt.Sprintf("  %s:\n    displayName: app%d\n    activate: true\n    adapters:\n      0: {networkInstance: "+
		"%s, attach: {kind: veth, netns: %s}, acl: {%s}}\n", app(a), a, ni(n), ns, acl)
}

const wan = "ports:\n  wan: {ifName: uplink0, uplink: true, dnsServers: 198.51.100.53}\n"

// allowAll lets an app reach everything but the node and be reached by everything.
const allowAll = "all: {action: allow, direction: both}"

func doc(nets []string, apps ...string) string {
	d := wan
	if len(nets) > 0 {
		d += "networkInstances:\n" + strings.Join(nets, "")
	}
	if len(apps) > 0 {
		d += "appNetworks:\n" + strings.Join(apps, "")
	}
	return d
}
