package nodeconf

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
)

// vpnDoc is a document with one network of type vpn, whose other fields are given.
func vpnDoc(fields string) string {
	return "ports: {wan: {ifName: eth0, uplink: true}}\nnetworkInstances: {" + ni1 + ": {type: vpn, ipv4: {subnet: 10.0.0.0/24}, " +
		fields + "}}"
}

func wireGuardDoc(fields string) string {
	return vpnDoc("vpn: {method: wireguard, wireguard: {" + fields + "}}")
}

func ipsecDoc(fields string) string { return vpnDoc("vpn: {method: ipsec, ipsec: {" + fields + "}}") }

const hub = `peers: {hub: {publicKey: ` + key1 + `, endpoint: "198.51.100.1:51820", allowedIPs: 0.0.0.0/0}}`

func TestVPN(t *testing.T) {
	checkSentences(t, vpnDoc, []sentence{
		{"no tunnel", "mtu: 1400", `N1.vpn.method: required: must be wireguard or ipsec`},
		{"the simplest", "vpn: {method: wireguard, wireguard: {" + hub + "}}", ""},
		{"no port", `port: "", vpn: {method: wireguard, wireguard: {` + hub + "}}",
			`N1.port: invalid for a vpn network: must be a port, by which the tunnel leaves`},
		{"fields of others", "flows: keep, share: true, forwardLLDP: true, ipv6: {subnet: \"fd00:1::/64\", nat: true}, " +
			"routes: {r: {destination: 192.0.2.0/24, port: wan}}, vpn: {method: wireguard, wireguard: {" + hub + "}}", `
			N1.flows: invalid for a vpn network: only type local has it: flows stay in the tunnel when that changes its port
			N1.forwardLLDP: invalid for a vpn network: only type switch has it
			N1.ipv6.nat: invalid for a vpn network: vpn.nat is for both families
			N1.routes.r.port: invalid for a vpn network: must be absent: the tunnel is the only way out
			N1.share: invalid for a vpn network: only type local has it: flows stay in the tunnel when that changes its port`},
		{"the other method", "vpn: {method: ipsec, wireguard: {" + hub + "}}", `
			N1.vpn.ipsec: required with method ipsec: must be a mapping
			N1.vpn.wireguard: invalid with method ipsec: only method wireguard has it`},
		{"addresses", "vpn: {method: wireguard, address: \"10.0.0.9/24,10.9.0.2/24\", wireguard: {" + hub + "}}", `
			N1.vpn.address: invalid value 10.0.0.9/24, which overlaps 10.0.0.0/24 of N1.ipv4.subnet: must be an address outside ` +
			`of the subnets of networks
			N1.vpn.address: too many addresses of one family (2): must be at most 1`},
		{"an address in the subnet", "vpn: {method: wireguard, address: 10.0.0.9/32, wireguard: {" + hub + "}}", `
			N1.vpn.address: invalid value 10.0.0.9/32, which overlaps 10.0.0.0/24 of N1.ipv4.subnet: must be an address outside ` +
			`of the subnets of networks`},
		{"nat without an address", "vpn: {method: wireguard, nat: true, wireguard: {" + hub + "}}",
			`N1.vpn.address: required with nat: must be unicast addresses with their prefix lengths such as 192.0.2.2/24`},
	})
	checkSentences(t, wireGuardDoc, []sentence{
		{"no peer", "listenPort: 51820", `N1.vpn.wireguard.peers: required: must be at least one peer`},
		{"keys of wrong length, shown nowhere", `privateKey: c2VjcmV0LWNhbmFyeQ==, peers: {p: {publicKey: c2hvcnQ=, ` +
			`presharedKey: c2VjcmV0LWNhbmFyeQ==, endpoint: "h:1", allowedIPs: 0.0.0.0/0}}`, `
			N1.vpn.wireguard.peers.p.presharedKey: invalid value: must be a key of 32 octets in base64, as "wg genkey" writes it
			N1.vpn.wireguard.peers.p.publicKey: invalid value "c2hvcnQ=": must be a key of 32 octets in base64, as "wg genkey" ` +
			`writes it
			N1.vpn.wireguard.privateKey: invalid value: must be a key of 32 octets in base64, as "wg genkey" writes it`},
		{"two of one", "peers: {a: {publicKey: " + key1 + ", allowedIPs: 10.8.0.0/16}, b: {publicKey: " + key1 +
			", endpoint: \"b.example:1\", allowedIPs: \"10.8.0.0/16,10.8.1.0/24\"}}", `
			N1.vpn.wireguard.peers.a.endpoint: required without listenPort: must be HOST:PORT of a host name or an address, such ` +
			`as 192.0.2.1:51820 or [2001:db8::1]:51820, or the peer must have a port to call
			N1.vpn.wireguard.peers.b.allowedIPs: duplicate value 10.8.0.0/16, also at N1.vpn.wireguard.peers.a.allowedIPs: must ` +
			`be prefixes that no other peer has
			N1.vpn.wireguard.peers.b.publicKey: duplicate value ` + strings.TrimSuffix(key1, "zlE=") + `…, also at N1.vpn.wireguard.peers.a.publicKey: must ` +
			`be unique: one entry for each peer`},
	})
	checkSentences(t, ipsecDoc, []sentence{
		{"a shared key", "psk: secret-canary, remote: vpn.example.org", ""},
		{"nothing", "dpd: 10", `
			N1.vpn.ipsec.psk: required with auth psk
			N1.vpn.ipsec.remote: required unless listen is true: must be a host name or a unicast IP address`},
		{"fields of another auth", "auth: eap-mschapv2, psk: secret-canary, listen: true", `
			N1.vpn.ipsec.ca: required with auth eap-mschapv2
			N1.vpn.ipsec.eapPassword: required with auth eap-mschapv2
			N1.vpn.ipsec.eapUser: required with auth eap-mschapv2
			N1.vpn.ipsec.psk: invalid with auth eap-mschapv2: another auth has it
			N1.vpn.ipsec.remote: required with auth eap-mschapv2 and virtualIP: must be a host name or a unicast IP address`},
		{"a secret that is none", "psk: \"secret-canary\\n\", remote: 192.0.2.1",
			"N1.vpn.ipsec.psk: invalid value: must be 1 to 255 octets of printable characters"},
		{"policies without children", "psk: x, remote: 192.0.2.1, policies: true",
			"N1.vpn.ipsec.children: required with policies: must be at least one child"},
		{"a key that is no PEM", "auth: pubkey, certificate: /etc/a.pem, ca: /etc/ca.pem, key: secret-canary, remote: 192.0.2.1",
			"N1.vpn.ipsec.key: invalid value: must be PEM blocks, or the clean absolute path of a file in ASCII without spaces " +
				"and quotes"},
		{"the node's own", "auth: node, remote: 192.0.2.1", ""},
	})
}

// Two networks of one node can't have one UDP port, and only type vpn has a tunnel.
func TestTunnelsOfOneNode(t *testing.T) {
	checkSentences(t, asIs, []sentence{
		{"listening", "networkInstances: {" + ni1 + ": {type: vpn, ipv4: {subnet: 10.0.0.0/24}, vpn: {method: ipsec, address: " +
			"10.9.0.1/24, ipsec: {psk: x, listen: true}}}, " + ni2 + ": {type: vpn, ipv4: {subnet: 10.0.1.0/24}, vpn: {method: ipsec, " +
			"address: 10.9.0.2/24, ipsec: {psk: x, listen: true}}}}", `
			N2.vpn.address: invalid value 10.9.0.2/24, which overlaps 10.9.0.1/24 of N1.vpn.address: must be an address outside ` +
			`of those of other tunnels: 10.9.0.2/32 is alone
			N2.vpn.ipsec.listen: duplicate value true, also at N1.vpn.ipsec.listen: must be true for one network only, which has ` +
			`UDP ports 500 and 4500`},
		{"one port", "networkInstances: {" + ni1 + ": {type: vpn, ipv4: {subnet: 10.0.0.0/24}, vpn: {method: wireguard, wireguard: " +
			"{listenPort: 51820, " + hub + "}}}, " + ni2 + ": {type: vpn, ipv4: {subnet: 10.0.1.0/24}, vpn: {method: wireguard, " +
			"wireguard: {listenPort: 51820, " + hub + "}}}}",
			`N2.vpn.wireguard.listenPort: duplicate value 51820, also at N1.vpn.wireguard.listenPort: must be unique`},
		{"ports of others", "networkInstances: {" + ni1 + ": {type: vpn, ipv4: {subnet: 10.0.0.0/24}, vpn: {method: wireguard, " +
			"wireguard: {listenPort: 25820, " + hub + "}}}, " + ni2 + ": {type: vpn, ipv4: {subnet: 10.0.1.0/24}, vpn: {method: " +
			"wireguard, wireguard: {listenPort: 53, " + hub + "}}}}", `
			N1.vpn.wireguard.listenPort: invalid value 25820, one of 21821 to 25820, which encrypted clusters have: must be a UDP ` +
			`port of no other service
			N2.vpn.wireguard.listenPort: invalid value 53, which DNS or DHCP of the node has: must be a UDP port of no other service`},
		{"other types", "networkInstances: {" + ni1 + ": {ipv4: {subnet: 10.0.0.0/24}, vpn: {method: wireguard, wireguard: {" + hub +
			"}}}, " + ni2 + ": {type: switch, port: \"\", vpn: {nat: true}}}", `
			N1.vpn: invalid for a local network: only type vpn has it
			N2.vpn: invalid for a switch network: only type vpn has it`},
	})
}

// The other end of a tunnel assigns none of the prefixes that the node's other networks and tunnels have.
func TestWhatATunnelsOtherEndMayNotAssign(t *testing.T) {
	document, faults := config.ReadObject([]byte("networkInstances: {" + ni1 + ": {type: vpn, ipv4: {subnet: 10.0.0.0/24}, vpn: " +
		"{method: ipsec, ipsec: {remote: 192.0.2.1, psk: x, virtualIP: true}}}, " + ni2 + ": {type: vpn, ipv4: {subnet: " +
		"10.0.1.0/24}, vpn: {method: wireguard, address: 10.9.0.2/24, wireguard: {" + hub + "}}}, " + ni3 +
		": {ipv4: {subnet: 10.0.2.0/24}, ipv6: {subnet: \"fd00:2::/64\"}}}"))
	if faults != nil {
		t.Fatal(faults)
	}
	c, err := Parse(document)
	if err != nil {
		t.Fatal(err)
	}
	want := "[10.0.1.0/24 10.0.2.0/24 10.9.0.2/32 fd00:2::/64]"
	if got := fmt.Sprint(c.Networks[uuid.MustParse(ni1)].VPN.Elsewhere); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := c.Networks[uuid.MustParse(ni2)].VPN.Elsewhere; got != nil {
		t.Errorf("of a tunnel that is assigned nothing: %v", got)
	}
}

// A config with every field is read as it is meant.
func TestAWholeTunnel(t *testing.T) {
	read := func(doc string) netinst.NetworkInstanceConfig {
		t.Helper()
		_, c, err := Read([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		return c.Networks[uuid.MustParse(ni1)]
	}
	ni := read(vpnDoc("ipv6: {subnet: \"fd00:1::/64\"}, vpn: {method: ipsec, mtu: 1300, nat: true, dnsOutside: true, ipsec: " +
		"{auth: eap-mschapv2, eapUser: anna, eapPassword: pass word, ca: /etc/ca.pem, remote: vpn.example.org, remoteId: " +
		"\"CN=vpn\", virtualIP: true, proposals: {ike: aes256-sha256-x25519, esp: aes256gcm16}, mobike: false, dpd: 5, " +
		"rekeyChild: 600, rekeyIKE: 3600, port: 4500}}"))
	v, x := ni.VPN, ni.VPN.IPsec
	if !ni.HasTunnel() || !ni.IPv6.NAT || v.MTU != 1300 || !v.DNSOutside || x.Address != "vpn.example.org" ||
		x.Local.Auth != "eap-mschapv2" || x.Local.Secret != "pass word" || x.Local.EAPUser != "anna" || x.Remote.CA == "" ||
		x.Remote.Auth != "pubkey" || x.Remote.ID != "CN=vpn" || !x.NoMOBIKE || x.DPD != 5 || x.RekeyChild != 600 ||
		x.RekeyIKE != 3600 || x.Port != 4500 || !x.VirtualIP || x.ESP != "aes256gcm16" {
		t.Errorf("%+v %+v", v, x)
	}
	psk := read(ipsecDoc("psk: key, remote: 192.0.2.1, policies: true, children: {net: {remote: 10.7.0.0/16}}")).VPN.IPsec
	if psk.Local.Secret != "key" || psk.Remote.Secret != "key" || psk.Remote.Auth != "psk" || psk.NoMOBIKE || psk.DPD != 30 ||
		len(psk.Children) != 1 || psk.Children[0].Local[0].String() != "10.0.0.0/24" {
		t.Errorf("%+v", psk)
	}
	// Without remoteId any certificate of the CA would do.
	named := read(vpnDoc("vpn: {method: ipsec, ipsec: {auth: eap-mschapv2, eapUser: anna, eapPassword: word, ca: " +
		"/etc/ca.pem, remote: vpn.example.org}}")).VPN.IPsec
	if named.Remote.ID != "vpn.example.org" || psk.Remote.ID != "" {
		t.Errorf("identities %q, %q", named.Remote.ID, psk.Remote.ID)
	}
}

// No fault repeats a secret, whatever is wrong with it.
func TestNoFaultShowsASecret(t *testing.T) {
	for _, e := range Schema() {
		if !e.Secret {
			continue
		}
		for _, v := range []any{"secret-canary\n", []any{"secret-canary"}, map[string]any{"secret-canary": 1}, 7777777777} {
			_, _, err := Read(with(t, placeOf(e), v))
			var fs config.Faults
			if !errors.As(err, &fs) {
				t.Errorf("%s: %v is accepted", e.Path, v)
			} else if strings.Contains(err.Error(), "secret-canary") || strings.Contains(err.Error(), "7777") {
				t.Errorf("a fault shows a secret: %v", err)
			}
		}
	}
}
