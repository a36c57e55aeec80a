package layerscli

import (
	"strconv"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/fleet/rollout"
	"edgespan/config/fleet/topology"
	"edgespan/platform/confdir"
)

func newLayersRollout(a offline) *cobra.Command {
	output, pending, assumeAlive := "", []string{}, false
	cmd := &cobra.Command{
		Use:   "rollout-plan TOPOLOGY",
		Short: "Plan the batches of a rollout over a topology",
		Long: `Plan in which batches a change goes out to the nodes of a topology, so that no node
outside the running batch loses its last path to a point of presence. Whole sites go
down together. A site goes with every pending site behind it; two sites that back each
other up, or two points of presence, never go together.

Nodes that are offline, or whose site has no path to a point of presence over links that
are alive, are in no batch: they are named, and the exit code is 6.`,
		Example: `  edgespan layers rollout-plan --assume-alive topology.conf
  edgespan layers rollout-plan --pending node-1,node-2 -o json topology.conf`,
		Args: term.ExactArgs(1, "one topology file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := term.CheckOutput(output); err != nil {
				return err
			}
			t, err := a.topologyFile(args[0])
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("pending") {
				for _, n := range t.Nodes {
					pending = append(pending, n.Name)
				}
			}
			plan, faults := rollout.Plan(t, pending, rollout.Options{AssumeAlive: assumeAlive})
			if faults != nil {
				return &confdir.Broken{File: args[0], Faults: faults}
			}
			return a.showPlan(t, plan, output)
		},
	}
	cmd.Flags().StringSliceVar(&pending, "pending", nil,
		"nodes to change, separated by commas (default: all)")
	cmd.Flags().BoolVar(&assumeAlive, "assume-alive", false, "assume that all links are up")
	term.OutputFlag(cmd, &output)
	return cmd
}

// topologyFile reads a topology from a file, or from stdin for "-".
func (a offline) topologyFile(name string) (*topology.Topology, error) {
	o, err := ReadObject(a.Streams, name)
	if err != nil {
		return nil, err
	}
	t, faults := topology.FromDocument(o)
	if faults != nil {
		return nil, &confdir.Broken{File: name, Faults: faults}
	}
	return t, nil
}

// showPlan prints a plan, and on stderr the nodes that are in no batch.
func (a offline) showPlan(t *topology.Topology, plan rollout.Result, output string) error {
	site := map[string]string{}
	for _, n := range t.Nodes {
		site[n.Name] = n.Site
	}
	out := term.Shown{Data: plan, Empty: "no batches"}
	rows := &term.Table{Head: []string{"BATCH", "SITE", "NODE"}}
	for i, batch := range plan.Batches {
		for _, n := range batch {
			rows.Add(strconv.Itoa(i+1), site[n], n)
		}
		out.Names = append(out.Names, batch...)
	}
	out.Table = func(wide bool) *term.Table { rows.Wide = wide; return rows }
	if err := a.Show(out, output); err != nil {
		return err
	}
	for _, u := range plan.Unreachable {
		a.Printf("%s: in no batch: %s", term.Printable(u.Node), u.Reason)
	}
	if len(plan.Unreachable) > 0 {
		return term.StatusError(term.ExitPartial)
	}
	return nil
}
