package layerscli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/topology"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/platform/confdir"
)

// selection are the flags that all commands of `layers` share: the layers that a command works on, and the metadata
// and topology that it checks them with.
type selection struct {
	baseDir             string
	versions            layers.Versions
	auto, network, node string
	nodeName            string
	metadata            []string // the first is edgespan's, the others a vendor's
	topology            string
}

// selected is the result of a selection.
type selected struct {
	layers.Set
	dir     *confdir.Dir // nil without --base-dir
	library layers.Library
	choice  layers.Choice

	described *metadata.Metadata // nil without --metadata
}

// bind defines the flags.
func (f *selection) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.baseDir, "base-dir", "",
		"folder of base versions: <version>.json, fw_versions/, hw_versions/<type>/")
	flags.StringVar(&f.versions.Software, "sw-version", "", "software version string of the node")
	flags.StringVar(&f.versions.Firmware, "fw-version", "", "firmware version string of the node")
	flags.StringVar(&f.versions.Board, "hw-board", "", "hardware board id of the node")
	flags.StringVar(&f.auto, "auto", "", "file of automated overrides, {node: {…}}")
	flags.StringVar(&f.network, "network", "", "file of network overrides")
	flags.StringVar(&f.node, "node", "", "file of node overrides, {node: {…}}")
	flags.StringVar(&f.nodeName, "node-name", "", "name of the node in the files of --auto and --node")
	bindMetadata(cmd, &f.metadata)
	flags.StringVar(&f.topology, "topology", "", "topology file; nodes must be in it")
}

// set reads the layers and returns all their faults together. It prints on stderr that it uses the latest base layer,
// or that no hardware type has the board.
func (f *selection) set(a offline) (selected, error) {
	if err := f.check(); err != nil {
		return selected{}, err
	}
	s, err := f.base(a)
	if err != nil {
		return s, err
	}
	var faults [5]error
	if s.dir != nil {
		if s.Set, err = s.dir.Read(s.choice); err != nil {
			faults[0] = term.Unreadable(err)
		}
	}
	s.Set[layers.Auto], faults[1] = f.ofNode(a, f.auto)
	if f.network != "" {
		s.Set[layers.Network], faults[2] = ReadObject(a.Streams, f.network)
	}
	s.Set[layers.Node], faults[3] = f.ofNode(a, f.node)
	s.described, faults[4] = f.loadMetadata(a)
	return s, errors.Join(faults[:]...)
}

// choose checks the flags and finds the names of the base layers. It reads no layer.
func (f *selection) choose(a offline) (selected, error) {
	if err := f.check(); err != nil {
		return selected{}, err
	}
	s, err := f.base(a)
	if err != nil {
		return s, err
	}
	s.described, err = f.loadMetadata(a)
	return s, err
}

// loadMetadata reads the metadata and the topology, and fails if the topology lacks the node.
func (f *selection) loadMetadata(a offline) (*metadata.Metadata, error) {
	var m *metadata.Metadata
	var faults [2]error
	if len(f.metadata) > 0 {
		m, faults[0] = a.metadata(f.metadata)
	}
	if f.topology != "" {
		t, err := f.readTopology(a)
		if err == nil && f.nodeName != "" &&
			!slices.ContainsFunc(t.Nodes, func(n topology.Node) bool { return n.Name == f.nodeName }) {
			err = config.Faults{{Path: []string{f.nodeName}, Problem: "not in the topology",
				Expectation: "must be one of the nodes of " +
					f.topology}}
		}
		faults[1] = err
	}
	return m, errors.Join(faults[:]...)
}

func (f *selection) readTopology(a offline) (*topology.Topology, error) {
	o, err := ReadObject(a.Streams, f.topology)
	if err != nil {
		return nil, err
	}
	t, faults := topology.FromDocument(o)
	if faults != nil {
		return nil, &confdir.Broken{File: f.topology, Faults: faults}
	}
	return t, nil
}

// base finds the names of the base layers and checks no other flag.
func (f *selection) base(a offline) (selected, error) {
	var s selected
	if f.baseDir == "" {
		return s, nil
	}
	dir, err := confdir.Open(f.baseDir)
	if err != nil {
		return s, term.Unreadable(err)
	}
	s.dir, s.library = dir, dir.Library
	s.choice = s.library.Choose(f.versions)
	f.printChoice(a, s.choice)
	return s, nil
}

func (f *selection) check() error {
	switch {
	case f.nodeName == "" && f.auto != "":
		return term.Requires("--auto", "--node-name, the name of a node in "+f.auto)
	case f.nodeName == "" && f.node != "":
		return term.Requires("--node", "--node-name, the name of a node in "+f.node)
	}
	stdin := 0
	for _, file := range append([]string{f.auto, f.network, f.node, f.topology}, f.metadata...) {
		if file == "-" {
			stdin++
		}
	}
	if stdin > 1 {
		return term.Usagef("-: given for %d files: only one of them can be stdin", stdin)
	}
	return nil
}

// printChoice prints, in one line, which latest versions are used.
func (f *selection) printChoice(a offline, c layers.Choice) {
	var latest []string
	if c.LatestBase {
		latest = append(latest, "base "+c.Base)
	}
	if c.LatestHardware {
		latest = append(latest, "hardware "+c.Type+"/"+c.Hardware)
	}
	if len(latest) > 0 {
		a.Printf("--sw-version: no match for %s: using the latest: %s", config.Quote(f.versions.Software),
			strings.Join(latest, ", "))
	}
	if c.UnknownBoard {
		a.Printf("--hw-board: %s is in no hardware type: using no hardware layer", config.Quote(f.versions.Board))
	}
}

// ofNode returns the node's layer from a file of all nodes. A node that is not in the file has none.
func (f *selection) ofNode(a offline, file string) (config.Object, error) {
	if file == "" {
		return nil, nil
	}
	o, err := ReadObject(a.Streams, file)
	if err != nil {
		return nil, err
	}
	nodes, faults := layers.NodeLayers(o)
	if faults != nil {
		return nil, &confdir.Broken{File: file, Faults: faults}
	}
	return nodes[f.nodeName], nil
}

// effective returns the effective config of the selected layers. Clashes are an error.
func (s selected) effective() (config.Object, error) {
	o, clashes := s.Effective()
	if len(clashes) > 0 {
		return nil, clashes
	}
	return o, nil
}
