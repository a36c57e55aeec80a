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

// The bounds of what is read.
const (
	maxFile  = 64 << 10 // octets of one file; of a lease file the last ones
	maxFiles = 64       // of one folder
	maxLinks = 1024
)

// Reader reads below Root, "/" on a machine; tests give it a folder.
type Reader struct {
	Root string
}

// Link is an interface to read of.
type Link struct {
	Name  string
	Index int
}

// folders are where the files are, below the root.
const (
	resolvedLinks = "run/systemd/resolve/netif"
	networkdLinks = "run/systemd/netif/links"
	resolved      = "run/systemd/resolve"
	manager       = "run/NetworkManager"
	managerLeases = "var/lib/NetworkManager"
	dhclient      = "var/lib/dhcp"
	etc           = "etc"
)

// byName are the folders whose files are resolv.confs named by interface: those of
// Debian's resolvconf and of openresolv, and those of dhcpcd without either.
var byName = []struct{ folder, program string }{
	{"run/resolvconf/interface", "resolvconf"},
	{"run/resolvconf/interfaces", "resolvconf"},
	{"run/dhcpcd/hook-state/resolv.conf", "dhcpcd"},
	{"run/dhcpcd/resolv.conf", "dhcpcd"},
}

// shared are the files of the host as a whole, the one that knows best first.
var shared = []struct{ path, program string }{
	{resolved + "/resolv.conf", "systemd-resolved"},
	{manager + "/no-stub-resolv.conf", "NetworkManager"},
	{manager + "/resolv.conf", "NetworkManager"},
	{etc + "/resolv.conf", "resolv.conf"},
}

// folders are all that is worth watching.
func folders() []string {
	all := []string{resolvedLinks, networkdLinks, resolved, manager, managerLeases, dhclient, etc}
	for _, b := range byName {
		all = append(all, b.folder)
	}
	return all
}

// Read gives what is known of each link, by name, the source that knows best first:
// those of the link itself, then those of the whole host. A file that is not there is
// no source.
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

// leases reads what dhclient has for the links.
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

// linkOf is the link that a file "eth0.100.dhclient" is of: the one with the longest name
// that it begins with, "" for none.
func linkOf(file string, links []Link) string {
	best := ""
	for _, l := range links {
		if (file == l.Name || strings.HasPrefix(file, l.Name+".")) && len(l.Name) > len(best) {
			best = l.Name
		}
	}
	return best
}

// open opens what is below the root without waiting, as for a FIFO nobody writes to.
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

// file reads a regular file, of a long one the end; why says why it is not used, and
// there whether there is anything.
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
	defer func() { _ = f.Close() }() // only read from
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

// names are the files of a folder, sorted; of a full one not all.
func (r Reader) names(folder string) []string {
	f, err := r.open(folder, unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // only read from
	names, _ := f.Readdirnames(maxFiles)
	slices.Sort(names)
	return names
}

// Own marks, in what Read gave, the servers that are addresses of the host itself.
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
