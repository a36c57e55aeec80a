package simulate

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/topology"
	"edgespan/config/fleet/topology/sketch"
	"edgespan/config/httpapi/fleetapi"
)

// readTopology reads --topology: a kind, whose topology is generated once the names are known, or a file, which sets
// the number of nodes. A value that is no kind is a file.
func (s *simulation) readTopology(nodesGiven bool) error {
	kind, _, _ := strings.Cut(s.topology, ":")
	if slices.Contains(sketch.Kinds, sketch.Kind(kind)) {
		var err error
		s.sketched, err = sketch.ParsePlan(s.topology)
		return err
	}
	text, err := os.ReadFile(s.topology)
	if err != nil {
		return fmt.Errorf("topology: %w: must be a topology file, or %s, each with or without :SIZE", err,
			sketch.KindList())
	}
	t, faults := topology.Parse(text)
	if faults != nil {
		return fmt.Errorf("topology: %s: %w", s.topology, faults)
	}
	if nodesGiven && s.nodes != len(t.Nodes) {
		return fmt.Errorf("nodes: invalid value %d: must be %d, the number in %s", s.nodes, len(t.Nodes), s.topology)
	}
	s.network, s.nodes = t, len(t.Nodes)
	return nil
}

// nameNodes sets the nodes' names, and generates the topology if requested.
func (m *simulator) nameNodes() {
	if m.network != nil {
		for _, n := range m.network.Nodes {
			m.names = append(m.names, n.Name)
		}
		return
	}
	for i := range m.nodes {
		m.names = append(m.names, fmt.Sprintf("%s-%05d", m.name, i+1))
	}
	if m.sketched.Kind != "" {
		m.network = m.sketched.Make(m.names, m.seed)
	}
}

// writeTopology writes the topology to the controller, as any client does. It does not replace an existing one.
func (m *simulator) writeTopology(ctx context.Context) error {
	if m.network == nil {
		return nil
	}
	doc := m.network.Document()
	if m.own == nil {
		d, err := m.client.Topology(ctx)
		if err != nil {
			return err
		}
		there, faults := topology.FromDocument(d.Object)
		if faults != nil {
			return fmt.Errorf("--topology: read the controller's: %w", faults)
		}
		if n := len(there.Nodes); n > 0 {
			return term.Usagef("--topology: the controller already has a topology of %d nodes: use a controller without one", n)
		}
	}
	if _, err := m.client.Write(ctx, ops.SetTopology{Document: doc},
		fleetapi.WriteOptions{Message: "simulate: " + m.network.Name}); err != nil {
		return fmt.Errorf("write the topology: %w", err)
	}
	pops := 0
	for _, n := range m.network.Nodes {
		if n.Pop {
			pops++
		}
	}
	m.app.Printf("topology %q: %d nodes on %d sites, %d links, %d points of presence", m.network.Name, m.nodes,
		m.network.NewPaths().Sites(), len(m.network.Links), pops)
	return nil
}

// assigned returns a config of KEY=VALUE words. A key has dots; a VALUE is JSON, or else text.
func assigned(words []string) (config.Object, error) {
	out := config.Object{}
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		path := strings.Split(key, ".")
		if !ok || slices.Contains(path, "") {
			return nil, fmt.Errorf("invalid value %.80q: must be KEY=VALUE, as in sysParams.logLevel=debug", w)
		}
		var v any = value
		if o, faults := config.ParseObject([]byte(`{"v":` + value + `}`)); faults == nil && len(o) == 1 {
			v = o["v"]
		}
		at := out
		for _, key := range path[:len(path)-1] {
			next, ok := at[key].(config.Object)
			if !ok {
				next = config.Object{}
				at[key] = next
			}
			at = next
		}
		at[path[len(path)-1]] = v
	}
	return out, nil
}
