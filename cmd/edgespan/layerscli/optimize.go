package layerscli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/optimize"
	"edgespan/platform/confdir"
)

// optimizing are the flags of `layers optimize`.
type optimizing struct {
	topology, auto, network, node string
	clearUser, write, dryRun      bool
	channels                      []int64
	output                        string
}

func newLayersOptimize(a offline) *cobra.Command {
	var o optimizing
	cmd := &cobra.Command{
		Use:   "optimize polarity|channel|golay|superframe|all",
		Short: "Assign radio values into the auto layer",
		Long: `Assign values to the radios and wireless links of a topology, and print the auto layer
that has them; a summary goes to stderr. With --write it replaces the file of --auto
instead, and keeps the old one beside it.

  polarity    odd or even for each radio: the ends of a link differ, and as few sites as
              can be have both
  channel     one of --channels for the links that share radios
  golay       1 or 2 for the links that share radios, different where they disturb others
  superframe  0 or 1 for each link between distribution nodes, different where links share
              a radio; 255 for a link of a client node
  all         all of them, in this order: each builds on those before it

What users set in the network and the node layer is respected. What can't be is an error
that names the values or links in conflict, and nothing is assigned. --clear-user takes
the values of these kinds out of the node layer instead; the network layer's stay.`,
		Example: `  edgespan layers optimize polarity --topology topology.conf
  edgespan layers optimize all --topology topology.conf --channels 1,2 \
    --auto auto.json --network network.json --node nodes.json --clear-user --write`,
		ValidArgs: append(kindNames(), "all"),
		Args:      term.ExactArgs(1, strings.Join(append(kindNames(), "all"), " ")),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.optimize(o, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.topology, "topology", "", "topology file")
	flags.StringVar(&o.auto, "auto", "", "file of automated overrides, {node: {…}}")
	flags.StringVar(&o.network, "network", "", "file of network overrides")
	flags.StringVar(&o.node, "node", "", "file of node overrides, {node: {…}}")
	flags.BoolVar(&o.clearUser, "clear-user", false, "remove users' values from the node layer instead of respecting them")
	flags.Int64SliceVar(&o.channels, "channels", []int64{2}, "channels to assign, from 1 to 4")
	flags.BoolVar(&o.write, "write", false, "write the files of --auto and, with --clear-user, --node")
	flags.BoolVar(&o.dryRun, "dry-run", false, "write nothing, even with --write")
	term.OneOf(cmd, &o.output, "canonical", "json")
	return cmd
}

func kindNames() []string {
	var out []string
	for _, k := range optimize.All {
		out = append(out, string(k))
	}
	return out
}

func (a offline) optimize(o optimizing, what string) error {
	kinds, err := o.kinds(what)
	if err != nil {
		return err
	}
	in, err := a.optimizeInput(o)
	if err != nil {
		return err
	}
	out, faults := optimize.Run(in, kinds...)
	if faults != nil {
		return o.explain(faults)
	}
	a.summarize(out)
	if o.write && !o.dryRun {
		if err := o.save(out); err != nil || o.output != "json" {
			return err
		}
	}
	if o.output == "json" {
		return a.PrintJSON(optimizedJSON(out))
	}
	return a.printCanonical(out.Auto)
}

// kinds checks the command line and returns the kinds to optimize.
func (o optimizing) kinds(what string) ([]optimize.Kind, error) {
	kinds := []optimize.Kind{optimize.Kind(what)}
	if what == "all" {
		kinds = optimize.All
	} else if !strings.Contains(" "+strings.Join(kindNames(), " ")+" ", " "+what+" ") {
		return nil, term.NotOneOf("optimization", what, append(kindNames(), "all"))
	}
	stdin := 0
	for _, file := range []string{o.topology, o.auto, o.network, o.node} {
		if file == "-" {
			stdin++
		}
	}
	switch {
	case o.topology == "":
		return nil, term.Required("--topology", "a topology file")
	case stdin > 1:
		return nil, term.Usagef("-: given for more than one file: only one can be stdin")
	case o.write && (o.auto == "" || o.auto == "-"):
		return nil, term.Requires("--write", "--auto with a file to write")
	case o.write && o.clearUser && o.node == "-":
		return nil, term.Usagef("--write: --node is stdin: must be a file")
	}
	if len(o.channels) == 0 {
		return nil, term.Required("--channels", "numbers from 1 to 4 separated by ','")
	}
	for _, c := range o.channels {
		if c < 1 || c > 4 {
			return nil, term.Invalid("--channels", c, "1 to 4")
		}
	}
	return kinds, nil
}

// optimizeInput reads all files and returns all their faults together.
func (a offline) optimizeInput(o optimizing) (optimize.Input, error) {
	in := optimize.Input{Channels: o.channels, ClearUser: o.clearUser}
	var errs []error
	var err error
	in.Topology, err = a.topologyFile(o.topology)
	errs = append(errs, err)
	if o.auto != "" {
		in.Auto, err = ReadObject(a.Streams, o.auto)
		if o.write && errors.Is(err, fs.ErrNotExist) {
			a.Printf("%s: not found: starting with an empty layer", o.auto)
			err = nil
		}
		errs = append(errs, err)
	}
	if o.network != "" {
		in.Network, err = ReadObject(a.Streams, o.network)
		errs = append(errs, err)
	}
	if o.node != "" {
		in.Node, err = ReadObject(a.Streams, o.node)
		errs = append(errs, err)
	}
	return in, errors.Join(errs...)
}

// explain replaces the layer in each fault by the name of its file.
func (o optimizing) explain(faults optimize.LayerFaults) error {
	files := map[string]string{"auto": o.auto, "network": o.network, "node": o.node, "links": o.topology}
	var errs []error
	for _, f := range faults {
		file := files[f.Path[0]]
		if f.Path[0] != "links" {
			f.Path = f.Path[1:]
		}
		errs = append(errs, &confdir.Broken{File: file, Faults: config.Faults{f.Fault}})
	}
	return errors.Join(errs...)
}

// save writes the auto layer and, with --clear-user, the node layer: both or neither.
func (o optimizing) save(out optimize.Result) error {
	files := []confdir.File{{Name: o.auto, Document: out.Auto}}
	if o.clearUser && o.node != "" {
		files = append(files, confdir.File{Name: o.node, Document: out.Node})
	}
	if err := confdir.WriteAll(files); err != nil {
		return term.Unreadable(err)
	}
	return nil
}

// summarize prints on stderr how much changed, and warnings.
func (a offline) summarize(out optimize.Result) {
	type line struct{ layer, name, verb string }
	counts, nodes := map[line]int{}, map[line]map[string]bool{}
	var request []line
	for _, c := range out.Changes {
		l := line{c.Layer, c.Path[len(c.Path)-1], "set"}
		if c.New == nil {
			l.verb = "cleared"
		}
		if counts[l]++; counts[l] == 1 {
			request, nodes[l] = append(request, l), map[string]bool{}
		}
		nodes[l][c.Path[0]] = true
	}
	for _, l := range request {
		where := fmt.Sprint(len(nodes[l]), " nodes")
		if len(nodes[l]) == 1 {
			where = "1 node"
		}
		a.Printf("%s layer: %s: %d %s, on %s", l.layer, l.name, counts[l], l.verb, where)
	}
	if len(request) == 0 {
		a.Printf("no changes")
	}
	for _, n := range out.Notes {
		a.Printf("%s", n)
	}
}

// optimizedChange is one change of `layers optimize -o json`; null stands for no value.
type optimizedChange struct {
	Layer string `json:"layer"`
	Key   string `json:"key"`
	Old   any    `json:"old"`
	New   any    `json:"new"`
}

func optimizedJSON(out optimize.Result) any {
	changes := []optimizedChange{}
	for _, c := range out.Changes {
		changes = append(changes, optimizedChange{c.Layer, config.FormatPath(c.Path), c.Old, c.New})
	}
	node, notes := out.Node, out.Notes
	if node == nil {
		node = config.Object{}
	}
	if notes == nil {
		notes = []string{}
	}
	return struct {
		Auto    config.Object     `json:"auto"`
		Node    config.Object     `json:"node"`
		Changes []optimizedChange `json:"changes"`
		Notes   []string          `json:"notes"`
	}{out.Auto, node, changes, notes}
}
