package proc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// procStatus are fields of /proc/PID/status (proc_pid_status(5)).
func procStatus(t *testing.T, pid string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}

// A helper is held to its confinement, also one in another namespace's thread, and nothing
// of it stays with us.
func TestAHelperIsConfined(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	before := procStatus(t, "self")
	c := Confinement{Keep: []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SETUID}, Memory: 1 << 30, Files: 77}
	for _, netns := range []string{"", "/proc/self/ns/net"} {
		if netns != "" && os.Geteuid() != 0 {
			t.Log("skipped: needs root to enter a namespace")
			continue
		}
		id, err := New(netns).Start([]string{"sleep", "1000"}, out, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = id.Stop(context.Background(), time.Second) })
		s := procStatus(t, strconv.Itoa(id.Pid))
		if s["NoNewPrivs"] != "1" || auditArch() != 0 && s["Seccomp"] != "2" {
			t.Errorf("no new privileges %s, seccomp %s", s["NoNewPrivs"], s["Seccomp"])
		}
		want := fmt.Sprintf("%016x", 1<<unix.CAP_NET_ADMIN|1<<unix.CAP_SETUID)
		if os.Geteuid() == 0 && (s["CapBnd"] != want || s["CapEff"] != want) {
			t.Errorf("capabilities %s of %s, want %s", s["CapEff"], s["CapBnd"], want)
		}
		limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", id.Pid))
		if err != nil || !strings.Contains(strings.Join(strings.Fields(string(limits)), " "), "Max open files 77 77") {
			t.Errorf("limits: %s %v", limits, err)
		}
	}
	for _, name := range []string{"NoNewPrivs", "Seccomp", "CapBnd", "CapEff"} {
		if now := procStatus(t, "self")[name]; now != before[name] {
			t.Errorf("our own %s is %s, was %s", name, now, before[name])
		}
	}
	// The thread that a helper was started from ends with its goroutine, a moment later.
	filtered := func() (threads []string) {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			b, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
			if err == nil && !strings.Contains(string(b), "Seccomp:\t"+before["Seccomp"]+"\n") {
				threads = append(threads, task.Name())
			}
		}
		return threads
	}
	for end := time.Now().Add(5 * time.Second); len(filtered()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("threads %v of ours have a filter", filtered())
		}
	}
}

// What a helper that was taken over would do next is refused, and what it needs is not.
func TestSeccompRefusesWhatAHelperHasNoBusinessWith(t *testing.T) {
	if auditArch() == 0 {
		t.Skip("no filter for this architecture")
	}
	if !HasCommand("python3") {
		t.Skip("needs python3")
	}
	out := filepath.Join(t.TempDir(), "out")
	id, err := New("").Start([]string{"python3", "-c", `
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def sock(*a):
    try:
        socket.socket(*a).close()
        return 0
    except OSError as e:
        return e.errno
print("packet", sock(socket.AF_PACKET, socket.SOCK_RAW))
print("alg", sock(38, socket.SOCK_SEQPACKET))
print("netfilter", sock(socket.AF_NETLINK, socket.SOCK_RAW, 12))
print("route", sock(socket.AF_NETLINK, socket.SOCK_RAW, 0))
print("inet", sock(socket.AF_INET, socket.SOCK_DGRAM), sock(socket.AF_INET6, socket.SOCK_STREAM), ` +
		`sock(socket.AF_UNIX, socket.SOCK_DGRAM))
libc.unshare(0x10000000)
print("unshare", ctypes.get_errno())
libc.ptrace(0, 0, 0, 0)
print("ptrace", ctypes.get_errno())
pid = os.fork()
if pid == 0:
    os._exit(3)
print("fork", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
`}, out, Confinement{Keep: []uintptr{unix.CAP_NET_RAW, unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); id.Alive() && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
	}
	said, err := os.ReadFile(out)
	if want := "packet 1\nalg 1\nnetfilter 1\nroute 0\ninet 0 0 0\nunshare 1\nptrace 1\nfork 3\n"; err != nil ||
		string(said) != want {
		t.Errorf("said %q, want %q", said, want)
	}
}
