package lab

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// upWith builds a lab without a daemon.
func upWith(t *testing.T, o Options) *Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	o.Binary, o.Child = "/bin/true", []string{os.Args[0], ChildCommand}
	l, err := Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Errorf("Down: %v", err)
		}
	})
	return l
}

// pings sends n pings by one uplink, 5 ms apart, and returns the round trip times of those that were answered.
func pings(t *testing.T, l *Lab, dev, dst string, n int) []time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	r, err := l.Exec(ctx, "node", "ping", "-n", "-I", dev, "-i", "0.005", "-W", "0.5", "-c", strconv.Itoa(n), dst)
	if err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for _, m := range regexp.MustCompile(`time=([0-9.]+) ms`).FindAllStringSubmatch(r.Out, -1) {
		ms, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Duration(ms*float64(time.Millisecond)))
	}
	slices.Sort(took)
	return took
}

// answers reports which destinations answer pings that leave by one uplink: any of 3 within a second.
func answers(t *testing.T, l *Lab, dev string, dst ...string) []string {
	t.Helper()
	heard := make([]bool, len(dst))
	var asking sync.WaitGroup
	for i := range dst {
		asking.Go(func() {
			r, err := l.Exec(t.Context(), "node", "ping", "-n", "-I", dev, "-i", "0.1", "-c3", "-W0.5", "-w1", dst[i])
			heard[i] = err == nil && strings.Contains(r.Out, "time=")
		})
	}
	asking.Wait()
	var out []string
	for i := range dst {
		if heard[i] {
			out = append(out, dst[i])
		}
	}
	return out
}

// hears waits until a destination answers: a neighbour that was gone is asked again after a second.
func hears(t *testing.T, l *Lab, dev, dst string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); answers(t, l, dev, dst) == nil; {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer by %s", dst, dev)
		}
	}
}

// state is what faults change on the node: carriers, addresses and routes.
func state(t *testing.T, l *Lab) string {
	t.Helper()
	return must(t, l, "node", "sh", "-c", "ip -4 -br addr; ip route; cat /sys/class/net/uplink*/carrier")
}

// long skips a test of many seconds in make check, which has 90 for all; make test runs it.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: it takes many seconds, and the tests are short")
	}
}

func TestEachFaultDoesWhatItSaysAndIsUndone(t *testing.T) {
	long(t)
	for _, wires := range []bool{false, true} {
		t.Run(map[bool]string{false: "linked directly", true: "with relays"}[wires], func(t *testing.T) {
			t.Parallel()
			l := upWith(t, Options{Uplinks: MaxUplinks, Wires: wires})
			before := state(t, l)
			if got := strings.Count(before, "default via"); got != MaxUplinks {
				t.Fatalf("%d default routes:\n%s", got, before)
			}
			for _, n := range []int{0, MaxUplinks - 1} {
				eachFault(t, l, n)
				if now := state(t, l); now != before {
					t.Fatalf("after the faults of uplink %d the node is\n%s\nand was\n%s", n, now, before)
				}
			}
		})
	}
}

func eachFault(t *testing.T, l *Lab, n int) {
	p, other := l.Provider(n), l.Provider((n+1)%MaxUplinks)
	for _, c := range []struct {
		fault         Fault
		answer        []string // of the gateway, the DNS server and the web server
		address, link bool     // what is left
	}{
		{FarSideDead, []string{p.Gateway}, true, true},
		{GatewayDead, nil, true, true},
		{LinkDown, nil, true, false},
		{AddressLost, nil, false, true},
	} {
		hears(t, l, p.Dev, WebAddr)
		if err := l.Break(t.Context(), n, c.fault); err != nil {
			t.Fatal(err)
		}
		// The neighbour's entry goes, so that only an answer to ARP makes the gateway answer.
		must(t, l, "node", "ip", "neigh", "flush", "dev", p.Dev)
		if got := answers(t, l, p.Dev, p.Gateway, DNSAddr, WebAddr); !slices.Equal(got, c.answer) {
			t.Errorf("%s: %s: %v answer, want %v", p.Dev, c.fault, got, c.answer)
		}
		if got := must(t, l, "node", "cat", "/sys/class/net/"+p.Dev+"/carrier") == "1"; got != c.link {
			t.Errorf("%s: %s: carrier %v, want %v", p.Dev, c.fault, got, c.link)
		}
		addr := must(t, l, "node", "ip", "-4", "addr", "show", "dev", p.Dev)
		if got := strings.Contains(addr, p.Node+"/24"); got != c.address {
			t.Errorf("%s: %s: address %v, want %v", p.Dev, c.fault, got, c.address)
		}
		if got := answers(t, l, other.Dev, WebAddr); got == nil {
			t.Errorf("%s: %s: nothing answers by %s", p.Dev, c.fault, other.Dev)
		}
		if err := l.Repair(t.Context(), n, c.fault); err != nil {
			t.Fatal(err)
		}
	}
	hears(t, l, p.Dev, WebAddr)
}

// A frame is lost in each direction with the probability asked for.
func TestLossIsAsManyPercentAsAskedFor(t *testing.T) {
	long(t)
	t.Parallel()
	l := upWith(t, Options{Second: true})
	must(t, l, "node", "ping", "-c1", "-I", Uplink, Gateway) // the neighbour is known: ARP is not counted
	const n = 400
	for _, percent := range []int{20, 60, 0} {
		if err := l.SetLoss(t.Context(), 0, percent); err != nil {
			t.Fatal(err)
		}
		pass := math.Pow(1-float64(percent)/100, 2)
		want, spread := n*pass, 5*math.Sqrt(n*pass*(1-pass)) // 5 standard deviations: missed once in a million runs
		got := float64(len(pings(t, l, Uplink, WebAddr, n)))
		t.Logf("%d %% of the frames lost each way: %.0f of %d pings answered, want %.0f ± %.0f", percent, got, n, want, spread)
		if math.Abs(got-want) > spread {
			t.Errorf("%d %%: %.0f answers, want %.0f ± %.0f", percent, got, want, spread)
		}
	}
	if got := len(pings(t, l, Uplink2, WebAddr, 20)); got != 20 {
		t.Errorf("the other uplink lost %d of 20", 20-got)
	}
}

func TestARelayDelaysFramesAsAskedFor(t *testing.T) {
	long(t)
	t.Parallel()
	l := upWith(t, Options{Second: true, Wires: true})
	const n, delay, jitter = 300, 40 * time.Millisecond, 20 * time.Millisecond
	before := pings(t, l, Uplink, WebAddr, n)
	if len(before) < n || before[n/2] > 5*time.Millisecond {
		t.Fatalf("the relay alone: %d of %d answers, median %v", len(before), n, before[len(before)/2])
	}
	if err := l.SetDelay(0, delay, jitter); err != nil {
		t.Fatal(err)
	}
	// Each way takes 20 to 60 ms, evenly, so there and back takes 40 to 120 ms, with quartiles of 68 and 92 ms.
	took := pings(t, l, Uplink, WebAddr, n)
	if len(took) < n {
		t.Fatalf("%d of %d pings answered", len(took), n)
	}
	median, quartiles := took[n/2], took[n*3/4]-took[n/4]
	t.Logf("without delay %v; with %v ± %v each way: %v to %v, median %v, quartiles %v apart", before[n/2], delay, jitter,
		took[0], took[n-1], median, quartiles)
	if took[0] < 40*time.Millisecond {
		t.Errorf("the fastest ping took %v", took[0])
	}
	if median < 75*time.Millisecond || median > 90*time.Millisecond {
		t.Errorf("the median is %v, want 80 ms", median)
	}
	if quartiles < 17*time.Millisecond || quartiles > 32*time.Millisecond {
		t.Errorf("the quartiles are %v apart, want 23 ms", quartiles)
	}
	if got := pings(t, l, Uplink2, WebAddr, 20); len(got) < 20 || got[10] > 5*time.Millisecond {
		t.Errorf("the other uplink: %v", got)
	}
	if err := l.SetDelay(0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if got := pings(t, l, Uplink, WebAddr, n); len(got) < n || got[n/2] > 5*time.Millisecond {
		t.Errorf("afterwards %d answers, median %v", len(got), got[len(got)/2])
	}
}

// Checksums that the sender left to the hardware, and segments of many frames, pass the relay.
func TestTCPPassesARelay(t *testing.T) {
	t.Parallel()
	l := upWith(t, Options{Wires: true})
	file := filepath.Join(l.Dir, "body")
	const size = 200_000
	if err := os.WriteFile(file, make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
	got := must(t, l, "node", "curl", "-sS", "-m", "10", "-H", "Expect:", "--data-binary", "@"+file, "http://"+WebAddr+"/")
	if !strings.Contains(got, "you are "+NodeAt+":") {
		t.Errorf("curl: %q", got)
	}
	n, err := strconv.Atoi(must(t, l, "isp", "cat", "/sys/class/net/node0/statistics/rx_bytes"))
	if err != nil || n < size {
		t.Errorf("the provider has received %d bytes, %v", n, err)
	}
}

func TestALabRefusesWhatItCannotDo(t *testing.T) {
	if _, err := Open(Options{Uplinks: MaxUplinks + 1}); err == nil || !strings.Contains(err.Error(), "at most 4") {
		t.Errorf("five uplinks: %v", err)
	}
	l, err := Open(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.SetDelay(0, time.Second, 0); err == nil || !strings.Contains(err.Error(), "Options.Wires") {
		t.Errorf("a delay without a relay: %v", err)
	}
	if err := l.Break(t.Context(), 0, "bad weather"); err == nil || !strings.Contains(err.Error(), "unknown fault") {
		t.Errorf("an unknown fault: %v", err)
	}
}
