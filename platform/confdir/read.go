package confdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"edgespan/config"
	"edgespan/config/layers"
)

const (
	suffix      = ".json"
	firmwareDir = "fw_versions"
	hardwareDir = "hw_versions"
	typesFile   = "hw_types.json"
)

// Broken reports a file that was read and is invalid.
type Broken struct {
	File   string
	Faults config.Faults
}

// Is makes errors.Is(err, config.Rejected) true.
func (e *Broken) Is(target error) bool { return target == config.Rejected }

// Error returns one line for each fault, each with the name of the file.
func (e *Broken) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = e.File + ": " + f.Error()
	}
	return strings.Join(lines, "\n")
}

// Dir is a folder of base versions:
//
//	<version>.json, fw_versions/<version>.json, hw_versions/<type>/<version>.json
//	hw_versions/hw_types.json: {type: [board id, …]}
type Dir struct {
	path    string
	Library layers.Library
}

// Open lists the files and reads which boards belong to which type. Without a firmware or hardware folder, or without
// hw_types.json, there are no such layers.
func Open(path string) (*Dir, error) {
	d, faults, err := List(path)
	if err != nil {
		return nil, err
	}
	if faults != nil {
		return nil, &Broken{filepath.Join(path, hardwareDir, typesFile), faults}
	}
	return d, nil
}

// List is like Open but returns the faults of hw_types.json separately, together with the valid types.
func List(path string) (*Dir, config.Faults, error) {
	d := &Dir{path: path, Library: layers.Library{Hardware: map[string][]string{}, Boards: map[string]string{}}}
	var err error
	if d.Library.Base, err = names(path); err != nil {
		return nil, nil, err
	}
	if d.Library.Firmware, err = optional(names(filepath.Join(path, firmwareDir))); err != nil {
		return nil, nil, err
	}
	file := filepath.Join(path, hardwareDir, typesFile)
	o, err := ReadObject(file)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	types, boards, faults := layers.ParseTypes(o)
	d.Library.Boards = boards
	for _, t := range types {
		if d.Library.Hardware[t], err = optional(names(filepath.Join(path, hardwareDir, t))); err != nil {
			return nil, nil, err
		}
	}
	return d, faults, nil
}

// Read reads only the files of a choice, and returns all their faults together.
func (d *Dir) Read(c layers.Choice) (layers.Set, error) {
	var s layers.Set
	var faults []error
	for _, file := range []struct {
		layer  layers.Layer
		name   string
		folder string
	}{
		{layers.Base, c.Base, ""},
		{layers.Firmware, c.Firmware, firmwareDir},
		{layers.Hardware, c.Hardware, filepath.Join(hardwareDir, c.Type)},
	} {
		if file.name == "" {
			continue
		}
		o, err := ReadObject(filepath.Join(d.path, file.folder, file.name+suffix))
		s[file.layer] = o
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return layers.Set{}, err
	}
	return s, nil
}

// ReadObject reads one JSON object.
func ReadObject(file string) (config.Object, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read layer: %w", err)
	}
	o, faults := config.ParseObject(text)
	if faults != nil {
		return nil, &Broken{file, faults}
	}
	return o, nil
}

// names returns the versions in a folder, in natural order.
func names(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("list layers: %w", err)
	}
	var out []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if ok && name != "" && name[0] != '.' && !e.IsDir() {
			out = append(out, name)
		}
	}
	layers.SortNatural(out)
	return out, nil
}

// optional treats a missing folder as an empty one.
func optional(names []string, err error) ([]string, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}
