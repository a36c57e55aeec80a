package nodeside

import (
	"net/netip"
	"slices"

	"edgespan/netinst"
)

// Link is what a node's networks depend on that changes with its link to the controller.
type Link struct {
	// Key is the node's public key for encrypted clusters, and NextKey the one that will replace it; "" for none.
	Key, NextKey string
	// Controllers are the addresses of the controllers, as far as they are known, sorted.
	Controllers []netip.Addr
}

// LinkOf returns the Link of a node with these keys.
func LinkOf(key, next string) Link { return Link{Key: key, NextKey: next} }

// Same reports whether two are equal.
func (l Link) Same(as Link) bool {
	return l.Key == as.Key && l.NextKey == as.NextKey && slices.Equal(l.Controllers, as.Controllers)
}

// Apply returns a network with what it has of the link, and whether that is other than before: an encrypted cluster has
// the key, and the other end of a tunnel may assign no address of a controller, by which the node would cut itself off.
func (l Link) Apply(n netinst.NetworkInstanceConfig) (_ netinst.NetworkInstanceConfig, other bool) {
	if n.IsEncrypted() && n.ClusterKey != l.Key {
		n.ClusterKey, other = l.Key, true
	}
	if v := n.VPN; v != nil && v.IPsec != nil && v.IPsec.VirtualIP && !slices.Equal(v.Controllers, l.Controllers) {
		now := *v
		now.Controllers = l.Controllers
		n.VPN, other = &now, true
	}
	return n, other
}

// Describe says which key has replaced that of before, "" if none has.
func (l Link) Describe(before Link) string {
	if before.Key == "" || l.Key == before.Key {
		return ""
	}
	return "key for encrypted clusters: " + before.Key + " -> " + l.Key
}
