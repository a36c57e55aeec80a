package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"edgespan/netinst/netstate"
)

// confName is the folder in an owner's run folder that holds its files.
const confName = "conf"

// tempPrefix begins the name of an unfinished file. dnsmasq's hosts folders ignore a dot.
const tempPrefix = ".new-"

// makeFolder creates a folder that dnsmasq can read as user nobody, regardless of the umask.
func makeFolder(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	return nil
}

// writeFile replaces a whole file: a crash at any point leaves the old or the new content.
func writeFile(path, content string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write file %s: %w", filepath.Base(path), err)
		}
	}()
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, tempPrefix+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if _, err = f.WriteString(content); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	if cerr := f.Close(); cerr != nil {
		return cerr
	}
	d, derr := os.Open(dir)
	if derr != nil {
		return derr
	}
	defer d.Close()
	return d.Sync()
}

// filePath returns the path of an owner's file, or an error if the file isn't the owner's.
func (h *Host) filePath(o netstate.Owner, f netstate.File) (string, error) {
	conf := fmt.Sprintf("ni/%d/%s", o.Number, confName)
	if o.Number < 1 || !filepath.IsLocal(f.Path) || filepath.Clean(f.Path) != f.Path ||
		f.Path != conf && !strings.HasPrefix(f.Path, conf+"/") {
		return "", fmt.Errorf("file %q: not owned by %d", f.Path, o.Number)
	}
	return filepath.Join(h.dir, f.Path), nil
}

func (h *Host) putFile(o netstate.Owner, f netstate.File) error {
	path, err := h.filePath(o, f)
	if err != nil {
		return err
	}
	// Remove a file of another kind in its place.
	if st, err := os.Lstat(path); err == nil && st.IsDir() != f.Dir {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove %s: %w", f.Path, err)
		}
	}
	if f.Dir {
		return makeFolder(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	return writeFile(path, f.Content)
}

// removeFile removes a file, or a folder with the leftovers of a crash.
func (h *Host) removeFile(o netstate.Owner, f netstate.File) error {
	path, err := h.filePath(o, f)
	if err != nil {
		return err
	}
	if !f.Dir {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove file: %w", err)
		}
		return h.pruneFolders(o)
	}
	entries, err := os.ReadDir(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("remove folder: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !e.IsDir() {
			return fmt.Errorf("remove folder: %s still contains %s", f.Path, e.Name())
		}
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove folder: %w", err)
	}
	return nil
}

// pruneFolders removes folders that exist only because a file's path names them, once their last file is gone.
func (h *Host) pruneFolders(o netstate.Owner) error {
	conf := filepath.Join(h.folder(o.Number), confName)
	err := filepath.WalkDir(conf, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			return errHolds
		}
		return err
	})
	if errors.Is(err, errHolds) || errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("list files: %w", err)
	}
	return os.RemoveAll(conf)
}

// errHolds ends a walk at the first file.
var errHolds = errors.New("a file is left")

// observeFile reads one file; a file with other permissions, or of a kind that edgespan never creates, differs from any
// desired one.
func observeFile(path, rel string) (netstate.File, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return netstate.File{}, err
	}
	f := netstate.File{Path: rel}
	want := fs.FileMode(0o644)
	if st.IsDir() {
		want = fs.ModeDir | 0o755
		f.Dir = st.Mode() == want
		f.Content = st.Mode().String()
		return f, nil
	}
	if st.Mode() != want {
		f.Content = "mode " + st.Mode().String()
		return f, nil
	}
	b, err := os.ReadFile(path)
	f.Content = string(b)
	return f, err
}
