package nodecli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/httpapi/nodeapi"
)

const rulesTarget = "app/ID[/INDEX]"

func newShowRules(a commands) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show " + rulesTarget,
		Short: "Show how often each access rule of an app was hit, and when last",
		Long: `show reads the kernel's counters of an app's access rules, or of those of one adapter, and shows
for each rule how many packets and bytes it has decided about, and when it was last hit. A rule
without a name is the drop behind the last: "egress" and "ingress" for other hosts, "to the node"
and "from the node" where the rules differ for the node's own addresses.

A flow that was allowed counts with its first packets: later ones pass without meeting a rule,
except in a network with limits. DROPPED are the packets above the rate of a limit, OBSERVED those
that would be denied and passed, because the adapter has observe.

The counts are since the start of the daemon, or since before that for rules that did not change.
LAST HIT is when the daemon noticed it: it reads the counters for this command, before it changes
rules, and every ten minutes, or less often if that takes long.`,
		Example: "  edgespan acl show app/web\n  edgespan acl show app/web/0 -o json",
		Args:    term.ExactArgs(1, rulesTarget),
		RunE: func(cmd *cobra.Command, args []string) error {
			x, err := a.rulesOf(cmd.Context(), args[0], output)
			if err != nil {
				return err
			}
			observed := slices.ContainsFunc(x.Adapters, func(ad nodeapi.AdapterRules) bool { return ad.Observe })
			columns := []ruleColumn{dropped}
			if observed {
				columns = append(columns, ruleColumn{"OBSERVED", func(r nodeapi.RuleHits) uint64 { return r.Observed }})
			}
			return a.Show(shownRules(x, "no access rules", columns...), output)
		},
		ValidArgsFunction: a.completeApps,
	}
	term.OutputFlag(cmd, &output)
	return cmd
}

func newShadow(a commands) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "shadow " + rulesTarget,
		Short: "Show what the access rules of an app with observe would have denied",
		Long: `shadow reads the kernel's counters of the adapters of an app that have observe: true, and shows for
each rule that may deny how many packets it would have denied in each direction, and when last: those
that a drop matched first, those above the rate of a limit, and those that no rule matched. All of
them passed. A flow counts with the packets before its first answer.

The counts begin when observe was set, or with the daemon if the rules did not change since: a rule
that is written again keeps its counts. Packets to and from the node itself are not observed but
denied; edgespan acl show has those.

edgespan plan -f FILE, with the config without observe, shows which flows the rules would deny
whether or not there are any now.`,
		Example: "  edgespan acl shadow app/web\n  edgespan acl shadow app/web/0 -o json",
		Args:    term.ExactArgs(1, rulesTarget),
		RunE: func(cmd *cobra.Command, args []string) error {
			x, err := a.rulesOf(cmd.Context(), args[0], output)
			if err != nil {
				return err
			}
			return a.Show(shownRules(x.Shadowed(), "no adapter of "+term.Printable(args[0])+" has observe"), output)
		},
		ValidArgsFunction: a.completeApps,
	}
	term.OutputFlag(cmd, &output)
	return cmd
}

// readRulesTarget reads the id of an app or of an adapter.
func readRulesTarget(text string) (app, index string, err error) {
	if name, ok := strings.CutPrefix(text, "app/"); ok && name != "" {
		app, index, _ := nodeapi.SplitAdapter(name)
		return app, index, nil
	}
	return "", "", term.Usagef("acl: invalid app %s: must be %s", config.Quote(text), rulesTarget)
}

// completeApps completes the id of an app.
func (a commands) completeApps(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.liveIDs(cmd.Context(), "app", "app/"), cobra.ShellCompDirectiveNoFileComp
}

// rulesOf asks for the rules of an app or an adapter, and warns if not all counters could be read.
func (a commands) rulesOf(ctx context.Context, target, output string) (nodeapi.AppRules, error) {
	app, index, err := readRulesTarget(target)
	if err != nil {
		return nodeapi.AppRules{}, err
	}
	if err := term.CheckOutput(output); err != nil {
		return nodeapi.AppRules{}, err
	}
	ctx, c, done := a.Connect(ctx)
	defer done()
	x, err := c.Rules(ctx, app, index)
	if x.Error != "" {
		a.Printf("warning: %s", term.Printable(x.Error))
	}
	return x, err
}

// ruleColumn is a count of packets beside those that all tables of rules have.
type ruleColumn struct {
	head  string
	count func(nodeapi.RuleHits) uint64
}

var dropped = ruleColumn{"DROPPED", func(r nodeapi.RuleHits) uint64 { return r.Dropped }}

// shownRules is a table of the rules.
func shownRules(x nodeapi.AppRules, empty string, columns ...ruleColumn) term.Shown {
	s := term.Shown{Data: x, Empty: empty}
	for _, ad := range x.Adapters {
		for _, r := range ad.Rules {
			s.Names = append(s.Names, "adapter/"+ad.Adapter+" "+ruleName(r))
		}
	}
	s.Table = func(wide bool) *term.Table {
		t := &term.Table{Wide: wide, Head: []string{"ADAPTER", "RULE", "DIRECTION", "ACTION", "PACKETS", "BYTES"}}
		for _, c := range columns {
			t.Head = append(t.Head, c.head)
		}
		t.Head = append(t.Head, "LAST HIT")
		for _, ad := range x.Adapters {
			for _, r := range ad.Rules {
				cells := []string{adapterName(x, ad), ruleName(r), r.Direction, r.Action, number(r.Packets), number(r.Bytes)}
				for _, c := range columns {
					cells = append(cells, number(c.count(r)))
				}
				t.Add(append(cells, hitTime(r.LastHit))...)
			}
		}
		return t
	}
	return s
}

// adapterName is an adapter by the name of its app.
func adapterName(x nodeapi.AppRules, ad nodeapi.AdapterRules) string {
	return cmp.Or(x.Name, x.App) + strings.TrimPrefix(ad.Adapter, x.App)
}

func ruleName(r nodeapi.RuleHits) string { return cmp.Or(r.Rule, "(no rule)") }

func hitTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// writeHits adds the rules of an adapter that were hit, the last one first, and how many packets the rules have denied.
func writeHits(b *strings.Builder, x nodeapi.Explanation, now time.Time) {
	if len(x.Hits) == 0 {
		return
	}
	var denied uint64
	for _, r := range x.Hits {
		switch r.Action {
		case "drop":
			denied += r.Packets - r.Observed
		case "limit":
			denied += r.Dropped
		}
	}
	fmt.Fprintf(b, "  rules hit, as read %s: they denied %d packets\n", ago(x.HitsRead, now), denied)
	for _, r := range x.Hits {
		text := fmt.Sprintf("%s (%s, %s): %d packets", ruleName(r), r.Action, r.Direction, r.Packets)
		for _, part := range []struct {
			n    uint64
			what string
		}{{r.Dropped, "dropped"}, {r.Observed, "only observed"}} {
			if part.n > 0 {
				text += fmt.Sprintf(", %d %s", part.n, part.what)
			}
		}
		if !r.LastHit.IsZero() {
			text += ", last " + ago(r.LastHit, now)
		}
		fmt.Fprintf(b, "    %s\n", term.Printable(text))
	}
}
