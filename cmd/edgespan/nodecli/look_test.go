package nodecli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config/events"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
)

// explaining is a daemon with a network whose dnsmasq is missing.
func explaining() *clitest.Daemon {
	f := clitest.Filled()
	since, retry := time.Now().Add(-12*time.Second), time.Now().Add(time.Hour)
	f.Explains = func(kind, id string) (nodeapi.Explanation, error) {
		if kind == "app" && id == clitest.AppID+"/9" {
			return nodeapi.Explanation{}, fmt.Errorf("explain: %w", rest.ErrNotFound)
		}
		if id == clitest.AppID {
			return nodeapi.Explanation{Object: "ni/" + id, Ready: true, Summary: "ready: Present",
				Warning: "route lab is left out: \x1b[2J"}, nil
		}
		return nodeapi.Explanation{Object: kind + "/" + id, Name: "demo", Summary: "not ready: CreatingFailed",
			Causes: []nodeapi.Cause{
				{Object: "ni/" + clitest.NiID, Text: "x", Causes: []nodeapi.Cause{{
					Text: "op failed: add process ni/1/dnsmasq", Op: "add process ni/1/dnsmasq", Command: "dnsmasq -C f",
					Error:    "not found",
					Attempts: 5, Since: &since, Retry: &retry,
				}}},
			}}, nil
	}
	f.DiffOf = func(of string) ([]nodeapi.Difference, error) {
		if of == "ni/"+clitest.AppID {
			return nil, nil
		}
		return []nodeapi.Difference{
			{Owner: "ni/" + clitest.NiID, Change: nodeapi.Missing, Kind: "link", ID: "es1", Want: "bridge", Why: "busy"},
			{Owner: "ni/" + clitest.NiID, Change: nodeapi.Changed, Kind: "chain", ID: "c", Want: "a\nb", Have: "a\nc"},
		}, nil
	}
	f.Happens = []nodeapi.Event{{
		Seq: 1, Time: time.Unix(0, 0), Kind: nodeapi.EventFailed, Object: "ni/" + clitest.NiID, Name: "demo",
		Text: "add link es1 failed",
		Op:   "add link es1", Command: "ip link", Error: "busy",
	}}
	ni := f.Items["ni"][0]
	waiting := ni
	waiting.Status = clitest.Obj{"state": "WaitingForDependencies", "displayName": "demo net", "bridge": "es1",
		"generation": 3, "error": "no usable port"}
	f.Stream = []nodeapi.Observed{
		{Change: nodeapi.Added, Object: &ni},
		{Change: nodeapi.Synchronized},
		{Change: nodeapi.Modified, Object: &waiting},
		{Change: nodeapi.Deleted, Object: &waiting},
	}
	return f
}

// parts fails the test unless each part is in the text.
func parts(t *testing.T, got clitest.Said, code int, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got.Out, w) {
			t.Errorf("%q is not in\n%s", w, got.Out)
		}
	}
	if got.Code != code {
		t.Errorf("exit %d, want %d: %s", got.Code, code, got.Err)
	}
}

func TestExplainShowsTheChainOfCauses(t *testing.T) {
	socket := clitest.ServeDaemon(t, explaining())
	for _, args := range []string{"app/" + clitest.AppID + "/0", "app " + clitest.AppID + "/0"} {
		parts(t, cli(t, clitest.At(socket), "", append([]string{"explain"}, strings.Fields(args)...)...), 0,
			`app/`+clitest.AppID+`/0 "demo": not ready: CreatingFailed`+"\n",
			"  because ni/"+clitest.NiID+": x\n", "    because op failed: add process ni/1/dnsmasq\n",
			"      command  dnsmasq -C f\n", "      error    not found\n", "      tried    5 times, first 12",
			"s ago, again in ")
	}
	var x nodeapi.Explanation
	got := cli(t, clitest.At(socket), "", "explain", "ni/"+clitest.NiID, "-o", "json")
	if err := json.Unmarshal([]byte(got.Out), &x); err != nil || x.Causes[0].Causes[0].Attempts != 5 {
		t.Errorf("%v: %s", err, got.Out)
	}
	parts(t, cli(t, clitest.At(socket), "", "explain", "ni/"+clitest.NiID, "-o", "name"), 0, "ni/"+clitest.NiID+"\nni/"+
		clitest.NiID+"\n")
	if got := cli(t, clitest.At(socket), "", "explain", "ni/"+clitest.AppID); got != (clitest.Said{Code: 0,
		Out: "ni/" + clitest.AppID + ": ready: Present\n  warning: route lab is left out: \ufffd[2J\n", Err: ""}) {
		t.Errorf("a warning: %+v", got)
	}
	parts(t, cli(t, clitest.At(socket), "", "explain", "app/"+clitest.AppID+"/9"), term.ExitNotFound)
	parts(t, cli(t, clitest.At(socket), "", "explain", "host/wan"), term.ExitUsage)
	parts(t, cli(t, clitest.At(socket), "", "explain", "ni"), term.ExitUsage)
}

func TestDiffExitsAsDiffDoes(t *testing.T) {
	socket := clitest.ServeDaemon(t, explaining())
	parts(t, cli(t, clitest.At(socket), "", "diff"), 1, "OWNER", "missing  link   es1", "bridge", "busy",
		"changed  chain  c", " c ", " b ")
	parts(t, cli(t, clitest.At(socket), "", "diff", "-o", "json"), 1, `"differences": [`, `"change": "missing"`)
	parts(t, cli(t, clitest.At(socket), "", "diff", "-o", "name"), 1, "link/es1\nchain/c\n")
	if got := cli(t, clitest.At(socket), "", "diff", "ni/"+
		clitest.AppID); got != (clitest.Said{Code: 0, Out: "", Err: "no differences\n"}) {
		t.Errorf("no difference: %+v", got)
	}
	parts(t, cli(t, clitest.At(socket), "", "diff", "app/"+clitest.AppID), term.ExitUsage)
}

func TestEventsInEveryForm(t *testing.T) {
	f := explaining()
	f.Asks = make(chan nodeapi.EventQuery, 1)
	socket := clitest.ServeDaemon(t, f)
	parts(t, cli(t, clitest.At(socket), "", "events", "ni/"+clitest.NiID, "-n", "7"), 0, "TIME", "failed  ni/"+
		clitest.NiID, "add link es1 failed", "ip link: busy")
	if q := <-f.Asks; q != (nodeapi.EventQuery{Of: "ni/" + clitest.NiID, Last: 7}) {
		t.Errorf("asked %+v", q)
	}
	parts(t, cli(t, clitest.At(socket), "", "events", "--kind", "uplink"), 0, "TIME")
	if q := <-f.Asks; q != (nodeapi.EventQuery{Kind: nodeapi.EventUplink, Last: 100}) {
		t.Errorf("asked %+v", q)
	}
	parts(t, cli(t, clitest.At(socket), "", "events", "--kind", "weather"), term.ExitUsage)
	parts(t, cli(t, clitest.At(socket), "", "events", "-o", "json"), 0, "[\n", `"kind": "failed"`)
	parts(t, cli(t, clitest.At(socket), "", "events", "-o", "wide"), 0, "1970-01-01T00:00:00Z")
	parts(t, cli(t, clitest.At(socket), "", "events", "host"), 0, "TIME")
	parts(t, cli(t, clitest.At(socket), "", "events", "ni"), term.ExitUsage)
	parts(t, cli(t, clitest.At(socket), "", "events", "-n", "-1"), term.ExitUsage)
	parts(t, cli(t, clitest.At(socket), "", "events", "--since", "yesterday"), term.ExitUsage)
	parts(t, cli(t, clitest.At(socket), "", "events", "--object", "ni/x", "ni/x"), term.ExitUsage)
}

func TestEventsWithTheirCauses(t *testing.T) {
	f := explaining()
	f.Asks = make(chan nodeapi.EventQuery, 1)
	e := f.Happens[0]
	e.Seq, e.Count, e.Last, e.Error = 9, 3, time.Unix(90, 0), "busy\x1b[2J"
	e.Cause = events.Cause{Config: 4, Apply: "1.2.3", Began: events.BeganConfig}
	e.Chain = []nodeapi.Event{{Seq: 5, Kind: nodeapi.EventConfig, Object: "config", Text: "generation 4 from apply",
		Cause: events.Cause{Config: 4, Generation: "j:4", By: "uid 0 (root)"}}}
	f.Happens = []nodeapi.Event{e}
	socket := clitest.ServeDaemon(t, f)
	got := cli(t, clitest.At(socket), "", "events", "--object", "ni/"+clitest.NiID, "--since", "1h", "--why")
	parts(t, got, 0, "failed  ni/"+clitest.NiID+" (demo): add link es1 failed (3 times, last ",
		"    event 5: config: generation 4 from apply, as j:4, by uid 0 (root)\n    apply 1.2.3, since its config changed\n")
	if strings.Contains(got.Out, "\x1b") || strings.Contains(got.Out, "event 9") {
		t.Errorf("%q", got.Out)
	}
	q := <-f.Asks
	if ago := time.Since(q.Since); ago < time.Hour || ago > 2*time.Hour || !q.Why || q.Last != 0 || q.Of != "ni/"+clitest.NiID {
		t.Errorf("asked %+v", q)
	}
	parts(t, cli(t, clitest.At(socket), "", "events", "--why", "-o", "json"), 0, `"chain": [`, `"apply": "1.2.3"`,
		`"by": "uid 0 (root)"`)
	<-f.Asks
	parts(t, cli(t, clitest.At(socket), "", "events"), 0, "(3 times, last ")
	<-f.Asks
	parts(t, cli(t, clitest.At(socket), "", "events", "--since", "2026-01-31T10:00:00Z", "-n", "3"), 0)
	if q := <-f.Asks; q.Since.Year() != 2026 || q.Last != 3 {
		t.Errorf("asked %+v", q)
	}
}

func TestFlowsInEveryForm(t *testing.T) {
	f := explaining()
	at := time.Unix(60, 0)
	one := nodeapi.FlowRecord{Time: at, Kind: nodeapi.FlowEnded, Network: "ni/" + clitest.NiID,
		Adapter: "adapter/" + clitest.AppID + "/0", Name: "web", Direction: "egress", Protocol: "tcp",
		Local: "10.1.0.2:4000", Remote: "192.0.2.9:443", NAT: "198.51.100.2:6000", Rule: "out", PacketsOut: 3, BytesOut: 300,
		PacketsIn: 2, BytesIn: 200, Start: at.Add(-1500 * time.Millisecond), End: at}
	denied := one
	denied.Rule, denied.BuiltIn, denied.Denied, denied.Name = "", "implicit-drop", true, ""
	long := one
	long.Kind, long.Start = nodeapi.FlowGoesOn, at.Add(-10*time.Minute)
	f.Logged = []nodeapi.FlowRecord{one, long, {Time: at, Kind: nodeapi.FlowsLost, Lost: 12}, denied}
	socket := clitest.ServeDaemon(t, f)
	flows := func(code int, words string, want ...string) {
		t.Helper()
		parts(t, cli(t, clitest.At(socket), "", append([]string{"flows"}, strings.Fields(words)...)...), code, want...)
	}
	flows(0, "", "END", "web", "egress", "10.1.0.2:4000", "192.0.2.9:443", " out ", "3/300", "2/200", "1.5s", "10m0s, goes on",
		"lost", "12 lines are missing", "denied by implicit-drop")
	flows(0, "-o wide", "1970-01-01T00:01:00Z", "198.51.100.2:6000", "adapter/"+clitest.AppID+"/0")
	flows(0, "-o json", "[\n", `"kind": "lost"`, `"bytesIn": 200`)
	flows(0, "--app "+clitest.AppID, "web")
	flows(0, "ni/"+clitest.NiID, "web")
	flows(0, "adapter "+clitest.AppID+"/0", "web")
	flows(0, "app/"+clitest.AppID+"/0 --denied", "denied by implicit-drop")
	if out := cli(t, clitest.At(socket), "", "flows", "--denied").Out; strings.Contains(out, " out ") {
		t.Errorf("allowed flows among the denied ones: %s", out)
	}
	if out := cli(t, clitest.At(socket), "", "flows", "app/"+clitest.AppID+"/1").Out; strings.Contains(out, "egress") {
		t.Errorf("flows of another adapter: %s", out)
	}
	flows(term.ExitUsage, "port/wan")
	flows(term.ExitUsage, "ni")
	flows(term.ExitUsage, "-n -1")
	if got := cli(t, clitest.At(socket), "", "flows", "-n", "10001"); got.Code != term.ExitUsage ||
		!strings.Contains(got.Err, "1 to 10000, or 0 for all") {
		t.Errorf("%+v", got)
	}
	if got := until(t, socket, 3, "flows", "-w", "-o", "json"); !strings.Contains(got.Out, `"rule":"out"`) {
		t.Errorf("%+v", got)
	}
}

// until runs a command that goes on until it has printed so many lines, and then
// interrupts it.
func until(t *testing.T, socket string, lines int, args ...string) clitest.Said {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out := &counted{stop: cancel, lines: lines}
	var errOut bytes.Buffer
	s := term.Streams{In: strings.NewReader(""), Out: out, Err: &errOut,
		Env: func(k string) string { return clitest.At(socket)[k] }}
	code := clitest.RunStreams(ctx, program, s, args...)
	return clitest.Said{Code: code, Out: out.String(), Err: errOut.String()}
}

type counted struct {
	bytes.Buffer
	stop  func()
	lines int
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Buffer.Write(p)
	if bytes.Count(c.Bytes(), []byte{'\n'}) >= c.lines {
		c.stop()
	}
	return n, err
}

func TestWatchPrintsALineForEachChange(t *testing.T) {
	socket := clitest.ServeDaemon(t, explaining())
	got := until(t, socket, 3, "watch")
	parts(t, got, 0, "TIME", "modified  ni/"+clitest.NiID, "state Present -> WaitingForDependencies", "no usable port",
		"deleted   ni/"+clitest.NiID)
	if strings.Contains(got.Out, "added") {
		t.Errorf("what there was is no change:\n%s", got.Out)
	}
	var changes []string
	for _, line := range strings.Split(strings.TrimSpace(until(t, socket, 4, "watch", "ni", "-o", "json").Out), "\n") {
		var s nodeapi.Observed
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		changes = append(changes, s.Change)
	}
	if got := strings.Join(changes, " "); got != "added synchronized modified deleted" {
		t.Errorf("as JSON: %s", got)
	}
	parts(t, cli(t, clitest.At(socket), "", "watch", "param"), term.ExitUsage)
}

func TestGetGoesOnWithW(t *testing.T) {
	socket := clitest.ServeDaemon(t, explaining())
	got := until(t, socket, 4, "get", "ni", "-w")
	lines := strings.Split(got.Out, "\n")
	if got.Code != 0 || !strings.HasPrefix(lines[0], "CHANGE    NAME") ||
		!strings.HasPrefix(lines[1], "-         demo net") ||
		!strings.HasPrefix(lines[2], "modified  demo net") || !strings.HasPrefix(lines[3], "deleted   demo net") {
		t.Errorf("exit %d, %s\n%s", got.Code, got.Err, got.Out)
	}
	if strings.Index(lines[0], "BRIDGE") != strings.Index(lines[2], "es1") {
		t.Errorf("columns move:\n%s", got.Out)
	}
}

// A stream whose daemon ends is an error, not the end of the news; the daemon does not
// wait for its readers.
func TestAStreamWhoseDaemonGoesIsUnreachable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	socket := clitest.Scratch(t) + "/s"
	ended := make(chan error, 1)
	go func() { ended <- nodeapi.Serve(ctx, socket, nodeapi.Handler(explaining())) }()
	clitest.AwaitSocket(t, socket)
	out := &counted{stop: cancel, lines: 2}
	var errOut bytes.Buffer
	s := term.Streams{Out: out, Err: &errOut, Env: func(k string) string { return clitest.At(socket)[k] }}
	began := time.Now()
	if code := clitest.RunStreams(t.Context(), program, s, "events", "-w"); code != term.ExitUnreachable ||
		!strings.Contains(errOut.String(), "not reachable at "+socket) {
		t.Errorf("exit %d: %s", code, errOut.String())
	}
	if err := <-ended; err != nil || time.Since(began) > time.Second {
		t.Errorf("the server ended after %v: %v", time.Since(began), err)
	}
}

func TestDoctorExitsOneForAProblemOnly(t *testing.T) {
	f := clitest.Filled()
	f.Findings = []nodeapi.Finding{{Check: "commands", Level: nodeapi.Fine, Text: "all there"},
		{Check: "rp-filter", Level: nodeapi.Warning, Text: "strict", Fix: "sysctl -w x=2"}}
	socket := clitest.ServeDaemon(t, f)
	parts(t, cli(t, clitest.At(socket), "", "doctor"), 0, "CHECK      LEVEL    WHAT       FIX\n",
		"rp-filter  warning  strict     sysctl -w x=2\n")
	f.Findings = append(f.Findings, nodeapi.Finding{Check: "daemons", Level: nodeapi.Problem, Text: "two", Fix: "kill 8"})
	parts(t, cli(t, clitest.At(socket), "", "doctor"), 1, "kill 8")
	parts(t, cli(t, clitest.At(socket), "", "doctor", "-o", "json"), 1, `"findings": [`, `"fix": "kill 8"`)
	parts(t, cli(t, clitest.At(socket), "", "doctor", "-o", "name"), 1, "rp-filter\ndaemons\n")
}

func TestDoctorLooksWithoutADaemonToo(t *testing.T) {
	nobody := clitest.Scratch(t) + "/nobody"
	parts(t, cli(t, clitest.At(nobody), "", "doctor"), 1, "daemon not reachable at "+nobody, "edgespan node --config",
		"commands", "ip-forward    ok")
}
