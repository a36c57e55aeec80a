package sketch

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"edgespan/config/fleet/topology"
)

// Kind is the shape of the links between the sites of distribution nodes.
type Kind string

// The kinds. All except Line and Tree have a second path between any two of these sites.
const (
	Line        Kind = "line"
	Ring        Kind = "ring"         // the original's figure 0, of any size
	FigureEight Kind = "figure-eight" // the original's lab F8: loops of four sites that share a side with the next one
	Grid        Kind = "grid"
	Tree        Kind = "tree" // three sites below each
)

// Kinds lists all kinds in display order.
var Kinds = []Kind{FigureEight, Line, Ring, Grid, Tree}

// PerPop is the default number of nodes for each point of presence, and LeastPerPop the minimum.
const (
	PerPop      = 25
	LeastPerPop = 2
)

// SketchPlan describes the topology to generate.
type SketchPlan struct {
	Kind   Kind
	PerPop int // nodes for each point of presence; there are at least two points of presence if there are two sites
}

// ParsePlan parses "grid" or "grid:40".
func ParsePlan(text string) (SketchPlan, error) {
	name, size, sized := strings.Cut(text, ":")
	p := SketchPlan{Kind(name), PerPop}
	if !slices.Contains(Kinds, p.Kind) {
		return SketchPlan{},
			fmt.Errorf("topology: invalid value %.40q: must be %s, each with or without :SIZE", name, KindList())
	}
	if sized {
		n, err := strconv.Atoi(size)
		if err != nil || n < LeastPerPop {
			return SketchPlan{},
				fmt.Errorf("topology: invalid size %.40q: must be %d or more nodes for each point of presence", size,
					LeastPerPop)
		}
		p.PerPop = n
	}
	return p, nil
}

// KindList lists the kinds, for people.
func KindList() string {
	var all []string
	for _, k := range Kinds {
		all = append(all, string(k))
	}
	return strings.Join(all, ", ")
}

// clients: one of this many nodes is a client node.
const clients = 5

// drawing is a topology under construction.
type drawing struct {
	t     *topology.Topology
	seed  uint64
	sites int // of distribution nodes; the sites of client nodes follow
	even  []bool
	busy  []int // by node: number of its wireless links
	on    [][]int
}

// Make generates sites and links for nodes of these names: two or three distribution nodes on a site, joined by
// ethernet, with wireless links to the neighbouring sites. One of five nodes is a client node on its own site, behind
// one distribution node. The first node of some sites, spread evenly, is a point of presence. The ends of a wireless
// link have different polarities. The same seed and names give the same topology.
func (p SketchPlan) Make(names []string, seed uint64) *topology.Topology {
	d := &drawing{t: &topology.Topology{Name: fmt.Sprintf("%s of %d nodes", p.Kind, len(names))}, seed: seed}
	relays := len(names) - len(names)/clients
	d.sites = min(relays, max(1, relays/2))
	if relays < 6 {
		d.sites = relays
	}
	if (p.Kind == Ring || p.Kind == FigureEight) && d.sites > 1 {
		d.sites -= d.sites % 2 // with an odd number, two polarities are not enough
	}
	for s := range d.sites {
		d.site(place(p.Kind, s, d.sites))
	}
	for i := range relays {
		d.node(names[i], topology.DN, i*d.sites/relays)
	}
	d.wires()
	for s := range d.sites {
		for _, up := range lowerNeighbours(p.Kind, s, d.sites) {
			d.wireless(d.free(up), d.free(s))
		}
	}
	d.addPOPs(p, len(names))
	for _, name := range names[relays:] {
		d.client(name, relays)
	}
	return d.t
}

// lowerNeighbours returns the sites with lower numbers that a site has links to.
func lowerNeighbours(k Kind, s, sites int) []int {
	var out []int
	add := func(yes bool, up int) {
		if yes && up >= 0 {
			out = append(out, up)
		}
	}
	switch columns := width(sites); k {
	case Line:
		add(true, s-1)
	case Ring:
		add(true, s-1)
		add(s == sites-1 && sites > 2, 0)
	case FigureEight: // two rails with rungs between them
		add(true, s-2)
		add(s%2 == 1, s-1)
	case Grid:
		add(s%columns > 0, s-1)
		add(true, s-columns)
	case Tree:
		add(s > 0, (s-1)/3)
	}
	return out
}

func width(sites int) int { return int(math.Ceil(math.Sqrt(float64(sites)))) }

// place returns the column and row of a site.
func place(k Kind, s, sites int) (column, row float64) {
	switch k {
	case Line:
		return float64(s), 0
	case Ring:
		turn := 2 * math.Pi * float64(s) / float64(sites)
		radius := float64(sites) / (2 * math.Pi)
		return radius * math.Cos(turn), radius * math.Sin(turn)
	case FigureEight:
		return float64(s / 2), float64(s % 2)
	case Grid:
		return float64(s % width(sites)), float64(s / width(sites))
	case Tree:
		depth, first, many := 0, 0, 1
		for s >= first+many {
			first, many, depth = first+many, many*3, depth+1
		}
		return float64(s-first) / float64(many) * float64(sites), float64(depth)
	}
	return 0, 0
}

// Coordinates of the sites: around the site in the original's files, with its step.
const (
	latitude, longitude, altitude = 37.484946, -122.1475237, 3.87
	step                          = 0.0003
)

func (d *drawing) site(column, row float64) {
	round := func(f float64) float64 { return math.Round(f*1e7) / 1e7 }
	d.t.Sites = append(d.t.Sites, topology.Site{
		Name: fmt.Sprintf("site-%05d", len(d.t.Sites)+1), Latitude: round(latitude - row*step),
		Longitude: round(longitude + column*step), Altitude: altitude, Located: true,
	})
	d.on = append(d.on, nil)
}

func (d *drawing) node(name string, kind topology.NodeType, site int) {
	i := len(d.t.Nodes)
	d.t.Nodes = append(d.t.Nodes, topology.Node{
		Name: name, Type: kind, MAC: fmt.Sprintf("02:08:%02x:%02x:%02x:00", i>>16&0xff, i>>8&0xff, i&0xff),
		Status: topology.Online, Site: d.t.Sites[site].Name,
	})
	d.busy = append(d.busy, 0)
	d.on[site] = append(d.on[site], i)
}

func (d *drawing) link(a, z int, kind topology.LinkType) {
	t := d.t
	if t.Nodes[a].Name > t.Nodes[z].Name {
		a, z = z, a
	}
	t.Links = append(t.Links, topology.Link{
		Name: topology.LinkName(t.Nodes[a].Name, t.Nodes[z].Name), A: t.Nodes[a].Name, Z: t.Nodes[z].Name,
		AMAC: t.Nodes[a].MAC, ZMAC: t.Nodes[z].MAC,
		Type: kind, Alive: true,
	})
}

// wires joins the nodes of each site with each other.
func (d *drawing) wires() {
	for _, nodes := range d.on {
		for i, a := range nodes {
			for _, z := range nodes[i+1:] {
				d.link(a, z, topology.Ethernet)
			}
		}
	}
}

// wireless joins a node to a later one, whose site takes its polarity from it.
func (d *drawing) wireless(a, z int) {
	d.busy[a]++
	d.busy[z]++
	d.link(a, z, topology.Wireless)
}

// free returns the node of a site with the fewest wireless links.
func (d *drawing) free(site int) int {
	return slices.MinFunc(d.on[site], func(a, b int) int { return d.busy[a] - d.busy[b] })
}

// addPOPs chooses the points of presence, and sets the polarities of distribution nodes.
func (d *drawing) addPOPs(p SketchPlan, nodes int) {
	if d.sites == 0 {
		return
	}
	desired := max(1, min(d.sites, max(2, (nodes+p.PerPop/2)/p.PerPop)))
	phase := d.next() % uint64(d.sites)
	for k := range desired {
		s := (int(phase) + k*d.sites/desired) % d.sites
		d.t.Nodes[d.on[s][0]].Pop = true
	}
	d.even = make([]bool, d.sites)
	for s := range d.sites {
		if up := lowerNeighbours(p.Kind, s, d.sites); len(up) > 0 {
			d.even[s] = !d.even[up[0]]
		}
		for _, i := range d.on[s] {
			d.t.Nodes[i].Polarity = polarity(d.even[s])
		}
	}
}

func polarity(even bool) int {
	if even {
		return 2
	}
	return 1
}

// client adds a client node behind a random distribution node.
func (d *drawing) client(name string, relays int) {
	up := int(d.next() % uint64(relays))
	at := up * d.sites / relays
	beside := d.t.Sites[at]
	d.site((beside.Longitude-longitude)/step+0.3, (latitude-beside.Latitude)/step+0.3)
	d.node(name, topology.CN, len(d.t.Sites)-1)
	i := len(d.t.Nodes) - 1
	d.t.Nodes[i].Polarity = polarity(!d.even[at])
	d.wireless(up, i)
}

// next returns the next number of the seed's sequence (splitmix64).
func (d *drawing) next() uint64 {
	d.seed += 0x9e3779b97f4a7c15
	z := d.seed
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
