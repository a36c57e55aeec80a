package nodecli

import (
	"fmt"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/pubsub/loglevel"
)

func TestLogLevelsAreShownAndChanged(t *testing.T) {
	var changes []string
	levels := loglevel.New([]string{"probe", "bridge"}, loglevel.Info, func(c loglevel.Change) {
		changes = append(changes, fmt.Sprintf("%s %s %v %v", c.Subsystem, c.Level, c.For, c.By != "" && len(c.By) <= 64))
	})
	t.Cleanup(func() { levels.Set(loglevel.Change{Subsystem: loglevel.All, Level: loglevel.Reset}) })
	socket := clitest.ServeHandler(t, nodeapi.Handler(clitest.Filled(), nodeapi.WithLogLevels(levels)))
	for _, c := range []struct {
		line string
		code int
		says []string
	}{
		{"loglevel", term.ExitOK, []string{"SUBSYSTEM", "all        info", "bridge     info", "probe      info"}},
		{"loglevel probe debug --for 30m", term.ExitOK, []string{"probe      debug  20"}},
		{"loglevel all warn", term.ExitOK, []string{"all        warn", "bridge     warn"}},
		{"loglevel bridge -o json", term.ExitOK, []string{`"level": "warn"`}},
		{"loglevel all reset", term.ExitOK, []string{"bridge     info"}},
		{"loglevel dns", term.ExitUsage, []string{`SUBSYSTEM: invalid value "dns"`}},
		{"loglevel dns debug", term.ExitError, []string{`subsystem: invalid value "dns": must be bridge, probe or all`}},
		{"loglevel probe trace", term.ExitUsage, []string{`LEVEL: invalid value "trace"`}},
		{"loglevel probe debug --for 25h", term.ExitUsage, []string{"--for: invalid value 25h0m0s: must be a positive"}},
		{"loglevel probe debug --for 0", term.ExitUsage, []string{"--for"}},
		{"loglevel a b c", term.ExitUsage, nil},
		{"__complete loglevel ", term.ExitOK, []string{"all\nbridge\nprobe\n"}},
		{"__complete loglevel probe ", term.ExitOK, []string{"debug\n", "reset\n"}},
	} {
		got := cli(t, clitest.At(socket), "", strings.Split(c.line, " ")...)
		if got.Code != c.code {
			t.Errorf("edgespan %s: %+v", c.line, got)
		}
		for _, want := range c.says {
			if !strings.Contains(got.Out+got.Err, want) {
				t.Errorf("edgespan %s: %+v, want %q", c.line, got, want)
			}
		}
	}
	if got := strings.Join(changes, "; "); got != "probe debug 30m0s true; all warn 10m0s true; all reset 0s true" {
		t.Errorf("changes: %s", got)
	}
}
