package netinst

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/uuid"
)

// macVersion names the method that generates MACs from words. A MAC in use is journalled, so a new version affects new
// adapters only.
const macVersion = "edgespan mac 1"

// First octets: both mean locally administered unicast (IEEE 802 §8.4). The host's side starts with 0xfe, so that it is
// never the lowest MAC among a bridge's ports and never equals a generated MAC of an app.
const (
	macOwn  = 0x02
	macHost = 0xfe
)

// generatedMAC is a MAC that depends on words alone: first, then 40 bits of their hash.
func generatedMAC(first byte, words ...string) string {
	h := sha256.Sum256([]byte(macVersion + "|" + strings.Join(words, "|")))
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", first, h[0], h[1], h[2], h[3], h[4])
}

// adapterMAC is the MAC of the app's side; attempt counts up if two adapters of one network would share one.
func adapterMAC(k AdapterKey, network uuid.UUID, attempt int) string {
	return generatedMAC(macOwn, "adapter", k.String(), network.String(), fmt.Sprint(attempt))
}

// LinkMACs returns the default MACs of an adapter's links: the app's side (unless one is configured) and the host's.
func LinkMACs(k AdapterKey, network uuid.UUID) (app, host string) {
	return adapterMAC(k, network, 0), hostSideMAC(k, network)
}

func hostSideMAC(k AdapterKey, network uuid.UUID) string {
	return generatedMAC(macHost, "host side", k.String(), network.String())
}

// BridgeMAC is the MAC of a network's bridge.
func BridgeMAC(network uuid.UUID) string {
	return generatedMAC(macOwn, "bridge", network.String())
}

// lastAddress is the highest address of an IPv4 prefix.
func lastAddress(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		a[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(a)
}
