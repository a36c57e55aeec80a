package simulate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/actors/agent"
	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/topology"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers/metadata"
	"edgespan/config/nodeconf/commitconfirm"
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
	nodes   map[int]*handle
	results []string // "0 accepted"
	reports int
	every   time.Duration
	hold    bool          // never says that all is well, so that nobody ends early
	again   time.Duration // after it each node wants another config; 0 for never
	changes uint64
	o       Options // what the fleet is to be beside what it always is
	meet    func(f *SimulatedFleet)
	stands  []bool // at the end, who has what it wants
}

type handle struct {
	to        func(nodeproto.FromController)
	attempts  uint64
	confirmed bool
	failed    string
	streams   int
	upAt      []time.Time
}

// cable is the stream of one node.
type cable struct {
	desk *desk
	node int
}

func (c cable) Run(ctx context.Context, hello func() nodeproto.Hello, l Listener) error {
	for ctx.Err() == nil {
		words := make(chan nodeproto.FromController, 100)
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

func (w wire) Send(m nodeproto.FromNode) error {
	if w.ctx.Err() != nil {
		return errors.New("it has ended")
	}
	w.desk.said(w.node, m)
	return nil
}

// desired is the generation that all nodes want.
func (d *desk) desired() nodeproto.Generation {
	return nodeproto.Generation{Authority: "desk", Counter: 1 + d.changes}
}

// change gives all nodes another config.
func (d *desk) change() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changes++
	d.document = config.Object{"a": fmt.Sprint(d.changes)}
	for _, s := range d.nodes {
		s.confirmed, s.failed = false, ""
		d.push(s)
	}
}

func (d *desk) up(node int, h nodeproto.Hello, words chan nodeproto.FromController) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.nodes[node]
	if s == nil {
		s = &handle{}
		d.nodes[node] = s
	}
	s.streams++
	s.upAt = append(s.upAt, time.Now())
	s.to = func(m nodeproto.FromController) { words <- m }
	s.to(nodeproto.Managed{On: true})
	if h.Generation != d.desired() && s.failed == "" {
		d.push(s)
	}
}

const confirmIn = 2 * time.Minute

func (d *desk) push(s *handle) {
	s.attempts++
	s.to(nodeproto.Push{
		Attempt: s.attempts, Generation: d.desired(), MD5: config.MD5(d.document),
		Document: config.AppendCanonical(nil, d.document),
		Confirm:  confirmIn, Managed: true,
	})
}

func (d *desk) said(node int, m nodeproto.FromNode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.nodes[node]
	switch m := m.(type) {
	case nodeproto.Result:
		d.results = append(d.results, fmt.Sprintf("%d %s", node, m.Outcome))
		switch m.Outcome {
		case nodeproto.Rejected, nodeproto.Unhealthy:
			s.failed = m.Outcome.String()
			s.to(nodeproto.Ack{Attempt: m.Attempt})
		case nodeproto.Unconfirmed: // that is nobody's fault
			s.to(nodeproto.Ack{Attempt: m.Attempt})
			d.push(s)
		default:
		}
	case nodeproto.Report:
		d.reports++
		switch p := m.Pending; {
		case m.Generation == d.desired() && p == nil:
			s.confirmed = true
		case p != nil && p.Settled && len(p.Worse) == 0:
			s.to(nodeproto.Probe{Number: 7})
		}
	case nodeproto.Probed:
		if m.Generation == d.desired() && len(m.Worse) == 0 {
			s.to(nodeproto.Confirm{Generation: d.desired()})
		}
	}
}

func (d *desk) Nodes(context.Context) ([]fleetapi.Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []fleetapi.Node
	for i, s := range d.nodes {
		r := fleetapi.Running{Generation: d.desired().String()}
		n := fleetapi.Node{Name: fmt.Sprint("sim-", i), State: "Pushing", Online: true, Desired: r, Running: r}
		switch {
		case s.failed != "":
			n.State = "RolledBack"
		case s.confirmed && !d.hold:
			n.State = "InSync"
		}
		out = append(out, n)
	}
	return out, nil
}

// confirmed says of each node whether it has confirmed what it wants.
func (d *desk) confirmed(nodes int) []bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []bool
	for i := range nodes {
		out = append(out, d.nodes[i].confirmed)
	}
	return out
}

// within runs a fleet with a fault on each node and says where it stood after a time.
func within(t *testing.T, d time.Duration, plan ...InjectedFault) (*desk, Progress, Round) {
	t.Helper()
	c := &desk{document: config.Object{"a": "b"}, nodes: map[int]*handle{}}
	progress, round := c.run(t, d, plan)
	return c, progress, round
}

func (d *desk) run(t *testing.T, within time.Duration, plan []InjectedFault) (Progress, Round) {
	t.Helper()
	var last Progress
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
		o := d.o
		o.Names, o.Plan, o.ReportEvery = names, plan, d.every
		o.Disk = func(int) agent.Disk { return &memory{} }
		o.Stream = func(i int) Stream { return cable{d, i} }
		o.Validator = func(o config.Object, _ string, _ commitconfirm.Source) commitconfirm.Verdict {
			return commitconfirm.Verdict{Config: o}
		}
		o.Facts = func(name string) agent.NodeFacts {
			return agent.NodeFacts{Name: name, Software: "S", Metadata: m, Bases: map[string]config.Object{"S": {"base": true}}}
		}
		f, err := Start(o)
		if err != nil {
			t.Fatal(err)
		}
		if d.again > 0 {
			defer time.AfterFunc(d.again, d.change).Stop()
		}
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		last, err = f.Await(ctx, d, time.Second, func(Progress) {})
		if err != nil {
			t.Error(err)
		}
		round = f.Times()
		d.stands = d.confirmed(len(plan))
		if d.meet != nil {
			d.meet(f)
		}
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
	if round.Acked.Max > round.Confirmed.Max {
		t.Errorf("confirmed before acked: %+v", round)
	}
}

// Each fault does what it is called, and those that pass do.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault   InjectedFault
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
		{Disconnect, "", 2, 0, 0},    // the same
		{Rollback, "0 accepted, 0 applied, 0 unconfirmed, 0 accepted, 0 applied", 1, 0, confirmIn},
		{LinkLoss, "", 2, 0, LinkLossFor}, // it says it by its first report
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
			if ms := float64(c.slow.Milliseconds()); c.failed == 0 && round.Confirmed.Max < ms {
				t.Errorf("it stood after %g ms, want %g at least", round.Confirmed.Max, ms)
			}
		})
	}
}

// A node that hangs says nothing, however often it is pushed the same, and takes the next one.
func TestAHangEndsWithTheNextConfig(t *testing.T) {
	d := &desk{document: config.Object{"a": "b"}, nodes: map[int]*handle{}, hold: true, again: 5 * time.Minute}
	d.run(t, 4*time.Minute, []InjectedFault{Hang, ""})
	if slices.ContainsFunc(d.results, func(r string) bool { return strings.HasPrefix(r, "0 ") }) ||
		!slices.Equal(d.stands, []bool{false, true}) {
		t.Errorf("it said %q", d.results)
	}
	d = &desk{document: config.Object{"a": "b"}, nodes: map[int]*handle{}, hold: true, again: 5 * time.Minute}
	d.run(t, 6*time.Minute, []InjectedFault{Hang, ""})
	if !slices.Equal(d.stands, []bool{true, true}) || d.nodes[0].streams != 1 {
		t.Errorf("it stands %v over %d streams: %q", d.stands, d.nodes[0].streams, d.results)
	}
}

// Until the config that they are for, faulty nodes are as all others.
func TestFaultsComeWithTheConfigThatTheyAreFor(t *testing.T) {
	for fault, said := range map[InjectedFault]string{
		Reject: "0 accepted, 0 applied, 0 rejected", Unhealthy: "0 accepted, 0 applied, 0 accepted, 0 applied, 0 unhealthy",
		Rollback: "0 accepted, 0 applied, 0 accepted, 0 applied, 0 unconfirmed, 0 accepted, 0 applied",
		Hang:     "0 accepted, 0 applied",
	} {
		d := &desk{document: config.Object{"a": "b"}, nodes: map[int]*handle{}, hold: true, again: 30 * time.Second,
			o: Options{FaultsAt: 2}}
		undone := 0
		d.meet = func(f *SimulatedFleet) { undone = f.UnrequestedUndos() }
		d.run(t, 5*time.Minute, []InjectedFault{fault})
		if text := strings.Join(d.results, ", "); text != said || undone != 0 {
			t.Errorf("%s: it said %q, want %q; undone unasked: %d", fault, text, said, undone)
		}
	}
}

// A config takes a node's time before it is settled, and no fault makes it another.
func TestNodesTakeTheirTime(t *testing.T) {
	_, _, at := withOptions(t, Options{ApplyTime: 7 * time.Second}, "", Crash)
	if at.Confirmed.Nodes != 2 || at.Confirmed.P50 < 7000 || at.Confirmed.P50 > 9000 {
		t.Errorf("%+v", at.Confirmed)
	}
}

func withOptions(t *testing.T, o Options, plan ...InjectedFault) (*desk, Progress, Round) {
	t.Helper()
	d := &desk{document: config.Object{"a": "b"}, nodes: map[int]*handle{}, o: o}
	progress, round := d.run(t, 5*time.Minute, plan)
	return d, progress, round
}

// On a line with its point of presence at one end, all that is behind the node that loses its
// link loses its stream, and comes back with it; the others keep theirs.
func TestALostLinkTakesAlongWhatIsBehindIt(t *testing.T) {
	line := &topology.Topology{}
	for i := range 5 {
		name := fmt.Sprint("sim-", 4-i) // not in the order of the fleet
		line.Nodes = append(line.Nodes, topology.Node{Name: name, Site: name, Pop: i == 4})
		if i > 0 {
			line.Links = append(line.Links, topology.Link{A: line.Nodes[i-1].Name, Z: name})
		}
	}
	d := &desk{document: config.Object{"a": "b"}, nodes: map[int]*handle{}, hold: true, again: 30 * time.Second,
		o: Options{Topology: line, FaultsAt: 2}}
	d.run(t, 2*time.Minute, []InjectedFault{"", "", LinkLoss, "", ""})
	if !slices.Equal(d.stands, []bool{true, true, true, true, true}) {
		t.Fatalf("%v", d.stands)
	}
	for i := range 5 {
		s := d.nodes[i]
		if want := 1 + min(1, i/2); s.streams != want {
			t.Errorf("node %d had %d streams, want %d", i, s.streams, want)
		}
		if away := s.upAt[len(s.upAt)-1].Sub(s.upAt[0]) - d.again; i >= 2 &&
			(away < LinkLossFor || away > LinkLossFor+time.Second) {
			t.Errorf("node %d was away for %v", i, away)
		}
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
		c := &desk{document: config.Object{"a": "b"}, nodes: map[int]*handle{}, every: every, hold: true}
		c.run(t, 10*time.Minute, []InjectedFault{""})
		return c.reports
	}
	standard, slow, fast := count(0), count(time.Minute), count(2*time.Second)
	// 600 s are 120, 10 and 300 intervals; a few more are for what changed.
	if standard < 118 || standard > 130 || slow < 9 || slow > 20 || fast < 298 || fast > 310 {
		t.Errorf("%d each 5 s, %d each minute, %d each 2 s", standard, slow, fast)
	}
}
