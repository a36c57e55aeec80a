package daemon

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"edgespan/actors/agent"
	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/schema"
	"edgespan/config/nodeconf/action"
	"edgespan/platform/confdir"
)

// Default files that describe a node (the seed names them). They are read if they exist and no flag names another
// file.
const (
	versionFile  = "/etc/tgversion"
	nodeInfoFile = "/var/run/node_info"
)

// withDefaults fills in the default files that exist below root, which is "" except in tests. It ignores a file
// without content: such a file must not stop a node from starting.
func (f aboutFiles) withDefaults(root string) aboutFiles {
	if _, err := firstLine(root + versionFile); f.Version == "" && err == nil {
		f.Version = root + versionFile
	}
	if id, err := board(root + nodeInfoFile); f.Info == "" && err == nil && id != "" {
		f.Info = root + nodeInfoFile
	}
	return f
}

// boardKey is the key of the board's line in the node's info file.
const boardKey = "HW_BOARD_ID"

// readNodeFacts reads the node's name, versions, board, metadata and base layers. If a named file can't be read, it
// returns an error: a node with the wrong identity would get the config of another node.
func readNodeFacts(o nodeOptions, log *zap.Logger) (agent.NodeFacts, error) {
	var f agent.NodeFacts
	var errs [5]error
	f.Software = softwareVersion(o.Version)
	if o.About.Version != "" {
		f.Software, errs[0] = firstLine(o.About.Version)
	}
	if o.About.Firmware != "" {
		f.Firmware, errs[1] = firstLine(o.About.Firmware)
	}
	if o.About.Info != "" {
		f.Board, errs[2] = board(o.About.Info)
	}
	f.Metadata, errs[3] = nodeMetadata(o.About.Metadata, log)
	f.Actions, errs[4] = actionTable(o.About.Actions)
	bases, err := nodeBases(&f, o.About.BaseDir)
	f.Bases = bases
	f.Name, _ = os.Hostname() // for display only
	return f, errors.Join(append(errs[:], err)...)
}

// softwareVersion converts the output of git describe into a version string.
func softwareVersion(described string) string {
	plain := strings.TrimPrefix(described, "v")
	plain, _, _ = strings.Cut(plain, "-")
	if parts := strings.Split(plain, "."); len(parts) == 3 && plain[0] >= '0' && plain[0] <= '9' {
		return "EDGESPAN-" + strings.Join(parts, "-")
	}
	return strings.ReplaceAll(schema.BaseVersion, "_", "-") + "-0"
}

func firstLine(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return "", fmt.Errorf("%s: first line empty: must be a version string", file)
	}
	return string(line), nil
}

// board returns the value of HW_BOARD_ID in an info file, or "" if the file has no such line.
func board(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), "=")
		if ok && strings.TrimSpace(key) == boardKey {
			return strings.Trim(strings.TrimSpace(value), `"'`), nil
		}
	}
	return "", nil
}

// nodeMetadata returns the embedded metadata, merged with a vendor's.
func nodeMetadata(file string, log *zap.Logger) (*metadata.Metadata, error) {
	m, faults := metadata.Parse(schema.NodeMetadata(), metadata.Options{})
	if faults != nil {
		return nil, fmt.Errorf("embedded metadata: %w", faults)
	}
	if file == "" {
		return m, nil
	}
	vendor, err := confdir.ReadObject(file)
	if err != nil {
		return nil, err
	}
	merged, conflicts, faults := m.Merge(vendor)
	if faults != nil {
		return nil, &confdir.Broken{File: file, Faults: faults}
	}
	for _, c := range conflicts {
		log.Warn("using the embedded metadata", zap.String("file", file), zap.Error(c))
	}
	return merged, nil
}

func actionTable(file string) (action.ActionTable, error) {
	named := file != ""
	if !named {
		file = action.File
	}
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return action.ActionTable{}, nil
	case err != nil:
		return nil, err
	}
	t, faults := action.Parse(text)
	if faults != nil {
		return nil, &confdir.Broken{File: file, Faults: faults}
	}
	return t, nil
}

// nodeBases returns the embedded base layers and those of a folder, including the folder's hardware layers for the
// node's board.
func nodeBases(f *agent.NodeFacts, folder string) (map[string]config.Object, error) {
	bases := schema.NodeBases()
	if folder == "" {
		return bases, nil
	}
	dir, err := confdir.Open(folder)
	if err != nil {
		return nil, err
	}
	named := map[string]config.Object{}
	for _, name := range dir.Library.Base {
		if named[name], err = confdir.ReadObject(filepath.Join(folder, name+".json")); err != nil {
			return nil, err
		}
	}
	maps.Copy(named, bases) // the embedded layer wins
	c := dir.Library.Choose(layers.Versions{Software: f.Software, Firmware: f.Firmware, Board: f.Board})
	if c.Hardware == "" {
		return named, nil
	}
	set, err := dir.Read(c)
	if err != nil {
		return nil, err
	}
	f.Hardware = map[string]config.Object{c.Hardware: set[layers.Hardware]}
	return named, nil
}
