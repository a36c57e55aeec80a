package nodeconf

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"edgespan/netinst/probe"
)

func probeDoc(v string) string {
	return "ports: {wan: {ifName: eth0}}\nnetworkInstances: {$ni1: {port: wan, ipv4: {subnet: 10.0.0.0/24}, probe: {" +
		v + "}}}"
}

func TestFaultsOfProbe(t *testing.T) {
	const any = "must be IP addresses, host names, HOST:PORT or http(s) URLs, at most 16, separated by commas"
	checkSentences(t, probeDoc, []sentence{
		{"all fields", `method: http, body: "it works", target: "http://a.example/up?x=1, https://192.0.2.1:8443", intervalMs: 200, ` +
			`timeoutMs: 2000, failAfter: 64, recoverAfter: 64, quorum: 2, maxLoss: 100, maxLatencyMs: 2000, holdMs: 600000`, ""},
		{"the least of each", "intervalMs: 200, timeoutMs: 50, failAfter: 1, recoverAfter: 1, quorum: 1, maxLoss: 1, " +
			"maxLatencyMs: 1", ""},
		{"texts that mean no value", `method: "", target: ""`, ""},
		{"out of range", "intervalMs: 199, timeoutMs: 49, holdMs: 99, failAfter: 0, recoverAfter: 65, quorum: 17, maxLoss: 101, " +
			"maxLatencyMs: 0", `
			N1.probe.failAfter: invalid value 0: must be a whole number of 1 to 64
			N1.probe.holdMs: invalid value 99: must be a whole number of 100 to 600000
			N1.probe.intervalMs: invalid value 199: must be a whole number of 200 to 600000
			N1.probe.maxLatencyMs: invalid value 0: must be a whole number of 1 to 60000
			N1.probe.maxLoss: invalid value 101: must be a whole number of 1 to 100
			N1.probe.quorum: invalid value 17: must be a whole number of 1 to 16
			N1.probe.recoverAfter: invalid value 65: must be a whole number of 1 to 64
			N1.probe.timeoutMs: invalid value 49: must be a whole number of 50 to 60000`},
		{"an unknown key", "targets: 192.0.2.1", "N1.probe.targets: unknown field: must be body, failAfter, " +
			"holdMs, intervalMs, maxLatencyMs, maxLoss, method, quorum, recoverAfter, target or timeoutMs"},
		{"a method for gateways", "method: arp, target: 192.0.2.1",
			`N1.probe.method: invalid value "arp": must be icmp, tcp, http or dns`},
		{"a page of no web server", "method: tcp, target: 'a:80', body: 'it works'",
			"N1.probe.body: no page to find it in: must be with method http"},
		{"a page without target", "body: 'it works'", "N1.probe.body: no page to find it in: must be with method http"},
		{"a target without method", "target: 192.0.2.1",
			"N1.probe.method: required with target: must be icmp, tcp, http or dns"},
		{"a method without target", "method: tcp", "N1.probe.target: required with method: must be of the form HOST:PORT"},
		{"icmp", "method: icmp, target: 'a.example,192.0.2.1,a.example:80,http://a.example'",
			`N1.probe.target: invalid value "a.example:80", "http://a.example/": for method icmp must be IP addresses ` +
				`or host names`},
		{"tcp", "method: tcp, target: 'a.example:1,192.0.2.1:65535,a.example,192.0.2.1,http://a.example'",
			`N1.probe.target: invalid value "a.example", "192.0.2.1", "http://a.example/": for method tcp must be of the ` +
				`form HOST:PORT`},
		{"http", "method: http, target: 'http://a,a,a:80,192.0.2.1,192.0.2.1:80'",
			`N1.probe.target: invalid value "a", "a:80", "192.0.2.1" and 1 more: for method http must be http(s) URLs`},
		{"dns", "method: dns, target: '192.0.2.53,dns.example'",
			`N1.probe.target: invalid value "dns.example": for method dns must be IP addresses of DNS servers`},
		{"IPv6", `method: icmp, target: "2001:db8::1,192.0.2.1,a.example"`, ""},
		{"IPv6 by dns", `method: dns, target: "2001:db8:0::53"`, ""},
		{"IPv6 by tcp", `method: tcp, target: "[2001:db8::1]:443,192.0.2.1:443"`, ""},
		{"IPv6 by http", `method: http, target: "http://[2001:db8::1]/,https://[2001:db8::2]:8443/x"`, ""},
		{"IPv6 without a port", `method: tcp, target: "2001:db8::1,[2001:db8::1]"`,
			`N1.probe.target: invalid value "[2001:db8::1]": ` + any},
		{"no IPv6", `method: tcp, target: "[192.0.2.1]:80,[a]:80,[fe80::1]:80,[2001:db8::1:80,2001:db8::1]:80,[ff02::1]:80"`,
			`N1.probe.target: invalid value "[192.0.2.1]:80", "[a]:80", "[fe80::1]:80" and 3 more: ` + any},
		{"IPv6 twice", `method: http, target: "http://[2001:DB8:0::1],http://[2001:db8::1]/"`,
			`N1.probe.target: duplicate item "http://[2001:db8::1]/": ` + any},
		{"no targets", `method: icmp, target: "192.0.2.300,fe80::1,127.0.0.1,a b"`,
			`N1.probe.target: invalid value "192.0.2.300", "fe80::1", "127.0.0.1" and 1 more: ` + any},
		{"ports that are none", `method: tcp, target: "a:0,a:65536,a:080,:80,192.0.2.1:"`,
			`N1.probe.target: invalid value "a:0", "a:65536", "a:080" and 2 more: ` + any},
		{"no URLs", `method: http, target: "ftp://a/,http://,http://u@a/,http://a/#f,http://a:/,http://a/$x,http://[::1]/,` +
			`http://1.2/,://a"`,
			`N1.probe.target: invalid value "ftp://a/", "http://", "http://u@a/" and 6 more: ` + any},
		{"the same host twice", `method: icmp, target: "A.example,a.example"`,
			`N1.probe.target: duplicate item "a.example": ` + any},
		{"the same URL twice", `method: http, target: "HTTP://A,http://a/"`,
			`N1.probe.target: duplicate item "http://a/": ` + any},
		{"a quorum of more than there are", "method: icmp, target: 'a,b', quorum: 3",
			"N1.probe.quorum: invalid value 3: must be at most 2, the number of targets"},
		{"a quorum without targets", "quorum: 2", "N1.probe.quorum: invalid value 2: must be 1 without target"},
		{"a timeout of many intervals", "intervalMs: 300, timeoutMs: 3001",
			"N1.probe.timeoutMs: invalid value 3001: must be at most 3000, 10 times intervalMs"},
		{"a timeout of many default intervals", "timeoutMs: 10001",
			"N1.probe.timeoutMs: invalid value 10001: must be at most 10000, 10 times intervalMs"},
		{"a latency above the timeout", "maxLatencyMs: 801",
			"N1.probe.maxLatencyMs: invalid value 801: must be at most 800, by timeoutMs"},
		{"all faults at once", "method: dns, target: x, quorum: 2, timeoutMs: 10001, maxLatencyMs: 10002", `
			N1.probe.maxLatencyMs: invalid value 10002: must be at most 10001, by timeoutMs
			N1.probe.quorum: invalid value 2: must be at most 1, the number of targets
			N1.probe.target: invalid value "x": for method dns must be IP addresses of DNS servers
			N1.probe.timeoutMs: invalid value 10001: must be at most 10000, 10 times intervalMs`},
		{"what is wrong by itself is compared with nothing", "method: ping, target: a:b, quorum: 9, intervalMs: 1, " +
			"timeoutMs: 60000, maxLatencyMs: 60000", `
			N1.probe.intervalMs: invalid value 1: must be a whole number of 200 to 600000
			N1.probe.method: invalid value "ping": must be icmp, tcp, http or dns
			N1.probe.target: invalid value "a:b": ` + any},
	})
}

func TestAtMost16Targets(t *testing.T) {
	hosts := strings.Split("abcdefghijklmnopq", "")
	for n, want := range map[int]string{16: "", 17: "N1.probe.target: too many items (17): must be IP addresses, host " +
		"names, HOST:PORT or http(s) URLs, at most 16, separated by commas"} {
		doc := probeDoc("method: icmp, quorum: 16, target: '" + strings.Join(hosts[:n], ",") + "'")
		if got := faultsOf(expand.Replace(doc)); got != expand.Replace(want) {
			t.Errorf("%d targets: got %q, want %q", n, got, want)
		}
	}
}

// A config that means the default is the default: its digest is that of a config without probe.
func TestProbeIsRead(t *testing.T) {
	for doc, want := range map[string]probe.Config{
		"": {},
		"intervalMs: 1000, timeoutMs: 800, failAfter: 8, recoverAfter: 3, quorum: 1, holdMs: 10000": {},
		`method: icmp, target: "B.example, 192.0.2.1", quorum: 2, intervalMs: 500, timeoutMs: 400, failAfter: 4, ` +
			`recoverAfter: 5, maxLoss: 20, maxLatencyMs: 300, holdMs: 5000`: {
			Method: probe.ICMP, Targets: []string{"b.example", "192.0.2.1"}, Interval: 500 * time.Millisecond,
			Timeout: 400 * time.Millisecond, FailAfter: 4, RecoverAfter: 5, Hold: 5 * time.Second, Quorum: 2, MaxLoss: 20,
			MaxLatency: 300 * time.Millisecond,
		},
		"method: tcp, target: 'A:443'":                      {Method: probe.TCP, Targets: []string{"a:443"}},
		"method: dns, target: 192.0.2.53":                   {Method: probe.DNS, Targets: []string{"192.0.2.53"}},
		"method: http, target: 'HTTPS://A.B:8443/c?d=e%2C'": {Method: probe.HTTP, Targets: []string{"https://a.b:8443/c?d=e%2C"}},
		"method: http, target: 'http://a/', body: ' OK '":   {Method: probe.HTTP, Targets: []string{"http://a/"}, Body: " OK "},
	} {
		_, c, err := Read([]byte(expand.Replace(probeDoc(doc))))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, c.Networks[uuid.MustParse(ni1)].Probe); diff != "" {
			t.Errorf("%s (-want +got):\n%s", doc, diff)
		}
		if c.Ports["wan"].Metered || len(c.Warnings) > 0 {
			t.Errorf("%s: metered %v, warnings %v", doc, c.Ports["wan"].Metered, c.Warnings)
		}
	}
	for doc, want := range map[string][2]int{ // field and budget
		"metered: true": {0, 4 << 20}, "metered: true, probeBytesPerDay: 4194304": {0, 4 << 20},
		"metered: true, probeBytesPerDay: 100000": {100_000, 100_000}, "metered: false": {0, 0},
	} {
		_, c, err := Read([]byte("ports: {lte: {ifName: wwan0, " + doc + "}}"))
		p := c.Ports["lte"]
		if err != nil || len(c.Warnings) > 0 || p.Metered != (want[1] > 0) || p.ProbeBytes != want[0] ||
			p.ProbeBudget() != want[1] {
			t.Errorf("%s: got %+v, %v", doc, c.Ports, err)
		}
	}
	_, c, err := Read([]byte("ports: {lte: {ifName: wwan0, probeBytesPerDay: 100000}}"))
	if got := fmt.Sprint(c.Warnings, err); got != "[ports.lte.probeBytesPerDay: no effect: the port is not metered] <nil>" {
		t.Errorf("a budget without metered: %s", got)
	}
}

// A later layer may take the port of a network away: that is no fault.
func TestProbeOfAnAirGappedNetworkIsAWarning(t *testing.T) {
	for port, want := range map[string]string{
		`""`:  "N1.probe: no effect: an air-gapped network has no uplink to probe",
		"wan": "",
	} {
		doc := strings.Replace(probeDoc("failAfter: 2"), "port: wan", "port: "+port, 1)
		_, c, err := Read([]byte(expand.Replace(doc)))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range c.Warnings {
			got = append(got, w.Error())
		}
		if strings.Join(got, "\n") != expand.Replace(want) {
			t.Errorf("port %s: got %q, want %q", port, got, want)
		}
	}
}
