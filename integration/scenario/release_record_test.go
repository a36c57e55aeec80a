package scenario

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"edgespan/platform/lab"
)

var (
	recordRelease = flag.String("record-release", "",
		"the release whose run folder, state, links, rules and routes are written to testdata/release/NAME (make "+
			"release-testdata)")
	recordBinary = flag.String("record-binary", "",
		"the daemon of that release; the one of this tree where it is not given")
)

const (
	releaseDir  = "testdata/release"
	releaseDoc  = "config.yaml"
	releaseHost = "host.sh"
	// releaseTables has the tables of nftables of the first release that was recorded.
	releaseTables = "bridge.nft"
	// The records contain the paths of the run folder and of namespaces, and tests run in parallel: each has its own
	// folder at this path, in a mount namespace.
	fixedPlace = "/mnt"
)

var releaseApps = []string{"web", "db"}

// TestRecordARelease records what the daemon leaves on a host, for TestAnUpgradeRecreatesNothing of later releases. It
// is run once per release.
func TestRecordARelease(t *testing.T) {
	if *recordRelease == "" {
		t.Skip("records a release with -record-release only: make release-testdata")
	}
	if *recordBinary != "" {
		binary = *recordBinary
	}
	w := newWorld(t, releaseApps...)
	text, err := os.ReadFile(filepath.Join(releaseDir, releaseDoc))
	if err != nil {
		t.Fatal(err)
	}
	w.startAtFixedPlace(string(text))
	w.releaseReady()
	w.lease("web")
	w.lease("db")
	if err := w.node.Stop(w.ctx); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(releaseDir, *recordRelease)
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
	script := "# What " + *recordRelease +
		" left on a host, written by make release-testdata.\n# $NODE and $APP_web … are the namespaces.\nset -e\n"
	for _, from := range []string{w.RunDir(), w.StateDir()} {
		script += w.copyTree(from, filepath.Join(out, filepath.Base(from)))
	}
	script += w.recordHost()
	// The tables of nftables are in the records of the chains, as the daemon has written them (recreateTables).
	for name, content := range map[string]string{"iptables.save": w.in("node", "iptables-save") + "\n",
		releaseHost: script} {
		if err := os.WriteFile(filepath.Join(out, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) releaseReady() {
	w.Helper()
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
}

// atFixedPlace returns argv in the node's namespace, with the lab's folder at fixedPlace and the apps' namespaces
// below it.
func (w *world) atFixedPlace(argv ...string) *exec.Cmd {
	script := `mount --bind "$LAB" ` + fixedPlace + "; mkdir -p " + fixedPlace + "/netns\n"
	for _, a := range releaseApps {
		script += fmt.Sprintf("touch %[1]s/netns/%[2]s; mount --bind /run/netns/%[3]s %[1]s/netns/%[2]s\n", fixedPlace, a,
			w.NS(a))
	}
	cmd := exec.Command("ip",
		append([]string{"netns", "exec", w.NS("node"), "sh", "-ec", script + `exec "$@"`, "sh"}, argv...)...)
	cmd.Env = append(os.Environ(), "LAB="+w.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

func (w *world) startAtFixedPlace(doc string, env ...string) {
	w.Helper()
	if err := w.WriteConfig([]byte(doc)); err != nil {
		w.Fatal(err)
	}
	cmd := w.atFixedPlace(w.Binary, "node", "--config", w.ConfigFile(), "--state-dir", w.StateDir(),
		"--run-dir", fixedPlace+"/run")
	cmd.Env = append(cmd.Env, env...)
	n, err := w.StartNode(cmd)
	if err != nil {
		w.Fatal(err)
	}
	w.node = n
	if _, err := w.WaitControl(w.ctx, n); err != nil {
		w.Fatal(err)
	}
}

// copyTree copies files and returns commands that set their modes. It skips the socket and the helpers' output, which
// belong to the ended daemon, and the space that it has reserved.
func (w *world) copyTree(from, to string) (modes string) {
	w.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() == fs.ModeSocket || d.Name() == "out" || d.Name() == "reserve" {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		modes += fmt.Sprintf("chmod %o \"$LAB/%s\"\n", st.Mode().Perm(), filepath.Join(filepath.Base(from), rel))
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), content, 0o644)
	})
	if err != nil {
		w.Fatal(err)
	}
	return modes
}

// ipLink is a link in the output of `ip -j -d link`.
type ipLink struct {
	IfName  string   `json:"ifname"`
	Alias   string   `json:"ifalias"`
	Address string   `json:"address"`
	MTU     int      `json:"mtu"`
	Master  string   `json:"master"`
	Flags   []string `json:"flags"`
	Index   int      `json:"ifindex"`
	Peer    int      `json:"link_index"`
	Info    struct {
		Kind string          `json:"info_kind"`
		Type string          `json:"info_type"` // of a tun device
		Data json.RawMessage `json:"info_data"`
	} `json:"linkinfo"`
}

func (w *world) ipLinks(ns string) []ipLink {
	w.Helper()
	var links []ipLink
	if err := json.Unmarshal([]byte(w.in(ns, "ip", "-j", "-d", "link")), &links); err != nil {
		w.Fatal(err)
	}
	return links
}

// recordHost returns the commands that recreate the links, addresses, routes, rules and sysctls of the daemon, and its
// apps' sides.
func (w *world) recordHost() string {
	w.Helper()
	var b strings.Builder
	own := slices.DeleteFunc(w.ipLinks("node"), func(l ipLink) bool { return !strings.HasPrefix(l.Alias, "edgespan") })
	slices.SortStableFunc(own, func(x, y ipLink) int { return strings.Compare(x.Master, y.Master) }) // bridges first
	for _, l := range own {
		switch l.Info.Kind {
		case "bridge":
			fmt.Fprintf(&b, "ip -n $NODE link add %s type bridge nf_call_iptables 1 nf_call_ip6tables 1\n", l.IfName)
		case "veth":
			b.WriteString(w.recordVeth(l))
		case "tun":
			fmt.Fprintf(&b, "ip -n $NODE tuntap add %s mode tap\n", l.IfName)
		default:
			w.Fatalf("a link of kind %q is recorded by nobody", l.Info.Kind)
		}
		fmt.Fprintf(&b, "ip -n $NODE link set %s addrgenmode none address %s mtu %d alias '%s'\n", l.IfName, l.Address, l.MTU,
			l.Alias)
		if l.Master != "" {
			fmt.Fprintf(&b, "ip -n $NODE link set %s master %s\n", l.IfName, l.Master)
		}
		if slices.Contains(l.Flags, "UP") {
			fmt.Fprintf(&b, "ip -n $NODE link set %s up\n", l.IfName)
		}
	}
	lines := func(format, ns string, argv ...string) {
		for line := range strings.Lines(w.in(ns, argv...)) {
			fmt.Fprintf(&b, format, strings.TrimSpace(line))
		}
	}
	for _, l := range own {
		if l.Info.Kind == "bridge" {
			for _, a := range w.addresses("node", l.IfName) {
				fmt.Fprintf(&b, "ip -n $NODE addr add %s dev %s noprefixroute\n", a, l.IfName)
			}
		}
	}
	for _, n := range []string{"20001", "20002"} {
		if out, err := w.Exec(w.ctx, "node", "ip", "route", "show", "table", n); err == nil && out.Code == 0 &&
			out.Out != "" {
			lines("ip -n $NODE route add %s table "+n+"\n", "node", "ip", "route", "show", "table", n, "scope", "link")
			lines("ip -n $NODE route add %s table "+n+"\n", "node", "ip", "route", "show", "table", n, "scope", "global")
		}
		for _, base := range []string{"20", "21"} {
			if rule := w.in("node", "ip", "rule", "show", "pref", base+n[2:]); rule != "" {
				_, words, _ := strings.Cut(rule, ":")
				fmt.Fprintf(&b, "ip -n $NODE rule add pref %s protocol 101 %s\n", base+n[2:],
					strings.Replace(strings.TrimSpace(words), " proto 101", "", 1))
			}
		}
	}
	keys := []string{"net.ipv4.ip_forward", "net.ipv4.conf." + lab.Uplink + ".forwarding"} // the first sets all
	for _, l := range own {
		keys = append(keys, "net.ipv4.conf."+l.IfName+".forwarding")
	}
	for _, key := range keys {
		fmt.Fprintf(&b, "ip netns exec $NODE sysctl -qw %s=%s\n", key, w.in("node", "sysctl", "-n", key))
	}
	return b.String()
}

// addresses returns the addresses of a link, with prefix lengths.
func (w *world) addresses(ns, dev string) []string {
	w.Helper()
	words := strings.Fields(w.in(ns, "ip", "-br", "-4", "addr", "show", dev)) // empty without an address
	return words[min(2, len(words)):]
}

// recordVeth records the app's side of a veth, with the app's changes.
func (w *world) recordVeth(l ipLink) string {
	w.Helper()
	for _, a := range releaseApps {
		for _, p := range w.ipLinks(a) {
			if p.Index != l.Peer || p.Peer != l.Index || p.Info.Kind != "veth" {
				continue
			}
			s := fmt.Sprintf("ip -n $NODE link add %s mtu %d type veth peer name %s mtu %d netns $APP_%s\n", l.IfName, l.MTU,
				p.IfName, p.MTU, a)
			s += fmt.Sprintf("ip -n $APP_%s link set %s address %s\n", a, p.IfName, p.Address)
			if slices.Contains(p.Flags, "UP") {
				s += fmt.Sprintf("ip -n $APP_%s link set %s up\n", a, p.IfName)
			}
			for _, addr := range w.addresses(a, p.IfName) {
				s += fmt.Sprintf("ip -n $APP_%s addr add %s dev %s\n", a, addr, p.IfName)
			}
			for route := range strings.Lines(w.in(a, "ip", "route", "show", "dev", p.IfName)) {
				if !strings.Contains(route, "proto kernel") {
					s += fmt.Sprintf("ip -n $APP_%s route add %s dev %s\n", a, strings.TrimSpace(route), p.IfName)
				}
			}
			return s
		}
	}
	w.Fatalf("the app's side of %s is nowhere", l.IfName)
	return ""
}
