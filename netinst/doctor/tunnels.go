package doctor

import (
	"fmt"
	"strings"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// Tunnel is the tunnel of a network, as far as it is known. Fault is why it can't be made, "" if it can.
type Tunnel struct {
	Network netinst.NetworkInstanceConfig
	Status  netstate.TunnelStatus
	Fault   string
}

// tunnels reports tunnels that can't be made, those that are down, and those that a process carries because the kernel
// can't.
func tunnels(_ netstate.Facts, n Node) []Finding {
	var out []Finding
	for _, t := range n.Tunnels {
		fix := "edgespan explain ni/" + t.Network.UUID.String()
		switch {
		case strings.Contains(t.Fault, "not installed"):
			out = append(out, Finding{Level: Problem, Text: without(t),
				Fix: "apt-get install charon-systemd libcharon-extra-plugins libcharon-extauth-plugins " +
					"libstrongswan-standard-plugins libstrongswan-extra-plugins"})
		case t.Fault != "":
			out = append(out, Finding{Level: Problem, Text: without(t), Fix: fix})
		case t.Status.Kind != "" && !t.Status.Up:
			out = append(out, Finding{Level: Warning, Fix: fix,
				Text: strings.TrimSuffix(fmt.Sprintf("the tunnel of network %s is down: %s", name(t.Network), t.Status.Error),
					": ")})
		}
		if module := modules[t.Status.Kind]; t.Status.By == "process" && module != "" {
			out = append(out, Finding{Level: Warning, Fix: "modprobe " + module, Text: fmt.Sprintf(
				"a process carries the packets of the tunnel of network %s: the kernel has no %s, which would be faster",
				name(t.Network), module)})
		}
	}
	return out
}

func without(t Tunnel) string {
	return fmt.Sprintf("network %s has no tunnel: %s", name(t.Network), t.Fault)
}

// modules are the kernel modules that carry the packets of tunnels.
var modules = map[string]string{"wireguard": "wireguard", "ipsec": "esp4"}
