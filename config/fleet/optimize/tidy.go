package optimize

// valid reports whether the current values could be kept: every radio has a polarity, the ends of each link differ, and
// users' values are kept.
func (c *colouring) valid() bool {
	for g, group := range c.net.groups {
		first := c.now[group.radios[0]]
		for _, radio := range group.radios {
			if c.now[radio] == 0 || (c.now[radio] != first) != c.net.radios[radio].differs {
				return false
			}
		}
		if fixed := c.fixed[g]; fixed >= 0 && (first == even) != (fixed == allEven) {
			return false
		}
	}
	return true
}

// weight returns the weight of the mixed sites of an assignment, regardless of the current values.
func (c *colouring) weight(polarities []int) int64 {
	var sum int64
	weights := c.weights(false)
	for s, ok := range c.mixed(polarities) {
		if ok {
			sum += weights[s]
		}
	}
	return sum
}

// makeUniform makes sites uniform as far as the constraints allow: first those that already are, then the others, the
// lowest number first. Then it inverts connected parts of the network where that changes fewer radios.
func (c *colouring) makeUniform(polarities []int) []int {
	p, bySite := c.fixedParities()
	mixed := c.mixed(polarities)
	for _, now := range []bool{false, true} {
		for s, radios := range bySite {
			if mixed[s] == now && p.uniform(radios) {
				for _, r := range radios {
					p.join(radios[0], r, false)
				}
			}
		}
	}
	return c.chooseSides(p)
}

// fixedParities returns the parities that links and users fix. After the radios follows one more element, which is
// odd: users' values are relative to it.
func (c *colouring) fixedParities() (p *parities, bySite [][]int) {
	root := len(c.net.radios)
	p = newParities(root + 1)
	for g, group := range c.net.groups {
		first := group.radios[0]
		for _, radio := range group.radios[1:] {
			p.join(first, radio, c.net.radios[radio].differs)
		}
		if fixed := c.fixed[g]; fixed >= 0 {
			p.join(root, first, fixed == allEven)
		}
	}
	bySite = make([][]int, len(c.net.sites))
	for i, r := range c.net.radios {
		bySite[r.site] = append(bySite[r.site], i)
	}
	return p, bySite
}

// chooseSides chooses for each connected part the side with fewer changes, otherwise the one that makes its first radio
// odd.
func (c *colouring) chooseSides(p *parities) []int {
	changes := map[int][2]int{} // by part: radios that change if its head is odd, and if it is even
	for i, now := range c.now {
		head, differs := p.head(i)
		n := changes[head]
		if now != 0 {
			side := 0
			if (now == odd) != differs {
				side = 1
			}
			n[side]++
		}
		changes[head] = n
	}
	rootHead, rootDiffers := p.head(len(c.net.radios))
	first := map[int]bool{} // whether the first radio of a part differs from its head
	out := make([]int, len(c.now))
	for i := range c.now {
		head, differs := p.head(i)
		if _, seen := first[head]; !seen {
			first[head] = differs
		}
		n := changes[head]
		headEven := n[1] < n[0] || n[1] == n[0] && first[head]
		if head == rootHead {
			headEven = rootDiffers
		}
		out[i] = odd
		if headEven != differs {
			out[i] = even
		}
	}
	return out
}

// parities is a union-find of radios: for the members of a set it is known which differ.
type parities struct {
	up      []int
	differs []bool // from up
	size    []int
}

func newParities(n int) *parities {
	p := &parities{make([]int, n), make([]bool, n), make([]int, n)}
	for i := range p.up {
		p.up[i], p.size[i] = i, 1
	}
	return p
}

func (p *parities) head(i int) (head int, differs bool) {
	for p.up[i] != i {
		differs = differs != p.differs[i]
		i = p.up[i]
	}
	return i, differs
}

// with returns all members of an element's set.
func (p *parities) with(i int) (all []int) {
	head, _ := p.head(i)
	for other := range p.up {
		if h, _ := p.head(other); h == head {
			all = append(all, other)
		}
	}
	return all
}

// join records whether two elements differ, unless that is known already.
func (p *parities) join(a, b int, differ bool) {
	ha, da := p.head(a)
	hb, db := p.head(b)
	if ha == hb {
		return
	}
	if p.size[ha] < p.size[hb] {
		ha, hb = hb, ha
	}
	p.up[hb], p.differs[hb] = ha, da != db != differ
	p.size[ha] += p.size[hb]
}

// uniform reports whether radios could all be alike.
func (p *parities) uniform(radios []int) bool {
	seen := map[int]bool{}
	for _, r := range radios {
		head, differs := p.head(r)
		if before, there := seen[head]; there && before != differs {
			return false
		}
		seen[head] = differs
	}
	return true
}
