package field

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"edgespan/integration/soak/guest"
)

// outDir is where a guest leaves files for the host.
const outDir = "/mnt/out"

// packages are what a node has beside Debian's minimal system: the kernel, systemd, what the daemon runs, and what the
// soak looks with.
var packages = []string{"systemd-sysv", "udev", "kmod", "dbus", "linux-image-amd64", "initramfs-tools", "zstd",
	"iproute2", "dnsmasq-base", "iptables", "nftables", "ipset", "conntrack", "udhcpc", "dnsutils", "curl",
	"iputils-ping", "procps", "tcpdump", "ca-certificates", "netbase", "charon-systemd", "strongswan-swanctl",
	"libcharon-extra-plugins", "libcharon-extauth-plugins", "libstrongswan-standard-plugins",
	"libstrongswan-extra-plugins"}

// files are what the image has of its own.
var files = map[string]string{
	"etc/fstab": "LABEL=payload " + guest.Dir + " ext4 ro 0 0\n" +
		"out " + outDir + " 9p trans=virtio,version=9p2000.L 0 0\n",
	"etc/hostname": "edge\n",
	"etc/hosts":    "127.0.0.1 localhost edge\n",
	// The journal stays after a cut of the power.
	"etc/systemd/journald.conf.d/soak.conf": "[Journal]\nStorage=persistent\nSystemMaxUse=64M\nSyncIntervalSec=5s\n",
	"etc/systemd/system/soak-agent.service": "[Unit]\nDescription=soak: the line to the host\n" +
		"RequiresMountsFor=" + guest.Dir + " " + outDir + "\n[Service]\nExecStart=" + guest.Dir + "/soak agent\n" +
		"Restart=always\nRestartSec=1\nKillMode=process\n[Install]\nWantedBy=multi-user.target\n",
	"etc/initramfs-tools/conf.d/soak": "MODULES=list\n", // the guest has no other hardware
	"etc/initramfs-tools/modules":     "virtio_pci\nvirtio_blk\next4\n",
}

// links are made in the image: services that start with the machine, and one that must not.
var links = map[string]string{
	"etc/systemd/system/multi-user.target.wants/soak-agent.service": "../soak-agent.service",
	"etc/systemd/system/strongswan.service":                         "/dev/null",
}

// image are the files that guests of one kind boot from.
type image struct{ root, kernel, initrd string }

// findImage returns the image of the packages: the one in the user's cache, else it is made of Debian's packages, some
// 150 MB.
func findImage(ctx context.Context) (image, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return image{}, err
	}
	of := fmt.Sprint(packages, files, links)
	dir := filepath.Join(cache, "edgespan", "soak", fmt.Sprintf("%x", sha256.Sum256([]byte(of)))[:12])
	img := image{filepath.Join(dir, "root.ext4"), filepath.Join(dir, "vmlinuz"), filepath.Join(dir, "initrd.img")}
	if _, err := os.Stat(img.root); err == nil {
		return img, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return image{}, err
	}
	err = once(dir+".lock", img.root, func() error {
		fmt.Fprintf(os.Stderr, "soak: making an image of Debian's packages in %s\n", dir)
		return makeImage(ctx, dir)
	})
	if err != nil {
		return image{}, fmt.Errorf("make an image: %w", err)
	}
	return img, nil
}

// once makes what does not exist. Of two soaks that begin at a time one makes it, and the other waits: guests that run
// have the file below their disks, so that it must not become another one.
func once(lock, path string, do func() error) error {
	f, err := os.OpenFile(lock, os.O_CREATE|os.O_RDWR, 0o600) // #nosec G304 -- in the user's cache
	if err != nil {
		return err
	}
	defer f.Close() // which unlocks it
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock, err)
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return do()
}

func makeImage(ctx context.Context, dir string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "making")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	root, own := filepath.Join(tmp, "root"), filepath.Join(tmp, "own")
	if err := writeFiles(own); err != nil {
		return err
	}
	// The files are there before the packages, since the initramfs is made as they say.
	argv := []string{"mmdebstrap", "--quiet", "--variant=minbase", "--mode=root",
		"--include=" + strings.Join(packages, ","), "--dpkgopt=force-confold",
		"--setup-hook=copy-in " + own + "/etc /", "bookworm", root, "http://deb.debian.org/debian"}
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil { // #nosec G204
		return fmt.Errorf("mmdebstrap: %w: %s", err, out)
	}
	for _, of := range []string{"vmlinuz", "initrd.img"} {
		found, err := filepath.Glob(filepath.Join(root, "boot", of+"-*"))
		if err != nil || len(found) != 1 {
			return errors.Join(fmt.Errorf("the image has %d files %s: want one", len(found), of), err)
		}
		if err := os.Rename(found[0], filepath.Join(tmp, of)); err != nil {
			return err
		}
	}
	if err := makeDisk(ctx, filepath.Join(tmp, "root.ext4"), "root", root, "2G"); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(root), os.RemoveAll(own), os.RemoveAll(dir)); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}

func writeFiles(root string) error {
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { // #nosec G306 -- files of a system
			return err
		}
	}
	for name, to := range links {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(to, path)); err != nil {
			return err
		}
	}
	return nil
}

// makeDisk makes a disk with the content of a folder.
func makeDisk(ctx context.Context, path, label, content, size string) error {
	out, err := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-L", label, "-d", content, path, size).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	return nil
}
