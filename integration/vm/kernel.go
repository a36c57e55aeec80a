package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// kernelFiles are a kernel's image and the folder of its modules, of the form .../lib/modules/VERSION.
type kernelFiles struct{ image, modules string }

// findKernel returns the kernel of a package: the one in the user's cache, else it is downloaded, some 70 MB.
func findKernel(pkg string) (kernelFiles, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return kernelFiles{}, err
	}
	dir := filepath.Join(cache, "edgespan", "vm", pkg)
	if k, err := kernelIn(dir); err == nil {
		return k, nil
	}
	fmt.Fprintf(os.Stderr, "vm: downloading %s into %s\n", pkg, dir)
	if err := download(pkg, dir); err != nil {
		return kernelFiles{}, fmt.Errorf("download %s: %w", pkg, err)
	}
	return kernelIn(dir)
}

func kernelIn(dir string) (kernelFiles, error) {
	images, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return kernelFiles{}, errors.Join(fmt.Errorf("%s has %d kernels: want one", dir, len(images)), err)
	}
	version := strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	k := kernelFiles{images[0], filepath.Join(dir, "lib", "modules", version)}
	_, err = os.Stat(filepath.Join(k.modules, "modules.dep"))
	return k, err
}

// download unpacks a package, or the one that it stands for, and lists what its modules need of each other.
func download(pkg, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "download")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	// Lists that are there may be old, and name packages that Debian no longer has.
	if _, err := run(tmp, "apt-get", "update", "-q"); err != nil {
		return err
	}
	depends, err := run(tmp, "apt-cache", "depends", "--important", pkg)
	if err != nil {
		return err
	}
	for line := range strings.Lines(depends) {
		if real, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); ok {
			pkg = "linux-image-" + real
		}
	}
	if _, err := run(tmp, "apt-get", "download", "-q", pkg); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(files) != 1 {
		return errors.Join(fmt.Errorf("apt-get left %d packages: want one", len(files)), err)
	}
	root := filepath.Join(tmp, "root")
	if _, err := run(tmp, "dpkg-deb", "-x", files[0], root); err != nil {
		return err
	}
	versions, err := os.ReadDir(filepath.Join(root, "lib", "modules"))
	if err != nil {
		return err
	}
	for _, v := range versions {
		if _, err := run(tmp, "/sbin/depmod", "-b", root, v.Name()); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(dir); err != nil { // one that was not finished
		return err
	}
	return os.Rename(root, dir)
}

func run(dir, name string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = dir, &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}

// early are the modules that the guest needs before it has the modules of its root.
var early = []string{"virtio_pci", "9pnet_virtio", "9p", "overlay"}

const (
	jobFile    = "job"
	moduleGlob = "module-*" // in the order in which they are loaded
)

// writeInitramfs writes an archive with this program as /init, the early modules and the job.
func writeInitramfs(path, modules string, j job) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	init, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	deps, err := os.ReadFile(filepath.Join(modules, "modules.dep"))
	if err != nil {
		return err
	}
	var a archive
	a.add("init", 0o100755, init)
	a.add("dev", 0o040755, nil)
	a.add(jobFile, 0o100644, j.encode())
	for i, name := range inOrder(string(deps), early) {
		text, err := os.ReadFile(filepath.Join(modules, name))
		if err != nil {
			return err
		}
		a.add(fmt.Sprintf("%s%03d", strings.TrimSuffix(moduleGlob, "*"), i), 0o100644, text)
	}
	a.add("TRAILER!!!", 0, nil)
	return os.WriteFile(path, a.Bytes(), 0o600)
}

// archive is a cpio archive in the format that the kernel reads (initramfs buffer format, "070701").
type archive struct{ bytes.Buffer }

func (a *archive) add(name string, mode uint32, content []byte) {
	// ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
	fields := []uint32{0, mode, 0, 0, 1, 0, uint32(len(content)), 0, 0, 0, 0, uint32(len(name) + 1), 0} // #nosec G115
	a.WriteString("070701")
	for _, f := range fields {
		fmt.Fprintf(a, "%08X", f)
	}
	a.WriteString(name + "\x00")
	a.pad()
	a.Write(content)
	a.pad()
}

func (a *archive) pad() { a.Write(make([]byte, -a.Len()&3)) }

// inOrder returns the files of modules and of all that they need, each after what it needs. deps is the text of
// modules.dep: "file: needs...", where the first one needed is loaded last.
func inOrder(deps string, names []string) []string {
	var files []string
	for _, name := range names {
		for line := range strings.Lines(deps) {
			file, needs, _ := strings.Cut(strings.TrimSpace(line), ":")
			if strings.TrimSuffix(filepath.Base(file), ".ko") != name {
				continue
			}
			list := append([]string{file}, strings.Fields(needs)...)
			for _, f := range slices.Backward(list) {
				if !slices.Contains(files, f) {
					files = append(files, f)
				}
			}
		}
	}
	return files
}
