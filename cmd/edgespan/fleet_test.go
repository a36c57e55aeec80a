package main

import (
	"strconv"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/fleetapi"
)

func TestLiveNamesAreCompleted(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	for line, want := range map[string]string{
		"node get ":           "dn-2 pop-1",
		"nodes retry dn-2 ":   "pop-1",
		"nodes describe ":     "dn-2 pop-1",
		"nodes describe x ":   "",
		"node set ":           "dn-2 pop-1",
		"topology edit ":      "node link site",
		"topology edit node ": "dn-2 pop-1",
		"history rollback 3 ": "network topology metadata e2e/controller e2e/aggregator node/dn-2 auto/dn-2 node/pop-1 " +
			"auto/pop-1",
		"optimize ":             "polarity golay channel control-superframe",
		"peers explain ":        "edge-1 edge-2 other",
		"peers explain edge-2 ": "bridge/" + clitest.Network(clitest.LabID, clitest.Edge2ID),
		"peers status edge-1 ":  "",
		"clusters deploy ":      "lab",
		"wait peer/":            "peer/edge-1 peer/edge-2 peer/other",
		"wait cluster ":         "lab",
		"wait node/":            "node/dn-2 node/pop-1",
	} {
		got := cli(t, env, "", append([]string{"__complete"}, strings.Split(line, " ")...)...)
		words := strings.Fields(got.Out)
		if len(words) == 0 || strings.Join(words[:len(words)-1], " ") != want {
			t.Errorf("%q: %q", line, got.Out)
		}
	}
	env["EDGESPAN_CONTROLLER"] = "http://127.0.0.1:1"
	if got := cli(t, env, "", "__complete", "node", "get", ""); got.Out != ":4\n" {
		t.Errorf("without a controller: %q", got.Out)
	}
}

// TestPeerWritesAskWhatTheyName holds each write of peers and clusters to what it asks.
func TestPeerWritesAskWhatTheyName(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	for line, asked := range map[string]string{
		"clusters deploy lab -m now":      `write ops.Deploy{Clusters:[lab]} message "now" dry false if map[]`,
		"clusters undeploy lab --dry-run": `write ops.Undeploy{Clusters:[lab]} message "" dry true if map[]`,
		"peers delete edge-1 --if-match 4": `write ops.Undescribe{Kind:PeerDescriptor Names:[edge-1]} message "" dry ` +
			`false if map[peer/edge-1:4]`,
		"clusters delete lab --if-match 5": `write ops.Undescribe{Kind:ClusterDescriptor Names:[lab]} message "" dry ` +
			`false if map[cluster/lab:5]`,
		"apply -f - -m why": `write ops.Describe{Documents:[map[kind:PeerDescriptor ` +
			`metadata:map[name:a]] map[kind:ClusterDescriptor metadata:map[name:b]]]} message "why" dry false if map[]`,
		"apply -f - --dry-run -o json": `write ops.Describe{Documents:[map[kind:PeerDescriptor ` +
			`metadata:map[name:a]] map[kind:ClusterDescriptor metadata:map[name:b]]]} message "" dry true if map[]`,
		"clusters deploy lab --if-match 12": "",
		"peers status -w":                   "",
		"clusters status -w":                "",
	} {
		got := cli(t, env, "kind: PeerDescriptor\nmetadata: {name: a}\n---\nkind: ClusterDescriptor\nmetadata: {name: b}\n",
			strings.Fields(line)...)
		code := term.ExitOK
		if asked == "" {
			code = term.ExitUsage
		}
		if heard := strings.Join(f.TakeRequests(), "; "); got.Code != code || heard != asked {
			t.Errorf("edgespan %s: exit %d, asks\n %s\nwant\n %s\n%s", line, got.Code, heard, asked, got.Err)
		}
	}
}

func TestExitCodesOfPeers(t *testing.T) {
	t.Parallel() // it mostly waits
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	// of the same first octets, for people
	f.PeerList[0].Parameters = append(f.PeerList[0].Parameters,
		fleetapi.PeerParameter{ID: "bridge/" + clitest.Network(clitest.LabID, clitest.Edge1ID)[:8] +
			"-0000-4000-8000-000000000000"})
	for line, want := range map[string]string{
		"peers describe nobody":  "10 nobody",
		"peers status nobody":    "10 nobody",
		"peers status nobody -w": "10 nobody",
		"peers explain nobody":   "10 nobody",
		"peers explain edge-1 tunnel/x": "10 parameter tunnel/x: not found on edge-1: " +
			"'edgespan peers status edge-1' lists",
		"peers explain edge-1 executor/collector":                                "0 ",
		"peers explain edge-1 tunnel/80ddf269/6f1c9f0e":                          "0 ",
		"peers explain edge-1 bridge/80ddf269":                                   "2 ambiguous value",
		"peers get other":                                                        "10 edgespan apply",
		"clusters describe nothing":                                              "10 nothing",
		"clusters status nothing -w":                                             "10 nothing",
		"wait peer/nobody --timeout 1h":                                          "10 nobody",
		"wait cluster/nothing --timeout 1h":                                      "10 nothing",
		"wait peer/edge-1 --for fun":                                             "2 must be ready or online for peer/",
		"wait cluster/lab --for absent":                                          "2 must be ready or undeployed for cluster/",
		"wait peer/edge-1 --timeout 1s":                                          "3 1 of 5 parameters",
		"wait peer/edge-1 --for online --timeout 1h":                             "0 ",
		"wait peer/other --for online --timeout 1s":                              "3 it is offline",
		"wait peer/edge-2 --timeout 1h":                                          "0 ",
		"wait node/pop-1 --timeout 1h":                                           "0 ",
		"wait node/pop-1 --for online --timeout 1h":                              "0 ",
		"wait node/nobody --timeout 1h":                                          "10 nobody",
		"wait node/pop-1 --for undeployed":                                       "2 must be ready or online for node/",
		"wait cluster/lab --timeout 1s":                                          "3 1 of 2 members are not ready",
		"wait cluster/lab --for undeployed --timeout 1s":                         "3 not undeployed after 1s",
		"wait ni/10000000-0000-4000-8000-000000000001 --controller http://[::1]": "2 node/NAME, peer/NAME or cluster/NAME",
		"wait peer/edge-2 --controller http://127.0.0.1:1 --timeout 1s":          "8 not ready after 1s",
		"peers list -o xml":                                                      "2 xml",
	} {
		got := cli(t, env, "", strings.Fields(line)...)
		code, text, _ := strings.Cut(want, " ")
		if strconv.Itoa(got.Code) != code || !strings.Contains(got.Err, text) {
			t.Errorf("edgespan %s: exit %d, want %s: %s", line, got.Code, want, got.Err)
		}
	}
	f.Detail.Ready, f.Detail.Why = false, "it runs 1:6, desired is 1:7"
	for condition, want := range map[string]int{"online": term.ExitOK, "ready": term.ExitTimeout} {
		got := cli(t, env, "", "wait", "node/pop-1", "--for", condition, "--timeout", "1s")
		if got.Code != want || want != term.ExitOK && !strings.Contains(got.Err, "not ready after 1s: it runs 1:6, desired") {
			t.Errorf("wait for %s of a node that runs another config: %+v", condition, got)
		}
	}
	f.Detail.Online, f.Detail.Why = false, "it has had no stream since 13:00"
	if got := cli(t, env, "", "wait", "node/pop-1", "--for", "online", "--timeout", "1s"); got.Code != term.ExitTimeout ||
		!strings.Contains(got.Err, "not online after 1s: it has had no stream") {
		t.Errorf("wait for a node that is offline: %+v", got)
	}
	f.Role = "wizard"
	if got := cli(t, env, "", "wait", "peer/edge-1", "--timeout", "1h"); got.Code != term.ExitPermission {
		t.Errorf("without permission: %+v", got)
	}
}

// TestWaitEndsWhenTheConditionComes waits over a change, without asking again and again.
func TestWaitEndsWhenTheConditionComes(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	done := make(chan clitest.Said)
	go func() { done <- cli(t, env, "", "wait", "peer/edge-1", "--timeout", "1h") }()
	f.Changes <- func(f *clitest.FleetBackend) { f.PeerList[0].Why = "something else" }
	f.Changes <- func(f *clitest.FleetBackend) { f.PeerList[0].Ready = true }
	if got := <-done; got.Code != term.ExitOK || got.Out+got.Err != "" {
		t.Errorf("%+v", got)
	}
	go func() {
		done <- cli(t, env, "", "wait", "cluster/lab", "--for", "undeployed", "--timeout", "1h")
	}()
	f.Changes <- func(f *clitest.FleetBackend) { f.ClusterList[0].State = "undeploying" }
	f.Changes <- func(f *clitest.FleetBackend) { f.ClusterList[0].State = "undeployed" }
	if got := <-done; got.Code != term.ExitOK {
		t.Errorf("%+v", got)
	}
}
