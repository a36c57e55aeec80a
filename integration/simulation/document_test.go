package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// The networks, apps and forms that configs draw from.
const (
	maxNetworks = 4
	maxApps     = 5
)

// networkForms are the forms of a network, by its number. One without a % has no number.
var networkForms = []string{
	"type: local, port: uplink, ipv4: {subnet: 10.%[1]d.0.0/24}",
	`type: local, port: uplink, ipv4: {subnet: 10.%[1]d.0.0/24}, ipv6: {subnet: "fd00:%[1]d::/64", nat: true}`,
	"type: local, port: wan, ipv4: {subnet: 10.%[1]d.0.0/24}, flows: keep",
	`type: local, port: "", ipv4: {subnet: 10.%[1]d.0.0/24}`,
	`type: switch, port: ""`,
	"type: switch, port: lan%[1]d",
	`type: vpn, port: uplink, ipv4: {subnet: 10.%[1]d.0.0/24}, vpn: {method: wireguard, address: 10.99.%[1]d.2/24, wireguard: ` +
		`{peers: {hub: {publicKey: nM8bGDzXrbMQWk9e4GvPJ9vdsXp1MXQ0PZkzTIxNzlE=, endpoint: "vpn.example.org:5182%[1]d", ` +
		"allowedIPs: 0.0.0.0/0, keepalive: 25}}}}",
	inactiveNetwork,
}

// inactiveNetwork is the form of a network that is not to be there.
const inactiveNetwork = "type: local, port: uplink, ipv4: {subnet: 10.%[1]d.0.0/24}, activate: false"

// attachForms are the forms of an app's attachment, by its number.
var attachForms = []string{"kind: veth, netns: ns%[1]d", "kind: tap, hostIfName: tap%[1]d",
	"kind: external, hostIfName: vm%[1]d"}

// ruleForms are the rules of an app; the number is a port.
var ruleForms = []string{
	"all: {action: allow, direction: egress}",
	"web: {action: allow, direction: egress, match: {protocol: tcp, port: %d}}",
	"no: {action: drop, direction: egress, match: {protocol: udp, port: %d}}, all: {action: allow, direction: egress}",
}

// scene is a drawn config.
type scene struct {
	networks map[int]int // the form of each
	apps     map[int]app
	mark     int // a number that the name of a network carries; 0: none
}

type app struct {
	network, attach int
	off             bool
	rules           string
}

func drawScene(rng *rand.Rand) scene {
	s := scene{networks: map[int]int{}, apps: map[int]app{}}
	for n := 1; n <= maxNetworks; n++ {
		if rng.IntN(3) > 0 {
			s.networks[n] = rng.IntN(len(networkForms))
		}
	}
	there := slices.Sorted(maps.Keys(s.networks))
	for a := 1; a <= maxApps && len(there) > 0; a++ {
		if rng.IntN(2) == 0 {
			s.apps[a] = app{network: there[rng.IntN(len(there))], attach: rng.IntN(len(attachForms)), off: rng.IntN(6) == 0,
				rules: spell(ruleForms[rng.IntN(len(ruleForms))], 1000+rng.IntN(9))}
		}
	}
	return s
}

// active reports whether a network is to be there.
func (s scene) active(network int) bool {
	form, there := s.networks[network]
	return there && networkForms[form] != inactiveNetwork
}

func networkID(n int) string { return fmt.Sprintf("0a000000-0000-4000-8000-%012d", n) }
func appID(n int) string     { return fmt.Sprintf("1b000000-0000-4000-8000-%012d", n) }

// spell inserts a number, if the form has a place for it.
func spell(form string, n int) string {
	if strings.Contains(form, "%") {
		return fmt.Sprintf(form, n)
	}
	return form
}

func (s scene) document() string {
	var b strings.Builder
	b.WriteString("ports:\n  wan: {ifName: uplink0, uplink: true, dnsServers: 198.51.100.53}\n" +
		"  lte: {ifName: uplink1, uplink: true, cost: 10, dnsServers: 198.51.100.54}\n")
	for n := 1; n <= maxNetworks; n++ {
		fmt.Fprintf(&b, "  lan%d: {ifName: lan%d}\n", n, n)
	}
	if len(s.networks) > 0 {
		b.WriteString("networkInstances:\n")
	}
	for _, n := range slices.Sorted(maps.Keys(s.networks)) {
		name := fmt.Sprint("net", n)
		if s.mark > 0 && n == markedNetwork {
			name += fmt.Sprint("-r", s.mark)
		}
		fmt.Fprintf(&b, "  %s: {displayName: %s, %s}\n", networkID(n), name, spell(networkForms[s.networks[n]], n))
	}
	if len(s.apps) > 0 {
		b.WriteString("appNetworks:\n")
	}
	for _, a := range slices.Sorted(maps.Keys(s.apps)) {
		x := s.apps[a]
		fmt.Fprintf(&b, "  %s: {displayName: app%d, activate: %v, adapters: {0: {networkInstance: %s, attach: {%s}, acl: {%s}}}}\n",
			appID(a), a, !x.off, networkID(x.network), spell(attachForms[x.attach], a), x.rules)
	}
	return b.String()
}
