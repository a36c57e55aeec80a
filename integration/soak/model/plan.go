package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is what a step does.
type Kind string

// The changes. Change writes the configuration of one node to the controller.
const (
	Change  Kind = "change"
	Rollout Kind = "rollout"                // a setting of all nodes, in stages
	Layer   Kind = "overrides of all nodes" // in stages, too
	Deploy  Kind = "cluster"                // of all nodes, described and deployed, or undeployed
	Quiet   Kind = "quiet"                  // ends all faults, waits until all nodes are settled, and judges
)

// The faults.
const (
	KillDaemon    Kind = "kill the daemon"
	KillHelper    Kind = "kill a helper"
	StopHelper    Kind = "stop a helper" // SIGSTOP
	OOMHelper     Kind = "let the kernel kill a helper for its memory"
	PowerCut      Kind = "cut the power"
	HangCommand   Kind = "hang a command"
	Overflow      Kind = "overflow netlink"
	FillDisk      Kind = "fill the disk"
	JumpClock     Kind = "set the clock"
	CutUplink     Kind = "cut an uplink"
	LoseFrames    Kind = "lose frames"
	FlapUplink    Kind = "flap an uplink"
	ChangeMTU     Kind = "change an MTU"
	Flush         Kind = "flush rules"
	Hostile       Kind = "let an app attack"
	Partition     Kind = "cut off the controller"
	StopDaemon    Kind = "stop and start the daemon"
	KillControl   Kind = "kill the controller"
	DeleteObjects Kind = "delete objects of a network"
)

// Step is one step of a plan.
type Step struct {
	Number int
	Kind   Kind
	Node   int           // 0: none, or all
	Arg    int           // what is chosen among several
	For    time.Duration // how long a fault lasts
	Pause  time.Duration // until the next step
	Fleet  Fleet         // the configurations after the step
	// Port is that of network 1 in the overrides of all nodes, and Cluster the cluster, after the step.
	Port    string
	Cluster Cluster
	Text    string
}

// Cluster is what the cluster of all nodes is like.
type Cluster struct{ Deployed, Mesh, Encrypted bool }

// String says what the step does.
func (s Step) String() string {
	text := fmt.Sprintf("step %d: %s", s.Number, s.Kind)
	if s.Node != 0 {
		text += fmt.Sprintf(" of node %d", s.Node)
	}
	if s.Text != "" {
		text += ": " + s.Text
	}
	if s.For != 0 {
		text += fmt.Sprintf(", for %v", s.For)
	}
	return text
}

// faults are the faults with their weights, and how long one lasts at the longest; 0: a moment.
var faults = []struct {
	kind    Kind
	weight  int
	longest time.Duration
}{
	{KillDaemon, 4, 0}, {KillHelper, 4, 0}, {StopHelper, 3, 40 * time.Second}, {OOMHelper, 2, 0}, {PowerCut, 2, 0},
	{HangCommand, 2, time.Minute}, {Overflow, 2, 0}, {FillDisk, 2, 30 * time.Second}, {JumpClock, 3, 30 * time.Second},
	{CutUplink, 3, 30 * time.Second}, {LoseFrames, 3, 30 * time.Second}, {FlapUplink, 2, 20 * time.Second},
	{ChangeMTU, 2, 30 * time.Second}, {Flush, 3, 0}, {Hostile, 3, 20 * time.Second}, {Partition, 3, 30 * time.Second},
	{StopDaemon, 1, 0}, {KillControl, 2, 0}, {DeleteObjects, 3, 0},
}

// FaultKinds are all kinds of faults.
func FaultKinds() []Kind {
	var out []Kind
	for _, f := range faults {
		out = append(out, f.kind)
	}
	return out
}

// Plan draws steps from a seed: two plans of one seed and one number of nodes are equal, whatever the nodes do.
type Plan struct {
	random *rand.Rand
	number int
	fleet  Fleet
	port   string // of network 1 in the overrides of all nodes
	yard   Cluster
	due    []Kind // faults of the current round: each comes once before any comes again
	round  int    // steps until the next Quiet
	only   []Kind
}

// NewPlan returns the plan of a seed. With only, it draws no other faults.
func NewPlan(seed uint64, nodes int, only ...Kind) *Plan {
	p := &Plan{random: rand.New(rand.NewPCG(seed, 24)), only: only, port: "uplink"} // #nosec G404 -- it must repeat
	for range nodes {
		p.fleet = append(p.fleet, p.firstNode())
	}
	return p
}

// Fleet returns the configurations at the begin, or after the last step.
func (p *Plan) Fleet() Fleet { return p.fleet.Clone() }

// Port returns the port of network 1 in the overrides of all nodes.
func (p *Plan) Port() string { return p.port }

func (p *Plan) firstNode() Node {
	return Node{
		Networks: map[int]Network{1: {Port: p.port, Layered: true}, 2: {Port: "wan"}, VPN: {Port: "uplink"}},
		Apps: map[int]App{1: {1, Open, true}, 2: {1, Server, true}, 3: {2, Narrow, true}, 4: {VPN, Open, true},
			TapApp: {2, Open, true}},
	}
}

// stepsOfRound is how many steps lie between two judgements in quiet.
const stepsOfRound = 6

// Next draws the next step.
func (p *Plan) Next() Step {
	p.number++
	s := Step{Number: p.number, Pause: time.Duration(2+p.random.IntN(6)) * time.Second}
	switch {
	case p.round == stepsOfRound:
		p.round = 0
		s.Kind = Quiet
	case p.random.IntN(2) == 0:
		p.round++
		p.drawChange(&s)
	default:
		p.round++
		p.drawFault(&s)
	}
	s.Fleet, s.Port, s.Cluster = p.fleet.Clone(), p.port, p.yard
	return s
}

func (p *Plan) drawFault(s *Step) {
	if len(p.due) == 0 {
		p.refill()
	}
	s.Kind, p.due = p.due[0], p.due[1:]
	s.Node, s.Arg = 1+p.random.IntN(len(p.fleet)), p.random.IntN(1<<16)
	for _, f := range faults {
		if f.kind == s.Kind && f.longest > 0 {
			s.For = f.longest/4 + time.Duration(p.random.Int64N(int64(f.longest*3/4)))
			s.For = s.For.Round(time.Second)
		}
	}
	switch s.Kind {
	case KillControl:
		s.Node = 0
	case KillDaemon, StopDaemon, PowerCut:
		// The daemon of node 1 runs all the time: what it takes must not grow.
		s.Node = 1 + min(s.Node, len(p.fleet)-1)
	}
}

// refill draws an order of all faults, the frequent ones several times.
func (p *Plan) refill() {
	for _, f := range faults {
		if len(p.only) > 0 && !slices.Contains(p.only, f.kind) {
			continue
		}
		for range f.weight {
			p.due = append(p.due, f.kind)
		}
	}
	p.random.Shuffle(len(p.due), func(i, j int) { p.due[i], p.due[j] = p.due[j], p.due[i] })
	// Each kind comes once before any comes again, so that a short soak has had all of them.
	seen, first, again := map[Kind]bool{}, []Kind(nil), []Kind(nil)
	for _, k := range p.due {
		if seen[k] {
			again = append(again, k)
		} else {
			first = append(first, k)
		}
		seen[k] = true
	}
	p.due = append(first, again...)
}

func (p *Plan) drawChange(s *Step) {
	s.Kind, s.Node = Change, 1+p.random.IntN(len(p.fleet))
	n := p.fleet.Node(s.Node)
	switch p.random.IntN(10) {
	case 0:
		s.Kind, s.Node, s.Text = Rollout, 0, "the level of the log"
		s.Arg = p.random.IntN(2)
	case 1:
		p.drawNetwork(s, n)
	case 2:
		w := n.Networks[1]
		w.MTU = []int{0, 1300, 1400, 1500}[p.random.IntN(4)]
		n.Networks[1], s.Text = w, fmt.Sprintf("network 1 has the MTU %d", w.MTU)
	case 3:
		w := n.Networks[1]
		w.Port, w.Layered = []string{"uplink", "wan", "lte"}[p.random.IntN(3)], false
		s.Text = fmt.Sprintf("network 1 leads out by %q", w.Port)
		if p.random.IntN(2) == 0 {
			w.Port, w.Layered = p.port, true
			s.Text = "network 1 leads out by what the overrides of all nodes say"
		}
		n.Networks[1] = w
	case 4:
		p.drawLayer(s)
	case 5:
		p.drawCluster(s)
	default:
		p.drawApp(s, n)
	}
}

// drawLayer changes the overrides of all nodes, which hold where a node's own say nothing.
func (p *Plan) drawLayer(s *Step) {
	p.port = []string{"uplink", "wan", "lte", ""}[p.random.IntN(4)]
	s.Kind, s.Node, s.Text = Layer, 0, fmt.Sprintf("network 1 leads out by %q where its node does not say", p.port)
	for _, n := range p.fleet {
		if w := n.Networks[1]; w.Layered {
			w.Port = p.port
			n.Networks[1] = w
		}
	}
}

// drawCluster deploys the cluster, changes it, or undeploys it.
func (p *Plan) drawCluster(s *Step) {
	s.Kind, s.Node = Deploy, 0
	p.yard = Cluster{p.random.IntN(4) > 0, p.random.IntN(2) == 0, p.random.IntN(2) == 0}
	s.Text = fmt.Sprintf("deployed %v, mesh %v, encrypted %v", p.yard.Deployed, p.yard.Mesh, p.yard.Encrypted)
	for i := range p.fleet {
		p.fleet[i].Joined, p.fleet[i].Plain = p.yard.Deployed, !p.yard.Encrypted
	}
}

// drawNetwork adds or removes a network, with the apps in it.
func (p *Plan) drawNetwork(s *Step, n Node) {
	number := []int{2, 3, VPN}[p.random.IntN(3)]
	if _, ok := n.Networks[number]; !ok {
		n.Networks[number] = Network{Port: []string{"uplink", "wan", ""}[p.random.IntN(3)]}
		s.Text = fmt.Sprintf("network %d by %q comes", number, n.Networks[number].Port)
		return
	}
	delete(n.Networks, number)
	for k, a := range n.Apps {
		if a.Network == number {
			a.Network = 1
			n.Apps[k] = a
		}
	}
	s.Text = fmt.Sprintf("network %d goes, its apps move to network 1", number)
}

// drawApp adds, removes, moves or changes an app.
func (p *Plan) drawApp(s *Step, n Node) {
	number := 1 + p.random.IntN(TapApp)
	a, ok := n.Apps[number]
	networks := slices.Sorted(maps.Keys(n.Networks))
	switch kind := p.random.IntN(4); {
	case !ok:
		a = App{networks[p.random.IntN(len(networks))], p.drawRules(), true}
		s.Text = fmt.Sprintf("app %d comes to network %d, %s", number, a.Network, a.Rules)
	case kind == 0 && len(n.Apps) > 2:
		delete(n.Apps, number)
		s.Text = fmt.Sprintf("app %d goes", number)
		return
	case kind == 1:
		a.Active = !a.Active
		s.Text = fmt.Sprintf("app %d is active: %v", number, a.Active)
	case kind == 2:
		a.Network = networks[p.random.IntN(len(networks))]
		s.Text = fmt.Sprintf("app %d moves to network %d", number, a.Network)
	default:
		a.Rules = p.drawRules()
		s.Text = fmt.Sprintf("app %d is %s", number, a.Rules)
	}
	n.Apps[number] = a
}

func (p *Plan) drawRules() Rules {
	return []Rules{Open, Server, Narrow, Closed}[p.random.IntN(4)]
}
