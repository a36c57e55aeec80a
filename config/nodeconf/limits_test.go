package nodeconf

import (
	"fmt"
	"strings"
	"testing"
)

// A tenant's network that grows beyond its limits is refused by its own path; the same adapters elsewhere, or of an app
// that is not activated, are no matter.
func TestSeed_ANetworkHasItsLimitsOfAdaptersAndRules(t *testing.T) {
	app := func(n int, network, rules string, active bool) string {
		return fmt.Sprintf("  %08d-0000-4000-8000-000000000000: {activate: %v, adapters: {0: {networkInstance: "+
			"%s, attach: {kind: tap}, acl: {%s}}}}\n", n, active, network, rules)
	}
	const one, two = "10000000-0000-4000-8000-000000000001", "10000000-0000-4000-8000-000000000002"
	const rules = "a: {action: allow, match: {ip: 198.51.100.7}}, b: {action: drop, match: {ip: 198.51.100.8}}"
	for _, c := range []struct{ limits, apps, want string }{
		{"{}", app(1, one, rules, true) + app(2, one, rules, true), ""},
		{"{adapters: 2, rules: 4}", app(1, one, rules, true) + app(2, one, rules, true), ""},
		{"{adapters: 2, rules: 4}", app(1, one, rules, true) + app(2, one, rules, true) + app(3, one, rules, false) +
			app(4, two, rules, true), ""},
		{"{adapters: 1, rules: 3}", app(1, one, rules, true) + app(2, one, rules, true),
			"networkInstances." + one + ".limits.adapters: too many adapters of activated apps (2): must be at most 1\n" +
				"networkInstances." + one + ".limits.rules: too many access rules (4): must be at most 3"},
		{"{rules: 0}", app(1, one, "", true), ""},
		{"{rules: 0}", app(1, one, rules, true),
			"networkInstances." + one + ".limits.rules: too many access rules (2): must be at most 0"},
		{"{adapters: 1024}", app(1, one, "", true),
			"networkInstances." + one + ".limits.adapters: invalid value 1024: must be a whole number of 1 to 1023"},
	} {
		for _, kind := range []string{"ipv4: {subnet: 10.1.0.0/24}", `type: switch, port: ""`} {
			_, _, err := Read([]byte("networkInstances:\n  " + one + ": {" + kind + ", limits: " + c.limits + "}\n  " + two +
				": {ipv4: {subnet: 10.2.0.0/24}}\nappNetworks:\n" + c.apps))
			got := ""
			if err != nil {
				got = strings.TrimSpace(err.Error())
			}
			if got != c.want {
				t.Errorf("%s, %s:\n%s\nwant\n%s", kind, c.limits, got, c.want)
			}
		}
	}
}

func TestLimitsOfHelpersAreNotForASwitch(t *testing.T) {
	const one = "10000000-0000-4000-8000-000000000001"
	_, _, err := Read([]byte("networkInstances: {" + one +
		`: {type: switch, port: "", limits: {memory: 64, processes: 9, adapters: 3}}}`))
	const want = "networkInstances." + one + ".limits.memory: limits nothing: only type local has helper processes\n" +
		"networkInstances." + one + ".limits.processes: limits nothing: only type local has helper processes"
	if err == nil || strings.TrimSpace(err.Error()) != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}
