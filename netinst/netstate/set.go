package netstate

import (
	"fmt"
	"net/netip"
	"strings"
)

// Set is a set of addresses in the kernel (ipset(8)) that rules of chains name. A set without a Timeout has Entries and
// never changes: rules that need other entries name another set.
//
// The entries of a set with a Timeout are added by another program, a helper of the same network, and removed by the
// kernel when they expire. They are no part of its Text.
type Set struct {
	Name    string // es<n>-…, at most 31 octets (IPSET_MAXNAMELEN less the final zero)
	IPv6    bool
	Entries []netip.Prefix // sorted, masked, of 1 bit or more, and of the set's family
	// Timeout is how long an entry lasts after it was last added, in seconds.
	Timeout int
	// Max is the maximum number of entries of a set with a Timeout: with more, the kernel drops others.
	Max int
	// Members are the entries of an observed set with a Timeout; they are not compared.
	Members []netip.Addr
}

func (s Set) ID() ID      { return ID{KindSet, s.Name} }
func (s Set) Needs() []ID { return nil }

func (s Set) Text() string {
	var b strings.Builder
	b.WriteString("ipv4")
	if s.IPv6 {
		b.Reset()
		b.WriteString("ipv6")
	}
	if s.Timeout > 0 {
		fmt.Fprintf(&b, " timeout %d max %d", s.Timeout, s.Max)
	}
	for _, p := range s.Entries {
		b.WriteString("\n")
		b.WriteString(p.String())
	}
	return b.String()
}

// setsOf returns the sets of the kernel that rules of iptables, and of nft, name.
func setsOf(rules []string) []ID {
	var ids []ID
	for _, r := range rules {
		for rest := r; ; {
			_, after, found := strings.Cut(rest, "match-set ")
			if !found {
				break
			}
			var name string
			name, rest, _ = strings.Cut(after, " ")
			ids = append(ids, ID{KindSet, name})
		}
	}
	return ids
}

// Chains returns the chains that ops have written or removed.
func Chains(done []Op) map[ID]bool {
	ids := map[ID]bool{}
	for _, op := range done {
		for _, it := range op.Items {
			if op.Kind == KindChain {
				ids[it.ID()] = true
			}
		}
	}
	return ids
}
