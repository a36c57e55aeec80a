package support

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/platform/proc"
)

// Host is where the parts of a node's host are read.
type Host struct {
	Daemon   proc.Ident // the zero value if it does not run
	RunDir   string
	StateDir string
	Log      string        // the daemon's log file, "" for the journal
	Unit     string        // the daemon's systemd unit
	Since    time.Duration // how far the journal is read back
}

// logLimit bounds the log, in bytes.
const logLimit = 4 << 20

// runner runs commands in the daemon's network namespace, or in this one if it is not known.
func (h Host) runner() *proc.Runner {
	if path := h.netns(); path != "" {
		return proc.New(path)
	}
	return proc.New("")
}

// netns returns the path of the daemon's network namespace, "" for that of this process. Of a dead daemon, a helper
// that has outlived it is in that namespace.
func (h Host) netns() string {
	pid := h.Daemon.Pid
	if pid == 0 {
		pid = h.helper()
	}
	path := fmt.Sprintf("/proc/%d/ns/net", pid)
	own, err := os.Readlink("/proc/self/ns/net")
	if there, other := os.Readlink(path); err != nil || other != nil || there == own {
		return ""
	}
	return path
}

// helper returns a dnsmasq or radvd with files in the run folder, 0 for none.
func (h Host) helper() int {
	all, _ := proc.List() // without a list there is none
	for _, p := range all {
		name := filepath.Base(p.Argv[0])
		if (name == "dnsmasq" || name == "radvd") && h.names(p.Argv) {
			return p.Pid
		}
	}
	return 0
}

// names reports whether a command line names a file in the run folder.
func (h Host) names(argv []string) bool {
	return slices.ContainsFunc(argv, func(s string) bool { return strings.Contains(s, h.RunDir+"/") })
}

// Parts returns the parts of the host, in the order of an archive.
func (h Host) Parts() []Part {
	parts := []Part{
		{Name: "host/processes.txt", About: "the daemon and its helpers: state, memory, files, command line",
			Collect: h.processes},
		{Name: "host/daemon-threads.txt", About: "threads of the daemon, and where they wait in the kernel",
			Collect: h.threads},
	}
	run := h.runner()
	for _, c := range commands {
		parts = append(parts, Part{Name: "host/" + c.name, About: strings.Join(c.argv, " "),
			Collect: func(ctx context.Context, w io.Writer) error { return run.RunTo(ctx, w, c.argv...) }})
	}
	return append(parts,
		Part{Name: "host/sysctl.txt", About: "kernel parameters of networks",
			Collect: func(_ context.Context, w io.Writer) error { return run.In(func() error { return sysctls(w) }) }},
		Part{Name: "host/machine.txt", About: "kernel, operating system, load and memory",
			Collect: func(_ context.Context, w io.Writer) error { return machine(w) }},
		Part{Name: "host/disk.txt", About: "free space, and names and sizes of the files in the daemon's folders",
			Collect: func(_ context.Context, w io.Writer) error { return h.disk(w) }})
}

// commands list the host.
var commands = []struct {
	name string
	argv []string
}{
	{"ip-address.txt", []string{"ip", "-details", "address"}},
	{"ip-link.txt", []string{"ip", "-statistics", "link"}},
	{"ip-route.txt", []string{"ip", "route", "show", "table", "all"}},
	{"ip-route6.txt", []string{"ip", "-6", "route", "show", "table", "all"}},
	{"ip-rule.txt", []string{"ip", "rule"}},
	{"ip-rule6.txt", []string{"ip", "-6", "rule"}},
	{"ip-neigh.txt", []string{"ip", "neigh"}},
	{"bridge-vlan.txt", []string{"bridge", "vlan"}},
	{"iptables.txt", []string{"iptables-save", "-c"}},
	{"ip6tables.txt", []string{"ip6tables-save", "-c"}},
	{"nft.txt", []string{"nft", "-s", "list", "ruleset"}},
	{"ipset.txt", []string{"ipset", "list", "-terse"}},
	{"sockets.txt", []string{"ss", "-Hltunp"}},
}

// LogPart is the part with the log, from the end of its file or from the journal.
func (h Host) LogPart() Part {
	p := Part{Name: "log.txt", About: "the daemon's log, from the journal", Limit: logLimit, Tail: true}
	if h.Log != "" {
		p.About = "the daemon's log, from its file; --since does not apply"
		p.Collect = func(_ context.Context, w io.Writer) error { return tailFile(w, h.Log, logLimit) }
		return p
	}
	p.Collect = func(ctx context.Context, w io.Writer) error {
		out := &counted{Writer: w}
		err := proc.New("").RunTo(ctx, out, "journalctl", "--no-pager", "--quiet", "--output=short-iso", "--unit="+h.Unit,
			"--since=-"+strconv.FormatInt(int64(h.Since/time.Second), 10)+"s")
		if err == nil && out.n == 0 {
			err = fmt.Errorf("the journal has no line of %s within %v", h.Unit, h.Since)
		}
		return err
	}
	return p
}

// counted counts what is written.
type counted struct {
	io.Writer
	n int
}

func (c *counted) Write(p []byte) (int, error) {
	c.n += len(p)
	return c.Writer.Write(p)
}

// tailFile writes the end of a regular file.
func tailFile(w io.Writer, path string, limit int64) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: not a regular file", path)
	case info.Size() > limit: // one byte more, so that the cut is noticed
		_, err = f.Seek(info.Size()-limit-1, io.SeekStart)
	}
	if err == nil {
		_, err = io.Copy(w, io.LimitReader(f, limit+1))
	}
	return err
}

// sysctlPatterns select the kernel parameters of an archive.
var sysctlPatterns = []string{
	"net/ipv4/ip_forward", "net/ipv4/conf/*/forwarding", "net/ipv4/conf/*/rp_filter", "net/ipv4/conf/*/arp_*",
	"net/ipv4/conf/*/route_localnet", "net/ipv4/conf/*/proxy_arp", "net/ipv6/conf/*/forwarding",
	"net/ipv6/conf/*/disable_ipv6", "net/ipv6/conf/*/accept_ra", "net/ipv6/conf/*/addr_gen_mode", "net/bridge/*",
	"net/netfilter/nf_conntrack_count", "net/netfilter/nf_conntrack_max", "net/netfilter/nf_conntrack_buckets",
	"net/netfilter/nf_conntrack_acct", "kernel/osrelease", "fs/file-nr",
}

func sysctls(w io.Writer) error {
	for _, pattern := range sysctlPatterns {
		names, err := filepath.Glob("/proc/sys/" + pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				text = []byte("? " + err.Error())
			}
			if _, err := fmt.Fprintf(w, "%s = %s\n", strings.ReplaceAll(strings.TrimPrefix(name, "/proc/sys/"), "/", "."),
				strings.TrimSpace(string(text))); err != nil {
				return err
			}
		}
	}
	return nil
}

// machine writes what is known of kernel, system and load. A file that a kernel does not have is left out.
func machine(w io.Writer) error {
	for _, name := range []string{"/proc/version", "/etc/os-release", "/proc/uptime", "/proc/loadavg", "/proc/meminfo",
		"/proc/pressure/cpu", "/proc/pressure/memory", "/proc/pressure/io"} {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			text = []byte("? " + err.Error() + "\n")
		}
		if _, err := fmt.Fprintf(w, "# %s\n%s\n", name, text); err != nil {
			return err
		}
	}
	return nil
}

// maxListed bounds the files that disk lists.
const maxListed = 5000

// disk writes the free space of the folders, and the names and sizes of their files, never a content.
func (h Host) disk(w io.Writer) error {
	for _, dir := range []string{"/", h.StateDir, h.RunDir} {
		var s unix.Statfs_t
		if err := unix.Statfs(dir, &s); err != nil {
			fmt.Fprintf(w, "%s: %v\n", dir, err) //nolint:errcheck // the next write fails too
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: %d of %d bytes free, %d of %d files free\n", dir,
			s.Bavail*uint64(s.Bsize), s.Blocks*uint64(s.Bsize), s.Ffree, s.Files); err != nil {
			return err
		}
	}
	listed := 0
	for _, dir := range []string{h.StateDir, h.RunDir} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if listed++; listed > maxListed {
				return fs.SkipAll
			}
			if err != nil {
				_, err = fmt.Fprintf(w, "%s: %v\n", path, err)
				return err
			}
			info, err := d.Info()
			if err != nil {
				return nil // it went away
			}
			_, err = fmt.Fprintf(w, "%s %10d %s %s\n", info.Mode(), info.Size(),
				info.ModTime().UTC().Format(time.RFC3339), path)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
