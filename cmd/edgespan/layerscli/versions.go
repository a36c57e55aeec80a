package layerscli

import (
	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/layers"
)

// versionsAnswer is the answer of `layers versions -o json`.
type versionsAnswer struct {
	Base     []string            `json:"base"`
	Firmware []string            `json:"firmware"`
	Hardware map[string][]string `json:"hardware"`
	Match    versionsMatch       `json:"match"`
}

// versionsMatch names the layers that a node gets; "" is none.
type versionsMatch struct {
	Base     string `json:"base"`
	Firmware string `json:"firmware"`
	Hardware string `json:"hardware"`
}

func newLayersVersions(a offline) *cobra.Command {
	var f selection
	output := ""
	cmd := &cobra.Command{
		Use:   "versions",
		Short: "List the layers by version, and which of them a node gets",
		Long: `List the base, firmware and hardware layers of --base-dir in natural order
(RELEASE_M2, RELEASE_M2_1, RELEASE_M11), and which of them belong to the versions
that are given: the closest that is not newer.`,
		Example: `  edgespan layers versions --base-dir base_versions --sw-version RELEASE_M60_7 -o json`,
		Args:    term.ExactArgs(0, ""),
		RunE: func(*cobra.Command, []string) error {
			if err := term.CheckOutput(output); err != nil {
				return err
			}
			s, err := f.choose(a)
			if err != nil {
				return err
			}
			return a.Show(showVersions(s), output)
		},
	}
	f.bind(cmd)
	term.OutputFlag(cmd, &output)
	return cmd
}

func showVersions(s selected) term.Shown {
	list := func(names []string) []string { return append([]string{}, names...) } // never null in JSON
	answer := versionsAnswer{
		Base: list(s.library.Base), Firmware: list(s.library.Firmware), Hardware: map[string][]string{},
		Match: versionsMatch{s.choice.Base, s.choice.Firmware, s.choice.Hardware},
	}
	out := term.Shown{Empty: "no layers"}
	t := &term.Table{Head: []string{"LAYER", "TYPE", "VERSION", "MATCH"}}
	add := func(layer layers.Layer, kind string, names []string, match string) {
		for _, n := range names {
			how, id := "", layer.String()+"/"
			if n == match {
				how = "match"
			}
			if kind != "" {
				id += kind + "/"
			}
			t.Add(layer.String(), kind, n, how)
			out.Names = append(out.Names, id+n)
		}
	}
	add(layers.Base, "", answer.Base, s.choice.Base)
	add(layers.Firmware, "", answer.Firmware, s.choice.Firmware)
	for _, kind := range s.library.Types() {
		answer.Hardware[kind] = list(s.library.Hardware[kind])
		match := ""
		if kind == s.choice.Type {
			match = s.choice.Hardware
		}
		add(layers.Hardware, kind, answer.Hardware[kind], match)
	}
	out.Data = answer
	out.Table = func(wide bool) *term.Table { t.Wide = wide; return t }
	return out
}
