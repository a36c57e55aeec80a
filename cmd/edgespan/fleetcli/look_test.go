package fleetcli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
)

// TestHowAnswersLook compares what commands print with testdata/fleet.golden; EDGESPAN_GOLDEN=1
// writes it anew.
func TestHowAnswersLook(t *testing.T) {
	var b strings.Builder
	env := clitest.ServeFleet(t, clitest.SmallFleet())
	for _, line := range []string{
		"network get", "network get -o table", "network get -o yaml", "network get -o name", "network set -f -",
		"network set -f - --dry-run",
		"network set -f - -o wide", "network set -f - -o name", "network set -f - -o json",
		"network actions -f -", "nodes list", "nodes list -o wide", "nodes list -o name", "nodes describe pop-1",
		"nodes status", "nodes status pop-1",
		"nodes explain pop-1 sysParams", "nodes explain pop-1 sysParams -o json", "nodes retry dn-2", "nodes invite dn-3",
		"history", "history -o wide", "history show 13", "history diff 12 13", "history diff 12 13 -o json",
		"rollout list", "rollout show 13", "rollout explain 13", "operators list", "operators add bob --role viewer",
		"operators remove bob",
		"peers list", "peers list -o wide", "peers list -o name", "peers get edge-1", "peers get edge-1 -o json",
		"peers describe edge-1", "peers describe other", "peers status",
		"peers status edge-1", "peers status edge-1 -o wide", "peers status edge-1 -o name", "peers explain edge-1",
		"peers explain edge-1 interface/dut",
		"peers explain edge-1 interface/dut -o json", "peers explain edge-2", "clusters list", "clusters list -o wide",
		"clusters get lab", "clusters describe lab", "clusters status",
		"clusters status lab", "clusters status -o yaml", "clusters explain lab", "clusters deploy lab",
		"clusters undeploy lab --dry-run", "peers delete edge-1",
	} {
		got := cli(t, env, "{}", strings.Fields(line)...)
		b.WriteString("$ edgespan " + line + "\n")
		for _, part := range []struct{ name, text string }{{"out", got.Out}, {"err", got.Err}} {
			for l := range strings.Lines(part.text) {
				b.WriteString(part.name + "| " + l)
			}
		}
		if got.Code != term.ExitOK {
			t.Errorf("%s: exit %d: %s", line, got.Code, got.Err)
		}
	}
	name := filepath.Join("testdata", "fleet.golden")
	if os.Getenv("EDGESPAN_GOLDEN") != "" {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s differs; now it is\n%s", name, b.String())
	}
}

func TestAWriteThatChangesManyNodesNamesAFew(t *testing.T) {
	f := clitest.SmallFleet()
	f.Written.Effects[0].Nodes = strings.Fields("a b c d e f g")
	env := clitest.ServeFleet(t, f)
	got := cli(t, env, "{}", "network", "set", "-f", "-")
	if !strings.Contains(got.Out, "7 nodes: a, b, c, d, e and 2 more\n") ||
		!strings.Contains(got.Err, "revision 13: 7 nodes change in 1 value, actions RESTART_MINION") {
		t.Errorf("%+v", got)
	}
	if got = cli(t, env, "{}", "network", "set", "-f", "-", "-o", "wide"); !strings.Contains(got.Out,
		"7 nodes: a, b, c, d, e, f, g\n") {
		t.Errorf("%+v", got)
	}
	f.Written = fleetapi.Written{Revision: 12}
	if got = cli(t, env, "{}", "network", "set", "-f", "-"); got.Out != "" ||
		got.Err != "no change: already at revision 12\n" {
		t.Errorf("%+v", got)
	}
	f.Written = fleetapi.Written{Revision: 13, Changed: true}
	if got = cli(t, env, "{}", "network", "set", "-f", "-"); got.Err != "revision 13: no node changes\n" {
		t.Errorf("%+v", got)
	}
}

// hostile would clear the screen, begin a line of its own, and turn the reading direction.
const hostile = "x\x1b[2J\r\nrm -rf /\u2028\u009b31m\x00"

func TestHostileWordsOfTheControllerArePrintedHarmlessly(t *testing.T) {
	f := clitest.SmallFleet()
	at := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	word := fleetapi.Action{Name: hostile, Keys: []string{hostile}}
	n := fleetapi.Node{
		Name: hostile, ID: hostile, State: hostile, Why: hostile, Software: hostile, Firmware: hostile, Board: hostile,
		Desired: fleetapi.Running{MD5: hostile, Generation: hostile},
		Running: fleetapi.Running{MD5: hostile, Generation: hostile},
	}
	f.NodeList = []fleetapi.Node{n}
	f.Detail = fleetapi.NodeDetail{
		Node: n, Explain: []string{hostile}, Source: hostile, Pending: hostile, Held: hostile, Replica: hostile,
		Health: []fleetapi.Item{{Name: hostile, Detail: hostile}},
		Parameters: []fleetapi.Parameter{{ID: hostile, Kind: hostile, Target: hostile, State: hostile, Review: hostile,
			Reason: hostile}},
		Actions:  []fleetapi.Done{{Name: hostile, State: hostile, Detail: hostile}},
		Failures: []fleetapi.Failure{{MD5: hostile, Reason: hostile, Why: hostile, At: at}},
	}
	f.Doc.Object = config.Object{hostile: config.Object{hostile: hostile}}
	f.Written = fleetapi.Written{
		Changed: true, Warnings: []string{hostile}, Unknown: []string{hostile}, Actions: []fleetapi.Action{word},
		Effects: []fleetapi.Effect{{Nodes: []string{hostile},
			Values:  []fleetapi.Value{{Path: hostile, New: hostile, HasNew: true, Origin: hostile}},
			Actions: []fleetapi.Action{word}}},
	}
	f.Previews = []fleetapi.Preview{{ID: hostile, Until: at, Complete: true,
		Nodes: map[string]fleetapi.NodePreview{hostile: {State: "answered", Why: hostile, Actions: []fleetapi.Action{word}}}}}
	f.Explains = []history.ValueHistory{{
		ValueOrigin: layers.ValueOrigin{Path: []string{hostile}, Value: hostile, Origin: layers.Network},
		By:          &history.RevisionRecord{Author: hostile, Message: hostile},
		Shadowed: []history.ShadowedBy{{ShadowedValue: layers.ShadowedValue{Layer: layers.Base, Path: []string{hostile},
			Value: hostile}}},
	}}
	f.Editions = []fleetapi.Edition{{Number: 13, Author: hostile, Message: hostile, Layers: []string{hostile}}}
	f.Diffs[0].Values = []history.ValueDiff{{Path: []string{hostile}, Old: hostile, HadOld: true}}
	f.RolloutList = []fleetapi.Rollout{{Revision: 13, State: hostile, Author: hostile, Message: hostile,
		Failed: map[string]string{hostile: hostile}, Waiting: map[string]string{hostile: hostile}}}
	f.RolloutNext, f.Decisions = hostile, []fleetapi.Verdict{{At: at, By: hostile, What: hostile, Why: hostile}}
	f.Tokens = []fleetapi.OperatorToken{{Name: hostile, Role: hostile}}
	f.Invited = fleetapi.Invitation{Node: hostile, Token: hostile, Command: hostile}
	env := clitest.ServeFleet(t, f)
	for _, line := range []string{
		"network get", "network set -f -", "network actions -f -", "nodes list", "nodes status", "nodes explain pop-1 x",
		"nodes invite x",
		"history", "history show 13", "history diff 1 2", "rollout list", "rollout show 13", "rollout explain 13",
		"operators list", "topology get",
	} {
		for _, output := range []string{"", "table", "wide", "name", "json", "yaml"} {
			args := strings.Fields(line)
			if output != "" {
				args = append(args, "-o", output)
			}
			harmless(t, env, args)
		}
	}
	for _, args := range [][]string{{"nodes", "describe", hostile}, {"nodes", "status", hostile},
		{"nodes", "describe", hostile, "-o", "name"}, {"nodes", "describe", "x" + hostile}} {
		harmless(t, env, args)
	}
	f.RolloutList[0].Ended = &at
	harmless(t, env, []string{"rollout", "watch", "13"})
	f.Err = errors.New(hostile)
	harmless(t, env, []string{"nodes", "retry", hostile})
	harmless(t, env, []string{"network", "set", "-f", "-"})
}

// harmless runs a command and looks for what moves a terminal's cursor, or begins a line.
func harmless(t *testing.T, env map[string]string, args []string) {
	t.Helper()
	got := cli(t, env, "{}", args...)
	for _, text := range []string{got.Out, got.Err} {
		bad := strings.ContainsFunc(text,
			func(r rune) bool { return r != '\n' && r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\u2028' })
		if bad || !utf8.ValidString(text) || strings.HasPrefix(text, "rm") || strings.Contains(text, "\nrm") {
			t.Errorf("%q: %q", args, text)
		}
	}
	if got.Out == "" && got.Err == "" {
		t.Errorf("%q says nothing", args)
	}
}

// A watch of a rollout that goes on ends when --wait is over, and says why.
func TestARolloutIsWatchedForAWhile(t *testing.T) {
	env := clitest.ServeFleet(t, clitest.SmallFleet())
	begun := time.Now()
	got := cli(t, env, "", "rollout", "watch", "13", "--wait", "20ms")
	if got.Code != term.ExitPartial || !strings.Contains(got.Err, "has not ended after 20ms") {
		t.Errorf("%+v", got)
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %s", took)
	}
}

func TestARolloutIsWatchedUntilItEnds(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	at := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
	f.RolloutList[0].Ended = &at
	got := cli(t, env, "", "rollout", "watch", "13")
	want := `2026-11-21T13:00:00Z  revision 13 begins: by alice
2026-11-21T13:00:01Z  batch 1 goes out to pop-1: it is the first
2026-11-21T13:01:00Z  halted: 1 nodes failed, dn-2 the last of them: unhealthy: 0 may
revision 13, running: 1 of 3 nodes acked, 1 failed, 1 waiting
`
	if got.Code != term.ExitPartial || got.Out != want || !strings.Contains(got.Err, "1 node failed") ||
		!strings.Contains(got.Err, "1 node not reached") {
		t.Errorf("%+v", got)
	}
	f.RolloutList[0].Failed, f.RolloutList[0].Waiting = nil, nil
	if got = cli(t, env, "", "rollout", "watch", "13"); got.Code != term.ExitOK {
		t.Errorf("%+v", got)
	}
}
