package configdbcli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"edgespan/cmd/term"
	"edgespan/config/configdb"
	"edgespan/config/configdb/hieratree"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/httpapi/rest"
	"edgespan/platform/store"
)

// currentResources reads a node's values from ConfigDB: of the component's resources and of those that the files
// have. It leaves out a resource without keys that never had a value for this node.
func (c *factsCall) currentResources(t tree, effective bool) ([]hieratree.Resource, known, error) {
	g, err := c.readKnown()
	if err != nil {
		return nil, g, err
	}
	if g.env == nil {
		return nil, g, notFoundError("environment %d: not found", c.env)
	}
	p, err := c.nodePlace(t, g.env)
	if err != nil {
		return nil, g, err
	}
	owned := map[string]bool{}
	for _, d := range g.component.Definitions {
		owned[d.Name] = true
	}
	for _, r := range t.resources {
		owned[r.Name] = true
	}
	var out []hieratree.Resource
	for _, name := range slices.Sorted(maps.Keys(g.ids)) {
		if !owned[name] {
			continue
		}
		p.Resource = fmt.Sprint(g.ids[name])
		got, err := c.client.Read(c.ctx, p, model.Values, configdbapi.Read{Effective: effective})
		if err != nil {
			return nil, g, err
		}
		if got.Version > 0 || got.Body.String() != "{}" {
			out = append(out, hieratree.Resource{Name: name, Values: got.Body})
		}
	}
	return out, g, nil
}

// exportTree writes the files that differ.
func exportTree(c *factsCall) error {
	if !c.dryRun {
		if err := os.MkdirAll(c.args[0], 0o755); err != nil {
			return fmt.Errorf("write tree: %w", err)
		}
	}
	t, err := c.readTree()
	var rejected *rest.Rejected
	if errors.As(err, &rejected) && t.files != nil {
		err = nil // the export replaces a file that can't be parsed
	}
	if err != nil {
		return err
	}
	has, _, err := c.currentResources(t, c.effective)
	if err != nil {
		return err
	}
	for _, r := range has {
		if hieratree.Masked(r.Values) {
			return term.WithClass(term.ExitPermission,
				fmt.Errorf("resource %s: has secrets that you may not see: ask an admin to export it", r.Name))
		}
	}
	files, err := hieratree.Files(has, t.files, t.naming)
	if err != nil {
		return &rest.Rejected{Faults: strings.Split(err.Error(), "\n")}
	}
	for _, f := range files {
		did := "changed"
		if f.New {
			did = "created"
		}
		if c.dryRun {
			did = "would be " + did
		} else if err := writeTreeFile(filepath.Join(t.dir, filepath.FromSlash(f.Path)), f.Text); err != nil {
			return err
		}
		if err := c.printTree("%s: %s", f.Path, did); err != nil {
			return err
		}
	}
	if len(files) == 0 {
		return c.printTree("no differences")
	}
	return nil
}

// writeTreeFile replaces a file. It replaces a symbolic link itself, and leaves the link's target alone.
func writeTreeFile(name string, text []byte) error {
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = store.WriteFile(name, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write tree: %w", err)
	}
	return nil
}

func verifyTree(c *factsCall) error {
	t, err := c.readTree()
	if err != nil {
		return err
	}
	has, g, err := c.currentResources(t, true)
	if err != nil {
		return err
	}
	secrets := map[string][]configdb.Secret{}
	for _, r := range has {
		paths, err := c.client.Secrets(c.ctx, g.ids[r.Name])
		if err != nil {
			return err
		}
		if secrets[r.Name], err = configdb.ParseSecrets(paths); err != nil {
			return err
		}
	}
	differ := 0
	for _, r := range hieratree.Compare(t.resources, has, secrets) {
		if r.Hidden {
			c.a.Printf("%s: has secrets that you may not see: not compared", term.Printable(r.Name))
		}
		if len(r.Lines) > 0 {
			differ++
		}
		for _, line := range r.Lines {
			if err := c.printTree("%s: %s", r.Name, line); err != nil {
				return err
			}
		}
	}
	if differ > 0 {
		return fmt.Errorf("%s of node %s differ", term.Many(differ, "resource"), c.node)
	}
	return c.printTree("%s: the same", term.Many(len(t.resources), "resource"))
}
