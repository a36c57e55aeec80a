package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"edgespan/platform/lab"
)

// maxDrawnNets is the maximum of networks in a drawn history of uplinks.
const maxDrawnNets = 5

// uplinkHistory is a drawn world of uplinks and what happens to it. It is drawn before anything runs, so that a seed is
// always the same one.
type uplinkHistory struct {
	first uplinkScene
	steps []uplinkStep
}

// uplinkScene is a node with its uplinks, and what each of these really does.
type uplinkScene struct {
	ports []drawnPort
	nets  []drawnNet
}

type drawnPort struct {
	cost    int
	shared  bool      // has the label "some"
	drained bool      // by an operator
	fault   lab.Fault // "" for none: it leads out
}

type drawnNet struct {
	port, flows string
	probe       drawnProbe
	six         drawnSix
	share       bool
}

// drawnSix is the IPv6 of a network.
type drawnSix string

const (
	without6 drawnSix = ""
	nat6     drawnSix = "translated"
	routed6  drawnSix = "routed"
)

// subnet6 is the IPv6 subnet of network n.
func subnet6(n int) string { return fmt.Sprintf("2001:db8:7:%d::/64", n) }

// drawnProbe is how a network probes; without a hold, the config has no probe at all.
type drawnProbe struct {
	method, target                                      string
	interval, timeout, hold /* ms */, failAfter, answer int
}

// uplinkStep is one thing that happens. Only what its kind needs is set.
type uplinkStep struct {
	kind   stepKind
	uplink int
	fault  lab.Fault
	argv   []string // of flush and drain
	net    int      // of apply: the network whose port or probe changes, -1 if none
	text   string
	after  uplinkScene
	pause  time.Duration // before it
}

type stepKind string

const (
	breaks  stepKind = "break"
	repairs stepKind = "repair"
	applies stepKind = "apply"
	kills   stepKind = "kill -9 and restart"
	flushed stepKind = "flush"
	drains  stepKind = "drain or undrain"
)

func drawUplinks(r *rand.Rand) uplinkHistory {
	var h uplinkHistory
	h.first.ports = make([]drawnPort, 2+r.IntN(lab.MaxUplinks-1))
	for i := range h.first.ports {
		h.first.ports[i] = drawnPort{cost: drawCost(r), shared: r.IntN(2) == 0}
	}
	h.first.nets = make([]drawnNet, 1+r.IntN(maxDrawnNets))
	for i := range h.first.nets {
		six := []drawnSix{without6, nat6, nat6, routed6}[r.IntN(4)]
		h.first.nets[i] = drawnNet{h.first.drawPort(r), drawFlows(r), drawProbe(r, six), six, r.IntN(3) == 0}
	}
	now := h.first
	for range 6 + r.IntN(7) {
		s := now.drawStep(r)
		now = s.after
		h.steps = append(h.steps, s)
	}
	return h
}

func drawFlows(r *rand.Rand) string { return []string{"reset", "drain", "keep"}[r.IntN(3)] }

func drawCost(r *rand.Rand) int { return []int{0, 10, 10, 20}[r.IntN(4)] }

// drawPort returns a network's `port`: mostly one that leaves a choice.
func (s uplinkScene) drawPort(r *rand.Rand) string {
	n := 0
	for _, p := range s.ports {
		if p.shared {
			n++
		}
	}
	switch k := r.IntN(8); {
	case k == 0:
		return uplinkLabels[r.IntN(len(s.ports))]
	case k < 4 && n > 0:
		return "some"
	}
	return "uplink"
}

// drawProbe draws the settings of a network. One with IPv6 probes a host of each family: the ports have no DNS server of
// IPv6, and their routers answer while everything behind them is dead.
func drawProbe(r *rand.Rand, six drawnSix) (p drawnProbe) {
	if r.IntN(6) == 0 && six == without6 {
		return drawnProbe{}
	}
	p = drawnProbe{hold: 500 + 100*r.IntN(16), interval: []int{200, 500, 1000}[r.IntN(3)],
		timeout: []int{600, 800}[r.IntN(2)], failAfter: 4 + r.IntN(5), answer: 1 + r.IntN(4)}
	methods := 5
	if six != without6 {
		methods = 3
	}
	switch r.IntN(methods) {
	case 0:
		p.method, p.target = "icmp", lab.WebAddr
	case 1:
		p.method, p.target = "tcp", lab.WebAddr+":80"
	case 2:
		p.method, p.target = "http", "http://"+lab.WebAddr+"/"
	case 3:
		p.method, p.target = "dns", lab.DNSAddr
	}
	far := "[" + isp6Web + "]"
	if p.method == "icmp" {
		far = isp6Web
	}
	if six != without6 {
		p.target += "," + strings.Replace(p.target, lab.WebAddr, far, 1)
	}
	return p
}

func (s uplinkScene) drawStep(r *rand.Rand) uplinkStep {
	step := uplinkStep{after: s.clone(), net: -1, pause: time.Duration(r.IntN(800)) * time.Millisecond}
	if r.IntN(5) == 0 {
		step.pause += 3 * time.Second
	}
	switch k := r.IntN(20); {
	case k < 9:
		step.drawFault(r)
	case k < 11:
		step.drawDrain(r)
	case k < 15:
		step.kind = applies
		step.drawChange(r)
	case k < 18:
		step.kind, step.text = kills, string(kills)
	default:
		all := [][]string{{"iptables", "-F"}, {"iptables", "-t", "nat", "-F"}, {"iptables", "-F", "FORWARD"},
			{"nft", "flush", "ruleset"}}
		step.kind, step.argv = flushed, all[r.IntN(len(all))]
		step.text = strings.Join(step.argv, " ")
	}
	return step
}

// drawFault breaks an uplink that works, or repairs one that does not.
func (step *uplinkStep) drawFault(r *rand.Rand) {
	all := []lab.Fault{lab.FarSideDead, lab.GatewayDead, lab.LinkDown, lab.AddressLost}
	step.kind, step.uplink, step.fault = breaks, r.IntN(len(step.after.ports)), all[r.IntN(len(all))]
	p := &step.after.ports[step.uplink]
	if p.fault != "" {
		step.kind, step.fault = repairs, p.fault
		p.fault = ""
	} else {
		p.fault = step.fault
	}
	step.text = fmt.Sprintf("%s %s: %s", step.kind, uplinkLabels[step.uplink], step.fault)
}

// drawDrain drains a port, or ends its drain.
func (step *uplinkStep) drawDrain(r *rand.Rand) {
	i := r.IntN(len(step.after.ports))
	p := &step.after.ports[i]
	p.drained = !p.drained
	step.kind, step.argv = drains, []string{"port", map[bool]string{true: "drain", false: "undrain"}[p.drained],
		uplinkLabels[i]}
	step.text = strings.Join(step.argv, " ")
}

// drawChange changes the config in one way.
func (step *uplinkStep) drawChange(r *rand.Rand) {
	s := &step.after
	n := r.IntN(len(s.nets))
	switch r.IntN(5) {
	case 4:
		s.nets[n].share = !s.nets[n].share
		step.text = fmt.Sprintf("apply: network %d has share %v", n+1, s.nets[n].share)
	case 3:
		s.nets[n].flows, step.net = drawFlows(r), -1
		step.text = fmt.Sprintf("apply: network %d has flows %s", n+1, s.nets[n].flows)
	case 0:
		i := r.IntN(len(s.ports))
		s.ports[i].cost = drawCost(r)
		step.text = fmt.Sprintf("apply: %s has cost %d", uplinkLabels[i], s.ports[i].cost)
	case 1:
		s.nets[n].port, step.net = s.drawPort(r), n
		step.text = fmt.Sprintf("apply: network %d has port %s", n+1, s.nets[n].port)
	default:
		s.nets[n].probe, step.net = drawProbe(r, s.nets[n].six), n
		step.text = fmt.Sprintf("apply: network %d has probe %s", n+1, s.nets[n].probe)
	}
}

func (s uplinkScene) clone() uplinkScene {
	return uplinkScene{slices.Clone(s.ports), slices.Clone(s.nets)}
}

// faultOf returns what is wrong with a family of an uplink, "" for nothing: a lost address is one of IPv4.
func (p drawnPort) faultOf(six bool) lab.Fault {
	if six && p.fault == lab.AddressLost {
		return ""
	}
	return p.fault
}

// may reports whether a network may use an uplink.
func (s uplinkScene) may(net, uplink int) bool {
	switch port := s.nets[net].port; port {
	case "uplink":
		return true
	case "some":
		return s.ports[uplink].shared
	default:
		return port == uplinkLabels[uplink]
	}
}

// doc returns the config of a scene: network and app n are in namespace drawnApp(n).
func (s uplinkScene) doc() string {
	var b strings.Builder
	b.WriteString("ports:\n")
	for i, p := range s.ports {
		shared := ""
		if p.shared {
			shared = ", labels: some"
		}
		fmt.Fprintf(&b, "  %s: {ifName: uplink%d, uplink: true, cost: %d, dnsServers: %s%s}\n", uplinkLabels[i], i, p.cost,
			lab.DNSAddr, shared)
	}
	b.WriteString("networkInstances:\n")
	for i, n := range s.nets {
		six := ""
		if n.six != without6 {
			six = fmt.Sprintf("    ipv6: {subnet: %q, nat: %v}\n", subnet6(i+1), n.six == nat6)
		}
		b.WriteString(strings.Replace(network(i+1, six), "port: wan",
			fmt.Sprintf("port: %s\n    flows: %s\n    share: %v\n    probe: %s", n.port, n.flows, n.share, n.probe), 1))
	}
	b.WriteString("appNetworks:\n")
	for i := range s.nets {
		b.WriteString(onNet(i+1, i+1, drawnApp(i), allowAll))
	}
	return b.String()
}

func drawnApp(n int) string { return fmt.Sprintf("app%d", n+1) }

func (p drawnProbe) String() string {
	if p.hold == 0 {
		return "{}"
	}
	target := ""
	if p.method != "" {
		target = fmt.Sprintf("method: %s, target: %q, ", p.method, p.target)
	}
	return fmt.Sprintf("{%sintervalMs: %d, timeoutMs: %d, failAfter: %d, recoverAfter: %d, holdMs: %d}", target,
		p.interval, p.timeout, p.failAfter, p.answer, p.hold)
}

// filled returns p with the defaults, as docs/configuration.md has them.
func (p drawnProbe) filled() drawnProbe {
	if p.hold == 0 {
		return drawnProbe{interval: 1000, timeout: 800, failAfter: 8, answer: 3, hold: 10_000}
	}
	return p
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// failsWithin returns the longest time from the end of a far side until the network knows: an interval until the next
// shot, ten times as many after it, and the timeout of the last.
func (p drawnProbe) failsWithin() time.Duration {
	p = p.filled()
	return ms(p.interval + p.failAfter*max(p.interval/10, 50) + p.timeout)
}

// answersWithin returns the longest time from a repair until the network knows: the shots are an interval apart.
func (p drawnProbe) answersWithin() time.Duration {
	p = p.filled()
	return ms((p.answer+1)*p.interval + p.timeout)
}

// heldFor returns the longest hold-down of a port that failed so many times.
func (p drawnProbe) heldFor(failures int) time.Duration {
	return ms(p.filled().hold << max(0, failures-1))
}

// String is how a history is printed.
func (h uplinkHistory) String() string {
	var b strings.Builder
	b.WriteString(h.first.doc())
	for i, s := range h.steps {
		fmt.Fprintf(&b, "step %d: wait %v, %s\n", i+1, s.pause, s.text)
	}
	return b.String()
}
