package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"edgespan/config/httpapi"
)

// requestTimeout bounds one question to the daemon: apply answers when the config is
// stored, not when the host is changed.
const requestTimeout = 30 * time.Second

func newApply(a *app) *cobra.Command {
	var file, output string
	var dry bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE|-",
		Short: "Make FILE the whole config of the node; returns when it is valid and stored",
		Example: `  edgespan apply -f node.yaml && edgespan wait ni/6f1c… --for ready
  echo '{}' | edgespan apply -f -      # removes everything`,
		Args: fileArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dry {
				return a.plan(cmd.Context(), file, output)
			}
			if cmd.Flags().Changed("output") {
				return usagef("apply: has -o without --dry-run: it is allowed with --dry-run")
			}
			return a.apply(cmd.Context(), file)
		},
	}
	planFlags(cmd, &file, &output)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what would change, and change nothing")
	return cmd
}

func newPlan(a *app) *cobra.Command {
	var file, output string
	cmd := &cobra.Command{
		Use:   "plan -f FILE|-",
		Short: "Show what applying FILE would change on the host, and change nothing",
		Args:  fileArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.plan(cmd.Context(), file, output) },
	}
	planFlags(cmd, &file, &output)
	return cmd
}

func planFlags(cmd *cobra.Command, file, output *string) {
	cmd.Flags().StringVarP(file, "file", "f", "", "node config, YAML or JSON; - reads stdin")
	outputFlag(cmd, output)
}

// fileArgs refuses a file that is named without -f, and says how to name it.
func fileArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if len(args) == 1 && !cmd.Flags().Changed("file") {
		return usagef("%s: has %q without -f: type %s -f %s", cmd.Name(), args[0], cmd.CommandPath(), args[0])
	}
	return usagef("%s: has %d arguments beside -f: none is allowed", cmd.Name(), len(args))
}

func (a *app) apply(ctx context.Context, file string) error {
	doc, err := a.document(file)
	if err != nil {
		return err
	}
	return a.ask(ctx, func(ctx context.Context, c *httpapi.Client) error {
		warnings, err := c.Apply(ctx, doc)
		if err != nil {
			return err
		}
		for _, w := range warnings {
			a.say("warning: %s", printable(w))
		}
		a.say("config stored")
		return nil
	})
}

func (a *app) plan(ctx context.Context, file, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	doc, err := a.document(file)
	if err != nil {
		return err
	}
	return a.ask(ctx, func(ctx context.Context, c *httpapi.Client) error {
		changes, err := c.Plan(ctx, doc)
		if err != nil {
			return err
		}
		return a.show(showChanges(changes), output)
	})
}

func showChanges(changes []httpapi.Change) shown {
	if changes == nil {
		changes = []httpapi.Change{} // an empty list in JSON, not null
	}
	s := shown{data: map[string]any{"changes": changes}, empty: "nothing would change"}
	for _, c := range changes {
		s.names = append(s.names, c.Kind+"/"+c.ID)
	}
	s.table = func(wide bool) *table {
		t := &table{head: []string{"OP", "KIND", "ID", "OWNER"}, wide: wide}
		for _, c := range changes {
			t.add(c.Op, c.Kind, c.ID, c.Owner)
		}
		return t
	}
	return s
}

// document reads FILE; "-" is stdin.
func (a *app) document(file string) ([]byte, error) {
	if file == "" {
		return nil, usagef("-f: is missing: a file or - is allowed")
	}
	in := a.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read config: %w", err)
		}
		defer func() { _ = f.Close() }() // only read from
		in = f
	}
	// One octet more than is allowed: enough for the client to refuse it by its size.
	doc, err := io.ReadAll(io.LimitReader(in, httpapi.MaxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read config %s: %w", file, err)
	}
	return doc, nil
}
