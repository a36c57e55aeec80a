package netns_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/vpn/wireguard/helper"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

func TestAWireGuardTunnelCarriesPacketsBothWays(t *testing.T) {
	t.Parallel()
	l := newWGLab(t, 2)
	v := l.vpn(1)
	endpoints := []string{"198.18.0.2:51820", net.JoinHostPort(wgUnder6(3).String(), "51820")}
	v.WireGuard.Peers[1].Endpoint = endpoints[1]
	l.put(v)
	for _, p := range l.peers {
		reached(t, l.node, p.inside)
		if lost := ping(t, p.ns, wgInside(1), 50, "0.01"); lost > 0 {
			t.Errorf("%d of 50 packets from a peer are lost", lost)
		}
	}
	if err := echo(t, l, l.peers[0]); err != nil {
		t.Errorf("TCP: %v", err)
	}
	s := l.status()
	if !s.Up || s.Error != "" || s.PublicKey != b64(l.keys.public) || len(s.Peers) != 2 {
		t.Fatalf("status: %+v", s)
	}
	for i, p := range s.Peers {
		if !p.Up || p.Identity != b64(l.peers[i].keys.public) || p.Endpoint != endpoints[i] ||
			time.Since(p.LastHandshake) > time.Minute || p.Received == 0 || p.Sent == 0 {
			t.Errorf("status of a peer: %+v", p)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), wgTimeout)
	defer cancel()
	for range 2 { // a missing one is no error
		if err := l.tunnels.Remove(ctx, v); err != nil {
			t.Fatal(err)
		}
	}
	if _, found, err := l.tunnels.Observe(ctx, wgNumber); found || err != nil {
		t.Errorf("after its removal: found %v, %v", found, err)
	}
	if out, err := l.node.Try("ip", "link", "show", wgLink); err == nil {
		t.Errorf("its link stays: %s", out)
	}
	if _, err := os.Stat(filepath.Join(l.run, "ni/3/vpn")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder stays: %v", err)
	}
}

// echo sends 4 MiB through the tunnel by TCP, and compares what comes back.
func echo(t *testing.T, l *wgLab, p *wgPeer) error {
	t.Helper()
	var listen net.Listener
	p.ns.Do(t, func() (err error) {
		listen, err = net.Listen("tcp", p.inside.String()+":7")
		return err
	})
	defer listen.Close()
	go func() {
		conn, err := listen.Accept()
		if err == nil {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	var conn net.Conn
	l.node.Do(t, func() (err error) {
		conn, err = net.DialTimeout("tcp", p.inside.String()+":7", wgTimeout)
		return err
	})
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(wgTimeout)); err != nil {
		return err
	}
	text := strings.Repeat("edgespan", 4<<20/8)
	go func() {
		_, _ = io.WriteString(conn, text)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	if err == nil && string(got) != text {
		err = errors.New("other bytes came back")
	}
	return err
}

func TestATunnelOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	l := newWGLab(t, 1)
	v := l.vpn(1)
	l.put(v)
	reached(t, l.node, l.peers[0].inside)
	old := l.helper()
	if lost := during(t, l.node, l.peers[0].inside, func() {
		l.open() // as after kill -9: the new Tunnels know nothing
		l.asDesired(v)
		l.put(v)
	}); lost > 0 {
		t.Errorf("%d packets are lost", lost)
	}
	if now := l.helper(); now != old {
		t.Errorf("process %v became %v", old, now)
	}

	// Killed between the start of the process and its record: the process is found by its command line.
	if err := os.Remove(filepath.Join(l.run, "ni/3/vpn/wireguard.json")); err != nil {
		t.Fatal(err)
	}
	l.open()
	if got := l.observe(); got.Text() == v.Text() {
		t.Error("without its record it is as desired")
	}
	if lost := during(t, l.node, l.peers[0].inside, func() { l.put(v) }); lost > 0 {
		t.Errorf("%d packets are lost while it is adopted", lost)
	}
	if now := l.helper(); now != old {
		t.Errorf("process %v became %v", old, now)
	}
}

func TestADeadTunnelSaysSoAndIsMended(t *testing.T) {
	t.Parallel()
	l := newWGLab(t, 1)
	v := l.vpn(1)
	l.put(v)
	reached(t, l.node, l.peers[0].inside)
	l.open()
	l.asDesired(v) // an adopted one is watched, too
	old := l.helper()
	if err := old.Signal(9); err != nil {
		t.Fatal(err)
	}
	select {
	case n := <-l.tunnels.Ended():
		if n != wgNumber {
			t.Errorf("the process of network %d has ended", n)
		}
	case <-time.After(wgTimeout):
		t.Fatal("its end is not told")
	}
	if got := l.observe(); got.Text() == v.Text() {
		t.Error("without its process it is as desired")
	}
	if s := l.status(); s.Up || !strings.HasPrefix(s.Error, "the tunnel's process has ended") {
		t.Errorf("status: %+v", s)
	}
	l.put(v)
	reached(t, l.node, l.peers[0].inside)
	if _, err := l.node.Try("ip", "addr", "show", "dev", wgLink); err != nil {
		t.Errorf("its link: %v", err)
	}
}

func TestDriftOfATunnelIsSeenAndMended(t *testing.T) {
	t.Parallel()
	l := newWGLab(t, 1)
	v := l.vpn(1)
	l.put(v)
	for name, drift := range map[string]func(){
		"the link is deleted": func() { l.node.Exec(t, "ip", "link", "del", wgLink) },
		"another MTU":         func() { l.node.Exec(t, "ip", "link", "set", wgLink, "mtu", "1300") },
		"the link is down":    func() { l.node.Exec(t, "ip", "link", "set", wgLink, "down") },
	} {
		drift()
		if got := l.observe(); got.Text() == v.Text() {
			t.Errorf("%s: as desired", name)
		}
		l.put(v)
		reached(t, l.node, l.peers[0].inside)
	}
}

func TestALinkOfOthersIsLeftAlone(t *testing.T) {
	t.Parallel()
	l := newWGLab(t, 1)
	l.node.Exec(t, "ip", "tuntap", "add", "dev", wgLink, "mode", "tun")
	before := l.node.Exec(t, "ip", "-d", "link", "show", wgLink)
	ctx, cancel := context.WithTimeout(t.Context(), wgTimeout)
	defer cancel()
	if err := l.tunnels.Put(ctx, l.vpn(1)); err == nil || !strings.Contains(err.Error(), "was made by others") {
		t.Errorf("put: %v", err)
	}
	if err := l.tunnels.Remove(ctx, l.vpn(1)); err != nil {
		t.Errorf("remove: %v", err)
	}
	if after := l.node.Exec(t, "ip", "-d", "link", "show", wgLink); after != before {
		t.Errorf("the link changed:\n%s%s", before, after)
	}
}

func TestAChangeOfPeersLosesNoPacketOfTheOthers(t *testing.T) {
	t.Parallel()
	l := newWGLab(t, 2)
	changePeers(t, l)
}

// changePeers changes one thing after the other while a peer answers every 10 ms.
func changePeers(t *testing.T, l *wgLab) {
	t.Helper()
	only := func(v netstate.VPN) netstate.VPN {
		v.WireGuard.Peers = v.WireGuard.Peers[:1]
		return v
	}
	l.put(only(l.vpn(1)))
	reached(t, l.node, l.peers[0].inside)
	if lost := during(t, l.node, l.peers[0].inside, func() {
		l.put(l.vpn(2)) // one more
		reached(t, l.node, l.peers[1].inside)
		v := l.vpn(3)
		w := v.WireGuard
		w.Peers[0].Keepalive = 25
		w.Peers[0].AllowedIPs = append(w.Peers[0].AllowedIPs, netip.MustParsePrefix("10.8.0.0/16"))
		l.put(v)
		v.Generation, w.Peers[0].AllowedIPs = 4, w.Peers[0].AllowedIPs[:1]
		l.put(v)
		v.Generation, v.Mark = 5, 0xe50004
		l.put(v)
		v.Generation, w.Peers[1].PresharedKey = 6, b64(newWGKeys(t).private)
		l.put(v)
		v.Generation = 7
		l.put(only(v)) // one less
	}); lost > 0 {
		t.Errorf("%d packets are lost", lost)
	}
	if s := l.status(); len(s.Peers) != 1 || !s.Up {
		t.Errorf("status: %+v", s)
	}
	if lost := ping(t, l.node, l.peers[1].inside, 3, "0.2"); lost != 3 {
		t.Errorf("a removed peer answers %d packets", 3-lost)
	}
}

// make vm runs this one on a kernel with WireGuard.
func TestTheKernelsWireGuardIsTheTunnel(t *testing.T) {
	t.Parallel()
	l := newWGLab(t, 2)
	v := l.vpn(1)
	l.put(v)
	if l.status().By != "kernel" {
		t.Skip("the kernel has no WireGuard")
	}
	if out := l.node.Exec(t, "ip", "-d", "link", "show", wgLink); !strings.Contains(out, "wireguard") ||
		!strings.Contains(out, "alias edgespan vpn 3") {
		t.Errorf("its link:\n%s", out)
	}
	for _, p := range l.peers {
		reached(t, l.node, p.inside)
	}
	if s := l.status(); !s.Up || len(s.Peers) != 2 || !s.Peers[0].Up || s.Peers[0].Received == 0 ||
		s.PublicKey != b64(l.keys.public) || s.Peers[0].Endpoint != "198.18.0.2:51820" {
		t.Errorf("status: %+v", s)
	}
	changePeers(t, l)
	l.put(v)
	if lost := during(t, l.node, l.peers[0].inside, func() {
		l.open()
		l.asDesired(v)
		l.put(v)
	}); lost > 0 {
		t.Errorf("%d packets are lost as another daemon begins", lost)
	}
	for name, drift := range map[string]func(c *wgctrl.Client) error{
		"another mark": func(c *wgctrl.Client) error {
			mark := 5
			return c.ConfigureDevice(wgLink, wgtypes.Config{FirewallMark: &mark})
		},
		"no peers": func(c *wgctrl.Client) error {
			return c.ConfigureDevice(wgLink, wgtypes.Config{ReplacePeers: true})
		},
		"no link": func(*wgctrl.Client) error { _, err := l.node.Try("ip", "link", "del", wgLink); return err },
	} {
		l.node.Do(t, func() error {
			c, err := wgctrl.New()
			if err != nil {
				return err
			}
			defer c.Close()
			return drift(c)
		})
		if got := l.observe(); got.Text() == v.Text() {
			t.Errorf("%s: as desired", name)
		}
		l.put(v)
		reached(t, l.node, l.peers[0].inside)
	}
}

func TestAnotherKeyOrPortOfANode(t *testing.T) {
	t.Parallel()
	l := newWGLab(t, 1)
	l.put(l.vpn(1))
	p := l.peers[0]
	reached(t, l.node, p.inside)
	l.keys = newWGKeys(t)
	p.set("replace_peers=true\n%s", p.ofNode(l, ""))
	v := l.vpn(2)
	v.WireGuard.ListenPort = 40000
	l.put(v)
	reached(t, l.node, p.inside)
	if s := l.status(); s.PublicKey != b64(l.keys.public) {
		t.Errorf("public key %s", s.PublicKey)
	}

	// A port that is in use is an error, and the next try mends all.
	var other *net.UDPConn
	l.node.Do(t, func() (err error) {
		other, err = net.ListenUDP("udp", &net.UDPAddr{Port: 40001})
		return err
	})
	v.Generation, v.WireGuard.ListenPort = 3, 40001
	ctx, cancel := context.WithTimeout(t.Context(), wgTimeout)
	defer cancel()
	if err := l.tunnels.Put(ctx, v); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("put: %v", err)
	}
	if got := l.observe(); got.Text() == v.Text() {
		t.Error("as desired, without its port")
	}
	_ = other.Close()
	l.put(v)
	reached(t, l.node, p.inside)
}

func TestAPeerThatGoesAndComesBack(t *testing.T) {
	t.Parallel()
	l := newWGLab(t, 1)
	v := l.vpn(1)
	v.WireGuard.Peers[0].Keepalive = 1
	l.put(v)
	p := l.peers[0]
	reached(t, l.node, p.inside)
	p.stop()
	if lost := ping(t, l.node, p.inside, 3, "0.2"); lost != 3 {
		t.Errorf("a peer that is away answers %d packets", 3-lost)
	}
	p.start() // has lost its sessions and its configuration
	p.set("private_key=%s\nlisten_port=%d\n%s", hexKey(p.keys.private), wgPort, p.ofNode(l, ""))
	wgUntil(t, 30*time.Second, "the peer answers again", func() bool { return ping(t, l.node, p.inside, 1, "1") == 0 })
	l.asDesired(v)
}

func TestWrongKeysOfAPeerAreTold(t *testing.T) {
	t.Parallel()
	l := newWGLab(t, 1)
	p := l.peers[0]
	says := func(generation uint64, part string, change func(w *netstate.WireGuardPeer)) {
		t.Helper()
		v := l.vpn(generation)
		v.WireGuard.Peers[0].Keepalive = 1
		change(&v.WireGuard.Peers[0])
		l.put(v)
		by := l.status().By
		if by == "kernel" { // which does not tell why
			part = "no answer from "
		}
		wgUntil(t, 10*time.Second, "status says "+part, func() bool {
			s := l.status()
			return !s.Up && strings.Contains(s.Error, part)
		})
	}
	says(1, "no answer from 198.18.0.2:51820", func(w *netstate.WireGuardPeer) { w.PublicKey = b64(newWGKeys(t).public) })
	p.set("%s", p.ofNode(l, "endpoint=198.18.0.1:51820\npersistent_keepalive_interval=1\n"))
	says(2, "wrong public key of the peer?", func(w *netstate.WireGuardPeer) { w.PublicKey = b64(newWGKeys(t).public) })
	p.set("%s", p.ofNode(l, "persistent_keepalive_interval=0\n"))
	says(3, "wrong preshared key?", func(w *netstate.WireGuardPeer) { w.PresharedKey = b64(newWGKeys(t).private) })
}

func TestAHungProcessIsReplaced(t *testing.T) {
	t.Parallel()
	l := newWGLab(t, 1)
	v := l.vpn(1)
	l.put(v)
	old := l.helper()
	if err := old.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begin := time.Now()
	if _, err := l.tunnels.Status(ctx, wgNumber); err == nil || time.Since(begin) > 2*time.Second {
		t.Errorf("status of a hung process: %v after %v", err, time.Since(begin))
	}
	if got := l.observe(); got.Text() == v.Text() {
		t.Error("as desired, though it does not answer")
	}
	l.put(v)
	reached(t, l.node, l.peers[0].inside)
	if now := l.helper(); now == old || old.Alive() {
		t.Errorf("the old process %v lives", old)
	}
}

func TestTheProcessOfATunnelIsConfined(t *testing.T) {
	t.Parallel()
	l := newWGLab(t, 1)
	v := l.vpn(1)
	l.put(v)
	id := l.helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(id.Pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "CapInh:\t0000000000000000", "CapAmb:\t0000000000000000"} {
		if !strings.Contains(string(text), line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	cgo := strings.Contains(string(text), "CapEff:\t00000000000014c0") // see helper.threads
	if !cgo && !strings.Contains(string(text), "CapEff:\t0000000000001400") {
		t.Errorf("capabilities:\n%s", text)
	}
	if u, err := user.Lookup(helper.User); err == nil && !cgo && !strings.Contains(string(text), "Uid:\t"+u.Uid+"\t"+u.Uid) {
		t.Errorf("is not %s:\n%s", helper.User, text)
	}
	for _, name := range []string{"cmdline", "environ"} {
		got, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(id.Pid), name))
		if err != nil || strings.Contains(string(got), b64(l.keys.private)) {
			t.Errorf("%s has the key, or %v", name, err)
		}
	}
	err = filepath.WalkDir(l.run, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		got, err := os.ReadFile(path)
		if strings.Contains(string(got), b64(l.keys.private)) || strings.Contains(string(got), hexKey(l.keys.private)) {
			t.Errorf("%s has the key", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	v.Limits.Memory, v.Generation = 128, 2
	l.put(v)
	if now := l.helper(); now != id {
		t.Error("other limits replace it")
	}
}

func TestAFullDiskBreaksNoTunnel(t *testing.T) {
	t.Parallel()
	l := newWGLab(t, 1)
	if err := os.MkdirAll(l.run, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("eswg", l.run, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(l.run, unix.MNT_DETACH) })
	fill := filepath.Join(l.run, "fill")
	l.put(l.vpn(1))
	reached(t, l.node, l.peers[0].inside)
	if err := os.WriteFile(fill, make([]byte, 128<<10), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	v := l.vpn(2)
	v.MTU = 1380
	ctx, cancel := context.WithTimeout(t.Context(), wgTimeout)
	defer cancel()
	if lost := during(t, l.node, l.peers[0].inside, func() {
		if err := l.tunnels.Put(ctx, v); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("put on a full disk: %v", err)
		}
		if got := l.observe(); got.Text() == v.Text() {
			t.Error("as desired, without a record")
		}
		if err := os.Remove(fill); err != nil {
			t.Error(err)
		}
		l.put(v)
	}); lost > 0 {
		t.Errorf("%d packets are lost", lost)
	}
}
