package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// tempInfix separates the name of a file and the random digits in the name of its temporary copy. The leading dot of
// that name makes dnsmasq skip it in the folders that it watches.
const tempInfix = ".tmp-"

// WriteFile replaces the content of path: it writes a temporary file in the same folder, syncs it, renames it to path
// and syncs the folder. A power failure or an error at any point leaves the old or the new content
// (docs/architecture.md, law 13). The mode is exactly perm, regardless of the umask: dnsmasq reads as user nobody.
func WriteFile(path string, data []byte, perm os.FileMode) error {
	_, err := theDisk.replace(path, data, perm)
	return err
}

// WriteStream replaces the content of path like WriteFile, with the output of fill. If fill fails, the old content
// stays.
func WriteStream(path string, perm os.FileMode, fill func(io.Writer) error) error {
	_, err := theDisk.replaceFilled(path, perm, func(f *os.File) error { return fill(f) })
	return err
}

// CreateStream creates path like WriteStream. If path exists, even if it was created meanwhile, its error wraps
// fs.ErrExist.
func CreateStream(path string, perm os.FileMode, fill func(io.Writer) error) error {
	d := theDisk
	temp, err := d.writeTemp(path, perm, func(f *os.File) error { return fill(f) })
	if err == nil {
		err = errors.Join(os.Link(temp, path), os.Remove(temp))
	}
	if err == nil {
		err = d.syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}

// WriteFileLike replaces the content of path like WriteFile, and copies mode, owner and group from another file,
// usually the old one. Without root the process can't give a file away and becomes its owner; the group is kept or
// the write fails, because the mode grants the group access.
func WriteFileLike(path string, data []byte, like fs.FileInfo) error {
	_, err := theDisk.replaceOwned(path, data, like.Mode().Perm(), func(f *os.File) error { return own(f, like) })
	return err
}

func own(f *os.File, like fs.FileInfo) error {
	want, known := like.Sys().(*syscall.Stat_t)
	if !known {
		return nil
	}
	err := f.Chown(int(want.Uid), int(want.Gid))
	if errors.Is(err, fs.ErrPermission) {
		err = f.Chown(-1, int(want.Gid))
	}
	return err
}

// disk holds the steps whose order law 13 prescribes. Tests replace them to observe that order and to interrupt it.
type disk struct {
	sync      func(f *os.File) error
	rename    func(from, to string) error
	overwrite func(f *os.File, text []byte) error // from the beginning of the file
	datasync  func(f *os.File) error              // plus the metadata that a reader needs
}

var theDisk = disk{
	sync: (*os.File).Sync, rename: os.Rename,
	overwrite: func(f *os.File, text []byte) error { _, err := f.WriteAt(text, 0); return err },
	datasync:  func(f *os.File) error { return os.NewSyscallError("fdatasync", unix.Fdatasync(int(f.Fd()))) },
}

// replace also reports whether the rename took place: after that, an error means that a power failure may still lose
// the new content.
func (d disk) replace(path string, data []byte, perm os.FileMode) (renamed bool, err error) {
	return d.replaceOwned(path, data, perm, func(*os.File) error { return nil })
}

func (d disk) replaceOwned(path string, data []byte, perm os.FileMode, own func(*os.File) error) (renamed bool,
	err error) {
	return d.replaceFilled(path, perm, func(f *os.File) error {
		if _, err := f.Write(data); err != nil {
			return err
		}
		return own(f)
	})
}

func (d disk) replaceFilled(path string, perm os.FileMode, fill func(*os.File) error) (renamed bool, err error) {
	temp, err := d.writeTemp(path, perm, fill)
	if err != nil {
		return false, fmt.Errorf("write %s: %w", path, err)
	}
	if err := d.rename(temp, path); err != nil {
		return false, fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(temp)))
	}
	if err := d.syncDir(filepath.Dir(path)); err != nil {
		return true, fmt.Errorf("write %s: %w", path, err)
	}
	return true, nil
}

func (d disk) writeTemp(path string, perm os.FileMode, fill func(*os.File) error) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+tempInfix+"*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := fill(f); err != nil {
		return "", err
	}
	if err := f.Chmod(perm); err != nil {
		return "", err
	}
	return f.Name(), d.sync(f)
}

// Sweep removes the temporary files that a crash in WriteFile left in a folder. Call it at start, under the journal's
// lock, while nothing writes there. A missing folder is no error.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sweep %s: %w", dir, err)
	}
	var faults []error
	for _, e := range entries {
		if e.Type().IsRegular() && isTemp(e.Name()) {
			faults = append(faults, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("sweep %s: %w", dir, err)
	}
	return nil
}

func isTemp(name string) bool {
	at := strings.LastIndex(name, tempInfix)
	if at < 1 || name[0] != '.' {
		return false
	}
	digits := name[at+len(tempInfix):]
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// makeDir creates a folder and its missing parents and syncs each into its own parent: a synced file is lost if a power
// failure loses its folder.
func (d disk) makeDir(dir string, perm os.FileMode) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := d.makeDir(parent, perm); err != nil {
		return err
	}
	if err := os.Mkdir(dir, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.syncDir(parent)
}

func (d disk) syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.sync(f), f.Close())
}
