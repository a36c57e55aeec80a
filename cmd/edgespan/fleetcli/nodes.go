package fleetcli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/layerscli"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/httpapi/fleetapi"
)

// nodesSpecs are the commands for the nodes that the controller knows.
var nodesSpecs = []fleetSpec{{use: "nodes",
	short: "Show and manage the nodes of the fleet", sub: []fleetSpec{
		{use: "list", short: "List the nodes",
			example: "  edgespan nodes list -o wide",
			args:    term.ExactArgs(0, ""), forms: tableForms, run: listNodes},
		{
			use: "describe NODE", short: "Show everything about a node: its state, why, and what happens next",
			example: "  edgespan nodes describe edge-1",
			args:    term.ExactArgs(1, "one NODE"), forms: tableForms, complete: firstNode, run: describeNode,
		},
		{
			use: "status [NODE]", short: "Count the nodes by state, or show the parameters of one",
			example: "  edgespan nodes status\n  edgespan nodes status edge-1",
			long: `Without NODE: how many nodes are in which state. With NODE: each declared
parameter, its desired value, and its state as derived from the node's reports.`,
			args: term.RangeArgs(0, 1, "one NODE, or none"), forms: tableForms, complete: firstNode, run: statusOfNodes,
		},
		{
			use:     "explain NODE PATH",
			short:   "Explain which layer set a value of a node's config, and who did",
			example: "  edgespan nodes explain pop-1 sysParams.managedConfig",
			args:    term.ExactArgs(2, "NODE PATH"), forms: tableForms, complete: firstNode, run: explainNode,
		},
		eventsSpec,
		commandSpec("retry", fleetapi.Retry, "Push a config again that failed before"),
		commandSpec("release", fleetapi.Release, "End a local hold, so that the controller manages the node again"),
		commandSpec("confirm", fleetapi.Confirm, "Confirm the config that waits for confirmation"),
		commandSpec("renew", fleetapi.Renew, "Make a node renew its certificate now, not when it is due"),
		commandSpec("forget", fleetapi.Forget, "Revoke a node's certificate or invitation, and forget the node"),
		{
			use: "adopt NODE --import|--replace", short: "Adopt a node that has its own config",
			example: "  edgespan nodes adopt edge-1 --import",
			long: `A node that joins with a config of its own is left alone until you decide what
happens to it: --import makes its config its node layer; --replace lets the controller remove
objects that its layers do not contain.`,
			args: term.ExactArgs(1, "one NODE"), complete: firstNode, run: adoptNode,
			flags: func(cmd *cobra.Command, c *fleetCall) {
				cmd.Flags().BoolVar(&c.adoptImport, "import", false, "import its config as its node layer")
				cmd.Flags().BoolVar(&c.adoptReplace, "replace", false, "let the controller replace its config")
			},
		},
		supportSpec(),
		inviteSpec("invite", "Create a join token, and print the command to run on the node", false),
		inviteSpec("replace",
			"Create a join token for a new machine, and revoke the old one", true),
	}}}

// commandSpec returns a command that does one thing with nodes and prints no result.
func commandSpec(word string, command fleetapi.Command, short string) fleetSpec {
	return fleetSpec{
		use: word + " NODE...", short: short, example: "  edgespan nodes " + word + " edge-1",
		args: term.AtLeast(1, "one NODE or more"), complete: completeNodes,
		run: func(c *fleetCall) error {
			var faults []error
			for _, node := range c.args {
				if err := c.client.Command(c.ctx, node, command); err != nil {
					faults = append(faults, &lineError{term.Printable(node + ": " + err.Error()), err})
					continue
				}
				c.a.Printf("%s: %s", term.Printable(node), word)
			}
			return errors.Join(faults...)
		},
	}
}

func inviteSpec(word, short string, replace bool) fleetSpec {
	return fleetSpec{
		use: word + " NAME", short: short, example: "  edgespan nodes " + word + " edge-1 --life 2h",
		args: term.ExactArgs(1, "one NAME"), forms: tableForms, complete: firstNode,
		flags: func(cmd *cobra.Command, c *fleetCall) {
			cmd.Flags().DurationVar(&c.life, "life", 0, "validity of the token (default 24h)")
		},
		run: func(c *fleetCall) error {
			if c.life < 0 {
				return term.Invalid("--life", c.life, "more than 0s")
			}
			i, err := c.client.Invite(c.ctx, c.args[0], c.life, replace)
			if err != nil {
				return err
			}
			if c.output == "table" || c.output == "wide" {
				// Only the command goes to stdout, so that it can be piped to the node.
				if _, err := fmt.Fprintln(c.a.Out, term.Printable(i.Command)); err != nil {
					return err
				}
				c.a.Printf("%s: the token is shown only once and expires %s; run the command on the node", term.Printable(i.Node),
					term.FormatTime(&i.Expires))
				return nil
			}
			return c.a.Show(term.Shown{Data: i, Names: []string{i.Node}}, c.output)
		},
	}
}

func adoptNode(c *fleetCall) error {
	if c.adoptImport == c.adoptReplace {
		return term.Usagef("adopt: requires either --import or --replace")
	}
	command := fleetapi.AdoptImport
	if c.adoptReplace {
		command = fleetapi.AdoptReplace
	}
	if err := c.client.Command(c.ctx, c.args[0], command); err != nil {
		return err
	}
	c.a.Printf("%s: adopted", term.Printable(c.args[0]))
	return nil
}

func listNodes(c *fleetCall) error {
	nodes, err := c.client.Nodes(c.ctx)
	if err != nil {
		return err
	}
	s := term.Shown{Data: term.OrEmpty(nodes), Empty: "no nodes",
		Table: func(wide bool) *term.Table { return nodeTable(nodes, wide) }}
	for _, n := range nodes {
		s.Names = append(s.Names, n.Name)
	}
	return c.a.Show(s, c.output)
}

func nodeTable(nodes []fleetapi.Node, wide bool) *term.Table {
	t := &term.Table{Head: []string{"NAME", "STATE", "CONNECTED", "READY", "CURRENT", "DESIRED", "SOFTWARE", "REASON"},
		Wide: wide}
	if wide {
		t.Head = []string{"NAME", "STATE", "CONNECTED", "READY", "CURRENT", "DESIRED", "SOFTWARE", "FIRMWARE", "BOARD",
			"MANAGED", "LAST REPORT", "ID", "REASON"}
	}
	for _, n := range nodes {
		row := []string{n.Name, n.State, term.YesNo(n.Online), term.YesNo(n.Ready), n.Running.Generation,
			n.Desired.Generation,
			n.Software}
		if wide {
			row = append(row, n.Firmware, n.Board, term.YesNo(n.Managed), term.FormatTime(n.LastReport), n.ID)
		}
		t.Add(append(row, n.Why)...)
	}
	return t
}

// nodeCounts is the answer of `nodes status -o json`.
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
	t := &term.Table{Head: []string{"STATE", "NODES"}, Wide: c.output == "wide"}
	for _, s := range states {
		t.Add(s, fmt.Sprint(counts.States[s]))
	}
	if err := c.a.Show(term.Shown{Data: counts, Names: states, Table: func(bool) *term.Table { return t },
		Empty: "no nodes"}, c.output); err != nil {
		return err
	}
	c.a.Printf("%s, %d connected, %d ready", term.Many(counts.Nodes, "node"), counts.Online, counts.Ready)
	return nil
}

func statusOfNode(c *fleetCall) error {
	n, err := c.client.Node(c.ctx, c.args[0])
	if err != nil {
		return err
	}
	s := term.Shown{Data: term.OrEmpty(n.Parameters), Empty: "no parameters",
		Table: func(wide bool) *term.Table { return parameterTable(n, wide) }}
	for _, p := range n.Parameters {
		s.Names = append(s.Names, p.ID)
	}
	return c.a.Show(s, c.output)
}

func parameterTable(n fleetapi.NodeDetail, wide bool) *term.Table {
	t := &term.Table{Head: []string{"PARAMETER", "KIND", "TARGET", "STATE", "REVIEW", "REASON"}, Wide: wide}
	for _, p := range n.Parameters {
		t.Add(p.ID, p.Kind, p.Target, p.State, p.Review, p.Reason)
	}
	return t
}

func explainNode(c *fleetCall) error {
	path, err := config.ParsePath(c.args[1])
	if err != nil {
		return term.Usagef("PATH: %w", err)
	}
	all, err := c.client.Explain(c.ctx, c.args[0], path)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return layerscli.NoKey(path)
	}
	s := term.Shown{Data: all}
	for _, x := range all {
		s.Names = append(s.Names, x.Path)
	}
	if c.output != "table" && c.output != "wide" {
		return c.a.Show(s, c.output)
	}
	var b strings.Builder
	for _, x := range all {
		fmt.Fprintf(&b, "%s = %s from %s%s\n", term.Printable(x.Path), term.OneLine(x.Value), term.Printable(x.Origin),
			byline(x.By))
		for _, sh := range x.Shadowed {
			fmt.Fprintf(&b, "  over %s from %s", term.OneLine(sh.Value), term.Printable(sh.Layer))
			if sh.Path != x.Path {
				fmt.Fprintf(&b, " at %s", term.Printable(sh.Path))
			}
			b.WriteString(byline(sh.By) + "\n")
		}
	}
	_, err = fmt.Fprint(c.a.Out, b.String())
	return err
}

// byline names the revision that set a value, or returns "" without one.
func byline(by *fleetapi.By) string {
	if by == nil {
		return ""
	}
	text := fmt.Sprintf(", revision %d by %s, %s", by.Number, by.Author, term.FormatTime(&by.Time))
	if by.Message != "" {
		text += ": " + by.Message
	}
	return term.Printable(text)
}
