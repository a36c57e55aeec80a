package nodeconf

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/probe"
)

const uplinksPage = "../../docs/uplinks.md"

// What lies between these marks of docs/uplinks.md is written by -update.
const (
	workedBegin = "<!-- worked example: begin (written by go test ./config/nodeconf -update) -->\n"
	workedEnd   = "<!-- worked example: end -->\n"
)

// The worked example of docs/uplinks.md is what the core decides for examples/two-uplinks.yaml, by shots at the times at
// which the daemon sends them.
func TestTheWorkedExampleOfUplinksIsWhatIsDecided(t *testing.T) {
	config, err := os.ReadFile(filepath.Join(examples, "two-uplinks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, c, err := Read(config)
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(uplinksPage)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(old), "```yaml\n"+string(config)+"```\n") {
		t.Errorf("%s does not show examples/two-uplinks.yaml as it is", uplinksPage)
	}
	for i, block := range strings.Split(string(old), "```yaml\n")[1:] {
		doc, _, _ := strings.Cut(block, "```\n")
		if _, _, err := Read([]byte(doc)); err != nil {
			t.Errorf("%s: document %d: %v", uplinksPage, i+1, err)
		}
	}
	head, rest, ok := strings.Cut(string(old), workedBegin)
	_, tail, okEnd := strings.Cut(rest, workedEnd)
	if !ok || !okEnd {
		t.Fatalf("%s has lost its marks", uplinksPage)
	}
	golden(t, uplinksPage, head+workedBegin+newScene(c).play([]turn{
		{0, "the daemon starts", func(*scene) {}},
		{60 * time.Second, "nothing answers beyond the gateway of wan", func(s *scene) { s.far["wan"] = true }},
		{90 * time.Second, "it answers again", func(s *scene) { s.far["wan"] = false }},
		{150 * time.Second, "the cable of wan is pulled", func(s *scene) { s.plug("wan", false) }},
		{152 * time.Second, "it is back", func(s *scene) { s.plug("wan", true) }},
		{200 * time.Second, "nothing answers beyond either gateway", func(s *scene) {
			s.far["wan"], s.far["lte"] = true, true
		}},
	}, 240*time.Second)+workedEnd+tail)
}

// turn is something that happens to the uplinks.
type turn struct {
	at   time.Duration
	what string
	do   func(*scene)
}

// scene is a network with its chooser and the uplinks of the host.
type scene struct {
	ni      netinst.NetworkInstanceConfig
	ports   []netinst.PortStatus
	far     map[string]bool // ports beyond whose gateway nothing answers
	chooser *probe.Chooser
	watched []probe.ID
	runs    map[probe.ID]*run
	timers  map[uint64]time.Duration
	now     time.Duration
	last    probe.Choice
	rows    []row
}

// row is one row of the table: when, what happens, and how the ports are judged.
type row struct {
	at, what string
	cells    [2]string
}

// run is a probe that runs. Shots are named by the time at which they were sent.
type run struct {
	outcomes probe.Outcomes
	due      time.Duration
	flying   []flight
	answered time.Duration // the last shot that was answered
	late     bool          // a later one has no answer for too long
}

// flight is a shot under way.
type flight struct {
	from, to time.Duration
	outcome  probe.Outcome
}

func newScene(c Config) *scene {
	s := &scene{ni: c.Networks[uuid.MustParse(ni1)], far: map[string]bool{}, chooser: probe.New(probe.Record{}),
		runs: map[probe.ID]*run{}, timers: map[uint64]time.Duration{}}
	for label, address := range map[string]string{"wan": "192.0.2.2/24", "lte": "198.18.0.2/24"} {
		p := netinst.PortStatus{PortConfig: c.Ports[label], Exists: true, Up: true,
			Addresses: []netip.Prefix{netip.MustParsePrefix(address)}}
		p.Gateway = p.Addresses[0].Masked().Addr().Next()
		s.ports = append(s.ports, p)
	}
	return s
}

func (s *scene) time() time.Time { return time.Unix(0, 0).Add(s.now) }

func (s *scene) plug(label string, up bool) {
	for i := range s.ports {
		if s.ports[i].Label == label {
			s.ports[i].Up = up
		}
	}
}

// play lets time pass in steps of 5 ms and returns the table of what happened.
func (s *scene) play(turns []turn, end time.Duration) string {
	s.step(probe.Configured{Config: s.ni.Probe, Selectors: netinst.Selectors(s.ni), At: s.time()})
	for ; s.now < end; s.now += 5 * time.Millisecond {
		for _, t := range turns {
			if t.at == s.now {
				t.do(s)
				s.row(t.what, s.cells(s.last))
				s.step(probe.PortsSeen{Ports: netinst.ProbePorts(s.ni, s.ports), At: s.time()})
			}
		}
		for token, at := range s.timers {
			if at <= s.now {
				delete(s.timers, token)
				s.step(probe.TimerDue{Token: token, At: s.time()})
			}
		}
		for _, id := range slices.Clone(s.watched) {
			s.shoot(id)
		}
	}
	table := "\n| time | what happens | wan | lte |\n|---|---|---|---|\n"
	for _, r := range s.rows {
		table += fmt.Sprintf("| %s | %s | %s | %s |\n", r.at, r.what, r.cells[0], r.cells[1])
	}
	return table + "\n"
}

// shoot sends the shot of a probe that is due, and ends those that were answered or have timed out.
func (s *scene) shoot(id probe.ID) {
	r := s.runs[id]
	if r == nil {
		r = &run{outcomes: probe.Outcomes{ID: id}, due: s.now, answered: -1}
		s.runs[id] = r
	}
	for _, f := range r.flying {
		switch {
		case f.to == s.now:
			if f.outcome.OK() {
				r.answered, r.late = f.from, false
			}
			r.outcomes = r.outcomes.Add(f.outcome)
			r.due = min(r.due, s.now+r.outcomes.Next(r.late))
			s.step(probe.OutcomesSeen{Outcomes: r.outcomes, At: s.time()})
		case f.from+r.outcomes.Late() == s.now && f.from > r.answered && !r.late:
			r.late, r.due = true, s.now
		}
	}
	r.flying = slices.DeleteFunc(r.flying, func(f flight) bool { return f.to == s.now })
	if s.now < r.due {
		return
	}
	r.due = s.now + r.outcomes.Next(r.late)
	o := probe.Outcome{At: s.time(), Took: 20 * time.Millisecond}
	if s.far[id.Port] && id.Method != probe.ARP {
		o.Took, o.Error = id.Timeout, "no answer"
	}
	r.flying = append(r.flying, flight{s.now, s.now + o.Took, o})
}

func (s *scene) step(e probe.Event) {
	for _, eff := range s.chooser.Step(e) {
		switch e := eff.(type) {
		case probe.Watch:
			s.watched = e.IDs
			for id := range s.runs {
				if !slices.Contains(e.IDs, id) {
					delete(s.runs, id)
				}
			}
		case probe.Timer:
			s.timers[e.Token] = s.now + e.After
		case probe.Choose:
			s.decided(e.Choices[s.ni.Port])
		}
	}
}

// decided writes a row if a port is judged differently, or another one is in use.
func (s *scene) decided(c probe.Choice) {
	before, now := s.cells(s.last), s.cells(c)
	moved := c.Port != s.last.Port
	s.last = c
	if before == now {
		return
	}
	what := ""
	if moved && s.now > 0 {
		what = "*moved to " + c.Port + "*: " + c.Why
	}
	s.row(what, now)
}

// cells are how wan and lte are judged; the one in use is bold.
func (s *scene) cells(c probe.Choice) (cells [2]string) {
	for _, p := range c.Ports {
		i := slices.Index([]string{"wan", "lte"}, p.Label)
		if cells[i] = p.Class.String(); p.Label == c.Port {
			cells[i] = "**" + cells[i] + "**"
		}
	}
	return cells
}

// row adds a row, or completes the last one if that is of the same time and the new one says only how ports are judged.
func (s *scene) row(what string, cells [2]string) {
	at := fmt.Sprintf("%.1f s", s.now.Seconds())
	if i := len(s.rows) - 1; i >= 0 && s.rows[i].at == at && what == "" {
		s.rows[i].cells = cells
		return
	}
	s.rows = append(s.rows, row{at, what, cells})
}
