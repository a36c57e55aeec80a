package hieratree

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
)

// Extension is what the names of data files end with. Hiera reads no other.
const Extension = ".yaml"

// Naming says which resource a file is.
type Naming string

// The namings.
const (
	// Seed: the path without its extension is the resource: override/plugins.yaml is override/plugins.
	Seed Naming = "seed"
	// LCM: so it is beside the root; files in a folder are keys of one resource, which has the folder's name:
	// override/node/a.b.yaml is the key a.b of override/node.
	LCM Naming = "lcm"
)

// Namings are all.
var Namings = []Naming{Seed, LCM}

// known are the resources that either naming has from the start: the seed's data sources, and those of the original's
// task.
var known = map[Naming][]string{
	Seed: {
		"astute", "globals", "override/plugins", "override/configuration/node", "override/configuration/role",
		"override/configuration/cluster", "override/node",
	},
	LCM: {
		"override/node", "override/class", "override/module", "override/plugins", "override/common", "override/configuration",
		"override/configuration/role", "override/configuration/cluster", "class", "module", "nodes", "globals",
		"deleted_nodes",
		"astute", "plugins", "override",
	},
}

// folders are the resources of the original's task that are folders without a slash in their names.
var folders = []string{"class", "module", "override", "plugins"}

// Resources are the names that a component of data sources has from the start.
func (n Naming) Resources() []string { return slices.Clone(known[n]) }

// Resource is what ConfigDB is to have of some files.
type Resource struct {
	Name   string
	Values configdb.JSON // an object
}

// Read makes resources of files, by their paths below the folder, with slashes. They are in the order of their names.
// The error joins all faults, each with its file; those of YAML name the line, too. A file whose name ends otherwise,
// or that is hidden, is none of Hiera's.
func Read(files map[string][]byte, n Naming) ([]Resource, error) {
	members := map[string][]configdb.Member{} // of folders
	from := map[string]string{}               // the file or folder that a resource is
	var out []Resource
	var faults []error
	take := func(name, source string) bool {
		if other, taken := from[name]; taken && other != source {
			faults = append(faults, fmt.Errorf("%s: is resource %s, as %s is: must be only one of them", source, name, other))
			return false
		}
		from[name] = source
		return true
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if !Reads(file) {
			continue
		}
		doc, err := document(files[file])
		name, key := n.place(file)
		err = errors.Join(err, checkName(name))
		switch {
		case err != nil:
			for line := range strings.SplitSeq(err.Error(), "\n") {
				faults = append(faults, fmt.Errorf("%s: %s", file, line))
			}
		case key == "":
			if take(name, file) {
				out = append(out, Resource{name, doc})
			}
		case take(name, path.Dir(file)+"/"):
			members[name] = append(members[name], configdb.Member{Key: key, Value: doc})
		}
	}
	for name, ms := range members {
		out = append(out, Resource{name, configdb.NewObject(ms).JSON()})
	}
	for _, r := range out {
		if len(r.Values) > model.MaxDocument {
			faults = append(faults,
				fmt.Errorf("%s: too long (%d bytes as JSON): must be at most %d", from[r.Name], len(r.Values), model.MaxDocument))
		}
	}
	slices.SortFunc(out, func(a, b Resource) int { return cmp.Compare(a.Name, b.Name) })
	return out, errors.Join(faults...)
}

// Reads says whether a path is that of a file which Read reads.
func Reads(file string) bool {
	base := path.Base(file)
	return strings.HasSuffix(base, Extension) && !strings.HasPrefix(base, ".")
}

// place is the resource of a file, and its key in it; "" if it is all of it.
func (n Naming) place(file string) (name, key string) {
	name = strings.TrimSuffix(file, Extension)
	if dir, base := path.Split(name); n == LCM && dir != "" {
		return strings.TrimSuffix(dir, "/"), base
	}
	return name, ""
}

// document is the mapping that a file holds. A file without a document is one without keys, as it is to Hiera.
func document(text []byte) (configdb.JSON, error) {
	doc, more, err := configdb.FromYAML(text)
	switch {
	case err != nil:
		return nil, err
	case more:
		return nil, errors.New("more than one document: must be one: Hiera reads the first only")
	case doc.String() == "null":
		return configdb.JSON("{}"), nil
	case !strings.HasPrefix(doc.String(), "{"):
		return nil, errors.New("line 1: not a mapping: must be keys with values")
	}
	return doc, nil
}

// checkName says why a resource can't be called so. ConfigDB takes a name of digits for an id.
func checkName(name string) error {
	switch {
	case strings.Trim(name, "0123456789") == "":
		return fmt.Errorf("is resource %s: a name of digits means an id: must be another name", config.Quote(name))
	case len([]rune(name)) > model.MaxName:
		return fmt.Errorf("is a resource with a name that is too long (%d characters): must be at most %d", len([]rune(name)),
			model.MaxName)
	}
	return nil
}
