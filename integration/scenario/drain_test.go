package scenario

import (
	"strings"
	"testing"

	"edgespan/platform/lab"
)

// An operator moves networks off a line before work on it: the app's packets leave by the other one until the drain
// ends, across a restart of the daemon.
func TestADrainedUplinkCarriesNoPacketOfAnApp(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web"}, Second: true})
	w.start(byUplinks(wan2))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	w.byWan("both work")
	w.cli("port", "drain", "wan", "--for", "1h")
	w.byLTE("wan is drained")
	w.says(func() string { return w.cli("explain", "ni/"+ni(1)) }, "port = uplink: uses lte for ", "drained for ", "until 2")
	w.says(func() string { return w.cli("explain", "port/wan") }, "drained until 2", "by ", "uses lte for ", "probe arp",
		"192.0.2.1", "answers")
	w.says(func() string { return w.cli("get", "port", "-o", "wide") }, "drained", "works", "PROBE", "USED BY")
	w.restart()
	w.byLTE("wan is drained, after a restart")
	if s := w.status("port", "wan"); s["probe"] != "drained" || s["drained"] != true || s["usedBy"] != nil {
		t.Errorf("wan is %v", s)
	}
	w.cli("port", "undrain", "wan")
	w.byWan("wan is undrained")
	w.says(func() string { return w.cli("events", "--kind", "uplink") }, "lte -> wan: ", "port/wan", "undrained")
	if r, err := w.CLI(w.ctx, "port", "drain", "dsl"); err != nil || r.Code != 10 || !strings.Contains(r.Err,
		"port dsl: not found: the ports are lte, wan") {
		t.Errorf("drain of an unknown port: %d %s, %v", r.Code, r.Err, err)
	}
}
