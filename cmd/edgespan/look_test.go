package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/term"
	"edgespan/config/httpapi"
)

// explaining is a daemon with a network whose dnsmasq is missing.
func explaining() *fake {
	f := filled()
	since, retry := time.Now().Add(-12*time.Second), time.Now().Add(time.Hour)
	f.explain = func(kind, id string) (httpapi.Explanation, error) {
		if kind == "app" && id == appID+"/9" {
			return httpapi.Explanation{}, fmt.Errorf("explain: %w", httpapi.ErrNotFound)
		}
		if id == appID {
			return httpapi.Explanation{Object: "ni/" + id, Ready: true, Summary: "ready: Present", Warning: "route lab is left out: \x1b[2J"}, nil
		}
		return httpapi.Explanation{Object: kind + "/" + id, Name: "demo", Summary: "not ready: CreatingFailed", Causes: []httpapi.Cause{
			{Object: "ni/" + niID, Text: "x", Causes: []httpapi.Cause{{
				Text: "op failed: add process ni/1/dnsmasq", Op: "add process ni/1/dnsmasq", Command: "dnsmasq -C f", Error: "not found",
				Attempts: 5, Since: &since, Retry: &retry,
			}}},
		}}, nil
	}
	f.diff = func(of string) ([]httpapi.Difference, error) {
		if of == "ni/"+appID {
			return nil, nil
		}
		return []httpapi.Difference{
			{Owner: "ni/" + niID, Change: httpapi.Missing, Kind: "link", ID: "es1", Want: "bridge", Why: "busy"},
			{Owner: "ni/" + niID, Change: httpapi.Changed, Kind: "chain", ID: "c", Want: "a\nb", Have: "a\nc"},
		}, nil
	}
	f.happens = []httpapi.Event{{
		Seq: 1, Time: time.Unix(0, 0), Kind: httpapi.EventFailed, Object: "ni/" + niID, Name: "demo", Text: "add link es1 failed",
		Op: "add link es1", Command: "ip link", Error: "busy",
	}}
	ni := f.items["ni"][0]
	waiting := ni
	waiting.Status = obj{"state": "WaitingForDependencies", "displayName": "demo net", "bridge": "es1", "generation": 3, "error": "no usable port"}
	f.stream = []httpapi.Seen{
		{Change: httpapi.Added, Object: &ni},
		{Change: httpapi.Synchronized},
		{Change: httpapi.Modified, Object: &waiting},
		{Change: httpapi.Deleted, Object: &waiting},
	}
	return f
}

// parts fails the test unless each part is in the text.
func parts(t *testing.T, got said, code int, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got.out, w) {
			t.Errorf("%q is not in\n%s", w, got.out)
		}
	}
	if got.code != code {
		t.Errorf("exit %d, want %d: %s", got.code, code, got.err)
	}
}

func TestExplainShowsTheChainOfCauses(t *testing.T) {
	socket := serve(t, explaining())
	for _, args := range []string{"app/" + appID + "/0", "app " + appID + "/0"} {
		parts(t, cli(t, at(socket), "", append([]string{"explain"}, strings.Fields(args)...)...), 0,
			`app/`+appID+`/0 "demo": not ready: CreatingFailed`+"\n",
			"  because ni/"+niID+": x\n", "    because op failed: add process ni/1/dnsmasq\n",
			"      command  dnsmasq -C f\n", "      error    not found\n", "      tried    5 times, first 12", "s ago, again in ")
	}
	var x httpapi.Explanation
	got := cli(t, at(socket), "", "explain", "ni/"+niID, "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &x); err != nil || x.Causes[0].Causes[0].Attempts != 5 {
		t.Errorf("%v: %s", err, got.out)
	}
	parts(t, cli(t, at(socket), "", "explain", "ni/"+niID, "-o", "name"), 0, "ni/"+niID+"\nni/"+niID+"\n")
	if got := cli(t, at(socket), "", "explain", "ni/"+appID); got != (said{0, "ni/" + appID + ": ready: Present\n  warning: route lab is left out: \ufffd[2J\n", ""}) {
		t.Errorf("a warning: %+v", got)
	}
	parts(t, cli(t, at(socket), "", "explain", "app/"+appID+"/9"), term.ExitNotFound)
	parts(t, cli(t, at(socket), "", "explain", "port/wan"), term.ExitUsage)
	parts(t, cli(t, at(socket), "", "explain", "ni"), term.ExitUsage)
}

func TestDiffExitsAsDiffDoes(t *testing.T) {
	socket := serve(t, explaining())
	parts(t, cli(t, at(socket), "", "diff"), 1, "OWNER", "missing  link   es1", "bridge", "busy", "changed  chain  c", " c ", " b ")
	parts(t, cli(t, at(socket), "", "diff", "-o", "json"), 1, `"differences": [`, `"change": "missing"`)
	parts(t, cli(t, at(socket), "", "diff", "-o", "name"), 1, "link/es1\nchain/c\n")
	if got := cli(t, at(socket), "", "diff", "ni/"+appID); got != (said{0, "", "nothing differs\n"}) {
		t.Errorf("no difference: %+v", got)
	}
	parts(t, cli(t, at(socket), "", "diff", "app/"+appID), term.ExitUsage)
}

func TestEventsInEveryForm(t *testing.T) {
	f := explaining()
	f.asks = make(chan httpapi.EventQuery, 1)
	socket := serve(t, f)
	parts(t, cli(t, at(socket), "", "events", "ni/"+niID, "-n", "7"), 0, "TIME", "failed  ni/"+niID, "add link es1 failed", "ip link: busy")
	if q := <-f.asks; q != (httpapi.EventQuery{Of: "ni/" + niID, Last: 7}) {
		t.Errorf("asked %+v", q)
	}
	parts(t, cli(t, at(socket), "", "events", "-o", "json"), 0, "[\n", `"kind": "failed"`)
	parts(t, cli(t, at(socket), "", "events", "-o", "wide"), 0, "1970-01-01T00:00:00Z")
	parts(t, cli(t, at(socket), "", "events", "host"), 0, "TIME")
	parts(t, cli(t, at(socket), "", "events", "ni"), term.ExitUsage)
	parts(t, cli(t, at(socket), "", "events", "-n", "-1"), term.ExitUsage)
}

// until runs a command that goes on until it has printed so many lines, and then
// interrupts it.
func until(t *testing.T, socket string, lines int, args ...string) said {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out := &counted{stop: cancel, lines: lines}
	var errOut bytes.Buffer
	s := term.Streams{In: strings.NewReader(""), Out: out, Err: &errOut, Env: func(k string) string { return at(socket)[k] }}
	code := runStreams(ctx, program, s, args...)
	return said{code, out.String(), errOut.String()}
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
	socket := serve(t, explaining())
	got := until(t, socket, 3, "watch")
	parts(t, got, 0, "TIME", "modified  ni/"+niID, "state Present -> WaitingForDependencies", "no usable port", "deleted   ni/"+niID)
	if strings.Contains(got.out, "added") {
		t.Errorf("what there was is no change:\n%s", got.out)
	}
	var changes []string
	for _, line := range strings.Split(strings.TrimSpace(until(t, socket, 4, "watch", "ni", "-o", "json").out), "\n") {
		var s httpapi.Seen
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		changes = append(changes, s.Change)
	}
	if got := strings.Join(changes, " "); got != "added synchronized modified deleted" {
		t.Errorf("as JSON: %s", got)
	}
	parts(t, cli(t, at(socket), "", "watch", "param"), term.ExitUsage)
}

func TestGetGoesOnWithW(t *testing.T) {
	socket := serve(t, explaining())
	got := until(t, socket, 4, "get", "ni", "-w")
	lines := strings.Split(got.out, "\n")
	if got.code != 0 || !strings.HasPrefix(lines[0], "CHANGE    NAME") || !strings.HasPrefix(lines[1], "-         demo net") ||
		!strings.HasPrefix(lines[2], "modified  demo net") || !strings.HasPrefix(lines[3], "deleted   demo net") {
		t.Errorf("exit %d, %s\n%s", got.code, got.err, got.out)
	}
	if strings.Index(lines[0], "BRIDGE") != strings.Index(lines[2], "es1") {
		t.Errorf("columns move:\n%s", got.out)
	}
}

// A stream whose daemon ends is an error, not the end of the news; the daemon does not
// wait for its readers.
func TestAStreamWhoseDaemonGoesIsUnreachable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	socket := scratch(t) + "/s"
	ended := make(chan error, 1)
	go func() { ended <- httpapi.Serve(ctx, socket, httpapi.Handler(explaining())) }()
	awaitSocket(t, socket)
	out := &counted{stop: cancel, lines: 2}
	var errOut bytes.Buffer
	s := term.Streams{Out: out, Err: &errOut, Env: func(k string) string { return at(socket)[k] }}
	began := time.Now()
	if code := runStreams(t.Context(), program, s, "events", "-w"); code != term.ExitUnreachable || !strings.Contains(errOut.String(), "not reachable at "+socket) {
		t.Errorf("exit %d: %s", code, errOut.String())
	}
	if err := <-ended; err != nil || time.Since(began) > time.Second {
		t.Errorf("the server ended after %v: %v", time.Since(began), err)
	}
}

func TestDoctorExitsOneForAProblemOnly(t *testing.T) {
	f := filled()
	f.doctor = []httpapi.Finding{{Check: "commands", Level: httpapi.Fine, Text: "all there"}, {Check: "rp-filter", Level: httpapi.Warning, Text: "strict", Fix: "sysctl -w x=2"}}
	socket := serve(t, f)
	parts(t, cli(t, at(socket), "", "doctor"), 0, "CHECK      LEVEL    WHAT       FIX\n", "rp-filter  warning  strict     sysctl -w x=2\n")
	f.doctor = append(f.doctor, httpapi.Finding{Check: "daemons", Level: httpapi.Problem, Text: "two", Fix: "kill 8"})
	parts(t, cli(t, at(socket), "", "doctor"), 1, "kill 8")
	parts(t, cli(t, at(socket), "", "doctor", "-o", "json"), 1, `"findings": [`, `"fix": "kill 8"`)
	parts(t, cli(t, at(socket), "", "doctor", "-o", "name"), 1, "rp-filter\ndaemons\n")
}

func TestDoctorLooksWithoutADaemonToo(t *testing.T) {
	nobody := scratch(t) + "/nobody"
	parts(t, cli(t, at(nobody), "", "doctor"), 1, "daemon not reachable at "+nobody, "edgespan node --config", "commands", "ip-forward  ok")
}
