package nodeconf

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
	"edgespan/netinst/addressing"
)

const (
	ni1  = "10000000-0000-4000-8000-000000000001"
	ni2  = "10000000-0000-4000-8000-000000000002"
	ni3  = "10000000-0000-4000-8000-000000000003"
	app1 = "a0000000-0000-4000-8000-000000000001"
	app2 = "a0000000-0000-4000-8000-000000000002"
)

// expand writes out the short names of the tables: N1 for
// "networkInstances.<ni1>" as a path, {net …} for a network and so on.
var expand = strings.NewReplacer(
	"N1", "networkInstances."+ni1, "N2", "networkInstances."+ni2, "N3", "networkInstances."+ni3, "$ni3", ni3,
	"A1", "appNetworks."+app1, "A2", "appNetworks."+app2,
	"$ni1", ni1, "$ni2", ni2, "$app1", app1, "$app2", app2,
)

// faultsOf are the lines of a document's faults, "" for none.
func faultsOf(doc string) string {
	_, _, err := Read([]byte(doc))
	if err == nil {
		return ""
	}
	return err.Error()
}

// sentence is one document and what is wrong with it, line by line.
type sentence struct{ what, doc, want string }

func checkSentences(t *testing.T, wrap func(string) string, table []sentence) {
	t.Helper()
	for _, s := range table {
		t.Run(s.what, func(t *testing.T) {
			want := strings.ReplaceAll(expand.Replace(strings.TrimSpace(s.want)), "\n\t\t\t", "\n")
			got := faultsOf(expand.Replace(wrap(s.doc)))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", s.doc, diff)
			}
		})
	}
}

func asIs(doc string) string { return doc }

func TestDocument(t *testing.T) {
	checkSentences(t, asIs, []sentence{
		{"an empty mapping removes everything", "{}", ""},
		{"an empty mapping in a document of its own", "---\n{}\n...\n", ""},
		{"a byte order mark", "\ufeff{}", ""},
		{"nothing", "", "the document is empty: must be an explicit mapping; {} removes everything"},
		{"comments", "# nothing\n", "the document is empty: must be an explicit mapping; {} removes everything"},
		{"null", "null", "invalid type null: must be an explicit mapping; {} removes everything"},
		{"a list", "[]", "invalid type list: must be an explicit mapping; {} removes everything"},
		{"a block list", "- a\n- b\n", "invalid type list: must be an explicit mapping; {} removes everything"},
		{"a string", "hello", "invalid type string: must be an explicit mapping; {} removes everything"},
		{"no UTF-8", "ports: \xff", "not UTF-8: must be YAML or JSON in UTF-8"},
		{"two documents", "{}\n---\n{}\n",
			"invalid YAML: line 2 column 1: a second document: must be one YAML or JSON mapping"},
		{"text after the end", "{}\n...\n{}\n",
			"invalid YAML: line 3 column 1: a second document: must be one YAML or JSON mapping"},
		{"two mappings", "{} {}",
			`invalid YAML: line 1: did not find expected <document start>: must be one YAML or JSON mapping`},
		{"JSON cut off", `{"ports": {`,
			`invalid YAML: line 1: did not find expected node content: must be one YAML or JSON mapping`},
		{"a string cut off", "ports: \"x\n",
			`invalid YAML: line 2: found unexpected end of stream: must be one YAML or JSON mapping`},
		{"two keys on one line", "a: b: c\n",
			`invalid YAML: line 1: mapping values are not allowed in this context: must be one YAML or JSON mapping`},
		{"a deeper line", "ports: {}\n  sysParams: {}\n",
			`invalid YAML: line 2: did not find expected key: must be one YAML or JSON mapping`},
		{"an anchor", "ports: &a {}\nsysParams: *a\n",
			"invalid YAML: line 1 column 8: anchors, aliases, tags, directives, merge and complex keys are not " +
				"supported: must be one YAML or JSON mapping"},
		{"a tag", "ports: !!map {}\n",
			"invalid YAML: line 1 column 8: anchors, aliases, tags, directives, merge and complex keys are not " +
				"supported: must be one YAML or JSON mapping"},
		{"too deep", strings.Repeat("{a: ", 40) + "1" + strings.Repeat("}", 40),
			"nested deeper than 32: must be one YAML or JSON mapping"},
		{"too deep in JSON", strings.Repeat(`{"a": `, 40) + "1" + strings.Repeat("}", 40),
			"nested deeper than 32: must be one YAML or JSON mapping"},
		{"a bottomless list", strings.Repeat("[", 100000),
			"nested deeper than 32: must be one YAML or JSON mapping"},
		{"a bottomless block", strings.Repeat("- ", 100000) + "a",
			"nested deeper than 32: must be one YAML or JSON mapping"},
		{"too long", strings.Repeat("#", 4<<20+1), "too long (4194305 bytes): must be at most 4194304"},
		{"duplicate keys", "ports: {}\nports: {}\n", "ports: duplicate key (2 times)"},
		{"a key many times", "sysParams: {" + strings.Repeat("logLevel: info, ", 9999) + "logLevel: info}\n",
			"sysParams.logLevel: duplicate key (10000 times)"},
		{"duplicate keys in JSON", `{"sysParams": {"logLevel": "info", "logLevel": "warn"}}`,
			"sysParams.logLevel: duplicate key (2 times)"},
		{"unknown fields", "prots: {}\nsysParams: {loglevel: info}\n", `
			prots: unknown field: must be appNetworks, networkInstances, ports or sysParams
			sysParams.loglevel: unknown field: must be drift, factsEnvironment, factsSeconds, factsURL, ` +
			`flowExportCollector, flowExportDomain, flowExportSocket, flowExportTemplateSeconds, logLevel, managedConfig ` +
			`or watchdogSeconds`},
		{"an empty section", "ports:\n", "ports: invalid type null: must be a mapping"},
		{"$absent where no entry is", `{"$absent": true, ports: {"$absent": false}}`, `
			$absent: unknown field: must be appNetworks, networkInstances, ports or sysParams
			ports.$absent: invalid key: must be 1 to 64 letters, digits, '.', '_' and '-', but not uplink, freeuplink or all
			ports.$absent: invalid type boolean: must be a mapping`},
	})
}

func TestWhereTheFlowLogIsSent(t *testing.T) {
	collector := func(v string) string {
		return "sysParams.flowExportCollector: " + config.Invalid(v) + ": must be udp://ADDRESS:PORT or tcp://ADDRESS:PORT of " +
			`a unicast IP address, or ""`
	}
	socket := func(v string) string {
		return "sysParams.flowExportSocket: " + config.Invalid(v) +
			`: must be a clean absolute path of at most 107 octets, or ""`
	}
	long := "/" + strings.Repeat("x", 107)
	checkSentences(t, func(v string) string { return "sysParams: {" + v + "}" }, []sentence{
		{"all of it", `flowExportCollector: "udp://192.0.2.9:4739", flowExportSocket: /run/x/flows.sock, ` +
			"flowExportDomain: 4294967295, flowExportTemplateSeconds: 3600", ""},
		{"over IPv6", `flowExportCollector: "tcp://[2001:db8::1]:4739"`, ""},
		{"nowhere", `flowExportCollector: "", flowExportSocket: ""`, ""},
		{"without a protocol", `flowExportCollector: "192.0.2.9:4739"`, collector("192.0.2.9:4739")},
		{"another protocol", `flowExportCollector: "sctp://192.0.2.9:4739"`, collector("sctp://192.0.2.9:4739")},
		{"a name", `flowExportCollector: "udp://collector:4739"`, collector("udp://collector:4739")},
		{"without a port", `flowExportCollector: "udp://192.0.2.9"`, collector("udp://192.0.2.9")},
		{"to port 0", `flowExportCollector: "udp://192.0.2.9:0"`, collector("udp://192.0.2.9:0")},
		{"to a group", `flowExportCollector: "udp://239.0.0.1:4739"`, collector("udp://239.0.0.1:4739")},
		{"to no address", `flowExportCollector: "udp://[::]:4739"`, collector("udp://[::]:4739")},
		{"by a zone", `flowExportCollector: "udp://[fe80::1%eth0]:4739"`, collector("udp://[fe80::1%eth0]:4739")},
		{"a path", `flowExportCollector: "udp://192.0.2.9:4739/x"`, collector("udp://192.0.2.9:4739/x")},
		{"the longest path", `flowExportSocket: ` + long[:107], ""},
		{"a path that is longer", `flowExportSocket: ` + long, socket(long)},
		{"a relative path", `flowExportSocket: flows.sock`, socket("flows.sock")},
		{"a path that leads elsewhere", `flowExportSocket: /run/../x`, socket("/run/../x")},
		{"no number of a domain", `flowExportDomain: 4294967296`,
			"sysParams.flowExportDomain: invalid value 4294967296: must be a whole number of 0 to 4294967295"},
		{"templates all the time", `flowExportTemplateSeconds: 0`,
			"sysParams.flowExportTemplateSeconds: invalid value 0: must be a whole number of 1 to 3600"},
	})
	_, cfg, err := Read([]byte("sysParams: {flowExportCollector: 'udp://[2001:DB8::1]:99'}"))
	if want := (FlowExport{Collector: "udp://[2001:db8::1]:99", Domain: 1, TemplateSeconds: 60}); err != nil ||
		cfg.Sys.FlowExport != want {
		t.Errorf("%+v, %v, want %+v", cfg.Sys.FlowExport, err, want)
	}
}

func TestNumbersAndBooleansAreExact(t *testing.T) {
	checkSentences(t, func(v string) string { return "sysParams: {" + v + "}" }, []sentence{
		{"the least", "watchdogSeconds: 0", ""},
		{"the most", "watchdogSeconds: 3600", ""},
		{"too much", "watchdogSeconds: 3601",
			"sysParams.watchdogSeconds: invalid value 3601: must be a whole number of 0 to 3600"},
		{"too little", "watchdogSeconds: -1",
			"sysParams.watchdogSeconds: invalid value -1: must be a whole number of 0 to 3600"},
		{"a fraction", "watchdogSeconds: 1.0",
			"sysParams.watchdogSeconds: invalid value 1.0: must be a whole number of 0 to 3600"},
		{"an exponent", "watchdogSeconds: 1e1",
			"sysParams.watchdogSeconds: invalid value 1e1: must be a whole number of 0 to 3600"},
		{"octal", "watchdogSeconds: 010",
			"sysParams.watchdogSeconds: invalid value 010: must be a whole number of 0 to 3600"},
		{"hexadecimal", "watchdogSeconds: 0x10",
			"sysParams.watchdogSeconds: invalid value 0x10: must be a whole number of 0 to 3600"},
		{"infinite", "watchdogSeconds: .inf",
			"sysParams.watchdogSeconds: invalid value .inf: must be a whole number of 0 to 3600"},
		{"beyond 64 bits", "watchdogSeconds: 99999999999999999999",
			"sysParams.watchdogSeconds: invalid value 99999999999999999999: must be a whole number of 0 to 3600"},
		{"a number as string", `watchdogSeconds: "60"`,
			"sysParams.watchdogSeconds: invalid type string: must be a whole number"},
		{"a boolean as string", `managedConfig: "false"`, "sysParams.managedConfig: invalid type string: must be a boolean"},
		{"yes is a string", `managedConfig: yes`, "sysParams.managedConfig: invalid type string: must be a boolean"},
		{"a level that is none", "logLevel: trace",
			`sysParams.logLevel: invalid value "trace": must be debug, info, warn or error`},
	})
}

func TestDefaults(t *testing.T) {
	_, c, err := Read([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (SysParams{LogLevel: "info", WatchdogSeconds: 60, Drift: "enforce",
		Facts: FactsUpload{Seconds: 1800}, FlowExport: FlowExport{Domain: 1, TemplateSeconds: 60}}); c.Sys != want {
		t.Errorf("got %+v, want %+v", c.Sys, want)
	}
	for _, e := range Schema() {
		if e.Default == "" {
			continue
		}
		if v, allowed, ok := (walker{}).parse(e, e.Default); !ok || v == nil {
			t.Errorf("%s: default %q: %s", e.Path, e.Default, allowed)
		}
	}
}

func TestPorts(t *testing.T) {
	checkSentences(t, func(v string) string { return "ports: {" + v + "}" }, []sentence{
		{"all fields", `wan: {ifName: eth0, uplink: true, cost: 255, labels: "a, b", addressing: external, address: "", ` +
			`gateway: 192.0.2.1, dnsServers: "2001:db8::53,192.0.2.53", ntpServers: 192.0.2.123, mtu: 68, metered: true}`, ""},
		{"no interface", "wan: {}",
			"ports.wan.ifName: required: must be an interface name of 1 to 15 letters, digits, '.', '_' and '-'"},
		{"one interface twice", "a: {ifName: eth0}, b: {ifName: eth0}",
			"ports.b.ifName: duplicate value eth0, also at ports.a.ifName: must be unique: one port for each interface"},
		{"an interface of ours", "a: {ifName: es1}, b: {ifName: es1a1}, c: {ifName: es}, d: {ifName: esx0}", `
			ports.a.ifName: invalid value "es1": must be an interface other than those of edgespan (es or evpn followed by a digit)
			ports.b.ifName: invalid value "es1a1": must be an interface other than those of edgespan (es or evpn followed by a digit)`},
		{"a reserved label", "uplink: {ifName: eth0}, wan: {ifName: eth1, labels: all}", `
			ports.uplink: invalid key: must be 1 to 64 letters, digits, '.', '_' and '-', but not uplink, freeuplink or all
			ports.wan.labels: invalid value "all": must be labels of 1 to 64 letters, digits, '.', '_' and '-', not ` +
			`uplink, freeuplink or all, at most 16, separated by commas`},
		{"a shared label that is a port", "a: {ifName: eth0, labels: b}, b: {ifName: eth1}",
			`ports.a.labels: invalid value "b", the label of ports.b: must be shared labels that no port has as its own`},
		{"VLANs", "a: {ifName: eth0}, b: {ifName: eth0.5, vlan: {parent: eth0, id: 5}}, " +
			"c: {ifName: voice, vlan: {parent: eth0, id: 4094}, addressing: dhcp}, d: {ifName: x, vlan: {parent: eth1, id: 5}}", ""},
		{"half a VLAN", "a: {ifName: eth0.5, vlan: {}}, b: {ifName: eth1.5, vlan: {parent: eth1}}", `
			ports.a.vlan.id: required: must be 1 to 4094
			ports.a.vlan.parent: required: must be an interface name of 1 to 15 letters, digits, '.', '_' and '-'
			ports.b.vlan.id: required: must be 1 to 4094`},
		{"what is no VLAN", "a: {ifName: a, vlan: {parent: es1, id: 1}}, b: {ifName: b, vlan: {parent: b, id: 1}}, " +
			"c: {ifName: c, vlan: {parent: eth0, id: 1}}, d: {ifName: d, vlan: {parent: c, id: 1}}, " +
			"e: {ifName: e, vlan: {parent: eth0, id: 1}}, f: {ifName: f, vlan: {parent: eth0, id: 4095}}", `
			ports.a.vlan.parent: invalid value "es1": must be an interface other than those of edgespan (es or evpn followed by a digit)
			ports.b.vlan.parent: invalid value "b", the port's own interface: must be another one
			ports.d.vlan.parent: invalid value "c", itself a VLAN of ports.c: must be an interface that another program creates
			ports.e.vlan.id: duplicate value 1, also at ports.c.vlan.id: must be unique for one parent
			ports.f.vlan.id: invalid value 4095: must be a whole number of 1 to 4094`},
		{"DHCP", "a: {ifName: eth0, addressing: dhcp}, b: {ifName: eth1, addressing: dhcp, gateway: 192.0.2.1}", ""},
		{"DHCP with an address", "a: {ifName: eth0, addressing: dhcp, address: 192.0.2.2/24}",
			"ports.a.address: invalid without addressing static: only addressing static has it"},
		{"static addresses", "a: {ifName: eth0, addressing: static, address: 192.0.2.2/24, gateway: 198.51.100.1}, " +
			`b: {ifName: eth1, addressing: static, address: "192.0.2.3/24,10.0.0.1/32,10.0.0.2/31"}`, ""},
		{"static without address", "a: {ifName: eth0, addressing: static}",
			"ports.a.address: required: must be unicast IPv4 addresses with their prefix lengths of 8 to 32 such as " +
				"192.0.2.2/24 if addressing is static"},
		{"an address without static", "a: {ifName: eth0, address: 192.0.2.2/24}, b: {ifName: eth1, addressing: external, " +
			"address: 192.0.2.3/24}", `
			ports.a.address: invalid without addressing static: only addressing static has it
			ports.b.address: invalid without addressing static: only addressing static has it`},
		{"what is no address of a host", `a: {ifName: eth0, addressing: static, address: ` +
			`"192.0.2.0/24,192.0.2.255/24,127.0.0.1/8,192.0.2.2"}, b: {ifName: eth1, addressing: static, address: 1.2.3.4/7}`, `
			ports.a.address: invalid value "192.0.2.0/24", "192.0.2.255/24", "127.0.0.1/8" and 1 more: must be unicast IPv4 ` +
			`addresses with their prefix lengths of 8 to 32 such as 192.0.2.2/24, at most 16, separated by commas
			ports.b.address: invalid value "1.2.3.4/7": must be unicast IPv4 addresses with their prefix lengths of 8 to ` +
			`32 such as 192.0.2.2/24, at most 16, separated by commas`},
		{"too many addresses", `a: {ifName: eth0, addressing: static, address: ` +
			`"10.0.0.1/24,10.0.0.2/24,10.0.0.3/24,10.0.0.4/24,10.0.0.5/24"}`,
			"ports.a.address: too many addresses (5): must be at most 4"},
		{"an address twice", "a: {ifName: eth0, addressing: static, address: 192.0.2.2/24}, b: {ifName: eth1, addressing: " +
			"static, address: 192.0.2.2/32}",
			"ports.b.address: duplicate value 192.0.2.2, also at ports.a.address: must be unique"},
		{"a gateway that is its own address", "a: {ifName: eth0, addressing: static, address: 192.0.2.2/24, gateway: 192.0.2.2}",
			`ports.a.gateway: invalid value "192.0.2.2", the port's own address: must be the address of a neighbour`},
		{"addressing that is none", "a: {ifName: eth0, addressing: bootp}",
			`ports.a.addressing: invalid value "bootp": must be external, static or dhcp`},
		{"lists", `a: {ifName: eth0, dnsServers: "192.0.2.1,,x", ntpServers: "192.0.2.1,192.0.2.1", labels: [b]}`, `
			ports.a.dnsServers: invalid value "", "x": must be unicast IP addresses, at most 16, separated by commas
			ports.a.labels: invalid type list: must be a comma-separated string
			ports.a.ntpServers: duplicate item "192.0.2.1": must be unicast IPv4 addresses, at most 16, separated by commas`},
		{"addresses that can be no server",
			`a: {ifName: eth0, dnsServers: "0.0.0.0,224.0.0.1,fe80::1%eth0,::ffff:10.0.0.1", gateway: 127.0.0.1}`, `
			ports.a.dnsServers: invalid value "0.0.0.0", "224.0.0.1", "fe80::1%eth0" and 1 more: must be unicast IP ` +
				`addresses, at most 16, separated by commas
			ports.a.gateway: invalid value "127.0.0.1": must be a unicast IPv4 address`},
		{"MTU", "a: {ifName: eth0, mtu: 67}, b: {ifName: eth1, mtu: 65536}", `
			ports.a.mtu: invalid value 67: must be a whole number of 68 to 65535
			ports.b.mtu: invalid value 65536: must be a whole number of 68 to 65535`},
		{"an absent port", `a: {ifName: "no good", "$absent": true}, b: {ifName: eth0, "$absent": false}, c: {ifName: ` +
			`eth1, "$absent": 1}`, `
			ports.c.$absent: invalid type number: must be a boolean`},
	})
}

func TestAddressesOfPortsStayOutOfNetworks(t *testing.T) {
	got := faultsOf("ports: {a: {ifName: eth0, addressing: static, address: 10.0.0.9/24, labels: x}, " +
		"b: {ifName: eth1, addressing: static, address: 192.0.2.2/24}}\n" +
		"networkInstances: {" + ni1 + ": {port: b, ipv4: {subnet: 10.0.0.0/24}}, " + ni2 + ": {type: switch, port: x}}")
	want := "networkInstances." + ni2 + `.port: invalid value "x", which has addressing static: for a switch network ` +
		"must be a port with addressing external\n" +
		"ports.a.address: invalid value 10.0.0.9/24, which overlaps 10.0.0.0/24 of networkInstances." + ni1 +
		".ipv4.subnet: must be outside of every network's subnet"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAVLANIsNoPortOfASwitch(t *testing.T) {
	got := faultsOf("ports: {a: {ifName: eth0, labels: x}, b: {ifName: eth1.5, labels: x, vlan: {parent: eth1, id: 5}}}\n" +
		"networkInstances: {" + ni2 + ": {type: switch, port: x}}")
	want := "networkInstances." + ni2 + `.port: invalid value "x", which is a VLAN: for a switch network must be a port ` +
		"without vlan"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestTooManyPortsWithAddressingStatic(t *testing.T) {
	var ports []string
	for i := range addressing.MaxPorts + 1 {
		ports = append(ports, fmt.Sprintf("p%d: {ifName: eth%d, addressing: static, address: 10.0.%d.1/24}", i, i, i))
	}
	got := faultsOf("ports: {" + strings.Join(ports, ", ") + "}")
	if want := "ports: too many ports with an addressing other than external (101): must be at most 100"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAPortThatIsAbsentIsNotKnown(t *testing.T) {
	got := faultsOf("ports: {a: {$absent: true}, b: {ifName: eth0, labels: lan}}\nnetworkInstances: {" + ni1 +
		": {port: a, ipv4: {subnet: 10.0.0.0/24}}}")
	want := "networkInstances." + ni1 +
		`.port: invalid value "a", which no port has: must be all, b, freeuplink, lan or uplink`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFormatPath(t *testing.T) {
	for want, path := range map[string][]string{
		"":                       nil,
		"a.b":                    {"a", "b"},
		`dns.hosts."a.b"`:        {"dns", "hosts", "a.b"},
		`""`:                     {""},
		`a."x=y"."*"`:            {"a", "x=y", "*"},
		`"a b"."c\"d"."e\\f"`:    {"a b", `c"d`, `e\f`},
		`"a\u000ab"."\u2028"`:    {"a\nb", "\u2028"},
		"\"\\u0000\".\"\ufffd\"": {"\x00", "\xff"},
		`"\udb40\udc01"`:         {"\U000e0001"},
		`größe.$absent.<label>`:  {"größe", "$absent", "<label>"},
	} {
		if got := config.FormatPath(path); got != want {
			t.Errorf("%q: got %s, want %s", path, got, want)
		}
	}
}

func TestSharedLabelsAndWordsOfPorts(t *testing.T) {
	doc := "ports: {a: {ifName: eth0, uplink: true, cost: 1, labels: lan}, b: {ifName: eth1, labels: " +
		"lan}}\nnetworkInstances:\n"
	for i, port := range []string{"a", "lan", "uplink", "freeuplink", "all"} {
		id := strings.Replace(ni1, "1000", "100"+string(rune('0'+i)), 1)
		doc += "  " + id + ": {port: " + port + ", ipv4: {subnet: 10.0." + string(rune('0'+i)) + ".0/24}}\n"
	}
	_, c, err := Read([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Networks) != 5 {
		t.Errorf("got %d networks, want 5", len(c.Networks))
	}
}

func TestUppercaseUUIDIsTheSameNetwork(t *testing.T) {
	upper := strings.ToUpper(strings.Replace(ni1, "1000", "abcd", 1))
	_, c, err := Read([]byte("networkInstances: {" + upper + ": {ipv4: {subnet: 10.0.0.0/24}}}"))
	if err != nil {
		t.Fatal(err)
	}
	ni, ok := c.Networks[uuid.MustParse(upper)]
	if !ok || ni.Port != "uplink" || ni.Type != netinst.Local || !ni.SpoofGuard {
		t.Errorf("got %+v, %v", ni, ok)
	}
	got := faultsOf("networkInstances:\n  " + upper + ": {ipv4: {subnet: 10.0.0.0/24}}\n  " + strings.ToLower(upper) +
		": {ipv4: {subnet: 10.0.1.0/24}}\n")
	want := "networkInstances." + strings.ToLower(upper) + `: duplicate key, same as "` + upper + `": must be unique`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
