package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"

	"github.com/spf13/cobra"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// program has the command of this package.
var program = clitest.RootOf(func(a *reach.App) []*cobra.Command { return []*cobra.Command{New(a)} })

// sample is a node with networks of which the last does not work, after a number of looks.
func sample(networks, at int) Sample {
	items := map[string][]nodeapi.Resource{
		"port": {{ID: "wan", Status: nodeapi.PortStatus{
			Exists: true, Up: true, LatencyMs: float64(at%8 + 1), Probe: "good",
		}}},
		"app": {{ID: "a", Status: nodeapi.AppStatus{DisplayName: "web", Activated: true}}},
		"actor": {
			{ID: "router", Status: nodeapi.ActorStatus{State: "running", Messages: 42}},
			{ID: "router/ni/1/watcher", Status: nodeapi.ActorStatus{State: "restarting", Crashes: 3, Last: "index out of range"}},
		},
	}
	for i := range networks {
		n := nodeapi.NetworkStatus{State: "Present", DisplayName: fmt.Sprintf("net-%03d", i)}
		n.Bridge = fmt.Sprintf("es%d", i+1)
		if i == networks-1 {
			n.State, n.Error = "CreatingFailed", "no room for a bridge"
		}
		items["ni"] = append(items["ni"], nodeapi.Resource{ID: fmt.Sprint(i), Status: n})
	}
	return Sample{At: noon.Add(time.Duration(at) * time.Second), Items: items}
}

func TestTheScreenOfASmallNode(t *testing.T) {
	var m Model
	for at := range 9 {
		m.Add(sample(2, at))
	}
	const want = `edgespan  12:00:08  1 ports, 2 networks (1 not well), 1 apps, 2 actors (1 not w~
PORT         STATE    LOSS  LATENCY   PAST                 PROBE
wan          up       0%    1.0 ms    .-=+*%##.            good
NETWORK              STATE                  BRIDGE  PORT       ERROR
net-001              CreatingFailed         es2     -          no room for a br~
net-000              Present                es1     -          -
APP                  STATE                  ADAPTERS   ERROR
web                  ready                  0/0        -
ACTOR                        STATE       RESTARTS  WAITING  NOW
router/ni/net-001/watcher    restarting  3         0        index out of range
router                       running     0         0        -`
	if got := strings.Join(m.Lines(80, 24, true), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := strings.Join(m.Lines(80, 24, false), "\n"); !strings.Contains(got, "▂▃▄▅▆▇██▂") {
		t.Errorf("no sparkline:\n%s", got)
	}
}

func TestAHundredNetworksFitEachScreenAndHideNothingBad(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}, {40, 10}} {
		var m Model
		m.Add(sample(100, 0))
		lines := m.Lines(size[0], size[1], false)
		if len(lines) > size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		text := strings.Join(lines, "\n")
		for _, l := range lines {
			if utf8.RuneCountInString(l) > size[0] {
				t.Errorf("%v: too wide: %s", size, l)
			}
		}
		if size[1] < 24 {
			continue
		}
		for _, want := range []string{"net-099", "more", "web", "router/ni/net", "wan"} {
			if !strings.Contains(text, want) {
				t.Errorf("%v: %s is not shown:\n%s", size, want, text)
			}
		}
	}
}

func TestADaemonThatGoesAwayAndReturnsIsShown(t *testing.T) {
	var m Model
	m.Add(sample(1, 0))
	m.Add(Sample{At: noon.Add(time.Minute), Err: errors.New("no daemon")})
	m.Add(Sample{At: noon.Add(time.Hour), Err: errors.New("no daemon")})
	lines := m.Lines(80, 24, true)
	if lines[0] != "edgespan  no answer since 12:01:00: no daemon  (below: 12:00:00)" || len(lines) < 5 {
		t.Errorf("while it is away: %q", lines)
	}
	m.Add(sample(1, 7200))
	if first := m.Lines(80, 24, true)[0]; !strings.HasPrefix(first, "edgespan  14:00:00  1 ports") {
		t.Errorf("when it is back: %s", first)
	}
}

// A display name or an error may come from a hostile app.
func TestNoControlCharacterOfANameIsShown(t *testing.T) {
	const evil = "\x1b[2J\u009b31m\r\nroot#"
	var m Model
	m.Add(Sample{At: noon, Items: map[string][]nodeapi.Resource{
		"port":  {{ID: evil, Status: nodeapi.PortStatus{Error: evil, Probe: evil}}},
		"ni":    {{ID: evil, Status: nodeapi.NetworkStatus{State: evil, DisplayName: evil, Error: evil}}},
		"app":   {{ID: evil, Status: nodeapi.AppStatus{DisplayName: evil, Error: evil}}},
		"actor": {{ID: evil, Status: nodeapi.ActorStatus{State: evil, Last: evil}}},
	}})
	m.Add(Sample{At: noon, Err: errors.New(evil)})
	if text := strings.Join(m.Lines(500, 50, false), ""); strings.ContainsFunc(text, func(r rune) bool {
		return r < 0x20 || r >= 0x7f && r < 0xa0
	}) {
		t.Errorf("shown: %q", text)
	}
}

func TestOnceShowsOneFrameOfTheDaemon(t *testing.T) {
	socket := clitest.ServeDaemon(t, clitest.Filled())
	var out, msg bytes.Buffer
	env := clitest.At(socket)
	s := term.Streams{Out: &out, Err: &msg, Env: func(key string) string { return env[key] }}
	if code := clitest.RunStreams(t.Context(), program, s, "top", "--once"); code != term.ExitOK {
		t.Fatalf("exit %d: %s", code, msg.String())
	}
	for _, want := range []string{"1 networks", "demo net", "Present", "web", "1/2", "router", "wan"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("one frame has escapes: %q", out.String())
	}
	if code := clitest.RunStreams(t.Context(), program, s, "top", "--interval", "1ms"); code != term.ExitUsage {
		t.Errorf("--interval 1ms: exit %d", code)
	}
}

func TestNoDaemonIsUnreachable(t *testing.T) {
	env := clitest.At(clitest.Scratch(t) + "/none.sock")
	s := term.Streams{Out: new(bytes.Buffer), Err: new(bytes.Buffer), Env: func(key string) string { return env[key] }}
	if code := clitest.RunStreams(t.Context(), program, s, "top", "--once"); code != term.ExitUnreachable {
		t.Errorf("exit %d", code)
	}
}

// A daemon that accepts and never answers ends a look at its deadline, and the screen says so.
func TestAFrozenDaemonDoesNotFreezeTop(t *testing.T) {
	socket := clitest.Scratch(t) + "/frozen.sock"
	l, err := net.Listen("unix", socket) // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*lookTimeout)
	defer cancel()
	c := nodeapi.NewClient(socket)
	defer c.Close()
	var m Model
	m.Add(look(ctx, c))
	if ctx.Err() != nil || m.lost == nil {
		t.Fatalf("look ended with %v, %v", ctx.Err(), m.lost)
	}
	if first := m.Lines(80, 24, true)[0]; !strings.Contains(first, "no answer since") {
		t.Errorf("shown: %s", first)
	}
}

func TestTheLoopPaintsInPlaceAndEndsWhenInterrupted(t *testing.T) {
	socket := clitest.ServeDaemon(t, clitest.Filled())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	screen := &painted{enough: 2, done: cancel}
	env := clitest.At(socket)
	s := term.Streams{Out: screen, Err: new(bytes.Buffer), Env: func(key string) string { return env[key] }}
	if code := clitest.RunStreams(ctx, program, s, "top", "--interval", "100ms"); code != term.ExitOK {
		t.Fatalf("exit %d", code)
	}
	for _, frame := range screen.frames {
		if !strings.HasPrefix(frame, "\x1b[H") || strings.Contains(frame, "\x1b[2J") ||
			!strings.Contains(frame, "demo net") {
			t.Errorf("frame %q", frame)
		}
	}
	if len(screen.frames) < 2 {
		t.Errorf("%d frames", len(screen.frames))
	}
}

// painted keeps frames and interrupts after enough of them.
type painted struct {
	frames []string
	enough int
	done   func()
}

func (p *painted) Write(b []byte) (int, error) {
	if p.frames = append(p.frames, string(b)); len(p.frames) == p.enough {
		p.done()
	}
	return len(b), nil
}

// BenchmarkFrame is one sample and one frame of a node with 100 networks: at one in two seconds, 2 % of a core are 40 ms.
func BenchmarkFrame(b *testing.B) {
	var m Model
	s := sample(100, 0)
	for b.Loop() {
		m.Add(s)
		paint(m.Lines(120, 40, false))
	}
}
