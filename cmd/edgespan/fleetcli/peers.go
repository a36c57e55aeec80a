package fleetcli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
)

// peerSpecs are the commands for peers and clusters.
var peerSpecs = []fleetSpec{
	{use: "peers", short: "Show and manage peers: nodes with their descriptors", sub: []fleetSpec{
		{use: "list", short: "List the peers",
			example: "  edgespan peers list",
			args:    term.ExactArgs(0, ""), forms: tableForms, run: listPeers},
		{use: "get PEER", short: "Print the descriptor of a peer",
			example: "  edgespan peers get edge-1 -o yaml",
			args:    term.ExactArgs(1, "one PEER"),
			forms:   descriptorForms, complete: firstPeer, run: getPeer},
		{use: "describe PEER", short: "Show everything about a peer",
			example: "  edgespan peers describe edge-1",
			args:    term.ExactArgs(1, "one PEER"),
			forms:   tableForms, complete: firstPeer, run: describePeer},
		{
			use: "status [PEER]", short: "Count the peers by health, or show the parameters of one",
			example: "  edgespan peers status\n  edgespan peers status edge-1 -w",
			long: `Without PEER: how many peers have which health. With PEER: each parameter, its
desired value, and its state as derived from the node's reports.` + aboutWatch,
			args:  term.RangeArgs(0, 1, "one PEER, or none"),
			forms: tableForms, complete: firstPeer,
			flags: watchFlag, run: statusOfPeers,
		},
		{
			use:     "explain PEER [ID]",
			short:   "Explain the state of a peer's parameters",
			example: "  edgespan peers explain edge-1\n  edgespan peers explain edge-1 interface/lan0",
			long: `Explain one parameter: its desired value and who set it, what the node reported, the state derived from
both, and the state of its dependencies. Without ID: each parameter that is not in its desired state.`,
			args: term.RangeArgs(1, 2, "PEER, or PEER ID"), forms: tableForms, complete: completeParameters, run: explainPeer,
		},
		{
			use: "delete PEER", short: "Delete the descriptor of a peer that no deployed cluster needs",
			example: "  edgespan peers delete edge-1 -m 'decommissioned'",
			args:    term.ExactArgs(1, "one PEER"), forms: tableForms,
			write: true, complete: firstPeer,
			run: func(c *fleetCall) error { return c.put(ops.Undescribe{Kind: peer.KindPeer, Names: c.args}) },
		},
	}},
	{use: "clusters", short: "Deploy and undeploy clusters: layer-2 networks over peers",
		sub: []fleetSpec{
			{use: "list", short: "List the clusters",
				example: "  edgespan clusters list",
				args:    term.ExactArgs(0, ""), forms: tableForms, run: listClusters},
			{use: "get CLUSTER", short: "Print the descriptor of a cluster",
				example: "  edgespan clusters get lab -o yaml",
				args:    term.ExactArgs(1, "one CLUSTER"),
				forms:   descriptorForms, complete: firstCluster, run: getCluster},
			{use: "describe CLUSTER", short: "Show everything about a cluster, its members and its tunnels",
				example: "  edgespan clusters describe lab",
				args:    term.ExactArgs(1, "one CLUSTER"), forms: tableForms, complete: firstCluster, run: describeCluster},
			{
				use: "status [CLUSTER]", short: "Count the clusters by state, or show the members of one",
				example: "  edgespan clusters status\n  edgespan clusters status lab -w",
				long: "Without CLUSTER: how many clusters are in which state. With CLUSTER: the state of each member." +
					aboutWatch,
				args: term.RangeArgs(0, 1, "one CLUSTER, or none"), forms: tableForms, complete: firstCluster, flags: watchFlag,
				run: statusOfClusters,
			},
			{
				use:   "explain CLUSTER",
				short: "Explain what keeps a cluster from being ready",
				long: `Explain the state of a cluster: each parameter of its members that is not
in its desired state.`,
				example: "  edgespan clusters explain lab",
				args:    term.ExactArgs(1, "one CLUSTER"), forms: tableForms, complete: firstCluster, run: explainCluster,
			},
			{
				use: "deploy CLUSTER", short: "Deploy a cluster to its members",
				example: "  edgespan clusters deploy lab && edgespan wait cluster/lab --for ready",
				args:    term.ExactArgs(1, "one CLUSTER"), forms: tableForms, write: true, unbound: true, complete: firstCluster,
				run: func(c *fleetCall) error { return c.put(ops.Deploy{Clusters: c.args}) },
			},
			{
				use: "undeploy CLUSTER", short: "Undeploy a cluster from its members",
				example: "  edgespan clusters undeploy lab && edgespan wait cluster/lab --for undeployed",
				args:    term.ExactArgs(1, "one CLUSTER"), forms: tableForms, write: true, unbound: true, complete: firstCluster,
				run: func(c *fleetCall) error { return c.put(ops.Undeploy{Clusters: c.args}) },
			},
			{
				use: "delete CLUSTER", short: "Delete the descriptor of a cluster that is not deployed",
				example: "  edgespan clusters delete lab",
				args:    term.ExactArgs(1, "one CLUSTER"), forms: tableForms,
				write: true, complete: firstCluster,
				run: func(c *fleetCall) error { return c.put(ops.Undescribe{Kind: peer.KindCluster, Names: c.args}) },
			},
		}},
}

// descriptorForms are documentForms with YAML first, the form in which people write descriptors.
var descriptorForms = []string{"yaml", "json", "table", "wide", "name"}

const aboutWatch = `

-w then prints a line for each change until interrupted; with -o json one object a line.`

func watchFlag(cmd *cobra.Command, c *fleetCall) {
	cmd.Flags().BoolVarP(&c.watch, "watch", "w", false, "print a line for each change until interrupted")
}

// firstPeer completes the first argument only.
func firstPeer(a *reach.App, cmd *cobra.Command, args []string, _ string) []string {
	if len(args) > 0 {
		return nil
	}
	return liveNames(cmd.Context(), a, peerNames)
}

func firstCluster(a *reach.App, cmd *cobra.Command, args []string, _ string) []string {
	if len(args) > 0 {
		return nil
	}
	return liveNames(cmd.Context(), a, clusterNames)
}

// completeParameters completes a peer, then one of its parameters.
func completeParameters(a *reach.App, cmd *cobra.Command, args []string, typed string) []string {
	if len(args) != 1 {
		return firstPeer(a, cmd, args, typed)
	}
	return liveNames(cmd.Context(), a, func(ctx context.Context, c *fleetapi.Client) ([]string, error) {
		d, err := c.Peer(ctx, args[0])
		return idsOf(slices.Concat(d.Parameters, d.Ignored)), err
	})
}

func peerNames(ctx context.Context, c *fleetapi.Client) ([]string, error) {
	all, err := c.Peers(ctx)
	var out []string
	for _, p := range all {
		out = append(out, p.Name)
	}
	return out, err
}

func clusterNames(ctx context.Context, c *fleetapi.Client) ([]string, error) {
	all, err := c.Clusters(ctx)
	var out []string
	for _, one := range all {
		out = append(out, one.Name)
	}
	return out, err
}

func idsOf(ps []fleetapi.PeerParameter) []string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.ID
	}
	return out
}

// livePeersRequest asks the controller for names.
type livePeersRequest func(context.Context, *fleetapi.Client) ([]string, error)

// LiveObjects returns the names of the nodes, peers or clusters that the controller knows now.
func LiveObjects(ctx context.Context, a *reach.App, kind string) []string {
	switch kind {
	case "node":
		return liveNodes(ctx, a)
	case "cluster":
		return liveNames(ctx, a, clusterNames)
	}
	return liveNames(ctx, a, peerNames)
}

// liveNames returns the names that the controller knows now, for completion. Without a controller it returns none.
func liveNames(ctx context.Context, a *reach.App, ask livePeersRequest) []string {
	if ctx == nil {
		ctx = context.Background() // cobra completes without a context
	}
	ctx, cancel := context.WithTimeout(ctx, reach.CompletionTimeout)
	defer cancel()
	client, err := a.FleetClient()
	if err != nil {
		return nil
	}
	defer client.Close()
	names, err := ask(ctx, client)
	if err != nil {
		return nil
	}
	return names
}

func listPeers(c *fleetCall) error {
	all, err := c.client.Peers(c.ctx)
	if err != nil {
		return err
	}
	s := term.Shown{Data: term.OrEmpty(all), Empty: "no peers",
		Table: func(wide bool) *term.Table { return peerTable(all, wide) }}
	for _, p := range all {
		s.Names = append(s.Names, p.Name)
	}
	return c.a.Show(s, c.output)
}

func peerTable(all []fleetapi.Peer, wide bool) *term.Table {
	t := &term.Table{Head: []string{"NAME", "CONNECTED", "READY", "HEALTH", "PARAMETERS", "CLUSTERS", "REPORT", "REASON"},
		Wide: wide}
	if wide {
		t.Head = []string{"NAME", "CONNECTED", "READY", "HEALTH", "PARAMETERS", "CLUSTERS", "REPORT", "DESCRIBED", "APPLIED",
			"DESIRED", "ID", "REASON"}
	}
	for _, p := range all {
		row, why := []string{p.Name, term.YesNo(p.Online), term.YesNo(p.Ready), p.Health, done(p.Counts),
			strings.Join(p.Clusters, ","), reportAge(p)}, shortIDs(p.Why)
		if wide {
			row, why = append(row, term.YesNo(p.Described), p.Applied, p.Desired, p.ID), p.Why
		}
		t.Add(append(row, why)...)
	}
	return t
}

// done formats how many of all parameters are in their final state.
func done(counts map[string]int) string {
	final, all := 0, 0
	for s, n := range counts {
		if all += n; stateloop.State(s).Class() == stateloop.Final {
			final += n
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", final, all)
}

// reportAge returns the age of the last report.
func reportAge(p fleetapi.Peer) string {
	if p.AgeSeconds == nil {
		return ""
	}
	d := time.Duration(*p.AgeSeconds * float64(time.Second))
	if d < time.Minute {
		return d.Round(100*time.Millisecond).String() + " ago"
	}
	return d.Round(time.Second).String() + " ago"
}

func getPeer(c *fleetCall) error {
	d, err := c.client.Peer(c.ctx, c.args[0])
	if err != nil {
		return err
	}
	if !d.Described {
		return &ops.NotFoundError{What: "descriptor of " + d.Name,
			Allowed: "joined, but it has no descriptor: run 'edgespan apply -f FILE'"}
	}
	return c.versioned(ops.DocumentAnswer{Object: d.Descriptor, Revision: d.Revision})
}

func getCluster(c *fleetCall) error {
	d, err := c.client.Cluster(c.ctx, c.args[0])
	if err != nil {
		return err
	}
	return c.versioned(ops.DocumentAnswer{Object: d.Descriptor, Revision: d.Revision})
}

func listClusters(c *fleetCall) error {
	all, err := c.client.Clusters(c.ctx)
	if err != nil {
		return err
	}
	s := term.Shown{Data: term.OrEmpty(all), Empty: "no clusters",
		Table: func(wide bool) *term.Table { return clusterTable(all, wide) }}
	for _, one := range all {
		s.Names = append(s.Names, one.Name)
	}
	return c.a.Show(s, c.output)
}

func clusterTable(all []fleetapi.Cluster, wide bool) *term.Table {
	t := &term.Table{Head: []string{"NAME", "STATE", "READY", "HEALTH", "TOPOLOGY", "LEADER", "MEMBERS", "REASON"},
		Wide: wide}
	if wide {
		t.Head = []string{"NAME", "STATE", "READY", "HEALTH", "TOPOLOGY", "LEADER", "MEMBERS", "ID", "REASON"}
	}
	for _, one := range all {
		row := []string{one.Name, one.State, term.YesNo(one.Ready), one.Health, one.Topology, one.Leader,
			strings.Join(one.Members, ",")}
		if wide {
			row = append(row, one.ID)
		}
		t.Add(append(row, shortIDs(one.Why))...)
	}
	return t
}

// count is the answer of `status -o json` for all peers, or all clusters.
type count struct {
	Count  int            `json:"count"`
	Ready  int            `json:"ready"`
	Health map[string]int `json:"health"`
	States map[string]int `json:"states,omitempty"`
}

func statusOfPeers(c *fleetCall) error {
	if len(c.args) == 1 {
		return statusOfPeer(c)
	}
	if c.watch {
		return term.Requires("-w", "a PEER")
	}
	all, err := c.client.Peers(c.ctx)
	if err != nil {
		return err
	}
	n := count{Count: len(all), Health: map[string]int{}}
	online := 0
	for _, p := range all {
		n.Health[p.Health]++
		n.Ready += one(p.Ready)
		online += one(p.Online)
	}
	if err := c.showCounts(n, "HEALTH", "PEERS", n.Health); err != nil {
		return err
	}
	c.a.Printf("%s, %d connected, %d ready", term.Many(n.Count, "peer"), online, n.Ready)
	return nil
}

func statusOfClusters(c *fleetCall) error {
	if len(c.args) == 1 {
		return statusOfCluster(c)
	}
	if c.watch {
		return term.Requires("-w", "a CLUSTER")
	}
	all, err := c.client.Clusters(c.ctx)
	if err != nil {
		return err
	}
	n := count{Count: len(all), Health: map[string]int{}, States: map[string]int{}}
	for _, x := range all {
		n.Health[x.Health]++
		n.States[x.State]++
		n.Ready += one(x.Ready)
	}
	if err := c.showCounts(n, "STATE", "CLUSTERS", n.States); err != nil {
		return err
	}
	c.a.Printf("%s, %d ready", term.Many(n.Count, "cluster"), n.Ready)
	return nil
}

func (c *fleetCall) showCounts(data count, by, of string, counts map[string]int) error {
	words := slices.Sorted(maps.Keys(counts))
	t := &term.Table{Head: []string{by, of}}
	for _, w := range words {
		t.Add(w, fmt.Sprint(counts[w]))
	}
	return c.a.Show(term.Shown{Data: data, Names: words, Table: func(bool) *term.Table { return t },
		Empty: "not found"}, c.output)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
