package scenario

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/netinst/probe"
	"edgespan/platform/lab"
)

// meetingPoint is an address at the first provider to which both lead, so that a peer has it whatever uplink is used.
const meetingPoint = "198.18.7.1"

// joinProviders connects the two providers.
func (w *world) joinProviders() {
	w.Helper()
	w.in("isp", "ip", "link", "add", "between", "type", "veth", "peer", "name", "between", "netns", w.NS("isp2"))
	for short, address := range map[string]string{"isp": "198.18.9.1/30", "isp2": "198.18.9.2/30"} {
		w.in(short, "ip", "addr", "add", address, "dev", "between")
		w.in(short, "ip", "link", "set", "between", "up")
		w.in(short, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	}
	w.in("isp", "ip", "addr", "add", meetingPoint+"/32", "dev", "lo")
	w.in("isp", "ip", "route", "add", "203.0.113.0/24", "via", "198.18.9.2")
	w.in("isp2", "ip", "route", "add", "198.18.7.0/24", "via", "198.18.9.1")
}

// When the uplink dies under traffic, the tunnel leaves by the other one, and nothing leaves in the clear.
func TestATunnelMovesToAnotherUplink(t *testing.T) {
	w, p := newVPNWorldOf(t, lab.Options{Apps: []string{"web"}, Second: true})
	w.joinProviders()
	w.in("isp2", "iptables", "-t", "raw", "-A", "PREROUTING", "-s", "10.0.0.0/8", "-j", "DROP")
	network := strings.Replace(vpnNetwork(""), lab.WebAddr, meetingPoint, 1)
	w.start(strings.Replace(doc([]string{network}, onNet(1, 1, "web", allowAll)), wan,
		wan+"  lte: {ifName: uplink1, uplink: true, cost: 10}\n", 1))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	p.learn()
	w.lease("web")
	w.until("the app reaches the peer", func() bool { return w.answered("web", insidePeer) })
	loop, err := w.PingLoop("web", netip.MustParseAddr(insidePeer), 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	flow(t, w, loop)
	if err := w.Break(w.ctx, 0, lab.LinkDown); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w.until("the network leaves by lte", func() bool { return w.status("ni", ni(1))["port"] == "lte" })
	flow(t, w, loop)
	t.Logf("an answer %v after the uplink lost its carrier, by this machine's clock", time.Since(began))
	if took := time.Since(began); took > scaled(20*time.Second) {
		t.Errorf("the tunnel took %v", took)
	}
	if err := w.Repair(w.ctx, 0, lab.LinkDown); err != nil {
		t.Fatal(err)
	}
	w.until("the network is back at wan", func() bool { return w.status("ni", ni(1))["port"] == "wan" })
	flow(t, w, loop)
	loop.Stop()
	if n := w.leaks(); n > 0 {
		t.Errorf("%d packets left outside of the tunnel", n)
	}
	if n := w.in("isp2", "iptables", "-t", "raw", "-L", "PREROUTING", "-nvx"); !strings.Contains(n, "\n       0        0 DROP") {
		t.Errorf("packets at the second provider: %s", n)
	}
}

// The provider of the first uplink lets everything pass but the tunnel: its probes are answered, and the tunnel is dead.
// Within little more than a minute it leaves by the other one, where it is answered, and nothing leaves in the clear.
func TestATunnelThatAProviderDropsLeavesByTheOther(t *testing.T) {
	t.Parallel()
	w, p := newVPNWorldOf(t, lab.Options{Apps: []string{"web"}, Second: true})
	w.joinProviders()
	network := strings.Replace(vpnNetwork(""), lab.WebAddr, meetingPoint, 1)
	w.start(strings.Replace(doc([]string{network}, onNet(1, 1, "web", allowAll)), wan,
		wan+"  lte: {ifName: uplink1, uplink: true, cost: 10}\n", 1))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	p.learn()
	w.lease("web")
	w.until("the app reaches the peer", func() bool { return w.answered("web", insidePeer) })
	for _, rule := range []string{"PREROUTING ! -i between -p udp --dport", "OUTPUT ! -o between -p udp --sport"} {
		w.in("isp", strings.Fields("iptables -t mangle -A "+rule+" "+fmt.Sprint(peerPort)+" -j DROP")...)
	}
	began := time.Now()
	w.until("the app does not reach the peer", func() bool { return !w.answered("web", insidePeer) })
	end := time.Now().Add(probe.TunnelSilence + 45*time.Second)
	for !w.answered("web", insidePeer) {
		if time.Now().After(end) {
			t.Fatalf("the tunnel is dead for %v: %v", time.Since(began), w.status("ni", ni(1)))
		}
	}
	t.Logf("an answer %v after the provider began to drop the tunnel", time.Since(began))
	if port := w.status("ni", ni(1))["port"]; port != "lte" {
		t.Errorf("the network leaves by %v", port)
	}
	if said := w.cli("explain", "ni/"+ni(1)); !strings.Contains(said, "wan: tunnel not answered") {
		t.Errorf("explain says %s", said)
	}
	if said := w.cli("get", "port", "-o", "wide"); !strings.Contains(said, "tunnel not answered") {
		t.Errorf("get port says %s", said)
	}
	if n := w.leaks(); n > 0 {
		t.Errorf("%d packets left outside of the tunnel", n)
	}
}

// BenchmarkUplinkTunnelMoves measures, for each loss of the carrier of the uplink in use, how long it takes until a
// packet that an app sends afterwards is answered through a WireGuard tunnel. No packet may leave outside of it.
func BenchmarkUplinkTunnelMoves(b *testing.B) {
	w, p := newVPNWorldOf(b, lab.Options{Apps: []string{"web"}, Second: true})
	w.joinProviders()
	network := strings.Replace(vpnNetwork(""), lab.WebAddr, meetingPoint, 1)
	w.start(strings.Replace(doc([]string{network}, onNet(1, 1, "web", allowAll)), wan,
		wan+"  lte: {ifName: uplink1, uplink: true}\n", 1))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	p.learn()
	w.lease("web")
	answered := func() bool {
		r, err := w.Exec(w.ctx, "web", "ping", "-q", "-c", "1", "-W", "0.2", insidePeer)
		return err == nil && r.Code == 0
	}
	w.until("the app reaches the peer", answered)
	var took []time.Duration
	for b.Loop() {
		used := map[any]int{"wan": 0, "lte": 1}[w.status("ni", ni(1))["port"]]
		at := w.breakUplink(used, lab.LinkDown)
		w.until("an answer by the other uplink", answered)
		took = append(took, time.Since(at))
		w.until("the network leaves by the other uplink", func() bool {
			return w.status("ni", ni(1))["port"] == uplinkLabels[1-used]
		})
		w.repairUplink(used, lab.LinkDown)
	}
	if n := w.leaks(); n > 0 {
		b.Errorf("%d packets left outside of the tunnel", n)
	}
	distribution(b, took)
}

// swan is a plain strongSwan at the provider's web server, without edgespan.
type swan struct {
	*world
	dir string
}

func newSwan(w *world) *swan {
	w.Helper()
	for _, program := range []string{"/usr/sbin/charon-systemd", "/usr/sbin/swanctl"} {
		if _, err := os.Stat(program); err != nil {
			w.Skipf("no strongSwan: %v", err)
		}
	}
	dir, err := os.MkdirTemp("", "esswan") // a short path, for its socket
	if err != nil {
		w.Fatal(err)
	}
	s := &swan{w, dir}
	settings := fmt.Sprintf("charon-systemd {\nload = kernel-libipsec kernel-netlink random nonce openssl aes sha1 sha2 hmac gcm "+
		"ctr curve25519 gmp kdf drbg socket-default vici\nplugins {\nvici { socket = unix://%s/vici }\nkernel-netlink { fwmark = "+
		"!0x42 }\nsocket-default { fwmark = 0x42 }\n}\n}\n", dir)
	if err := os.WriteFile(filepath.Join(dir, "strongswan.conf"), []byte(settings), 0o600); err != nil {
		w.Fatal(err)
	}
	cmd := w.Command(w.ctx, "isp", "/usr/sbin/charon-systemd")
	cmd.Env = append(os.Environ(), "STRONGSWAN_CONF="+filepath.Join(dir, "strongswan.conf"))
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	})
	w.until("the peer answers", func() bool { _, err := s.swanctl("--stats"); return err == nil })
	return s
}

func (s *swan) swanctl(args ...string) (string, error) {
	cmd := exec.CommandContext(s.ctx, "/usr/sbin/swanctl", append(args, "--uri", "unix://"+s.dir+"/vici")...)
	cmd.Env = append(os.Environ(), "STRONGSWAN_CONF="+filepath.Join(s.dir, "strongswan.conf"), "SWANCTL_DIR="+s.dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// share makes the peer accept the node by a shared key.
func (s *swan) share(key string) {
	s.Helper()
	conf := fmt.Sprintf("connections { gw {\nversion = 2\nlocal_addrs = %s\nlocal { auth = psk\nid = peer.example }\nremote { "+
		"auth = psk\nid = node.example }\nchildren { lan {\nlocal_ts = 10.7.0.0/24\nremote_ts = 10.1.0.0/24\n} }\n} }\n"+
		"secrets { ike-1 { secret = %q } }\n", lab.WebAddr, key)
	file := filepath.Join(s.dir, "swanctl.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		s.Fatal(err)
	}
	if out, err := s.swanctl("--load-all", "--clear", "--file", file); err != nil {
		s.Fatalf("load the peer: %v\n%s", err, out)
	}
}

// An IPsec network speaks with a plain strongSwan: a wrong key is said in a sentence, and with the right one packets pass
// both ways, over a kill of the daemon.
func TestAnIPsecNetworkAndAPlainStrongSwan(t *testing.T) {
	w := newWorld(t, "web")
	s := newSwan(w)
	w.in("isp", "ip", "addr", "add", insidePeer+"/24", "dev", "lo")
	w.in("isp", "iptables", "-t", "raw", "-A", "PREROUTING", "-i", w.Provider(0).Peer, "-s", "10.1.0.0/24", "-j", "DROP")
	s.share("the right key")
	network := func(key string) string {
		return fmt.Sprintf("  %s:\n    displayName: tunnelled\n    type: vpn\n    port: uplink\n    ipv4: {subnet: 10.1.0.0/24}\n"+
			"    vpn:\n      method: ipsec\n      ipsec: {remote: %s, psk: %s, localId: node.example, remoteId: peer.example, "+
			"children: {lan: {local: 10.1.0.0/24, remote: 10.7.0.0/24}}}\n", ni(1), lab.WebAddr, key)
	}
	w.start(doc([]string{network("a wrong key")}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	address := w.lease("web").IP.String()
	w.fails("web", "ping", "-q", "-c", "1", "-W", "1", insidePeer)
	text := ""
	w.until("explain names the key", func() bool {
		text = w.cli("explain", "ni/"+ni(1))
		return strings.Contains(text, "the tunnel is down: ") && strings.Contains(text, "key")
	})
	t.Log(text)

	w.apply(doc([]string{network("the right key")}, onNet(1, 1, "web", allowAll)))
	w.until("the app reaches the peer", func() bool { return w.answered("web", insidePeer) })
	r, err := w.Exec(w.ctx, "isp", "ping", "-q", "-c", "1", "-W", "1", "-I", insidePeer, address)
	if err != nil || r.Code != 0 {
		t.Errorf("the peer does not reach the app: %s", r.Out)
	}
	t.Log(w.cli("get", "tunnel", "-o", "wide"), w.cli("explain", "ni/"+ni(1)))
	loop, err := w.PingLoop("web", netip.MustParseAddr(insidePeer), 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	flow(t, w, loop)
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	flow(t, w, loop)
	w.restart()
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	flow(t, w, loop)
	if s := loop.Stop(); s.Lost+s.Wrong > 0 {
		t.Errorf("pings over a kill: %v", s)
	}
	if n := w.leaks(); n > 0 {
		t.Errorf("%d packets left outside of the tunnel", n)
	}
	w.apply(doc(nil))
	w.wait("absent", "ni/"+ni(1))
	if out := w.in("node", "ip", "-br", "link"); strings.Contains(out, "evpn") {
		t.Errorf("a link is left: %s", out)
	}
}
