package scenario

import (
	"strings"
	"testing"

	"edgespan/platform/lab"
)

// Two uplinks behind routers of one make have the same address and the same gateway. Probes, choice and routes work for
// each by itself: a network leaves one whose far side is dead, and returns. The doctor says what does not work.
func TestTwoUplinksOfOneAddress(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web"}, Second: true})
	w.in("isp2", "ip", "addr", "add", lab.Gateway+"/24", "dev", "node1")
	w.sh("ip addr flush dev uplink1; ip addr add " + lab.NodeAt + "/24 dev uplink1; " +
		"ip route add default via " + lab.Gateway + " dev uplink1 metric 100")
	w.start(byUplinks(wan2))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	out := func(why, label string) {
		t.Helper()
		w.eventually(why+": out by "+label, func() bool {
			r, err := w.Exec(w.ctx, "web", "curl", "-sS", "-m", "1", "http://"+lab.WebAddr+"/")
			return err == nil && r.Code == 0 && strings.Contains(r.Out, "you are "+lab.NodeAt+":") &&
				strings.Contains(w.cli("explain", "ni/"+ni(1)), "uplink port "+label+" ")
		})
	}
	out("both lead out", "wan")
	w.says(func() string { return w.cli("doctor") }, "ports lte and wan have the same address "+lab.NodeAt)
	w.breakUplink(0, lab.FarSideDead)
	out("the far side of wan is dead", "lte")
	w.repairUplink(0, lab.FarSideDead)
	out("it is back", "wan")
	w.breakUplink(0, lab.LinkDown)
	out("no carrier", "lte")
	w.repairUplink(0, lab.LinkDown)
	out("a carrier", "wan")
}
