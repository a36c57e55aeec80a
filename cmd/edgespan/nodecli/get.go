package nodecli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/fleetcli"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
)

func newGet(a commands) *cobra.Command {
	var output string
	var watch bool
	kinds := nodeapi.Kinds()
	allowed := strings.Join(kinds, "|") + " [ID]"
	cmd := &cobra.Command{
		Use:   "get " + allowed,
		Short: "Show the state of networks, apps, adapters, ports and more",
		Example: "  edgespan get ni\n  edgespan get adapter web/0 -o yaml\n  edgespan get dns web/0\n" +
			"  edgespan get app --watch",
		Long: `get shows the desired and the current state of objects. -o json prints an array of
{id, kind, spec, status}, and with an ID one such object. The ID of an adapter is
<app>/<index>, and so is that of its lease and of its recent DNS answers (dns); that of
the config is node. A display name that only one network or one
app has stands for its UUID. An object may also be named as -o name prints it: ni/ID.`,
		Args: term.RangeArgs(1, 2, allowed),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, id, err := readTarget("get", kinds, args, allowed)
			if err != nil {
				return err
			}
			if err := term.CheckOutput(output); err != nil {
				return err
			}
			switch {
			case watch:
				return a.getWatch(cmd.Context(), kind, id, output)
			case id != "":
				return a.getOne(cmd.Context(), kind, id, output)
			}
			return a.getAll(cmd.Context(), kind, output)
		},
		ValidArgsFunction: a.completeTargets(kinds, true),
	}
	term.OutputFlag(cmd, &output)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "print a line for each change until interrupted")
	return cmd
}

// liveIDs returns the IDs that the daemon knows now, and their display names, for completion. Without a daemon it
// returns none.
func (a commands) liveIDs(ctx context.Context, kind, prefix string) []string {
	if fleetcli.Waits[kind] != nil {
		names := fleetcli.LiveObjects(ctx, a.App, kind)
		for i, n := range names {
			names[i] = prefix + n
		}
		return names
	}
	if ctx == nil {
		ctx = context.Background() // cobra completes without a context
	}
	ctx, cancel := context.WithTimeout(ctx, reach.CompletionTimeout)
	defer cancel()
	c := a.Client()
	defer c.Close()
	list := func(kind string) []nodeapi.Resource {
		items, err := c.List(ctx, kind)
		if err != nil && !errors.As(err, new(*rest.Incomplete)) {
			return nil
		}
		return items
	}
	items := list(kind)
	names := typedNames(items)
	if nodeapi.OfAdapter(kind) {
		names = typedNames(list("app"))
	}
	var ids, called []string
	for _, it := range items {
		ids = append(ids, prefix+it.ID)
		of, index, adapter := nodeapi.SplitAdapter(it.ID)
		name, has := names[of]
		if has && adapter {
			name += "/" + index
		}
		if has {
			called = append(called, prefix+name)
		}
	}
	return append(ids, called...)
}

func (a commands) getOne(ctx context.Context, kind, id, output string) error {
	ctx, c, done := a.Connect(ctx)
	defer done()
	it, err := c.Get(ctx, kind, id)
	if err != nil {
		return err
	}
	s := showResources(kind, []nodeapi.Resource{it})
	s.Data = it
	return a.Show(s, output)
}

func (a commands) getAll(ctx context.Context, kind, output string) error {
	ctx, c, done := a.Connect(ctx)
	defer done()
	items, err := c.List(ctx, kind)
	var incomplete *rest.Incomplete
	if err != nil && !errors.As(err, &incomplete) {
		return err
	}
	s := showResources(kind, items)
	if err == nil { // else the missing answer may contain some
		s.Empty = "no " + kind
	}
	return errors.Join(a.Show(s, output), err)
}

func showResources(kind string, items []nodeapi.Resource) term.Shown {
	if items == nil {
		items = []nodeapi.Resource{} // an empty JSON list, not null
	}
	s := term.Shown{Data: items, Table: func(wide bool) *term.Table { return resourceTable(kind, items, wide) }}
	for _, it := range items {
		s.Names = append(s.Names, kind+"/"+it.ID)
	}
	return s
}
