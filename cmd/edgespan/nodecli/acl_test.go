package nodecli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
)

func TestACLExplain(t *testing.T) {
	f := clitest.Filled()
	var asked nodeapi.FlowQuery
	var err error
	f.Flow = func(q nodeapi.FlowQuery) (nodeapi.FlowVerdict, error) {
		asked = q
		return nodeapi.FlowVerdict{Adapter: q.Adapter, Name: "web", Packets: []nodeapi.PacketVerdict{{
			From: "10.1.0.10", To: "8.8.8.8", Protocol: "tcp", Port: 443, Verdict: "translate",
			Checks: []nodeapi.FlowCheck{{Adapter: "a/0", Name: "web", Direction: "egress", Rule: "https", Allows: true}},
			Route: &nodeapi.PacketRoute{Name: "branch", Destination: "8.0.0.0/8", Gateway: "192.0.2.1",
				Port: "wan"}, Arrives: "outside", Source: "192.0.2.2", NATPort: "wan",
		}, {From: "192.0.2.9", In: "wan", Protocol: "icmp", Verdict: "allow", Arrives: "node", Checks: []nodeapi.FlowCheck{
			{Adapter: "a/0", Direction: "egress", BuiltIn: "essentials", Text: "always", Allows: true}},
			Route: &nodeapi.PacketRoute{Destination: "172.16.0.0/12"},
		}, {From: "10.1.0.10", To: "9.9.9.9", Protocol: "99", Verdict: "allow", Route: &nodeapi.PacketRoute{
			Destination: "0.0.0.0/0", Port: "wan", Shared: []string{"lte", "sat"}},
		}, {From: "192.0.2.9", To: "8.8.8.8", Protocol: "99", Verdict: "deny",
			Checks: []nodeapi.FlowCheck{{BuiltIn: "no-route", Text: "no way"}},
		}, {From: "192.0.2.9", In: "wan", To: "192.0.2.2", Protocol: "tcp", Port: 8080, Verdict: "translate", Arrives: "adapter/a/0",
			Source: "192.0.2.9", Destination: "10.1.0.10", DestinationPort: 80, Checks: []nodeapi.FlowCheck{
				{Adapter: "a/0", Direction: "ingress", Rule: "www", Allows: true, Limit: "10/s, burst 5"}},
		}, {From: "10.1.0.10", Name: "h.test", Protocol: "icmp", Verdict: "deny", Checks: []nodeapi.FlowCheck{
			{Adapter: "a/0", Direction: "egress", BuiltIn: "implicit-drop", Text: "none", DependsOn: []string{"x", "y"}}},
		}, {From: "10.1.0.10", Name: "h.test", To: "9.9.9.9", Protocol: "icmp", Verdict: "deny"}}}, err
	}
	env := clitest.At(clitest.ServeDaemon(t, f))
	id := clitest.AppID + "/0"
	got := cli(t, env, "", "acl", "explain", "app/"+id, "--to", "8.8.8.8", "--port", "443")
	want := "adapter/" + id + ` "web"
  tcp from 10.1.0.10 to 8.8.8.8 port 443: translate
    egress of "web": allowed by rule https
    route branch 8.0.0.0/8 via 192.0.2.1 by port wan
    arrives outside from 192.0.2.2, an address of port wan (NAT)
  icmp from 192.0.2.9 by port wan to an unknown address: allow
    egress of adapter/a/0: allowed (essentials): always
    route 172.16.0.0/12, an app of the network
    arrives at the node from an unknown address
  99 from 10.1.0.10 to 9.9.9.9: allow
    route 0.0.0.0/0 by port wan, or as new flows are shared, by lte, sat
  99 from 192.0.2.9 to 8.8.8.8: deny
    denied (no-route): no way
  tcp from 192.0.2.9 by port wan to 192.0.2.2 port 8080: translate
    ingress of adapter/a/0: allowed by rule www within its limit (10/s, burst 5)
    arrives at adapter/a/0, 10.1.0.10 port 80, from 192.0.2.9 (port map)
  icmp from 10.1.0.10 to h.test: deny
    depends on DNS: before that, rule x or y matches the addresses of its host
    egress of adapter/a/0: denied (implicit-drop): none
  icmp from 10.1.0.10 to h.test (9.9.9.9): deny
`
	if got.Out != want || got.Code != 0 {
		t.Errorf("%+v, want\n%s", got, want)
	}
	for args, want := range map[string]nodeapi.FlowQuery{
		"--to 8.8.8.8":                        {Remote: "8.8.8.8"},
		"--to h --proto udp --port 53":        {Remote: "h", Protocol: "udp", Port: 53},
		"--from 8.8.8.8 --in wan --proto 99":  {Remote: "8.8.8.8", Incoming: true, In: "wan", Protocol: "99"},
		"--from h --port 22 --source-port 99": {Remote: "h", Incoming: true, Port: 22, SourcePort: 99},
	} {
		want.Adapter = id
		if got := cli(t, env, "", append([]string{"acl", "explain", id}, strings.Fields(args)...)...); got.Code != 0 ||
			asked != want {
			t.Errorf("%s: asks %+v: %+v", args, asked, got)
		}
	}
	for _, args := range []string{"", "--to a --from b", "--to a --in wan", "--to a --port 0", "--to a --proto tcp",
		"--to a --proto icmp --port 1", "--to a --proto nonsense", "--to a --port 1 --source-port 0", "--to a --proto 0",
		"--to a -o xml"} {
		if got := cli(t, env, "", append([]string{"acl", "explain", id}, strings.Fields(args)...)...); got.Code !=
			term.ExitUsage {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := cli(t, env, "", "acl", "explain", "app/x", "--to", "a"); got.Code != term.ExitUsage {
		t.Errorf("no adapter: %+v", got)
	}
	err = fmt.Errorf("explain: %w", rest.ErrNotFound)
	if got := cli(t, env, "", "acl", "explain", id, "--to", "a"); got.Code != term.ExitNotFound {
		t.Errorf("unknown: %+v", got)
	}
	if got := cli(t, env, "", "__complete", "acl", "explain", ""); !strings.Contains(got.Out, "app/") {
		t.Errorf("completion offers %q", got.Out)
	}
}

func TestAPlanShowsFlows(t *testing.T) {
	f := clitest.Filled()
	f.FlowChanges = nodeapi.FlowChanges{List: []nodeapi.FlowChange{
		{Verdict: "allow", From: "adapter/a/0", FromName: "web", To: "outside", Remote: []string{"8.8.8.0/24", "9.9.9.9"},
			Flows: []string{"tcp 80,443", "icmp"}},
		{Verdict: "deny", From: "port/wan", To: "adapter/a/0", ToName: "web", Remote: []string{"anywhere"},
			Flows: []string{"any"}},
		{Verdict: "allow", From: "port/wan", To: "adapter/a/0", ToName: "web", Remote: []string{"anywhere"}, Mapped: "192.0.2.2",
			Flows: []string{"tcp 8080"}},
		{Verdict: "deny", From: "adapter/a/0", To: "adapter/b/0", Flows: []string{"any"}}}, LeftOut: 2, Incomplete: true}
	env := clitest.At(clitest.ServeDaemon(t, f))
	got := cli(t, env, "{}", "plan", "-f", "-")
	if want := `newly allowed: "web" to outside (8.8.8.0/24, 9.9.9.9): tcp 80,443; icmp
newly denied:  port/wan (anywhere) to "web": any
newly allowed: port/wan (anywhere) to "web" by port map of 192.0.2.2: tcp 8080
newly denied:  adapter/a/0 to adapter/b/0: any
and 2 more classes of flows
not all flows were compared: there are too many rules
`; !strings.HasSuffix(got.Out, want) {
		t.Errorf("%+v, want\n%s", got, want)
	}
	if got := cli(t, env, "{}", "plan", "-f", "-", "-o", "json"); !strings.Contains(got.Out, `"verdict": "allow"`) ||
		!strings.Contains(got.Out, `"flowsLeftOut": 2`) {
		t.Errorf("%+v", got)
	}
}

func TestACLShow(t *testing.T) {
	f := clitest.Filled()
	asked := ""
	f.Rule = func(app, index string) (nodeapi.AppRules, error) {
		asked = app + " " + index
		return nodeapi.AppRules{App: app, Name: "web", Error: "half of it", Adapters: []nodeapi.AdapterRules{
			{Adapter: app + "/0", Rules: []nodeapi.RuleHits{
				{Rule: "https", Direction: "both", Action: "allow", Packets: 12, Bytes: 720,
					LastHit: time.Date(2026, 11, 23, 18, 4, 7, 0, time.UTC)},
				{Rule: "", Direction: "egress", Action: "drop", Packets: 3, Bytes: 180, Dropped: 1}}}}}, nil
	}
	env := clitest.At(clitest.ServeDaemon(t, f))
	got := cli(t, env, "", "acl", "show", "app/web/0")
	want := `ADAPTER  RULE       DIRECTION  ACTION  PACKETS  BYTES  DROPPED  LAST HIT
web/0    https      both       allow   12       720    0        2026-11-23T18:04:07Z
web/0    (no rule)  egress     drop    3        180    1        -
`
	if got.Out != want || got.Code != 0 || got.Err != "warning: half of it\n" || asked != clitest.AppID+" 0" {
		t.Errorf("asks %q: %+v", asked, got)
	}
	for _, target := range []string{"web", "ni/web", "app/", "app/none"} {
		if got := cli(t, env, "", "acl", "show", target); got.Code != 2 && target != "app/none" ||
			target == "app/none" && got.Code != 10 {
			t.Errorf("%s: %+v", target, got)
		}
	}
}

func TestACLShadow(t *testing.T) {
	f := clitest.Filled()
	at := time.Date(2026, 11, 23, 18, 4, 7, 0, time.UTC)
	f.Rule = func(app, index string) (nodeapi.AppRules, error) {
		return nodeapi.AppRules{App: app, Name: "web", Adapters: []nodeapi.AdapterRules{
			{Adapter: app + "/0", Rules: []nodeapi.RuleHits{{Rule: "https", Direction: "both", Action: "allow", Packets: 1}}},
			{Adapter: app + "/1", Observe: true,
				Rules: []nodeapi.RuleHits{{Rule: "no", Direction: "both", Action: "drop", Packets: 9, Observed: 4}},
				Shadow: []nodeapi.RuleHits{{Rule: "no", Direction: "egress", Action: "drop", Packets: 4, Bytes: 99, LastHit: at},
					{Rule: "no", Direction: "ingress", Action: "drop"}}}}}, nil
	}
	env := clitest.At(clitest.ServeDaemon(t, f))
	for args, want := range map[string]string{
		"shadow app/web": `ADAPTER  RULE  DIRECTION  ACTION  PACKETS  BYTES  LAST HIT
web/1    no    egress     drop    4        99     2026-11-23T18:04:07Z
web/1    no    ingress    drop    0        0      -
`,
		"show app/web": `ADAPTER  RULE   DIRECTION  ACTION  PACKETS  BYTES  DROPPED  OBSERVED  LAST HIT
web/0    https  both       allow   1        0      0        0         -
web/1    no     both       drop    9        0      0        4         -
`} {
		if got := cli(t, env, "", append([]string{"acl"}, strings.Fields(args)...)...); got.Out != want || got.Code != 0 {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := cli(t, env, "", "acl", "shadow", "app/web", "-o", "json"); strings.Contains(got.Out, "https") ||
		strings.Contains(got.Out, "shadow") || !strings.Contains(got.Out, `"observe": true`) {
		t.Errorf("%+v", got)
	}
	f.Rule = func(app, index string) (nodeapi.AppRules, error) {
		return nodeapi.AppRules{App: app, Adapters: []nodeapi.AdapterRules{{Adapter: app + "/0"}}}, nil
	}
	if got := cli(t, env, "", "acl", "shadow", "app/web"); got.Code != 0 ||
		!strings.Contains(got.Out+got.Err, "no adapter of app/web has observe") {
		t.Errorf("%+v", got)
	}
}

func TestACLEnforce(t *testing.T) {
	f := clitest.Filled()
	env := clitest.At(clitest.ServeDaemon(t, f))
	run := func(args ...string) clitest.Said {
		f.Enforcing = nil
		return cli(t, env, "", append([]string{"acl", "enforce"}, args...)...)
	}
	if got := run("app/web"); got.Code != 0 || !strings.Contains(got.Err, "no adapter of app/web has observe") ||
		len(f.Enforcing) != 1 || !f.Enforcing[0].DryRun {
		t.Errorf("%+v, %+v", got, f.Enforcing)
	}
	f.Enforced = nodeapi.Enforced{Config: "j:7", Adapters: []string{clitest.AppID + "/0", clitest.AppID + "/1"},
		Warnings: []string{"the file"}, Flows: nodeapi.FlowChanges{List: []nodeapi.FlowChange{
			{Verdict: "deny", From: "adapter/a/0", FromName: "web", To: "outside", Remote: []string{"anywhere"},
				Flows: []string{"tcp 25"}}}}}
	shown := "enforced: adapter/" + clitest.AppID + "/0, adapter/" + clitest.AppID +
		"/1\nnewly denied:  \"web\" to outside (anywhere): tcp 25\n"
	if got := run("app/web", "--dry-run"); got.Out != shown || got.Code != 0 || len(f.Enforcing) != 1 || !f.Enforcing[0].DryRun {
		t.Errorf("%+v, %+v", got, f.Enforcing)
	}
	got := run("app/web/0", "--confirm", "2m")
	if got.Out != shown || got.Code != 0 || !strings.Contains(got.Err, "warning: the file\nconfig stored\nrolled back in 2m") ||
		len(f.Enforcing) != 2 {
		t.Fatalf("%+v, %+v", got, f.Enforcing)
	}
	// What is enforced is what was shown.
	if how := f.Enforcing[1]; how.DryRun || how.Replaces != "j:7" || how.Confirm != 2*time.Minute || how.By == "" {
		t.Errorf("%+v", how)
	}
	if got := run("app/web", "--dry-run", "-o", "json"); !strings.Contains(got.Out, `"verdict": "deny"`) {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{{"web"}, {"app/web", "-o", "json"}, {"app/web", "--dry-run", "--confirm", "2m"},
		{"app/web", "--confirm", "1ms"}, {"app/web", "--dry-run", "-o", "xml"}, {}} {
		if got := run(args...); got.Code != term.ExitUsage || len(f.Enforcing) > 0 {
			t.Errorf("%q: %+v", args, got)
		}
	}
	f.Err = fmt.Errorf("%w: the node is managed", rest.ErrConflict)
	if got := run("app/" + clitest.AppID); got.Code != term.ExitConflict {
		t.Errorf("%+v", got)
	}
}

func TestExplainShowsTheRulesThatWereHit(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	x := nodeapi.Explanation{Object: "adapter/a/0", Name: "web", Ready: true, Summary: "ready", HitsRead: now.Add(-time.Minute),
		Hits: []nodeapi.RuleHits{
			{Rule: "slow", Direction: "egress", Action: "limit", Packets: 9, Dropped: 4, LastHit: now.Add(-2 * time.Minute)},
			{Direction: "egress", Action: "drop", Packets: 7, Observed: 5, LastHit: now.Add(-time.Hour)},
			{Rule: "https", Direction: "both", Action: "allow", Packets: 12}}}
	want := `adapter/a/0 "web": ready
  rules hit, as read 1m0s ago: they denied 6 packets
    slow (limit, egress): 9 packets, 4 dropped, last 2m0s ago
    (no rule) (drop, egress): 7 packets, 5 only observed, last 1h0m0s ago
    https (allow, both): 12 packets
`
	if got := Explained(x, now); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestTheTextOfAnObservedCheck(t *testing.T) {
	for want, c := range map[string]nodeapi.FlowCheck{
		`egress of "web": allowed by observe; enforced, denied by rule no`: {Rule: "no"},
		`egress of "web": allowed by observe; enforced, denied (implicit-drop): no rule allows it`: {BuiltIn: "implicit-drop",
			Text: "no rule allows it"},
		`egress of "web": allowed by rule slow; above its limit (1/s, burst 1) too, by observe, and enforced denied`: {
			Rule: "slow", Limit: "1/s, burst 1"},
	} {
		c.Adapter, c.Name, c.Direction, c.Allows, c.Observed = "a/0", "web", "egress", true, true
		if got := checkText(c); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
