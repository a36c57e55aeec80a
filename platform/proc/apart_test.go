package proc

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A helper that is apart has its UDP sockets where its Runner is, and all else in its own namespace; later, and for
// sockets that are none of its business, it is refused.
func TestAHelperApartHasItsSocketsHere(t *testing.T) {
	if auditArch() == 0 {
		t.Skip("no filter for this architecture")
	}
	if !HasCommand("python3") || os.Geteuid() != 0 {
		t.Skip("needs python3, and root to make a namespace")
	}
	dir := t.TempDir()
	out, go1 := filepath.Join(dir, "out"), filepath.Join(dir, "go")
	prepared := ""
	id, sockets, err := New("").StartApart([]string{"python3", "-c", `
import os, socket, struct, sys, time, errno, fcntl
def sock(*a):
    try:
        return socket.socket(*a)
    except OSError as e:
        return errno.errorcode[e.errno]
def cookie(s): # SO_NETNS_COOKIE
    return s if isinstance(s, str) else struct.unpack("Q", s.getsockopt(socket.SOL_SOCKET, 71, 8))[0]
udp, udp6 = sock(socket.AF_INET, socket.SOCK_DGRAM, 17), sock(socket.AF_INET6, socket.SOCK_DGRAM, 17)
other = sock(socket.AF_INET, socket.SOCK_STREAM, 6)
print("same", cookie(udp) == cookie(udp6), "apart", cookie(udp) != cookie(other))
udp.bind(("127.0.0.1", 0))
print("bound", udp.getsockname()[1] > 0, "xfrm", sock(socket.AF_NETLINK, socket.SOCK_RAW, 6), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.005)
print("later", sock(socket.AF_INET, socket.SOCK_DGRAM, 17), "dns", cookie(sock(socket.AF_INET, socket.SOCK_DGRAM, 0)) == cookie(other),
    flush=True)
`, go1}, out, Confinement{Keep: nil}, Apart{Prepare: func() error {
		link, err := os.Readlink("/proc/thread-self/ns/net")
		prepared = link
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = id.Stop(context.Background(), time.Second) })
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil || prepared == own || prepared == "" {
		t.Errorf("prepared in namespace %q, its own is %q: %v", prepared, own, err)
	}
	first := "same True apart True\nbound True xfrm EPERM\n"
	awaitText(t, out, first)
	sockets.Close()
	if err := os.WriteFile(go1, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	awaitText(t, out, first+"later ENOSYS dns True\n")
}

// awaitText waits until a file has a text.
func awaitText(t *testing.T, path, want string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(path)
		if err == nil && string(text) == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("said %q, want %q: %v", text, want, err)
		}
	}
}

// Signals interrupt the daemon's threads all the time: Go preempts by them. Each socket of a helper is one all the same,
// and none takes the place of its stdin.
func TestAHelperApartGetsItsSocketsUnderSignals(t *testing.T) {
	if auditArch() == 0 {
		t.Skip("no filter for this architecture")
	}
	if !HasCommand("python3") || os.Geteuid() != 0 {
		t.Skip("needs python3, and root to make a namespace")
	}
	out := filepath.Join(t.TempDir(), "out")
	id, sockets, err := New("").StartApart([]string{"python3", "-c", `
import os, socket, stat
wrong = 0
for i in range(4000):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 17)
    if s.fileno() < 3 or not stat.S_ISSOCK(os.fstat(s.fileno()).st_mode):
        wrong += 1
        s.detach()
    else:
        s.close()
print("wrong", wrong, flush=True)
`}, out, Confinement{Keep: nil}, Apart{Prepare: func() error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = id.Stop(context.Background(), time.Second) })
	var over atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !over.Load() {
			threads, err := os.ReadDir("/proc/self/task")
			if err != nil {
				t.Error(err)
				return
			}
			for _, th := range threads {
				if tid, err := strconv.Atoi(th.Name()); err == nil {
					_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG)
				}
			}
		}
	}()
	defer func() { over.Store(true); <-ended }()
	awaitText(t, out, "wrong 0\n")
	sockets.Close()
}
