package nodecli

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
)

func TestPortsAreDrainedAndUndrained(t *testing.T) {
	f := clitest.Filled()
	f.Until = time.Date(2026, 11, 23, 19, 0, 0, 0, time.UTC)
	env := clitest.At(clitest.ServeDaemon(t, f))
	run := func(line string) (clitest.Said, string) {
		before := len(f.Requests())
		got := cli(t, env, "", strings.Split(line, " ")...)
		return got, strings.Join(f.Requests()[before:], ";")
	}
	check := func(line, asks, says string) {
		t.Helper()
		if got, asked := run(line); got.Code != term.ExitOK || got.Err != says+"\n" || asked != asks {
			t.Errorf("edgespan %s: %+v, asks %q", line, got, asked)
		}
	}
	check("port drain wan --for 1h", "drain wan", "port wan is drained until 2026-11-23T19:00:00Z")
	if f.Drained.For != time.Hour || f.Drained.By == "" {
		t.Errorf("asked with %+v", f.Drained)
	}
	f.Until = time.Time{}
	check("port drain wan", "drain wan", "port wan is drained until you run: edgespan port undrain wan")
	if f.Drained.For != 0 {
		t.Errorf("asked with %+v", f.Drained)
	}
	check("port undrain wan", "undrain wan", "port wan was not drained")
	f.Held = true
	check("port undrain wan", "undrain wan", "port wan is no longer drained")
	for _, line := range []string{"port drain", "port drain a b", "port drain wan --for 0", "port drain wan --for -1h",
		"port drain wan --for 721h", "port drain wan --for soon", "port undrain", "port wash wan"} {
		if got, asked := run(line); got.Code != term.ExitUsage || asked != "" {
			t.Errorf("edgespan %s: %+v, asks %q", line, got, asked)
		}
	}
	if got, _ := run("port drain wan --for 721h"); !strings.Contains(got.Err,
		"--for: invalid value 721h0m0s: must be a positive duration of at most 720h0m0s") {
		t.Errorf("%+v", got)
	}
	if got, _ := run("__complete port drain "); !strings.HasPrefix(got.Out, "wan\n:") {
		t.Errorf("completion offers %q", got.Out)
	}
	if got, _ := run("__complete explain port/"); !strings.HasPrefix(got.Out, "port/wan\n:") {
		t.Errorf("completion offers %q", got.Out)
	}
	f.Err = fmt.Errorf("port lan: %w: the ports are wan", rest.ErrNotFound)
	for _, line := range []string{"port drain lan", "port undrain lan"} {
		if got, _ := run(line); got.Code != term.ExitNotFound || !strings.Contains(got.Err, "the ports are wan") {
			t.Errorf("edgespan %s: %+v", line, got)
		}
	}
}

func TestAWideTableOfPortsShowsHowTheyWork(t *testing.T) {
	f := clitest.Filled()
	f.Items["port"][0].Status = clitest.Obj{"exists": true, "up": true, "probe": "degraded", "loss": 12, "latencyMs": 40.5,
		"changed": time.Now().Add(-90 * time.Second), "usedBy": []any{clitest.Obj{"id": clitest.NiID, "name": "demo net"},
			clitest.Obj{"id": clitest.AppID}}}
	socket := clitest.ServeDaemon(t, f)
	got := cli(t, clitest.At(socket), "", "get", "port", "-o", "wide")
	lines := strings.Split(strings.TrimSpace(got.Out), "\n")
	head, row := strings.Join(strings.Fields(lines[0]), " "), strings.Join(strings.Fields(lines[1]), " ")
	if !strings.Contains(head, "PROBE LOSS LATENCY CHANGED USED BY ERROR") ||
		!strings.Contains(row, "degraded 12% 40.5 ms 1m30s ago demo net,a0000000 -") {
		t.Errorf("%s", got.Out)
	}
	for probe, want := range map[string]string{"": "drained", "dead": "dead, drained", "held, works": "held, works, drained",
		"drained": "drained", "dead, drained": "dead, drained"} {
		if got := probeWord(nodeapi.PortStatus{Probe: probe, Drained: true}); got != want {
			t.Errorf("%q of a drained port is shown as %q, want %q", probe, got, want)
		}
	}
	f.Items["port"][0].Status = clitest.Obj{"exists": true, "up": true}
	got = cli(t, clitest.At(socket), "", "get", "port", "-o", "wide")
	if row := strings.Join(strings.Fields(strings.Split(got.Out, "\n")[1]), " "); !strings.HasSuffix(row, "- - - - - -") {
		t.Errorf("nothing known: %s", got.Out)
	}
}

func TestTheDecisionAboutUplinksAsText(t *testing.T) {
	now := time.Date(2026, 11, 23, 18, 0, 0, 0, time.UTC)
	ago := func(s int) time.Time { return now.Add(-time.Duration(s) * time.Second) }
	network := nodeapi.Explanation{Object: "ni/" + clitest.NiID, Name: "shop", Ready: true, Summary: "ready: Present",
		Uplinks: []nodeapi.UplinkChoice{
			{Selector: "uplink", Own: true, Port: "lte", Since: ago(14), Flows: "drain",
				Why: "lte: works; wan: no target answers (dns 198.51.100.53: no answer)", Ports: []nodeapi.PortScore{
					{Port: "lte", Class: "works", Since: ago(3600), Cost: 10, LatencyMs: 40},
					{Port: "dsl", Class: "held", Since: ago(4), Cost: 5, Loss: 3, LatencyMs: 12.5,
						HeldUntil: now.Add(6 * time.Second), Why: "works again since a short time"},
					{Port: "wan", Class: "no target answers", Since: ago(14), Loss: 38,
						Why: "dns 198.51.100.53: no answer"},
				}},
			{Selector: "uplink", IPv6: true, Own: true, Port: "wan", Since: ago(5), Why: "wan: works", Flows: "drain",
				Ports: []nodeapi.PortScore{}, Shares: []string{"dsl", "wan"}},
			{Selector: "uplink", IPv6: true, Own: true, AllFlows: true, Port: "wan", Since: ago(5), Why: "wan: works",
				Ports: []nodeapi.PortScore{}},
			{Selector: "lab", Routes: []string{"hall", "yard"}, Since: ago(60), Why: "no port", Ports: []nodeapi.PortScore{}},
		}}
	if got, want := Explained(network, now), `ni/`+clitest.NiID+` "shop": ready: Present
  port = uplink: uses lte for 14s: lte: works; wan: no target answers (dns 198.51.100.53: no answer)
    lte  works for 1h0m             cost 10  loss 0 %, 40 ms    -
    dsl  held for 4s                cost 5   loss 3 %, 12.5 ms  works again since a short time, held until `+
		`2026-11-23T18:00:06Z
    wan  no target answers for 14s  cost 0   loss 38 %          dns 198.51.100.53: no answer
  port = uplink, IPv6: uses wan for 5s: wan: works
  share = true: new flows of IPv6 are spread over dsl, wan
  port = uplink, IPv6: uses wan for 5s: wan: works
  ipv6.nat = false: all flows of IPv6 use this port, whatever share and flows are
  routes.hall.port, routes.yard.port = lab: uses no port for 1m0s: no port
  flows = drain: known flows stay on a port that is left while it works
`; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	port := nodeapi.Explanation{Object: "port/wan", Name: "uplink0", Ready: true,
		Summary: "ready: up with 192.0.2.2/24 via 192.0.2.1, used by 1 of 2 networks that may use it",
		Port: &nodeapi.PortDetail{IfName: "uplink0", Drained: true, DrainedUntil: now.Add(time.Hour), DrainedBy: "ro\x1bot",
			ProbeBytesPerDay: 4194304, ProbeBytesLeft: 150000,
			Probes: []nodeapi.ProbeState{
				{Method: "arp", Target: "192.0.2.1", IntervalMs: 1000, State: nodeapi.ProbeAnswers, LatencyMs: 0.3},
				{Method: "dns", Target: "198.51.100.53", IntervalMs: 30000, State: nodeapi.ProbeFails, Failures: 12, Loss: 38,
					LastError: "no answer", FailedAt: ago(1)},
				{Method: "dns", Target: "198.51.100.54", IntervalMs: 200, State: nodeapi.ProbeUnknown},
				{Method: "arp", Target: "192.0.2.9", IntervalMs: 10000, State: nodeapi.ProbeNone},
			},
			Networks: []nodeapi.PortUse{
				{NetworkName: nodeapi.NetworkName{ID: clitest.NiID, Name: "shop"}, Selector: "uplink", Instead: "lte",
					Since: ago(14), Score: nodeapi.PortScore{Class: "no target answers", Since: ago(14), Loss: 38,
						Why: "dns 198.51.100.53: no answer"}, Failed: 2, FailedAt: ago(14)},
				{NetworkName: nodeapi.NetworkName{ID: clitest.AppID}, Selector: "wan", Uses: true, Since: ago(3600),
					Score: nodeapi.PortScore{Class: "works", Since: ago(3600), LatencyMs: 8}},
			}}}
	if got, want := Explained(port, now), `port/wan "uplink0": ready: up with 192.0.2.2/24 via 192.0.2.1, used by 1 of 2 `+
		`networks that may use it
  drained until 2026-11-23T19:00:00Z, by ro`+"\ufffd"+`ot
  probes may send and receive 4194304 bytes a day, now 150000
  probe arp  192.0.2.1      every 1s     answers                          loss 0 %, 0.3 ms  -
  probe dns  198.51.100.53  every 30s    fails, 12 in a row               loss 38 %         last error 1s ago: no answer
  probe dns  198.51.100.54  every 200ms  not asked yet                    -                 -
  probe arp  192.0.2.9      every 10s    the interface has no such probe  -                 -
  network shop (uplink)   uses lte for 14s  no target answers for 14s  loss 38 %       `+
		`dns 198.51.100.53: no answer  failed 2 times, last 14s ago
  network a0000000 (wan)  uses it for 1h0m  works for 1h0m             loss 0 %, 8 ms  -`+
		`                             -
`; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	f := clitest.Filled()
	f.Explains = func(kind, id string) (nodeapi.Explanation, error) {
		return map[string]nodeapi.Explanation{"ni": network, "port": port}[kind], nil
	}
	env := clitest.At(clitest.ServeDaemon(t, f))
	for of, want := range map[string]nodeapi.Explanation{"ni/" + clitest.NiID: network, "port/wan": port} {
		var x nodeapi.Explanation
		got := cli(t, env, "", "explain", of, "-o", "json")
		if err := json.Unmarshal([]byte(got.Out), &x); err != nil {
			t.Errorf("%s as JSON: %v: %s", of, err, got.Out)
		}
		if !reflect.DeepEqual(x.Uplinks, want.Uplinks) || !reflect.DeepEqual(x.Port, want.Port) {
			t.Errorf("%s as JSON: %+v, want %+v", of, x, want)
		}
	}
}
