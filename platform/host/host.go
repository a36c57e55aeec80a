// Package host gives access to the real host: it combines kernel, firewall, helper processes, files and sysctls behind
// four verbs, Observe, Do, Owners and Watch.
//
// It decides nothing, keeps no desired state, and never touches an object without the mark of the given owner.
//
// Read host.go first (Observe, Owners, Watch), then do.go.
package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
	"edgespan/platform/dnsmasq"
	"edgespan/platform/firewall"
	"edgespan/platform/ipset"
	"edgespan/platform/kernel"
	"edgespan/platform/nft"
	"edgespan/platform/pki"
	shots "edgespan/platform/probe"
	"edgespan/platform/proc"
	"edgespan/platform/vpn"
	"edgespan/platform/watch"

	"go.uber.org/zap"
)

// Config configures a Host.
type Config struct {
	RunDir string // absolute; created if missing
	// StateDir is the folder that keeps the keys which tunnels make; "" for one below RunDir.
	StateDir string
	// Identity returns the node's own certificate for tunnels that show it (auth node); nil: there is none.
	Identity func() (pki.Identity, error)
	Log      *zap.Logger
	// NetnsPath is the network namespace to work in, "" for the process's own.
	NetnsPath string
	// ResolverRoot is the root folder of other programs' files about DNS servers; "" for the machine's own if its links
	// are in this namespace.
	ResolverRoot string
}

// Host is one network namespace of a machine and one run directory. It is safe for concurrent use, but each owner must
// have at most one Do at a time.
type Host struct {
	dir    string
	netns  string
	log    *zap.Logger
	run    *proc.Runner
	kernel *kernel.Kernel
	nft    *nft.Conn
	fw     *firewall.Firewall
	sets   *ipset.Sets
	help   *dnsmasq.Helpers
	vpn    *vpn.Tunnels
	who    func() (pki.Identity, error)
	sys    sysctls
	linked linked
	files  seenFiles
	swept  sync.Once // by the first Owners, before anything is created
	// withoutARP logs that the kernel lacks arp tables, once.
	withoutARP sync.Once

	resolvers string     // ResolverRoot, "" if nothing is read
	learning  sync.Mutex // held by the reader
	reread    chan struct{}
}

// New opens the host and deletes links that an earlier process doomed.
func New(cfg Config) (*Host, error) {
	if !filepath.IsAbs(cfg.RunDir) {
		return nil, fmt.Errorf("run directory %q: must be an absolute path", cfg.RunDir)
	}
	if err := makeFolder(cfg.RunDir); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	k, err := kernel.Open(cfg.NetnsPath)
	if err != nil {
		return nil, err
	}
	h := &Host{dir: cfg.RunDir, netns: cfg.NetnsPath, log: cfg.Log, kernel: k, run: proc.New(cfg.NetnsPath),
		linked: linked{by: map[int]bool{}}, resolvers: resolverRoot(cfg), reread: make(chan struct{}, 1)}
	if h.nft, err = nft.Open(cfg.NetnsPath); err != nil {
		k.Close()
		return nil, err
	}
	if h.sets, err = ipset.Open(cfg.NetnsPath); err != nil {
		k.Close()
		h.nft.Close()
		return nil, err
	}
	h.fw = firewall.New(h.run, h.nft, h.folder)
	h.help = dnsmasq.New(h.run, cfg.NetnsPath, cfg.RunDir)
	h.vpn, h.who = newTunnels(cfg, h.run), cfg.Identity
	h.sys = sysctls{netns: cfg.NetnsPath, path: filepath.Join(cfg.RunDir, "host", "sysctl.json")}
	return h, nil
}

// Close closes what New opened and leaves the host unchanged.
func (h *Host) Close() error {
	h.help.Close()
	h.vpn.Close()
	h.kernel.Close()
	h.nft.Close()
	h.sets.Close()
	return nil
}

// folder returns the run folder of a network instance, or of host for 0.
func (h *Host) folder(number int) string {
	if number == 0 {
		return filepath.Join(h.dir, "host")
	}
	return filepath.Join(h.dir, "ni", strconv.Itoa(number))
}

// Observe lists the objects of one owner. Unless full, it reports chains as last written or observed, and does not
// probe helpers.
func (h *Host) Observe(ctx context.Context, o netstate.Owner, full bool) (netstate.State, error) {
	s, err := onOwnStack(func() (netstate.State, error) { return h.observe(ctx, o, full) })
	if err != nil {
		return nil, fmt.Errorf("observe %s: %w", o.Name, err)
	}
	return s, nil
}

func (h *Host) observe(ctx context.Context, o netstate.Owner, full bool) (netstate.State, error) {
	if o.Number == netstate.PortsNumber {
		return h.kernel.ObservePorts(ctx)
	}
	s, err := h.fw.Observe(ctx, o.Number, full)
	if err != nil {
		return nil, err
	}
	if o.Number == 0 {
		rules, err := h.kernel.ObserveRules(ctx, 0)
		if err != nil {
			return nil, err
		}
		maps.Copy(s, rules)
		return s, h.observeSysctls(s)
	}
	links, err := h.kernel.Observe(ctx, o.Number)
	if err != nil {
		return nil, err
	}
	if !bridgeFilterLoaded() {
		unfiltered(links)
	}
	h.linked.saw(o.Number, links)
	maps.Copy(s, links)
	sets, err := h.sets.Observe(ctx, o.Number)
	if err != nil {
		return nil, err
	}
	maps.Copy(s, sets)
	if err := h.observeTunnel(ctx, o.Number, s); err != nil {
		return nil, err
	}
	if err := h.observeSettings(o.Number, s); err != nil {
		return nil, err
	}
	files, err := h.observeFiles(o.Number)
	if err != nil {
		return nil, err
	}
	maps.Copy(s, files)
	_, err = os.Stat(h.ownerFile(o.Number))
	on := dnsmasq.Environment{Addresses: addresses(links), Lost: len(s) > 0 && errors.Is(err, os.ErrNotExist)}
	helpers, err := h.observeHelpers(ctx, o.Number, on, full)
	maps.Copy(s, helpers)
	return s, err
}

func (h *Host) observeHelpers(ctx context.Context, number int, on dnsmasq.Environment,
	probe bool) (netstate.State, error) {
	var err error
	if on.Bridge, err = h.kernel.LinkIndex(bridgeName(number)); err != nil {
		return nil, err
	}
	return h.help.Observe(ctx, number, on, probe)
}

// ObserveProcesses lists the processes of one owner, and does not probe them.
func (h *Host) ObserveProcesses(ctx context.Context, o netstate.Owner) (netstate.State, error) {
	s, err := h.observeHelpers(ctx, o.Number, dnsmasq.Environment{}, false)
	if err != nil {
		return nil, fmt.Errorf("observe processes of %s: %w", o.Name, err)
	}
	return s, nil
}

func addresses(s netstate.State) map[string]bool {
	found := map[string]bool{}
	for _, obj := range s {
		if a, ok := obj.(netstate.Address); ok {
			ip, _, _ := strings.Cut(a.Prefix, "/")
			found[ip] = true
		}
	}
	return found
}

// Test checks what each helper of want must do, and returns the failures.
func (h *Host) Test(ctx context.Context, _ netstate.Owner, want netstate.State) []netstate.OpFailure {
	var fs []netstate.OpFailure
	for _, id := range want.IDs() {
		if p, ok := want[id].(netstate.Process); ok {
			fs = append(fs, h.help.Test(ctx, p)...)
		}
	}
	return fs
}

// BridgeMTU returns the MTU of an owner's bridge, 0 without one.
func (h *Host) BridgeMTU(_ context.Context, o netstate.Owner) (int, error) {
	return h.kernel.LinkMTU(bridgeName(o.Number))
}

// Owners lists every network instance number that has an object on this host, by number. Name is the UUID from the
// bridge's alias, otherwise the one in the run folder, otherwise "".
func (h *Host) Owners(ctx context.Context) ([]netstate.Owner, error) {
	names, err := h.kernel.Numbers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list owners: %w", err)
	}
	numbers, former, err := h.fw.Numbers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list owners: %w", err)
	}
	withSets, err := h.sets.Numbers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list owners: %w", err)
	}
	numbers = append(numbers, withSets...)
	folders, err := h.folders()
	if err != nil {
		return nil, fmt.Errorf("list owners: %w", err)
	}
	h.swept.Do(func() {
		if err := h.fw.Claim(); err != nil {
			h.log.Warn("other programs can flush nftables tables", zap.Error(err))
		}
		folders = slices.DeleteFunc(folders, func(n int) bool {
			_, linked := names[n]
			return !linked && !slices.Contains(numbers, n) && h.sweep(n)
		})
	})
	for _, n := range append(numbers, folders...) {
		if n > 0 {
			names[n] += ""
		}
	}
	var owners []netstate.Owner
	for _, n := range slices.Sorted(maps.Keys(names)) {
		name := names[n]
		if name == "" {
			b, _ := os.ReadFile(h.ownerFile(n)) // "" if there is none
			name = strings.TrimSpace(string(b))
		}
		owners = append(owners, netstate.Owner{Name: name, Number: n, Unmarked: former.Unmarked[n],
			OldFrames: former.OldFrames[n]})
	}
	return owners, nil
}

// Unlimited lists the kernel's controllers without which limits of helpers do not hold, or why there are none at all.
func (h *Host) Unlimited() ([]string, error) { return h.help.Unlimited() }

// AtLimit lists networks whose helpers have reached a limit.
func (h *Host) AtLimit() []string { return h.help.AtLimit() }

// Flushable reports whether others can flush edgespan's nftables tables, because the kernel doesn't support exclusive
// ownership.
func (h *Host) Flushable() bool { return !h.nft.OwnsTables() }

// Backend returns the host's iptables and its features, or why none can be used.
func (h *Host) Backend(ctx context.Context) (firewall.Backend, error) { return h.fw.Backend(ctx) }

// Snoop starts emitting the addresses that the app behind a link uses, until ctx ends.
func (h *Host) Snoop(ctx context.Context, link string, emit func(netstate.ObservedAddress)) {
	h.kernel.Snoop(ctx, link, emit)
}

// WatchMessages starts emitting the DNS and DHCP messages on a link, as many as allow says, until ctx ends.
func (h *Host) WatchMessages(ctx context.Context, link string, allow func(reader string) int,
	emit func(netstate.Messages)) {
	watch.Start(ctx, h.netns, link, allow, emit)
}

// HeldLeases returns the leases that a network's DHCP server has recorded in a file of the run directory.
func (h *Host) HeldLeases(file string) ([]netstate.HeldLease, error) {
	return dnsmasq.HeldLeases(filepath.Join(h.dir, file))
}

// Probe sends one shot of a probe by its interface alone, and returns the time until the target's answer and the bytes
// sent and received. The error wraps platform/probe.ErrNoARP if the interface has no ARP.
func (h *Host) Probe(ctx context.Context, id probe.ID) (time.Duration, int, error) {
	return shots.Shoot(ctx, h.netns, id)
}

// EndedFlows reports tracked connections of the host's namespace as they end, until ctx ends. It uses the slices again.
func (h *Host) EndedFlows(ctx context.Context, emit func(netstate.FlowEvents)) error {
	return h.kernel.EndedFlows(ctx, emit)
}

// DeniedPackets reports packets that chains log to a group of nfnetlink_log, until ctx ends. It uses the slices again.
func (h *Host) DeniedPackets(ctx context.Context, group uint16, emit func(netstate.FlowEvents)) error {
	return h.kernel.DeniedPackets(ctx, group, emit)
}

// TrackedFlows reports all tracked connections of the host's namespace, with what was counted of them so far.
func (h *Host) TrackedFlows(ctx context.Context, each func(netstate.EndedFlow)) error {
	return h.kernel.TrackedFlows(ctx, each)
}

// EndConnections ends TCP sockets in the network namespace of an app.
func (h *Host) EndConnections(ctx context.Context, netns string, flows []netstate.Flow) (int, error) {
	return h.kernel.EndConnections(ctx, netns, flows)
}

// ForgetFlows starts deleting the matching tracked connections, so that chains that deny them take effect at their next
// packet. The returned function waits for the end and returns the number deleted. match is called from another
// goroutine.
func (h *Host) ForgetFlows(ctx context.Context, match func(netstate.Flow) bool) (answer func() (int, error)) {
	return h.kernel.ForgetFlows(ctx, match)
}
