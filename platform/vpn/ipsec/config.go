package ipsec

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/pki"

	"golang.org/x/sys/unix"
)

// What carries the packets of a tunnel (netstate.TunnelStatus.By).
const (
	byKernel  = "kernel"
	byProcess = "process"
)

// Lifetimes of retransmission: a peer that is silent for 20.8 s has gone.
const (
	retransmitAfter = 1.0
	retransmitBase  = 1.5
	retransmitTries = 5
)

// connName is the name of a charon's only connection.
const connName = "net"

// espDefault prefers algorithms that are fast in a process, too.
const espDefault = "aes128gcm16-aes256gcm16-chacha20poly1305,default"

// plugins are all that a charon loads. Those that read files of strongSwan or of the host are not among them.
var plugins = []string{
	"random", "nonce", "openssl", "aes", "sha1", "sha2", "md5", "mgf1", "hmac", "xcbc", "cmac", "gcm", "ccm", "ctr",
	"chapoly", "curve25519", "gmp", "pkcs1", "pkcs8", "pem", "pubkey", "x509", "revocation",
	"constraints", "kdf", "drbg", "resolve", "eap-identity", "eap-mschapv2", "socket-default", "vici",
}

// configText is the strongswan.conf of a charon. It has no secret.
func configText(folder string, mark uint32, by string, at ports) string {
	kernel := []string{"kernel-libipsec", "kernel-netlink"}
	if by == byKernel {
		kernel = kernel[1:]
	}
	file := func(name string) string { return filepath.Join(folder, name) }
	return fmt.Sprintf(`charon-systemd {
	load = %s
	port = %d
	port_nat_t = %d
	install_routes = %s
	interfaces_ignore = %s
	retransmit_timeout = %.1f
	retransmit_base = %.1f
	retransmit_tries = %d
	retry_initiate_interval = 0
	delete_rekeyed_delay = 5
	send_vendor_id = no
	plugins {
		vici {
			socket = unix://%s
		}
		socket-default {
			fwmark = %#x
		}
		kernel-netlink {
			fwmark = !%#x
			install_routes_xfrmi = no
		}
		kernel-libipsec {
			allow_peer_ts = yes
		}
		resolve {
			file = %s
			resolvconf {
				path = /nonexistent
			}
		}
	}
	journal {
		default = -1
	}
	filelog {
		log {
			path = %s
			append = yes
			flush_line = yes
			time_format = %%s
			default = 1
			ike_name = yes
		}
	}
}
`, strings.Join(append(kernel, plugins...), " "), at.IKE, at.NAT, yes(by == byProcess), innerTun, retransmitAfter,
		retransmitBase, retransmitTries, file(socketFile), mark, mark, file(dnsFile), file(logFile))
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// peer is what the keeper of a tunnel must know of its peer.
type peer struct {
	Address  string   `json:"address"`
	Children []string `json:"children"`
	LocalID  string   `json:"localID"`
	RemoteID string   `json:"remoteID"`
	Auth     string   `json:"auth"`       // of this node
	PeerAuth string   `json:"remoteAuth"` // of the peer
	Virtual  bool     `json:"virtual"`    // addresses are asked for
	// Begin and End bound the life of this node's certificate.
	Begin time.Time `json:"begin,omitzero"`
	End   time.Time `json:"end,omitzero"`
	// Locals are addresses within the local ends of the children, which charon must have (links.go).
	Locals []netip.Addr `json:"locals,omitempty"`
}

func peerOf(c *netstate.IPsec) peer {
	p := peer{
		Address: c.Address, LocalID: c.Local.ID, RemoteID: c.Remote.ID, Auth: c.Local.Auth, PeerAuth: c.Remote.Auth,
		Virtual: c.VirtualIP,
	}
	for _, child := range childrenOf(c) {
		p.Children = append(p.Children, child.Name)
		for _, l := range child.Local {
			p.Locals = append(p.Locals, within(l))
		}
	}
	if text, err := material(c.Local.Certificate); err == nil && text != "" {
		p.Begin, p.End, _ = pki.Life([]byte(text)) // charon tells what is wrong with it
	}
	return p
}

// within is the first address of a prefix that a host can have.
func within(p netip.Prefix) netip.Addr {
	p = p.Masked()
	if p.IsSingleIP() {
		return p.Addr()
	}
	return p.Addr().Next()
}

// childrenOf are the children of a connection: one without selectors if it names none.
func childrenOf(c *netstate.IPsec) []netstate.IPsecChild {
	if len(c.Children) == 0 {
		return []netstate.IPsecChild{{Name: connName}}
	}
	return c.Children
}

// connOf is the connection as charon loads it (load-conn of VICI), without the peer's addresses.
func connOf(v netstate.VPN, by string) map[string]any {
	c := v.IPsec
	mobike := yes(!c.NoMOBIKE)
	conn := map[string]any{
		"version": "2", "proposals": list(c.IKE, "default"), "mobike": mobike, "keyingtries": "0", "reauth_time": "0s",
		"dpd_delay": seconds(c.DPD), "send_cert": "always", "unique": "replace",
		"local": endOf(c.Local, true), "remote": endOf(c.Remote, false),
	}
	if c.RekeyIKE > 0 {
		conn["rekey_time"], conn["rand_time"] = seconds(c.RekeyIKE), seconds(c.RekeyIKE/10)
		conn["over_time"] = seconds(late(c.RekeyIKE))
	}
	if c.Port > 0 {
		conn["remote_port"] = strconv.Itoa(c.Port)
	}
	if c.VirtualIP {
		conn["vips"] = []string{"0.0.0.0", "::"}
	}
	children := map[string]any{}
	for _, child := range childrenOf(c) {
		x := map[string]any{
			"mode": "tunnel", "esp_proposals": list(c.ESP, espDefault), "start_action": "none", "dpd_action": "restart",
			"close_action": "start", "local_ts": selectors(child.Local, c.Policies || c.VirtualIP),
			"remote_ts": selectors(child.Remote, c.Policies),
		}
		if c.RekeyChild > 0 {
			x["rekey_time"], x["rand_time"] = seconds(c.RekeyChild), seconds(c.RekeyChild/10)
			x["life_time"] = seconds(c.RekeyChild + late(c.RekeyChild))
		}
		if by == byKernel {
			id := strconv.FormatUint(uint64(v.Mark), 10)
			x["if_id_in"], x["if_id_out"], x["set_mark_out"] = id, id, fmt.Sprintf("%#x", v.Mark)
		}
		children[child.Name] = x
	}
	conn["children"] = children
	return conn
}

// selectors are the prefixes of one end of a child. Without any, they are those of the end itself: its virtual or its
// own address, or else everything.
func selectors(of []netip.Prefix, own bool) []string {
	switch {
	case len(of) > 0:
		var out []string
		for _, p := range of {
			out = append(out, p.Masked().String())
		}
		return out
	case own:
		return []string{"dynamic"}
	}
	return []string{"0.0.0.0/0", "::/0"}
}

func endOf(e netstate.IPsecEnd, local bool) map[string]any {
	end := map[string]any{"auth": e.Auth}
	if e.ID != "" {
		end["id"] = e.ID
	}
	if local && e.Auth == "eap-mschapv2" && e.EAPUser != "" {
		end["eap_id"] = e.EAPUser
	}
	text := func(from string) []string {
		text, err := material(from)
		if err != nil {
			return nil // secretsOf has told
		}
		return blocks(text)
	}
	if certs := text(e.Certificate); e.Auth == "pubkey" && len(certs) > 0 {
		end["certs"] = certs[:1] // those of its issuers follow, and are loaded beside
	}
	if cas := text(e.CA); !local && len(cas) > 0 {
		end["cacerts"] = cas
	}
	return end
}

// withoutCerts is a connection without what may change under it.
func withoutCerts(conn map[string]any) map[string]any {
	out := normal(conn)
	for _, end := range []string{"local", "remote"} {
		if m, ok := out[end].(map[string]any); ok {
			delete(m, "certs")
			delete(m, "cacerts")
		}
	}
	return out
}

// secretsOf are the requests that load what a connection needs beside itself.
func secretsOf(c *netstate.IPsec) ([]request, error) {
	var out []request
	shared := func(id, kind, secret string, owners ...string) {
		m := map[string]any{"id": id, "type": kind, "data": secret}
		var named []string
		for _, o := range owners {
			if o != "" {
				named = append(named, o)
			}
		}
		if len(named) > 0 {
			m["owners"] = named
		}
		out = append(out, request{"load-shared", m})
	}
	if c.Local.Auth == "psk" {
		shared("local", "IKE", c.Local.Secret)
	}
	if c.Remote.Auth == "psk" && c.Remote.Secret != "" && c.Remote.Secret != c.Local.Secret {
		shared("remote", "IKE", c.Remote.Secret, c.Remote.ID)
	}
	if c.Local.Auth == "eap-mschapv2" {
		shared("eap", "EAP", c.Local.Secret, c.Local.EAPUser, c.Local.ID)
	}
	for _, x := range []struct{ what, from, cmd, kind, flag string }{
		{"private key", c.Local.Key, "load-key", "any", ""},
		{"certificate", c.Local.Certificate, "load-cert", "X509", "NONE"},
		{"CA of this node", c.Local.CA, "load-cert", "X509", "CA"},
		{"certificate of the peer", c.Remote.Certificate, "load-cert", "X509", "NONE"},
		{"CA of the peer", c.Remote.CA, "load-cert", "X509", "CA"},
	} {
		text, err := material(x.from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.what, err)
		}
		for _, one := range blocks(text) {
			m := map[string]any{"type": x.kind, "data": one}
			if x.flag != "" {
				m["flag"] = x.flag
			}
			out = append(out, request{x.cmd, m})
		}
	}
	return out, nil
}

// material is a PEM text, or that of the file whose path is given.
func material(from string) (string, error) {
	if !strings.HasPrefix(from, "/") {
		return from, nil
	}
	return readMaterial(from)
}

// maxMaterial bounds a file of certificates, in octets.
const maxMaterial = 1 << 20

// readMaterial reads a regular file: a pipe would hold up the network for ever, and a device has no end.
func readMaterial(from string) (string, error) {
	f, err := os.OpenFile(from, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, fmt.Errorf("%s: must be a regular file", from))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxMaterial+1))
	if err == nil && len(text) > maxMaterial {
		err = fmt.Errorf("%s: must have at most %d octets", from, maxMaterial)
	}
	return string(text), err
}

// blocks splits a PEM text: each certificate of a chain is one.
func blocks(text string) []string {
	var out []string
	for rest := []byte(text); ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		out = append(out, string(pem.EncodeToMemory(b)))
	}
	if len(out) == 0 && text != "" {
		return []string{text} // charon tells what is wrong with it
	}
	return out
}

func list(text, otherwise string) []string {
	if text == "" {
		text = otherwise
	}
	var out []string
	for one := range strings.SplitSeq(text, ",") {
		out = append(out, strings.TrimSpace(one))
	}
	return out
}

// late is how much later than its rekeying an SA ends, if the peer can't be reached for it.
func late(life int) int { return max(life/10, 60) }

func seconds(n int) string { return strconv.Itoa(n) + "s" }
