package netns_test

import (
	"context"
	"crypto/ecdh"
	crand "crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
	"edgespan/platform/vpn/wireguard"
	"edgespan/platform/vpn/wireguard/helper"
)

// TestMain lets the tests' own program run the helpers of tunnels, as edgespan does.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == helper.Command {
		if err := helper.Run(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	wgNumber  = 3
	wgLink    = "evpn3"
	wgPort    = 51820
	wgTimeout = 20 * time.Second
)

// wgKeys are a private key and its public one.
type wgKeys struct{ private, public [32]byte }

func newWGKeys(t testing.TB) wgKeys {
	t.Helper()
	k, err := ecdh.X25519().GenerateKey(crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return wgKeys{[32]byte(k.Bytes()), [32]byte(k.PublicKey().Bytes())}
}

func b64(k [32]byte) string { return base64.StdEncoding.EncodeToString(k[:]) }

func hexKey(k [32]byte) string { return hex.EncodeToString(k[:]) }

// wgUntil waits for a condition that takes longer than until allows.
func wgUntil(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// wgLab is a node with one tunnel, and plain wireguard-go peers without edgespan, on one underlay: 198.18.0.0/24, of
// which the node has .1 and peer i .(i+2). In the tunnel, 10.7.0.0/24, they have the same last numbers.
type wgLab struct {
	testing.TB
	under, node *netns.NS
	run, state  string
	keys        wgKeys
	tunnels     *wireguard.Tunnels
	peers       []*wgPeer
}

// wgPeer is a process of wireguard-go that is configured by its own protocol.
type wgPeer struct {
	testing.TB
	ns     *netns.NS
	folder string
	keys   wgKeys
	under  netip.Addr
	inside netip.Addr
	cmd    *exec.Cmd
}

func newWGLab(t testing.TB, peers int) *wgLab {
	t.Helper()
	l := &wgLab{TB: t, under: netns.New(t), node: netns.New(t), keys: newWGKeys(t)}
	dir, err := os.MkdirTemp("", "eswg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l.run, l.state = filepath.Join(dir, "run"), filepath.Join(dir, "state")
	l.under.Exec(t, "ip", "link", "add", "sw", "type", "bridge")
	l.under.Exec(t, "ip", "link", "set", "sw", "up")
	l.plug(l.node, 1)
	for i := range peers {
		p := &wgPeer{TB: t, ns: netns.New(t), folder: filepath.Join(dir, "peer"+strconv.Itoa(i)), keys: newWGKeys(t),
			under: wgUnder(i + 2), inside: wgInside(i + 2)}
		if err := os.MkdirAll(p.folder, 0o700); err != nil {
			t.Fatal(err)
		}
		l.plug(p.ns, i+2)
		p.ns.Exec(t, "ip", "tuntap", "add", "dev", "wgp", "mode", "tun")
		p.ns.Exec(t, "ip", "addr", "add", p.inside.String()+"/24", "dev", "wgp")
		p.ns.Exec(t, "ip", "link", "set", "wgp", "mtu", "1420", "up")
		p.start()
		p.set("private_key=%s\nlisten_port=%d\n%s", hexKey(p.keys.private), wgPort, p.ofNode(l, ""))
		l.peers = append(l.peers, p)
	}
	l.open()
	t.Cleanup(func() {
		l.tunnels.Close()
		tunnels := wireguard.New(proc.New(l.node.Path), l.node.Path, l.run, l.state)
		defer tunnels.Close()
		ctx, cancel := context.WithTimeout(context.Background(), wgTimeout)
		defer cancel()
		if err := tunnels.Remove(ctx, l.vpn(1)); err != nil {
			t.Error(err)
		}
	})
	return l
}

func wgUnder(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 0, byte(i)}) }

// wgUnder6 are addresses of the underlay, too.
func wgUnder6(i int) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, 0, 1, 0x98, 15: byte(i)})
}

func wgInside(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 7, 0, byte(i)}) }

// plug connects a namespace with the underlay.
func (l *wgLab) plug(ns *netns.NS, i int) {
	n := strconv.Itoa(i)
	l.under.Exec(l, "ip", "link", "add", "p"+n, "type", "veth", "peer", "name", "u0", "netns", ns.Name)
	l.under.Exec(l, "ip", "link", "set", "p"+n, "master", "sw", "up")
	ns.Exec(l, "ip", "link", "set", "u0", "addrgenmode", "none", "up")
	ns.Exec(l, "ip", "addr", "add", wgUnder(i).String()+"/24", "dev", "u0")
	ns.Exec(l, "ip", "addr", "add", wgUnder6(i).String()+"/64", "dev", "u0", "nodad")
}

// open is another start of the daemon.
func (l *wgLab) open() {
	if l.tunnels != nil {
		l.tunnels.Close()
	}
	l.tunnels = wireguard.New(proc.New(l.node.Path), l.node.Path, l.run, l.state)
}

// vpn is the desired tunnel, with all peers, each called by the node.
func (l *wgLab) vpn(generation uint64) netstate.VPN {
	v := netstate.VPN{
		Name: "ni/3/vpn", Link: wgLink, MTU: 1420, Mark: 0xe50003, Generation: generation,
		WireGuard: &netstate.WireGuard{PrivateKey: b64(l.keys.private), Identity: "n3", ListenPort: wgPort},
		Limits:    netstate.ProcessLimits{Memory: 256, Processor: 100, Processes: 64},
	}
	for i, p := range l.peers {
		v.WireGuard.Peers = append(v.WireGuard.Peers, netstate.WireGuardPeer{
			Name: "peer" + strconv.Itoa(i), PublicKey: b64(p.keys.public), Endpoint: fmt.Sprintf("%s:%d", p.under, wgPort),
			AllowedIPs: []netip.Prefix{netip.PrefixFrom(p.inside, 32)},
		})
	}
	return v
}

// put puts the tunnel, which then must be as desired, and gives its link the node's address.
func (l *wgLab) put(v netstate.VPN) {
	l.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wgTimeout)
	defer cancel()
	if err := l.tunnels.Put(ctx, v); err != nil {
		l.Fatalf("put: %v", err)
	}
	l.asDesired(v)
	l.node.Exec(l, "ip", "addr", "replace", wgInside(1).String()+"/24", "dev", wgLink)
}

func (l *wgLab) observe() netstate.VPN {
	l.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wgTimeout)
	defer cancel()
	v, found, err := l.tunnels.Observe(ctx, wgNumber)
	if err != nil || !found {
		l.Fatalf("observe: found %v, %v", found, err)
	}
	return v
}

func (l *wgLab) asDesired(v netstate.VPN) {
	l.Helper()
	if got := l.observe(); got.Text() != v.Text() || got.ID() != v.ID() {
		l.Fatalf("observed %s, not as desired: %s", got.Text(), v.Text())
	}
}

func (l *wgLab) status() netstate.TunnelStatus {
	l.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wgTimeout)
	defer cancel()
	s, err := l.tunnels.Status(ctx, wgNumber)
	if err != nil {
		l.Fatalf("status: %v", err)
	}
	return s
}

// helper is the process of the node's tunnel; it skips a test about one where the kernel carries the packets.
func (l *wgLab) helper() proc.Ident {
	l.Helper()
	if l.status().By != "process" {
		l.Skip("the kernel has WireGuard: no process")
	}
	all, err := proc.List()
	if err != nil {
		l.Fatal(err)
	}
	var found []proc.Ident
	for _, p := range all {
		if len(p.Argv) == 4 && p.Argv[1] == helper.Command && strings.HasPrefix(p.Argv[2], l.run) {
			found = append(found, p.Ident)
		}
	}
	if len(found) != 1 {
		l.Fatalf("%d processes of the tunnel", len(found))
	}
	return found[0]
}

// start runs the peer's process.
func (p *wgPeer) start() {
	p.Helper()
	self, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	p.cmd = exec.Command("nsenter", "--net="+p.ns.Path, "--", self, helper.Command, p.folder, "wgp")
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(p.stop)
	until(p, "the peer's process answers", func() bool { _, err := p.ask("get=1\n\n"); return err == nil })
}

func (p *wgPeer) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *wgPeer) ask(request string) (string, error) { return p.askAt(helper.SocketName, request) }

func (p *wgPeer) askAt(socket, request string) (string, error) {
	conn, err := net.Dial("unix", filepath.Join(p.folder, socket))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		return "", err
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	if err == nil && !strings.Contains(string(text), "errno=0\n") {
		err = errors.New("refused: " + string(text))
	}
	return string(text), err
}

func (p *wgPeer) set(format string, args ...any) {
	p.Helper()
	if _, err := p.ask("set=1\n" + fmt.Sprintf(format, args...) + "\n"); err != nil {
		p.Fatal(err)
	}
}

// ofNode is the node in the configuration of the peer, with more lines.
func (p *wgPeer) ofNode(l *wgLab, more string) string {
	return fmt.Sprintf("public_key=%s\nallowed_ip=%s/32\n%s", hexKey(l.keys.public), wgInside(1), more)
}

var pingCounts = regexp.MustCompile(`(\d+) packets transmitted, (\d+) received`)

// ping sends count packets, one each interval, and returns how many are lost.
func ping(t testing.TB, ns *netns.NS, to netip.Addr, count int, interval string) (lost int) {
	t.Helper()
	out, _ := ns.Try("ping", "-q", "-c", strconv.Itoa(count), "-i", interval, "-W", "2", to.String())
	m := pingCounts.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("ping: %s", out)
	}
	got, err := strconv.Atoi(m[2])
	if err != nil {
		t.Fatal(err)
	}
	return count - got
}

// reached waits until a packet is answered: a handshake that is lost is repeated after 5 s.
func reached(t testing.TB, ns *netns.NS, to netip.Addr) {
	t.Helper()
	wgUntil(t, wgTimeout, "answer of "+to.String(), func() bool {
		_, err := ns.Try("ping", "-q", "-c", "1", "-W", "1", to.String())
		return err == nil
	})
}

// during sends an echo request every 10 ms while f runs, and returns how many are not answered.
func during(t testing.TB, ns *netns.NS, to netip.Addr, f func()) (lost int) {
	t.Helper()
	var conn *net.IPConn
	ns.Do(t, func() (err error) {
		conn, err = net.DialIP("ip4:icmp", nil, &net.IPAddr{IP: to.AsSlice()})
		return err
	})
	var sent, got atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	id := uint16(rand.Uint32())
	go func() {
		defer close(done)
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
				_, _ = conn.Write(echoRequest(id, uint16(sent.Add(1)))) // one that can't be sent is lost
			}
		}
	}()
	go func() {
		seen := map[uint16]bool{}
		for buf := make([]byte, 1500); ; {
			n, _, err := conn.ReadFromIP(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil || n < 8 || buf[0] != 0 || binary.BigEndian.Uint16(buf[4:]) != id {
				continue // an error of an earlier one, or not an answer to this query
			}
			if seq := binary.BigEndian.Uint16(buf[6:]); !seen[seq] {
				seen[seq] = true
				got.Add(1)
			}
		}
	}()
	wgUntil(t, wgTimeout, "20 packets before", func() bool { return got.Load() >= 20 })
	f()
	after := got.Load() + 20
	wgUntil(t, wgTimeout, "20 packets after", func() bool { return got.Load() >= after })
	close(stop)
	<-done
	for end := time.Now().Add(3 * time.Second); got.Load() < sent.Load() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	lost = int(sent.Load() - got.Load())
	_ = conn.Close()
	return lost
}

// echoRequest is an ICMP message (RFC 792) with its checksum.
func echoRequest(id, seq uint16) []byte {
	m := make([]byte, 56)
	m[0] = 8
	binary.BigEndian.PutUint16(m[4:], id)
	binary.BigEndian.PutUint16(m[6:], seq)
	sum := uint32(8)<<8 + uint32(id) + uint32(seq)
	for sum>>16 > 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(m[2:], ^uint16(sum))
	return m
}
