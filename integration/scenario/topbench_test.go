package scenario

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"edgespan/platform/tty"
)

// BenchmarkTop measures what edgespan top costs on a node with 100 networks: its own share of a core, and that of the
// daemon more than without it.
func BenchmarkTop(b *testing.B) {
	const networks, long = 100, 20 * time.Second
	w := newWorld(b)
	var doc strings.Builder
	doc.WriteString(wan + "networkInstances:\n")
	for n := range networks {
		doc.WriteString(network(n+1, ""))
	}
	w.start(doc.String())
	for n := range networks {
		w.wait("ready", "ni/"+ni(n+1))
	}
	pid := w.daemonPID()
	share := func(pid int) float64 {
		before, began := cpuTime(b, pid), time.Now()
		<-time.After(long)
		return 100 * (cpuTime(b, pid) - before).Seconds() / time.Since(began).Seconds()
	}
	<-time.After(5 * time.Second) // of what a start leaves to do
	var own, daemon float64
	for b.Loop() {
		alone := share(pid)
		screen, terminal, err := tty.Open(120, 40)
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			for buf := make([]byte, 1<<16); ; {
				if _, err := screen.Read(buf); err != nil {
					return
				}
			}
		}()
		cmd := exec.Command(w.Binary, "top")
		cmd.Env = append(os.Environ(), "EDGESPAN_SOCKET="+w.Socket())
		cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		daemon += share(pid) - alone
		_ = cmd.Process.Signal(os.Interrupt)
		err = cmd.Wait()
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		own += 100 * used.Seconds() / time.Since(began).Seconds()
		_ = screen.Close()
		_ = terminal.Close()
		if err != nil {
			b.Fatal(fmt.Errorf("top: %w", err))
		}
	}
	b.ReportMetric(own/float64(b.N), "%core-top")
	b.ReportMetric(daemon/float64(b.N), "%core-daemon")
	b.ReportMetric(0, "ns/op")
}
