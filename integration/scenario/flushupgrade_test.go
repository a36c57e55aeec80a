package scenario

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// A node whose chains come from a release without marks gets its guard without losing a packet.
func TestTheGuardComesWithoutLosingAPacket(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	w.lease("web")
	w.lease("client")
	guarded := w.in("node", "nft", "list", "table", "inet", "edgespan")
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	// What the last release left: chains that accept themselves, and no guard. All flows went through the networks' chains.
	old := regexp.MustCompile(`(?m)^-A FORWARD .*-j ES-PASS$\n`).ReplaceAllString(
		w.in("node", "iptables-save", "-t", "filter"), "")
	old = strings.NewReplacer("-j ES-PASS", "-j ACCEPT", "-A ES-PASS -j MARK --set-xmark 0x10000000/0x10000000\n",
		"").Replace(old)
	file := filepath.Join(w.Dir, "old")
	if err := os.WriteFile(file, []byte(old+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.in("node", "nft", "delete", "table", "inet", "edgespan")
	w.in("node", "iptables-restore", file)
	for _, store := range []string{"host/chains.json", "ni/1/chains.json"} {
		path := filepath.Join(w.RunDir(), store)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "-j ES-PASS", "-j ACCEPT")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var loops []*lab.Loop
	for from, to := range map[string]string{"web": clientIP, "client": lab.WebAddr} {
		l, err := w.PingLoop(from, netip.MustParseAddr(to), 2*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.WaitGood(w.ctx, 20); err != nil {
			t.Fatal(err)
		}
		loops = append(loops, l)
	}
	w.restart()
	w.eventually("the guard, which spares no network", func() bool {
		r, err := w.Exec(w.ctx, "node", "nft", "list", "table", "inet", "edgespan")
		return err == nil && r.Code == 0 && r.Out != "" && strings.TrimSpace(r.Out) == guarded
	})
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	for _, l := range loops {
		if err := l.WaitGood(w.ctx, 20); err != nil {
			t.Error(err)
		}
		if c := l.Stop(); c.Lost+c.Wrong > 0 {
			t.Errorf("an upgrade: %s", c)
		}
	}
}
