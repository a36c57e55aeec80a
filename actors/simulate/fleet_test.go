package simulate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/actors/agent"
	"edgespan/config"
	"edgespan/config/confirm"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/link"
	"edgespan/config/metadata"
)

// memory is a disk that keeps what was written.
type memory struct {
	mu    sync.Mutex
	files map[string][]byte
}

func (d *memory) Read(name string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if text, has := d.files[name]; has {
		return text, nil
	}
	return nil, fs.ErrNotExist
}

func (d *memory) WriteSpare(name string, content []byte) error { return d.Write(name, content) }

func (d *memory) Write(name string, content []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files == nil {
		d.files = map[string][]byte{}
	}
	d.files[name] = content
	return nil
}

func (d *memory) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, name)
	return nil
}

// desk is a controller that pushes one config to each node until it stands: less than the
// real one, and enough to see what a node says.
type desk struct {
	document config.Object

	mu      sync.Mutex
	nodes   map[int]*seat
	results []string // "0 accepted"
	reports int
	every   time.Duration
	hold    bool // never says that all is well, so that nobody ends early
}

type seat struct {
	to        func(link.FromController)
	attempts  uint64
	confirmed bool
	failed    string
	streams   int
}

// cable is the stream of one node.
type cable struct {
	desk *desk
	node int
}

func (c cable) Run(ctx context.Context, hello func() link.Hello, l Listener) error {
	for ctx.Err() == nil {
		words := make(chan link.FromController, 100)
		c.desk.up(c.node, hello(), words)
		l.Up(wire{c, ctx})
		for done := false; !done; {
			select {
			case m := <-words:
				l.Received(m)
			case <-ctx.Done():
				done = true
			}
		}
		l.Down(ctx.Err())
	}
	return nil
}

type wire struct {
	cable
	ctx context.Context
}

func (w wire) Send(m link.FromNode) error {
	if w.ctx.Err() != nil {
		return errors.New("it has ended")
	}
	w.desk.said(w.node, m)
	return nil
}

var wanted = link.Generation{Authority: "desk", Counter: 1}

func (d *desk) up(node int, h link.Hello, words chan link.FromController) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.nodes[node]
	if s == nil {
		s = &seat{}
		d.nodes[node] = s
	}
	s.streams++
	s.to = func(m link.FromController) { words <- m }
	s.to(link.Managed{On: true})
	if h.Generation != wanted && s.failed == "" {
		d.push(s)
	}
}

func (d *desk) push(s *seat) {
	s.attempts++
	s.to(link.Push{
		Attempt: s.attempts, Generation: wanted, MD5: config.MD5(d.document), Document: config.AppendCanonical(nil, d.document),
		Confirm: 2 * time.Minute, Managed: true,
	})
}

func (d *desk) said(node int, m link.FromNode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.nodes[node]
	switch m := m.(type) {
	case link.Result:
		d.results = append(d.results, fmt.Sprintf("%d %s", node, m.Outcome))
		if m.Outcome == link.Rejected || m.Outcome == link.Unhealthy || m.Outcome == link.Unconfirmed {
			s.failed = m.Outcome.String()
			s.to(link.Ack{Attempt: m.Attempt})
		}
	case link.Report:
		d.reports++
		switch p := m.Pending; {
		case m.Generation == wanted && p == nil:
			s.confirmed = true
		case p != nil && p.Settled && len(p.Worse) == 0:
			s.to(link.Probe{Number: 7})
		}
	case link.Probed:
		if m.Generation == wanted && len(m.Worse) == 0 {
			s.to(link.Confirm{Generation: wanted})
		}
	}
}

func (d *desk) Nodes(context.Context) ([]fleetapi.Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []fleetapi.Node
	for i, s := range d.nodes {
		r := fleetapi.Running{Generation: wanted.String()}
		n := fleetapi.Node{Name: fmt.Sprint("sim-", i), State: "applying", Online: true, Wanted: r, Running: r}
		switch {
		case s.failed != "":
			n.State = "failed"
		case s.confirmed && !d.hold:
			n.State = "in sync"
		}
		out = append(out, n)
	}
	return out, nil
}

// within runs a fleet with a fault on each node and says where it stood after a time.
func within(t *testing.T, d time.Duration, plan ...Fault) (*desk, Tally, Round) {
	t.Helper()
	c := &desk{document: config.Object{"a": "b"}, nodes: map[int]*seat{}}
	tally, round := c.run(t, d, plan)
	return c, tally, round
}

func (d *desk) run(t *testing.T, within time.Duration, plan []Fault) (Tally, Round) {
	t.Helper()
	var last Tally
	var round Round
	synctest.Test(t, func(t *testing.T) {
		m, faults := metadata.Parse(config.Object{}, metadata.Options{})
		if faults != nil {
			t.Fatal(faults)
		}
		var names []string
		for i := range plan {
			names = append(names, fmt.Sprint("sim-", i))
		}
		f, err := Start(Options{
			Names: names, Plan: plan,
			Disk:        func(int) agent.Disk { return &memory{} },
			Stream:      func(i int) Stream { return cable{d, i} },
			ReportEvery: d.every,
			Judge:       func(o config.Object, _ confirm.Source) agent.Verdict { return agent.Verdict{Config: o} },
			Facts: func(name string) agent.Facts {
				return agent.Facts{Name: name, Software: "S", Metadata: m, Bases: map[string]config.Object{"S": {"base": true}}}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		last, err = f.Await(ctx, d, time.Second, func(Tally) {})
		if err != nil {
			t.Error(err)
		}
		round = f.Times()
		f.Stop()
		time.Sleep(time.Minute) // on the fake clock: for the library's throttle of dead letters
	})
	return last, round
}

func TestAFleetConverges(t *testing.T) {
	_, got, round := within(t, 10*time.Second, "", "", "")
	if !got.Done() || got.Nodes != 3 {
		t.Errorf("%+v", got)
	}
	if round.Pushed.Nodes != 3 || round.Acked.Nodes != 3 || round.Applied.Nodes != 3 || round.Confirmed.Nodes != 3 {
		t.Errorf("not everything was measured: %+v", round)
	}
	if round.Acked.Most > round.Confirmed.Most {
		t.Errorf("confirmed before acked: %+v", round)
	}
}

// Each fault does what it is called, and those that pass do.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault   Fault
		results string // of the first node, in their order
		streams int
		failed  int
		slow    time.Duration // at least so long until it stands
	}{
		{"", "0 accepted, 0 applied", 1, 0, 0},
		{Reject, "0 rejected", 1, 1, 0},
		{Unhealthy, "0 accepted, 0 applied, 0 unhealthy", 1, 1, 0},
		{Silent, "", 1, 0, SilentFor},
		// What comes before depends on who is faster: the node that goes on, or the next push.
		{Crash, "", 2, 0, BootAfter}, // nothing, if it has applied it before its stream stands
		{Disconnect, "0 applied", 2, 0, 0},
	} {
		t.Run(string(c.fault), func(t *testing.T) {
			d, got, round := within(t, 5*time.Minute, c.fault, "")
			if !got.Done() || got.FailedAsAsked[c.fault] != c.failed {
				t.Errorf("%+v", got)
			}
			var own []string
			for _, r := range d.results {
				if strings.HasPrefix(r, "0 ") {
					own = append(own, r)
				}
			}
			if text := strings.Join(own, ", "); text != c.results && (c.streams < 2 || !strings.HasSuffix(text, c.results)) {
				t.Errorf("it said %q, want %q", text, c.results)
			}
			if s := d.nodes[0]; s.streams != c.streams {
				t.Errorf("%d streams, want %d", s.streams, c.streams)
			}
			if d.nodes[1].streams != 1 {
				t.Error("the other node was struck, too")
			}
			if ms := float64(c.slow.Milliseconds()); c.failed == 0 && round.Confirmed.Most < ms {
				t.Errorf("it stood after %g ms, want %g at least", round.Confirmed.Most, ms)
			}
		})
	}
}

func TestTheEndNamesWhatIsWaitedFor(t *testing.T) {
	_, got, _ := within(t, 5*time.Second, Silent, "")
	if got.Done() || got.Converged != 1 || len(got.Waiting) != 1 || got.Waiting[0].Names[0] != "sim-0" {
		t.Errorf("%+v", got)
	}
}

// A node reports as often as it is told to, beside what changes.
func TestReportsComeAtTheirInterval(t *testing.T) {
	count := func(every time.Duration) int {
		c := &desk{document: config.Object{"a": "b"}, nodes: map[int]*seat{}, every: every, hold: true}
		c.run(t, 10*time.Minute, []Fault{""})
		return c.reports
	}
	standard, slow, fast := count(0), count(time.Minute), count(2*time.Second)
	// 600 s are 120, 10 and 300 intervals; a few more are for what changed.
	if standard < 118 || standard > 130 || slow < 9 || slow > 20 || fast < 298 || fast > 310 {
		t.Errorf("%d each 5 s, %d each minute, %d each 2 s", standard, slow, fast)
	}
}
