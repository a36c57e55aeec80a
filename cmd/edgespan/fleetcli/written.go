package fleetcli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/httpapi/fleetapi"
)

// shownNodes is the number of nodes listed by name for one effect; -o wide lists all.
const shownNodes = 5

// written prints the result of a write or a dry run: the changes on stdout, the rest on stderr.
func (c *fleetCall) written(w fleetapi.Written) error {
	for _, warning := range w.Warnings {
		c.a.Printf("warning: %s", term.Printable(warning))
	}
	for _, key := range w.Unknown {
		c.a.Printf("warning: %s: unknown to the metadata", term.Printable(key))
	}
	if err := c.showWritten(w); err != nil {
		return err
	}
	c.a.Printf("%s", term.Printable(verdict(w)))
	return nil
}

func (c *fleetCall) showWritten(w fleetapi.Written) error {
	if c.output != "table" && c.output != "wide" {
		return c.a.Show(term.Shown{Data: w, Names: touched(w)}, c.output)
	}
	var b strings.Builder
	for _, e := range w.Effects {
		b.WriteString(fleetEffect(e, c.output == "wide"))
	}
	if len(w.Actions) > 0 {
		b.WriteString("the controller itself:\n")
		writeActions(&b, w.Actions)
	}
	_, err := fmt.Fprint(c.a.Out, b.String())
	return err
}

// verdict describes a write in one line: its revision and how many nodes it changes.
func verdict(w fleetapi.Written) string {
	switch {
	case !w.Changed:
		return fmt.Sprintf("no change: already at revision %d", w.Revision)
	case w.DryRun:
		return "dry run: nothing written: " + reachOf(w)
	}
	return fmt.Sprintf("revision %d: %s", w.Revision, reachOf(w))
}

// reachOf describes how many nodes and values a write changes, and which actions follow.
func reachOf(w fleetapi.Written) string {
	nodes := touched(w)
	if len(w.Effects) == 0 && len(w.Peers) > 0 {
		return "parameters may change on " + strings.Join(w.Peers, ", ")
	}
	if len(w.Effects) == 0 {
		if len(w.Actions) > 0 {
			return "no node changes; the controller itself changes " + namesOf(w.Actions)
		}
		return "no node changes"
	}
	paths, actions := map[string]bool{}, map[string]bool{}
	for _, e := range w.Effects {
		for _, v := range e.Values {
			paths[v.Path] = true
		}
		for _, x := range e.Actions {
			actions[x.Name] = true
		}
	}
	verb := "change"
	if len(nodes) == 1 {
		verb = "changes"
	}
	text := fmt.Sprintf("%s %s in %s", term.Many(len(nodes), "node"), verb, term.Many(len(paths), "value"))
	if len(actions) == 0 {
		return text + ", no action"
	}
	return text + ", actions " + strings.Join(slices.Sorted(maps.Keys(actions)), " ")
}

// touched returns the nodes that a write changes.
func touched(w fleetapi.Written) []string {
	var out []string
	for _, e := range w.Effects {
		out = append(out, e.Nodes...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// fleetEffect describes what changes on some nodes.
func fleetEffect(e fleetapi.Effect, wide bool) string {
	var b strings.Builder
	who, more := e.Nodes, ""
	if !wide && len(who) > shownNodes {
		more = fmt.Sprintf(" and %d more", len(who)-shownNodes)
		who = who[:shownNodes]
	}
	name := term.Printable(strings.Join(who, ", ")) + more
	if len(who) == 0 {
		name = "a node without overrides"
	}
	if len(e.Nodes) > 1 {
		name = fmt.Sprintf("%d nodes: %s", len(e.Nodes), name)
	}
	fmt.Fprintf(&b, "%s\n", name)
	for _, v := range e.Values {
		old, now := "none", "none"
		if v.HadOld {
			old = term.OneLine(v.Old)
		}
		if v.HasNew {
			now = term.OneLine(v.New)
			if v.Origin != "" {
				now += " (origin " + term.Printable(v.Origin) + ")"
			}
		}
		fmt.Fprintf(&b, "  %s: %s -> %s\n", term.Printable(v.Path), old, now)
	}
	writeActions(&b, e.Actions)
	return b.String()
}

func namesOf(actions []fleetapi.Action) string {
	var out []string
	for _, x := range actions {
		out = append(out, x.Name)
	}
	return strings.Join(out, " ")
}

func writeActions(b *strings.Builder, actions []fleetapi.Action) {
	for _, x := range actions {
		fmt.Fprintf(b, "  action %s: %s\n", term.Printable(x.Name), term.Printable(strings.Join(x.Keys, ", ")))
	}
}

// document prints a config document. The default form is the one that set reads.
func (c *fleetCall) document(o config.Object) error {
	switch c.output {
	case "json":
		_, err := fmt.Fprintf(c.a.Out, "%s\n", term.EscapeJSON(config.AppendCanonical(nil, o)))
		return err
	case "yaml":
		return c.a.PrintYAML(o)
	}
	leaves := leavesOf(nil, o)
	s := term.Shown{Empty: "empty", Table: func(wide bool) *term.Table {
		t := &term.Table{Head: []string{"KEY", "VALUE"}, Wide: wide}
		for _, l := range leaves {
			t.Add(config.FormatPath(l.path), term.OneLine(l.value))
		}
		return t
	}}
	for _, l := range leaves {
		s.Names = append(s.Names, config.FormatPath(l.path))
	}
	return c.a.Show(s, c.output)
}

type leaf struct {
	path  []string
	value any
}

// leavesOf returns the values of a document with their paths. An empty object is a value.
func leavesOf(path []string, v any) []leaf {
	o, ok := v.(config.Object)
	if !ok || len(o) == 0 {
		if len(path) == 0 {
			return nil
		}
		return []leaf{{path, v}}
	}
	var out []leaf
	for _, k := range config.Keys(o) {
		out = append(out, leavesOf(config.Below(path, k), o[k])...)
	}
	return out
}

// writeOptions returns the options of -m, --dry-run and --if-match.
func (c *fleetCall) writeOptions() (fleetapi.WriteOptions, error) {
	o := fleetapi.WriteOptions{Message: c.message, DryRun: c.dryRun}
	if c.ifMatch == "" {
		return o, nil
	}
	n, err := term.RevisionOf("--if-match", c.ifMatch)
	o.IfMatch = &n
	return o, err
}
