package layerscli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/lint"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/schema"
	"edgespan/platform/confdir"
)

// lintFinding is one finding as -o json prints it.
type lintFinding struct {
	Rule    string   `json:"rule"`
	Path    string   `json:"path"`
	Files   []string `json:"files"`
	What    string   `json:"what"`
	Allowed string   `json:"allowed"`
}

func newLayersLint(a offline) *cobra.Command {
	var files []string
	var dir, output string
	cmd := &cobra.Command{
		Use:   "lint",
		Short: "Check fields for metadata and defaults, and files for consistency",
		Long: `Check metadata and a folder of base versions against each other, before they are shipped:
  unknown  a field of a file has no metadata
  default  a field of the metadata has no default: in a base, firmware or hardware file, or,
           below free keys, in the metadata
  base     a hardware file has no base file of its version
  board    a board id is in two hardware types
  invalid  a default is not what its metadata allows
Findings are lines on stdout, and the exit code is 4; without any it is 0. Without flags the
schema of this program is checked.`,
		Example: `  edgespan layers lint
  edgespan layers lint --metadata config_metadata.json --base-dir base_versions -o json`,
		Args: term.ExactArgs(0, ""),
		RunE: func(*cobra.Command, []string) error {
			if (len(files) == 0) != (dir == "") {
				return term.RequiredTogether("--metadata", "--base-dir")
			}
			var findings []lint.Finding
			var err error
			if dir == "" {
				findings, err = lintOwn()
			} else {
				findings, err = a.lintFiles(files, dir)
			}
			if err != nil {
				return err
			}
			return a.showFindings(findings, output)
		},
	}
	bindMetadata(cmd, &files)
	cmd.Flags().StringVar(&dir, "base-dir", "",
		"folder of base versions: <version>.json, fw_versions/, hw_versions/<type>/")
	term.OneOf(cmd, &output, "text", "json")
	return cmd
}

// lintOwn checks the metadata and layers that are embedded in this program.
func lintOwn() ([]lint.Finding, error) {
	var out []lint.Finding
	for _, x := range []struct {
		doc  config.Object
		base map[string]config.Object
	}{
		{schema.NodeMetadata(), schema.NodeBases()},
		{schema.ControllerMetadata(), map[string]config.Object{"controller_config": schema.ControllerDefault()}},
		{schema.AggregatorMetadata(), map[string]config.Object{"aggregator_config": schema.AggregatorDefault()}},
	} {
		m, faults := metadata.Parse(x.doc, metadata.Options{E2E: metadata.IsE2E(x.doc)})
		if faults != nil {
			return nil, faults
		}
		out = append(out, lint.Check(lint.Input{Metadata: m, Base: x.base})...)
	}
	return out, nil
}

// lintFiles reads all files first and returns their errors together.
func (a offline) lintFiles(files []string, path string) ([]lint.Finding, error) {
	m, err := a.metadata(files)
	if err != nil {
		return nil, err
	}
	dir, wrong, err := confdir.List(path)
	if err != nil {
		return nil, term.Unreadable(err)
	}
	in := lint.Input{Metadata: m, Types: wrong, Hardware: map[string]map[string]config.Object{}}
	var errs []error
	read := func(layer layers.Layer, names []string, choose func(string) layers.Choice) map[string]config.Object {
		out := map[string]config.Object{}
		for _, name := range names {
			s, err := dir.Read(choose(name))
			if err != nil {
				errs = append(errs, term.Unreadable(err))
			}
			out[name] = s[layer]
		}
		return out
	}
	in.Base = read(layers.Base, dir.Library.Base, func(n string) layers.Choice { return layers.Choice{Base: n} })
	in.Firmware = read(layers.Firmware, dir.Library.Firmware,
		func(n string) layers.Choice { return layers.Choice{Firmware: n} })
	for _, kind := range dir.Library.Types() {
		in.Hardware[kind] = read(layers.Hardware, dir.Library.Hardware[kind],
			func(n string) layers.Choice { return layers.Choice{Type: kind, Hardware: n} })
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return lint.Check(in), nil
}

func (a offline) showFindings(findings []lint.Finding, output string) error {
	list := []lintFinding{}
	for _, f := range findings {
		files := []string{}
		for _, name := range f.Files {
			files = append(files, name+".json")
		}
		list = append(list, lintFinding{f.Rule, starPattern(f.Path), files, f.Problem, f.Expectation})
	}
	if output == "json" {
		if err := a.PrintJSON(list); err != nil {
			return err
		}
	} else {
		for _, f := range list {
			if _, err := fmt.Fprintln(a.Out, term.Printable(f.text())); err != nil {
				return err
			}
		}
	}
	if len(list) == 0 {
		a.Printf("no findings")
		return nil
	}
	a.Printf("findings: %d", len(list))
	return term.StatusError(term.ExitRejected)
}

// starPattern formats a path with an unquoted * for the free keys of maps.
func starPattern(path []string) string {
	parts := make([]string, len(path))
	for i, key := range path {
		if parts[i] = key; key != metadata.AnyKey {
			parts[i] = config.FormatPath([]string{key})
		}
	}
	return strings.Join(parts, ".")
}

const listedFiles = 3

// text formats a finding as "unknown: a.b: has no metadata: in RELEASE_M44.json and 2 more: …".
func (f lintFinding) text() string {
	parts := []string{f.Rule}
	if f.Path != "" {
		parts = append(parts, f.Path)
	}
	parts = append(parts, f.What)
	switch n := len(f.Files); {
	case n > listedFiles:
		parts = append(parts, fmt.Sprintf("in %s to %s and %d between", f.Files[0], f.Files[n-1], n-2))
	case n > 0:
		parts = append(parts, "in "+strings.Join(f.Files, ", "))
	}
	return strings.Join(append(parts, f.Allowed), ": ")
}
