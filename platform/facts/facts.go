// Package facts reads the facts about a machine that can prevent a node from working: /proc, settings of other
// programs, installed programs.
//
// It never interprets what it reads and never changes anything. It reports what it can't read.
package facts

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// helpers are the programs that the platform runs.
var helpers = []string{"dnsmasq", "iptables", "iptables-save", "iptables-restore", "nft"}

// features are the kernel modules that networks need; the last three only for rules of sets and hosts.
var features = []string{"bridge", "veth", "br_netfilter", "nf_tables", "nf_conntrack", "ip_set", "ip_set_hash_net",
	"xt_set"}

// Reader reads files below Root, which is "/" on a machine and a folder in tests.
type Reader struct {
	Root   string
	RunDir string // the node's: dnsmasq processes with files there are its own
	// Iptables returns the capabilities of iptables, within a time limit of its own. It may be nil.
	Iptables func(context.Context) netstate.Iptables
	// Flushable reports whether other programs can flush edgespan's nftables tables. It may be nil.
	Flushable func() bool
	// Unlimited lists the controllers of cgroups that limits lack, or why there are no cgroups. It may be nil.
	Unlimited func() ([]string, error)
	// AtLimit lists networks whose helpers have reached a limit. It may be nil.
	AtLimit func() []string
}

// Read reads everything. It fails only if ctx ends; Unknown lists what could not be read.
func (r Reader) Read(ctx context.Context) (netstate.Facts, error) {
	f := netstate.Facts{Commands: map[string]bool{}, Features: map[string]bool{}, Foreign: map[string]bool{},
		RPFilter: map[string]int{}}
	for _, name := range helpers {
		f.Commands[name] = proc.HasCommand(name)
	}
	if r.Iptables != nil {
		f.Iptables = r.Iptables(ctx)
	}
	f.Flushable = r.Flushable != nil && r.Flushable()
	if r.AtLimit != nil {
		f.AtLimit = r.AtLimit()
	}
	if r.Unlimited != nil {
		missing, err := r.Unlimited()
		if err != nil {
			missing = []string{err.Error()}
		}
		f.Unlimited = missing
	}
	for _, step := range []struct {
		what string
		read func(*netstate.Facts) error
	}{
		{"kernel modules", r.features},
		{"listening sockets", r.listeners},
		{"processes", r.processes},
		{"settings of systemd-networkd", r.networkd},
		{"rp_filter", r.rpFilter},
		{"flows that are tracked", r.flows},
	} {
		if err := ctx.Err(); err != nil {
			return f, err
		}
		if err := step.read(&f); err != nil {
			f.Unknown = append(f.Unknown, step.what+": "+err.Error())
		}
	}
	return f, nil
}

func (r Reader) at(parts ...string) string {
	return filepath.Join(append([]string{r.Root}, parts...)...)
}

// features reads which features exist. A module exists if it is loaded, built in, or known to modprobe. On a machine
// without a list of modules (a container), only loaded modules are known.
func (r Reader) features(f *netstate.Facts) error {
	release, err := os.ReadFile(r.at("proc/sys/kernel/osrelease"))
	if err != nil {
		return err
	}
	folder := r.at("lib/modules", strings.TrimSpace(string(release)))
	known := ""
	for _, list := range []string{"modules.builtin", "modules.dep"} {
		text, err := os.ReadFile(filepath.Join(folder, list))
		if err == nil {
			known += string(text)
		}
	}
	for _, name := range features {
		_, err := os.Stat(r.at("sys/module", name))
		switch {
		case err == nil:
			f.Features[name] = true
		case known != "":
			f.Features[name] = strings.Contains(known, "/"+name+".ko")
		}
	}
	return nil
}

// listeners reads the socket tables of the process's namespace (proc_net(5)).
func (r Reader) listeners(f *netstate.Facts) error {
	owners := map[string]int{} // inode -> index in Listeners
	for _, table := range []string{"udp", "udp6", "tcp", "tcp6"} {
		lines, err := readLines(r.at("proc/net", table))
		if err != nil {
			if strings.HasSuffix(table, "6") && os.IsNotExist(err) {
				continue // a kernel without IPv6
			}
			return err
		}
		for _, fields := range lines[min(1, len(lines)):] {
			// A socket of UDP with a remote port receives from there only.
			if len(fields) < 10 || strings.HasPrefix(table, "tcp") && fields[3] != "0A" ||
				strings.HasPrefix(table, "udp") && !strings.HasSuffix(fields[2], ":0000") {
				continue
			}
			addr, port, err := socketAddress(fields[1])
			if err != nil {
				return fmt.Errorf("%s: %w", table, err)
			}
			owners[fields[9]] = len(f.Listeners)
			f.Listeners = append(f.Listeners, netstate.Listener{Proto: table[:3], Addr: addr, Port: port})
		}
	}
	if len(owners) == 0 {
		return nil
	}
	for _, pid := range r.pids() {
		fds, _ := os.ReadDir(r.at("proc", pid, "fd")) // only root may read those of other users
		for _, fd := range fds {
			link, _ := os.Readlink(r.at("proc", pid, "fd", fd.Name()))
			inode := strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")
			i, ok := owners[inode]
			if !ok || f.Listeners[i].Who != "" { // a child of its owner has it, too, until it runs its own program
				continue
			}
			if name := r.commandName(pid); name != "" {
				f.Listeners[i].Who = fmt.Sprintf("%s (%s)", name, pid)
				f.Listeners[i].Own = r.ours(pid, r.argv(pid))
			}
		}
	}
	return nil
}

// ours reports whether a process is a dnsmasq of this node.
func (r Reader) ours(pid string, argv []string) bool {
	return r.commandName(pid) == "dnsmasq" && strings.Contains(strings.Join(argv, " "), r.RunDir+"/ni/")
}

// socketAddress parses "0100007F:0035": words of 32 bits in host order.
func socketAddress(s string) (netip.Addr, uint16, error) {
	a, p, _ := strings.Cut(s, ":")
	raw, err := hex.DecodeString(a)
	port, err2 := strconv.ParseUint(p, 16, 16)
	if err != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.Addr{}, 0, fmt.Errorf("address %q", s)
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	if !ok {
		return netip.Addr{}, 0, fmt.Errorf("address %q", s)
	}
	return addr.Unmap(), uint16(port), nil
}

// processes finds the daemons and systemd-networkd.
func (r Reader) processes(f *netstate.Facts) error {
	f.HelperUser = r.helperUID() != ""
	own, err := os.Readlink(r.at("proc/self/ns/net"))
	if err != nil {
		return err
	}
	for _, pid := range r.pids() {
		ns, err := os.Readlink(r.at("proc", pid, "ns/net"))
		here := err == nil && ns == own
		argv := r.argv(pid)
		switch {
		case r.commandName(pid) == "systemd-network" && here: // the kernel truncates names to 15 bytes
			f.Networkd = true
		case r.ours(pid, argv):
			// proc(5): the link to a deleted program ends like this.
			if exe, _ := os.Readlink(r.at("proc", pid, "exe")); strings.HasSuffix(exe, " (deleted)") {
				n, _ := strconv.Atoi(pid)
				f.Outdated = append(f.Outdated, n)
			}
		case r.commandName(pid) == "edgespan" && slices.Contains(argv, "node") && len(argv) > 1 && argv[1] == "node":
			n, _ := strconv.Atoi(pid)
			f.Daemons = append(f.Daemons, netstate.Daemon{PID: n, RunDir: option(argv, "--run-dir"), Here: here})
		case r.commandName(pid) == "dnsmasq" && here && strings.Contains(strings.Join(argv, " "), r.RunDir+"/ni/"):
			f.Helpers = append(f.Helpers, r.helper(pid))
		}
	}
	return nil
}

// helper reads the privileges of a helper (proc_pid_status(5)).
func (r Reader) helper(pid string) netstate.Helper {
	h := netstate.Helper{}
	h.PID, _ = strconv.Atoi(pid)
	lines, _ := readLines(r.at("proc", pid, "status"))
	for _, fields := range lines {
		switch {
		case len(fields) < 2:
		case fields[0] == "Uid:":
			h.OwnUser = fields[1] == r.helperUID()
		case fields[0] == "NoNewPrivs:":
			h.NoNewPrivs = fields[1] == "1"
		}
	}
	return h
}

// helperUID returns the uid of the helpers' own user, or "" if the machine has none.
func (r Reader) helperUID() string {
	text, _ := os.ReadFile(r.at("etc/passwd"))
	for line := range strings.Lines(string(text)) {
		if words := strings.Split(line, ":"); len(words) > 2 && words[0] == netstate.HelperUser {
			return words[2]
		}
	}
	return ""
}

func option(argv []string, name string) string {
	for i, a := range argv {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			return v
		}
		if a == name && i+1 < len(argv) {
			return argv[i+1]
		}
	}
	return ""
}

// networkd reads networkd's settings: first the file, then the drop-ins by name, where later ones win. A drop-in in
// /etc hides one of the same name elsewhere.
func (r Reader) networkd(f *netstate.Facts) error {
	files := []string{r.at("etc/systemd/networkd.conf")}
	drops := map[string]string{}
	for _, dir := range []string{"usr/lib", "run", "etc"} {
		found, err := filepath.Glob(r.at(dir, "systemd/networkd.conf.d/*.conf"))
		if err != nil {
			return err
		}
		for _, p := range found {
			drops[filepath.Base(p)] = p
		}
	}
	names := make([]string, 0, len(drops))
	for n := range drops {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		files = append(files, drops[n])
	}
	for _, p := range files {
		text, err := os.ReadFile(p)
		if err != nil {
			continue // most machines have none
		}
		for line := range strings.Lines(string(text)) {
			k, v, ok := strings.Cut(strings.TrimSpace(line), "=")
			if k = strings.TrimSpace(k); ok && strings.HasPrefix(k, "ManageForeign") {
				v = strings.ToLower(strings.TrimSpace(v))
				f.Foreign[k] = v != "no" && v != "false" && v != "0" && v != "off"
			}
		}
	}
	return nil
}

func (r Reader) rpFilter(f *netstate.Facts) error {
	found, err := filepath.Glob(r.at("proc/sys/net/ipv4/conf/*/rp_filter"))
	if err != nil {
		return err
	}
	for _, p := range found {
		if v, err := number(p); err == nil { // the interface may have been deleted
			f.RPFilter[filepath.Base(filepath.Dir(p))] = v
		}
	}
	return nil
}

// flows reads the limits of connection tracking. It reads nothing if the kernel does not track connections, which the
// features show.
func (r Reader) flows(f *netstate.Facts) error {
	const base = "proc/sys/net/netfilter/nf_conntrack_"
	if _, err := os.Stat(r.at(base + "max")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var errs [3]error
	f.Flows.Max, errs[0] = number(r.at(base + "max"))
	f.Flows.Count, errs[1] = number(r.at(base + "count"))
	f.Flows.Established, errs[2] = number(r.at(base + "tcp_timeout_established"))
	return errors.Join(errs[:]...)
}

// pids returns the processes, mostly parents before their children.
func (r Reader) pids() []string {
	var out []string
	entries, _ := os.ReadDir(r.at("proc"))
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, e.Name())
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return out
}

func (r Reader) commandName(pid string) string {
	b, _ := os.ReadFile(r.at("proc", pid, "comm")) // "" if the process has ended
	return strings.TrimSpace(string(b))
}

func (r Reader) argv(pid string) []string {
	b, _ := os.ReadFile(r.at("proc", pid, "cmdline"))
	return strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
}

func number(path string) (int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// readLines returns the fields of each line of a file.
func readLines(path string) ([][]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	var out [][]string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		out = append(out, strings.Fields(lines.Text()))
	}
	return out, lines.Err()
}
