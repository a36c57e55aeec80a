package scenario

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/platform/lab"
)

// ipfixPort is where collectors listen, and how /proc/net/udp has it.
const (
	ipfixPort    = "4739"
	ipfixPortHex = ":1283 "
)

// collects starts a collector at the provider that writes to a folder, and returns what ends it, once it has read all that
// it was sent.
func (w *world) collects(dir string) (end func()) {
	w.Helper()
	isp := w.Provider(0).Short
	socket := func() string {
		for line := range strings.Lines(w.in(isp, "cat", "/proc/net/udp")) {
			if strings.Contains(line, ipfixPortHex) {
				return line
			}
		}
		return ""
	}
	cmd := w.background(isp, "nfcapd", "-w", dir, "-b", lab.WebAddr, "-p", ipfixPort, "-B", "4000000")
	w.eventuallyIn(time.Minute, "the collector listens", func() bool { return socket() != "" })
	return func() {
		w.Helper()
		w.eventuallyIn(time.Minute, "the collector has read everything", func() bool {
			f := strings.Fields(socket()) // the fifth is the length of the queues, tx:rx
			return len(f) > 4 && strings.HasSuffix(f[4], ":00000000")
		})
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			w.Fatal(err)
		}
		_ = cmd.Wait()
		w.eventuallyIn(time.Minute, "the collector has ended", func() bool { return socket() == "" })
	}
}

// flowText is a flow as a collector has it: before and after translation, and counts of both directions.
func flowText(proto int, from, to, fromNAT, toNAT netip.AddrPort, sent, answered [2]uint64) string {
	return fmt.Sprintf("%d %v > %v as %v > %v %d/%d", proto, from, to, fromNAT, toNAT, sent, answered)
}

// collected returns the flows that a collector has written, in the words of nfdump.
func (w *world) collected(dir string) (flows []string) {
	w.Helper()
	out, err := exec.CommandContext(w.ctx, "nfdump", "-q", "-R", dir, "-o", "json").Output()
	if err != nil {
		w.Fatalf("nfdump: %v", err)
	}
	var list []struct {
		Proto      int    `json:"proto"`
		SrcPort    uint16 `json:"src_port"`
		DstPort    uint16 `json:"dst_port"`
		Src        string `json:"src4_addr"`
		Dst        string `json:"dst4_addr"`
		SrcNAT     string `json:"src4_xlt_ip"`
		DstNAT     string `json:"dst4_xlt_ip"`
		SrcNATPort string `json:"src_xlt_port"`
		DstNATPort string `json:"dst_xlt_port"`
		InPackets  uint64 `json:"in_packets"`
		InBytes    uint64 `json:"in_bytes"`
		OutPackets uint64 `json:"out_packets"`
		OutBytes   uint64 `json:"out_bytes"`
	}
	if err := json.Unmarshal(fmt.Appendf(nil, "[%s]", out), &list); err != nil {
		w.Fatalf("nfdump: %v: %s", err, out)
	}
	end := func(addr, port string) netip.AddrPort {
		a, err := netip.ParseAddr(addr)
		n, err2 := strconv.Atoi(port)
		if err != nil || err2 != nil {
			w.Fatalf("nfdump: %s port %s", addr, port)
		}
		return netip.AddrPortFrom(a, uint16(n))
	}
	for _, f := range list {
		flows = append(flows, flowText(f.Proto, end(f.Src, fmt.Sprint(f.SrcPort)), end(f.Dst, fmt.Sprint(f.DstPort)),
			end(f.SrcNAT, f.SrcNATPort), end(f.DstNAT, f.DstNATPort), [2]uint64{f.InPackets, f.InBytes},
			[2]uint64{f.OutPackets, f.OutBytes}))
	}
	slices.Sort(flows)
	return flows
}

// written returns the lines of the file of the flow log, and their flows as a collector should have them.
func (w *world) written() (lines, flows []string) {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.StateDir(), "flows.jsonl"))
	if err != nil {
		w.Fatal(err)
	}
	end := func(s string) netip.AddrPort {
		if a, err := netip.ParseAddrPort(s); err == nil {
			return a
		}
		return netip.AddrPortFrom(netip.MustParseAddr(s), 0)
	}
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
		var r nodeapi.FlowRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Kind == nodeapi.FlowsLost {
			w.Fatalf("%v: %s", err, line)
		}
		local, remote := end(r.Local), end(r.Remote)
		nat := local
		if r.NAT != "" {
			nat = end(r.NAT)
		}
		out, in := [2]uint64{r.PacketsOut, r.BytesOut}, [2]uint64{r.PacketsIn, r.BytesIn}
		proto := map[string]int{"tcp": 6, "udp": 17, "icmp": 1}[r.Protocol]
		if r.Direction == "egress" {
			flows = append(flows, flowText(proto, local, remote, nat, remote, out, in))
		} else {
			flows = append(flows, flowText(proto, remote, nat, remote, local, in, out))
		}
	}
	slices.Sort(flows)
	return lines, flows
}

// lineReader is a program that reads the log from a socket, from one connection after the other.
type lineReader struct {
	mu    sync.Mutex
	lines []string
	l     net.Listener
	conns []net.Conn
}

// listens starts a reader at a path.
func (r *lineReader) listens(w *world, path string) {
	w.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = l.Close() })
	r.l = l
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns = append(r.conns, c)
			r.mu.Unlock()
			go func() {
				for s := bufio.NewScanner(c); s.Scan(); {
					r.mu.Lock()
					r.lines = append(r.lines, s.Text())
					r.mu.Unlock()
				}
			}()
		}
	}()
}

// ends ends a reader, as if it were killed.
func (r *lineReader) ends() {
	_ = r.l.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
}

func (r *lineReader) read() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// metric returns the value of a series, -1 if there is none.
func (w *world) metric(series string) int {
	w.Helper()
	for line := range strings.Lines(w.cli("metrics")) {
		if v, ok := strings.CutPrefix(line, series+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			if err != nil {
				w.Fatal(line)
			}
			return int(n)
		}
	}
	return -1
}

// As an operator I have the flow log in my collector and in a program of mine: what they get is what the file has. When
// both are killed, the apps and the log go on, and once they are back, they get what comes, and the program what it
// missed.
func TestTheFlowLogIsSentToACollectorAndToASocket(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "mate")
	const rules = "udp: {action: allow, direction: egress, match: {protocol: udp, port: 2000}}, " +
		"ping: {action: allow, direction: egress, match: {protocol: icmp}}"
	var program lineReader
	socket, first, second := filepath.Join(t.TempDir(), "s"), t.TempDir(), t.TempDir()
	program.listens(w, socket)
	end := w.collects(first)
	config := func(more string) string {
		return "sysParams: {" + more + "}\n" +
			doc([]string{network(1, logged)}, onNet(1, 1, "web", rules), onNet(2, 1, "mate", allowAll))
	}
	export := "flowExportCollector: 'udp://" + lab.WebAddr + ":" + ipfixPort + "', flowExportSocket: " + socket
	w.start(config(export))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.lease("web")
	w.lease("mate")
	w.listensToFlows()
	ip := w.ip(app(1)).String()
	const failing, exported = "edgespan_flowlog_export_failing", "edgespan_flowlog_exported_records_total"
	of := func(series, destination string) int { return w.metric(series + `{destination="` + destination + `"}`) }
	flows := func(from, many uint16) {
		t.Helper()
		lines, _ := w.written()
		w.sendUDP(lab.WebAddr, 2000, from, many)
		w.eventuallyIn(time.Minute, "the kernel tracks the flows", func() bool {
			n := strings.Count(w.in("node", "conntrack", "-L", "-p", "udp", "-s", ip), "dport=2000")
			return n >= int(many)
		})
		w.endFlows(ip)
		w.eventuallyIn(time.Minute, "they are in the log", func() bool {
			now, _ := w.written()
			return len(now) >= len(lines)+int(many)
		})
	}
	sameAsFile := func() {
		t.Helper()
		var lines, got []string
		w.eventuallyIn(time.Minute, "the program has each line of the file", func() bool {
			lines, _ = w.written()
			got = program.read()
			return slices.Equal(got, lines)
		})
	}

	flows(10000, 500)
	w.in("web", "ping", "-c", "2", "-W", "5", lab.WebAddr)
	w.in("web", "bash", "-c", "echo x > /dev/udp/"+w.ip(app(2)).String()+"/2000") // of two apps: two lines
	w.sendUDP(lab.WebAddr, 2001, 30000, 3)                                        // denied
	w.endFlows(ip)
	var lines []string
	w.eventuallyIn(time.Minute, "everything is in the log and exported", func() bool {
		var denied int
		lines, _ = w.written()
		for _, line := range lines {
			if strings.Contains(line, `"kind":"denied"`) {
				denied++
			}
		}
		return denied >= 3 && len(lines) >= 506 && of(exported, "collector") == len(lines)
	})
	end()
	_, want := w.written()
	if got := w.collected(first); !slices.Equal(got, want) {
		t.Errorf("the collector has %d flows, the log %d:\n%s\n\n%s", len(got), len(want), strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
	sameAsFile()

	program.ends()
	flows(20000, 300)
	w.eventuallyIn(time.Minute, "both are missing", func() bool {
		w.sendUDP(lab.WebAddr, 2000, 40000, 1)
		w.endFlows(ip)
		return of(failing, "collector") == 1 && of(failing, "socket") == 1
	})
	w.in("web", "ping", "-c", "1", "-W", "5", lab.WebAddr)
	if !strings.Contains(w.cli("events"), "the flow log is not sent to the collector") {
		t.Error("no event says so")
	}

	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	program.listens(w, socket)
	end = w.collects(second)
	w.eventuallyIn(time.Minute, "both are back", func() bool {
		return of(failing, "collector") == 0 && of(failing, "socket") == 0
	})
	sameAsFile()
	before := of(exported, "collector")
	flows(50000, 200)
	w.eventuallyIn(time.Minute, "they are exported", func() bool { return of(exported, "collector") >= before+200 })
	end()
	sent := 0
	for _, f := range w.collected(second) {
		for n := 50000; n < 50200; n++ {
			if strings.HasPrefix(f, fmt.Sprintf("17 %s:%d > ", ip, n)) {
				sent++
			}
		}
	}
	if sent != 200 {
		t.Errorf("the collector that came back has %d flows of 200", sent)
	}

	w.apply(config(""))
	w.eventuallyIn(time.Minute, "nothing is sent any more", func() bool {
		return of(failing, "collector") == -1 && of(failing, "socket") == -1
	})
}
