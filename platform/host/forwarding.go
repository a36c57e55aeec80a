package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
	"edgespan/platform/kernel"
	"edgespan/platform/proc"

	"go.uber.org/zap"
)

// observeSettings adds the settings of a network's bridge and of its tunnel's link, unless they are 0; those but the
// forwarding of IPv4 only if the bridge has an address for which they are set: on another one they mean nothing, and a
// bridge may have got them from the host's defaults.
func (h *Host) observeSettings(number int, s netstate.State) error {
	br, tunnel := bridgeName(number), netstate.VPNLink(number)
	links := map[string]string{} // by key
	if s[netstate.ID{Kind: netstate.KindVPN, Name: netstate.VPNName(number)}] != nil {
		links[netstate.ForwardingOf(tunnel)] = tunnel
	}
	for key := range bridgeSettings(br, s) {
		links[key] = br
	}
	for key, link := range links {
		value, err := readSysctl(h.netns, key)
		if errors.Is(err, os.ErrNotExist) { // deleted meanwhile
			continue
		}
		if err != nil {
			return err
		}
		if value != "0" {
			s.Add(netstate.Sysctl{Key: key, Value: value, Link: link})
		}
	}
	return nil
}

// bridgeSettings returns the settings that a network's bridge may have.
func bridgeSettings(br string, s netstate.State) map[string]bool {
	if s[netstate.ID{Kind: netstate.KindLink, Name: br}] == nil {
		return nil
	}
	keys := map[string]bool{netstate.ForwardingOf(br): true}
	for _, o := range s {
		a, ok := o.(netstate.Address)
		switch p, err := netip.ParsePrefix(a.Prefix); {
		case !ok || err != nil || a.Link != br:
		case p.Addr().Is6():
			keys[netstate.Forwarding6Of(br)] = true
		case p.Addr().IsLinkLocalUnicast(): // a network whose subnet others may have
			keys[netstate.RPFilterOf(br)], keys[netstate.ARPAnnounceOf(br)] = true, true
		}
	}
	return keys
}

// setOwn changes a setting of a network's own bridge. It records nothing, since the setting is removed with its link.
// One that is given up while the bridge stays gets the value that the host gives to new links; forwarding is off.
func (h *Host) setOwn(o netstate.Owner, verb netstate.Verb, want netstate.Sysctl) error {
	br := bridgeName(o.Number)
	forwards := want.Key == netstate.ForwardingOf(br) || want.Key == netstate.Forwarding6Of(br) ||
		want.Key == netstate.ForwardingOf(netstate.VPNLink(o.Number))
	if !forwards && want.Key != netstate.RPFilterOf(br) && want.Key != netstate.ARPAnnounceOf(br) {
		return fmt.Errorf("%s is not of owner %d", want.ID(), o.Number)
	}
	if verb != netstate.Remove {
		return writeSysctl(h.netns, want.Key, want.Value)
	}
	value := "0"
	if !forwards {
		var err error
		if value, err = readSysctl(h.netns, strings.Replace(want.Key, "/"+br+"/", "/default/", 1)); err != nil {
			return err
		}
	}
	if err := writeSysctl(h.netns, want.Key, value); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// opened returns the links whose recorded forwarding was off before edgespan turned it on, and whether that of IPv6
// was.
func (s *sysctls) opened() (links []string, all6 bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.load()
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if link, ok := forwardingLink(key); ok && m[key].Old == "0" {
			links = append(links, link)
		}
	}
	return links, m[netstate.ForwardAll6].Old == "0", err
}

// forwardingLink returns the link that a forwarding setting belongs to.
func forwardingLink(key string) (string, bool) {
	rest, conf := strings.CutPrefix(key, "net/ipv4/conf/")
	link, ok := strings.CutSuffix(rest, "/forwarding")
	return link, conf && ok && link != "all" && link != "default"
}

// linkIndex returns the index of a link, 0 if it has just gone.
func (s *sysctls) linkIndex(name string) (index int, err error) {
	err = proc.In(s.netns, func() error {
		if l, err := net.InterfaceByName(name); err == nil {
			index = l.Index
		}
		return nil
	})
	return index, err
}

// followsGlobal reports whether one link's setting now follows the setting for all links: the host forwards as a
// whole, and turning it off for the link would make an exception.
func (s *sysctls) followsGlobal(key string) bool {
	if key == netstate.ForwardAll || key == netstate.ForwardAll6 {
		return false // see closeForwarding
	}
	all, err := readSysctl(s.netns, netstate.ForwardAll)
	return err != nil || all != "0"
}

// ownsForwardAll reports whether edgespan can give up the host's own forwarding that an earlier release turned on: only
// once no edgespan bridge is left. The kernel turns it off for every link first, and a link that is turned on again a
// moment later has lost packets.
func (h *Host) ownsForwardAll() (bool, error) {
	own := true
	err := proc.In(h.netns, func() error {
		entries, err := os.ReadDir("/proc/sys/net/ipv4/conf")
		for _, e := range entries {
			if _, ours := kernel.LinkNumber(e.Name()); ours {
				own = false
			}
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("list links: %w", err)
	}
	return own, nil
}

// observeSysctls adds host's settings that edgespan changed.
func (h *Host) observeSysctls(s netstate.State) error {
	all, err := h.sys.observe()
	if err != nil {
		return err
	}
	if own, err := h.ownsForwardAll(); err != nil || !own {
		delete(all, netstate.Sysctl{Key: netstate.ForwardAll}.ID())
		maps.Copy(s, all)
		return err
	}
	maps.Copy(s, all)
	return nil
}

// closeForwarding gives a setting up. Earlier releases turned forwarding on for all links; that they found it off
// doesn't show whether others rely on it since.
func (h *Host) closeForwarding(ctx context.Context, have netstate.Sysctl) error {
	if have.Key != netstate.ForwardAll {
		return h.sys.restore(have)
	}
	who, err := h.forwarders(ctx)
	if err != nil {
		return err
	}
	if who == "" {
		return h.sys.restore(have)
	}
	h.log.Info("net.ipv4.ip_forward stays 1: set by an earlier release, and other programs rely on it",
		zap.String("by", who))
	return h.sys.forget(have.Key)
}

// forwarders returns who needs the host to forward: a persistent setting, or foreign rules for forwarded packets; ""
// for none.
func (h *Host) forwarders(ctx context.Context) (string, error) {
	if file := keptForwarding(sysctlFiles); file != "" {
		return file, nil
	}
	out, err := h.run.Run(ctx, "", "iptables", "-w", "5", "-S", "FORWARD")
	if err != nil {
		return "", fmt.Errorf("who relies on forwarding: %w", err)
	}
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" && line != "-P FORWARD ACCEPT" &&
			!strings.Contains(line, " -j ES-") { // host's chains have no other names (law 3)
			return "iptables " + line, nil
		}
	}
	if out, err = h.run.Run(ctx, "", "nft", "list", "chains"); err != nil {
		return "", fmt.Errorf("who relies on forwarding: %w", err)
	}
	return foreignForwardHook(out), nil
}

// foreignForwardHook returns the table in the output of nft list chains that has a foreign chain at the IPv4 forward
// hook, "" for none. It ignores the tables of iptables itself and edgespan's.
func foreignForwardHook(chains string) string {
	table := ""
	for line := range strings.Lines(chains) {
		w := strings.Fields(line)
		switch {
		case len(w) >= 3 && w[0] == "table":
			table = w[1] + " " + w[2]
		case strings.Contains(line, "hook forward") &&
			(strings.HasPrefix(table, "ip ") || strings.HasPrefix(table, "inet ")) &&
			table != "ip filter" && table != "ip mangle" && table != "ip security" && table != "inet edgespan":
			return "nft table " + table
		}
	}
	return ""
}

// sysctlFiles are the files that sysctl(8) and systemd-sysctl read.
var sysctlFiles = []string{"/etc/sysctl.conf", "/etc/sysctl.d/*.conf", "/run/sysctl.d/*.conf",
	"/usr/lib/sysctl.d/*.conf", "/usr/local/lib/sysctl.d/*.conf"}

// keptForwarding returns a file that turns forwarding on for all links at each boot, "" for none.
func keptForwarding(patterns []string) string {
	for _, p := range patterns {
		files, _ := filepath.Glob(p) // the patterns are well formed
		for _, f := range files {
			text, _ := os.ReadFile(f) // an unreadable file sets nothing
			for line := range strings.Lines(string(text)) {
				key, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "-"), "=")
				key = strings.ReplaceAll(strings.TrimSpace(key), "/", ".")
				if (key == "net.ipv4.ip_forward" || key == "net.ipv4.conf.all.forwarding") && strings.TrimSpace(value) == "1" {
					return f
				}
			}
		}
	}
	return ""
}

// forget drops the record of a setting and leaves the setting unchanged.
func (s *sysctls) forget(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.load()
	if err != nil {
		return err
	}
	delete(m, key)
	return s.save(m)
}
