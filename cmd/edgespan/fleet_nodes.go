package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/config"
	"edgespan/config/httpapi/fleetapi"
)

// nodesSpecs are the commands of the nodes that the controller knows.
var nodesSpecs = []fleetSpec{{use: "nodes", short: "The nodes that the controller knows: their state, and what is done with them", sub: []fleetSpec{
	{use: "list", short: "List the nodes", args: exactArgs(0, "none"), forms: tableForms, run: listNodes},
	{
		use: "describe NODE", short: "Show all that is known of a node, why it is as it is, and what happens next",
		args: exactArgs(1, "one NODE"), forms: tableForms, complete: firstNode, run: describeNode,
	},
	{
		use: "status [NODE]", short: "Count the nodes by their state, or show the parameters of one",
		long: `Without NODE: how many nodes are in which state. With NODE: each declared parameter, what is wanted
of it, and the state that follows from what the node has reported.`,
		args: rangeArgs(0, 1, "one NODE, or none"), forms: tableForms, complete: firstNode, run: statusOfNodes,
	},
	{
		use: "explain NODE PATH", short: "Say which layer set the values of a node's config, when and by whom, and what they hide",
		example: "  edgespan nodes explain pop-1 sysParams.managedConfig",
		args:    exactArgs(2, "NODE PATH"), forms: tableForms, complete: firstNode, run: explainNode,
	},
	commandSpec("retry", fleetapi.Retry, "Push again what failed before, and now"),
	commandSpec("release", fleetapi.Release, "End a config that was applied locally: the controller rules again"),
	commandSpec("confirm", fleetapi.Confirm, "Confirm by hand the config that waits for it"),
	commandSpec("renew", fleetapi.Renew, "Have a node renew its certificate now, and not after two thirds of its life"),
	commandSpec("forget", fleetapi.Forget, "Revoke a node's certificate and forget that it joined"),
	{
		use: "adopt NODE --import|--replace", short: "Take over a node that has a config of its own",
		long: `A node that joins with objects of its own is not touched until you say what becomes of them: with
--import its config becomes its node layer, with --replace the objects that the controller does
not want may go.`,
		args: exactArgs(1, "one NODE"), complete: firstNode, run: adoptNode,
		flags: func(cmd *cobra.Command, c *fleetCall) {
			cmd.Flags().BoolVar(&c.adoptImport, "import", false, "its config becomes its node layer")
			cmd.Flags().BoolVar(&c.adoptReplace, "replace", false, "what the controller does not want may go")
		},
	},
	inviteSpec("invite", "Open a join token for a name, and print the command to type on the node", false),
	inviteSpec("replace", "Open a join token for another machine of this name; the certificate of the present one is revoked", true),
}}}

// commandSpec is a command that does one thing with nodes, and has nothing to show.
func commandSpec(word string, command fleetapi.Command, short string) fleetSpec {
	return fleetSpec{
		use: word + " NODE...", short: short, args: someArgs("one NODE or more"), complete: completeNodes,
		run: func(c *fleetCall) error {
			var faults []error
			for _, node := range c.args {
				if err := c.client.Command(c.ctx, node, command); err != nil {
					faults = append(faults, &lineError{printable(node + ": " + err.Error()), err})
					continue
				}
				c.a.say("%s: %s", printable(node), word)
			}
			return errors.Join(faults...)
		},
	}
}

func inviteSpec(word, short string, replace bool) fleetSpec {
	return fleetSpec{
		use: word + " NAME", short: short, args: exactArgs(1, "one NAME"), forms: tableForms, complete: firstNode,
		flags: func(cmd *cobra.Command, c *fleetCall) {
			cmd.Flags().DurationVar(&c.life, "life", 0, "how long the token is valid (default 24h)")
		},
		run: func(c *fleetCall) error {
			if c.life < 0 {
				return usagef("--life: is %s: a duration above 0 is allowed", c.life)
			}
			i, err := c.client.Invite(c.ctx, c.args[0], c.life, replace)
			if err != nil {
				return err
			}
			if c.output == "table" || c.output == "wide" {
				// The command alone is the data, so that it can be piped to the node.
				if _, err := fmt.Fprintln(c.a.Out, printable(i.Command)); err != nil {
					return err
				}
				c.a.say("%s: the token is shown this once and expires %s; type the command on the node", printable(i.Node), moment(&i.Expires))
				return nil
			}
			return c.a.show(shown{data: i, names: []string{i.Node}}, c.output)
		},
	}
}

func adoptNode(c *fleetCall) error {
	if c.adoptImport == c.adoptReplace {
		return usagef("adopt: needs --import or --replace: one of them is allowed")
	}
	command := fleetapi.AdoptImport
	if c.adoptReplace {
		command = fleetapi.AdoptReplace
	}
	if err := c.client.Command(c.ctx, c.args[0], command); err != nil {
		return err
	}
	c.a.say("%s: adopted", printable(c.args[0]))
	return nil
}

func listNodes(c *fleetCall) error {
	nodes, err := c.client.Nodes(c.ctx)
	if err != nil {
		return err
	}
	s := shown{data: orEmpty(nodes), empty: "no nodes", table: func(wide bool) *table { return nodeTable(nodes, wide) }}
	for _, n := range nodes {
		s.names = append(s.names, n.Name)
	}
	return c.a.show(s, c.output)
}

func nodeTable(nodes []fleetapi.Node, wide bool) *table {
	t := &table{head: []string{"NAME", "STATE", "ONLINE", "READY", "RUNNING", "WANTED", "SOFTWARE", "WHY"}, wide: wide}
	if wide {
		t.head = []string{"NAME", "STATE", "ONLINE", "READY", "RUNNING", "WANTED", "SOFTWARE", "FIRMWARE", "BOARD", "MANAGED", "LAST REPORT", "ID", "WHY"}
	}
	for _, n := range nodes {
		row := []string{n.Name, n.State, yesNo(n.Online), yesNo(n.Ready), n.Running.Generation, n.Wanted.Generation, n.Software}
		if wide {
			row = append(row, n.Firmware, n.Board, yesNo(n.Managed), moment(n.LastReport), n.ID)
		}
		t.add(append(row, n.Why)...)
	}
	return t
}

// nodeCounts is `nodes status -o json`.
type nodeCounts struct {
	Nodes  int            `json:"nodes"`
	Online int            `json:"online"`
	Ready  int            `json:"ready"`
	States map[string]int `json:"states"`
}

func statusOfNodes(c *fleetCall) error {
	if len(c.args) == 1 {
		return statusOfNode(c)
	}
	nodes, err := c.client.Nodes(c.ctx)
	if err != nil {
		return err
	}
	counts := nodeCounts{Nodes: len(nodes), States: map[string]int{}}
	for _, n := range nodes {
		counts.States[n.State]++
		if n.Online {
			counts.Online++
		}
		if n.Ready {
			counts.Ready++
		}
	}
	states := slices.Sorted(maps.Keys(counts.States))
	t := &table{head: []string{"STATE", "NODES"}, wide: c.output == "wide"}
	for _, s := range states {
		t.add(s, fmt.Sprint(counts.States[s]))
	}
	if err := c.a.show(shown{data: counts, names: states, table: func(bool) *table { return t }, empty: "no nodes"}, c.output); err != nil {
		return err
	}
	c.a.say("%s, %d online, %d ready", many(counts.Nodes, "node"), counts.Online, counts.Ready)
	return nil
}

func statusOfNode(c *fleetCall) error {
	n, err := c.client.Node(c.ctx, c.args[0])
	if err != nil {
		return err
	}
	s := shown{data: orEmpty(n.Parameters), empty: "no parameters", table: func(wide bool) *table { return parameterTable(n, wide) }}
	for _, p := range n.Parameters {
		s.names = append(s.names, p.ID)
	}
	return c.a.show(s, c.output)
}

func parameterTable(n fleetapi.NodeDetail, wide bool) *table {
	t := &table{head: []string{"PARAMETER", "KIND", "TARGET", "STATE", "REVIEW", "REASON"}, wide: wide}
	for _, p := range n.Parameters {
		t.add(p.ID, p.Kind, p.Target, p.State, p.Review, p.Reason)
	}
	return t
}

func explainNode(c *fleetCall) error {
	path, err := config.ParsePath(c.args[1])
	if err != nil {
		return usagef("PATH: %w", err)
	}
	all, err := c.client.Explain(c.ctx, c.args[0], path)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return noKey(path)
	}
	s := shown{data: all}
	for _, x := range all {
		s.names = append(s.names, x.Path)
	}
	if c.output != "table" && c.output != "wide" {
		return c.a.show(s, c.output)
	}
	var b strings.Builder
	for _, x := range all {
		fmt.Fprintf(&b, "%s = %s from %s%s\n", printable(x.Path), oneLine(x.Value), printable(x.Origin), byline(x.By))
		for _, sh := range x.Shadowed {
			fmt.Fprintf(&b, "  over %s from %s", oneLine(sh.Value), printable(sh.Layer))
			if sh.Path != x.Path {
				fmt.Fprintf(&b, " at %s", printable(sh.Path))
			}
			b.WriteString(byline(sh.By) + "\n")
		}
	}
	_, err = fmt.Fprint(c.a.Out, b.String())
	return err
}

// byline is which revision set a value; nothing for what has none.
func byline(by *fleetapi.By) string {
	if by == nil {
		return ""
	}
	text := fmt.Sprintf(", revision %d by %s, %s", by.Number, by.Author, moment(&by.Time))
	if by.Message != "" {
		text += ": " + by.Message
	}
	return printable(text)
}
