package scenario

import (
	"crypto/ecdh"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// vpnPeer is a plain wireguard-go, configured by its own protocol, at the provider's web server: 10.7.0.1 in the tunnel.
type vpnPeer struct {
	*world
	folder string
	cmd    *exec.Cmd
	set    string // its configuration
}

// The keys of the peer, which no other has, and what must be shown nowhere.
const (
	peerPrivate = "QEqJ1YLkYvTC3SUpVUXdQVTjD6CzxGmVkUcYQdxH7kQ="
	preshared   = "Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2E="
	peerPort    = 51820
	insidePeer  = "10.7.0.1"
)

func vpnNetwork(more string) string {
	return fmt.Sprintf("  %s:\n    displayName: tunnelled\n    type: vpn\n    port: uplink\n    ipv4: {subnet: 10.1.0.0/24}\n"+
		"    vpn:\n      method: wireguard\n      address: 10.7.0.2/24\n%s      wireguard:\n        peers:\n          hub: {"+
		"publicKey: %s, presharedKey: %s, endpoint: \"%s:%d\", allowedIPs: 0.0.0.0/0, keepalive: 1}\n", ni(1), more,
		publicOf(peerPrivate), preshared, lab.WebAddr, peerPort)
}

// publicOf returns the public key of a private one.
func publicOf(private string) string {
	b, err := base64.StdEncoding.DecodeString(private)
	if err != nil {
		panic(err)
	}
	k, err := ecdh.X25519().NewPrivateKey(b)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(k.PublicKey().Bytes())
}

func (p *vpnPeer) start() {
	p.Helper()
	p.cmd = p.Command(p.ctx, "isp", binary, "wireguard-tunnel", p.folder, "wgp")
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(p.stop)
	p.until("the peer's process answers", func() bool { return p.ask("get=1\n\n") == nil })
	if p.set != "" {
		p.configure(p.set)
	}
}

func (p *vpnPeer) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *vpnPeer) ask(request string) error {
	conn, err := net.Dial("unix", filepath.Join(p.folder, "wg.sock"))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		return err
	}
	text, err := io.ReadAll(conn)
	if err == nil && !strings.Contains(string(text), "errno=0\n") {
		err = fmt.Errorf("refused: %s", text)
	}
	return err
}

func (p *vpnPeer) configure(set string) {
	p.Helper()
	p.set = set
	if err := p.ask("set=1\n" + set + "\n"); err != nil {
		p.Fatal(err)
	}
}

func inHex(t testing.TB, key string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(b)
}

// until waits for a condition.
func (w *world) until(what string, cond func() bool) {
	w.Helper()
	for end := time.Now().Add(30 * time.Second); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("not within 30 s: %s", what)
		}
	}
}

// newVPNWorld has a peer that does not know the node yet, and counts packets of the network that reach the provider
// outside of the tunnel.
func newVPNWorld(t *testing.T) (*world, *vpnPeer) {
	t.Helper()
	return newVPNWorldOf(t, lab.Options{Apps: []string{"web"}})
}

// newVPNWorldOf is newVPNWorld with more options of the lab.
func newVPNWorldOf(t testing.TB, o lab.Options) (*world, *vpnPeer) {
	t.Helper()
	w := newWorldOf(t, o)
	p := &vpnPeer{world: w, folder: filepath.Join(t.TempDir(), "peer")}
	if err := os.MkdirAll(p.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	w.in("isp", "ip", "tuntap", "add", "dev", "wgp", "mode", "tun")
	w.in("isp", "ip", "addr", "add", insidePeer+"/24", "dev", "wgp")
	w.in("isp", "ip", "link", "set", "wgp", "mtu", "1420", "up")
	w.in("isp", "ip", "route", "add", "10.1.0.0/24", "dev", "wgp")
	for _, inside := range []string{"10.1.0.0/24", "10.7.0.0/24"} {
		w.in("isp", "iptables", "-t", "raw", "-A", "PREROUTING", "!", "-i", "wgp", "-s", inside, "-j", "DROP")
	}
	p.start()
	p.configure(fmt.Sprintf("private_key=%s\nlisten_port=%d\n", inHex(t, peerPrivate), peerPort))
	return w, p
}

// leaks returns how many packets from inside have reached the provider outside of the tunnel.
func (w *world) leaks() (n int) {
	w.Helper()
	for _, line := range strings.Split(w.in("isp", "iptables", "-t", "raw", "-L", "PREROUTING", "-nvx"), "\n") {
		var packets int
		if _, err := fmt.Sscan(line, &packets); err == nil && strings.Contains(line, "DROP") {
			n += packets
		}
	}
	return n
}

// tunnel reads the status of the network's tunnel; nil if it has none yet.
func (w *world) tunnel() map[string]any {
	w.Helper()
	r, err := w.CLI(w.ctx, "get", "tunnel", ni(1), "-o", "json")
	if err != nil {
		w.Fatal(err)
	}
	var one struct{ Status map[string]any }
	if r.Code != 0 || json.Unmarshal([]byte(r.Out), &one) != nil {
		return nil
	}
	return one.Status
}

// learn tells the peer the key that the node has made.
func (p *vpnPeer) learn() {
	p.Helper()
	key := ""
	p.until("the node shows its public key", func() bool {
		key, _ = p.tunnel()["publicKey"].(string)
		return key != ""
	})
	p.configure(fmt.Sprintf("private_key=%s\nlisten_port=%d\npublic_key=%s\npreshared_key=%s\nallowed_ip=10.1.0.0/24\n"+
		"allowed_ip=10.7.0.2/32\n", inHex(p.TB, peerPrivate), peerPort, inHex(p.TB, key), inHex(p.TB, preshared)))
}

// answered reports whether a ping is answered.
func (w *world) answered(from, to string) bool {
	r, err := w.Exec(w.ctx, from, "ping", "-q", "-c", "1", "-W", "1", to)
	return err == nil && r.Code == 0
}

func TestAVPNNetworkReachesTheWorldThroughItsTunnelAlone(t *testing.T) {
	w, p := newVPNWorld(t)
	w.start(doc([]string{vpnNetwork("")}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	address := w.lease("web").IP.String()

	// The peer does not know the node: nothing passes, nothing leaks, and the node says why.
	for _, to := range []string{insidePeer, lab.WebAddr, lab.DNSAddr} {
		w.fails("web", "ping", "-q", "-c", "1", "-W", "1", to)
	}
	w.until("explain says that the tunnel is down", func() bool {
		return strings.Contains(w.cli("explain", "ni/"+ni(1)), "the tunnel is down: ")
	})
	t.Log(w.cli("explain", "ni/"+ni(1)))

	p.learn()
	w.until("the app reaches the peer", func() bool { return w.answered("web", insidePeer) })
	if !w.answered("isp", address) {
		t.Error("the peer does not reach the app")
	}
	w.until("the tunnel is up", func() bool { return w.tunnel()["state"] == "up" })
	w.until("its event", func() bool { return strings.Contains(w.cli("events", "ni/"+ni(1)), "tunnel") })
	t.Log(w.cli("get", "tunnel"), w.cli("explain", "ni/"+ni(1)))
	if text := w.cli("diff"); strings.Contains(text, "vpn") {
		t.Errorf("diff: %s", text)
	}

	// A killed daemon loses no packet, and starts no second process.
	helpers := func() string { return w.in("node", "pgrep", "-f", "wireguard-tunnel "+w.RunDir()) }
	before := helpers()
	loop, err := w.PingLoop("web", netip.MustParseAddr(insidePeer), 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		flow(t, w, loop)
		if err := w.node.Kill(); err != nil {
			t.Fatal(err)
		}
		flow(t, w, loop)
		w.restart()
		w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	}
	flow(t, w, loop)
	if s := loop.Stop(); s.Lost+s.Wrong > 0 || s.Good < 200 {
		t.Errorf("pings over two kills: %v", s)
	}
	if after := helpers(); after != before {
		t.Errorf("processes %q, before %q", after, before)
	}

	// Without policy rules nothing leaves in the clear, until they are repaired.
	for range 5 {
		_, _ = w.Exec(w.ctx, "node", "ip", "rule", "del", "pref", "20001")
		_, _ = w.Exec(w.ctx, "web", "ping", "-q", "-c", "5", "-i", "0.02", "-W", "1", insidePeer)
	}
	w.until("it is repaired", func() bool { return w.answered("web", insidePeer) })

	// The peer goes away and comes back.
	p.stop()
	w.fails("web", "ping", "-q", "-c", "1", "-W", "1", insidePeer)
	p.start()
	w.until("the peer is back", func() bool { return w.answered("web", insidePeer) })

	// Not activated, the network has no tunnel and no way out.
	w.apply(doc([]string{strings.Replace(vpnNetwork(""), "type: vpn", "type: vpn\n    activate: false", 1)},
		onNet(1, 1, "web", allowAll)))
	w.until("the tunnel is gone", func() bool {
		r, err := w.Exec(w.ctx, "node", "ip", "link", "show", "evpn1")
		return err == nil && r.Code != 0
	})
	if n := w.leaks(); n > 0 {
		t.Errorf("%d packets left outside of the tunnel", n)
	}
	w.apply(doc(nil))
	w.wait("absent", "ni/"+ni(1))
	if out := w.in("node", "ip", "rule") + w.in("node", "ip", "route", "show", "table", "all"); strings.Contains(out, "50001") {
		t.Errorf("something is left: %s", out)
	}
}

// A secret is in the config, in the memory of who needs it, and in files that only root may read: nowhere else.
func TestSecretsOfATunnelAreShownNowhere(t *testing.T) {
	w, p := newVPNWorld(t)
	const private = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U="
	config := doc([]string{strings.Replace(vpnNetwork(""), "wireguard:\n        peers",
		"wireguard:\n        privateKey: "+private+"\n        peers", 1)}, onNet(1, 1, "web", allowAll))
	w.start(config)
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	p.learn()
	w.lease("web")
	w.until("the app reaches the peer", func() bool { return w.answered("web", insidePeer) })
	archive := filepath.Join(t.TempDir(), "support.tar.gz")
	w.cli("support", "-o", archive)
	texts := map[string]string{"support": w.in("node", "tar", "-xzOf", archive)}
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(config, "10.7.0.2/24", "10.7.0.3/24", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"get", "ni", "-o", "yaml"}, {"get", "ni", "-o", "json"}, {"get", "tunnel", "-o", "yaml"},
		{"get", "config", "-o", "yaml"}, {"get", "param", "-o", "json"}, {"get", "actor", "-o", "json"}, {"plan", "-f", file},
		{"diff"}, {"explain", "ni/" + ni(1)}, {"events", "-o", "json"}, {"metrics"}, {"history"}} {
		r, err := w.CLI(w.ctx, args...)
		if err != nil {
			t.Fatal(err)
		}
		texts[strings.Join(args, " ")] = r.Out + r.Err
	}
	log, err := os.ReadFile(w.NodeLog())
	if err != nil {
		t.Fatal(err)
	}
	texts["log"] = string(log)
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range append(lines, environs(lines)...) {
		b, _ := os.ReadFile(name) // "" for a process that has ended
		texts[name] = string(b)
	}
	for where, text := range texts {
		for _, secret := range []string{private, preshared, inHex(t, private), inHex(t, preshared)} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows a secret", where)
			}
		}
	}
	found := 0
	err = filepath.WalkDir(w.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == w.ConfigFile() {
			return err
		}
		b, err := os.ReadFile(path)
		st, statErr := os.Stat(path)
		if err != nil || statErr != nil || !strings.Contains(string(b), preshared) && !strings.Contains(string(b), private) {
			return nil
		}
		if found++; st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has a secret and mode %v", path, st.Mode())
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("files with secrets: %d, %v: the state folder has the config", found, err)
	}
}

func environs(lines []string) (out []string) {
	for _, name := range lines {
		out = append(out, strings.TrimSuffix(name, "cmdline")+"environ")
	}
	return out
}
