package field

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"edgespan/integration/soak/guest"
	"edgespan/integration/soak/model"
	"edgespan/integration/soak/report"
)

// inForce is how long after a change packets may still be treated, and told, as before it: an app tells what it has
// seen every guest.TellEvery.
const inForce = guest.TellEvery + 3*time.Second

// maxViolations are noted, and no more.
const maxViolations = 1000

// referee holds the configurations that may be in force, and what was seen against them.
type referee struct {
	begin   time.Time
	capture func(number int) // told of each violation that is noted, and does not wait; nil: nothing

	mu         sync.Mutex // of all below
	history    []dated    // what may be in force: the last is the newest
	violations []report.Violation
	told       map[string]int          // equal violations, to tell each a few times only
	onWire     int64                   // frames judged
	atApps     int64                   // beacons judged
	open       map[int]time.Time       // until when packets may pass a node openly
	openly     int64                   // packets that did
	left       map[model.Endpoint]bool // whose beacons the wire has seen, of what may leave
}

type dated struct {
	since time.Time
	fleet model.Fleet
}

func newReferee(begin time.Time, fleet model.Fleet) *referee {
	return &referee{begin: begin, history: []dated{{begin, fleet}}, told: map[string]int{},
		open: map[int]time.Time{}, left: map[model.Endpoint]bool{}}
}

// opened tells that another program has removed all rules of a node, which has them back at a time, and that nothing
// could stop that: meanwhile what passes there is counted, and is no violation.
func (j *referee) opened(node int, until time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[node] = until
}

// isOpen reports whether what is told that much later than it was seen may have passed one of the nodes openly.
func (j *referee) isOpen(later time.Duration, nodes ...int) bool {
	return slices.ContainsFunc(nodes, func(n int) bool { return time.Now().Before(j.open[n].Add(later)) })
}

// changed tells that another configuration may be in force from now on.
func (j *referee) changed(f model.Fleet) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.history = append(j.history, dated{time.Now(), f})
}

// settled tells that the newest configuration is in force on all nodes, and has been for as long as anything is told.
func (j *referee) settled() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.history = j.history[len(j.history)-1:]
}

// violated notes a broken invariant. Of equal ones it notes the first three.
func (j *referee) violated(machine, invariant, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.note(machine, invariant, text)
}

func (j *referee) note(machine, invariant, text string) {
	if len(j.violations) >= maxViolations { // a broken node makes as many texts as it sends packets
		return
	}
	key := machine + invariant + text
	if j.told[key]++; j.told[key] <= 3 {
		at := time.Since(j.begin).Round(time.Millisecond)
		j.violations = append(j.violations, report.Violation{At: at, Machine: machine, Invariant: invariant, Text: text})
		if j.capture != nil {
			j.capture(len(j.violations))
		}
		fmt.Printf("%8s  VIOLATED on %s: %s: %s\n", at.Round(time.Second), machine, invariant, text)
	}
}

// seen returns how much was judged, how many packets passed openly, and what was found.
func (j *referee) seen() (frames, beacons, openly int64, violations []report.Violation) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.onWire, j.atApps, j.openly, slices.Clone(j.violations)
}

// app judges beacons that an app, or the server outside, has seen.
func (j *referee) app(to model.Endpoint, s guest.Sighting) {
	from, err := model.ParseEndpoint(s.From)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.atApps += int64(s.N)
	text := fmt.Sprintf("app %v saw %d beacons of app %v to port %d", to, s.N, from, s.Port)
	if err != nil || s.From == guest.Spoofed {
		text = fmt.Sprintf("app %v saw %d beacons of %q", to, s.N, s.From)
	} else if j.mayReach(from, to, s.Port) {
		return
	}
	if j.isOpen(inForce, from.Node, to.Node) {
		j.openly += int64(s.N)
		return
	}
	j.note(nodeName(to.Node), "no packet past a rule", text)
}

// mayReach reports whether a configuration that may be in force allows a beacon.
func (j *referee) mayReach(from, to model.Endpoint, port int) bool {
	return slices.ContainsFunc(j.history, func(d dated) bool { return d.fleet.MayReach(from, to, port) })
}

// mayLeave reports whether a configuration that may be in force allows a beacon to leave its node.
func (j *referee) mayLeave(from model.Endpoint, to netip.AddrPort) bool {
	return slices.ContainsFunc(j.history, func(d dated) bool {
		return d.fleet.MayLeave(from, to.Addr().String(), int(to.Port()))
	})
}

// mustReach reports whether each configuration that may be in force allows a beacon.
func (j *referee) mustReach(from, to model.Endpoint, port int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !slices.ContainsFunc(j.history, func(d dated) bool { return !d.fleet.MayReach(from, to, port) })
}

// hasLeft reports whether the wire has seen a beacon of an app since forgetLeft.
func (j *referee) hasLeft(from model.Endpoint) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.left[from]
}

func (j *referee) forgetLeft(from model.Endpoint) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.left, from)
}

// frame judges a frame that a node has sent to a provider.
func (j *referee) frame(node, segment int, frame []byte) {
	wrong := leak(frame, node, segment)
	u, isUDP := guest.UDP{}, false
	if len(frame) > 34 && frame[12] == 8 && frame[13] == 0 {
		u, isUDP = guest.ParseUDP(frame[14:])
	}
	from := ""
	if isUDP {
		from = u.Beacon()
	}
	e, err := model.ParseEndpoint(from)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.onWire++
	past := from != "" &&
		(err != nil || e.Node != node || !j.mayLeave(e, u.Dst))
	if from != "" && !past {
		j.left[e] = true
	}
	clear := isUDP && u.Carries() &&
		!slices.ContainsFunc(j.history, func(d dated) bool { return d.fleet.MayTunnel(node) })
	if clear {
		j.note(nodeName(node), "tunnels are encrypted", fmt.Sprintf("a beacon inside a packet to %v left by %s in the clear",
			u.Dst, linkName(segment)))
	}
	if (wrong != "" || past) && j.isOpen(0, node) {
		j.openly++
		return
	}
	if wrong != "" {
		j.note(nodeName(node), "no address of an app outside", wrong)
	}
	if past {
		j.note(nodeName(node), "no packet past a rule",
			fmt.Sprintf("a beacon of %q to %v left by %s", from, u.Dst, linkName(segment)))
	}
}

func nodeName(node int) string {
	if node == 0 {
		return "outside"
	}
	return fmt.Sprintf("node%d", node)
}

func linkName(segment int) string { return fmt.Sprintf("eth%d", segment) }
