package main

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/config/httpapi/fleetapi"
)

const operationsPage = "../../docs/operations.md"

// pageFleet is the controller of docs/operations.md: real operations, three nodes made up.
func pageFleet(t *testing.T) *clitest.LayersBackend {
	t.Helper()
	b := clitest.NewWorld(t)
	at := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	now, before := fleetapi.Running{Generation: "1:7"}, fleetapi.Running{Generation: "1:6"}
	const why = "it runs 1:6, desired is 1:7; it was undone by the node as unhealthy: good before and bad now: port/wan"
	b.NodeList = []fleetapi.Node{
		{Name: "node-1", State: "InSync", Why: "it runs the desired config, generation 1:7", Online: true, Ready: true,
			Software: "RELEASE_M81", Desired: now, Running: now},
		{Name: "node-2", State: "RolledBack", Why: why, Online: true, Software: "RELEASE_M81", Desired: now, Running: before},
		{Name: "node-3", State: "NeedsAdoption", Why: "a first push would remove 2 networks", Online: true,
			Software: "RELEASE_M81", Desired: now},
	}
	b.Detail = fleetapi.NodeDetail{
		Node: b.NodeList[1], Explain: []string{"RolledBack: " + why,
			"next: nothing, until its config or its versions change, or a retry is asked for"},
		Failures: []fleetapi.Failure{{MD5: "9f86d081", Reason: "unhealthy", Why: "uplink", At: at.Add(-10 * time.Minute)}},
	}
	b.Invited = fleetapi.Invitation{
		Node: "node-3", Expires: at.Add(24 * time.Hour),
		Command: "edgespan join --controller 127.0.0.1:8444 --token 0f1e2d --ca-sha256 6b1f0a --name node-3",
	}
	answered := b.Previews[0].Nodes["pop-1"]
	b.Previews[0].ID = "7f3a"
	b.Previews[0].Nodes = map[string]fleetapi.NodePreview{"node-1": answered,
		"node-2": {State: "offline", Why: "it has had no stream since 12:40"}}
	step := func(n uint64, keys []string, verdict, by, why string) fleetapi.BisectStep {
		return fleetapi.BisectStep{Revision: n, Author: "alice", Time: at.Add(time.Duration(n-1) * time.Minute), Keys: keys,
			Verdict: verdict, By: by, Why: why}
	}
	b.Searches = []fleetapi.Bisect{{
		Node: "node-1", Nodes: []string{"node-1", "node-2"}, Good: 1, Bad: 4, State: "found", Candidates: 2, Pushes: 2,
		MaxPushes: 3, First: 2, LastGood: 1, Canary: "its desired config", Began: at, Ended: &at,
		Steps: []fleetapi.BisectStep{step(1, nil, "good", "push", "nothing is bad"),
			step(4, []string{"sysParams.managedConfig"}, "bad", "report", "good before and bad now: port/wan"),
			step(2, []string{"sysParams.managedConfig"}, "bad", "push", "good before and bad now: port/wan")},
	}}
	b.RolloutList = []fleetapi.Rollout{{
		Revision: 2, State: "running", Nodes: 3, Acked: 1, Failed: map[string]string{"node-2": "unhealthy: uplink"},
		Waiting: map[string]string{"node-3": "NeedsAdoption"},
	}}
	return b
}

// TestEveryExampleOfTheOperationsPage runs the console blocks of docs/operations.md from the
// first to the last in a folder with the real files; stdout comes before stderr.
func TestEveryExampleOfTheOperationsPage(t *testing.T) {
	text, err := os.ReadFile(operationsPage)
	if err != nil {
		t.Fatal(err)
	}
	env := clitest.ServeFleet(t, pageFleet(t))
	maps.Copy(env, clitest.At(clitest.ServeDaemon(t, clitest.FarSideDead())))
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(clitest.Terragraph(t))); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	commands := map[string]bool{}
	for _, e := range clitest.ConsoleExamples(string(text)) {
		words := clitest.ShellWords(e.Command)
		if words[0] != "edgespan" {
			t.Errorf("%s: edgespan is allowed", e.Command)
			continue
		}
		commands[strings.Join(words[1:min(3, len(words))], " ")] = true
		got := cli(t, env, "", words[1:]...)
		if !clitest.MatchElided(got.Out+got.Err, e.Output) {
			t.Errorf("%s\nexit %d and\n%s%swant\n%s", e.Command, got.Code, got.Out, got.Err, e.Output)
		}
	}
	for _, c := range []string{"context add", "optimize channel", "nodes invite", "network modify", "network actions", "bisect --nodes",
		"node modify", "history revert", "history rollback", "nodes explain", "nodes describe", "explain port/wan", "port drain", "port undrain"} {
		if !commands[c] {
			t.Errorf("%s has no example of %s, but of %v", operationsPage, c, commands)
		}
	}
}
