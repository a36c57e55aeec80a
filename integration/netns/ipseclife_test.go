package netns_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"
)

// charonPID is the process of a tunnel.
func (l *ipsecLab) charonPID(number int) int {
	l.t.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, "run", "ni", strconv.Itoa(number), "vpn", "charon.json"))
	if err != nil {
		l.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), `"pid":`)
	var pid int
	if _, err := fmt.Sscanf(rest, "%d", &pid); err != nil {
		l.t.Fatal(err)
	}
	return pid
}

// flow counts what a steady flow of packets through the tunnel loses.
func (l *ipsecLab) flow(count int, every string) func() int {
	lost := make(chan int, 1)
	go func() { lost <- pings(l.t, l.node, ipsecInside, peerInside, count, every) }()
	return func() int { return <-lost }
}

func TestIPsecRekeysUnderTrafficWithoutLoss(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	v := l.vpn(1)
	v.IPsec.RekeyChild, v.IPsec.RekeyIKE = 3, 5
	l.put(v)
	l.up()
	if lost := l.flow(1500, "0.01")(); lost > 0 {
		t.Errorf("%d of 1500 packets are lost", lost)
	}
	var s netstate.TunnelStatus
	until(t, "the status counts what has passed, and renewals of keys", func() bool {
		s = l.status()
		return s.Up && s.Peers[0].Rekeys >= 4 && s.Peers[0].Received >= 1500*84
	})
	t.Logf("%d rekeys", s.Peers[0].Rekeys)
}

func TestIPsecComesBackAfterItsPeer(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	conf := swanPSK(ipsecSecret, "", "")
	l.startSwan(conf)
	v := l.vpn(1)
	v.IPsec.DPD = 2
	l.put(v)
	l.up()
	l.swan.kill()
	begin := time.Now()
	for s := l.status(); !strings.Contains(s.Peers[0].Error, "does not answer"); s = l.status() {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("after 10 s, the silence of the peer is not told: %+v", s)
		}
		time.Sleep(50 * time.Millisecond)
	}
	for s := l.status(); s.Up; s = l.status() { // given up, and tried again and again
		if time.Since(begin) > time.Minute {
			t.Fatalf("after a minute, the tunnel is still up: %+v", s)
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("given up after %.1f s", time.Since(begin).Seconds())
	l.startSwan(conf)
	begin = time.Now()
	l.up()
	t.Logf("back after %.1f s", time.Since(begin).Seconds())
	l.carries()
}

// A peer that ends in order tells so; the node connects again at once.
func TestIPsecConnectsAgainWhenThePeerEndsIt(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	l.put(l.vpn(1))
	before := l.up().Peers[0].SPIs
	if out, err := l.swan.swanctl("--terminate", "--ike", "gw"); err != nil {
		t.Fatalf("terminate: %v: %s", err, out)
	}
	for end := time.Now().Add(ipsecTimeout); l.up().Peers[0].SPIs == before; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the peers do not connect again")
		}
	}
	l.carries()
}

// The uplink moves under traffic: the IKE_SA stays and moves with it (MOBIKE).
func TestIPsecMovesWithItsUplink(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	l.put(l.vpn(1))
	l.up()
	for i, uplink := range []string{"up1", "up0", "up1"} {
		lost := l.flow(300, "0.02")
		time.Sleep(time.Second)
		l.choose(uplink)
		if n := lost(); n > 150 {
			t.Errorf("switch %d loses %d of 300 packets, 50 a second", i, n)
		} else {
			t.Logf("switch %d to %s loses %d packets of 20 ms", i, uplink, n)
		}
		at := map[string]string{"up0": "198.18.1.2", "up1": "198.18.2.2"}[uplink]
		if out, err := l.swan.swanctl("--list-sas"); err != nil || !strings.Contains(out, at) {
			t.Errorf("the peer does not see the node at %s: %v\n%s", at, err, out)
		}
	}
	l.carries()
}

// The address of the uplink changes, as by DHCP.
func TestIPsecMovesToAnotherAddress(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	l.put(l.vpn(1))
	l.up()
	lost := l.flow(300, "0.02")
	time.Sleep(time.Second)
	l.node.Exec(t, "ip", "addr", "add", "198.18.1.77/24", "dev", "up0")
	l.node.Exec(t, "ip", "route", "replace", "default", "via", "198.18.1.1", "dev", "up0", "src", "198.18.1.77", "table", "50003")
	l.node.Exec(t, "ip", "addr", "del", "198.18.1.2/24", "dev", "up0")
	l.node.Try("ip", "addr", "add", "198.18.1.77/24", "dev", "up0") // a secondary one goes with the primary
	l.node.Exec(t, "ip", "route", "replace", "default", "via", "198.18.1.1", "dev", "up0", "src", "198.18.1.77", "table", "50003")
	if n := lost(); n > 150 {
		t.Errorf("the change loses %d of 300 packets, 50 a second", n)
	} else {
		t.Logf("the change loses %d packets of 20 ms", n)
	}
	l.carries()
}

// starterOf is the environment variable by which TestIPsecOutlivesItsDaemon tells its child the namespace and the folder.
const starterOf = "EDGESPAN_TEST_IPSEC_STARTER"

// limited is the tunnel of TestIPsecOutlivesItsDaemon.
func (l *ipsecLab) limited() netstate.VPN {
	v := l.vpn(1)
	v.Limits = netstate.ProcessLimits{Memory: 256, Processor: 100, Processes: 64}
	return v
}

// TestIPsecStarter is the daemon that is killed: it makes the tunnel, and waits.
func TestIPsecStarter(t *testing.T) {
	path, dir, ok := strings.Cut(os.Getenv(starterOf), " ")
	if !ok {
		t.Skip("the child of another test")
	}
	l := &ipsecLab{t: t, node: &netns.NS{Name: filepath.Base(path), Path: path}, dir: dir}
	l.open()
	l.put(l.limited())
	l.up()
	time.Sleep(time.Minute)
}

// answers sends one packet to the peer, as soon as the tunnel has its address.
func (l *ipsecLab) answers() bool {
	_, err := l.node.Try("ping", "-q", "-c1", "-W1", "-I", ipsecInside, peerInside)
	return err == nil
}

// The daemon is killed, and another one takes over what stands: the process, its tunnel and each packet.
func TestIPsecOutlivesItsDaemon(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	v := l.limited()
	starter := exec.Command(os.Args[0], "-test.run", "^TestIPsecStarter$")
	starter.Env = append(os.Environ(), starterOf+"="+l.node.Path+" "+l.dir)
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if !ended {
			_, ended = starter.Process.Kill(), true
			_ = starter.Wait() // it was killed
		}
	}
	t.Cleanup(end)
	for begin := time.Now(); !l.answers(); {
		if time.Since(begin) > ipsecTimeout {
			t.Fatal("the tunnel of the daemon that is to be killed carries no packets")
		}
	}
	pid := l.charonPID(3)
	lost := l.flow(300, "0.01")
	time.Sleep(500 * time.Millisecond)
	end()
	time.Sleep(500 * time.Millisecond)
	before := l.up().Peers[0].SPIs
	have, found := l.observe()
	if !found || have.Text() != v.Text() {
		t.Errorf("observed %v %q, want %q", found, have.Text(), v.Text())
	}
	l.put(v)
	if n := lost(); n > 0 {
		t.Errorf("%d of 300 packets are lost", n)
	}
	if s := l.status(); !s.Up || s.Peers[0].SPIs != before || l.charonPID(3) != pid {
		t.Errorf("not taken over: process %d, was %d; SPIs %s, were %s", l.charonPID(3), pid, s.Peers[0].SPIs, before)
	}
	// A third one, whose Put comes before any observation, duplicates nothing.
	l.open()
	l.put(v)
	if now := l.charonPID(3); now != pid {
		t.Errorf("another process: %d, was %d", now, pid)
	}
	// One that has only observed it notices its end.
	l.open()
	l.observe()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case n := <-l.tunnels.Ended():
		if n != ipsecNumber {
			t.Errorf("the end of %d is told", n)
		}
	case <-time.After(ipsecTimeout):
		t.Fatal("its end is not told")
	}
	if have, found := l.observe(); !found || have.Text() == v.Text() {
		t.Errorf("ended, and observed as %v %q", found, have.Text())
	}
	l.put(v)
	l.up()
	l.carries()
}

// A start that was interrupted leaves a process without a record, and a run folder that others have deleted one without
// a folder.
func TestIPsecEndsAStray(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]string{"record": "charon.json", "folder": ""} {
		t.Run(name, func(t *testing.T) { t.Parallel(); endsAStray(t, lost) })
	}
}

func endsAStray(t *testing.T, lost string) {
	t.Helper()
	l := newIPsecLab(t)
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	v := l.vpn(1)
	l.put(v)
	pid := l.charonPID(3)
	l.tunnels.Close()
	if err := os.RemoveAll(filepath.Join(l.dir, "run", "ni", "3", "vpn", lost)); err != nil {
		t.Fatal(err)
	}
	l.open()
	if have, found := l.observe(); found == (lost == "") || have.Text() == v.Text() {
		t.Errorf("without its record, observed as %v %q", found, have.Text())
	}
	l.put(v)
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
		t.Error("the stray lives on")
	}
	l.up()
	l.carries()
}

// A charon that hangs is told, holds up no call, and is replaced.
func TestIPsecReplacesAHungCharon(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	v := l.vpn(1)
	l.put(v)
	l.up()
	pid := l.charonPID(3)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for s := l.status(); !strings.Contains(s.Error, "charon does not answer"); s = l.status() {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("after 10 s, it is not told: %+v", s)
		}
		one := time.Now()
		l.status()
		if took := time.Since(one); took > time.Second {
			t.Errorf("a status takes %v", took)
		}
		time.Sleep(100 * time.Millisecond)
	}
	select {
	case <-l.tunnels.Ended():
		t.Logf("told after %.1f s", time.Since(begin).Seconds())
	case <-time.After(ipsecTimeout):
		t.Fatal("it is not told as ended")
	}
	one := time.Now()
	if have, found := l.observe(); !found || have.Text() == v.Text() {
		t.Errorf("hung, and observed as %v %q", found, have.Text())
	}
	if took := time.Since(one); took > 5*time.Second {
		t.Errorf("an observation takes %v", took)
	}
	one = time.Now()
	l.put(v)
	t.Logf("replaced in %.1f s", time.Since(one).Seconds())
	if l.charonPID(3) == pid {
		t.Error("it is not replaced")
	}
	l.up()
	l.carries()
}

// What others change of the link is found, and mended.
func TestIPsecFindsDrift(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	v := l.vpn(1)
	l.put(v)
	l.up()
	for name, change := range map[string]func(){
		"down":    func() { l.node.Exec(t, "ip", "link", "set", ipsecLink, "down") },
		"MTU":     func() { l.node.Exec(t, "ip", "link", "set", ipsecLink, "mtu", "1280") },
		"deleted": func() { l.node.Exec(t, "ip", "link", "del", ipsecLink) },
		"unloaded": func() {
			own := filepath.Join(l.dir, "run", "ni", "3", "vpn", "own")
			if err := os.WriteFile(filepath.Join(own, "strongswan.conf"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := (&plainSwan{dir: own}).swanctl("--load-conns", "--file", "/dev/null")
			if err != nil {
				t.Errorf("unload: %v %s", err, out)
			}
		},
	} {
		change()
		if have, found := l.observe(); !found || have.Text() == v.Text() {
			t.Errorf("%s: observed as %v %q", name, found, have.Text())
		}
		l.put(v)
		if have, found := l.observe(); !found || have.Text() != v.Text() {
			t.Errorf("%s, and mended: observed as %v %q", name, found, have.Text())
		}
		l.up()
		// The kernel opens the queue of a link that was down a moment after it is up.
		until(t, "packets pass", func() bool { return pings(t, l.node, ipsecInside, peerInside, 1, "0.01") == 0 })
		l.carries()
	}
}

// Peers call a node that listens; one with another identity is told.
func TestIPsecListens(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.startSwan(strings.Replace(swanPSK(ipsecSecret, "remote_addrs = 198.18.1.2", ""), "id = peer.example", "id = other.example", 1))
	v := l.vpn(1)
	v.IPsec.Address, v.IPsec.Listen = "", true
	l.put(v)
	if out, err := l.swan.swanctl("--initiate", "--child", "lan", "--timeout", "5"); err == nil {
		t.Errorf("a peer of another identity connects: %s", out)
	}
	l.fails(time.Now(), "identity mismatch", "peer.example")
	l.swan.load(swanPSK(ipsecSecret, "remote_addrs = 198.18.1.2", ""))
	if out, err := l.swan.swanctl("--initiate", "--child", "lan", "--timeout", "5"); err != nil {
		t.Errorf("connect: %v: %s", err, out)
	}
	l.up()
	// Who answers is ready before who has called.
	until(t, "packets pass", func() bool { return pings(t, l.node, ipsecInside, peerInside, 1, "0.01") == 0 })
	l.carries()
	// The ports are taken: another tunnel that listens is refused, and this one is not disturbed.
	w := v
	w.Name, w.Link, w.Mark = "ni/4/vpn", "evpn4", ipsecMark+1
	ctx, cancel := context.WithTimeout(t.Context(), ipsecTimeout)
	defer cancel()
	if err := l.tunnels.Put(ctx, w); err == nil || !strings.Contains(err.Error(), "another program uses UDP port 500") {
		t.Errorf("a second one listens: %v", err)
	}
	l.carries()
}

// A strongSwan of the host is not touched, and no rule, route or address but those of the test is made in its namespace.
func TestIPsecLeavesTheHostAlone(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	own := &plainSwan{t: t, ns: l.node, dir: filepath.Join(l.dir, "host")}
	if err := os.MkdirAll(own.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.kill)
	own.start()
	shows := func() string {
		routes, _ := l.node.Try("ip", "route", "show", "table", "220")
		return l.node.Exec(t, "ip", "rule") + l.node.Exec(t, "ip", "-6", "rule") + routes +
			l.node.Exec(t, "ip", "-br", "addr", "show", "dev", "ipsec0") + l.node.Exec(t, "ip", "xfrm", "policy") +
			l.node.Exec(t, "ip", "xfrm", "state") + l.node.Exec(t, "ss", "-Hlnu", "sport = 500")
	}
	before := shows()
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	v := l.vpn(1)
	l.put(v)
	l.up()
	l.carries()
	if now := shows(); now != before {
		t.Errorf("with a tunnel:\n%s\nbefore:\n%s", now, before)
	}
	if out := l.node.Exec(t, "ip", "-br", "addr", "show", "dev", ipsecLink); strings.Count(out, "/") != 1 {
		t.Errorf("the link has other addresses than that of the test: %s", out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), ipsecTimeout)
	defer cancel()
	if err := l.tunnels.Remove(ctx, v); err != nil {
		t.Fatal(err)
	}
	if now := shows(); now != before {
		t.Errorf("after its removal:\n%s\nbefore:\n%s", now, before)
	}
	if out, err := own.swanctl("--stats"); err != nil {
		t.Errorf("the host's own charon: %v: %s", err, out)
	}
}

// Only root can read the folder of a tunnel, and no secret is in it or on a command line.
func TestIPsecHidesSecrets(t *testing.T) {
	t.Parallel()
	l, ca := newIPsecLab(t), newIPsecCA(t)
	l.startSwanWith(ca, inAYear(), swanEAP)
	v := l.eap(ca)
	_, key := ca.issue(t, "node.example", inAYear())
	v.IPsec.Local.Key, v.IPsec.Remote.Secret = key, "a secret that is not used"
	l.put(v)
	l.up()
	secrets := []string{"a password", "a secret that is not used", strings.Split(key, "\n")[1]}
	folder := filepath.Join(l.dir, "run", "ni", "3", "vpn")
	err := filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		group := os.FileMode(0) // of what charon's own group may enter or read
		switch path {
		case folder:
			group = 0o010
		case filepath.Join(folder, "strongswan.conf"):
			group = 0o040
		}
		if info.Mode()&os.ModeSocket == 0 && info.Mode().Perm()&0o077&^group != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			for _, s := range secrets {
				if err != nil || strings.Contains(string(text), s) {
					t.Errorf("%s has a secret (%v)", path, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", l.charonPID(3), file))
		for _, s := range secrets {
			if err != nil || strings.Contains(string(text), s) {
				t.Errorf("%s of the process has a secret (%v)", file, err)
			}
		}
	}
}

// Many tunnels on one node, of which one hangs: the others are made as fast as without it.
func TestManyIPsecTunnels(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	const count = 50
	conf := "connections {\n"
	for i := 1; i <= count; i++ {
		conf += fmt.Sprintf(`gw%[1]d { version = 2
 local_addrs = %[2]s
 local { auth = psk
 id = peer.example }
 remote { auth = psk
 id = node%[1]d.example }
 children { lan { local_ts = 10.2.0.0/24
 remote_ts = 10.1.%[1]d.0/24 } } }
`, i, ipsecPeer)
	}
	l.startSwan(conf + "}\nsecrets { ike-1 { secret = \"" + ipsecSecret + "\" } }\n")
	of := func(i int) netstate.VPN {
		v := l.vpn(1)
		v.Name, v.Link, v.Mark = fmt.Sprintf("ni/%d/vpn", i), fmt.Sprintf("evpn%d", i), uint32(0xe50000+i)
		v.IPsec.Local.ID = fmt.Sprintf("node%d.example", i)
		v.IPsec.Children[0].Local[0] = netip.MustParsePrefix(fmt.Sprintf("10.1.%d.0/24", i))
		return v
	}
	var took [count + 1]time.Duration
	var memory, largest int
	for i := 1; i <= count; i++ {
		l.node.Exec(t, "ip", "rule", "add", "prio", strconv.Itoa(14003+i), "fwmark", fmt.Sprintf("%#x/0xffffff", 0xe50000+i), "lookup", "50003")
		ctx, cancel := context.WithTimeout(t.Context(), ipsecTimeout)
		begin := time.Now()
		err := l.tunnels.Put(ctx, of(i))
		took[i] = time.Since(begin)
		cancel()
		if err != nil {
			t.Fatalf("tunnel %d: %v", i, err)
		}
		if i == count/2 {
			if err := syscall.Kill(l.charonPID(i), syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := 1; i <= count; i++ {
		if i == count/2 {
			continue
		}
		for end := time.Now().Add(ipsecTimeout); ; time.Sleep(50 * time.Millisecond) {
			s, err := l.tunnels.Status(t.Context(), i)
			if err == nil && s.Up {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("tunnel %d is not up: %+v %v", i, s, err)
			}
		}
		kib := memoryOf(t, l.charonPID(i))
		memory, largest = memory+kib, max(largest, kib)
	}
	t.Logf("%d tunnels: %d KiB of memory each, %d at most; made in %v to %v", count, memory/(count-1), largest, took[1], took[count])
	var begin, end syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &begin); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &end); err != nil {
		t.Fatal(err)
	}
	spent := end.Utime.Nano() + end.Stime.Nano() - begin.Utime.Nano() - begin.Stime.Nano()
	t.Logf("while they stand, the daemon spends %.2f %% of a core", float64(spent)/float64(5*time.Second)*100)
	if largest > 16<<10 {
		t.Errorf("a charon takes %d KiB of memory", largest)
	}
}
