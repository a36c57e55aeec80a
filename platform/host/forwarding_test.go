package host

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"edgespan/netinst/netstate"
)

// A record follows its links: two that swap their names, one that others have renamed, one that is
// gone and whose name another has by now.
func TestARecordFollowsTheNamesOfItsLinks(t *testing.T) {
	key := netstate.ForwardingOf
	m := map[string]was{
		"net/ipv4/ip_forward": {"0", "1", 0}, key("eth0"): {"0", "1", 2}, key("eth1"): {"1", "1", 3},
		key("wwan0"): {"0", "1", 4},
		key("usb0"):  {"0", "1", 5}, key("old"): {"0", "1", 0},
	}
	got := followLinks(m, map[int]string{2: "eth1", 3: "eth0", 4: "lte"})
	want := map[string]was{
		"net/ipv4/ip_forward": {"0", "1", 0}, key("eth1"): {"0", "1", 2}, key("eth0"): {"1", "1", 3},
		key("lte"):  {"0", "1", 4},
		key("usb0"): {"0", "1", 5}, key("old"): {"0", "1", 0},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Who relies on forwarding is known by what says so: a setting for each boot, or rules of others.
func TestWhoReliesOnForwarding(t *testing.T) {
	dir := t.TempDir()
	for text, relies := range map[string]bool{
		"net.ipv4.ip_forward=1\n":                  true,
		"net.ipv4.ip_forward = 1\n":                true,
		"-net/ipv4/conf/all/forwarding = 1":        true,
		"# net.ipv4.ip_forward=1\n":                false,
		"net.ipv4.ip_forward=0\n":                  false,
		"net.ipv4.conf.default.forwarding=1\n":     false,
		"net.ipv6.conf.all.forwarding=1\nkernel=1": false,
	} {
		path := filepath.Join(dir, "x.conf")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := keptForwarding([]string{filepath.Join(dir, "*.conf")}); (got == path) != relies {
			t.Errorf("%q: %q", text, got)
		}
	}
	const hook = "\tchain f {\n\t\ttype filter hook forward priority filter; policy accept;\n\t}\n}\n"
	for chains, want := range map[string]string{
		"":                                "",
		"table ip filter {\n" + hook:      "",
		"table inet edgespan {\n" + hook:  "",
		"table bridge es1 {\n" + hook:     "",
		"table ip6 x {\n" + hook:          "",
		"table inet firewalld {\n" + hook: "nft table inet firewalld",
		"table ip nat {\n\tchain p {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n\t}\n}\ntable ip " +
			"nm-shared {\n" + hook: "nft table ip nm-shared",
	} {
		if got := foreignForwardHook(chains); got != want {
			t.Errorf("%q: %q, want %q", chains, got, want)
		}
	}
}
