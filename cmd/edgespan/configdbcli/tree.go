package configdbcli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/configdb"
	"edgespan/config/configdb/hieratree"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/httpapi/rest"
)

// treeSpecs are the commands for a node's files below /etc/hiera; they do what the original's upload task did (seed
// fuel-configdb-serialized-facts-api, "Deployment"; reference fuel-configdb §4.1).
var treeSpecs = []factsSpec{
	{use: "import", short: "Import the values of a node from files", sub: []factsSpec{{
		use:   "hiera DIR --env ID [--node ID]",
		short: "Upload a tree of YAML files as the values of one node",
		long: `Upload a tree of YAML files, as /etc/hiera, as the values of one node: all of it is one revision, and ` +
			`what is the same
already makes no version. The first import makes the component with the data sources and the environment, and the ` +
			`node is
registered with its names. Without --node it is the uid, and without --fqdn the fqdn, that astute.yaml has.

--naming seed: a path without .yaml is the resource (override/plugins). --naming lcm: files in folders are keys of the
resource that the folder is (override/node/a.b.yaml: key a.b of override/node).`,
		example: "  edgespan config import hiera /etc/hiera --env 1 --node 1",
		args:    term.ExactArgs(1, "one folder"), needs: []string{"env"}, run: importTree,
		flags: []factsFlags{treeFlags, writeFlags, func(f *pflag.FlagSet, c *factsCall) {
			f.StringVar(&c.fqdn, "fqdn", "", "fully qualified host name of the node")
			f.StringVar(&c.certname, "certname", "", "name in the node's Puppet certificate")
		}},
	}}},
	{use: "export", short: "Export the values of a node into files", sub: []factsSpec{{
		use:   "hiera DIR --env ID [--node ID]",
		short: "Write the resources of one node into a tree of YAML files",
		long: `Write the resources of one node into a tree of YAML files, as /etc/hiera, where they differ: its values, ` +
			`or with --effective what
they are with all overrides. Each file is replaced at once and is root's alone (0600); none is removed. Who may not see
secrets is refused.`,
		example: "  edgespan config export hiera /etc/hiera --env 1 --node 1 --effective",
		args:    term.ExactArgs(1, "one folder"), needs: []string{"env"}, run: exportTree,
		flags: []factsFlags{treeFlags, func(f *pflag.FlagSet, c *factsCall) {
			f.BoolVar(&c.effective, "effective", false, "write effective values, with all overrides")
			f.BoolVar(&c.dryRun, "dry-run", false, "list the files, and write none")
		}},
	}}},
	{
		use:     "verify DIR --env ID [--node ID]",
		short:   "Compare a node's files with its effective values",
		example: "  edgespan config verify /etc/hiera --env 1 --node 1",
		long: `Compare the YAML files of a tree, such as /etc/hiera, with the effective values of a node, and print a line
for each difference: what would make the files what ConfigDB has. Values that are declared secret are not
printed. It exits 1 if they differ.`,
		args: term.ExactArgs(1, "one folder"), needs: []string{"env"}, run: verifyTree, flags: []factsFlags{treeFlags},
	},
}

func treeFlags(f *pflag.FlagSet, c *factsCall) {
	envFlag(f, c)
	f.StringVar(&c.node, "node", "", "ID of the node, or another of its names (default: the uid in astute.yaml)")
	f.StringVarP(&c.level, "level", "l", "",
		"values of the levels above nodes, if the environment has any: role=compute")
	f.StringVar(&c.naming, "naming", string(hieratree.Seed), "how files are named: seed, lcm")
	f.StringVar(&c.component, "component", "",
		"component of the data sources (default: fuel, or the environment's only one)")
}

// tree is a folder of files and their contents.
type tree struct {
	dir       string
	naming    hieratree.Naming
	files     map[string][]byte
	resources []hieratree.Resource
}

// readTree reads the folder of the command line and returns all its faults together.
func (c *factsCall) readTree() (tree, error) {
	t := tree{dir: c.args[0], naming: hieratree.Naming(c.naming)}
	if !slices.Contains(hieratree.Namings, t.naming) {
		return t, term.NotOneOf("--naming", c.naming, []string{"seed", "lcm"})
	}
	var err error
	if t.files, err = readFiles(t.dir); err != nil {
		return t, err
	}
	if t.resources, err = hieratree.Read(t.files, t.naming); err != nil {
		return t, &rest.Rejected{Faults: strings.Split(err.Error(), "\n")}
	}
	return t, nil
}

// maxTreeFile bounds one file, in bytes: YAML may be longer than the JSON that results from it.
const maxTreeFile = 2 * model.MaxDocument

// readFiles reads the data files of a folder. A file may be a symbolic link, as Fuel's astute.yaml is.
func readFiles(dir string) (map[string][]byte, error) {
	out := map[string][]byte{}
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("read tree: %w", term.Unreadable(err))
	}
	var faults []error
	// WalkDir follows a symbolic link to a folder only if its name ends in a slash.
	_ = filepath.WalkDir(strings.TrimRight(dir, "/")+"/", func(name string, e fs.DirEntry, err error) error {
		below, _ := filepath.Rel(dir, name)
		below = filepath.ToSlash(below)
		switch {
		case err != nil:
			faults = append(faults, err)
			return nil
		case e.IsDir() || !hieratree.IsTreeFile(below):
			return nil
		}
		text, err := readTreeFile(name)
		if err != nil {
			faults = append(faults, err)
		}
		out[below] = text
		return nil
	})
	if len(faults) > 0 {
		return nil, fmt.Errorf("read tree: %w", term.Unreadable(errors.Join(faults...)))
	}
	return out, nil
}

func readTreeFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a file: must be a file or a link to one", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, maxTreeFile+1))
	if err == nil && len(text) > maxTreeFile {
		err = fmt.Errorf("%s: too long: must be at most %d bytes", name, maxTreeFile)
	}
	return text, err
}

// stringOf returns a string about the node from astute.yaml, or "".
func (t tree) stringOf(key string) string {
	i := slices.IndexFunc(t.resources, func(r hieratree.Resource) bool { return r.Name == "astute" })
	if i < 0 {
		return ""
	}
	v, err := configdb.At(t.resources[i].Values, []string{key})
	if err != nil {
		return ""
	}
	text, ok := v.Text()
	if !ok && strings.Trim(v.String(), "0123456789") == "" {
		return v.String() // a uid may be a number
	}
	return text
}

// nodePlace returns the place of the node's values. env is nil if the environment does not exist yet.
func (c *factsCall) nodePlace(t tree, env *model.Environment) (configdbapi.Place, error) {
	p := configdbapi.Place{Environment: c.env}
	if c.node == "" {
		c.node = t.stringOf("uid")
	}
	if c.node == "" {
		return p, term.Required("--node", "the ID of the node, where astute.yaml has no uid")
	}
	var err error
	if c.changed("level") {
		if p.Levels, err = parseLevels("level", c.level); err != nil {
			return p, err
		}
	}
	name := "nodes"
	if env != nil && !slices.Contains(env.Levels, name) {
		name = "node"
		if !slices.Contains(env.Levels, name) {
			return p, &rest.Rejected{Faults: []string{fmt.Sprintf("environment %d: no level nodes among its levels %s: must "+
				"have one", c.env, config.Quote(strings.Join(env.Levels, ",")))}}
		}
	}
	p.Levels = append(p.Levels, model.LevelValue{Level: name, Value: c.node})
	return p, nil
}

// printTree prints one line about a change.
func (c *factsCall) printTree(format string, args ...any) error {
	_, err := fmt.Fprintln(c.a.Out, term.Printable(fmt.Sprintf(format, args...)))
	return err
}
