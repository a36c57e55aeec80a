package confdir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"edgespan/config"
	"edgespan/platform/store"
)

const (
	backupSuffix = ".bak"
	newFileMode  = 0o600 // overrides hold secrets
)

// WriteObject replaces a file by the canonical form of a document and a final newline. The
// content before it is kept beside it, with ".bak" behind its name. A power cut or an error
// leaves the old or the new content whole. A file that says the same already is left alone,
// and so is its backup. What a symbolic link points to is written, not the link.
func WriteObject(file string, o config.Object) error {
	target, err := filepath.EvalSymlinks(file)
	if errors.Is(err, fs.ErrNotExist) {
		target, err = file, nil
	}
	if err != nil {
		return fmt.Errorf("write layer: %w", err)
	}
	text := append(config.AppendCanonical(nil, o), '\n')
	mode := os.FileMode(newFileMode)
	switch old, err := os.ReadFile(target); {
	case err == nil && bytes.Equal(old, text):
		return nil
	case err == nil:
		info, err := os.Stat(target)
		if err != nil {
			return fmt.Errorf("write layer: %w", err)
		}
		mode = info.Mode().Perm()
		if err := store.WriteFile(target+backupSuffix, old, mode); err != nil {
			return fmt.Errorf("back up layer: %w", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("write layer: %w", err)
	}
	if err := store.WriteFile(target, text, mode); err != nil {
		return fmt.Errorf("write layer: %w", err)
	}
	return nil
}

// WriteNodes replaces an auto or node file as WriteObject does.
func WriteNodes(file string, nodes map[string]config.Object) error {
	o := make(config.Object, len(nodes))
	for name, layer := range nodes {
		o[name] = layer
	}
	return WriteObject(file, o)
}
