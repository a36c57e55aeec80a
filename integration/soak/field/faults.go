package field

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"edgespan/integration/soak/guest"
	"edgespan/integration/soak/model"
)

// scripts are the faults that one command in the guest makes, and how each is undone. $ARG is the step's choice.
var scripts = map[model.Kind]struct{ do, undo string }{
	model.KillDaemon: {"for i in 1 2 3 4 5; do p=$(systemctl show -p MainPID --value edgespan); [ \"$p\" = 0 ] || " +
		"break; sleep 1; done; [ \"$p\" = 0 ] || kill -9 $p" + orGone, ""}, // 0 would be the script itself
	model.StopDaemon: {"systemctl restart edgespan", ""},
	model.KillHelper: {helper + "p=$1; kill -9 $p" + orGone, ""},
	model.StopHelper: {helper + "p=$1; echo $p >>/run/soak-stopped; kill -STOP $p" + orGone,
		"for p in $(cat /run/soak-stopped 2>/dev/null); do kill -CONT $p 2>/dev/null; done; rm -f /run/soak-stopped"},
	// The kernel picks the process with the highest score.
	model.OOMHelper: {helper + "{ echo 1000 >/proc/$1/oom_score_adj; } 2>/dev/null || exit 0; " +
		"echo f >/proc/sysrq-trigger", ""},
	model.HangCommand: {choose + "touch /run/soak-hang/$1", "rm -f /run/soak-hang/*"},
	// It is over when udev and systemd have looked at each link, which by TCG takes as long as the flood itself.
	model.Overflow: {"n=400; seq $n | sed 's/.*/link add flood& type dummy/' >/run/flood; " +
		"seq $n | sed 's/.*/link del flood&/' >>/run/flood; ip -force -batch /run/flood; udevadm settle --timeout=180", ""},
	model.FillDisk: {"fallocate -l $(df -B1 --output=avail / | tail -1) /var/full 2>/dev/null; " +
		"dd if=/dev/zero of=/var/fuller bs=64k 2>/dev/null; true", "rm -f /var/full /var/fuller"},
	model.JumpClock: {"set -- '+5 hours' '-5 hours' '1980-01-01' '+90 days'; shift $((ARG % 4)); " +
		"date -s \"$1\"", ""},
	model.ChangeMTU: {"set -- 1300 1400 9000; shift $((ARG % 3)); ip link set eth0 mtu $1", "ip link set eth0 mtu 1500"},
	model.Flush: {"case $((ARG % 8)) in 0) iptables -F ;; 1) iptables -t nat -F ;; 2) iptables -t mangle -F ;; " +
		"3) nft flush ruleset ;; 4) conntrack -F ;; 5) iptables -t raw -F ;; 6) ip6tables -F ;; " +
		"7) iptables -P FORWARD DROP; iptables -P FORWARD ACCEPT ;; esac 2>&1; " +
		"sh /opt/soak/up.sh $NODE $UPLINK $GATEWAY $YARD $YARDADDR", ""},
	model.DeleteObjects: {"set -- bridge veth tun; shift $((ARG % 3)); " +
		"dev=$(ip -o link show type $1 | awk -F'[ :@]+' '$2 ~ /^(es|soaktap)/ {print $2}' | head -1); " +
		"[ -n \"$dev\" ] || exit 0; if [ $((ARG % 2)) = 0 ]; then ip addr flush dev $dev; else ip link del $dev; fi || " +
		"! ip link show $dev >/dev/null 2>&1", ""}, // the node may have deleted it meanwhile
}

const (
	// helper sets $1 to a process that belongs to a network.
	helper = "set -- $(pgrep '^(dnsmasq|charon|edgespan-wg)'); [ $# -gt 0 ] || exit 0; shift $((ARG % $#)); "
	// orGone lets the signal to $p fail if that process has just ended.
	orGone = " 2>/dev/null || [ ! -e /proc/$p ]"
	choose = "set -- iptables-restore ip6tables-restore ipset nft conntrack; shift $((ARG % 5)); "
)

// The choice of flushing that removes all tables, and how many there are.
const flushRuleset, flushChoices = 3, 8

// repairLimit is how long a node takes to have its rules back (docs/operations.md).
const repairLimit = 2 * time.Second

// keepsTables reports whether a kernel, by its release, lets the owner of tables keep them from other programs, and
// itself keeps them for the owner's next start.
func keepsTables(release string) bool {
	var major, minor int
	_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return err == nil && (major > 6 || major == 6 && minor >= 9)
}

// inject makes the fault of a step, and returns what ends it; nil: nothing does.
func (r *run) inject(ctx context.Context, s model.Step) (undo func(context.Context) error, err error) {
	if s.Kind == model.KillControl {
		r.lab.killController()
		return nil, r.lab.startController()
	}
	m := r.machines[s.Node-1]
	link := r.segments[s.Arg%len(r.segments)]
	switch s.Kind {
	case model.PowerCut:
		m.cut()
		return nil, r.boot(ctx, m)
	case model.CutUplink:
		link.set(s.Node, func(p *port) { p.down = true })
		return func(context.Context) error { link.set(s.Node, func(p *port) { p.down = false }); return nil }, nil
	case model.LoseFrames:
		link.set(s.Node, func(p *port) { p.loss = 0.05 + float64(s.Arg%40)/100 })
		return func(context.Context) error { link.set(s.Node, func(p *port) { p.loss = 0 }); return nil }, nil
	case model.FlapUplink:
		return flap(ctx, link, s.Node), nil
	case model.Partition:
		r.block(s.Node, netip.MustParseAddr(model.ControllerAddr))
		return func(context.Context) error { r.block(s.Node, netip.Addr{}); return nil }, nil
	case model.Hostile:
		return nil, r.attack(s)
	case model.JumpClock:
		_, err := m.sh(ctx, r.with(s, scripts[s.Kind].do))
		return func(ctx context.Context) error {
			_, err := m.sh(ctx, fmt.Sprintf("date -s @%d", time.Now().Unix()))
			return err
		}, err
	}
	script, ok := scripts[s.Kind]
	if !ok {
		return nil, fmt.Errorf("fault %q is not known", s.Kind)
	}
	if s.Kind == model.Flush && s.Arg%flushChoices == flushRuleset && !m.keepsTables {
		r.referee.opened(s.Node, time.Now().Add(time.Minute))
		defer func() { r.referee.opened(s.Node, time.Now().Add(r.limit(repairLimit))) }()
	}
	_, err = m.sh(ctx, r.with(s, script.do))
	if script.undo == "" {
		return nil, err
	}
	return func(ctx context.Context) error { _, err := m.sh(ctx, script.undo); return err }, err
}

// with puts what a script may use before it.
func (r *run) with(s model.Step, script string) string {
	return fmt.Sprintf("ARG=%d NODE=%d UPLINK=%s GATEWAY=%s.1 YARD=%s YARDADDR=%s; %s", s.Arg, s.Node,
		model.Uplink(s.Node, 0), model.Segments[0], model.ClusterLink, model.ClusterAddr(s.Node), script)
}

func (r *run) block(node int, a netip.Addr) {
	for _, s := range r.segments {
		s.set(node, func(p *port) { p.block = a })
	}
}

// flap takes a link down and up each second until it is told to end.
func flap(ctx context.Context, link *segment, node int) func(context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for down := true; ctx.Err() == nil; down = !down {
			link.set(node, func(p *port) { p.down = down })
			_ = wait(ctx, time.Second) // the loop ends with its context
		}
	}()
	return func(context.Context) error {
		cancel()
		<-ended
		link.set(node, func(p *port) { p.down = false })
		return nil
	}
}

// attack makes one app of a node hostile.
func (r *run) attack(s model.Step) error {
	for n := 1; n <= model.TapApp; n++ {
		app := 1 + (s.Arg+n)%model.TapApp
		if _, ok := s.Fleet.Node(s.Node).Apps[app]; ok && app != model.TapApp {
			r.order(model.Endpoint{Node: s.Node, App: app}, guest.Orders{Attack: guest.Attacks[s.Arg%len(guest.Attacks)]})
			return nil
		}
	}
	return nil
}
