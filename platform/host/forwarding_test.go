package host

import (
	"os"
	"path/filepath"
	"testing"
)

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
		"table ip nat {\n\tchain p {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n\t}\n}\ntable ip nm-shared {\n" + hook: "nft table ip nm-shared",
	} {
		if got := foreignForwardHook(chains); got != want {
			t.Errorf("%q: %q, want %q", chains, got, want)
		}
	}
}
