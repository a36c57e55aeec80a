package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// sysctls changes kernel settings of one network namespace and records their previous values.
type sysctls struct {
	netns string
	path  string // of the record
	mu    sync.Mutex
}

// was is one changed setting.
type was struct {
	Old string `json:"old"`
	Own string `json:"ours"`
	// Link is the index of the setting's link, 0 for none: others may rename the link.
	Link int `json:"link,omitempty"`
}

func (s *sysctls) load() (map[string]was, error) {
	m := map[string]was{}
	b, err := os.ReadFile(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	} else if err != nil {
		return nil, fmt.Errorf("read sysctl record: %w", err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("parse sysctl record: %w", err)
	}
	names, err := s.linkNames(m)
	if err != nil {
		return nil, err
	}
	return followLinks(m, names), nil
}

// linkNames returns the current names of the links in a record. Package net would list all links of the host for each.
func (s *sysctls) linkNames(m map[string]was) (map[int]string, error) {
	names := map[int]string{}
	err := proc.In(s.netns, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("find links: %w", err)
		}
		defer unix.Close(fd)
		for _, rec := range m {
			ask, err := unix.NewIfreq("")
			if err != nil || rec.Link == 0 {
				continue
			}
			ask.SetUint32(uint32(rec.Link))
			if unix.IoctlIfreq(fd, unix.SIOCGIFNAME, ask) == nil {
				names[rec.Link] = ask.Name()
			}
		}
		return nil
	})
	return names, err
}

// followLinks updates a record to the current names of its links. The name of a deleted link is kept: another link may
// have that name now.
func followLinks(m map[string]was, names map[int]string) map[string]was {
	out := map[string]was{}
	for key, rec := range m {
		if _, now := names[rec.Link]; !now {
			out[key] = rec
		}
	}
	for key, rec := range m {
		if name, now := names[rec.Link]; now {
			key = netstate.ForwardingOf(name)
			out[key] = rec
		}
	}
	return out
}

func (s *sysctls) save(m map[string]was) error {
	if len(m) == 0 {
		if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove sysctl record: %w", err)
		}
		return nil
	}
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write sysctl record: %w", err)
	}
	if err := makeFolder(filepath.Dir(s.path)); err != nil {
		return err
	}
	return writeFile(s.path, string(b))
}

// observe lists the current values of the changed settings.
func (s *sysctls) observe() (netstate.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.load()
	if err != nil {
		return nil, err
	}
	state := netstate.State{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		value, err := readSysctl(s.netns, key)
		if errors.Is(err, os.ErrNotExist) {
			value = "its link was deleted"
		} else if err != nil {
			return nil, err
		}
		state.Add(netstate.Sysctl{Key: key, Value: value})
	}
	return state, nil
}

// put records the old value and then sets the desired one, so that a crash in between loses nothing.
func (s *sysctls) put(want netstate.Sysctl) error {
	if err := checkKey(want.Key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.load()
	if err != nil {
		return err
	}
	now, err := readSysctl(s.netns, want.Key)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %w", want.ID(), netstate.ErrWaiting) // its link has gone
	} else if err != nil {
		return err
	}
	rec, known := m[want.Key]
	if !known || now != want.Value { // the host's newest choice counts
		rec.Old = now
	}
	rec.Own, rec.Link = want.Value, 0
	if link, ok := forwardingLink(want.Key); ok {
		if rec.Link, err = s.linkIndex(link); err != nil {
			return err
		}
	}
	m[want.Key] = rec
	if err := s.save(m); err != nil {
		return err
	}
	return writeSysctl(s.netns, want.Key, want.Value)
}

// restore sets the recorded value again, unless others changed the setting since.
func (s *sysctls) restore(have netstate.Sysctl) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.load()
	if err != nil {
		return err
	}
	rec, known := m[have.Key]
	if !known {
		return nil
	}
	now, err := readSysctl(s.netns, have.Key)
	if errors.Is(err, os.ErrNotExist) {
		now, rec.Own = "", "its link was deleted"
	} else if err != nil {
		return err
	}
	if link, ok := forwardingLink(have.Key); ok && rec.Link != 0 {
		index, err := s.linkIndex(link)
		if err != nil {
			return err
		}
		if index != rec.Link { // the link is gone and another one has its name: its setting is not edgespan's
			rec.Own = "its link was deleted"
		}
	}
	if now == rec.Own && now != rec.Old && !s.followsGlobal(have.Key) {
		if err := writeSysctl(s.netns, have.Key, rec.Old); err != nil {
			return err
		}
	}
	delete(m, have.Key)
	return s.save(m)
}

func checkKey(key string) error {
	if !filepath.IsLocal(key) || !strings.HasPrefix(key, "net/") || filepath.Clean(key) != key {
		return fmt.Errorf("sysctl %q: must be below net/", key)
	}
	return nil
}

func readSysctl(netns, key string) (string, error) {
	var b []byte
	err := proc.In(netns, func() (err error) {
		b, err = os.ReadFile("/proc/sys/" + key)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read sysctl: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func writeSysctl(netns, key, value string) error {
	err := proc.In(netns, func() error {
		write := func() error { return os.WriteFile("/proc/sys/"+key, []byte(value), 0o644) }
		if strings.HasPrefix(key, "net/ipv6/conf/") && strings.HasSuffix(key, "/forwarding") {
			return keepRouters("/proc/sys/net/ipv6/conf", key, write)
		}
		return write()
	})
	if err != nil {
		return fmt.Errorf("set sysctl: %w", err)
	}
	return nil
}

// bridgeSysctls would send every bridge's packets through the packet filter; edgespan's bridges enable it individually.
var bridgeSysctls = []string{
	"net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables", "net/bridge/bridge-nf-call-arptables",
}

// bridgeFilterLoaded reports whether br_netfilter is loaded: then its settings exist in every namespace.
func bridgeFilterLoaded() bool {
	_, err := os.Stat("/proc/sys/" + bridgeSysctls[0])
	return !errors.Is(err, os.ErrNotExist)
}

// unfiltered marks bridges as unfiltered without br_netfilter, whatever their own attributes say: their packets pass no
// iptables chain. Correcting that loads the module.
func unfiltered(links netstate.State) {
	for id, obj := range links {
		if l, ok := obj.(netstate.Link); ok && l.Type == netstate.Bridge {
			attrs := map[string]uint64{}
			maps.Copy(attrs, l.Attrs)
			attrs["nf_call_iptables"] = 0
			l.Attrs = attrs
			links[id] = l
		}
	}
}

// needTaggedFilter returns an error that wraps netstate.ErrWaiting if a port would carry frames with a VLAN tag that
// meet no rules: the setting is the host state's, which is applied by itself.
func (h *Host) needTaggedFilter(p netstate.Port) error {
	if len(p.VLANs) == 0 {
		return nil
	}
	if now, err := readSysctl(h.netns, netstate.TaggedFilter); err != nil || now != "1" {
		return fmt.Errorf("link %s would carry frames that meet no rules: sysctl %s is not 1: %w", p.Link,
			netstate.TaggedFilter, netstate.ErrWaiting)
	}
	return nil
}

// needBridgeFilter loads br_netfilter if necessary and then turns its settings off again, here and in the initial
// namespace, so that edgespan causes no foreign bridge to be filtered.
func (h *Host) needBridgeFilter(ctx context.Context) error {
	if _, err := readSysctl(h.netns, bridgeSysctls[0]); err == nil {
		return nil
	}
	if _, err := h.run.Run(ctx, "", "modprobe", "br_netfilter"); err != nil {
		return fmt.Errorf("load br_netfilter: %w", err)
	}
	for _, ns := range []string{h.netns, "/proc/1/ns/net"} {
		for _, key := range bridgeSysctls {
			if err := writeSysctl(ns, key, "0"); err != nil {
				return err
			}
		}
	}
	return nil
}
