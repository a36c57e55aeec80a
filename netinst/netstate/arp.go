package netstate

import "strings"

// ARPGuard keeps other links from being answered by ARP for addresses of ours, and from hearing
// us ask in their name: the kernel answers for every address that it has, on whatever link. It
// is host's, and there is one.
type ARPGuard struct {
	Addresses []string // IPv4, sorted
	Links     []string // where they are answered for, sorted
}

func (g ARPGuard) ID() ID      { return ID{KindARP, "edgespan"} }
func (g ARPGuard) Needs() []ID { return nil }
func (g ARPGuard) Text() string {
	return strings.Join(g.Addresses, ", ") + " on " + strings.Join(g.Links, ", ")
}
