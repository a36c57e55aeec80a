package nodeconf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
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
		{"nothing", "", "the document is empty: an explicit mapping is allowed; {} removes everything"},
		{"comments", "# nothing\n", "the document is empty: an explicit mapping is allowed; {} removes everything"},
		{"null", "null", "the document is null: an explicit mapping is allowed; {} removes everything"},
		{"a list", "[]", "the document is a list: an explicit mapping is allowed; {} removes everything"},
		{"a block list", "- a\n- b\n", "the document is a list: an explicit mapping is allowed; {} removes everything"},
		{"a string", "hello", "the document is a string: an explicit mapping is allowed; {} removes everything"},
		{"no UTF-8", "ports: \xff", "the document is no UTF-8: YAML or JSON in UTF-8 is allowed"},
		{"two documents", "{}\n---\n{}\n",
			"the document is no YAML: line 2 column 1: a second document: one YAML or JSON mapping is allowed"},
		{"text after the end", "{}\n...\n{}\n",
			"the document is no YAML: line 3 column 1: a second document: one YAML or JSON mapping is allowed"},
		{"two mappings", "{} {}",
			`the document is no YAML: line 1: did not find expected <document start>: one YAML or JSON mapping is allowed`},
		{"JSON cut off", `{"ports": {`,
			`the document is no YAML: line 1: did not find expected node content: one YAML or JSON mapping is allowed`},
		{"a string cut off", "ports: \"x\n",
			`the document is no YAML: line 2: found unexpected end of stream: one YAML or JSON mapping is allowed`},
		{"two keys on one line", "a: b: c\n",
			`the document is no YAML: line 1: mapping values are not allowed in this context: one YAML or JSON mapping is allowed`},
		{"a deeper line", "ports: {}\n  sysParams: {}\n",
			`the document is no YAML: line 2: did not find expected key: one YAML or JSON mapping is allowed`},
		{"an anchor", "ports: &a {}\nsysParams: *a\n",
			"the document is no YAML: line 1 column 8: anchors, aliases, tags, directives, merge and complex keys are not " +
				"allowed: one YAML or JSON mapping is allowed"},
		{"a tag", "ports: !!map {}\n",
			"the document is no YAML: line 1 column 8: anchors, aliases, tags, directives, merge and complex keys are not " +
				"allowed: one YAML or JSON mapping is allowed"},
		{"too deep", strings.Repeat("{a: ", 40) + "1" + strings.Repeat("}", 40),
			"the document is nested deeper than 32: one YAML or JSON mapping is allowed"},
		{"too deep in JSON", strings.Repeat(`{"a": `, 40) + "1" + strings.Repeat("}", 40),
			"the document is nested deeper than 32: one YAML or JSON mapping is allowed"},
		{"a bottomless list", strings.Repeat("[", 100000),
			"the document is nested deeper than 32: one YAML or JSON mapping is allowed"},
		{"a bottomless block", strings.Repeat("- ", 100000) + "a",
			"the document is nested deeper than 32: one YAML or JSON mapping is allowed"},
		{"too long", strings.Repeat("#", 4<<20+1), "the document has 4194305 bytes: at most 4194304 are allowed"},
		{"duplicate keys", "ports: {}\nports: {}\n", "ports: is given twice: each key once is allowed"},
		{"a key many times", "sysParams: {" + strings.Repeat("logLevel: info, ", 9999) + "logLevel: info}\n",
			"sysParams.logLevel: is given 10000 times: each key once is allowed"},
		{"duplicate keys in JSON", `{"sysParams": {"logLevel": "info", "logLevel": "warn"}}`,
			"sysParams.logLevel: is given twice: each key once is allowed"},
		{"unknown keys", "prots: {}\nsysParams: {loglevel: info}\n", `
			prots: unknown key: known are appNetworks, networkInstances, ports, sysParams
			sysParams.loglevel: unknown key: known are drift, factsEnvironment, factsSeconds, factsURL, logLevel, managedConfig, watchdogSeconds`},
		{"an empty section", "ports:\n", "ports: is null: a mapping is allowed"},
		{"$absent where no entry is", `{"$absent": true, ports: {"$absent": false}}`, `
			$absent: unknown key: known are appNetworks, networkInstances, ports, sysParams
			ports.$absent: is a boolean: a mapping is allowed
			ports.$absent: is no key here: 1 to 64 letters, digits, '.', '_' and '-', but not uplink, freeuplink or all is allowed`},
	})
}

func TestNumbersAndBooleansAreExact(t *testing.T) {
	checkSentences(t, func(v string) string { return "sysParams: {" + v + "}" }, []sentence{
		{"the least", "watchdogSeconds: 0", ""},
		{"the most", "watchdogSeconds: 3600", ""},
		{"too much", "watchdogSeconds: 3601", "sysParams.watchdogSeconds: is 3601: a whole number of 0 to 3600 is allowed"},
		{"too little", "watchdogSeconds: -1", "sysParams.watchdogSeconds: is -1: a whole number of 0 to 3600 is allowed"},
		{"a fraction", "watchdogSeconds: 1.0", "sysParams.watchdogSeconds: is 1.0: a whole number of 0 to 3600 is allowed"},
		{"an exponent", "watchdogSeconds: 1e1", "sysParams.watchdogSeconds: is 1e1: a whole number of 0 to 3600 is allowed"},
		{"octal", "watchdogSeconds: 010", "sysParams.watchdogSeconds: is 010: a whole number of 0 to 3600 is allowed"},
		{"hexadecimal", "watchdogSeconds: 0x10",
			"sysParams.watchdogSeconds: is 0x10: a whole number of 0 to 3600 is allowed"},
		{"infinite", "watchdogSeconds: .inf", "sysParams.watchdogSeconds: is .inf: a whole number of 0 to 3600 is allowed"},
		{"beyond 64 bits", "watchdogSeconds: 99999999999999999999",
			"sysParams.watchdogSeconds: is 99999999999999999999: a whole number of 0 to 3600 is allowed"},
		{"a number as string", `watchdogSeconds: "60"`, "sysParams.watchdogSeconds: is a string: a whole number is allowed"},
		{"a boolean as string", `managedConfig: "false"`, "sysParams.managedConfig: is a string: a boolean is allowed"},
		{"yes is a string", `managedConfig: yes`, "sysParams.managedConfig: is a string: a boolean is allowed"},
		{"a level that is none", "logLevel: trace", `sysParams.logLevel: is "trace": debug, info, warn or error is allowed`},
	})
}

func TestDefaults(t *testing.T) {
	_, c, err := Read([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (SysParams{LogLevel: "info", WatchdogSeconds: 60, Drift: "enforce",
		Facts: Facts{Seconds: 1800}}); c.Sys != want {
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
		{"all fields", `wan: {ifName: eth0, uplink: true, cost: 255, labels: "a, b", addressing: external, address: "", gateway: 192.0.2.1, dnsServers: "2001:db8::53,192.0.2.53", ntpServers: 192.0.2.123, mtu: 68}`, ""},
		{"no interface", "wan: {}",
			"ports.wan.ifName: is missing: an interface name of 1 to 15 letters, digits, '.', '_' and '-' is required"},
		{"one interface twice", "a: {ifName: eth0}, b: {ifName: eth0}",
			"ports.b.ifName: is eth0, as ports.a.ifName: one port for each interface is allowed"},
		{"an interface of ours", "a: {ifName: es1}, b: {ifName: es1a1}, c: {ifName: es}, d: {ifName: esx0}", `
			ports.a.ifName: is "es1": an interface that is not ours is allowed: no es followed by a digit
			ports.b.ifName: is "es1a1": an interface that is not ours is allowed: no es followed by a digit`},
		{"a reserved label", "uplink: {ifName: eth0}, wan: {ifName: eth1, labels: all}", `
			ports.uplink: is no key here: 1 to 64 letters, digits, '.', '_' and '-', but not uplink, freeuplink or all is allowed
			ports.wan.labels: has "all": labels of 1 to 64 letters, digits, '.', '_' and '-', not uplink, freeuplink or all are allowed, at most 16, separated by commas`},
		{"a shared label that is a port", "a: {ifName: eth0, labels: b}, b: {ifName: eth1}",
			`ports.a.labels: has "b", the label of ports.b: shared labels that no port has as its own are allowed`},
		{"addressing of later",
			"a: {ifName: eth0, addressing: dhcp}, b: {ifName: eth1, addressing: static, address: 192.0.2.2/24}", `
			ports.a.addressing: not supported yet
			ports.b.address: not supported yet
			ports.b.addressing: not supported yet`},
		{"addressing that is none", "a: {ifName: eth0, addressing: bootp}",
			`ports.a.addressing: is "bootp": external is allowed`},
		{"lists", `a: {ifName: eth0, dnsServers: "192.0.2.1,,x", ntpServers: "192.0.2.1,192.0.2.1", labels: [b]}`, `
			ports.a.dnsServers: has "", "x": unicast IP addresses are allowed, at most 16, separated by commas
			ports.a.labels: is a list: a comma-separated string is allowed
			ports.a.ntpServers: has "192.0.2.1" twice: unicast IPv4 addresses are allowed, at most 16, separated by commas`},
		{"addresses that can be no server",
			`a: {ifName: eth0, dnsServers: "0.0.0.0,224.0.0.1,fe80::1%eth0,::ffff:10.0.0.1", gateway: 127.0.0.1}`, `
			ports.a.dnsServers: has "0.0.0.0", "224.0.0.1", "fe80::1%eth0" and 1 more: unicast IP addresses are allowed, at most 16, separated by commas
			ports.a.gateway: is "127.0.0.1": a unicast IPv4 address is allowed`},
		{"MTU", "a: {ifName: eth0, mtu: 67}, b: {ifName: eth1, mtu: 65536}", `
			ports.a.mtu: is 67: a whole number of 68 to 65535 is allowed
			ports.b.mtu: is 65536: a whole number of 68 to 65535 is allowed`},
		{"an absent port", `a: {ifName: "no good", "$absent": true}, b: {ifName: eth0, "$absent": false}, c: {ifName: eth1, "$absent": 1}`, `
			ports.c.$absent: is a number: a boolean is allowed`},
	})
}

func TestAPortThatIsAbsentIsNotKnown(t *testing.T) {
	got := faultsOf("ports: {a: {$absent: true}, b: {ifName: eth0, labels: lan}}\nnetworkInstances: {" + ni1 +
		": {port: a, ipv4: {subnet: 10.0.0.0/24}}}")
	want := "networkInstances." + ni1 + `.port: is "a", which no port has: all, b, freeuplink, lan or uplink is allowed`
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
	want := "networkInstances." + strings.ToLower(upper) + `: is the same key as "` + upper + `": each key once is allowed`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
