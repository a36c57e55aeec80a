package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// While nothing happens the daemon sleeps: its heartbeat wakes it once a second, and neither a collector of garbage
// nor a socket that it listens on is polled. A window in which other programs change the machine's namespaces counts
// more, so the best one counts.
func TestAnIdleDaemonSleeps(t *testing.T) {
	w := newWorld(t, "a")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "a", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	pid := w.daemonPid()
	const window, most = 2 * time.Second, 24 // of all threads: a beat that passes between actors wakes several
	fewest := -1
	for end := time.Now().Add(40 * time.Second); (fewest < 0 || fewest > most) && time.Now().Before(end); {
		before := w.switches(pid)
		time.Sleep(window) // the measurement is of this duration
		if n := w.switches(pid) - before; fewest < 0 || n < fewest {
			fewest = n
		}
	}
	t.Logf("an idle daemon is woken %d times in %v", fewest, window)
	if fewest > most {
		t.Errorf("an idle daemon is woken %d times in %v, which may be %d", fewest, window, most)
	}
}

// switches returns how often the threads of a process have waited (proc(5), voluntary_ctxt_switches).
func (w *world) switches(pid string) (sum int) {
	w.Helper()
	tasks, err := filepath.Glob("/proc/" + pid + "/task/*/status")
	if err != nil || len(tasks) == 0 {
		w.Fatalf("threads of %s: %v", pid, err)
	}
	for _, path := range tasks {
		text, _ := os.ReadFile(path) // it may have just ended
		_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		n := 0
		_, _ = fmt.Sscan(rest, &n)
		sum += n
	}
	return sum
}
