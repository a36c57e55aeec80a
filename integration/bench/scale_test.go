package bench

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var networks = flag.Int("networks", 250, "how many networks BenchmarkScale has, with four inactive apps each")

// Very many networks and inactive apps by one config, until all networks are Present; the
// same without a daemon; and a daemon that starts again on what stands.
func BenchmarkScale(b *testing.B) {
	apps := (*networks*4 + 9) / 10 * 10
	b.Run(fmt.Sprintf("%d+%d", *networks, apps), func(b *testing.B) {
		defer inotify(b, *networks)()
		var own, bare []time.Duration
		turns(b, func() {
			own = append(own, scaled(b, *networks, apps))
		}, func() {
			p := newPlace(b, 0)
			defer p.close()
			f := p.floor()
			start := time.Now()
			f.networks(*networks)
			p.answers(gateways(*networks))
			bare = append(bare, time.Since(start))
		})
		ratio(b, own, bare)
	})
}

// scaled tells how long a daemon takes for one config with so many networks, and reports
// what that and a start on what stands take.
func scaled(b *testing.B, networks, apps int) time.Duration {
	b.Helper()
	p := newPlace(b, 0)
	defer p.close()
	d, cfg := p.start(), newDoc()
	for n := range networks {
		cfg.network(n + 1)
	}
	for k := range apps {
		cfg.app(k, k%networks+1, fmt.Sprint("none", k), 1)
		cfg["appNetworks"][appID(k)].(object)["activate"] = false
	}
	start := time.Now()
	d.apply(cfg)
	d.logf("the config was taken after %v", time.Since(start))
	d.present(networks)
	took := time.Since(start)
	d.spent("", took)
	d.inactive(apps)
	d.logf("all apps told after %v", time.Since(start))

	helpers := p.helpers()
	d.stop()
	start = time.Now()
	d = p.start()
	d.present(networks)
	d.spent("-restart", time.Since(start))
	d.inactive(apps)
	d.logf("all apps told after %v", time.Since(start))
	if now := p.helpers(); now != helpers || strings.Count(now, "\n") != networks {
		b.Errorf("%d dnsmasqs before the restart, %d after it, or others", strings.Count(helpers, "\n"),
			strings.Count(now, "\n"))
	}
	return took
}

// stop ends the daemon as systemd does.
func (d *daemon) stop() {
	d.Helper()
	d.check(d.cmd.Process.Signal(syscall.SIGTERM))
	d.check(d.cmd.Wait())
}

// helpers are the process ids of the place's dnsmasqs, one a line.
func (p *place) helpers() string {
	p.Helper()
	list := &strings.Builder{}
	for _, pid := range strings.Fields(p.ns.Exec(p.B, "pgrep", "-x", "dnsmasq")) {
		if n, err := strconv.Atoi(pid); err == nil && strings.Contains(cmdline(n), p.dir) {
			fmt.Fprintln(list, n)
		}
	}
	return list.String()
}

// spent reports what the daemon has used since its start.
func (d *daemon) spent(when string, took time.Duration) {
	d.Helper()
	pid := d.cmd.Process.Pid
	seconds := float64(cpu(d.B, pid)) / clockTicks
	peak := float64(status(d.B, pid, "status", "VmHWM:")) / 1024
	said, err := os.ReadFile(d.log)
	d.check(err)
	failed := bytes.Count(said, []byte(`"op failed"`))
	d.logf("all present after %v, %.1f s of processor time with commands, peak %.0f MB, now %d MB, %d failed ops, %d KB "+
		"of log",
		took, seconds, peak, status(d.B, pid, "status", "VmRSS:")/1024, failed, len(said)/1024)
	d.ReportMetric(took.Seconds(), "s"+when)
	d.ReportMetric(seconds, "cpu-s"+when)
	d.ReportMetric(peak, "MB-peak"+when)
	d.ReportMetric(float64(failed), "failed"+when)
}

// logf says at once what a run of minutes has come to.
func (d *daemon) logf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

const scaleTimeout = 2 * time.Minute

// present waits until all networks are Present. To ask costs the daemon a listing of
// them all, so it is asked seldom.
func (d *daemon) present(networks int) {
	d.Helper()
	d.every("ni", networks, func(s object) bool { return s["state"] == "Present" && s["error"] == "" })
}

// inactive waits until all apps are told to be inactive, as they are wanted.
func (d *daemon) inactive(apps int) {
	d.Helper()
	d.every("app", apps, func(s object) bool { return s["activated"] == false && s["pending"] == false })
}

func (d *daemon) every(kind string, n int, good func(object) bool) {
	d.Helper()
	for end := time.Now().Add(scaleTimeout); ; time.Sleep(100*time.Millisecond + time.Duration(n)*time.Millisecond/2) {
		list, err := d.api.List(context.Background(), kind)
		d.check(err)
		count := 0
		for _, r := range list {
			if s, ok := r.Status.(object); ok && good(s) {
				count++
			}
		}
		if count == n && len(list) == n {
			return
		}
		if time.Now().After(end) {
			d.Fatalf("%d of %d %s after %v", count, n, kind, scaleTimeout)
		}
	}
}

// inotify has the machine give root the inotify instances that so many dnsmasqs need,
// one each, and says so: a default Debian has 128. The old value comes back.
func inotify(b *testing.B, networks int) (restore func()) {
	b.Helper()
	const path, spare = "/proc/sys/fs/inotify/max_user_instances", 128
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	have, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		b.Fatal(err)
	}
	if have >= networks+spare {
		return func() {}
	}
	b.Logf("fs.inotify.max_user_instances of the machine is %d, and %d until the end of this benchmark", have, networks+
		spare)
	if err := os.WriteFile(path, []byte(strconv.Itoa(networks+spare)), 0o644); err != nil {
		b.Fatal(err)
	}
	return func() {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			b.Error(err)
		}
	}
}
