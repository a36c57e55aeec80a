package fleetcli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/fleetapi"
	restpkg "edgespan/config/httpapi/rest"
)

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
			code <- clitest.RunStreams(ctx, program, term.Streams{In: strings.NewReader(""),
				Out: out, Err: out, Env: func(k string) string { return env[k] }}, args...)
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
		"OBJECT STATE REVIEW REASON",
		"peer/edge-1 not ready yellow - tunnel/80ddf269/6f1c9f0e is WaitingForDependencies; 1 of 5 parameters are not in " +
			"their final state", "bridge/80ddf269 Present no -",
		"executor/collector CreatingFailed yes exit status 1", "interface/dut Present no -",
		"joined/80ddf269/tunnel/80ddf269/6f1c9f0e Creating no -", "ni/5f1c9f0e Present no -",
		"tunnel/80ddf269/6f1c9f0e WaitingForDependencies no no route to 192.0.2.2", "executor/mine Ignored maybe Present",
	} {
		if got := columns(<-lines); got != want {
			t.Errorf("at first %q, wanted %q", got, want)
		}
	}
	f.Changes <- func(f *clitest.FleetBackend) {
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
	for _, want := range []string{"OBJECT STATE REVIEW REASON",
		"cluster/lab deploying yellow - edge-1: tunnel/80ddf269/6f1c9f0e is WaitingForDependencies",
		"peer/edge-1 not ready yellow", "peer/edge-2 ready -",
		"tunnel edge-1 - edge-2 WaitingForDependencies - - edge-1: no route"} {
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
	f.Changes <- func(f *clitest.FleetBackend) { f.ClusterList[0].State = "deployed" }
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
	if err != nil || errs.String() != "it is lost: retrying\nit is lost: retrying\n" {
		t.Errorf("%v, said %q", err, errs.String())
	}
	if err := c.again(func(context.Context) error { return lost }); err != nil { // the context has ended
		t.Error(err)
	}
	cmd.SetContext(t.Context())
	if err := c.again(func(context.Context) error { return lost }); !errors.Is(err, restpkg.ErrUnreachable) {
		t.Errorf("one that was never reached: %v", err)
	}
}

type fleetLost struct{}

func (*fleetLost) Error() string { return "it is lost" }
func (*fleetLost) Unwrap() error { return restpkg.ErrUnreachable }

// TestPeersAreColouredByHealth, and by nothing where NO_COLOR stands.
func TestPeersAreColouredByHealth(t *testing.T) {
	env := clitest.ServeFleet(t, clitest.SmallFleet())
	for _, color := range []bool{false, true} {
		var out, errs bytes.Buffer
		clitest.RunStreams(t.Context(), program, term.Streams{In: strings.NewReader(""), Out: &out,
			Err: &errs, Env: func(k string) string { return env[k] }, Color: color}, "peers", "describe", "edge-1")
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
