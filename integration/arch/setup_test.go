package arch

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// bare is a machine of which scripts/setup.sh finds only the commands given, and an
// apt-get that notes what it is asked for and installs nothing.
type bare struct{ dir string }

func newBare(t *testing.T, commands ...string) bare {
	t.Helper()
	m := bare{t.TempDir()}
	// What the script itself stands on.
	for _, name := range append([]string{"sh", "id"}, commands...) {
		m.put(t, name, "exit 0")
	}
	m.put(t, "id", "echo 0")
	m.put(t, "apt-get", `echo "$DEBIAN_FRONTEND: $*" >>`+m.dir+"/asked")
	return m
}

func (m bare) put(t *testing.T, name, body string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// setup runs the script there, and returns what apt-get was asked for.
func (m bare) setup(t *testing.T, args ...string) (asked []string, words string, err error) {
	t.Helper()
	b, err := os.ReadFile("../../scripts/setup.sh")
	if err != nil {
		t.Fatal(err)
	}
	// The script looks beyond PATH for what a user's PATH lacks: not on this machine.
	const more = "PATH=$PATH:/usr/sbin:/sbin\n"
	if strings.Count(string(b), more) != 1 {
		t.Fatalf("scripts/setup.sh has no line %q", more)
	}
	script := filepath.Join(t.TempDir(), "setup.sh")
	if err := os.WriteFile(script, []byte(strings.Replace(string(b), more, "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", append([]string{script}, args...)...)
	cmd.Env = []string{"PATH=" + m.dir}
	out, err := cmd.CombinedOutput()
	text, _ := os.ReadFile(filepath.Join(m.dir, "asked"))
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' }), string(out), err
}

// helpers are the commands of the daemon, the demo and most tests, with their packages; clients are those that a
// few tests run against the controller.
var helpers = map[string]string{
	"dnsmasq": "dnsmasq-base", "iptables-restore": "iptables", "nft": "nftables", "ipset": "ipset", "ip": "iproute2",
	"conntrack": "conntrack", "udhcpc": "udhcpc", "dig": "dnsutils", "curl": "curl", "ping": "iputils-ping",
	"sysctl": "procps", "modprobe": "kmod", "tcpdump": "tcpdump",
}

var clients = map[string]string{"hiera": "hiera", "puppet": "puppet-agent", "ruby": "ruby", "mount": "mount",
	"gcc": "gcc", "gencat": "libc6-dev", "nfcapd": "nfdump", "nfdump": "nfdump", "promtool": "prometheus"}

var machine = map[string]string{"qemu-system-x86_64": "qemu-system-x86", "depmod": "kmod", "mount": "mount"}

// tunnels are the commands of strongSwan; the package of charon comes with those of its plugins.
var tunnels = map[string]string{
	"charon-systemd": "charon-systemd libcharon-extra-plugins libcharon-extauth-plugins " +
		"libstrongswan-standard-plugins libstrongswan-extra-plugins",
	"swanctl": "strongswan-swanctl",
}

// image is what makes the image of a machine.
var image = map[string]string{"mmdebstrap": "mmdebstrap", "qemu-img": "qemu-utils", "mkfs.ext4": "e2fsprogs"}

// setups are what the script is told, and what it is then to install.
func setups() map[string]map[string]string {
	all, vm, soak, ipsec := maps.Clone(helpers), maps.Clone(helpers), maps.Clone(helpers), maps.Clone(helpers)
	maps.Copy(all, clients)
	maps.Copy(vm, machine)
	maps.Copy(soak, machine)
	maps.Copy(soak, image)
	for _, m := range []map[string]string{all, vm, soak, ipsec} {
		maps.Copy(m, tunnels)
	}
	return map[string]map[string]string{"": helpers, "tests": all, "vm": vm, "soak": soak, "ipsec": ipsec}
}

func TestSetupInstallsWhatAMachineLacks(t *testing.T) {
	for word, commands := range setups() {
		asked, words, err := newBare(t).setup(t, strings.Fields(word)...)
		if err != nil || len(asked) != 2 || asked[0] != "noninteractive: update -q" {
			t.Fatalf("without any command: %v, asked for %q: %s", err, asked, words)
		}
		got, _ := strings.CutPrefix(asked[1], "noninteractive: install -q -y --no-install-recommends ")
		list, want := strings.Fields(got), strings.Fields(strings.Join(slices.Collect(maps.Values(commands)), " "))
		slices.Sort(list)
		slices.Sort(want)
		want = slices.Compact(want)
		if !slices.Equal(list, want) {
			t.Errorf("setup %s installs %q, want %q", word, list, want)
		}
	}
}

func TestSetupInstallsOnlyWhatIsMissing(t *testing.T) {
	for word, commands := range setups() {
		all, args := slices.Collect(maps.Keys(commands)), strings.Fields(word)
		if asked, words, err := newBare(t, all...).setup(t, args...); err != nil || len(asked) > 0 || words != "" {
			t.Errorf("with every command: %v, asked for %q: %s", err, asked, words)
		}
		for c, p := range commands {
			others := slices.DeleteFunc(slices.Clone(all), func(o string) bool { return o == c })
			asked, words, err := newBare(t, others...).setup(t, args...)
			if err != nil || len(asked) != 2 || !strings.HasSuffix(asked[1], "--no-install-recommends "+p) {
				t.Errorf("without %s: %v, asked for %q: %s", c, err, asked, words)
			}
		}
	}
}

func TestSetupSaysWhatItCanNotInstall(t *testing.T) {
	if _, words, err := newBare(t).setup(t, "test"); err == nil ||
		!strings.Contains(words, "test: nothing, 'tests', 'vm', 'soak' or 'ipsec' is allowed") {
		t.Errorf("with a word it does not know: %v: %s", err, words)
	}
	user := newBare(t)
	user.put(t, "id", "echo 1000")
	if asked, words, err := user.setup(t); err == nil || len(asked) > 0 ||
		!strings.Contains(words, "needs root to install: dnsmasq-base") {
		t.Errorf("without root: %v, asked for %q: %s", err, asked, words)
	}
	other := newBare(t)
	if err := os.Remove(filepath.Join(other.dir, "apt-get")); err != nil {
		t.Fatal(err)
	}
	if _, words, err := other.setup(t); err == nil || !strings.Contains(words, "so is apt-get: install: dnsmasq-base") {
		t.Errorf("without apt-get: %v: %s", err, words)
	}
	failing := newBare(t)
	failing.put(t, "apt-get", "exit 100")
	if _, _, err := failing.setup(t); err == nil {
		t.Error("apt-get failed, and nothing was said")
	}
}
