package guest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Measured is what a guest says of its daemon.
type Measured struct {
	PID                            int
	RSS, Anonymous                 float64 // in MB; Anonymous is without the pages of files, which come and go
	Descriptors, Actors, Threads   float64
	Ticks                          float64 // processor time, in hundredths of a second
	Goroutines                     float64
	Sets, Files, Tracked, Children float64
	Err                            string `json:",omitempty"`
}

// sampleMain prints what a daemon takes.
func sampleMain() error {
	m, err := measure()
	if err != nil {
		m.Err = err.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(m)
}

func measure() (m Measured, err error) {
	out, err := exec.Command("systemctl", "show", "edgespan", "-p", "MainPID", "--value").Output()
	if err == nil {
		m.PID, err = strconv.Atoi(strings.TrimSpace(string(out)))
	}
	if err != nil {
		return m, err
	}
	if m.PID == 0 {
		return m, fmt.Errorf("no daemon runs")
	}
	proc := fmt.Sprintf("/proc/%d/", m.PID)
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		return m, err
	}
	m.read(string(status))
	stat, err := os.ReadFile(proc + "stat")
	if err != nil {
		return m, err
	}
	if f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])); len(f) > 12 {
		user, _ := strconv.ParseFloat(f[11], 64)
		system, _ := strconv.ParseFloat(f[12], 64)
		m.Ticks = user + system
	}
	fds, _ := os.ReadDir(proc + "fd")
	m.Descriptors = float64(len(fds))
	sets, err := exec.Command("/usr/sbin/ipset", "list", "-n").Output()
	if err != nil { // as below: what cannot be measured is not 0
		return m, err
	}
	m.Sets = float64(strings.Count(string(sets), "\n"))
	m.Files = countFiles("/run/edgespan") + countFiles("/var/lib/edgespan")
	tracked, _ := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
	m.Tracked, _ = strconv.ParseFloat(strings.TrimSpace(string(tracked)), 64)
	children, _ := exec.Command("pgrep", "-c", "dnsmasq|charon|wireguard").Output()
	m.Children, _ = strconv.ParseFloat(strings.TrimSpace(string(children)), 64)
	actors, err := exec.Command("edgespan", "get", "actor", "-o", "name").Output()
	if err != nil {
		return m, err
	}
	m.Actors = float64(strings.Count(string(actors), "\n"))
	m.Goroutines, err = goroutines("/run/edgespan/edgespan.sock")
	return m, err
}

// read reads what /proc/PID/status says (proc_pid_status(5)).
func (m *Measured) read(status string) {
	for line := range strings.Lines(status) {
		name, text, _ := strings.Cut(line, ":")
		of := map[string]*float64{"VmRSS": &m.RSS, "RssAnon": &m.Anonymous, "Threads": &m.Threads}[name]
		if f := strings.Fields(text); of != nil && len(f) > 0 {
			*of, _ = strconv.ParseFloat(f[0], 64)
			if len(f) > 1 { // kB
				*of /= 1024
			}
		}
	}
}

// goroutines asks a daemon how many goroutines it has.
func goroutines(socket string) (float64, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	c := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: 10 * time.Second}
	answer, err := c.Get("http://edgespan/v1/debug/goroutines")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	head, err := bufio.NewReader(answer.Body).ReadString('\n') // version …, 42 goroutines, heap …
	if err != nil {
		return 0, err
	}
	words := strings.Fields(head)
	for i, w := range words {
		if strings.HasPrefix(w, "goroutines") && i > 0 {
			return strconv.ParseFloat(words[i-1], 64)
		}
	}
	return 0, fmt.Errorf("goroutines: %s: no number in %q", answer.Status, head)
}

func countFiles(dir string) float64 {
	n := 0.0
	_ = filepath.WalkDir(dir, func(string, os.DirEntry, error) error { n++; return nil })
	return n
}
