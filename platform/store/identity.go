package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// NodeID returns the id of the node, which is made at its first start and kept
// in the file node-id of the state folder. Only the holder of the
// journal calls it, so that two first starts cannot make two ids. A file that
// holds no UUID is an error: a new id would make the node another one.
func NodeID(dir string) (uuid.UUID, error) {
	path := filepath.Join(dir, "node-id")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newNodeID(dir, path)
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("read node id: %w", err)
	}
	word := strings.TrimSuffix(string(text), "\n")
	id, err := uuid.Parse(word)
	if err != nil || id == uuid.Nil || id.String() != word {
		return uuid.Nil, fmt.Errorf("read node id: %s holds %.60q: one UUID in lower case is allowed, such as %q",
			path, word, "1b4e28ba-2fa1-4d7b-883f-0016d3cca427")
	}
	return id, nil
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

// NextBoot returns the number of this boot: 1 at the first start and one more
// at each further one, on disk before it is returned. It prefixes applySeq, so
// that no status ever repeats (docs/architecture.md, laws 3 and 9). It is called once a start.
func NextBoot(j *Journal) (uint64, error) {
	values, err := j.Load(bootTopic)
	if err != nil {
		return 0, fmt.Errorf("count boot: %w", err)
	}
	last := uint64(0)
	if text, found := values[bootKey]; found {
		if last, err = strconv.ParseUint(string(text), 10, 64); err != nil {
			return 0, fmt.Errorf("count boot: %w", err)
		}
	}
	next := last + 1
	if err := j.Put(bootTopic, bootKey, strconv.AppendUint(nil, next, 10)); err != nil {
		return 0, fmt.Errorf("count boot: %w", err)
	}
	return next, nil
}
