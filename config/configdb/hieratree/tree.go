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

// Extension is the extension of data files. Hiera reads no others.
const Extension = ".yaml"

// Naming maps files to resources.
type Naming string

// The namings.
const (
	// Seed: the path without its extension is the resource: override/plugins.yaml is override/plugins.
	Seed Naming = "seed"
	// LCM: as Seed for files in the root. A file in a folder is a key of the resource with the folder's name:
	// override/node/a.b.yaml is the key a.b of override/node.
	LCM Naming = "lcm"
)

// Namings lists all namings.
var Namings = []Naming{Seed, LCM}

// known lists the resources that each naming creates at the start: the seed's data sources, and those of the original's
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

// folders are the resources of the original's task that are folders although their names have no slash.
var folders = []string{"class", "module", "override", "plugins"}

// Resources returns the names of the resources that a component of data sources starts with.
func (n Naming) Resources() []string { return slices.Clone(known[n]) }

// Resource is a resource with the values that some files have for it.
type Resource struct {
	Name   string
	Values configdb.JSON // an object
}

// Read converts files, by their slash-separated paths below the folder, to resources, sorted by name. The error joins
// all faults, each with its file and, for YAML, the line. Read ignores hidden files and other extensions, as Hiera
// does.
func Read(files map[string][]byte, n Naming) ([]Resource, error) {
	members := map[string][]configdb.Member{} // by folder
	from := map[string]string{}               // the file or folder of each resource
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
		if !IsTreeFile(file) {
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

// IsTreeFile reports whether Read reads the file at a path.
func IsTreeFile(file string) bool {
	base := path.Base(file)
	return strings.HasSuffix(base, Extension) && !strings.HasPrefix(base, ".")
}

// place returns the resource of a file and the key of the file in it, or "" if the file is the complete resource.
func (n Naming) place(file string) (name, key string) {
	name = strings.TrimSuffix(file, Extension)
	if dir, base := path.Split(name); n == LCM && dir != "" {
		return strings.TrimSuffix(dir, "/"), base
	}
	return name, ""
}

// document returns the mapping in a file. A file without a document is an empty mapping, as in Hiera.
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

// checkName returns an error for an invalid resource name. ConfigDB reads a name of digits as an id.
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
