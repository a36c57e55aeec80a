package netns_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
	"edgespan/platform/vpn/ipsec"
)

const (
	ipsecNumber  = 3
	ipsecLink    = "evpn3"
	ipsecMark    = 0xe50003
	ipsecTimeout = time.Minute // a virtual machine without KVM is slow
	ipsecInside  = "10.1.0.1"  // behind the node
	peerInside   = "10.2.0.1"  // behind the peer
	ipsecPeer    = "198.18.0.9"
	ipsecSecret  = "a secret of the test"
)

// ipsecLab is a node with two uplinks to a router, and a plain strongSwan behind it:
//
//	node: up0 198.18.1.2/24 ── router ── peer 198.18.0.9/24, 10.2.0.1
//	      up1 198.18.2.2/24 ──
//
// As on a real node, only a rule for the tunnel's mark leads to the peer.
type ipsecLab struct {
	t                  testing.TB
	node, router, peer *netns.NS
	dir                string
	tunnels            *ipsec.Tunnels
	swan               *plainSwan
}

func newIPsecLab(t testing.TB) *ipsecLab {
	t.Helper()
	for _, program := range []string{"/usr/sbin/charon-systemd", "/usr/sbin/swanctl"} {
		if _, err := os.Stat(program); err != nil {
			t.Skip("needs strongSwan (scripts/setup.sh): " + err.Error())
		}
	}
	l := &ipsecLab{t: t, node: netns.New(t), router: netns.New(t), peer: netns.New(t)}
	dir, err := os.MkdirTemp("", "esi") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	l.dir = dir
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // like that of the run folder: a charon is not root
		t.Fatal(err)
	}
	for _, w := range []struct {
		ns         *netns.NS
		link, addr string
		far        string
	}{{l.node, "up0", "198.18.1.2/24", "198.18.1.1/24"}, {l.node, "up1", "198.18.2.2/24", "198.18.2.1/24"},
		{l.peer, "eth0", ipsecPeer + "/24", "198.18.0.1/24"}} {
		far := "r" + w.link
		w.ns.Exec(t, "ip", "link", "add", w.link, "type", "veth", "peer", "name", far, "netns", l.router.Name)
		w.ns.Exec(t, "ip", "addr", "add", w.addr, "dev", w.link)
		l.router.Exec(t, "ip", "addr", "add", w.far, "dev", far)
		w.ns.Exec(t, "ip", "link", "set", w.link, "up")
		l.router.Exec(t, "ip", "link", "set", far, "up")
	}
	l.router.Exec(t, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	l.peer.Exec(t, "ip", "route", "add", "default", "via", "198.18.0.1")
	l.peer.Exec(t, "ip", "addr", "add", peerInside+"/32", "dev", "lo")
	l.choose("up0")
	l.node.Exec(t, "ip", "rule", "add", "prio", "14003", "fwmark", fmt.Sprintf("%#x/0xffffff", ipsecMark), "lookup", "50003")
	l.open()
	t.Cleanup(l.endAll)
	t.Cleanup(func() {
		l.tunnels.Close()
		if t.Failed() {
			for _, file := range []string{"out", "own/log"} {
				text, _ := os.ReadFile(filepath.Join(dir, "run", "ni", "3", "vpn", file))
				t.Logf("%s of charon:\n%s", file, text[max(0, len(text)-6000):])
			}
			if l.swan != nil {
				t.Logf("log of the peer:\n%s", l.swan.log())
			}
		}
	})
	return l
}

// endAll ends the charons of the lab. They are in namespaces of their own, so those of the lab do not end them.
func (l *ipsecLab) endAll() {
	folders, err := filepath.Glob(filepath.Join(l.dir, "run", "ni", "*", "vpn"))
	if err != nil {
		l.t.Error(err)
	}
	for _, folder := range folders {
		strays, err := proc.Marked("STRONGSWAN_CONF=" + filepath.Join(folder, "strongswan.conf"))
		if err != nil {
			l.t.Error(err)
		}
		for _, id := range strays {
			if err := id.Stop(context.Background(), 0); err != nil {
				l.t.Errorf("end charon: %v", err)
			}
		}
	}
}

// open starts as another daemon would.
func (l *ipsecLab) open() {
	if l.tunnels != nil {
		l.tunnels.Close()
	}
	run := filepath.Join(l.dir, "run")
	l.tunnels = ipsec.New(proc.New(l.node.Path), l.node.Path, run, filepath.Join(l.dir, "state"))
}

// choose leads packets with the tunnel's mark out by an uplink.
func (l *ipsecLab) choose(uplink string) {
	at := map[string]string{"up0": "198.18.1", "up1": "198.18.2"}[uplink]
	l.node.Exec(l.t, "ip", "route", "replace", "default", "via", at+".1", "dev", uplink, "src", at+".2", "table", "50003")
}

// vpn is a tunnel with a pre-shared key.
func (l *ipsecLab) vpn(generation uint64) netstate.VPN {
	return netstate.VPN{
		Name: fmt.Sprintf("ni/%d/vpn", ipsecNumber), Link: ipsecLink, MTU: 1400, Mark: ipsecMark, Generation: generation,
		IPsec: &netstate.IPsec{
			Local:   netstate.IPsecEnd{ID: "node.example", Auth: "psk", Secret: ipsecSecret},
			Remote:  netstate.IPsecEnd{ID: "peer.example", Auth: "psk"},
			Address: ipsecPeer, Policies: true,
			Children: []netstate.IPsecChild{{
				Name: "lan", Local: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24")},
				Remote: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/24")},
			}},
		},
	}
}

func (l *ipsecLab) put(v netstate.VPN) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), ipsecTimeout)
	defer cancel()
	if err := l.tunnels.Put(ctx, v); err != nil {
		l.t.Fatalf("put: %v", err)
	}
	l.addressed()
}

// addressed gives the tunnel's link what a network would.
func (l *ipsecLab) addressed() {
	l.t.Helper()
	l.node.Exec(l.t, "ip", "addr", "replace", ipsecInside+"/32", "dev", ipsecLink)
	l.node.Exec(l.t, "ip", "route", "replace", "10.2.0.0/16", "dev", ipsecLink, "src", ipsecInside)
}

func (l *ipsecLab) status() netstate.TunnelStatus {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), ipsecTimeout)
	defer cancel()
	s, err := l.tunnels.Status(ctx, ipsecNumber)
	if err != nil {
		l.t.Fatalf("status: %v", err)
	}
	return s
}

func (l *ipsecLab) observe() (netstate.VPN, bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), ipsecTimeout)
	defer cancel()
	v, found, err := l.tunnels.Observe(ctx, ipsecNumber)
	if err != nil {
		l.t.Fatalf("observe: %v", err)
	}
	return v, found
}

// up waits until the tunnel is up.
func (l *ipsecLab) up() netstate.TunnelStatus {
	l.t.Helper()
	var s netstate.TunnelStatus
	for end := time.Now().Add(ipsecTimeout); !s.Up; time.Sleep(20 * time.Millisecond) {
		if s = l.status(); time.Now().After(end) {
			l.t.Fatalf("the tunnel is not up: %+v", s)
		}
	}
	return s
}

// plainSwan is a strongSwan that is configured by files with its own tools.
type plainSwan struct {
	t   testing.TB
	ns  *netns.NS
	dir string
	cmd *exec.Cmd
}

// startSwan starts the peer with a swanctl.conf.
func (l *ipsecLab) startSwan(conf string) *plainSwan {
	l.t.Helper()
	if l.swan == nil {
		l.swan = &plainSwan{t: l.t, ns: l.peer, dir: filepath.Join(l.dir, "peer")}
		if err := os.MkdirAll(l.swan.dir, 0o700); err != nil {
			l.t.Fatal(err)
		}
		l.t.Cleanup(l.swan.kill)
	}
	l.swan.start()
	l.swan.load(conf)
	return l.swan
}

func (s *plainSwan) start() {
	s.t.Helper()
	esp := "kernel-libipsec"
	if _, err := os.Stat("/dev/net/tun"); err != nil { // in a virtual machine, whose kernel has ESP
		esp = ""
	}
	settings := fmt.Sprintf(`charon-systemd {
	load = %[2]s kernel-netlink random nonce openssl aes sha1 sha2 hmac gcm ccm ctr chapoly curve25519 gmp pkcs1 pkcs8 pem pubkey x509 revocation constraints kdf drbg eap-identity eap-mschapv2 socket-default vici
	plugins {
		vici { socket = unix://%[1]s/vici }

		kernel-netlink { fwmark = !0x42 }
		socket-default { fwmark = 0x42 }
	}
	journal { default = -1 }
	filelog { log { path = %[1]s/log
 default = 1
 flush_line = yes
 append = yes } }
}
`, s.dir, esp)
	file := filepath.Join(s.dir, "strongswan.conf")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		s.t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(s.dir, "vici")) // of one that was killed
	s.cmd = exec.Command("nsenter", "--net="+s.ns.Path, "--", "/usr/sbin/charon-systemd")
	s.cmd.Env = append(os.Environ(), "STRONGSWAN_CONF="+file)
	// As a service: in a session of its own, which the scheduler gives a share of its own (autogroup).
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(ipsecTimeout); ; time.Sleep(10 * time.Millisecond) {
		if out, err := s.swanctl("--version-daemon"); err == nil || time.Now().After(end) {
			if _, err := os.Stat(filepath.Join(s.dir, "vici")); err == nil {
				return
			}
			if time.Now().After(end) {
				s.t.Fatalf("the peer does not start: %s", out)
			}
		}
	}
}

func (s *plainSwan) swanctl(command string, args ...string) (string, error) {
	if command == "--version-daemon" {
		command = "--stats"
	}
	cmd := exec.Command("/usr/sbin/swanctl", append([]string{command, "--uri", "unix://" + s.dir + "/vici"}, args...)...)
	cmd.Env = append(os.Environ(), "STRONGSWAN_CONF="+filepath.Join(s.dir, "strongswan.conf"), "SWANCTL_DIR="+s.dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// load replaces the configuration of the peer.
func (s *plainSwan) load(conf string) {
	s.t.Helper()
	file := filepath.Join(s.dir, "swanctl.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if out, err := s.swanctl("--load-all", "--clear", "--file", file); err != nil {
		s.t.Fatalf("load the peer: %v\n%s", err, out)
	}
}

func (s *plainSwan) log() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(text[max(0, len(text)-6000):])
}

// kill ends the peer at once.
func (s *plainSwan) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGKILL)
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// swanPSK is the configuration of a peer for ipsecLab.vpn. more is put into the connection and into its child.
func swanPSK(secret, conn, child string) string {
	return fmt.Sprintf(`connections { gw {
	version = 2
	local_addrs = %s
	%s
	local { auth = psk
 id = peer.example }
	remote { auth = psk
 id = node.example }
	children { lan {
		local_ts = 10.2.0.0/24
		remote_ts = 10.1.0.0/24
		%s
	} }
} }
secrets { ike-1 { secret = "%s" } }
`, ipsecPeer, conn, child, secret)
}

// pings sends packets from one address to another and returns how many are lost.
func pings(t testing.TB, from *netns.NS, source, to string, count int, every string) int {
	t.Helper()
	out, _ := from.Try("ping", "-q", "-c", fmt.Sprint(count), "-i", every, "-W", "1", "-I", source, to)
	var sent, got int
	for line := range strings.Lines(out) {
		if strings.Contains(line, "packets transmitted") {
			_, _ = fmt.Sscanf(line, "%d packets transmitted, %d received", &sent, &got)
		}
	}
	if sent < count {
		t.Fatalf("ping: %s", out)
	}
	return sent - got
}

// ipsecCA signs certificates of the tests.
type ipsecCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newIPsecCA(t testing.TB) *ipsecCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &ipsecCA{key: key, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of the test"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().AddDate(-1, 0, 0),
		NotAfter: time.Now().AddDate(1, 0, 0), SubjectKeyId: []byte{1, 2, 3},
	}}
	der, err := x509.CreateCertificate(rand.Reader, c.cert, c.cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	c.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return c
}

// issue makes a certificate for a name, with its key.
func (c *ipsecCA) issue(t testing.TB, name string, end time.Time) (cert, key string) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().AddDate(0, -2, 0), NotAfter: end,
	}, c.cert, own.Public(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// startSwanWith starts the peer with a certificate.
func (l *ipsecLab) startSwanWith(ca *ipsecCA, end time.Time, conf string) {
	l.t.Helper()
	cert, key := ca.issue(l.t, "peer.example", end)
	for file, text := range map[string]string{"x509ca/ca.pem": ca.pem, "x509/peer.pem": cert, "private/peer.pem": key} {
		path := filepath.Join(l.dir, "peer", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			l.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
	l.startSwan(conf)
}

// swanCert is the configuration of a peer with a certificate. remote is how the node shows who it is.
func swanCert(remote, more string) string {
	return fmt.Sprintf(`connections { gw {
	version = 2
	local_addrs = %s
	send_cert = always
	%s
	local { auth = pubkey
 id = peer.example
 certs = peer.pem }
	remote { %s }
	children { lan { local_ts = 10.2.0.0/24
 remote_ts = 10.1.0.0/24 } }
} }
`, ipsecPeer, more, remote)
}

// certified is a tunnel with certificates.
func (l *ipsecLab) certified(ca *ipsecCA, end time.Time) netstate.VPN {
	l.t.Helper()
	v := l.vpn(1)
	cert, key := ca.issue(l.t, "node.example", end)
	v.IPsec.Local = netstate.IPsecEnd{ID: "node.example", Auth: "pubkey", Certificate: cert, Key: key}
	v.IPsec.Remote = netstate.IPsecEnd{ID: "peer.example", Auth: "pubkey", CA: ca.pem}
	return v
}

// carries fails the test if packets of either end are lost. On a loaded machine one is lost at times in the first second
// of a tunnel, so it tries three times; what must lose nothing at all is counted by flow.
func (l *ipsecLab) carries() {
	l.t.Helper()
	var to, from int
	for range 3 {
		to = pings(l.t, l.node, ipsecInside, peerInside, 10, "0.01")
		if from = pings(l.t, l.peer, peerInside, ipsecInside, 10, "0.01"); to+from == 0 {
			return
		}
	}
	l.t.Errorf("%d of 10 packets to the peer and %d of 10 from it are lost", to, from)
}

// fails waits for a sentence in the status, which must come within 10 s.
func (l *ipsecLab) fails(begin time.Time, parts ...string) {
	l.t.Helper()
	for {
		s := l.status()
		if !s.Up && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(s.Error, p) }) {
			l.t.Logf("after %.1f s: %s", time.Since(begin).Seconds(), s.Error)
			return
		}
		if time.Since(begin) > 10*time.Second {
			l.t.Fatalf("after 10 s the status says %q, not %q: %+v", s.Error, parts, s)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
