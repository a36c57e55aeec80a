package fleetcli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config/fleet/history"
	"edgespan/config/httpapi/fleetapi"
)

// searchOf is a search between 11 and 15 that has found 13.
func searchOf(change func(*fleetapi.Bisect)) fleetapi.Bisect {
	at := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	b := fleetapi.Bisect{Node: "pop-1", Nodes: []string{"pop-1", "dn-2"}, Good: 11, Bad: 15, Health: "healthy", By: "alice",
		Began: at, Ended: &at, State: "found", Candidates: 4, Pushes: 3, MaxPushes: 4, First: 13, LastGood: 12,
		Canary: "its desired config", Suspects: []uint64{}, Steps: []fleetapi.BisectStep{
			{At: at, Revision: 11, Author: "alice", Time: at, Verdict: "good", By: "push", Why: "nothing is bad"},
			{At: at, Revision: 15, Author: "bob", Time: at, Keys: []string{"a.b"}, Verdict: "bad", By: "report",
				Why: "good before and bad now: port/wan"},
			{At: at, Revision: 13, Author: "bob", Time: at, Keys: []string{"a.b", "a.c"}, More: 2, Others: []string{"dn-2"},
				Verdict: "bad", By: "push", Why: "good before and bad now: port/wan"},
		}}
	if change != nil {
		change(&b)
	}
	return b
}

func TestABisectIsFollowedToItsEnd(t *testing.T) {
	f := clitest.SmallFleet()
	f.Searches = []fleetapi.Bisect{
		searchOf(func(b *fleetapi.Bisect) { b.Ended, b.State, b.First, b.Steps = nil, "testing", 0, b.Steps[:1] }), searchOf(nil)}
	f.Diffs = []history.LayerDiff{{Layer: history.Layer{Kind: history.Network}, Values: []history.ValueDiff{
		{Path: []string{"a", "b"}, Old: "1", New: "2", HadOld: true, HasNew: true}}},
		{Layer: history.Layer{Kind: history.Node, Name: "dn-2"}}}
	env := clitest.ServeFleet(t, f)
	f.TakeRequests()
	got := cli(t, env, "", "bisect", "--nodes", "pop-1,dn-2", "--good", "11", "--bad", "15")
	want := "revision 11 by alice at 2026-11-21T13:00:00Z (the start): good, by push: nothing is bad\n" +
		"revision 15 by bob at 2026-11-21T13:00:00Z (a.b): bad, by report: good before and bad now: port/wan\n" +
		"revision 13 by bob at 2026-11-21T13:00:00Z (a.b, a.c and 2 more; changes dn-2 too): bad, by push: good before " +
		"and bad now: port/wan\n" +
		"the first bad revision is 13; 3 pushes; pop-1 has its desired config\n" +
		"LAYER    KEY  BEFORE  AFTER\nnetwork  a.b  \"1\"     \"2\"\n"
	if got.Code != term.ExitOK || got.Out != want {
		t.Errorf("exit %d, %s\n%s\nwant\n%s", got.Code, got.Err, got.Out, want)
	}
	asked := f.TakeRequests()
	if asked[0] != "bisect {Nodes:[pop-1 dn-2] Canary: Good:11 Bad:15 Health:healthy TimeoutS:120 SettleS:10}" ||
		asked[len(asked)-1] != "diff 12 13" {
		t.Errorf("it asked %q", asked)
	}
}

func TestHowABisectEnds(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	for name, c := range map[string]struct {
		change func(*fleetapi.Bisect)
		line   string
		code   int
		want   string
	}{
		"without --bad": {nil, "bisect --nodes pop-1 --good 11", term.ExitUsage, "--bad: required"},
		"in JSON":       {nil, "bisect watch pop-1 -o json", term.ExitOK, `"first": 13`},
		"by name":       {nil, "bisect watch pop-1 -o name", term.ExitOK, "13\n"},
		"failed": {func(b *fleetapi.Bisect) { b.State, b.First, b.Why = "failed", 0, "revision 11 is not good" },
			"bisect watch pop-1", term.ExitPartial, "failed: revision 11 is not good; 3 pushes; pop-1 has its desired config"},
		"inconclusive": {func(b *fleetapi.Bisect) { b.State, b.First, b.Suspects = "inconclusive", 0, []uint64{12, 13} },
			"bisect watch pop-1", term.ExitPartial, "the first bad revision is one of 12 13; 3 pushes"},
		"of no search": {nil, "bisect show dn-2", term.ExitNotFound, "no search tested configs on \"dn-2\""},
		"shown":        {nil, "bisect show pop-1", term.ExitOK, "13        bad      push    good before and bad now: port/wan"},
		"listed": {nil, "bisect list", term.ExitOK,
			"pop-1  found  11    15   13     healthy  3       2026-11-21T13:00:00Z  alice"},
		"not yet": {func(b *fleetapi.Bisect) { b.Ended, b.State, b.Testing = nil, "testing", 12 }, "bisect show pop-1",
			term.ExitOK, "pop-1 tests revision 12"},
	} {
		f.Searches = []fleetapi.Bisect{searchOf(c.change)}
		if got := cli(t, env, "", strings.Fields(c.line)...); got.Code != c.code || !strings.Contains(got.Out+got.Err, c.want) {
			t.Errorf("%s: exit %d, %s%s\nwant %s", name, got.Code, got.Out, got.Err, c.want)
		}
	}
}

// searching is a controller with one search, whose answers a test gives.
type searching struct {
	*clitest.FleetBackend
	bisects func() ([]fleetapi.Bisect, error)
	abort   error
}

func (s *searching) Bisects(context.Context) ([]fleetapi.Bisect, error) { return s.bisects() }

func (s *searching) AbortBisect(context.Context, fleetapi.Caller, string) error { return s.abort }

// An interrupt ends the search, and the command says what became of it and nothing else.
func TestAnInterruptedBisectSaysWhatBecomesOfTheSearch(t *testing.T) {
	for name, c := range map[string]struct {
		abort error
		code  int
		want  string
	}{
		"aborted": {nil, term.ExitPartial, "interrupted: the search is aborted, and pop-1 goes back to what it should have"},
		"tested all": {fleetapi.ErrRefused, term.ExitPartial,
			"interrupted: the search has tested all that it needs; 'edgespan bisect show pop-1' shows its result"},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		b := searchOf(func(b *fleetapi.Bisect) { b.Ended, b.State, b.First, b.Steps = nil, "testing", 0, nil })
		f := &searching{clitest.SmallFleet(), func() ([]fleetapi.Bisect, error) {
			interrupt()
			return []fleetapi.Bisect{b}, nil
		}, c.abort}
		f.Searches = []fleetapi.Bisect{b}
		env := clitest.ServeFleet(t, f)
		var out, errs bytes.Buffer
		code := clitest.RunStreams(ctx, program, term.Streams{Out: &out, Err: &errs, Env: func(k string) string { return env[k] }},
			"bisect", "--nodes", "pop-1", "--good", "11", "--bad", "15")
		said := errs.String()
		if code != c.code || !strings.Contains(said, c.want) || strings.Contains(said, "bisect watch") {
			t.Errorf("%s: exit %d, %s", name, code, said)
		}
	}
}

// A controller that does not answer for a while ends neither the search nor the command that follows it.
func TestABisectIsFollowedOverALossOfTheController(t *testing.T) {
	answers := []error{nil, context.DeadlineExceeded, context.DeadlineExceeded, nil}
	f := &searching{FleetBackend: clitest.SmallFleet()}
	f.bisects = func() ([]fleetapi.Bisect, error) {
		err := answers[0]
		answers = answers[1:]
		return []fleetapi.Bisect{searchOf(func(b *fleetapi.Bisect) {
			if len(answers) > 0 {
				b.Ended, b.State, b.First = nil, "testing", 0
			}
		})}, err
	}
	got := cli(t, clitest.ServeFleet(t, f), "", "bisect", "watch", "pop-1")
	if got.Code != term.ExitOK || !strings.Contains(got.Out, "the first bad revision is 13") ||
		strings.Count(got.Err, "retrying; the search goes on") != 1 {
		t.Errorf("exit %d, %s%s", got.Code, got.Out, got.Err)
	}
}
