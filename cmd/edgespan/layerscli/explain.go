package layerscli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
)

// explainedKey is one value of `layers explain -o json`.
type explainedKey struct {
	Key      string       `json:"key"`
	Value    any          `json:"value"`
	Origin   layers.Layer `json:"origin"`
	Shadowed []shadowed   `json:"shadowed"`

	// Set if there is metadata.
	Description string   `json:"description,omitempty"`
	Actions     []string `json:"actions,omitempty"`
	asked       bool     // there is metadata
	path        []string
}

type shadowed struct {
	Layer layers.Layer `json:"layer"`
	Key   string       `json:"key"` // shorter if the layer has a scalar above the key
	Value any          `json:"value"`
}

func newLayersExplain(a offline) *cobra.Command {
	var f selection
	output := ""
	cmd := &cobra.Command{
		Use:   "explain KEY…",
		Short: "Explain which layer sets a value, and what it hides",
		Long: `Print for each value at or below a key which layer sets it, and the values of lower
layers that it hides. A key is a path joined by dots; quote a part that contains a dot with "". With
--metadata also what the value means, and what a node does when it changes.`,
		Example: `  edgespan layers explain popParams.POP_IFACE --base-dir base_versions --sw-version RELEASE_M81 \
    --node nodes.json --node-name pop-1`,
		Args: term.AtLeast(1, "one KEY or more"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.explainKeys(&f, args, output)
		},
	}
	f.bind(cmd)
	term.OneOf(cmd, &output, "text", "json")
	return cmd
}

func (a offline) explainKeys(f *selection, keys []string, output string) error {
	var paths [][]string
	for _, key := range keys {
		path, err := config.ParsePath(key)
		if err != nil {
			return term.WithClass(term.ExitUsage, err)
		}
		paths = append(paths, path)
	}
	s, err := f.set(a)
	if err != nil {
		return err
	}
	if _, err := s.effective(); err != nil {
		return err
	}
	all := []explainedKey{}
	var missing []error
	for _, path := range paths {
		found := s.Explain(path)
		if found == nil {
			missing = append(missing, NoKey(path))
		}
		for _, e := range found {
			all = append(all, newExplained(e))
		}
	}
	if err := errors.Join(missing...); err != nil {
		return err
	}
	if s.described != nil {
		for i := range all {
			all[i].describe(s.described)
		}
	}
	if output == "json" {
		return a.PrintJSON(all)
	}
	for _, e := range all {
		if _, err := fmt.Fprint(a.Out, e.text()); err != nil {
			return err
		}
	}
	return nil
}

// NoKey returns the error for a key that no layer has.
func NoKey(path []string) error {
	return term.WithClass(term.ExitNotFound, errors.New(config.FormatPath(path)+": not set in any layer"))
}

func newExplained(e layers.ValueOrigin) explainedKey {
	out := explainedKey{path: e.Path, Key: config.FormatPath(e.Path), Value: e.Value, Origin: e.Origin,
		Shadowed: []shadowed{}}
	for _, s := range e.Shadowed {
		out.Shadowed = append(out.Shadowed, shadowed{s.Layer, config.FormatPath(s.Path), s.Value})
	}
	return out
}

// describe adds the metadata of the key: the description nearest to it, and the actions of the key and everything it
// is part of, in the order in which a node performs them.
func (e *explainedKey) describe(m *metadata.Metadata) {
	e.asked = true
	if _, known := m.Entry(e.path); !known {
		return
	}
	for n := len(e.path); n > 0 && e.Description == ""; n-- {
		entry, _ := m.Entry(e.path[:n])
		e.Description = entry.Desc
	}
	for _, action := range m.Actions(config.Set(nil, e.path, e.Value)) {
		e.Actions = append(e.Actions, action.Name)
	}
}

// text formats the value and its layer, and below it the values that it hides.
func (e explainedKey) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s = %s from %s\n", e.Key, term.OneLine(e.Value), e.Origin)
	for _, s := range e.Shadowed {
		fmt.Fprintf(&b, "  over %s from %s", term.OneLine(s.Value), s.Layer)
		if s.Key != e.Key {
			fmt.Fprintf(&b, " at %s", s.Key)
		}
		b.WriteByte('\n')
	}
	switch {
	case e.asked && len(e.Actions) == 0 && e.Description == "":
		b.WriteString("  unknown to the metadata\n")
	case e.asked && len(e.Actions) == 0:
		fmt.Fprintf(&b, "  means: %s\n  a change asks for no action\n", term.Printable(e.Description))
	case e.asked:
		fmt.Fprintf(&b, "  means: %s\n  a change asks for %s\n", term.Printable(e.Description),
			term.Printable(strings.Join(e.Actions, " ")))
	}
	return b.String()
}
