package rollout

import (
	"cmp"
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/config/fleet/topology"
)

// Memory is the whole state of a Rollout, except the topology and the groups: plain data with a JSON form. A Rollout
// made from it continues exactly like the original.
type Memory struct {
	Settings Settings `json:"settings"`
	Phase    Phase    `json:"phase"`
	Paused   bool     `json:"paused,omitempty"`
	Halted   bool     `json:"halted,omitempty"`
	Canary   bool     `json:"canary,omitempty"` // the next batch is the first one
	Trial    bool     `json:"trial,omitempty"`  // the current batch is the first one
	Resting  bool     `json:"resting,omitempty"`
	Number   int      `json:"number"` // of batches so far
	Timer    int      `json:"timer"`
	Batch    []string `json:"batch,omitempty"`    // the current one
	Out      []string `json:"out,omitempty"`      // its nodes that have not answered
	Failures []string `json:"failures,omitempty"` // that count
	Up       []string `json:"up,omitempty"`       // nodes that are online, regardless of the topology
	Gone     []string `json:"gone,omitempty"`     // nodes that are offline, regardless of the topology
	Nodes    []Group  `json:"nodes,omitempty"`

	// other holds the fields of a newer version: they are written back as they were read.
	other config.Unknown
}

// written is a Memory without its own JSON form.
type written Memory

// UnmarshalJSON keeps unknown fields.
func (m *Memory) UnmarshalJSON(text []byte) (err error) {
	m.other, err = config.ReadRecord(text, (*written)(m))
	return err
}

// MarshalJSON also writes the unknown fields.
func (m Memory) MarshalJSON() ([]byte, error) { return config.WriteRecord(written(m), m.other) }

// Group is a set of nodes with the same state. A rollout of ten thousand nodes has as many groups as batches, so its
// memory is little more than their names.
type Group struct {
	State   State    `json:"state"`
	Batch   int      `json:"batch,omitempty"` // their last batch
	Why     string   `json:"why,omitempty"`
	Pushed  bool     `json:"pushed,omitempty"`
	Took    bool     `json:"took,omitempty"`    // they have received what was pushed
	Delayed bool     `json:"delayed,omitempty"` // they went offline in a batch before they took the change
	Todo    bool     `json:"todo,omitempty"`    // they wait for a batch
	Names   []string `json:"names"`
}

// Phase is the direction of a rollout.
type Phase string

// The phases.
const (
	Created  Phase = "created"
	Forward  Phase = "forward"
	Backward Phase = "backward"
	Ended    Phase = "ended"
)

var phases = [...]Phase{created: Created, forward: Forward, backward: Backward, done: Ended}

// Memory returns the state to store.
func (r *Rollout) Memory() Memory {
	m := Memory{
		Settings: r.o, Phase: phases[r.phase], Paused: r.held, Halted: r.halted, Canary: r.canary, Trial: r.trial,
		Resting: r.resting,
		Number:  r.number, Timer: r.timer, Batch: slices.Clone(r.batch), Out: sortedKeys(r.unanswered),
		Failures: sortedKeys(r.failures),
		other:    r.other,
	}
	m.Settings.Stages = slices.Clone(r.o.Stages)
	for _, name := range sortedKeys(r.online) {
		if r.online[name] {
			m.Up = append(m.Up, name)
		} else {
			m.Gone = append(m.Gone, name)
		}
	}
	at := map[node]int{}
	for _, name := range sortedKeys(r.nodes) {
		n := *r.nodes[name]
		i, has := at[n]
		if !has {
			i = len(m.Nodes)
			at[n] = i
			m.Nodes = append(m.Nodes, Group{State: n.state,
				Batch: n.batch, Why: n.why, Pushed: n.pushed, Took: n.acked, Delayed: n.delayed, Todo: n.waiting})
		}
		m.Nodes[i].Names = append(m.Nodes[i].Names, name)
	}
	return m
}

// FromMemory returns a rollout that continues from a memory, with the present state of the network.
func FromMemory(m Memory, t *topology.Topology, groups map[string]string) *Rollout {
	r := New(t, nil, m.Settings)
	r.o.Stages = slices.Clone(m.Settings.Stages)
	r.phase = phase(max(slices.Index(phases[:], m.Phase), 0))
	r.held, r.halted, r.canary, r.resting = m.Paused, m.Halted, m.Canary, m.Resting
	r.other = m.other
	r.trial = m.Trial || m.Number == 1 // releases before this one did not store it
	r.number, r.timer, r.batch, r.groups = m.Number, m.Timer, slices.Clone(m.Batch), groups
	for _, g := range m.Nodes {
		for _, name := range g.Names {
			r.nodes[name] = &node{state: g.State, why: g.Why, pushed: g.Pushed, acked: g.Took, delayed: g.Delayed,
				waiting: g.Todo,
				batch:   g.Batch}
		}
	}
	for _, list := range []struct {
		names []string
		in    map[string]bool
		is    bool
	}{{m.Out, r.unanswered, true}, {m.Failures, r.failures, true}, {m.Up, r.online, true}, {m.Gone, r.online, false}} {
		for _, name := range list.names {
			list.in[name] = list.is
		}
	}
	return r
}

// Progress is the progress of one batch.
type Progress struct {
	Batch     int
	Nodes     int
	Confirmed int
	Failed    int
	Out       int // not answered
}

// Progress returns the progress of each batch that was pushed, in order.
func (m Memory) Progress() []Progress {
	by := map[int]*Progress{}
	for _, g := range m.Nodes {
		if g.Batch == 0 || g.Todo {
			continue
		}
		p := by[g.Batch]
		if p == nil {
			p = &Progress{Batch: g.Batch}
			by[g.Batch] = p
		}
		p.Nodes += len(g.Names)
		switch g.State {
		case Confirmed, Reverted:
			p.Confirmed += len(g.Names)
		case Failed, RevertFailed:
			p.Failed += len(g.Names)
		default:
			for _, name := range g.Names {
				if _, ok := slices.BinarySearch(m.Out, name); ok {
					p.Out++
				}
			}
		}
	}
	out := make([]Progress, 0, len(by))
	for _, p := range by {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b Progress) int { return cmp.Compare(a.Batch, b.Batch) })
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
