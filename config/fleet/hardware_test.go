package fleet

import (
	"slices"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/layers"
)

func TestSeed_UnrecognizedBoardAndVersion(t *testing.T) {
	h := Hardware{
		Library: layers.Library{
			Base:     []string{"RELEASE_M60", "RELEASE_M80"},
			Firmware: []string{"10.11.0"},
			Hardware: map[string][]string{"puma": {"RELEASE_M70"}, "empty": nil},
			Boards:   map[string]string{"b1": "puma", "b2": "empty", "b3": "gone"},
		},
		Learnt: map[string]layers.Library{
			"v1": {Base: []string{"RELEASE_M80"}, Hardware: map[string][]string{"v1": {"RELEASE_M80"}},
				Boards: map[string]string{"v1": "v1"}},
			"v2": {Base: []string{"RELEASE_M75"}},
		},
	}
	for _, c := range []struct {
		name, software, board string
		base, hardware        string
		learnt, unknown       bool
	}{
		{"a board of a type with a layer for the version", "RELEASE_M81", "b1", "RELEASE_M80", "RELEASE_M70", false, false},
		{"a board whose layers are all newer", "RELEASE_M65", "b1", "RELEASE_M60", "", false, true},
		{"a version that does not parse has the latest", "trunk", "b1", "RELEASE_M80", "RELEASE_M70", false, false},
		{"a board of a type without layers", "RELEASE_M81", "b2", "RELEASE_M80", "", false, true},
		{"a board of a type that has no folder", "RELEASE_M81", "b3", "RELEASE_M80", "", false, true},
		{"a board of no type", "RELEASE_M81", "b9", "RELEASE_M80", "", false, true},
		{"a board that was learnt", "RELEASE_M80", "v1", "RELEASE_M80", "RELEASE_M80", true, false},
		{"all nodes of that board, whatever their version", "RELEASE_M81", "v1", "RELEASE_M80", "RELEASE_M80", true, false},
		{"a board that has no hardware config by its own word", "RELEASE_M80", "v2", "RELEASE_M75", "", true, false},
		{"a node without a board has nothing of learnt ones", "RELEASE_M75", "", "RELEASE_M60", "", false, false},
	} {
		k := h.KindOf(layers.Versions{Software: c.software, Firmware: "10.11.0", Board: c.board})
		if k.Base != c.base || k.Hardware != c.hardware || k.Learnt != c.learnt || k.Unknown != c.unknown ||
			k.Firmware != "10.11.0" {
			t.Errorf("%s: %+v", c.name, k)
		}
	}
	one, other := h.KindOf(layers.Versions{Software: "RELEASE_M80", Board: "b9"}),
		h.KindOf(layers.Versions{Software: "RELEASE_M80"})
	if one.Name == other.Name {
		t.Error("unknown hardware is of a kind with none")
	}
}

func TestSeed_QueriesAreRateLimitedPerNodeAndBoard(t *testing.T) {
	q := NewQueries(Defaults(""))
	for i, c := range []struct {
		at          time.Duration
		node, board string
		granted     bool
		next        time.Duration
	}{
		{0, "n1", "b1", true, 120 * sec},
		{0, "n1", "b1", false, 120 * sec},
		{0, "n2", "b1", false, 15 * sec},
		{0, "n3", "b2", true, 120 * sec},
		{14 * sec, "n2", "b1", false, 15 * sec},
		{15 * sec, "n2", "b1", true, 135 * sec},
		{100 * sec, "n1", "b2", false, 120 * sec},
		{119 * sec, "n1", "b1", false, 120 * sec},
		{120 * sec, "n1", "b1", true, 240 * sec},
		{134 * sec, "n2", "b1", false, 135 * sec},
		{135 * sec, "n2", "b1", true, 255 * sec},
		{-1000 * sec, "n2", "b1", true, -880 * sec}, // the clock was set back: no query waits for it
	} {
		granted, next := q.Allow(noon.Add(c.at), c.node, c.board)
		if granted != c.granted || !next.Equal(noon.Add(c.next)) {
			t.Errorf("%d: %v, %v", i, granted, next.Sub(noon))
		}
	}
}

// TestOtherLimitsCountForWhatWasAskedBefore changes both limits after a node was queried.
func TestOtherLimitsCountForWhatWasAskedBefore(t *testing.T) {
	q := NewQueries(Defaults(""))
	q.Allow(noon, "n1", "b1")
	q.Limit(Settings{Interval: 30 * sec, Board: 5 * sec})
	for i, c := range []struct {
		at      time.Duration
		node    string
		granted bool
	}{{4 * sec, "n2", false}, {5 * sec, "n2", true}, {29 * sec, "n1", false}, {30 * sec, "n1", true}} {
		if granted, next := q.Allow(noon.Add(c.at), c.node, "b1"); granted != c.granted {
			t.Errorf("%d: %v, again at %v", i, granted, next.Sub(noon))
		}
	}
}

func TestAnswersThatNobodyAskedForAreDropped(t *testing.T) {
	q := NewQueries(Defaults(""))
	q.Allow(noon, "n1", "b1")
	for _, c := range []struct {
		name, node, board string
		want              bool
	}{
		{"of a node that was not asked", "n2", "b1", false},
		{"about another board", "n1", "b2", false},
		{"as asked", "n1", "b1", true},
		{"twice", "n1", "b1", false},
	} {
		if got := q.TakeAnswer(c.node, c.board); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	for i := range 10000 {
		q.Allow(noon.Add(time.Duration(i)*time.Minute), string(rune(i)), string(rune(i)))
	}
	if len(q.nodes) > 5 || len(q.boards) > 5 {
		t.Errorf("%d nodes and %d boards are remembered", len(q.nodes), len(q.boards))
	}
}

func TestRemoves(t *testing.T) {
	parse := func(text string) config.Object {
		v, faults := config.ParseObject([]byte(text))
		if faults != nil {
			t.Fatal(faults)
		}
		return v
	}
	running := parse(`{"ports": {"wan": {"mtu": 1}, "lan": {}, "off": {"$absent": true}}, "networkInstances": {"u1": ` +
		`{}, "u2": {}, "a.b": {}},
		"appNetworks": {"x": {"adapters": {"0": {}, "1": {}, "2": {"$absent": true}}}, "y": {"adapters": {"0": {}}}}, ` +
		`"envParams": {"A": {}}}`)
	for _, c := range []struct {
		name, desired string
		want          []string
	}{
		{"nothing is wanted", `{}`, []string{"appNetworks.x", "appNetworks.y",
			`networkInstances."a.b"`, "networkInstances.u1", "networkInstances.u2", "ports.lan", "ports.wan"}},
		{
			"some, one of them as absent, and changes do not count",
			`{"ports": {"wan": {"mtu": 2}, "lan": {"$absent": true}}, "networkInstances": {"u1": {"$absent": false}, "u2": ` +
				`{}, "a.b": {}, "u3": {}}, "appNetworks": {"x": {"adapters": {"1": {"$absent": true}}}, "y": {"adapters": ` +
				`{"0": {"ip": "1"}}}}}`,
			[]string{"appNetworks.x.adapters.0", "appNetworks.x.adapters.1", "ports.lan"},
		},
		{
			"what is no object has no entries",
			`{"ports": 1, "networkInstances": null, "appNetworks": {"x": 5, "y": {"adapters": []}}}`,
			[]string{"appNetworks.x.adapters.0", "appNetworks.x.adapters.1", "appNetworks.y.adapters.0",
				`networkInstances."a.b"`, "networkInstances.u1", "networkInstances.u2", "ports.lan", "ports.wan"},
		},
	} {
		if got := RemovedObjects(running, parse(c.desired)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	if got := RemovedObjects(nil, running); got != nil {
		t.Errorf("a node that runs nothing loses %q", got)
	}
}
