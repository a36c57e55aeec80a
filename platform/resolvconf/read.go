package resolvconf

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
)

// Bounds on the files.
const (
	maxFile  = 64 << 10 // bytes of one file; of a lease file, the last ones
	maxFiles = 64       // per folder
	maxLinks = 1024
)

// Reader reads files below Root, which is "/" on a machine and a folder in tests.
type Reader struct {
	Root string
}

// Link is an interface whose servers are read.
type Link struct {
	Name  string
	Index int
}

// The folders of the files, below the root.
const (
	resolvedLinks = "run/systemd/resolve/netif"
	networkdLinks = "run/systemd/netif/links"
	resolved      = "run/systemd/resolve"
	manager       = "run/NetworkManager"
	managerLeases = "var/lib/NetworkManager"
	dhclient      = "var/lib/dhcp"
	etc           = "etc"
)

// byName are the folders of resolv.conf files named by interface: Debian's resolvconf, openresolv, and dhcpcd without
// either.
var byName = []struct{ folder, program string }{
	{"run/resolvconf/interface", "resolvconf"},
	{"run/resolvconf/interfaces", "resolvconf"},
	{"run/dhcpcd/hook-state/resolv.conf", "dhcpcd"},
	{"run/dhcpcd/resolv.conf", "dhcpcd"},
}

// shared are the files of the host as a whole, the most authoritative first.
var shared = []struct{ path, program string }{
	{resolved + "/resolv.conf", "systemd-resolved"},
	{manager + "/no-stub-resolv.conf", "NetworkManager"},
	{manager + "/resolv.conf", "NetworkManager"},
	{etc + "/resolv.conf", "resolv.conf"},
}

// folders returns all folders to watch.
func folders() []string {
	all := []string{resolvedLinks, networkdLinks, resolved, manager, managerLeases, dhclient, etc}
	for _, b := range byName {
		all = append(all, b.folder)
	}
	return all
}

// Read returns the sources of each link, by name, the most authoritative first: those of the link itself, then those
// of the whole host. A missing file is no source.
func (r Reader) Read(links []Link) map[string][]netstate.DNSSource {
	out := map[string][]netstate.DNSSource{}
	add := func(link string, s netstate.DNSSource) { out[link] = append(out[link], s) }
	links = links[:min(len(links), maxLinks)]
	for _, l := range links {
		for _, f := range []struct{ folder, program, key string }{
			{resolvedLinks, "systemd-resolved", "SERVERS"}, {networkdLinks, "systemd-networkd", "DNS"},
		} {
			path := f.folder + "/" + strconv.Itoa(l.Index)
			if text, why, there := r.file(path, unix.O_NOFOLLOW); there {
				add(l.Name, source(f.program, path, true, parseAssignments(text, f.key), why))
			}
		}
	}
	for _, b := range byName {
		for _, name := range r.names(b.folder) {
			link := linkOf(name, links)
			if text, why, there := r.file(b.folder+"/"+name, unix.O_NOFOLLOW); there && link != "" {
				add(link, source(b.program, b.folder+"/"+name, true, parseResolvConf(text), why))
			}
		}
	}
	r.leases(links, add)
	for _, s := range shared {
		if text, why, there := r.file(s.path, 0); there {
			src := source(s.program, s.path, false, parseResolvConf(text), why)
			for _, l := range links {
				add(l.Name, src)
			}
		}
	}
	return out
}

// leases reads dhclient's leases for the links.
func (r Reader) leases(links []Link, add func(string, netstate.DNSSource)) {
	for _, folder := range []string{dhclient, managerLeases} {
		for _, name := range r.names(folder) {
			if !strings.HasPrefix(name, "dhclient") || !strings.Contains(name, "lease") {
				continue
			}
			text, why, there := r.file(folder+"/"+name, unix.O_NOFOLLOW)
			if !there {
				continue
			}
			for _, l := range parseLeases(text) {
				if slices.ContainsFunc(links, func(k Link) bool { return k.Name == l.link }) {
					s := source("dhclient", folder+"/"+name, true, l.found, why)
					s.Lease = l.address
					add(l.link, s)
				}
			}
		}
	}
}

func source(program, path string, link bool, f found, why string) netstate.DNSSource {
	if why != "" {
		f.skip(why)
	}
	return netstate.DNSSource{Program: program, Path: "/" + path, Link: link, Servers: f.servers,
		Skipped: strings.Join(f.skipped, "; ")}
}

// linkOf returns the link of a file such as "eth0.100.dhclient": the one with the longest name that is a prefix, or
// "".
func linkOf(file string, links []Link) string {
	best := ""
	for _, l := range links {
		if (file == l.Name || strings.HasPrefix(file, l.Name+".")) && len(l.Name) > len(best) {
			best = l.Name
		}
	}
	return best
}

// open opens a file below the root without blocking, for example on a FIFO without a writer.
func (r Reader) open(path string, flags int) (*os.File, error) {
	root, err := unix.Open(r.root(), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(root) }()
	fd, err := unix.Openat2(root, path, &unix.OpenHow{
		Flags:   uint64(unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY | flags),
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

func (r Reader) root() string {
	if r.Root == "" {
		return "/"
	}
	return r.Root
}

// file reads a regular file, or the end of a long one. why is the reason if the file is not used; there reports
// whether it exists.
func (r Reader) file(path string, flags int) (text, why string, there bool) {
	f, err := r.open(path, flags)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return "", "", false
	case errors.Is(err, unix.ELOOP):
		return "", "is a symbolic link", true
	case err != nil:
		return "", "can't be opened", true
	}
	defer func() { _ = f.Close() }() // only read
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return "", "not a regular file", true
	}
	lease := strings.Contains(filepath.Base(path), "lease")
	if size := st.Size(); size > maxFile {
		if !lease {
			return "", fmt.Sprintf("more than %d bytes", maxFile), true
		}
		if _, err := f.Seek(size-maxFile, io.SeekStart); err != nil {
			return "", "can't be read", true
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return "", "can't be read", true
	}
	return string(b), "", true
}

// names returns the files of a folder, sorted, at most maxFiles.
func (r Reader) names(folder string) []string {
	f, err := r.open(folder, unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // only read
	names, _ := f.Readdirnames(maxFiles)
	slices.Sort(names)
	return names
}

// Own marks the servers in Read's result that are addresses of the host itself.
func Own(sources []netstate.DNSSource, own func(netip.Addr) bool) []netstate.DNSSource {
	out := slices.Clone(sources)
	for i, s := range out {
		for _, a := range s.Servers {
			if own(a) {
				out[i].Own = append(out[i].Own, a)
			}
		}
	}
	return out
}
