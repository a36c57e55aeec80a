package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

var timesAsFast = regexp.MustCompile(`(\d+) times as fast`)

// What a recording costs: a daemon with a hundred networks and three hundred adapters is created and left alone, without
// a recording and with one, and the recording is replayed.
func BenchmarkRecording(b *testing.B) {
	const networks, apps, watched = 100, 300, 2 * time.Minute
	for range b.N {
		var used, busy [2]float64 // of a core, and seconds until all was settled
		var octets int64
		record := ""
		for i := range used {
			p := newPlace(b, apps)
			if i == 1 {
				record = filepath.Join(b.TempDir(), "record")
			}
			d, cfg := p.start("EDGESPAN_RECORD="+record), newDoc()
			pid := d.cmd.Process.Pid
			cfg.full(p, networks, apps)
			before := cpu(b, pid)
			d.apply(cfg)
			d.settled(networks, apps)
			busy[i] = float64(cpu(b, pid)-before) / clockTicks
			time.Sleep(time.Minute) // the first round of looks finds what the last apply changed
			before, octets = cpu(b, pid), sizeOf(b, record)
			time.Sleep(watched)
			used[i] = 100 * float64(cpu(b, pid)-before) / clockTicks / watched.Seconds()
			octets = sizeOf(b, record) - octets
			p.close()
		}
		path, err := binary()
		if err != nil {
			b.Fatal(err)
		}
		out, err := exec.Command(path, "replay", record).Output()
		fast := timesAsFast.FindSubmatch(out)
		if err != nil || fast == nil {
			b.Fatalf("replay: %v: %s", err, out)
		}
		speed, err := strconv.ParseFloat(string(fast[1]), 64)
		if err != nil {
			b.Fatal(err)
		}
		b.Logf("without %.2f %%, with %.2f %% of a core; until settled %.2f s and %.2f s\n%s", used[0], used[1], busy[0],
			busy[1], out)
		b.ReportMetric(used[1]-used[0], "%core")
		b.ReportMetric(float64(octets)*float64(time.Hour/watched)/(1<<20), "MiB/h")
		b.ReportMetric(busy[1]/busy[0], "ratio-busy")
		b.ReportMetric(speed, "times-real")
	}
	b.ReportMetric(0, "ns/op")
}

// sizeOf returns the size of the files in a folder.
func sizeOf(b *testing.B, dir string) (sum int64) {
	b.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && dir != "" {
		b.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
	}
	return sum
}
