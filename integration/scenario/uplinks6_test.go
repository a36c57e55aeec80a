package scenario

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// targets6 makes a network probe one host of each family beyond its uplinks.
const targets6 = `probe: {method: icmp, target: "` + lab.WebAddr + "," + isp6Web + `", holdMs: 500}`

// newUplinks6 starts a node with two uplinks that both have IPv4 and IPv6. App 1 on network 1 may use both by NAT66.
func newUplinks6(t testing.TB, ports string) (w *world, web netip.Addr) {
	t.Helper()
	w = newWorldOf(t, lab.Options{Apps: []string{"web"}, Second: true})
	w.provide6(0)
	w.provide6(1)
	n := strings.Replace(network6(1, `subnet: "`+net6+`", nat: true`), "port: wan", "port: uplink\n    "+targets6, 1)
	w.start(ports + "networkInstances:\n" + n + "appNetworks:\n" + onNet(1, 1, "web", allowAll))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	return w, w.slaac("web", net6)
}

// farSide6 ends or restores the IPv6 web server behind an uplink: its packets vanish, and the link and IPv4 stay.
func (w *world) farSide6(n int, dead bool) {
	w.Helper()
	isp := w.Provider(n).Short
	if !dead {
		w.in(isp, "ip", "-6", "route", "del", "blackhole", isp6Web)
		w.in(isp, "ip", "addr", "add", isp6Web+"/128", "dev", "lo", "nodad")
		return
	}
	w.in(isp, "ip", "addr", "del", isp6Web+"/128", "dev", "lo")
	w.in(isp, "ip", "-6", "route", "add", "blackhole", isp6Web)
}

// by6 waits until the app's IPv6 leaves by an uplink, whose provider has a prefix.
func (w *world) by6(why, prefix string) {
	w.Helper()
	w.eventually(why+": IPv6 from "+prefix, func() bool {
		r, err := w.Exec(w.ctx, "web", "curl", "-sg", "-m", "1", "http://["+isp6Web+"]/")
		return err == nil && r.Code == 0 && strings.Contains(r.Out, "you are ["+prefix)
	})
}

const (
	wan6 = "2001:db8:99:"
	lte6 = "2001:db8:98:"
)

// pings6 are echo requests that an app sends each 20 ms.
type pings6 struct {
	w   *world
	out string
}

func (w *world) pings6(short, to string) pings6 {
	w.Helper()
	p := pings6{w, filepath.Join(w.TempDir(), "pings")}
	f, err := os.Create(p.out)
	if err != nil {
		w.Fatal(err)
	}
	cmd := w.Command(w.ctx, short, "ping", "-6", "-n", "-D", "-i", "0.02", to)
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = f.Close()
	})
	w.eventually("a reply", func() bool { return !p.since(time.Time{}).IsZero() })
	return p
}

// since returns when the first reply after a moment came, zero for none.
func (p pings6) since(at time.Time) (first time.Time) {
	p.w.Helper()
	text, err := os.ReadFile(p.out)
	if err != nil {
		p.w.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		stamp, rest, ok := bytes.Cut(bytes.TrimPrefix(line, []byte("[")), []byte("] "))
		seconds, err := strconv.ParseFloat(string(stamp), 64)
		if !ok || err != nil || !bytes.Contains(rest, []byte("bytes from")) {
			continue
		}
		if came := time.UnixMicro(int64(seconds * 1e6)); came.After(at) {
			return came
		}
	}
	return time.Time{}
}

// gap returns the time from a moment to the first reply after the pause that has begun since, at the latest now.
func (p pings6) gap(at time.Time) (took time.Duration) {
	p.w.Helper()
	const underWay = 50 * time.Millisecond // of replies
	begun := time.Now().Add(underWay)
	p.w.eventually("replies again", func() bool { return !p.since(begun).IsZero() })
	return p.since(begun).Sub(at)
}

// As an operator whose provider loses IPv6 alone I want my apps' IPv6 to leave by the other uplink, their IPv4 to stay,
// and both to return.
func TestIPv6LeavesAnUplinkWhoseIPv6IsDead(t *testing.T) {
	t.Parallel()
	w, web := newUplinks6(t, wan2)
	w.by6("both lead out", wan6)
	ping, err := w.PingLoop("web", netip.MustParseAddr(lab.WebAddr), 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	six := w.pings6("web", isp6Web)
	at := time.Now()
	w.farSide6(0, true)
	took := six.gap(at)
	t.Logf("the app's IPv6 went on after %v", took)
	if took > scaled(6*time.Second) { // the bar is 3 s at p99: here other tests run beside
		t.Errorf("the app's IPv6 went on after %v", took)
	}
	w.by6("the far side is dead", lte6)
	w.says(func() string { return w.cli("explain", "ni/"+ni(1)) }, "port = uplink: uses wan", "port = uplink, IPv6: uses lte",
		"no target answers", "icmp "+isp6Web+": no echo reply")
	w.says(func() string { return w.cli("explain", "port/wan") }, "probe nd", "probe arp", isp6Web, "(uplink, IPv6)", "uses lte")
	w.says(func() string { return w.cli("events", "--kind", "uplink") }, "IPv6: wan -> lte: ")
	w.eventually("no flow by wan", func() bool {
		flows := w.in("node", "conntrack", "-L", "-f", "ipv6", "-s", web.String())
		return strings.Contains(flows, "dst="+lte6) && !strings.Contains(flows, "dst="+wan6)
	})

	w.restartUnderPings("web", isp6Web)
	w.by6("after a restart", lte6)
	w.farSide6(0, false)
	w.by6("the far side is back", wan6)
	if c := ping.Stop(); c.Lost+c.Wrong > 0 {
		t.Errorf("IPv4 lost packets: %s", c)
	}

	// A default route that is lost needs no probe.
	w.in("node", "ip", "-6", "route", "del", "default", "dev", w.Provider(0).Dev)
	w.by6("no IPv6 default route", lte6)
}

// BenchmarkUplinkFarSideDead6 measures how long an app's IPv6 pauses when the far side of its uplink dies for IPv6, with
// default settings but for the targets. The uplinks have one cost, and fail in turn.
func BenchmarkUplinkFarSideDead6(b *testing.B) {
	failing := regexp.MustCompile(`(?m)^\s+(wan|lte)\s+no target answers`) // the reason of the last move names it for longer
	shareRuns(b, func() func() time.Duration {
		w, _ := newUplinks6(b, strings.Replace(wan2, "cost: 10", "cost: 0", 1))
		six, prefixes, n := w.pings6("web", isp6Web), []string{wan6, lte6}, 0
		w.eventually("IPv6 leaves", func() bool {
			r, err := w.Exec(w.ctx, "web", "curl", "-sg", "-m", "1", "http://["+isp6Web+"]/")
			n = slices.IndexFunc(prefixes, func(p string) bool { return strings.Contains(r.Out, "you are ["+p) })
			return err == nil && n >= 0
		})
		return func() time.Duration {
			time.Sleep(rand.N(time.Second)) // any phase of the probes
			at := time.Now()
			w.farSide6(n, true)
			took := six.gap(at)
			w.by6("the far side is dead", prefixes[1-n])
			w.farSide6(n, false)
			w.eventually("the far side is back", func() bool { return !failing.MatchString(w.cli("explain", "ni/"+ni(1))) })
			n = 1 - n
			return took
		}
	})
}
