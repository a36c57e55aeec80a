package field

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/integration/soak/model"
)

// sleeper starts a process that sleeps, and returns a function that tells how it is: R, S, T, or "" if it has ended.
func sleeper(t *testing.T) (pid int, state func() string) {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	return cmd.Process.Pid, func() string {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if errors.Is(err, fs.ErrNotExist) {
			return ""
		}
		return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[0]
	}
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("waited in vain until", what)
		}
	}
}

// A fault whose process ends by itself just then, or does not run, is not made, and does not end the soak.
func TestFaultsOfProcessesThatHaveEnded(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []model.Kind{model.KillDaemon, model.KillHelper, model.StopHelper, model.OOMHelper} {
		for _, pid := range []int{gone.Process.Pid, 0} {
			found := fmt.Sprintf("echo %d", pid)
			if kind != model.KillDaemon && pid == 0 {
				found = "exit 1"
			}
			script := strings.ReplaceAll("ARG=0; "+scripts[kind].do, "/run/", "./")
			script = strings.ReplaceAll(script, "/proc/sysrq-trigger", "./sysrq")
			cmd := stubs(t, script, map[string]string{"systemctl": found, "pgrep": found, "sleep": ""})
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s of process %d: %v: %s", kind, pid, err, out)
			}
			if _, err := os.Stat(filepath.Join(cmd.Dir, "sysrq")); err == nil {
				t.Errorf("%s of process %d lets the kernel kill another one", kind, pid)
			}
		}
	}
}

func TestTheDaemonIsKilled(t *testing.T) {
	pid, state := sleeper(t)
	systemctl := fmt.Sprintf("[ -e starting ] && echo %d || echo 0; touch starting", pid) // it starts just then
	if out, err := stubs(t, scripts[model.KillDaemon].do,
		map[string]string{"systemctl": systemctl, "sleep": ""}).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	until(t, "it has ended", func() bool { return state() == "" })
}

// Two helpers of a node that are stopped at a time both go on.
func TestStoppedHelpersGoOn(t *testing.T) {
	one, first := sleeper(t)
	two, second := sleeper(t)
	here := func(script string) string { return strings.ReplaceAll(script, "/run/", "./") }
	stop := here(scripts[model.StopHelper].do)
	cmd := stubs(t, "ARG=0; ("+stop+"); ARG=1; ("+stop+")", map[string]string{"pgrep": fmt.Sprintf("echo %d %d", one, two)})
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	until(t, "both are stopped", func() bool { return first() == "T" && second() == "T" })
	undo := exec.Command("sh", "-c", here(scripts[model.StopHelper].undo))
	undo.Dir = cmd.Dir
	if out, err := undo.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	until(t, "both go on", func() bool { return first() == "S" && second() == "S" })
}

// A command that hangs goes on once the fault has ended, so that quiet is quiet.
func TestAHungCommandGoesOn(t *testing.T) {
	text, err := scriptFiles.ReadFile("scripts/hang.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := stubs(t, "mkdir hang sbin; touch hang/nft; cp nft0 sbin/nft; nft a 'b c'",
		map[string]string{"nft": string(text), "nft0": `echo "$# $2"`, "sleep": "touch hangs; exec /bin/sleep 0.01"})
	cmd.Env = append(cmd.Env, "SOAK_HANG=hang", "SOAK_SBIN=sbin")
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "it hangs", func() bool { _, err := os.Stat(filepath.Join(cmd.Dir, "hangs")); return err == nil })
	if err := os.Remove(filepath.Join(cmd.Dir, "hang/nft")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || out.String() != "2 b c\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}
