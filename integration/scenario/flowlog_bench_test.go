package scenario

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/platform/lab"
)

const (
	logApps   = 5
	logRate   = 10000           // flows a second of all apps
	logLasts  = 3 * time.Second // what they leave in the log is not rotated away
	logPulse  = 10 * time.Millisecond
	logServer = 2000
)

// BenchmarkFlowLog lets apps open 10,000 flows a second, of one packet each, and compares the lines of the flow log with
// the packets that the server's host received of those that the apps sent: the kernel itself drops a packet or two whose
// flow gets a port that NAT gives another one at the same instant (insert_failed of conntrack -S). A core is that of the
// daemon alone. With export, the log is also sent to a collector by UDP.
func BenchmarkFlowLog(b *testing.B) {
	b.Run("file", func(b *testing.B) { benchmarkFlowLog(b, false) })
	b.Run("export", func(b *testing.B) { benchmarkFlowLog(b, true) })
}

func benchmarkFlowLog(b *testing.B, export bool) {
	for range b.N {
		w := newWorld(b, "a1", "a2", "a3", "a4", "a5")
		var apps []string
		for k := 1; k <= logApps; k++ {
			apps = append(apps, onNet(k, 1, fmt.Sprint("a", k), fmt.Sprintf(
				"udp: {action: allow, direction: egress, match: {protocol: udp, port: %d}}, ping: {action: allow, "+
					"match: {protocol: icmp}}", logServer)))
		}
		config, dir := doc([]string{network(1, logged)}, apps...), b.TempDir()
		end := func() {}
		if export {
			config = "sysParams: {flowExportCollector: 'udp://" + lab.WebAddr + ":" + ipfixPort + "'}\n" + config
			end = w.collects(dir)
		}
		w.start(config)
		for k := 1; k <= logApps; k++ {
			w.wait("ready", "app/"+app(k))
			w.lease(fmt.Sprint("a", k))
		}
		w.in("node", "sysctl", "-qw", "net.netfilter.nf_conntrack_udp_timeout=1")
		isp := w.Provider(0).Short
		w.in(isp, "iptables", "-t", "raw", "-A", "PREROUTING", "-p", "udp", "--dport", strconv.Itoa(logServer), "-j", "DROP")
		w.eventually("the kernel counts flows", func() bool {
			return w.in("node", "sysctl", "-n", "net.netfilter.nf_conntrack_acct") == "1"
		})
		w.eventually("the daemon records flows", func() bool {
			w.in("a1", "ping", "-c", "1", "-W", "5", lab.WebAddr)
			w.in("node", "conntrack", "-D", "-p", "icmp")
			return len(w.flowLog()) > 0
		})
		before, began := cpuTime(b, w.daemonPID()), time.Now()
		sent := w.openFlows()
		took := time.Since(began)
		w.eventuallyIn(time.Minute, "all flows ended", func() bool {
			return w.number("/proc/sys/net/netfilter/nf_conntrack_count") < 100
		})
		used, lines, lost := cpuTime(b, w.daemonPID())-before, 0, 0
		received := w.dropped(isp)
		w.eventually("each flow has a line or is counted", func() bool {
			lines, lost = w.countLines()
			return lines+lost >= received
		})
		if export {
			const counter = `{destination="collector"}`
			w.eventually("everything is exported", func() bool {
				return w.metric("edgespan_flowlog_exported_records_total"+counter)+
					w.metric("edgespan_flowlog_export_dropped_records_total"+counter) >= lines
			})
			end()
			got := 0
			for _, f := range w.collected(dir) {
				if strings.Contains(f, fmt.Sprintf("%s:%d as ", lab.WebAddr, logServer)) {
					got++
				}
			}
			b.ReportMetric(float64(w.metric("edgespan_flowlog_export_dropped_records_total"+counter)), "dropped")
			b.ReportMetric(float64(lines-got), "not-collected")
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(sent)/took.Seconds(), "flows/s")
		b.ReportMetric(100*used.Seconds()/took.Seconds(), "%core")
		b.ReportMetric(float64(lost), "lost-lines")
		b.ReportMetric(float64(sent-received), "lost-packets")
		b.ReportMetric(float64(received-lines-lost), "uncounted")
		b.ReportMetric(float64(w.daemonMemory())/1024, "MB-rss-peak")
	}
}

// countLines returns the packets that the flow log has, and how many lines are missing.
func (w *world) countLines() (packets, lost int) {
	w.Helper()
	for _, r := range w.flowLog() {
		if lost += int(r.Lost); strings.HasSuffix(r.Remote, fmt.Sprint(":", logServer)) {
			packets += int(r.PacketsOut)
		}
	}
	return packets, lost
}

// openFlows lets each app send packets from ports of their own, and returns how many there were.
func (w *world) openFlows() int {
	const each = int(logRate * logLasts / time.Second / logApps)
	const pulse = int(logRate * logPulse / time.Second / logApps)
	var all sync.WaitGroup
	gate := w.mac("node", "es1")
	for k := 1; k <= logApps; k++ {
		short := fmt.Sprint("a", k)
		link, own, ip := w.raw(short), w.mac(short, "eth0"), w.ip(app(k))
		all.Go(func() {
			tick := time.NewTicker(logPulse)
			defer tick.Stop()
			for n := range each {
				if n%pulse == 0 {
					<-tick.C
				}
				frame := ether(gate, own, etherIPv4, ipv4(ip, netip.MustParseAddr(lab.WebAddr), 17,
					udp(uint16(1024+n), logServer, []byte("x"))))
				if err := link.send(frame); err != nil {
					w.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return each * logApps
}

// dropped is how many packets a provider has dropped in raw PREROUTING.
func (w *world) dropped(isp string) int {
	w.Helper()
	for _, line := range strings.Split(w.in(isp, "iptables", "-t", "raw", "-L", "PREROUTING", "-nvx"), "\n") {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "DROP" {
			n, err := strconv.Atoi(f[0])
			if err != nil {
				w.Fatal(err)
			}
			return n
		}
	}
	w.Fatal("no rule counts")
	return 0
}

// daemonMemory is the largest resident memory of the daemon, in KiB.
func (w *world) daemonMemory() (kib int) {
	w.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.daemonPID()))
	if err != nil {
		w.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		w.Fatal(err)
	}
	return kib
}
