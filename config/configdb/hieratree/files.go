package hieratree

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/configdb"
)

// File is the desired content of one file.
type File struct {
	Path string // below the folder, separated by slashes
	Text []byte
	New  bool // the file does not exist yet
}

// Files returns the files to write so that they match the resources, sorted by path. have are the existing files. Files
// with equal content, whatever its spelling, are left out, and no file is ever removed. The error joins all faults:
// resources that can't be written as files.
func Files(resources []Resource, have map[string][]byte, n Naming) ([]File, error) {
	var out []File
	var faults []error
	owner := map[string]string{}
	for _, r := range resources {
		parts, err := n.parts(r, have)
		if err != nil {
			faults = append(faults, err)
		}
		for file, doc := range parts {
			if err := checkPath(file); err != nil {
				faults = append(faults, fmt.Errorf("resource %s: %w", config.Quote(r.Name), err))
				continue
			}
			if other, taken := owner[file]; taken {
				faults = append(faults,
					fmt.Errorf("%s: is of the resources %s and %s: must be only one of them", file, other, r.Name))
				continue
			}
			owner[file] = r.Name
			old, ok := have[file]
			if was, err := document(old); ok && err == nil && was.String() == doc.String() {
				continue
			}
			out = append(out, File{file, configdb.ToYAML(doc), !ok})
		}
	}
	slices.SortFunc(out, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(faults, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return out, errors.Join(faults...)
}

// parts returns the files of a resource with their content.
func (n Naming) parts(r Resource, have map[string][]byte) (map[string]configdb.JSON, error) {
	o, err := configdb.ObjectOf(r.Values)
	if err != nil {
		return nil, fmt.Errorf("resource %s: %w", config.Quote(r.Name), err)
	}
	if !n.isFolder(r.Name, have) {
		return map[string]configdb.JSON{r.Name + Extension: r.Values}, nil
	}
	out := map[string]configdb.JSON{}
	var faults []error
	for _, m := range o.Members() {
		file := r.Name + "/" + m.Key + Extension
		switch {
		case strings.Contains(m.Key, "/") || strings.HasPrefix(m.Key, "."):
			faults = append(faults, fmt.Errorf("resource %s: its key %s can't be the name of a file",
				config.Quote(r.Name), config.Quote(m.Key)))
		case !strings.HasPrefix(m.Value.String(), "{"):
			faults = append(faults, fmt.Errorf("resource %s: its key %s is not an object: a file holds one",
				config.Quote(r.Name), config.Quote(m.Key)))
		default:
			out[file] = m.Value
		}
	}
	return out, errors.Join(faults...)
}

// isFolder reports whether a resource is a folder whose keys are files. Existing files decide, if there are any.
func (n Naming) isFolder(name string, have map[string][]byte) bool {
	if n != LCM {
		return false
	}
	if _, ok := have[name+Extension]; ok && !strings.Contains(name, "/") {
		return false
	}
	for file := range have {
		if resource, key := n.place(file); resource == name && key != "" {
			return true
		}
	}
	return strings.Contains(name, "/") || slices.Contains(folders, name)
}

// checkPath returns an error unless a path from ConfigDB stays below the folder.
func checkPath(file string) error {
	for part := range strings.SplitSeq(file, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.ContainsRune(part, 0) || len(part) > 200 {
			return fmt.Errorf("%s can't be the path of a file: must be parts that are not empty and begin with no dot, of 200 "+
				"bytes at most", config.Quote(file))
		}
	}
	return nil
}
