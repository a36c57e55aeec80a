package topology

// Paths holds the paths to points of presence. All links count, whether alive or not, except those to unknown nodes.
// Nodes of one site reach each other, since a person can walk between them.
type Paths struct {
	site   []int // by node: its site
	onSite [][]int
	next   [][]int // by node: the other ends of its links
	pops   []int
}

// NewPaths returns the Ways of a topology. Nodes and sites are numbered from 0: nodes as in Nodes.
func (t *Topology) NewPaths() *Paths {
	w := &Paths{site: make([]int, len(t.Nodes)), next: make([][]int, len(t.Nodes))}
	sites, nodes := map[string]int{}, make(map[string]int, len(t.Nodes))
	for i, n := range t.Nodes {
		s, known := sites[n.Site]
		if !known {
			s = len(sites)
			sites[n.Site] = s
			w.onSite = append(w.onSite, nil)
		}
		w.site[i], nodes[n.Name] = s, i
		w.onSite[s] = append(w.onSite[s], i)
		if n.Pop {
			w.pops = append(w.pops, i)
		}
	}
	for _, l := range t.Links {
		a, hasA := nodes[l.A]
		z, hasZ := nodes[l.Z]
		if hasA && hasZ && a != z {
			w.next[a], w.next[z] = append(w.next[a], z), append(w.next[z], a)
		}
	}
	return w
}

// Sites returns how many sites have nodes.
func (w *Paths) Sites() int { return len(w.onSite) }

// Site returns the site of a node.
func (w *Paths) Site(node int) int { return w.site[node] }

// Reached reports for each node whether it has a path to a point of presence while some nodes are down; a node that is
// down has none.
func (w *Paths) Reached(down func(node int) bool) []bool {
	up, met := make([]bool, len(w.next)), make([]bool, len(w.onSite))
	var todo []int
	enter := func(i int) {
		if !up[i] && !down(i) {
			up[i] = true
			todo = append(todo, i)
		}
	}
	for _, i := range w.pops {
		enter(i)
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, j := range w.next[i] {
			enter(j)
		}
		if s := w.site[i]; !met[s] {
			met[s] = true
			for _, j := range w.onSite[s] {
				enter(j)
			}
		}
	}
	return up
}
