package nodecli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/httpapi/nodeapi"
)

const adapterTarget = "app/ID/INDEX"

func newACL(a commands) *cobra.Command {
	group := term.Group("acl", "Show, explain and enforce access rules")
	group.AddCommand(newExplainFlow(a), newShowRules(a), newShadow(a), newEnforce(a))
	return group
}

func newExplainFlow(a commands) *cobra.Command {
	var output string
	var q flowFlags
	cmd := &cobra.Command{
		Use:   "explain " + adapterTarget + " --to|--from IP|HOST",
		Short: "Explain whether a packet from or to an adapter arrives, and why",
		Long: `explain says what becomes of the first packet of a flow by the node's current config: allow, deny, or
translate (the packet leaves with the address of a port, or a port map leads it to the app). It shows
the rule of each adapter that decided, or the check that is built in, the route and the port, and
with which address the packet arrives. No packet is sent.

--to asks about a packet that the app sends, --from about one that is sent to it: by another app, by
the node itself, or from outside by the port --in, by default the one by which the network reaches
that address. HOST is a name that the network's DNS answers by itself: of an app, or of dns.hosts;
with --to also one that a rule of the adapter has as match.host, or one below it. For an address
that DNS may have given for the host of a rule, the answer names the rules on which it depends.
If port maps of the adapter take --port, --from also asks about packets to their addresses.

--port is the destination's port. Without --proto, it is one of tcp; without both, ping is asked
about. ID is a UUID, or a display name that only one app has.

Replies of an allowed flow always pass. A rule with a limit allows what is within it; maxFlows is not
taken into account. Of an adapter with observe, the answer says which rule would deny the packet.

It exits 0 whether the packet arrives or not.`,
		Example: "  edgespan acl explain app/web/0 --to 198.51.100.7 --proto tcp --port 443\n" +
			"  edgespan acl explain app/web/0 --to 10.1.0.1\n" +
			"  edgespan acl explain app/web/0 --from 198.51.100.7 --in wan --port 80 -o json",
		Args: term.ExactArgs(1, adapterTarget),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := q.read(cmd, args[0]); err != nil {
				return err
			}
			if err := term.CheckOutput(output); err != nil {
				return err
			}
			return a.explainFlow(cmd.Context(), q.FlowQuery, output)
		},
		ValidArgsFunction: a.completeAdapters,
	}
	flags := cmd.Flags()
	flags.StringVar(&q.to, "to", "", "the app sends to this IP address or name")
	flags.StringVar(&q.from, "from", "", "the app is sent to from this IP address or name")
	flags.StringVar(&q.In, "in", "", "with --from: label of the port by which the packet arrives")
	flags.StringVar(&q.Protocol, "proto", "", "tcp, udp, icmp or a number")
	flags.Uint16Var(&q.Port, "port", 0, "the destination's port, of tcp and udp")
	flags.Uint16Var(&q.SourcePort, "source-port", 0, "the sender's port; default: 49152")
	term.OutputFlag(cmd, &output)
	return cmd
}

// flowFlags are the flags of acl explain.
type flowFlags struct {
	nodeapi.FlowQuery

	to, from string
}

// read completes and checks the query.
func (q *flowFlags) read(cmd *cobra.Command, target string) (err error) {
	if q.Adapter, err = readAdapter(target); err != nil {
		return err
	}
	q.Remote, q.Incoming = q.to+q.from, q.from != ""
	switch given := cmd.Flags().Changed; {
	case (q.to == "") == (q.from == ""):
		return term.Usagef("acl explain: must have either --to or --from, an IP address or a name")
	case q.In != "" && !q.Incoming:
		return term.Usagef("acl explain: --in is the port by which a packet arrives: must be used with --from")
	case given("port") && q.Port == 0, given("source-port") && q.SourcePort == 0:
		return term.Usagef("acl explain: invalid port 0: must be 1 to 65535")
	}
	if _, err := q.Number(); err != nil {
		return term.Usagef("acl explain: --%s", err)
	}
	return nil
}

// readAdapter reads the id of an adapter: app/ID/INDEX, adapter/ID/INDEX or ID/INDEX.
func readAdapter(text string) (string, error) {
	id := strings.TrimPrefix(strings.TrimPrefix(text, "app/"), "adapter/")
	if _, _, ok := nodeapi.SplitAdapter(id); !ok {
		return "", term.Usagef("acl: invalid adapter %s: must be %s", config.Quote(text), adapterTarget)
	}
	return id, nil
}

// completeAdapters completes the id of an adapter.
func (a commands) completeAdapters(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.liveIDs(cmd.Context(), "adapter", "app/"), cobra.ShellCompDirectiveNoFileComp
}

func (a commands) explainFlow(ctx context.Context, q nodeapi.FlowQuery, output string) error {
	ctx, c, done := a.Connect(ctx)
	defer done()
	x, err := c.ExplainFlow(ctx, q)
	if err != nil {
		return err
	}
	if output == "table" || output == "wide" {
		_, err := fmt.Fprint(a.Out, explainedFlow(x))
		return err
	}
	return a.Show(term.Shown{Data: x, Names: []string{"adapter/" + x.Adapter}}, output)
}

// explainedFlow formats an answer: what decided is indented below each packet, in the packet's order.
func explainedFlow(x nodeapi.FlowVerdict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "adapter/%s", x.Adapter)
	if x.Name != "" {
		fmt.Fprintf(&b, " %q", x.Name)
	}
	b.WriteString("\n")
	for _, p := range x.Packets {
		fmt.Fprintf(&b, "  %s: %s\n", packetText(p), p.Verdict)
		for _, c := range p.Checks {
			if len(c.DependsOn) > 0 {
				fmt.Fprintf(&b, "    depends on DNS: before that, %s matches the addresses of its host\n",
					term.Printable("rule "+strings.Join(c.DependsOn, " or ")))
			}
			fmt.Fprintf(&b, "    %s\n", term.Printable(checkText(c)))
		}
		if r := p.Route; r != nil {
			fmt.Fprintf(&b, "    %s\n", term.Printable(routeText(*r)))
		}
		switch {
		case p.NATPort != "":
			fmt.Fprintf(&b, "    arrives %s from %s, an address of port %s (NAT)\n", p.Arrives, addressOr(p.Source), p.NATPort)
		case p.Destination != "":
			fmt.Fprintf(&b, "    arrives %s, %s port %d, from %s (port map)\n", arrivesText(p.Arrives), p.Destination,
				p.DestinationPort, addressOr(p.Source))
		case p.Arrives != "":
			fmt.Fprintf(&b, "    arrives %s from %s\n", arrivesText(p.Arrives), addressOr(p.Source))
		}
	}
	return b.String()
}

// packetText is a packet as "tcp from 10.1.0.10 to 198.51.100.7 port 443".
func packetText(p nodeapi.PacketVerdict) string {
	text := p.Protocol + " from " + addressOr(p.From)
	if p.In != "" {
		text += " by port " + p.In
	}
	switch {
	case p.Name != "" && p.To == "":
		text += " to " + p.Name
	case p.Name != "":
		text += fmt.Sprintf(" to %s (%s)", p.Name, p.To)
	default:
		text += " to " + addressOr(p.To)
	}
	if p.Port != 0 {
		text += fmt.Sprintf(" port %d", p.Port)
	}
	return text
}

func addressOr(a string) string {
	if a == "" {
		return "an unknown address"
	}
	return a
}

// arrivesText is a place where a packet arrives.
func arrivesText(place string) string {
	switch place {
	case "node":
		return "at the node"
	case "outside":
		return "outside"
	case "segment":
		return "at the stations of the network"
	}
	return "at " + place
}

// checkText is a check as "egress of "web": allowed by rule https".
func checkText(c nodeapi.FlowCheck) string {
	text := "denied"
	if c.Allows {
		text = "allowed"
	}
	by := "(" + c.BuiltIn + "): " + c.Text
	if c.Rule != "" {
		by = "by rule " + c.Rule
	}
	switch {
	case c.Observed && c.Limit != "":
		text += " " + by + "; above its limit (" + c.Limit + ") too, by observe, and enforced denied"
	case c.Observed:
		text += " by observe; enforced, denied " + by
	case c.Limit != "":
		text += " " + by + " within its limit (" + c.Limit + ")"
	default:
		text += " " + by
	}
	switch {
	case c.Adapter == "":
		return text
	case c.Name != "":
		return fmt.Sprintf("%s of %q: %s", c.Direction, c.Name, text)
	}
	return fmt.Sprintf("%s of adapter/%s: %s", c.Direction, c.Adapter, text)
}

func routeText(r nodeapi.PacketRoute) string {
	text := "route " + r.Destination
	if r.Name != "" {
		text = "route " + r.Name + " " + r.Destination
	}
	if r.Gateway != "" {
		text += " via " + r.Gateway
	}
	if len(r.Shared) > 0 {
		return text + " by port " + r.Port + ", or as new flows are shared, by " + strings.Join(r.Shared, ", ")
	}
	if r.Port != "" {
		return text + " by port " + r.Port
	}
	return text + ", an app of the network"
}

// flowChanges formats the flows that a plan allows or denies, one class a line.
func flowChanges(x nodeapi.FlowChanges) string {
	var b strings.Builder
	for _, f := range x.List {
		word := "newly denied: "
		if f.Verdict == "allow" {
			word = "newly allowed:"
		}
		from, to := endText(f.From, f.FromName), endText(f.To, f.ToName)
		if remote := strings.Join(f.Remote, ", "); remote != "" && strings.HasPrefix(f.From, "adapter/") {
			to += " (" + remote + ")"
		} else if remote != "" {
			from += " (" + remote + ")"
		}
		if f.Mapped != "" {
			to += " by port map of " + f.Mapped
		}
		fmt.Fprintf(&b, "%s %s to %s: %s\n", word, term.Printable(from), term.Printable(to), strings.Join(f.Flows, "; "))
	}
	if x.LeftOut > 0 {
		fmt.Fprintf(&b, "and %d more classes of flows\n", x.LeftOut)
	}
	if x.Incomplete {
		b.WriteString("not all flows were compared: there are too many rules\n")
	}
	return b.String()
}

// endText is one end of flows: an app by its name.
func endText(end, name string) string {
	if name != "" {
		return fmt.Sprintf("%q", name)
	}
	return end
}
