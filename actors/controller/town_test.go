package controller

import (
	"fmt"
	"math"
	"strings"
)

// town is a network of the seed's kind: distribution sites of two radios on a grid without an
// edge, a point of presence at each sixtieth of them, and two clients of each site. Of ten
// clients nine have a second site to go by, as the seed's backup links give them; the tenth
// hangs on its site alone.
type town struct {
	names []string
	ids   []string // UUIDs
	pop   []bool
	near  [][]int // by node: its neighbours
	alone []int   // by node: the one it hangs on alone, else -1
	site  []int
}

// popEach is how many distribution sites share a point of presence.
const popEach = 60

// newTown is a town of at least so many nodes: four for each site of the grid.
func newTown(nodes int) *town {
	wide := int(math.Ceil(math.Sqrt(float64(nodes) / 4)))
	high := (nodes/4 + wide - 1) / wide
	t := &town{}
	for s := range wide * high {
		for k := range 4 {
			t.names = append(t.names, fmt.Sprintf("%s%05d-%d", [...]string{"dn", "dn", "cn", "cn"}[k], s, k))
			t.ids = append(t.ids, fmt.Sprintf("00000000-0000-4000-8000-%012x", s*4+k))
			t.pop = append(t.pop, k == 0 && s%popEach == 0)
			t.alone, t.site = append(t.alone, -1), append(t.site, s)
		}
	}
	t.near = make([][]int, len(t.names))
	for s := range wide * high {
		x, y := s%wide, s/wide
		east, south := y*wide+(x+1)%wide, (y+1)%high*wide+x
		t.link(s*4, s*4+1)
		t.link(s*4, east*4+1)
		t.link(s*4+1, south*4)
		t.link(s*4, s*4+2)
		t.link(s*4+1, s*4+3)
		t.link(s*4+2, east*4)
		if s%5 > 0 {
			t.link(s*4+3, south*4+1)
		} else {
			t.alone[s*4+3] = s*4 + 1
		}
	}
	return t
}

func (t *town) link(a, z int) { t.near[a], t.near[z] = append(t.near[a], z), append(t.near[z], a) }

// document is the town as a file of the seed's form.
func (t *town) document() string {
	var nodes, sites, links []string
	for i, name := range t.names {
		kind, site := 2, fmt.Sprintf("site-%05d", t.site[i])
		if strings.HasPrefix(name, "cn") {
			kind, site = 1, "site-"+name
		}
		nodes = append(nodes, fmt.Sprintf(`{"name":%q,"site_name":%q,"node_type":%d,"pop_node":%t,"mac_addr":"00:00:00:%02x:%02x:%02x"}`,
			name, site, kind, t.pop[i], (i+1)>>16, (i+1)>>8&255, (i+1)&255))
		if kind == 1 || i%4 == 0 {
			sites = append(sites, fmt.Sprintf(`{"name":%q,"latitude":1,"longitude":1,"altitude":1}`, site))
		}
		for _, j := range t.near[i] {
			if a, z := name, t.names[j]; a < z {
				links = append(links, fmt.Sprintf(`{"name":"link-%s-%s","a_node_name":%q,"z_node_name":%q,"link_type":1,"is_alive":true}`, a, z, a, z))
			}
		}
	}
	return fmt.Sprintf(`{"name":"town","nodes":[%s],"sites":[%s],"links":[%s]}`, strings.Join(nodes, ","), strings.Join(sites, ","), strings.Join(links, ","))
}

// cutOff are the nodes without a path to a point of presence while others are down, beside
// those that are down themselves. It is the plain search, which knows nothing of plans.
func (t *town) cutOff(down []bool) []int {
	reached := make([]bool, len(t.names))
	var front []int
	reach := func(i int) {
		if !reached[i] && !down[i] {
			reached[i] = true
			front = append(front, i)
		}
	}
	for i, pop := range t.pop {
		if pop {
			reach(i)
		}
	}
	for len(front) > 0 {
		i := front[len(front)-1]
		front = front[:len(front)-1]
		for _, j := range t.near[i] {
			reach(j)
		}
	}
	var out []int
	for i := range t.names {
		if !reached[i] && !down[i] {
			out = append(out, i)
		}
	}
	return out
}
