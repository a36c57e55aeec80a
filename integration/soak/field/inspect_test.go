package field

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/integration/soak/guest"
	"edgespan/integration/soak/report"
)

func TestLinesOfAJournalThatMustNotBeThere(t *testing.T) {
	of := regexp.MustCompile(bad)
	const daemon = "Nov 29 06:47:10 edge edgespan[412]: "
	for line, want := range map[string]bool{
		daemon + "panic: runtime error: index out of range [1] with length 1": true,
		daemon + "fatal error: concurrent map writes":                         true,
		// supervise.Lifecycle and Leaf: the actor starts again, the process goes on.
		daemon + `{"level":"error","ts":"…","msg":"panic","actor":"ni/1","err":"x","stack":"…"}`: true,
		"… systemd[1]: edgespan.service: Watchdog timeout (limit 1min 30s)!":                     true,
		"… systemd[1]: edgespan.service: Main process exited, code=exited, status=1/FAILURE":     true,
		"… systemd[1]: edgespan.service: Main process exited, code=dumped, status=6/ABRT":        true,
		"… systemd[1]: edgespan.service: Main process exited, code=killed, status=9/KILL":        false, // the plan did
		"… systemd[1]: edgespan.service: Scheduled restart job, restart counter is at 1.":        false,
		"… systemd[1]: soak-agent.service: Main process exited, code=exited, status=1/FAILURE":   false,
		daemon + `{"level":"error","ts":"…","msg":"apply","err":"a panic is no message of it"}`:  false,
	} {
		if of.MatchString(line) != want {
			t.Errorf("%s: want %v", line, want)
		}
	}
	if strings.Contains(bad, "'") { // the guest's shell has it in quotes
		t.Error(bad)
	}
}

// stubs makes programs of shell scripts, and returns a command that runs a script with these before the others.
func stubs(t *testing.T, script string, programs map[string]string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	return cmd
}

func TestTheJournalIsReadUpToNow(t *testing.T) {
	const crash = `edge edgespan[4]: {"level":"error","msg":"panic"}`
	logs := map[string]string{"logger": `shift 2; echo "edge soak: $*" >>log`, "journalctl": `[ "$1" = --sync ] || cat log`}
	if out, err := stubs(t, readJournal, logs).Output(); err != nil || len(out) > 0 {
		t.Errorf("nothing is bad: %v, %s", err, out)
	}
	cmd := stubs(t, "echo '"+crash+"' >log; "+readJournal, logs)
	if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != crash {
		t.Errorf("a crash: %v, %s", err, out)
	}
	logs["journalctl"] = "exit 1"
	if out, err := stubs(t, readJournal, logs).Output(); err == nil {
		t.Errorf("nothing can be read: %s", out)
	}
}

func TestACrashOfTheControllerIsFoundOnce(t *testing.T) {
	l := lab{dir: t.TempDir()}
	if got := l.crashes(); len(got) != 1 {
		t.Errorf("without a log: %q", got)
	}
	for i, step := range []struct {
		more string
		want []string
	}{
		{`{"level":"info","msg":"CA sha256:1"}` + "\n", nil},
		{`{"level":"error","msg":"panic","actor":"fleet"}` + "\nall is well\n",
			[]string{`{"level":"error","msg":"panic","actor":"fleet"}`}},
		{"", nil},
		{"panic: 1\npanic: 2\npanic: 3\npanic: 4\n", []string{"panic: 1", "panic: 2", "panic: 3"}},
	} {
		f, err := os.OpenFile(filepath.Join(l.dir, "controller.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.WriteString(step.more)
		_ = f.Close()
		if got := l.crashes(); !slices.Equal(got, step.want) {
			t.Errorf("look %d: %q, want %q", i, got, step.want)
		}
	}
}

// The plan never ends the daemon of node 1, so another process is a crash, whatever the journal has kept of it.
func TestTheDaemonOfNode1RunsAllTheTime(t *testing.T) {
	r := &run{referee: testReferee(), ticks: map[int]ticked{}, series: map[string]*report.Series{}}
	now := time.Now()
	for i, step := range []struct{ node, pid, want int }{
		{1, 400, 0}, {2, 500, 0}, {1, 400, 0}, {2, 501, 0}, {1, 402, 1}, {1, 402, 1},
	} {
		r.measured(step.node, guest.Measured{PID: step.pid}, now.Add(time.Duration(i)*time.Second))
		if len(r.referee.violations) != step.want {
			t.Errorf("sample %d: %+v", i, r.referee.violations)
		}
	}
}
