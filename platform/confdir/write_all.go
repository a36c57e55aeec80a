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

// File is a document and the name of its file.
type File struct {
	Name     string
	Document config.Object
}

// WriteAll writes several files like WriteObject, all or none: after an error it restores those that were written. A
// power failure leaves each file complete, old or new; the caller must be able to repeat the write.
func WriteAll(files []File) error {
	var todo []pending
	seen := map[string]string{}
	for _, f := range files {
		p, err := prepare(f)
		if err != nil {
			return err
		}
		if other, twice := seen[p.target]; twice {
			return fmt.Errorf("write layer: %s and %s are the same file: give each file once", other, f.Name)
		}
		seen[p.target] = f.Name
		if !bytes.Equal(p.old, p.text) {
			todo = append(todo, p)
		}
	}
	for _, p := range todo { // create every backup before changing the first file
		if p.info != nil {
			if err := store.WriteFileLike(p.target+backupSuffix, p.old, p.info); err != nil {
				return fmt.Errorf("back up layer: %w", err)
			}
		}
	}
	for i, p := range todo {
		if err := p.write(); err != nil {
			faults := []error{fmt.Errorf("write layer: %w", err)}
			for _, done := range todo[:i+1] {
				faults = append(faults, done.putBack())
			}
			return errors.Join(faults...)
		}
	}
	return nil
}

// pending is a file to be written.
type pending struct {
	target    string // after symbolic links
	old, text []byte
	info      fs.FileInfo // nil for a new file
}

func prepare(f File) (pending, error) {
	target, err := filepath.EvalSymlinks(f.Name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, isLink := os.Readlink(f.Name); isLink == nil {
			return pending{}, fmt.Errorf("write layer: %s: dangling symbolic link: must be a file or a link to one",
				f.Name)
		}
		target, err = filepath.Abs(f.Name)
	}
	if err != nil {
		return pending{}, fmt.Errorf("write layer: %w", err)
	}
	p := pending{target: target, text: append(config.AppendCanonical(nil, f.Document), '\n')}
	p.info, err = os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		p.info = nil
		return p, nil
	}
	if err != nil {
		return pending{}, fmt.Errorf("write layer: %w", err)
	}
	if p.old, err = os.ReadFile(target); err != nil {
		return pending{}, fmt.Errorf("write layer: %w", err)
	}
	return p, nil
}

func (p pending) write() error {
	if p.info == nil {
		return store.WriteFile(p.target, p.text, newFileMode)
	}
	return store.WriteFileLike(p.target, p.text, p.info)
}

func (p pending) putBack() error {
	if p.info == nil {
		if err := os.Remove(p.target); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("put back layer: %w", err)
		}
		return nil
	}
	if err := store.WriteFileLike(p.target, p.old, p.info); err != nil {
		return fmt.Errorf("put back layer: %w", err)
	}
	return nil
}
