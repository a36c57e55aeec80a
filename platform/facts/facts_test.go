package facts

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

// tree writes files and links ("-> target") below a folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(text, "-> "); link {
			err = os.Symlink(target, p)
		} else {
			err = os.WriteFile(p, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const sockets = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

func machine() map[string]string {
	return map[string]string{
		"proc/sys/kernel/osrelease":       "6.1\n",
		"lib/modules/6.1/modules.builtin": "kernel/net/bridge/bridge.ko\n",
		"lib/modules/6.1/modules.dep":     "kernel/drivers/net/veth.ko.xz:\nkernel/net/bridge/br_netfilter.ko: x\n",
		"sys/module/nf_tables/refcnt":     "1",
		"proc/net/udp": sockets +
			" 1: 0100010A:0035 00000000:0000 07 0:0 0:0 0 0 0 77 2 0\n" +
			" 1: 0100010A:9035 0100007F:0035 01 0:0 0:0 0 0 0 76 2 0\n 2: 00000000:0044 00000000:0000 07 0:0 0:0 0 0 0 78 2 0\n",
		"proc/net/tcp": sockets +
			" 1: 00000000:0035 00000000:0000 0A 0:0 0:0 0 0 0 79 2 0\n 2: 0100007F:0035 0100007F:9999 01 0:0 0:0 0 0 0 80 2 0\n",
		"proc/net/udp6": sockets +
			" 1: 00000000000000000000000000000000:0035 0:0000 07 0:0 0:0 0 0 0 81 2 0\n",
		"proc/sys/net/ipv4/conf/all/rp_filter":      "0\n",
		"proc/sys/net/ipv4/conf/eth0/rp_filter":     "2\n",
		"proc/self/ns/net":                          "-> net:[1]",
		"proc/10/comm":                              "systemd-network\n",
		"proc/10/ns/net":                            "-> net:[1]",
		"proc/11/comm":                              "edgespan\n",
		"proc/11/ns/net":                            "-> net:[1]",
		"proc/11/cmdline":                           "/usr/bin/edgespan\x00node\x00--run-dir\x00/run/x\x00",
		"proc/12/comm":                              "edgespan\n",
		"proc/12/ns/net":                            "-> net:[2]",
		"proc/12/cmdline":                           "edgespan\x00node\x00--run-dir=/run/y\x00",
		"proc/sys/net/netfilter/nf_conntrack_max":   "65536\n",
		"proc/sys/net/netfilter/nf_conntrack_count": "7\n",
		"proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established": "432000\n",
		"proc/13/comm":              "edgespan\n",
		"proc/13/cmdline":           "edgespan\x00get\x00node\x00",
		"proc/14/comm":              "dnsmasq\n",
		"proc/14/cmdline":           "dnsmasq\x00--conf-file=/run/x/ni/1/conf\x00",
		"proc/14/fd/4":              "-> socket:[77]",
		"proc/14/exe":               "-> /usr/sbin/dnsmasq (deleted)",
		"proc/15/exe":               "-> /usr/sbin/named (deleted)",
		"proc/16/comm":              "dnsmasq\n",
		"proc/16/cmdline":           "dnsmasq\x00--conf-file=/run/x/ni/2/conf\x00",
		"proc/16/exe":               "-> /usr/sbin/dnsmasq",
		"proc/15/comm":              "named\n",
		"proc/15/fd/5":              "-> socket:[79]",
		"proc/149/comm":             "ip\n", // children of 15 that have not closed it when it is read
		"proc/149/fd/5":             "-> socket:[79]",
		"proc/1500/fd/5":            "-> socket:[79]",
		"etc/systemd/networkd.conf": "[Network]\nManageForeignRoutes=no\n#ManageForeignRoutingPolicyRules=no\n",
		"usr/lib/systemd/networkd.conf.d/10-a.conf": "[Network]\nManageForeignRoutingPolicyRules=yes\n",
		"etc/systemd/networkd.conf.d/10-a.conf":     "[Network]\nManageForeignRoutingPolicyRules = false\n",
	}
}

func TestWhatAMachineTells(t *testing.T) {
	iptables := netstate.Iptables{Version: "1.8.9", Mode: "legacy", Wait: true}
	asked := func(context.Context) netstate.Iptables { return iptables }
	got, err := Reader{Root: tree(t, machine()), RunDir: "/run/x", Iptables: asked}.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	got.Commands = nil // of the machine that runs the test
	want := netstate.Facts{
		Features: map[string]bool{"bridge": true, "veth": true, "br_netfilter": true, "nf_tables": true,
			"nf_conntrack": false, "ip_set": false, "ip_set_hash_net": false, "xt_set": false},
		Listeners: []netstate.Listener{
			{Proto: "udp", Addr: netip.MustParseAddr("10.1.0.1"), Port: 53, Who: "dnsmasq (14)", Own: true},
			{Proto: "udp", Addr: netip.IPv4Unspecified(), Port: 68},
			{Proto: "udp", Addr: netip.IPv6Unspecified(), Port: 53},
			{Proto: "tcp", Addr: netip.IPv4Unspecified(), Port: 53, Who: "named (15)"},
		},
		Networkd: true, Foreign: map[string]bool{"ManageForeignRoutes": false, "ManageForeignRoutingPolicyRules": false},
		RPFilter: map[string]int{"all": 0, "eth0": 2}, Flows: netstate.FlowTable{Max: 65536, Count: 7, Established: 432000},
		Daemons:  []netstate.Daemon{{PID: 11, RunDir: "/run/x", Here: true}, {PID: 12, RunDir: "/run/y"}},
		Outdated: []int{14},
		Iptables: iptables,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestWhatCanNotBeReadIsNamed(t *testing.T) {
	m := machine()
	delete(m, "proc/net/udp")
	delete(m, "lib/modules/6.1/modules.builtin")
	delete(m, "lib/modules/6.1/modules.dep")
	got, err := Reader{Root: tree(t, m)}.Read(context.Background())
	if err != nil || len(got.Unknown) != 1 || !strings.HasPrefix(got.Unknown[0], "listening sockets: ") {
		t.Errorf("%v, unknown %q", err, got.Unknown)
	}
	if v, known := got.Features["veth"]; known || !got.Features["nf_tables"] {
		t.Errorf("veth %v %v, features %v: without a list only loaded ones are known", v, known, got.Features)
	}
}
