package nodeconf

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
)

func TestSets(t *testing.T) {
	const entry = "must be an IP prefix of 1 bit or more such as 10.0.0.0/24, without host bits, or an IP address"
	checkSentences(t, func(v string) string {
		return "networkInstances: {$ni1: {ipv4: {subnet: 10.0.0.0/24}, sets: {" + v + "}}}\n" +
			"appNetworks: {$app1: {adapters: {0: {networkInstance: $ni1, attach: {kind: veth, netns: a}, " +
			"acl: {r: {match: {set: office}}}}}}}"
	}, []sentence{
		{"both families, with notes", `office: {10.0.0.0/8: "", 192.0.2.1: a printer, "2001:db8::/32": ""}, b.c: {}`, ""},
		{"an empty set", `office: {}`, ""},
		{"an entry that a later layer drops", `office: {10.0.0.0/8: {$absent: true}}, other: {$absent: true}`, ""},
		{"the name of no set", `offices: {10.0.0.0/8: ""}`,
			`A1.adapters.0.acl.r.match.set: invalid value "office", not a set of the network: must be offices`},
		{"all faults at once", `office: {10.0.0.1/8: "", 0.0.0.0/0: "", "::/0": "", "::ffff:192.0.2.1": "", x: "", ` +
			`192.0.2.1: "", 192.0.2.1/32: "", 192.0.2.2: 5}, "a b": {}`, `
			N1.sets."a b": invalid key: must be 1 to 64 letters, digits, '.', '_' and '-'
			N1.sets.office."0.0.0.0/0": invalid key: ` + entry + `
			N1.sets.office."10.0.0.1/8": invalid key: ` + entry + `
			N1.sets.office."192.0.2.1/32": duplicate key, same as "192.0.2.1": must be unique
			N1.sets.office."192.0.2.2": invalid type number: must be a string
			N1.sets.office.::/0: invalid key: ` + entry + `
			N1.sets.office."::ffff:192.0.2.1": invalid key: ` + entry + `
			N1.sets.office.x: invalid key: ` + entry},
	})
}

func TestARuleHasTheContentOfItsSet(t *testing.T) {
	_, cfg, err := Read([]byte(strings.NewReplacer("$ni1", ni1, "$ni2", ni2, "$app1", app1).Replace(`
networkInstances:
  $ni1: {ipv4: {subnet: 10.0.0.0/24}, sets: {office: {192.0.2.1: "", 10.0.0.0/8: "all of it", 10.0.0.0/16: ""}}}
appNetworks:
  $app1:
    adapters:
      0: {networkInstance: $ni1, attach: {kind: veth, netns: a}, acl: {r: {match: {set: office}}}}
      1: {networkInstance: $ni2, attach: {kind: veth, netns: b}, acl: {r: {match: {set: office}}}}`)))
	if err != nil {
		t.Fatal(err)
	}
	rule := func(i int) *netinst.AddressSet { return cfg.Apps[uuid.MustParse(app1)].Adapters[i].ACL[0].Set }
	if d := cmp.Diff("[10.0.0.0/8 10.0.0.0/16 192.0.2.1/32]", fmt.Sprint(rule(0).Entries)); d != "" {
		t.Error(d)
	}
	// The network is not in the config yet: the rule matches nothing until it is.
	if s := rule(1); s == nil || len(s.Entries) != 0 {
		t.Errorf("of a network without config: %v", s)
	}
}

func TestTheEntriesOfANetworkAreBounded(t *testing.T) {
	for n, want := range map[int]string{
		maxSetEntries: "",
		maxSetEntries + 1: "networkInstances." + ni1 + ".sets: too many prefixes (16385): must be at most 16384 in all sets " +
			"together",
	} {
		half := [2]config.Object{{}, {}}
		for i := range n {
			half[i%2][fmt.Sprintf("11.%d.%d.0/24", i>>8, i&255)] = ""
		}
		_, err := Parse(config.Object{"networkInstances": config.Object{ni1: config.Object{
			"ipv4": config.Object{"subnet": "10.0.0.0/24"}, "sets": config.Object{"a": half[0], "b": half[1]}}}})
		var fs config.Faults
		got := ""
		if errors.As(err, &fs) {
			got = fs.Error()
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%d prefixes (-want +got):\n%s", n, d)
		}
	}
}

func TestHosts(t *testing.T) {
	const ni6 = "60000000-0000-4000-8000-000000000006"
	const name = "must be a host name of at most 253 characters, in labels of 1 to 63 letters, digits and inner hyphens"
	rules := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "r%d: {match: {host: h%d.test}}, again%d: {match: {host: H%d.test}}, ", i, i, i, i)
		}
		return b.String()
	}
	checkSentences(t, func(v string) string {
		return "networkInstances: {$ni1: {ipv4: {subnet: 10.0.0.0/24}}, $ni2: {type: switch, port: ''}, " +
			ni6 + ": {ipv4: {subnet: 10.6.0.0/24}, ipv6: {subnet: 'fd00:6::/64', mode: slaac}}}\nappNetworks: {$app1: " +
			"{adapters: {" + v + "}}}"
	}, []sentence{
		{"names", `0: {networkInstance: $ni1, attach: {kind: veth, netns: a}, acl: {a: {match: {host: Example.com}}, ` +
			`b: {action: drop, match: {host: ` + strings.Repeat("long-name.", 24) + `example}}, c: {match: {host: com}}}}`, ""},
		{"no names", `0: {networkInstance: $ni1, attach: {kind: veth, netns: a}, acl: {a: {match: {host: a_b}}, ` +
			`b: {match: {host: "*.example.com"}}}}`, `
			A1.adapters.0.acl.a.match.host: invalid value "a_b": ` + name + `
			A1.adapters.0.acl.b.match.host: invalid value "*.example.com": ` + name},
		{"on a switch", `0: {networkInstance: $ni2, attach: {kind: veth, netns: a}, acl: {a: {match: {host: a.test}}}}`,
			`A1.adapters.0.acl.a.match.host: invalid value "a.test" on a switch network: only a local network has a DNS ` +
				`server, which knows the addresses of a name`},
		{"with IPv6", `0: {networkInstance: ` + ni6 + `, attach: {kind: veth, netns: a}, acl: {a: {match: {host: a.test}}, ` +
			`b: {action: drop, match: {host: b.test}}}}`, ""},
		{"many", `0: {networkInstance: $ni1, attach: {kind: veth, netns: a}, acl: {` + rules(maxHosts) + `}}`, ""},
		{"too many", `0: {networkInstance: $ni1, attach: {kind: veth, netns: a}, acl: {` + rules(maxHosts) + `}}, ` +
			`1: {networkInstance: $ni1, attach: {kind: veth, netns: b}, acl: {r: {match: {host: x.test}}}}`,
			`A1.adapters.1.acl.r.match.host: invalid value "x.test", the network's host number 65: must be one of at most 64 ` +
				`different hosts in the rules of a network`},
	})
}
