package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

const idName = "node-id"

// NodeID returns the node's ID, which is created at its first start and stored in the file node-id of the state folder.
// Only the holder of the journal calls it, so that two first starts can't create two IDs. A file without a UUID is an
// error: a new ID would make it a different node.
func NodeID(dir string) (uuid.UUID, error) {
	id, err := readNodeID(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return newNodeID(dir, filepath.Join(dir, idName))
	}
	return id, err
}

func readNodeID(dir string) (uuid.UUID, error) {
	path := filepath.Join(dir, idName)
	text, err := os.ReadFile(path)
	if err != nil {
		return uuid.Nil, fmt.Errorf("read node ID: %w", err)
	}
	id, err := parseNodeID([]byte(strings.TrimSuffix(string(text), "\n")))
	if err != nil {
		return uuid.Nil, fmt.Errorf("read node ID: %s: invalid value %.60q: must be one UUID in lower case, such as %q",
			path, text, "1b4e28ba-2fa1-4d7b-883f-0016d3cca427")
	}
	return id, nil
}

func parseNodeID(text []byte) (uuid.UUID, error) {
	id, err := uuid.ParseBytes(text)
	if err == nil && (id == uuid.Nil || id.String() != string(text)) {
		err = errors.New("not a UUID in lower case")
	}
	return id, err
}

func newNodeID(dir, path string) (uuid.UUID, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return uuid.Nil, fmt.Errorf("make node id: %w", err)
	}
	if err := theDisk.makeDir(dir, 0o755); err != nil {
		return uuid.Nil, fmt.Errorf("make node id: %w", err)
	}
	if err := WriteFile(path, []byte(id.String()+"\n"), 0o644); err != nil {
		return uuid.Nil, fmt.Errorf("make node id: %w", err)
	}
	return id, nil
}

// The boot number's place in the journal.
const (
	bootTopic = "boot"
	bootKey   = "number"
)
