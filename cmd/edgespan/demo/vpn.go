package demo

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/platform/lab"
)

// site is a node of the demo of two nodes, with the one app that it has.
type site struct {
	name, app      string
	subnet, inside string // of the network, and the tunnel's own address
	calls          bool   // it has two uplinks, and calls the other one
	*lab.Lab
	node      *lab.Node
	key, seen string // the private and the public key of its tunnel
	ip        netip.Addr
}

// vpnRun is one run of the demo of two nodes.
type vpnRun struct {
	report
	branch, hub *site
}

// The network and the app of each site.
const (
	vpnNetwork = "20000000-0000-4000-8000-000000000001"
	vpnApp     = "a0000000-0000-4000-8000-000000000001"
	vpnPort    = 51820
)

func newVPN(a demoProgram) *cobra.Command {
	return &cobra.Command{
		Use: "vpn", Short: "Run a demo of two nodes that a VPN joins",
		Long: `demo vpn builds two labs, runs a daemon in each and joins a network of one with a network of the
other by a WireGuard tunnel (docs/vpn.md). It shows traffic both ways, what a provider sees of it, both daemons killed
and restarted under traffic, and an uplink that dies. It exits 0 if every step succeeds. It needs root, and does not
touch the machine's own network.`,
		Args:    term.ExactArgs(0, ""),
		Example: "  edgespan demo vpn",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.vpn(cmd.Context()) },
	}
}

// vpn runs all steps in two labs and removes them afterwards.
func (a demoProgram) vpn(ctx context.Context) (err error) {
	d := &vpnRun{
		report: report{a: a, began: time.Now()},
		branch: &site{name: "branch", app: lab.AppClient, subnet: "10.20.0.0/24", inside: "10.99.0.2/24", calls: true},
		hub:    &site{name: "hub", app: lab.AppWeb, subnet: "10.30.0.0/24", inside: "10.99.0.1/24"},
	}
	for _, s := range d.sites() {
		if s.Lab, err = labUp(ctx, lab.Options{Apps: []string{s.app}, Second: s.calls}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remove(ctx, s.Lab)) }()
		if s.key, s.seen, err = newKey(); err != nil {
			return err
		}
	}
	for _, s := range d.steps() {
		d.runStep(ctx, s)
	}
	return d.end(func() string { return d.branch.LastWords(10) + "\n" + d.hub.LastWords(10) })
}

func (d *vpnRun) sites() []*site { return []*site{d.branch, d.hub} }

func (d *vpnRun) steps() []step {
	return []step{
		{"the Internet between the sites", true, d.join},
		{"both daemons answer", true, d.start},
		{"networks and apps ready", true, d.ready},
		{"leases of the apps", true, d.leases},
		{"the tunnel is up", true, d.tunnelUp},
		{"from branch to hub", false, d.fetch},
		{"from hub to branch", false, d.ping},
		{"what the provider sees", false, d.seenOutside},
		{"both daemons killed under traffic", false, d.kill},
		{"branch's wan dies under traffic", false, d.uplinkDies},
		{"empty configs leave nothing", false, d.removed},
	}
}

// newKey makes a key pair of WireGuard. A node makes its own key if the config has none, and shows the public one; the
// demo has to know both before the first config.
func newKey() (private, public string, err error) {
	k, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("demo: make key: %w", err)
	}
	return base64.StdEncoding.EncodeToString(k.Bytes()), base64.StdEncoding.EncodeToString(k.PublicKey().Bytes()), nil
}

// The link between the providers, and that between the two of branch.
const (
	branchOutside = "198.18.9.1"
	hubOutside    = "198.18.9.2"
)

// join makes the Internet: the providers of both sites are linked, each translates what its site sends, and that of
// hub passes calls of the tunnel on to its node.
func (d *vpnRun) join(ctx context.Context) (string, error) {
	b, o := d.branch, d.hub
	counted := func(s *site) []string { // what is not encrypted: there must be none
		return []string{"isp", "iptables -t raw -N clear; iptables -t raw -A PREROUTING -j clear; " +
			"for net in " + b.subnet + " " + o.subnet + " 10.99.0.0/24; do iptables -t raw -A clear -s $net; done"}
	}
	for _, x := range []struct {
		at   *site
		line []string
	}{
		{b, []string{"isp", "ip link add far type veth peer name far netns " + o.NS("isp")}},
		{b, []string{"isp", "ip addr add " + branchOutside + "/30 dev far; ip link set far up; " +
			"sysctl -qw net.ipv4.ip_forward=1; iptables -t nat -A POSTROUTING -o far -j MASQUERADE"}},
		{o, []string{"isp", "ip addr add " + hubOutside + "/30 dev far; ip link set far up; " +
			"sysctl -qw net.ipv4.ip_forward=1; iptables -t nat -A POSTROUTING -o far -j MASQUERADE; " +
			fmt.Sprintf("iptables -t nat -A PREROUTING -i far -p udp --dport %d -j DNAT --to %s", vpnPort, lab.NodeAt)}},
		{b, []string{"isp2", "ip link add near type veth peer name near netns " + b.NS("isp")}},
		{b, []string{"isp2", "ip addr add 198.18.8.2/30 dev near; ip link set near up; " +
			"sysctl -qw net.ipv4.ip_forward=1; ip route add 198.18.9.0/30 via 198.18.8.1"}},
		{b, []string{"isp", "ip addr add 198.18.8.1/30 dev near; ip link set near up; " +
			"ip route add 203.0.113.0/24 via 198.18.8.2"}},
		{b, counted(b)}, {o, counted(o)},
	} {
		if _, err := x.at.run(ctx, x.line[0], "set -e; "+x.line[1]); err != nil {
			return "", err
		}
	}
	return "hub can be called at " + hubOutside, nil
}

// run runs a line of the shell in a namespace of a site.
func (s *site) run(ctx context.Context, short, line string) (string, error) {
	r, err := s.Exec(ctx, short, "sh", "-c", line)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s: %s: status %d: %s", s.name, line, r.Code, strings.TrimSpace(r.Err))
	}
	return strings.TrimSpace(r.Out), err
}

// config is the config of a site, whose tunnel leads to the other one.
func (s *site) config(other *site) string {
	ports, calls, listens := "wan: {ifName: uplink0, uplink: true}", "", ""
	if s.calls {
		ports += "\n  lte: {ifName: uplink1, uplink: true, cost: 10}"
		calls = fmt.Sprintf(", endpoint: \"%s:%d\", keepalive: 1", hubOutside, vpnPort)
	} else {
		listens = fmt.Sprintf("listenPort: %d, ", vpnPort)
	}
	far, _, _ := strings.Cut(other.inside, "/")
	return fmt.Sprintf(`ports:
  %s
networkInstances:
  %s:
    displayName: %s
    type: vpn
    port: uplink
    ipv4: {subnet: %s}
    vpn:
      method: wireguard
      address: %s
      wireguard: {privateKey: %s, %speers: {%s: {publicKey: %s, allowedIPs: "%s/32, %s"%s}}}
appNetworks:
  %s:
    displayName: %s
    adapters:
      0:
        networkInstance: %s
        attach: {kind: veth, netns: %s}
        acl: {out: {action: allow, direction: egress}, in: {action: allow, direction: ingress, match: {ip: 10.0.0.0/8}}}
`, ports, vpnNetwork, s.name, s.subnet, s.inside, s.key, listens, other.name, other.seen, far, other.subnet, calls,
		vpnApp, s.app, vpnNetwork, s.app)
}

// start starts both daemons.
func (d *vpnRun) start(ctx context.Context) (string, error) {
	for i, s := range d.sites() {
		if err := s.WriteConfig([]byte(s.config(d.sites()[1-i]))); err != nil {
			return "", err
		}
		if err := s.begin(ctx); err != nil {
			return "", err
		}
	}
	return "each on its socket", nil
}

// begin starts the daemon of a site.
func (s *site) begin(ctx context.Context) (err error) {
	if s.node, err = s.StartNode(s.NodeCmd()); err != nil {
		return err
	}
	_, err = s.WaitControl(ctx, s.node)
	return err
}

func (d *vpnRun) ready(ctx context.Context) (string, error) {
	began := time.Now()
	for _, s := range d.sites() {
		for _, target := range []string{"ni/" + vpnNetwork, "app/" + vpnApp} {
			if _, err := command(ctx, s.Lab, "", "wait", target, "--for", "ready", "--timeout", "25s"); err != nil {
				return "", err
			}
		}
	}
	return "after " + millis(time.Since(began)), nil
}

func (d *vpnRun) leases(ctx context.Context) (string, error) {
	for _, s := range d.sites() {
		text, err := command(ctx, s.Lab, "", "get", "adapter", vpnApp+"/0", "-o", "json")
		if err != nil {
			return "", err
		}
		var adapter struct{ Status struct{ IfName string } }
		if err := json.Unmarshal([]byte(text), &adapter); err != nil {
			return "", fmt.Errorf("read adapter: %w", err)
		}
		lease, err := s.DHCP(ctx, s.app, adapter.Status.IfName)
		if err != nil {
			return "", err
		}
		s.ip = lease.IP
	}
	return fmt.Sprintf("the app of branch is %s, that of hub %s", d.branch.ip, d.hub.ip), nil
}

// tunnelUp waits until both ends say that the tunnel is up.
func (d *vpnRun) tunnelUp(ctx context.Context) (string, error) {
	var tunnel struct {
		Status struct{ State, By, Error string }
	}
	for _, s := range d.sites() {
		err := eventually(ctx, func() error {
			text, err := command(ctx, s.Lab, "", "get", "tunnel", vpnNetwork, "-o", "json")
			if err == nil {
				err = json.Unmarshal([]byte(text), &tunnel)
			}
			if err == nil && tunnel.Status.State != "up" {
				err = fmt.Errorf("it is %s: %s", tunnel.Status.State, tunnel.Status.Error)
			}
			return err
		})
		if err != nil {
			return "", fmt.Errorf("%s: the tunnel is not up: %w", s.name, err)
		}
	}
	return "at both ends, WireGuard by " + tunnel.Status.By, nil
}

// eventually repeats f until it succeeds or ctx ends.
func eventually(ctx context.Context, f func() error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// fetch gets a page of the app of hub from the app of branch.
func (d *vpnRun) fetch(ctx context.Context) (string, error) {
	at := netip.AddrPortFrom(d.hub.ip, 80).String()
	if err := d.hub.HTTPServer(ctx, d.hub.app, at, "hello from hub"); err != nil {
		return "", err
	}
	out, err := d.branch.run(ctx, d.branch.app, "curl -sS -m 5 http://"+at+"/")
	if err == nil && !strings.Contains(out, "hello from hub") {
		err = fmt.Errorf("http://%s/ says %q", at, out)
	}
	return out, err
}

func (d *vpnRun) ping(ctx context.Context) (string, error) {
	to := d.branch.ip.String()
	out, err := d.hub.run(ctx, d.hub.app, "ping -n -q -c 5 -i 0.2 -W 2 "+to)
	if err != nil || !strings.Contains(out, " 5 received") {
		return "", errors.Join(err, fmt.Errorf("ping says %q", out))
	}
	return "5 of 5 pings to " + to + " are answered", nil
}

// seenOutside looks whether any packet has left a site in the clear.
func (d *vpnRun) seenOutside(ctx context.Context) (string, error) {
	for _, s := range d.sites() {
		out, err := s.run(ctx, "isp", "iptables -t raw -nvxL clear | awk 'NR > 2 { n += $1 } END { print n }'")
		if err != nil {
			return "", err
		}
		if out != "0" {
			return "", fmt.Errorf("%s packets of %s have passed the provider in the clear", out, s.name)
		}
	}
	return "encrypted packets alone: none has an address of a network", nil
}

// kill kills both daemons under traffic, and starts them again.
func (d *vpnRun) kill(ctx context.Context) (string, error) {
	pings, err := d.branch.PingLoop(d.branch.app, d.hub.ip, trafficEvery)
	if err != nil {
		return "", err
	}
	again := func() error {
		if err := pings.WaitGood(ctx, 100); err != nil {
			return err
		}
		for _, s := range d.sites() {
			if err := s.node.Kill(); err != nil {
				return err
			}
		}
		if err := pings.WaitGood(ctx, 100); err != nil {
			return err
		}
		for _, s := range d.sites() {
			if err := s.begin(ctx); err != nil {
				return err
			}
		}
		if _, err := d.ready(ctx); err != nil {
			return err
		}
		return pings.WaitGood(ctx, 100)
	}
	err = again()
	c := pings.Stop()
	seen := fmt.Sprintf("%d of %d pings lost", c.Lost+c.Wrong, c.Sent)
	if err == nil && c.Good != c.Sent {
		err = errors.New("none may be lost")
	}
	return seen, err
}

// uplinkDies takes the carrier of the uplink that carries the tunnel.
func (d *vpnRun) uplinkDies(ctx context.Context) (string, error) {
	pings, err := d.branch.PingLoop(d.branch.app, d.hub.ip, trafficEvery)
	if err != nil {
		return "", err
	}
	defer pings.Stop()
	if err := pings.WaitGood(ctx, 20); err != nil {
		return "", err
	}
	if err := d.branch.Break(ctx, wan, lab.LinkDown); err != nil {
		return "", err
	}
	began := time.Now()
	err = eventually(ctx, func() error {
		_, err := d.branch.run(ctx, d.branch.app, "ping -q -c 1 -W 0.2 "+d.hub.ip.String())
		return err
	})
	if err != nil {
		return "", err
	}
	took := time.Since(began)
	if _, err := d.seenOutside(ctx); err != nil {
		return "", err
	}
	return "the tunnel leaves by lte: an answer after " + millis(took), d.branch.Repair(ctx, wan, lab.LinkDown)
}

// removed applies empty configs and looks for leftovers.
func (d *vpnRun) removed(ctx context.Context) (seen string, err error) {
	for _, s := range d.sites() {
		if _, err := command(ctx, s.Lab, "{}", "apply", "-f", "-"); err != nil {
			return "", err
		}
		if seen, err = nothingLeft(ctx, s.Lab); err != nil {
			return "", err
		}
	}
	return seen, nil
}
