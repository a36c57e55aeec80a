package reach

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/platform/store"
)

// contextFile is the file of contexts. It names files of tokens and never contains a token.
type contextFile struct {
	Current  string                 `yaml:"current,omitempty"`
	Contexts map[string]term.Target `yaml:"contexts"`
}

// contextPath returns the path of the file of contexts: EDGESPAN_CONTEXTS, or a file in the user's folder.
func (a *App) contextPath() (string, error) {
	if p := a.Env("EDGESPAN_CONTEXTS"); p != "" {
		return p, nil
	}
	dir := a.Env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // the specification says to ignore a relative path
		home := a.Env("HOME")
		if home == "" {
			return "", term.Usagef("context: neither HOME nor EDGESPAN_CONTEXTS is set: set one of them")
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "edgespan", "contexts.yaml"), nil
}

// readContexts reads the file of contexts. A missing file has no contexts.
func (a *App) readContexts() (contextFile, error) {
	f := contextFile{Contexts: map[string]term.Target{}}
	path, err := a.contextPath()
	if err != nil {
		return f, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("read contexts: %w", err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text), yaml.DisallowUnknownField())
	if err := dec.Decode(&f); err != nil && len(bytes.TrimSpace(text)) > 0 {
		return f, term.Usagef("read contexts %s: %s: must have the keys current and contexts: {NAME: {controller, "+
			"tokenFile, caFile, caSha256}}",
			path, yaml.FormatError(err, false, false))
	}
	if f.Contexts == nil {
		f.Contexts = map[string]term.Target{}
	}
	return f, nil
}

func (a *App) writeContexts(f contextFile) error {
	path, err := a.contextPath()
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	if err := store.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	return nil
}

// named returns a context of the file by its name.
func (f contextFile) named(name string) (term.Target, error) {
	c, found := f.Contexts[name]
	if !found {
		return c, noContext(name, slices.Sorted(maps.Keys(f.Contexts)))
	}
	return c, nil
}

// noContext returns the error for a context that is not in the file.
func noContext(name string, known []string) error {
	text := fmt.Sprintf("context %q: not found: must be one of %s", name, term.Joined(known))
	if len(known) == 0 {
		text = fmt.Sprintf("context %q: not found: run 'edgespan context add' to create it", name)
	}
	return term.WithClass(term.ExitNotFound, errors.New(text))
}

// NewContext returns the command `context`.
func NewContext(a *App) *cobra.Command {
	cmd := term.Group("context", "Manage contexts: named controllers with their addresses and tokens")
	cmd.Long = cmd.Short + `.

The file is ~/.config/edgespan/contexts.yaml, or EDGESPAN_CONTEXTS. It names files of tokens and
holds none. A flag takes precedence over the environment, and the environment over the current context. The token of
a context goes to that context's controller only.`
	cmd.AddCommand(newContextAdd(a), newContextUse(a), newContextList(a), newContextRemove(a), newContextShow(a))
	return cmd
}

func newContextAdd(a *App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add NAME --controller URL [--token-file F] [--ca-file F|--ca-sha256 H]",
		Short: "Add or change a context; the first one becomes the current one",
		Example: `  edgespan context add lab --controller https://127.0.0.1:8443 --token-file admin.token --ca-sha256 5f0c…
  edgespan context use lab`,
		Args: term.ExactArgs(1, "one NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := a.readContexts()
			if err != nil {
				return err
			}
			c := a.Fleet.Target
			if err := c.Absolute(); err != nil {
				return err
			}
			if err := c.Check(); err != nil {
				return err
			}
			if f.Contexts[args[0]] = c; f.Current == "" {
				f.Current = args[0]
			}
			if err := a.writeContexts(f); err != nil {
				return err
			}
			a.Printf("context %s: written; current context: %s", term.Printable(args[0]), term.Printable(f.Current))
			return nil
		},
	}
	return AsksController(cmd)
}

func newContextUse(a *App) *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one",
		Example:           "  edgespan context use lab",
		Args:              term.ExactArgs(1, "one NAME"),
		ValidArgsFunction: a.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := a.readContexts()
			if err != nil {
				return err
			}
			c, err := f.named(args[0])
			if err != nil {
				return err
			}
			f.Current = args[0]
			if err := a.writeContexts(f); err != nil {
				return err
			}
			a.Printf("current context: %s: %s", term.Printable(args[0]), term.Printable(c.Controller))
			return nil
		},
	}
}

func newContextRemove(a *App) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove a context; its token file stays",
		Example:           "  edgespan context remove lab",
		Args:              term.ExactArgs(1, "one NAME"),
		ValidArgsFunction: a.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := a.readContexts()
			if err != nil {
				return err
			}
			if _, err := f.named(args[0]); err != nil {
				return err
			}
			if delete(f.Contexts, args[0]); f.Current == args[0] {
				f.Current = ""
			}
			if err := a.writeContexts(f); err != nil {
				return err
			}
			a.Printf("context %s: removed", term.Printable(args[0]))
			return nil
		},
	}
}

// namedContext is a context as -o json prints it.
type namedContext struct {
	Name  string `json:"name"`
	InUse bool   `json:"inUse"`
	term.Target
}

func newContextList(a *App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "list", Short: "List the contexts",
		Example: "  edgespan context list",
		Args:    term.ExactArgs(0, ""),
		RunE: func(*cobra.Command, []string) error {
			if err := term.CheckOutput(output); err != nil {
				return err
			}
			f, err := a.readContexts()
			if err != nil {
				return err
			}
			return a.Show(showContexts(f, slices.Sorted(maps.Keys(f.Contexts))), output)
		},
	}
	term.OutputFlag(cmd, &output)
	return cmd
}

func newContextShow(a *App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "show [NAME]", Short: "Show a context, or the current one",
		Example:           "  edgespan context show lab",
		Args:              term.RangeArgs(0, 1, "one NAME, or none"),
		ValidArgsFunction: a.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := term.CheckOutput(output); err != nil {
				return err
			}
			f, err := a.readContexts()
			if err != nil {
				return err
			}
			name := f.Current
			if len(args) > 0 {
				name = args[0]
			}
			c, err := f.named(name)
			if err != nil {
				return err
			}
			s := showContexts(f, []string{name})
			s.Data = namedContext{name, name == f.Current, c}
			return a.Show(s, output)
		},
	}
	term.OutputFlag(cmd, &output)
	return cmd
}

func showContexts(f contextFile, names []string) term.Shown {
	list := []namedContext{}
	t := &term.Table{Head: []string{"NAME", "CURRENT", "CONTROLLER", "TOKEN FILE", "CA"}}
	for _, n := range names {
		c := f.Contexts[n]
		list = append(list, namedContext{n, n == f.Current, c})
	}
	return term.Shown{Data: list, Names: names, Empty: "no contexts", Table: func(wide bool) *term.Table {
		t.Wide = wide
		for _, c := range list {
			t.Add(c.Name, term.YesNo(c.InUse), c.Controller, c.TokenFile, cmp.Or(c.CAFile, c.CASHA256))
		}
		return t
	}}
}

func (a *App) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	f, err := a.readContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(f.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
