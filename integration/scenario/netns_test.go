package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A path that is no namespace of an app costs that app its link and affects no other app. Opening it could block until
// another process writes, or the app's interface would end up in the node's namespace.
func TestAPathThatIsNoNamespaceDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	fifo := filepath.Join(w.Dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	config := func(acl string, more ...string) string {
		return doc([]string{network(1, "")}, append([]string{onNet(1, 1, "web", acl)}, more...)...)
	}
	own := strings.Replace(onNet(3, 1, "/run/netns/"+w.NS("node"), allowAll), "kind: veth,", "kind: veth, ifName: stray0,",
		1)
	bad := []string{onNet(2, 1, fifo, allowAll), own}
	w.start(config(allowAll, bad...))
	w.wait("ready", "app/"+app(1))
	reach := func() bool {
		r, err := w.Exec(w.ctx, "web", "ping", "-c", "1", "-W", "1", "198.51.100.80")
		return err == nil && r.Code == 0
	}
	w.lease("web")
	if !reach() {
		t.Error("an app beside does not reach the world")
	}
	for a, why := range map[int]string{2: "not a network namespace", 3: "the node's own network namespace"} {
		if s := w.cli("get", "app", app(a), "-o", "json"); !strings.Contains(s, why) {
			t.Errorf("app %d does not say %q: %s", a, why, s)
		}
	}
	// Changes of the other apps take effect, even with a daemon that starts with such a config.
	w.apply(config("", bad...))
	w.eventually("the end of the rules", func() bool { return !reach() })
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.apply(config(allowAll, bad...))
	w.eventually("the rules", reach)
	w.apply(config(allowAll))
	w.wait("absent", "app/"+app(2), "app/"+app(3))
	if links := w.in("node", "ip", "-br", "link"); strings.Contains(links, "stray0") {
		t.Errorf("the node has an app's link:\n%s", links)
	}
	if st, err := os.Stat(fifo); err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the FIFO is %v, %v", st, err)
	}
}
