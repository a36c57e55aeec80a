package nodecli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

func newApply(a commands) *cobra.Command {
	var file, output, message string
	var dry bool
	var how nodeapi.ApplyOptions
	cmd := &cobra.Command{
		Use:   "apply -f FILE|-",
		Short: "Apply a config to the node, or descriptors to the controller",
		Long: `apply replaces the whole config of the node by FILE, and returns when it is validated
and stored.

A node that a controller manages takes its config from there, and apply exits 5. With --local the
node takes FILE anyway and keeps it until edgespan release. With --confirm the node returns to its
previous config by itself unless edgespan confirm follows in time; edgespan rollback returns at
once.

A FILE whose documents have kind, metadata and spec (PeerDescriptor, ClusterDescriptor) goes to the
controller (--controller, or edgespan context): in YAML they are separated by ---, in JSON they
follow one another. All are written as one revision, or none is.`,
		Example: `  edgespan apply -f node.yaml && edgespan wait ni/demo --for ready
  echo '{}' | edgespan apply -f -      # removes everything
  edgespan apply -f examples/fleet/cluster.yaml -m 'the lab' && edgespan clusters deploy lab
  edgespan apply -f node.yaml --confirm 120s && ping -c1 192.0.2.1 && edgespan confirm`,
		Args: term.FileArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, docs, err := a.applied(cmd, file)
			switch {
			case err != nil:
				return err
			case docs != nil:
				return a.applyDocuments(cmd, docs, message, output, dry)
			}
			if dry && (how.Local || how.Confirm != 0) {
				return term.Exclusive("--dry-run", "--local or --confirm")
			}
			if d := how.Confirm; cmd.Flags().Changed("confirm") && (d < nodeapi.MinConfirm || d > nodeapi.MaxConfirm) {
				return term.Invalid("--confirm", d, fmt.Sprintf("%v to %v", nodeapi.MinConfirm, nodeapi.MaxConfirm))
			}
			if dry {
				return a.plan(cmd.Context(), text, output)
			}
			if cmd.Flags().Changed("output") {
				return term.Requires("-o", "--dry-run")
			}
			how.By = userName()
			return a.apply(cmd.Context(), text, how)
		},
	}
	planFlags(cmd, &file, &output)
	cmd.Flags().StringVarP(&message, "message", "m", "", "reason, recorded in the controller's history")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what would change, and change nothing")
	cmd.Flags().BoolVar(&how.Local, "local", false,
		"apply although a controller manages the node; hold it until edgespan release")
	cmd.Flags().DurationVar(&how.Confirm, "confirm", 0,
		"roll back after this time, such as 120s, unless edgespan confirm is run")
	return reach.AsksController(cmd)
}

func newPlan(a commands) *cobra.Command {
	var file, output string
	cmd := &cobra.Command{
		Use:     "plan -f FILE|-",
		Short:   "Show what applying FILE would change on the host",
		Example: "  edgespan plan -f node.yaml",
		Args:    term.FileArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := term.CheckOutput(output); err != nil {
				return err
			}
			doc, err := a.document(file)
			if err != nil {
				return err
			}
			if docs, err := descriptors(file, doc); docs != nil || err != nil {
				return cmp.Or(err, term.Usagef("plan: %s: contains documents for the controller: run 'edgespan apply --dry-run "+
					"-f %s'", file, file))
			}
			return a.plan(cmd.Context(), doc, output)
		},
	}
	planFlags(cmd, &file, &output)
	return cmd
}

func planFlags(cmd *cobra.Command, file, output *string) {
	cmd.Flags().StringVarP(file, "file", "f", "", "node config, YAML or JSON; - reads stdin")
	term.OutputFlag(cmd, output)
}

func (a commands) apply(ctx context.Context, doc []byte, how nodeapi.ApplyOptions) error {
	ctx, c, done := a.Connect(ctx)
	defer done()
	warnings, err := c.Apply(ctx, doc, how)
	if err != nil {
		return err
	}
	a.stored(warnings, how.Confirm)
	return nil
}

// stored reports a config that the node has stored.
func (a commands) stored(warnings []string, confirm time.Duration) {
	for _, w := range warnings {
		a.Printf("warning: %s", term.Printable(w))
	}
	a.Printf("config stored")
	if confirm > 0 {
		a.Printf("rolled back in %v unless you run: edgespan confirm", confirm)
	}
}

func (a commands) plan(ctx context.Context, doc []byte, output string) error {
	if err := term.CheckOutput(output); err != nil {
		return err
	}
	ctx, c, done := a.Connect(ctx)
	defer done()
	p, err := c.Preview(ctx, doc)
	if err != nil {
		return err
	}
	if err := a.Show(showChanges(p), output); err != nil || output != "table" && output != "wide" {
		return err
	}
	_, err = fmt.Fprint(a.Out, flowChanges(p.Flows))
	return err
}

func showChanges(p nodeapi.Preview) term.Shown {
	changes := p.Changes
	if changes == nil {
		changes = []nodeapi.Change{} // an empty JSON list, not null
	}
	data := map[string]any{"changes": changes}
	if len(p.Flows.List) > 0 || p.Flows.Incomplete {
		data["flows"], data["flowsLeftOut"], data["flowsIncomplete"] = p.Flows.List, p.Flows.LeftOut, p.Flows.Incomplete
	}
	s := term.Shown{Data: data, Empty: "no changes"}
	for _, c := range changes {
		s.Names = append(s.Names, c.Kind+"/"+c.ID)
	}
	s.Table = func(wide bool) *term.Table {
		t := &term.Table{Head: []string{"OP", "KIND", "ID", "OWNER"}, Wide: wide}
		for _, c := range changes {
			t.Add(c.Op, c.Kind, c.ID, c.Owner)
		}
		return t
	}
	return s
}

// document reads FILE, or stdin for "-".
func (a commands) document(file string) ([]byte, error) {
	if file == "" {
		return nil, term.Required("-f", "a file, or - for stdin")
	}
	in := a.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read config: %w", err)
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	// One byte above the limit, so that the client refuses the document by its size.
	doc, err := io.ReadAll(io.LimitReader(in, nodeapi.MaxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read config %s: %w", file, err)
	}
	return doc, nil
}
