package node

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
	"edgespan/platform/fake"
)

// eventfulDoc is a config with a network of each type, rules of each form, secrets, and ports of each addressing.
const eventfulDoc = `
ports:
  wan: {ifName: uplink0, uplink: true, addressing: dhcp}
  lte: {ifName: ppp0, uplink: true, cost: 10, dnsServers: 198.51.100.54, metered: true}
  lan: {ifName: eth8}
  plant: {ifName: eth7.5, vlan: {parent: eth7, id: 5}, addressing: static, address: 10.7.0.2/24, gateway: 10.7.0.1}
networkInstances:
  0a000000-0000-4000-8000-000000000001:
    displayName: net1
    port: uplink
    mtu: 1400
    probe: {method: icmp, target: 203.0.113.9, failAfter: 2, holdMs: 2000}
    ipv4: {subnet: 10.1.0.0/24, gateway: 10.1.0.254, dhcpRange: 10.1.0.100-10.1.0.199}
    ipv6: {subnet: "fd00:51::/64", nat: true}
    dns: {domain: edge, servers: 203.0.113.53, hosts: {gateway.edge: 10.1.0.254}}
    routes: {lab: {destination: 192.0.2.128/25, gateway: 192.0.2.1}}
    sets: {office: {198.51.100.0/24: second floor, 203.0.113.7: "", "2001:db8:7::/48": ""}}
  0a000000-0000-4000-8000-000000000002: {displayName: net2, type: switch, port: lan}
  0a000000-0000-4000-8000-000000000003:
    displayName: net3
    type: vpn
    port: wan
    ipv4: {subnet: 10.3.0.0/24}
    vpn: {method: ipsec, nat: true, ipsec: {remote: 192.0.2.7, psk: 'hun"ter-canary', virtualIP: true}}
  0a000000-0000-4000-8000-000000000004:
    displayName: net4
    type: vpn
    port: wan
    ipv4: {subnet: 10.4.0.0/24}
    vpn:
      method: wireguard
      address: 10.99.0.2/24
      wireguard:
        privateKey: 6MGc2mLBG0Ygjm5lQEXKqEKT9L2zR3mNq4rQ8mDdVmA=
        peers: {hub: {publicKey: nM8bGDzXrbMQWk9e4GvPJ9vdsXp1MXQ0PZkzTIxNzlE=, endpoint: "198.51.100.1:51820",
          allowedIPs: 0.0.0.0/0, keepalive: 25}}
appNetworks:
  1b000000-0000-4000-8000-000000000001:
    displayName: web
    activate: true
    adapters:
      0:
        networkInstance: 0a000000-0000-4000-8000-000000000001
        attach: {kind: veth, netns: ns1}
        ip: 10.1.0.7
        mac: "02:00:00:00:00:07"
        acl:
          office: {order: 1, direction: ingress, match: {set: office, protocol: tcp, localPort: 443}}
          map: {order: 2, direction: ingress, action: portmap, match: {protocol: tcp, portLabel: wan},
            portmap: {port: 8080, targetPort: 80}}
          slow: {order: 3, direction: egress, action: limit, match: {ip: 0.0.0.0/0, protocol: icmp},
            limit: {rate: 10/s, burst: 20}}
          no: {order: 4, direction: egress, action: drop, match: {host: evil.example}}
          all: {order: 5, direction: egress, match: {ip: 0.0.0.0/0}}
      1: {networkInstance: 0a000000-0000-4000-8000-000000000002, attach: {kind: tap}, acl: {all: {direction: both}}}
  1b000000-0000-4000-8000-000000000002:
    displayName: db
    activate: true
    adapters:
      0:
        networkInstance: 0a000000-0000-4000-8000-000000000003
        attach: {kind: veth, netns: ns2}
        acl: {all: {direction: egress}}
      1: {networkInstance: 0a000000-0000-4000-8000-000000000004, attach: {kind: external, hostIfName: ext0}}
`

// eventful is the life of a node with eventfulDoc: its host gives it trouble, and each comes right again.
func (r *rig) eventful(restart func()) {
	server := &dhcpServer{lease: 20 * time.Minute}
	r.host.SetDHCP(server.answer)
	wan, lte := wanAndLTE()
	r.host.SetInterfaces(wan, lte, netstate.Interface{Name: "eth7", Up: true, MTU: 1500},
		netstate.Interface{Name: "eth8", Up: true, MTU: 1500})
	var dead atomic.Bool
	r.host.SetProbes(func(id probe.ID) error {
		if dead.Load() && id.Port == "wan" && id.Method == probe.ICMP {
			return context.DeadlineExceeded
		}
		return nil
	})
	r.netns("ns1")
	s := &steward{r: r}
	r.node.Agent().Up(s)
	var refused atomic.Bool
	r.host.SetFault(func(_ netstate.Owner, op netstate.Op) *fake.OpFault {
		if op.Kind == netstate.KindChain && !refused.Swap(true) {
			return &fake.OpFault{Half: true}
		}
		return nil
	})
	task := runs("a", "/bin/a")
	task.Executor.Env = map[string]string{"TOKEN": "canary of the environment"}
	r.pushBoth(1, eventfulDoc, encoded(r, task, runs("b", "/bin/b")))
	if got := s.outcomes(); !slices.Equal(got, []string{"accepted"}) {
		r.Fatalf("the config is answered with %q", got)
	}
	r.host.SetTunnel(3, tunnelOf(3, true, ""))
	r.settle(6 * time.Second)
	r.netns("ns2")
	r.host.SetLink("ext0", true)
	r.settle(3 * time.Second)

	dead.Store(true) // it moves to lte, and back
	r.settle(4 * time.Second)
	dead.Store(false)
	r.settle(4 * time.Second)
	r.host.SetTunnel(3, tunnelOf(3, false, "no answer to 'hun\"ter-canary'"))
	r.settle(2 * time.Second)
	r.host.Kill(1, "dnsmasq")
	r.host.Flush(true)
	r.settle(3 * time.Second)
	restart()
	r.node.Agent().Up(&steward{r: r})
	r.settle(3 * time.Second)
	less := eventfulDoc[:strings.Index(eventfulDoc, "  1b000000-0000-4000-8000-000000000002:")]
	r.pushBoth(2, strings.Replace(less, "port: wan\n", "port: lte\n", 1), encoded(r, absentOf(task)))
	r.settle(4 * time.Second)
}
