package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/httpapi"
	"edgespan/config/httpapi/fleetapi"
)

// TestPeerWritesAskWhatTheyName holds each write of peers and clusters to what it asks.
func TestPeerWritesAskWhatTheyName(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	for line, asked := range map[string]string{
		"clusters deploy lab -m now":        `write operate.Deploy{Clusters:[lab]} message "now" dry false if map[]`,
		"clusters undeploy lab --dry-run":   `write operate.Undeploy{Clusters:[lab]} message "" dry true if map[]`,
		"peers delete edge-1 --if-match 4":  `write operate.Undescribe{Kind:PeerDescriptor Names:[edge-1]} message "" dry false if map[peer/edge-1:4]`,
		"clusters delete lab --if-match 5":  `write operate.Undescribe{Kind:ClusterDescriptor Names:[lab]} message "" dry false if map[cluster/lab:5]`,
		"apply -f - -m why":                 `write operate.Describe{Documents:[map[kind:PeerDescriptor metadata:map[name:a]] map[kind:ClusterDescriptor metadata:map[name:b]]]} message "why" dry false if map[]`,
		"apply -f - --dry-run -o json":      `write operate.Describe{Documents:[map[kind:PeerDescriptor metadata:map[name:a]] map[kind:ClusterDescriptor metadata:map[name:b]]]} message "" dry true if map[]`,
		"clusters deploy lab --if-match 12": "",
		"peers status -w":                   "",
		"clusters status -w":                "",
	} {
		got := cli(t, env, "kind: PeerDescriptor\nmetadata: {name: a}\n---\nkind: ClusterDescriptor\nmetadata: {name: b}\n", strings.Fields(line)...)
		code := term.ExitOK
		if asked == "" {
			code = term.ExitUsage
		}
		if heard := strings.Join(f.Heard(), "; "); got.Code != code || heard != asked {
			t.Errorf("edgespan %s: exit %d, asks\n %s\nwant\n %s\n%s", line, got.Code, heard, asked, got.Err)
		}
	}
}

func TestExitCodesOfPeers(t *testing.T) {
	t.Parallel() // it mostly waits
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	f.PeerList[0].Parameters = append(f.PeerList[0].Parameters, fleetapi.PeerParameter{ID: "bridge/" + clitest.Network(clitest.LabID, clitest.Edge1ID)[:8] + "-0000-4000-8000-000000000000"}) // of the same first octets, for people
	for line, want := range map[string]string{
		"peers describe nobody":                                                  "10 nobody",
		"peers status nobody":                                                    "10 nobody",
		"peers status nobody -w":                                                 "10 nobody",
		"peers explain nobody":                                                   "10 nobody",
		"peers explain edge-1 tunnel/x":                                          "10 parameter tunnel/x: edge-1 has none of this id: edgespan peers status edge-1 shows",
		"peers explain edge-1 executor/collector":                                "0 ",
		"peers explain edge-1 tunnel/80ddf269/6f1c9f0e":                          "0 ",
		"peers explain edge-1 bridge/80ddf269":                                   "2 is several",
		"peers get other":                                                        "10 edgespan apply",
		"clusters describe nothing":                                              "10 nothing",
		"clusters status nothing -w":                                             "10 nothing",
		"wait peer/nobody --timeout 1h":                                          "10 nobody",
		"wait cluster/nothing --timeout 1h":                                      "10 nothing",
		"wait peer/edge-1 --for fun":                                             "2 ready online are allowed of peer/",
		"wait cluster/lab --for absent":                                          "2 ready undeployed are allowed of cluster/",
		"wait peer/edge-1 --timeout 1s":                                          "3 1 of 5 parameters",
		"wait peer/edge-1 --for online --timeout 1h":                             "0 ",
		"wait peer/other --for online --timeout 1s":                              "3 it is offline",
		"wait peer/edge-2 --timeout 1h":                                          "0 ",
		"wait cluster/lab --timeout 1s":                                          "3 1 of 2 members are not ready",
		"wait cluster/lab --for undeployed --timeout 1s":                         "3 not undeployed after 1s",
		"wait ni/10000000-0000-4000-8000-000000000001 --controller http://[::1]": "2 peer/NAME and cluster/NAME",
		"wait peer/edge-2 --controller http://127.0.0.1:1 --timeout 1s":          "8 not ready after 1s",
		"peers list -o xml":                                                      "2 xml",
	} {
		got := cli(t, env, "", strings.Fields(line)...)
		code, text, _ := strings.Cut(want, " ")
		if strconv.Itoa(got.Code) != code || !strings.Contains(got.Err, text) {
			t.Errorf("edgespan %s: exit %d, want %s: %s", line, got.Code, want, got.Err)
		}
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
	f.Changes <- func(f *clitest.Fleet) { f.PeerList[0].Why = "something else" }
	f.Changes <- func(f *clitest.Fleet) { f.PeerList[0].Ready = true }
	if got := <-done; got.Code != term.ExitOK || got.Out+got.Err != "" {
		t.Errorf("%+v", got)
	}
	go func() { done <- cli(t, env, "", "wait", "cluster/lab", "--for", "undeployed", "--timeout", "1h") }()
	f.Changes <- func(f *clitest.Fleet) { f.ClusterList[0].State = "undeploying" }
	f.Changes <- func(f *clitest.Fleet) { f.ClusterList[0].State = "undeployed" }
	if got := <-done; got.Code != term.ExitOK {
		t.Errorf("%+v", got)
	}
}

// lineBuffer tells of each line that is written into it.
type lineBuffer struct {
	mu    sync.Mutex
	rest  []byte
	lines chan string
}

func (b *lineBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = append(b.rest, p...)
	for {
		line, rest, whole := bytes.Cut(b.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		b.lines <- string(line)
		b.rest = rest
	}
}

// TestStatusGoesOn prints how it is, then each change alone, until it is interrupted.
func TestStatusGoesOn(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	follow := func(args ...string) (lines chan string, end func()) {
		ctx, cancel := context.WithCancel(t.Context())
		out, code := &lineBuffer{lines: make(chan string, 100)}, make(chan int)
		go func() {
			code <- run(ctx, term.Streams{In: strings.NewReader(""), Out: out, Err: out, Env: func(k string) string { return env[k] }}, args)
		}()
		return out.lines, func() {
			cancel()
			if got := <-code; got != term.ExitOK {
				t.Errorf("%s: interrupted: exit %d", args, got)
			}
		}
	}
	columns := func(line string) string { return strings.Join(strings.Fields(line)[1:], " ") } // without the time
	lines, end := follow("peers", "status", "edge-1", "-w")
	for _, want := range []string{
		"OBJECT STATE REVIEW REASON", "peer/edge-1 not ready yellow - tunnel/80ddf269/6f1c9f0e is WaitingForDependencies; 1 of 5 parameters are not in their final state", "bridge/80ddf269 Present no -",
		"executor/collector CreatingFailed yes exit status 1", "interface/dut Present no -", "joined/80ddf269/tunnel/80ddf269/6f1c9f0e Creating no -", "ni/5f1c9f0e Present no -",
		"tunnel/80ddf269/6f1c9f0e WaitingForDependencies no no route to 192.0.2.2", "executor/mine Ignored maybe Present",
	} {
		if got := columns(<-lines); got != want {
			t.Errorf("at first %q, wanted %q", got, want)
		}
	}
	f.Changes <- func(f *clitest.Fleet) {
		d := &f.PeerList[0]
		d.Parameters[5].State, d.Parameters[5].Reason, d.Ignored = "Present", "", nil
	}
	for _, want := range []string{"tunnel/80ddf269/6f1c9f0e Present no -", "executor/mine gone - -"} {
		if got := columns(<-lines); got != want {
			t.Errorf("after a change %q, wanted %q", got, want)
		}
	}
	end()
	f.Mu.Lock()
	f.ClusterList[0].Tunnels[0].States[1] = ""
	f.Mu.Unlock()
	lines, end = follow("clusters", "status", "lab", "-w")
	for _, want := range []string{"OBJECT STATE REVIEW REASON", "cluster/lab deploying yellow - edge-1: tunnel/80ddf269/6f1c9f0e is WaitingForDependencies", "peer/edge-1 not ready yellow", "peer/edge-2 ready -", "tunnel edge-1 - edge-2 WaitingForDependencies - - edge-1: no route"} {
		if got := columns(<-lines); !strings.HasPrefix(got, want) {
			t.Errorf("a cluster at first %q, wanted %q", got, want)
		}
	}
	end()
	lines, end = follow("clusters", "status", "lab", "-w", "-o", "json")
	var d fleetapi.ClusterDetail
	if err := json.Unmarshal([]byte(<-lines), &d); err != nil || d.State != "deploying" {
		t.Errorf("%v %+v", err, d)
	}
	f.Changes <- func(f *clitest.Fleet) { f.ClusterList[0].State = "deployed" }
	if err := json.Unmarshal([]byte(<-lines), &d); err != nil || d.State != "deployed" {
		t.Errorf("%v %+v", err, d)
	}
	end()
}

// TestAWatchGoesOnAfterALoss says once that the controller is gone, and goes on when it is back.
func TestAWatchGoesOnAfterALoss(t *testing.T) {
	t.Parallel() // it mostly waits
	var errs bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	c := &fleetCall{a: &reach.App{Streams: term.Streams{Err: &errs}}, cmd: cmd}
	lost := &fleetLost{}
	results := []error{nil, lost, lost, nil, lost}
	asked := 0
	err := c.again(func(context.Context) error {
		if asked == len(results) {
			cancel()
			return ctx.Err()
		}
		asked++
		return results[asked-1]
	})
	if err != nil || errs.String() != "it is lost: trying again\nit is lost: trying again\n" {
		t.Errorf("%v, said %q", err, errs.String())
	}
	if err := c.again(func(context.Context) error { return lost }); err != nil { // the context has ended
		t.Error(err)
	}
	cmd.SetContext(t.Context())
	if err := c.again(func(context.Context) error { return lost }); !errors.Is(err, httpapi.ErrUnreachable) {
		t.Errorf("one that was never reached: %v", err)
	}
}

type fleetLost struct{}

func (*fleetLost) Error() string { return "it is lost" }
func (*fleetLost) Unwrap() error { return httpapi.ErrUnreachable }

// TestPeersAreColouredByHealth, and by nothing where NO_COLOR stands.
func TestPeersAreColouredByHealth(t *testing.T) {
	env := clitest.ServeFleet(t, clitest.SmallFleet())
	for _, color := range []bool{false, true} {
		var out, errs bytes.Buffer
		clitest.RunStreams(t.Context(), program, term.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Env: func(k string) string { return env[k] }, Color: color}, "peers", "describe", "edge-1")
		if strings.Contains(out.String(), "\x1b[") != color {
			t.Errorf("colour %v: %q %q", color, &out, &errs)
		}
	}
}

func TestAgesOfReports(t *testing.T) {
	for seconds, want := range map[float64]string{0.04: "0s ago", 2.5: "2.5s ago", 61.2: "1m1s ago", 7261: "2h1m1s ago"} {
		if got := reportAge(fleetapi.Peer{AgeSeconds: &seconds}); got != want {
			t.Errorf("%v: %s", seconds, got)
		}
	}
	if got := reportAge(fleetapi.Peer{}); got != "" {
		t.Errorf("never: %s", got)
	}
}
