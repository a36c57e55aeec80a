// Package host is the real host: it puts kernel, firewall, helper processes, files
// and sysctls together behind four verbs, Observe, Do, Owners and Watch.
//
// It decides nothing, keeps no wish, and never touches what does not carry the
// mark of the owner that it was asked for.
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
	"edgespan/platform/dnsmasq"
	"edgespan/platform/firewall"
	"edgespan/platform/kernel"
	"edgespan/platform/nft"
	"edgespan/platform/proc"

	"go.uber.org/zap"
)

// filterPause is how long watching the packet filter rests after it has failed.
const filterPause = 10 * time.Second

// Config is what a Host needs to know.
type Config struct {
	RunDir string // absolute; made if it is not there
	Log    *zap.Logger
	// NetnsPath is the network namespace to work in, "" for the one that the
	// process was started in.
	NetnsPath string
	// ResolverRoot is the folder below which the files of other programs are that know of
	// DNS servers; "" for the machine's own, where its links are ours.
	ResolverRoot string
}

// Host is one network namespace of a machine and one run directory. Its methods
// may be called from many goroutines, but for one owner one Do at a time.
type Host struct {
	dir    string
	netns  string
	log    *zap.Logger
	run    *proc.Runner
	kernel *kernel.Kernel
	nft    *nft.Conn
	fw     *firewall.Firewall
	help   *dnsmasq.Helpers
	sys    sysctls
	linked linked
	swept  sync.Once // by the first Owners, before anything is made
	// withoutARP is of the line in the log that says so.
	withoutARP sync.Once

	resolvers string     // ResolverRoot, "" where nothing is read
	learning  sync.Mutex // held while somebody reads there
	reread    chan struct{}
}

// New opens the host. Links that an earlier process doomed are deleted.
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
	h.fw = firewall.New(h.run, h.nft, h.folder)
	h.help = dnsmasq.New(h.run, cfg.NetnsPath, cfg.RunDir)
	h.sys = sysctls{netns: cfg.NetnsPath, path: filepath.Join(cfg.RunDir, "host", "sysctl.json")}
	return h, nil
}

// Close closes what New opened; the host stays as it is.
func (h *Host) Close() error {
	h.help.Close()
	h.kernel.Close()
	h.nft.Close()
	return nil
}

// folder is the run folder of a network instance, or of the host ground for 0.
func (h *Host) folder(number int) string {
	if number == 0 {
		return filepath.Join(h.dir, "host")
	}
	return filepath.Join(h.dir, "ni", strconv.Itoa(number))
}

// Observe lists what is on the host of one owner. Unless full, chains are told as
// they were left or seen last and helpers are not asked whether they answer.
func (h *Host) Observe(ctx context.Context, o netstate.Owner, full bool) (netstate.State, error) {
	s, err := apart(func() (netstate.State, error) { return h.observe(ctx, o, full) })
	if err != nil {
		return nil, fmt.Errorf("observe %s: %w", o.Name, err)
	}
	return s, nil
}

func (h *Host) observe(ctx context.Context, o netstate.Owner, full bool) (netstate.State, error) {
	s, err := h.fw.Observe(ctx, o.Number, full)
	if err != nil {
		return nil, err
	}
	if o.Number == 0 {
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
	if err := h.observeForwarding(o.Number, s); err != nil {
		return nil, err
	}
	files, err := h.observeFiles(o.Number)
	if err != nil {
		return nil, err
	}
	maps.Copy(s, files)
	_, err = os.Stat(h.ownerFile(o.Number))
	networks := dnsmasq.Environment{Addresses: addresses(links), Lost: len(s) > 0 && errors.Is(err, os.ErrNotExist)}
	if networks.Bridge, err = h.kernel.LinkIndex(bridgeName(o.Number)); err != nil {
		return nil, err
	}
	helpers, err := h.help.Observe(ctx, o.Number, networks, full)
	maps.Copy(s, helpers)
	return s, err
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

// Test asks each helper of want what it promises, and names what does not hold.
func (h *Host) Test(ctx context.Context, _ netstate.Owner, want netstate.State) []netstate.Failure {
	var fs []netstate.Failure
	for _, id := range want.IDs() {
		if p, ok := want[id].(netstate.Process); ok {
			fs = append(fs, h.help.Test(ctx, p)...)
		}
	}
	return fs
}

// Dropped counts what chains of an owner have dropped since they were written.
func (h *Host) Dropped(ctx context.Context, _ netstate.Owner, chains []netstate.ID) (map[netstate.ID]uint64, error) {
	return h.fw.Dropped(ctx, chains)
}

// BridgeMTU is the MTU of an owner's bridge, 0 where there is none.
func (h *Host) BridgeMTU(_ context.Context, o netstate.Owner) (int, error) {
	return h.kernel.LinkMTU(bridgeName(o.Number))
}

// Owners lists every network instance number of which anything is on this host,
// by number. Name is the uuid that the bridge's alias gives, else the one in the
// run folder, else "".
func (h *Host) Owners(ctx context.Context) ([]netstate.Owner, error) {
	names, err := h.kernel.Numbers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list owners: %w", err)
	}
	numbers, unmarked, err := h.fw.Numbers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list owners: %w", err)
	}
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
			b, _ := os.ReadFile(h.ownerFile(n)) // "" where there is none
			name = strings.TrimSpace(string(b))
		}
		owners = append(owners, netstate.Owner{Name: name, Number: n, Unmarked: unmarked[n]})
	}
	return owners, nil
}

// Flushable says whether others can flush our tables of nftables: the kernel keeps none for us alone.
func (h *Host) Flushable() bool { return !h.nft.Keeps() }

// Backend says which iptables the host has and what it can do, or why none can be used.
func (h *Host) Backend(ctx context.Context) (firewall.Backend, error) { return h.fw.Backend(ctx) }

// Watch tells of changes to the host until ctx ends. See netstate.HostEvent.
// One event is told at a time.
func (h *Host) Watch(ctx context.Context, emit func(netstate.HostEvent)) error {
	var one sync.Mutex
	tell := func(ev netstate.HostEvent) {
		one.Lock()
		defer one.Unlock()
		if ev.Forwarding != nil {
			opened, err := h.sys.opened()
			if err != nil {
				h.log.Error("links with forwarding enabled by edgespan", zap.Error(err))
			}
			ev.Forwarding.Opened = opened
		}
		emit(ev)
	}
	ctx, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() {
		h.help.Watch(ctx, func(ns []int) { tell(netstate.HostEvent{Ended: ns}) })
	})
	helpers.Go(func() { h.watchFilter(ctx, tell) })
	defer helpers.Wait()
	defer cancel()
	dns := h.learn(ctx, tell)
	if err := h.kernel.Watch(ctx, func(ev netstate.HostEvent) { dns.forward(ctx, ev, tell) }); err != nil {
		return fmt.Errorf("watch host: %w", err)
	}
	return nil
}

// watchFilter tells what others change in the packet filter. Where the kernel can't be listened
// to, full looks find it.
func (h *Host) watchFilter(ctx context.Context, tell func(netstate.HostEvent)) {
	for ctx.Err() == nil {
		err := h.fw.Watch(ctx, func(c firewall.Changed) {
			ev := netstate.HostEvent{Filter: c.All}
			for _, n := range c.Owners {
				if n == 0 {
					ev.Host = true
				} else {
					ev.Touched = append(ev.Touched, n)
				}
			}
			tell(ev)
		})
		if err != nil {
			h.log.Error("watch the packet filter", zap.Error(err))
			select {
			case <-ctx.Done():
			case <-time.After(filterPause):
			}
		}
	}
}

// Snoop begins to tell the addresses that the app behind a link uses, until ctx ends.
func (h *Host) Snoop(ctx context.Context, link string, emit func(netstate.ObservedAddress)) {
	h.kernel.Snoop(ctx, link, emit)
}

// ForgetFlows begins to delete tracked connections that match, so that chains which deny
// them take effect at their next packet. The answer waits for the end and counts them.
// match is called by another goroutine.
func (h *Host) ForgetFlows(ctx context.Context, match func(netstate.Flow) bool) (answer func() (int, error)) {
	return h.kernel.ForgetFlows(ctx, match)
}
