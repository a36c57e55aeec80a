package scenario

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// echoPort is the port of a server in each provider's namespace that sends the number of its uplink and then whatever it
// receives.
const echoPort = "7000"

// echoes starts the servers at an address, which end with the test.
func (w *world) echoes(uplinks int, addr string) {
	w.Helper()
	for n := range uplinks {
		var l net.Listener
		err := w.inside(w.Provider(n).Short, func() (err error) {
			l, err = net.Listen("tcp", net.JoinHostPort(addr, echoPort))
			return err
		})
		if err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					if _, err := c.Write([]byte{byte(n)}); err == nil {
						_, _ = io.Copy(c, c)
					}
				}()
			}
		}()
	}
}

// tcpFlow is a TCP connection of app 1 to an echo server.
type tcpFlow struct {
	net.Conn
	uplink int // the one by which it left, as the server says
	sent   int // rounds
}

// openFlow opens a flow of app 1 to an address.
func (w *world) openFlow(addr string) (*tcpFlow, error) { return w.openFlowOf("web", addr) }

func (w *world) openFlowOf(short, addr string) (*tcpFlow, error) {
	s := &tcpFlow{}
	err := w.inside(short, func() (err error) {
		s.Conn, err = net.DialTimeout("tcp", net.JoinHostPort(addr, echoPort), 2*time.Second)
		return err
	})
	if err != nil {
		return nil, err
	}
	w.Cleanup(func() { _ = s.Close() })
	b := make([]byte, 1)
	_ = s.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(s, b); err != nil {
		return nil, err
	}
	s.uplink = int(b[0])
	return s, nil
}

// flowBy opens a flow, which must leave by an uplink.
func (w *world) flowBy(uplink int) *tcpFlow {
	w.Helper()
	return w.flowTo(lab.WebAddr, uplink)
}

// flowTo opens a flow to an address, which must leave by an uplink.
func (w *world) flowTo(addr string, uplink int) *tcpFlow {
	w.Helper()
	s, err := w.openFlow(addr)
	if err != nil {
		w.Fatal(err)
	}
	if s.uplink != uplink {
		w.Fatalf("a connection left by %s instead of %s", uplinkLabels[s.uplink], uplinkLabels[uplink])
	}
	return s
}

// round sends some bytes that no other round has, and fails unless exactly they come back in time.
func (s *tcpFlow) round(within time.Duration) error {
	s.sent++
	data := bytes.Repeat(fmt.Appendf(nil, "round %d of uplink %d\n", s.sent, s.uplink), 100)
	_ = s.SetDeadline(time.Now().Add(within))
	if _, err := s.Write(data); err != nil {
		return err
	}
	got := make([]byte, len(data))
	if _, err := io.ReadFull(s, got); err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		return fmt.Errorf("round %d: other bytes came back", s.sent)
	}
	return nil
}

// lives fails the test unless the flow still carries every byte.
func (w *world) lives(s *tcpFlow, when string) {
	w.Helper()
	if err := s.round(10 * time.Second); err != nil {
		w.Fatalf("%s: the connection over %s: %v\n%s", when, uplinkLabels[s.uplink], err, w.dump("node"))
	}
}

// ended waits until the flow has ended.
func (w *world) ended(s *tcpFlow, when string) {
	w.Helper()
	began := time.Now()
	if err := s.round(20 * time.Second); err == nil {
		w.Fatalf("%s: the connection over %s lives", when, uplinkLabels[s.uplink])
	} else if time.Since(began) >= 20*time.Second {
		w.Fatalf("%s: the connection over %s neither lives nor ends: %v", when, uplinkLabels[s.uplink], err)
	}
}

// newFlowsWorld starts a daemon with network 1, which may use two uplinks, and app 1.
func newFlowsWorld(t *testing.T, costStep int, settings string) *world {
	t.Helper()
	w := newWorldOf(t, lab.Options{Apps: []string{"web"}, Uplinks: 2})
	w.echoes(2, lab.WebAddr)
	w.start(flowsDoc(costStep, settings))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	return w
}

func flowsDoc(costStep int, settings string) string {
	n := strings.Replace(network(1, ""), "port: wan", "port: uplink\n    probe: {holdMs: 500}\n    "+settings, 1)
	return uplinkPorts(2, costStep) + "networkInstances:\n" + n + "appNetworks:\n" + onNet(1, 1, "web", allowAll)
}

// usesPort waits until the network's new flows leave by a port and all of the change is applied.
func (w *world) usesPort(label string) {
	w.Helper()
	w.eventually("uses "+label, func() bool {
		s := w.status("ni", ni(1))
		return s["port"] == label && s["error"] == "" && s["state"] == "Present"
	})
	w.wait("ready", "ni/"+ni(1))
}

// With drain, no connection is broken by the return to the cheaper uplink, nor by an operator's drain; one over an
// uplink that dies ends at once.
func TestFlowsDrainFromAnUplinkThatIsLeft(t *testing.T) {
	t.Parallel()
	w := newFlowsWorld(t, 10, "flows: drain")
	wan := w.flowBy(0)
	w.lives(wan, "both work")

	w.cli("port", "drain", "wan")
	w.usesPort("lte")
	lte := w.flowBy(1)
	w.lives(wan, "wan is drained")
	w.lives(lte, "wan is drained")

	w.cli("port", "undrain", "wan")
	w.usesPort("wan")
	again := w.flowBy(0)
	for _, s := range []*tcpFlow{wan, lte, again} {
		w.lives(s, "wan is used again")
	}
	w.says(func() string { return w.cli("explain", "ni/"+ni(1)) }, "flows = drain")
	w.restart()
	for _, s := range []*tcpFlow{wan, lte, again} {
		w.lives(s, "after a restart")
	}

	w.breakUplink(0, lab.FarSideDead)
	w.usesPort("lte")
	w.ended(wan, "the far side of wan is dead")
	w.ended(again, "the far side of wan is dead")
	w.lives(lte, "the far side of wan is dead")

	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.repairUplink(0, lab.FarSideDead)
	w.restart()
	w.usesPort("wan")
	w.lives(lte, "the return to wan after kill -9")
	again = w.flowBy(0)

	onHost := func() string {
		return w.in("node", "ip", "rule") + w.in("node", "nft", "list", "table", "inet", "edgespan")
	}
	if text := onHost(); !strings.Contains(text, "fwmark 0x1000000/0xf000000") || !strings.Contains(text, "map flows") {
		t.Errorf("the rules of drain are not on the host:\n%s", text)
	}
	w.apply(flowsDoc(10, "flows: reset"))
	w.wait("ready", "ni/"+ni(1))
	w.ended(lte, "the policy is reset")
	w.lives(again, "the policy is reset")
	w.eventually("reset leaves nothing of drain", func() bool {
		text := onHost()
		return !strings.Contains(text, "fwmark") && !strings.Contains(text, "flows")
	})
}

// With keep, a connection waits for the uplink over which it began.
func TestFlowsAreKeptOnAnUplinkThatFails(t *testing.T) {
	t.Parallel()
	w := newFlowsWorld(t, 10, "flows: keep")
	for _, fault := range []lab.Fault{lab.FarSideDead, lab.LinkDown} {
		wan := w.flowBy(0)
		w.breakUplink(0, fault)
		w.usesPort("lte")
		lte := w.flowBy(1)
		if err := wan.round(time.Second); err == nil {
			t.Errorf("%s: a connection over wan still carries bytes", fault)
		}
		w.repairUplink(0, fault)
		// The bytes of the failed round come first.
		wan.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.ReadFull(wan, make([]byte, 100*len(fmt.Sprintf("round %d of uplink %d\n", wan.sent, 0)))); err != nil {
			t.Fatalf("%s: the connection over wan after the repair: %v", fault, err)
		}
		w.lives(wan, "wan works again")
		w.usesPort("wan")
		w.lives(wan, "the return to wan")
		w.lives(lte, "the return to wan")
	}
}

// spread opens connections to an address and returns them by uplink.
func (w *world) spread(n int, addr string) [2][]*tcpFlow {
	w.Helper()
	var by [2][]*tcpFlow
	for range n {
		f, err := w.openFlow(addr)
		if err != nil {
			w.Fatal(err)
		}
		by[f.uplink] = append(by[f.uplink], f)
	}
	return by
}

// New connections are spread over equal uplinks, and each stays on its own: one that dies takes only its own along, and
// gets new ones when it is back.
func TestFlowsAreSpreadOverEqualUplinks(t *testing.T) {
	t.Parallel()
	w := newFlowsWorld(t, 0, "share: true")
	w.says(func() string { return w.cli("explain", "ni/"+ni(1)) }, "share = true: new flows are spread over lte, wan")
	w.says(func() string { return w.cli("get", "port", "-o", "json") }, "usedBy")
	const flows = 24
	by := w.spread(flows, lab.WebAddr)
	if len(by[0]) < 2 || len(by[1]) < 2 { // once in 90,000 runs
		t.Fatalf("%d of %d connections left by wan, %d by lte", len(by[0]), flows, len(by[1]))
	}
	all := func(when string, uplinks ...int) {
		t.Helper()
		for _, n := range uplinks {
			for _, f := range by[n] {
				w.lives(f, when)
			}
		}
	}
	all("both work", 0, 1)
	dns := func(providers ...string) { // dnsmasq prefers the server that answered first, whichever that is
		t.Helper()
		w.eventually(fmt.Sprintf("DNS by one of %q", providers), func() bool {
			r, err := w.Exec(w.ctx, "web", "dig", "+short", "+tries=1", "+time=1", "@10.1.0.1", lab.ProviderName)
			return err == nil && slices.Contains(providers, strings.TrimSpace(r.Out))
		})
	}
	dns(lab.Gateway, lab.Gateway2)
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	all("the daemon is dead", 0, 1)
	w.restart()
	all("after kill -9", 0, 1)

	w.breakUplink(0, lab.FarSideDead)
	w.eventually("wan is left", func() bool {
		return !strings.Contains(w.cli("explain", "ni/"+ni(1)), "share = true")
	})
	w.usesPort("lte")
	for _, f := range by[0] {
		w.ended(f, "the far side of wan is dead")
	}
	all("the far side of wan is dead", 1)
	dns(lab.Gateway2)
	if got := w.spread(6, lab.WebAddr); len(got[0]) > 0 {
		t.Errorf("connections left by wan, whose far side is dead")
	}

	w.repairUplink(0, lab.FarSideDead)
	w.says(func() string { return w.cli("explain", "ni/"+ni(1)) }, "share = true: new flows are spread over lte, wan")
	w.eventually("wan gets new connections", func() bool { return len(w.spread(4, lab.WebAddr)[0]) > 0 })
	all("wan is back", 1)
}
