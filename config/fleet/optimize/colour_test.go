package optimize

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/fleet/topology"
)

// IRSP = -8 - 20log10(d) - 0.036d + arrayLoss(tx) + arrayLoss(rx); loss 0 (≤5°), -13 (≤10°),
// -17 (≤16°), -20 (≤90°), -45; ignored if d≤0, d>500 m or IRSP < -80; 10^((IRSP+60)/10).
func TestStrength(t *testing.T) {
	for _, c := range []struct{ metres, sender, receiver, dB float64 }{
		{100, 0, 0, -51.6},
		{100, 5, 5, -51.6},
		{100, 5.1, 0, -64.6},
		{100, 10, 10, -77.6},
		{100, 16, 0, -68.6},
		{100, 17, 0, -71.6},
		{100, 90, 0, -71.6},
		{10, 91, 0, -73.36},
		{100, 91, 0, math.Inf(-1)},  // -96.6: below -80
		{100, 17, 11, math.Inf(-1)}, // -88.6
		{0, 0, 0, math.Inf(-1)},
		{500, 0, 0, -79.9794},
		{500.1, 0, 0, math.Inf(-1)},
	} {
		want := math.Pow(10, (c.dB+60)/10)
		if got := strength(c.metres, c.sender, c.receiver); math.Abs(got-want) > want*1e-4 {
			t.Errorf("%g m, %g° and %g°: %g, want %g (%g dB)", c.metres, c.sender, c.receiver, got, want, c.dB)
		}
	}
}

func TestDistanceAndBearing(t *testing.T) {
	n := network{sites: []topology.Site{{Latitude: 37, Longitude: -122}, {Latitude: 37.001, Longitude: -122},
		{Latitude: 37, Longitude: -121.999}}}
	if d := n.distance(0, 1); math.Abs(d-111.2) > 0.1 {
		t.Errorf("north %g m", d)
	}
	if d := n.distance(0, 2); math.Abs(d-88.8) > 0.1 {
		t.Errorf("east %g m", d)
	}
	for _, c := range []struct {
		a, b int
		want float64
	}{{0, 1, 0}, {0, 2, 90}, {1, 0, 180}, {2, 0, 270}} {
		if got := n.bearing(c.a, c.b); math.Abs(got-c.want) > 0.01 {
			t.Errorf("from %d to %d: %g°, want %g°", c.a, c.b, got, c.want)
		}
	}
}

// street is a row of links that all look east: link i from site 2i to site 2i+1, each in
// the beam of those before it.
func street(links int) *topology.Topology {
	var lines []string
	for i := range links {
		lines = append(lines, fmt.Sprintf("%c.1 %c.1", 'A'+2*i, 'B'+2*i))
	}
	t := world(lines...)
	for i := range t.Sites {
		t.Sites[i].Located, t.Sites[i].Longitude = true, float64(i)*4e-4 // 44 m
		t.Nodes[i].Polarity = 1 + i%2
	}
	return t
}

// colours are those of each link, in the order of their names.
func colours(in Input, p param) string {
	var out []string
	net := newNetwork(in.Topology)
	for _, l := range net.links {
		a, z := net.radios[l.ends[0]], net.radios[l.ends[1]]
		key := z.mac
		if p.over == channel.over {
			key = a.mac
		}
		out = append(out, fmt.Sprint(effective(in, a.node, key, p)))
	}
	return strings.Join(out, " ")
}

func TestGolay(t *testing.T) {
	at := func(values map[string]int64, params ...param) config.Object {
		o := config.Object{}
		for l, v := range values {
			a, z, _ := strings.Cut(l, " ")
			for _, p := range params {
				o = config.Set(o, []string{a[:1], p.over, radioMAC(z), "fwParams", p.name}, v)
			}
		}
		return o
	}
	both := func(values map[string]int64) config.Object { return at(values, txGolay, rxGolay) }
	shared := world("A.1 B.1", "A.1 C.1", "D.1 E.1")
	for _, c := range []struct {
		rule          string
		on            *topology.Topology
		auto, node    config.Object
		clear         bool
		want, refused string
	}{
		{rule: "neighbours differ", on: street(2), want: "1 2"},
		{rule: "of three that all disturb each other the least disturbed pays", on: street(3), want: "2 1 2"},
		{rule: "sites without a place disturb nobody", on: world("A.1 B.1", "C.1 D.1"), want: "1 1"},
		{rule: "links sharing a radio are one", on: shared, node: both(map[string]int64{"A.1 B.1": 2}), want: "2 2 1"},
		{rule: "one end and one direction set are enough", on: street(2), node: at(map[string]int64{"C.1 D.1": 1}, rxGolay),
			want: "2 1"},
		{rule: "the previous colour stays where it is no worse", on: street(2),
			auto: atEnds(map[string]int64{"A.1 B.1": 2, "C.1 D.1": 1}), want: "2 1"},
		{rule: "but not when it disturbs", on: street(2), auto: atEnds(map[string]int64{"A.1 B.1": 2, "C.1 D.1": 2}),
			want: "2 1"},
		{rule: "an old one that contradicts itself is forgotten", on: shared,
			auto: both(map[string]int64{"A.1 B.1": 2, "A.1 C.1": 1}), want: "1 1 1"},
		{rule: "a user's 3 stays, and disturbs no other", on: street(2), node: both(map[string]int64{"A.1 B.1": 3}),
			want: "3 1"},
		{
			rule: "Incompatible user assigned golay index for link", on: shared,
			node: both(map[string]int64{"A.1 B.1": 1, "A.1 C.1": 2}),
			refused: "node.A.linkParamsOverride.02:00:00:00:43:31.fwParams.rxGolayIdx: invalid value 2 for A.1 C.1, but " +
				"node.A.linkParamsOverride.02:00:00:00:42:31.fwParams.txGolayIdx is 1",
		},
		{rule: "cleared", on: shared, node: both(map[string]int64{"A.1 B.1": 1, "A.1 C.1": 2}), clear: true, want: "1 1 1"},
		{rule: "Invalid user assigned golay index", on: shared, node: both(map[string]int64{"A.1 B.1": 4}),
			refused: "node.A.linkParamsOverride.02:00:00:00:42:31.fwParams.rxGolayIdx: invalid value 4: must be 1 to 3"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			in := Input{Topology: c.on, Auto: c.auto, Node: c.node, ClearUser: c.clear}
			out, faults := Run(in, Golay)
			if c.refused != "" {
				if !strings.HasPrefix(told(faults), c.refused) {
					t.Fatalf("faults %v\nwant %s", faults, c.refused)
				}
				return
			}
			if got := colours(after(in, out), txGolay); got != c.want || faults != nil {
				t.Errorf("got %s, %v, want %s", got, faults, c.want)
			}
		})
	}
}

// atEnds sets golay codes at both ends of links.
func atEnds(values map[string]int64) config.Object {
	o := config.Object{}
	for l, v := range values {
		a, z, _ := strings.Cut(l, " ")
		for _, p := range []param{txGolay, rxGolay} {
			o = config.Set(o, []string{a[:1], p.over, radioMAC(z), "fwParams", p.name}, v)
			o = config.Set(o, []string{z[:1], p.over, radioMAC(a), "fwParams", p.name}, v)
		}
	}
	return o
}

// "pairs on different channels count 0 (golay only)".
func TestGolayOfDifferentChannels(t *testing.T) {
	in := Input{Topology: street(2), Auto: layer(channel, map[string]int64{"A.1": 1, "B.1": 1, "C.1": 2, "D.1": 2})}
	if got := colours(after(in, must(t, in, Golay)), txGolay); got != "1 1" {
		t.Errorf("golay codes %s", got)
	}
	// With equal polarities nobody hears the other either.
	in = Input{Topology: street(2)}
	for i := range in.Topology.Nodes {
		in.Topology.Nodes[i].Polarity = 1
	}
	if got := colours(after(in, must(t, in, Golay)), txGolay); got != "1 1" {
		t.Errorf("golay codes %s", got)
	}
}

func TestChannel(t *testing.T) {
	for _, c := range []struct {
		rule          string
		enabled       []int64
		auto, node    map[string]int64
		want, refused string
	}{
		{rule: "empty: {2}", want: "2 2 2"},
		{rule: "one", enabled: []int64{3}, auto: map[string]int64{"A.1": 1, "B.1": 1}, want: "3 3 3"},
		{rule: "two", enabled: []int64{4, 1}, want: "4 1 4"},
		{rule: "three are enough for three", enabled: []int64{1, 2, 4}, want: "4 1 2"},
		{rule: "an auto channel that is no longer enabled goes", enabled: []int64{1, 2},
			auto: map[string]int64{"A.1": 3, "B.1": 3}, want: "2 1 2"},
		{rule: "a user's at one end is that of both", enabled: []int64{1, 2}, node: map[string]int64{"B.1": 2},
			want: "2 1 2"},
		{rule: "Incompatible assigned channel for link, by users", enabled: []int64{1, 2},
			node:    map[string]int64{"A.1": 1, "B.1": 2},
			refused: "node.B.radioParamsOverride.02:00:00:00:42:31.fwParams.channel: invalid value 2 for A.1 B.1, but node.A."},
		{rule: "by the auto layer it is put right", enabled: []int64{1, 2}, auto: map[string]int64{"A.1": 2, "B.1": 1},
			want: "2 1 2"},
		{rule: "a user's that is not enabled", enabled: []int64{1, 2}, node: map[string]int64{"A.1": 3},
			refused: "node.A.radioParamsOverride.02:00:00:00:41:31.fwParams.channel: invalid value 3, for A.1 B.1: " +
				"must be one of the channels [1 2]"},
		{rule: "no channel", enabled: []int64{1, 9}, refused: "channels: has 9: must be 1 to 4"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			in := Input{Topology: street(3), Channels: c.enabled, Auto: layer(channel, c.auto), Node: layer(channel, c.node)}
			enabled := slices.Clone(c.enabled)
			out, faults := Run(in, Channel)
			if c.refused != "" {
				if !strings.HasPrefix(told(faults), c.refused) {
					t.Fatalf("faults %v\nwant %s", faults, c.refused)
				}
				return
			}
			if got := colours(after(in, out), channel); got != c.want || faults != nil || !slices.Equal(enabled, c.enabled) {
				t.Errorf("got %s, %v, want %s", got, faults, c.want)
			}
		})
	}
}

// "preferring its previous colour when within ~1 dB (ratio < 1.2589)".
func TestThePreviousColourStaysWithinOneDecibel(t *testing.T) {
	p := painting{colours: []int64{1, 2}, before: []int64{2, 0, 0}}
	for _, c := range []struct {
		second float64
		want   int64
	}{{1.2, 2}, {1.3, 1}} {
		p.disturb = []map[int]float64{{1: 1, 2: c.second}}
		if got := p.pick(0, []int64{0, 1, 2}); got != c.want {
			t.Errorf("%g times as much: %d, want %d", c.second, got, c.want)
		}
	}
}

// "cover groups last in descending interference": the third is before the fourth, which
// then takes the other colour.
func TestTheMostDisturbedOfTheCoverIsFirst(t *testing.T) {
	p := painting{
		run: &run{}, colours: []int64{1, 2}, user: make([]int64, 4), before: make([]int64, 4),
		total:   []float64{16, 18.5, 13, 7.5},
		disturb: []map[int]float64{{1: 10, 2: 5, 3: 1}, {0: 10, 2: 5, 3: 3.5}, {0: 5, 1: 5, 3: 3}, {0: 1, 1: 3.5, 2: 3}},
	}
	if got := p.solve(); !slices.Equal(got, []int64{1, 2, 1, 2}) {
		t.Errorf("colours %v", got)
	}
}

// What gives way to keep tables small has the value that fits with all.
func TestWhatGivesWayFitsWithAll(t *testing.T) {
	const n = 20
	p := newProblem(n)
	for a := range n {
		p.cost[a], p.give[a] = []int64{0, 0, 1}, 2
		for b := range a {
			p.pair(a, b, func(x, y int) bool { return x == 2 || y == 2 || x != y })
		}
	}
	pl := p.plan()
	values := p.solve(pl)
	if len(pl.given) == 0 || len(pl.given) > 12 {
		t.Errorf("%d gave way", len(pl.given))
	}
	for _, v := range pl.given {
		if values[v] != 2 {
			t.Errorf("%d has %d", v, values[v])
		}
	}
	slices.Sort(values)
	if !slices.Equal(values[:3], []int{0, 1, 2}) {
		t.Errorf("values %v", values)
	}
}
