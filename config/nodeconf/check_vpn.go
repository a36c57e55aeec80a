package nodeconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
)

// The methods of vpn.method, and the values of vpn.ipsec.auth that have fields of their own.
const (
	methodWireGuard = "wireguard"
	methodIPsec     = "ipsec"
	authPSK         = "psk"
	authPubkey      = "pubkey"
	authEAP         = "eap-mschapv2"
)

// maxPeers bounds the peers of a tunnel: each is polled.
const maxPeers = 100

// readVPN reads the tunnel of a network of type vpn; nil for another type, and for one whose tunnel has faults.
func (c *checker) readVPN(o *object, ni netinst.NetworkInstanceConfig) *netinst.VPNConfig {
	v := o.objectOrEmpty("vpn")
	switch {
	case ni.Type != netinst.VPN:
		if o.isGiven("vpn") && !v.hasInvalid() && !o.isInvalid("vpn") && !o.isInvalid("type") {
			c.addFault(o.pathOf("vpn"), "invalid for a "+string(ni.Type)+" network", "only type vpn has it")
		}
		return nil
	case o.isInvalid("vpn") || v.hasInvalid():
		return nil
	}
	c.checkFieldsOfVPN(o, ni)
	out := netinst.VPNConfig{
		Address: items[netip.Prefix](v, "address"), MTU: value[int](v, "mtu"), NAT: value[bool](v, "nat"),
		DNSOutside: value[bool](v, "dnsOutside"),
	}
	method := value[string](v, "method")
	for _, key := range []string{methodWireGuard, methodIPsec} {
		switch {
		case method == "":
		case key != method && v.isGiven(key):
			c.addFault(v.pathOf(key), "invalid with method "+method, "only method "+key+" has it")
		case key == method && !v.isGiven(key):
			c.addFault(v.pathOf(key), config.Required+" with method "+method, config.MustBe("a mapping"))
		case key == methodWireGuard && key == method:
			out.WireGuard = c.readWireGuard(v.objectOrEmpty(key))
		case key == method:
			out.IPsec = c.readIPsec(v.objectOrEmpty(key), ni, out)
		}
	}
	if out.WireGuard == nil && out.IPsec == nil {
		return nil
	}
	c.checkTunnelAddresses(v, out)
	return &out
}

// checkFieldsOfVPN refuses what a network of type vpn does not have: it has one way out.
func (c *checker) checkFieldsOfVPN(o *object, ni netinst.NetworkInstanceConfig) {
	const what = "invalid for a vpn network"
	if ni.Port == "" && o.isGiven("port") && !o.isInvalid("port") {
		c.addFault(o.pathOf("port"), what, "must be a port, by which the tunnel leaves")
	}
	for _, key := range []string{"flows", "share"} {
		if o.isGiven(key) && !o.isInvalid(key) {
			c.addFault(o.pathOf(key), what, "only type local has it: flows stay in the tunnel when that changes its port")
		}
	}
	if four := o.objectOrEmpty("ipv4"); value[bool](four, "mayOverlap") {
		c.addFault(four.pathOf("mayOverlap"), what, "must be false")
	}
	if six := o.objectOrEmpty("ipv6"); six.isGiven("nat") && !six.isInvalid("nat") {
		c.addFault(six.pathOf("nat"), what, "vpn.nat is for both families")
	}
	for _, r := range ni.Routes {
		if route := o.objectOrEmpty("routes").objectOrEmpty(r.Name); r.Port != "" {
			c.addFault(route.pathOf("port"), what, "must be absent: the tunnel is the only way out")
		}
	}
}

// checkTunnelAddresses checks the addresses of a tunnel against its other fields.
func (c *checker) checkTunnelAddresses(v *object, t netinst.VPNConfig) {
	ipv4 := 0
	for _, a := range t.Address {
		if a.Addr().Is4() {
			ipv4++
		}
	}
	assigned := t.IPsec != nil && t.IPsec.VirtualIP
	path := v.pathOf("address")
	switch {
	case ipv4 > 1 || len(t.Address)-ipv4 > 1:
		c.addFault(path, config.TooMany("addresses of one family", max(ipv4, len(t.Address)-ipv4)), config.AtMost(1))
	case assigned && len(t.Address) > 0:
		c.addFault(path, "invalid with ipsec.virtualIP", "the other end assigns the addresses")
	case t.NAT && !assigned && len(t.Address) == 0:
		c.addFault(path, config.Required+" with nat", config.MustBe(words[wordOwnPrefix].plural))
	}
}

// readWireGuard reads a WireGuard interface.
func (c *checker) readWireGuard(o *object) *netinst.WireGuard {
	w := netinst.WireGuard{PrivateKey: value[string](o, "privateKey"), ListenPort: value[int](o, "listenPort")}
	all := o.objectOrEmpty("peers")
	keys, prefixes := map[string][]string{}, map[netip.Prefix][]string{}
	for _, name := range all.keys() {
		p := all.objectOrEmpty(name)
		peer := netinst.WireGuardPeer{
			Name: name, PublicKey: value[string](p, "publicKey"), PresharedKey: value[string](p, "presharedKey"),
			Endpoint: value[string](p, "endpoint"), AllowedIPs: items[netip.Prefix](p, "allowedIPs"),
			Keepalive: value[int](p, "keepalive"),
		}
		w.Peers = append(w.Peers, peer)
		if first := keys[peer.PublicKey]; first != nil {
			c.addFault(p.pathOf("publicKey"), duplicateText(peer.PublicKey, first), "must be unique: one entry for each peer")
		} else if peer.PublicKey != "" {
			keys[peer.PublicKey] = p.pathOf("publicKey")
		}
		for _, a := range peer.AllowedIPs {
			if first := prefixes[a]; first != nil {
				c.addFault(p.pathOf("allowedIPs"), duplicateText(a, first), "must be prefixes that no other peer has")
				break
			}
			prefixes[a] = p.pathOf("allowedIPs")
		}
		if peer.Endpoint == "" && w.ListenPort == 0 && !o.isInvalid("listenPort") {
			c.addFault(p.pathOf("endpoint"), config.Required+" without listenPort",
				config.MustBe(words[wordEndpoint].allowed)+", or the peer must have a port to call")
		}
	}
	switch n := len(w.Peers); {
	case n == 0:
		c.addFault(o.pathOf("peers"), config.Required, "must be at least one peer")
	case n > maxPeers:
		c.addFault(o.pathOf("peers"), config.TooMany("peers", n), config.AtMost(maxPeers))
	}
	return &w
}

// readIPsec reads an IPsec connection.
func (c *checker) readIPsec(o *object, ni netinst.NetworkInstanceConfig, v netinst.VPNConfig) *netinst.IPsec {
	text := func(key string) string { return value[string](o, key) }
	auth, proposals := text("auth"), o.objectOrEmpty("proposals")
	x := netinst.IPsec{
		Local: netinst.IPsecEnd{ID: text("localId"), Auth: auth, Secret: text("psk"), EAPUser: text("eapUser"),
			Certificate: text("certificate"), Key: text("key")},
		Remote:  netinst.IPsecEnd{ID: text("remoteId"), Auth: authPubkey, CA: text("ca")},
		Address: text("remote"), Port: value[int](o, "port"), Listen: value[bool](o, "listen"),
		IKE: value[string](proposals, "ike"), ESP: value[string](proposals, "esp"),
		VirtualIP: value[bool](o, "virtualIP"), Policies: value[bool](o, "policies"), DPD: value[int](o, "dpd"),
		RekeyChild: value[int](o, "rekeyChild"), RekeyIKE: value[int](o, "rekeyIKE"), NoMOBIKE: !value[bool](o, "mobike"),
	}
	if x.Remote.ID == "" && auth != authPSK { // else any certificate of the CA would do
		x.Remote.ID = x.Address
	}
	switch auth {
	case authPSK:
		x.Remote.Auth, x.Remote.Secret = authPSK, x.Local.Secret
	case authEAP:
		x.Local.Secret = text("eapPassword")
	}
	children := o.objectOrEmpty("children")
	for _, name := range children.keys() {
		child := children.objectOrEmpty(name)
		y := netinst.IPsecChild{Name: name, Local: items[netip.Prefix](child, "local"),
			Remote: items[netip.Prefix](child, "remote")}
		if x.Policies && len(y.Local) == 0 && !v.NAT {
			y.Local = subnetsOf(ni)
		}
		x.Children = append(x.Children, y)
	}
	c.checkAuth(o, auth)
	switch {
	case x.Address == "" && !x.Listen:
		c.addFault(o.pathOf("remote"), config.Required+" unless listen is true",
			config.MustBe(words[wordHostOrIP].allowed))
	case x.Address == "" && (auth == authEAP || x.VirtualIP):
		c.addFault(o.pathOf("remote"), config.Required+" with auth eap-mschapv2 and virtualIP",
			config.MustBe(words[wordHostOrIP].allowed))
	}
	switch n := len(x.Children); {
	case n == 0 && x.Policies:
		c.addFault(o.pathOf("children"), config.Required+" with policies", "must be at least one child")
	case n > maxInList:
		c.addFault(o.pathOf("children"), config.TooMany("children", n), config.AtMost(maxInList))
	}
	return &x
}

// subnetsOf returns the subnets of a network.
func subnetsOf(ni netinst.NetworkInstanceConfig) (list []netip.Prefix) {
	for _, p := range []netip.Prefix{ni.IPv4.Subnet, ni.IPv6.Subnet} {
		if p.IsValid() {
			list = append(list, p)
		}
	}
	return list
}

// authFields are the fields of ipsec that each value of auth requires; a field of another value is refused. With node,
// ca may be given.
var authFields = map[string][]string{
	authPSK: {"psk"}, authPubkey: {"certificate", "key", "ca"}, authEAP: {"eapUser", "eapPassword", "ca"}, "node": nil,
}

func (c *checker) checkAuth(o *object, auth string) {
	for _, key := range []string{"ca", "certificate", "eapPassword", "eapUser", "key", "psk"} {
		needed := slices.Contains(authFields[auth], key)
		switch given := o.isGiven(key); {
		case needed && !given:
			c.addFault(o.pathOf(key), config.Required+" with auth "+auth, "")
		case !needed && given && !(auth == "node" && key == "ca"):
			c.addFault(o.pathOf(key), "invalid with auth "+auth, "another auth has it")
		}
	}
}

// checkTunnels checks tunnels against each other and against all subnets.
func (c *checker) checkTunnels() {
	listens, ports := []string(nil), map[int][]string{}
	for _, key := range c.networks.keys() {
		ni := c.cfg.Networks[uuid.MustParse(key)]
		v := c.networks.objectOrEmpty(key).objectOrEmpty("vpn")
		if !ni.HasVPN() {
			continue
		}
		for _, a := range ni.VPN.Address {
			c.checkTunnelAddress(v.pathOf("address"), key, a)
		}
		if w := ni.VPN.WireGuard; w != nil && w.ListenPort != 0 {
			path := v.objectOrEmpty(methodWireGuard).pathOf("listenPort")
			if why := portOfOthers(w.ListenPort); why != "" {
				c.addFault(path, fmt.Sprintf("invalid value %d, %s", w.ListenPort, why), "must be a UDP port of no other service")
			}
			if first := ports[w.ListenPort]; first != nil {
				c.addFault(path, duplicateText(strconv.Itoa(w.ListenPort), first), "must be unique")
			} else {
				ports[w.ListenPort] = path
			}
		}
		if x := ni.VPN.IPsec; x != nil && x.VirtualIP {
			ni.VPN.Elsewhere = c.elsewhere(ni.UUID)
		}
		if x := ni.VPN.IPsec; x != nil && x.Listen {
			path := v.objectOrEmpty(methodIPsec).pathOf("listen")
			if listens != nil {
				c.addFault(path, duplicateText(true, listens),
					"must be true for one network only, which has UDP ports 500 and 4500")
			} else {
				listens = path
			}
		}
	}
}

// portOfOthers returns what else of edgespan listens at a UDP port, "" for nothing.
func portOfOthers(port int) string {
	switch {
	case port >= netinst.FirstClusterPort && port <= netinst.LastClusterPort:
		return fmt.Sprintf("one of %d to %d, which encrypted clusters have", netinst.FirstClusterPort,
			netinst.LastClusterPort)
	case slices.Contains([]int{53, 67, 68, 546, 547}, port):
		return "which DNS or DHCP of the node has"
	}
	return ""
}

// elsewhere returns the subnets of all networks but one, and the addresses of their tunnels, in order.
func (c *checker) elsewhere(but uuid.UUID) (all []netip.Prefix) {
	for id, ni := range c.cfg.Networks {
		if id == but {
			continue
		}
		for _, subnet := range []netip.Prefix{ni.IPv4.Subnet, ni.IPv6.Subnet} {
			if subnet.IsValid() {
				all = append(all, subnet)
			}
		}
		if ni.HasVPN() {
			for _, a := range ni.VPN.Address {
				all = append(all, netip.PrefixFrom(a.Addr(), a.Addr().BitLen()))
			}
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all)
}

// checkTunnelAddress refuses an address of a tunnel whose subnet another link of the node has.
func (c *checker) checkTunnelAddress(path []string, network string, a netip.Prefix) {
	for _, key := range c.networks.keys() {
		other := c.networks.objectOrEmpty(key)
		ni := c.cfg.Networks[uuid.MustParse(key)]
		for i, subnet := range []netip.Prefix{ni.IPv4.Subnet, ni.IPv6.Subnet} {
			if subnet.IsValid() && subnet.Overlaps(a) {
				at := other.objectOrEmpty([]string{"ipv4", "ipv6"}[i]).pathOf("subnet")
				c.addFault(path, fmt.Sprintf("invalid value %s, which overlaps %s of %s", a, subnet, config.FormatPath(at)),
					"must be an address outside of the subnets of networks")
				return
			}
		}
		if key >= network || !ni.HasVPN() {
			continue
		}
		for _, b := range ni.VPN.Address {
			if a.Overlaps(b) {
				at := other.objectOrEmpty("vpn").pathOf("address")
				c.addFault(path, fmt.Sprintf("invalid value %s, which overlaps %s of %s", a, b, config.FormatPath(at)),
					fmt.Sprintf("must be an address outside of those of other tunnels: %s/%d is alone", a.Addr(), a.Addr().BitLen()))
				return
			}
		}
	}
}
