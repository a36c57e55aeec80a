package scenario

import (
	"encoding/json"
	"strings"
	"testing"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/platform/lab"
)

// explainFlow asks edgespan acl explain.
func (w *world) explainFlow(args ...string) nodeapi.PacketVerdict {
	w.Helper()
	out := w.cli(append(append([]string{"acl", "explain"}, args...), "-o", "json")...)
	var x nodeapi.FlowVerdict
	if err := json.Unmarshal([]byte(out), &x); err != nil || len(x.Packets) == 0 {
		w.Fatalf("acl explain %v: %v: %s", args, err, out)
	}
	return x.Packets[0]
}

// What acl explain says is what clients of the apps see, and it names the rule that decided.
func TestACLExplainSaysWhatAppsSee(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	web := onNet(1, 1, "web", acl("allow egress ip: 198.51.100.80, protocol: tcp, port: 80", "allow ingress protocol: icmp"))
	w.start(doc([]string{network(1, "")}, web, onNet(2, 1, "client", acl("allow egress protocol: icmp"))))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	l := w.lease("web")
	w.lease("client")
	for _, port := range []string{"80", "443"} {
		p := w.explainFlow("app/"+app(1)+"/0", "--to", lab.WebAddr, "--port", port)
		if got := w.fetch("web", port, denial) == fetched; got != (p.Verdict == "translate") {
			t.Errorf("port %s: fetched %v, but %+v", port, got, p)
		}
		if last := p.Checks[len(p.Checks)-1]; port == "80" && (last.Rule == "" || p.NATPort != "wan" || p.Route.Port != "wan") ||
			port == "443" && last.BuiltIn != "implicit-drop" {
			t.Errorf("port %s: %+v", port, p)
		}
	}
	// By name, between apps, both ways; and by the gateway's essentials.
	w.in("client", "ping", "-c1", "-W5", l.IP.String())
	p := w.explainFlow("app/app2/0", "--to", "app1")
	if p.Verdict != "allow" || p.To != l.IP.String() || p.Arrives != "adapter/"+app(1)+"/0" || len(p.Checks) != 2 {
		t.Errorf("client to web: %+v", p)
	}
	w.fails("web", "ping", "-c1", "-W0.4", w.ip(app(2)).String())
	if p := w.explainFlow("app/app2/0", "--from", "app1"); p.Verdict != "deny" || p.Checks[0].Direction != "egress" {
		t.Errorf("web to client: %+v", p)
	}
	if p := w.explainFlow("app/"+app(1)+"/0", "--to", "10.1.0.1"); p.Verdict != "allow" || p.Checks[0].BuiltIn != "essentials" {
		t.Errorf("web to its gateway: %+v", p)
	}
	if p := w.explainFlow("app/"+app(1)+"/0", "--from", lab.WebAddr); p.Verdict != "allow" || p.In != "wan" {
		t.Errorf("from outside: %+v", p)
	}
	table := w.cli("acl", "explain", "app/"+app(1)+"/0", "--to", lab.WebAddr, "--proto", "tcp", "--port", "80")
	for _, part := range []string{"translate", "allowed by rule", "by port wan", "(NAT)"} {
		if !strings.Contains(table, part) {
			t.Errorf("no %q in\n%s", part, table)
		}
	}
	for args, code := range map[string]int{"/7 --to 10.1.0.1": 10, "/0 --to nobody": 10, "/0 --from 8.8.8.8 --in none": 10,
		"/0": 2, " --to 10.1.0.1": 2} {
		r, err := w.CLIWith(w.ctx, "", append([]string{"acl", "explain"}, strings.Fields("app/"+app(1)+args)...)...)
		if err != nil || r.Code != code {
			t.Errorf("acl explain %s: exit %d, %v: %s", args, r.Code, err, r.Err)
		}
	}
}

// A plan names the flows that a change of rules allows and denies, and none where nothing changes.
func TestAPlanNamesTheFlowsItChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	nets := []string{network(1, "")}
	const plain, secure = "allow egress ip: 198.51.100.80, protocol: tcp, port: 80", "allow egress protocol: tcp, port: 443"
	running := doc(nets, onNet(1, 1, "web", acl(plain)), onNet(2, 1, "client", acl(plain)))
	w.start(running)
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	plan := func(text string) string {
		r, err := w.CLIWith(w.ctx, text, "plan", "-f", "-")
		if err != nil || r.Code != 0 {
			t.Fatalf("plan: exit %d, %v: %s", r.Code, err, r.Err)
		}
		return r.Out
	}
	if out := plan(running); strings.Contains(out, "newly") {
		t.Errorf("without a change: %s", out)
	}
	w.lease("web")
	w.gets("before", "web", "80", "443")
	changed := doc(nets, onNet(1, 1, "web", acl(secure)), onNet(2, 1, "client", acl(plain)))
	out := plan(changed)
	for _, want := range []string{"newly allowed: \"app1\" to outside (anywhere): tcp 443\n",
		"newly denied:  \"app1\" to outside (198.51.100.80): tcp 80\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "app2") {
		t.Errorf("it names an app whose flows stay:\n%s", out)
	}
	w.apply(changed)
	w.wait("ready", "app/"+app(1))
	w.gets("after", "web", "443", "80")
}
