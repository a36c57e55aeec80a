package netns_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"
	"edgespan/platform/host"

	"github.com/google/go-cmp/cmp"
)

// lab is a host in a namespace with an uplink and an app's namespace.
type lab struct {
	t    *testing.T
	ns   *netns.NS
	app  *netns.NS
	dir  string
	host *host.Host
}

var hostOwner = netstate.Owner{Name: netstate.HostOwner}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, ns: netns.New(t), app: netns.New(t)}
	// dnsmasq reads as nobody: it must be able to enter every folder above.
	dir, err := os.MkdirTemp("", "est")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l.dir = filepath.Join(dir, "run")
	l.ns.Exec(t, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "far0")
	for _, link := range []string{"eth0", "far0"} { // no automatic addresses later
		l.ns.Exec(t, "ip", "link", "set", link, "addrgenmode", "none")
	}
	l.ns.Exec(t, "ip", "addr", "add", "192.0.2.2/24", "dev", "eth0")
	l.ns.Exec(t, "ip", "link", "set", "eth0", "up")
	l.ns.Exec(t, "ip", "link", "set", "far0", "up")
	l.ns.Exec(t, "ip", "route", "add", "default", "via", "192.0.2.1")
	until(t, "uplink has carrier",
		func() bool { return !strings.Contains(l.ns.Exec(t, "ip", "link", "show"), "LOWERLAYERDOWN") })
	l.open()
	t.Cleanup(l.close)
	return l
}

// open starts another process, after the end of the one before: an nftables table has one owner. Like the daemon, it
// first asks for the owners.
func (l *lab) open() {
	l.t.Helper()
	l.close()
	h, err := host.New(host.Config{RunDir: l.dir, NetnsPath: l.ns.Path})
	if err != nil {
		l.t.Fatal(err)
	}
	l.host = h
	ctx, cancel := context.WithTimeout(context.Background(), observeTimeout)
	defer cancel()
	if _, err := h.Owners(ctx); err != nil {
		l.t.Fatal(err)
	}
}

// close ends the process.
func (l *lab) close() {
	if l.host != nil {
		_ = l.host.Close()
		l.host = nil
	}
}

func owner(n int) netstate.Owner {
	return netstate.Owner{Name: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Number: n}
}

func subnetOf(n int) netip.Prefix { return netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/24", n)) }

// veth returns an adapter of network n whose app is in a namespace.
func (l *lab) veth(n int, app string) netstate.Link {
	peer := fmt.Sprintf("eth%d", n)
	alias := fmt.Sprintf("edgespan ni %s adapter a/0 netns=%s peer=%s mac=02:16:3e:01:00:%02x mtu=1400", owner(n).Name,
		app, peer, n)
	return netstate.Link{
		Name: fmt.Sprintf("es%da1", n), Type: netstate.Veth, MAC: fmt.Sprintf("02:16:3e:02:00:%02x", n), MTU: 1400,
		Alias: alias,
		Peer:  &netstate.Peer{Netns: app, Name: peer, MAC: fmt.Sprintf("02:16:3e:01:00:%02x", n), MTU: 1400},
	}
}

// observeTimeout bounds one observation, as the applier does.
const observeTimeout = 10 * time.Second

func (l *lab) observe(o netstate.Owner, full bool) netstate.State {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), observeTimeout)
	defer cancel()
	s, err := l.host.Observe(ctx, o, full)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// do performs one op within its deadline, as the applier does: an op that hangs is an error that names it, and does
// not use up the time of all tests.
func (l *lab) do(ctx context.Context, o netstate.Owner, op netstate.Op) error {
	ctx, cancel := context.WithTimeout(ctx, op.Deadline())
	defer cancel()
	return l.host.Do(ctx, o, op)
}

// apply performs the plan for the desired state, reads back what was written as the applier does, and returns the
// failures.
func (l *lab) apply(ctx context.Context, o netstate.Owner, want netstate.State) []netstate.OpFailure {
	l.t.Helper()
	r := netstate.NewRun(netstate.Diff(l.observe(o, true), want))
	for op, ok := r.Next(); ok; op, ok = r.Next() {
		r.Done(op, l.do(ctx, o, op))
	}
	l.observe(o, false)
	return r.Failures()
}

// must applies a desired state and checks law 11: the observed state is the desired one.
func (l *lab) must(o netstate.Owner, want netstate.State) {
	l.t.Helper()
	if fs := l.apply(l.t.Context(), o, want); len(fs) > 0 {
		l.t.Fatalf("apply %s: %+v", o.Name, fs)
	}
	l.equal(o, want)
}

func (l *lab) equal(o netstate.Owner, want netstate.State) {
	l.t.Helper()
	for _, full := range []bool{false, true} {
		if d := cmp.Diff(want.String(), l.observe(o, full).String()); d != "" {
			l.t.Fatalf("observe %s, full %v (-want +got):\n%s", o.Name, full, d)
		}
	}
}

var (
	// A bridge's tso_max_size is that of its last ports. ip prints an error about a peer's namespace while another test's
	// is being deleted.
	// The kernel numbers the sets of meters.
	counters = regexp.MustCompile(`tso_max_size \d+|state (UP|DOWN|UNKNOWN|LOWERLAYERDOWN)|\w+_timer ` +
		`+[\d.]+|\[\d+:\d+\]|__meter\d+|packets \d+ bytes \d+|valid_lft \S+ preferred_lft \S+|(?m)^#.*$|(?m)^Error: Peer netns ` +
		`reference is invalid\.\n`)
	indexes = regexp.MustCompile(`(?m)^\d+: |@if\d+| link-netnsid \d+`)
	// nft prints this match in one of two forms, depending on whether it could load the extension of iptables.
	connlimit = regexp.MustCompile(`add @connlimit\d+ \{[^}]*\}`)
)

// picture returns the complete network state of a namespace, as tools show it.
func picture(t *testing.T, ns *netns.NS) string {
	t.Helper()
	var b strings.Builder
	for _, argv := range [][]string{
		{"ip", "-d", "link"},
		{"ip", "addr"},
		{"ip", "rule"},
		{"ip", "route", "show", "table", "all"},
		{"ip", "-6", "rule"},
		{"iptables-save"},
		{"nft", "list", "ruleset"},
		{"sysctl", "-a", "--pattern", `ip_forward|bridge-nf|^net.ipv[46].conf.[^.]*.forwarding|accept_ra$`},
	} {
		fmt.Fprintf(&b, "$ %s\n%s", strings.Join(argv, " "), counters.ReplaceAllString(ns.Exec(t, argv...), ""))
	}
	return connlimit.ReplaceAllString(indexes.ReplaceAllString(b.String(), ""), "xt match connlimit")
}

// until waits for a condition. It asks less often where an answer costs a program.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		asked := time.Now()
		if cond() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
		time.Sleep(min(max(5*time.Millisecond, time.Since(asked)), 200*time.Millisecond))
	}
}
