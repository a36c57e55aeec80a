package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A full disk does not disconnect a node from its controller, even over a restart of the daemon. A config that fits
// into the reserve is applied, so that the operator can repair the node remotely. A larger one is refused with a
// reason that the operator sees; the current config keeps running. Once there is room, the node applies it by itself.
func TestAFullDiskKeepsTheController(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	fill, room := w.smallDisk()
	apps := []string{onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll)}
	o := w.member(doc([]string{network(1, "")}, apps...))
	web := w.lease("web")
	w.lease("client")
	pings, err := w.PingLoop("client", web.IP, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	fill()
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	o.is("edge-1", "InSync", ready, func(n nodeSeen) bool { return n.Online })
	o.set("edge-1", doc([]string{network(1, ""), islanded(2)}, apps...))
	o.is("edge-1", "InSync", ready)
	w.wait("ready", "ni/"+ni(2))

	fill()
	big := slices.Clone(apps) // 3 MB, more than the reserve of 1 MB
	for a := 3; a < 20; a++ {
		var rules []string
		for r := range 1000 {
			rules = append(rules,
				fmt.Sprintf("r%d: {action: allow, direction: egress, match: {ip: 198.51.%d.%d}}", r, r/250, r%250))
		}
		off := onNet(a, 1, fmt.Sprint("off", a), strings.Join(rules, ", "))
		big = append(big, strings.Replace(off, "activate: true", "activate: false", 1))
	}
	o.set("edge-1", doc([]string{network(1, "")}, big...))
	reported := func(n nodeSeen) bool {
		return n.Online && strings.Contains(n.Why, "can't store it") && strings.Contains(n.Why, "no space left on device")
	}
	o.is("edge-1", "Pushing", reported)
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))

	room()
	o.is("edge-1", "InSync", ready)
	w.wait("absent", "ni/"+ni(2))
	if c := pings.Stop(); c.Lost+c.Wrong > 0 || c.Good < 100 {
		t.Errorf("pings all the time: %+v", c)
	}
}
