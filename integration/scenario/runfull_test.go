package scenario

import (
	"strings"
	"testing"

	"edgespan/platform/lab"
)

// Others fill the file system of the run folder, which is everybody's memory. The daemon stays,
// networks that stand go on, what can't be made says why, and all of it comes once there is room.
func TestAFullRunFolderStopsNothingThatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	fill, room := w.smallDiskAt(w.RunDir())
	web, client := onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll)
	w.start(doc([]string{network(1, "")}, web))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	pid, dnsmasq := w.daemonPid(), w.dnsmasq()
	fill()
	w.apply(doc([]string{network(1, ""), network(2, "")}, web, client))
	failed := func(n int) bool {
		st := w.status("ni", ni(n))
		why, _ := st["error"].(string)
		return strings.HasSuffix(st["state"].(string), "Failed") && strings.Contains(why, "no space left on device")
	}
	w.eventually("the new network says why it is not there", func() bool { return failed(2) })
	w.eventually("the network of the new app says why that is not there", func() bool { return failed(1) })
	if now := w.daemonPid(); now != pid {
		t.Errorf("the daemon %q became %q", pid, now)
	}
	goesOn := func() { // who was there before sees nothing of it: lease, name and way out
		t.Helper()
		w.lease("web")
		if got := w.in("web", "dig", "+short", "+tries=2", "@10.1.0.1", "app1.n1.edge"); got != w.ip(app(1)).String() {
			t.Errorf("app1.n1.edge is %q", got)
		}
		w.in("web", "ping", "-c", "1", "-W", "2", lab.WebAddr)
	}
	goesOn()
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.eventually("one that starts says the same", func() bool { return failed(1) && failed(2) })
	goesOn()
	room()
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
	w.lease("client")
	if now := w.dnsmasq(); !strings.Contains(now, dnsmasq) {
		t.Errorf("dnsmasq %q became %q", dnsmasq, now)
	}
}
