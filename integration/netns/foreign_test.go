package netns_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"edgespan/netinst/netstate"
)

// others are the foreign objects on a lab's host, as the test found them.
type others struct {
	l    *lab
	then []string
}

// foreign creates foreign objects next to edgespan's, some with similar names, and records them.
func foreign(t *testing.T, l *lab) others {
	t.Helper()
	for _, chain := range []string{"ESX-FWD", "ES1000-FWD", "ES01-FWD", "DOCKER"} {
		l.ns.Exec(t, "iptables", "-N", chain)
		l.ns.Exec(t, "iptables", "-A", chain, "-s", "198.51.100.7", "-j", "DROP")
		l.ns.Exec(t, "iptables", "-t", "nat", "-N", chain)
	}
	for _, cmd := range []string{
		"iptables -A FORWARD -s 198.51.100.1 -j DROP",
		"iptables -A INPUT -s 198.51.100.2 -j DOCKER",
		"iptables -t nat -A POSTROUTING -o eth0 -s 198.51.100.0/24 -j MASQUERADE",
		"iptables -t raw -A PREROUTING -s 198.51.100.3 -j ACCEPT",
		"iptables -t mangle -A PREROUTING -s 198.51.100.0/24 -j MARK --set-mark 7",
		"ip6tables -A FORWARD -s 2001:db8::1 -j DROP",
		"nft add table bridge es1x",
		"nft add table inet es1",
		"nft add chain inet es1 es1 { type filter hook forward priority 10; }",
		"nft add rule inet es1 es1 ip saddr 198.51.100.8 drop",
		"ip link set es1000 group 20101", // the group number of doomed links
		"ip link set esx up",
		"ip addr add 198.51.100.200/32 dev esx",
		"ip rule add priority 20001 from 198.51.100.0/24 lookup main",
		"ip rule add priority 17998 from 198.51.100.0/24 lookup 20001 protocol 101",
		"ip route add 198.51.100.0/24 via 192.0.2.1 table 20001 protocol static",
		"ip route add 198.51.100.0/24 via 192.0.2.1 protocol 101",
		"ip route add 198.51.101.0/24 via 192.0.2.1 table 555",
	} {
		if strings.HasPrefix(cmd, "ip link set es1000") {
			for _, name := range []string{"es1000", "es01", "esx", "es1b2", "es-doomedx"} {
				l.ns.Exec(t, "ip", "link", "add", name, "type", "bridge")
				l.ns.Exec(t, "ip", "link", "set", name, "addrgenmode", "none")
			}
		}
		l.ns.Exec(t, strings.Fields(cmd)...)
	}
	// Next to the run folder, in it, and where only numbers are edgespan's.
	for _, file := range []string{"../state.db", "../run2/ni/1/conf/dnsmasq.conf", "notes", "ni/1000/conf/dnsmasq.conf",
		"ni/01/owner"} {
		path := filepath.Join(l.dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("of others: "+file+"\n"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return others{l, theirs(t, l)}
}

// same checks that no foreign object differs: not a byte, a handle, an index or a time.
func (o others) same(t *testing.T) {
	t.Helper()
	if d := o.differ(); d != "" {
		t.Fatalf("what belongs to others differs (-before +after):\n%s", d)
	}
}

func (o others) differ() string {
	o.l.t.Helper()
	return cmp.Diff(o.then, theirs(o.l.t, o.l))
}

// ourNames matches the marks of edgespan's objects in the output of tools; edgespan also turns on the port's
// forwarding.
var ourNames = regexp.MustCompile(`\bES(-|[1-9]\d{0,2}-)|\bes[1-9]\d{0,2}([av]\d+)?\b|^(1[5689]|2[012])\d{3}:.*proto ` +
	`101|table (20\d{3}|[34]\d{4}) proto 101|unreachable default table (20|[34])|conf\.eth0\.forwarding`)

// theirs returns everything on a lab's host without a mark of edgespan's.
func theirs(t *testing.T, l *lab) []string {
	t.Helper()
	var out []string
	keep := func(text string, own func(string) bool) {
		for _, line := range strings.Split(counters.ReplaceAllString(text, ""), "\n") {
			if !own(line) {
				out = append(out, line)
			}
		}
	}
	// ip prints this error on stderr while another test's namespace is being deleted.
	marked := func(line string) bool {
		return ourNames.MatchString(line) || line == "Error: Peer netns reference is invalid."
	}
	for _, cmd := range []string{
		"ip -d -o link", "ip -o addr", "ip rule", "ip route show table all", "iptables-save", "ip6tables-save",
		"sysctl -a --pattern ip_forward|v4.*[.]forwarding|bridge-nf|rp_filter",
	} {
		out = append(out, "$ "+cmd)
		keep(l.ns.Exec(t, strings.Fields(cmd)...), marked)
	}
	for _, table := range []string{"bridge es1x", "inet es1"} { // complete, with handles
		out = append(out, "$ table "+table)
		keep(l.ns.Exec(t, append([]string{"nft", "-a", "list", "table"}, strings.Fields(table)...)...),
			func(string) bool { return false })
	}
	own := regexp.MustCompile(`^run/(host|ni/[1-9]\d{0,2})(/|$)`)
	for _, line := range fileTree(t, filepath.Dir(l.dir)) {
		// The modification times of folders change with edgespan's files in them.
		if path, _, _ := strings.Cut(line, " "); !own.MatchString(path) && path != "run" && path != "run/ni" {
			out = append(out, line)
		}
	}
	return out
}

// fileTree returns every file below a folder with its mode, inode, modification time and content; of a folder only the
// mode, since edgespan's files change in it.
func fileTree(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			out = append(out, fmt.Sprintf("%s %s", rel, st.Mode()))
			return nil
		}
		text, err := os.ReadFile(path)
		out = append(out, fmt.Sprintf("%s %s inode %d at %d: %q", rel, st.Mode(), st.Sys().(*syscall.Stat_t).Ino,
			st.ModTime().UnixNano(), text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// The kernel replaces a route by destination, table and metric, whoever created it.
func TestARouteOfOthersInOurTableIsNotReplaced(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	want := l.network(1)
	var dst string
	for _, id := range want.IDs() {
		if r, ok := want[id].(netstate.Route); ok && r.Via != "" {
			dst = r.Dst
		}
	}
	table := func() string { return l.ns.Exec(t, "ip", "route", "show", "table", "20001", "proto", "static") }
	l.ns.Exec(t, "ip", "route", "add", dst, "via", "192.0.2.77", "table", "20001", "proto", "static")
	before := table()
	l.must(hostOwner, root())
	failed := fmt.Sprint(l.apply(t.Context(), owner(1), want))
	if !strings.Contains(failed, "foreign route to "+dst) {
		t.Errorf("the failures are %s", failed)
	}
	if now := table(); now != before {
		t.Errorf("the route of others was %q and is %q", before, now)
	}
	l.ns.Exec(t, "ip", "route", "del", dst, "table", "20001", "proto", "static")
	l.must(owner(1), want)
}
