package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"edgespan/cmd/term"
	"edgespan/examples"
	"edgespan/platform/lab"
)

const (
	stepDeadline = 30 * time.Second
	// trafficEvery is the interval of pings and DNS queries while the daemon is down; the demo sees an outage of this
	// length.
	trafficEvery = 5 * time.Millisecond
	// outOfControl is how long a restarted daemon may take to answer, also on a newcomer's slow or busy machine.
	outOfControl = 5 * time.Second
)

// step is one thing that the demo shows.
type step struct {
	name  string
	vital bool // the next steps need it
	do    func(ctx context.Context) (seen string, err error)
}

// report is what a demo has shown.
type report struct {
	a      demoProgram
	began  time.Time
	rows   [][]string
	failed int
	over   bool // a vital step failed
}

// demoRun is one run of the demo.
type demoRun struct {
	report
	lab   *lab.Lab
	ex    example
	node  *lab.Node
	webIP netip.Addr
	ip    netip.Addr // the client's, of its newest lease
}

func newDemoRun(a demoProgram, l *lab.Lab) (*demoRun, error) {
	ex, err := readExample(examples.Demo)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return &demoRun{report: report{a: a, began: time.Now()}, lab: l, ex: ex}, nil
}

// end prints the table of all steps. The error of failed steps ends with words of the daemon.
func (d *report) end(words func() string) error {
	d.a.Printf("")
	t := term.Table{Head: []string{"STEP", "SEEN", "OK"}, Rows: d.rows, Wide: true}
	if err := t.Write(d.a.Out, d.a.Color); err != nil {
		return err
	}
	if d.failed > 0 {
		return fmt.Errorf("demo: %d of %d steps failed: the daemon's last log lines:\n%s", d.failed, len(d.rows), words())
	}
	d.a.Printf("all %d steps passed in %s", len(d.rows), time.Since(d.began).Round(100*time.Millisecond))
	return nil
}

// runStep runs one step and prints its result at once.
func (d *report) runStep(ctx context.Context, s step) {
	if d.over {
		d.rows = append(d.rows, []string{s.name, "skipped", "-"})
		d.failed++
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stepDeadline)
	defer cancel()
	d.a.Printf("… %s", s.name)
	seen, err := s.do(ctx)
	mark := "ok"
	if err != nil {
		seen, mark = strings.TrimPrefix(seen+": "+err.Error(), ": "), "FAILED"
		d.failed++
		d.over = s.vital
	}
	seen = term.Printable(strings.TrimSpace(seen))
	d.a.Printf("  %s: %s", mark, seen)
	d.rows = append(d.rows, []string{s.name, seen, mark})
}

// setup returns the steps that make the apps reachable.
func (d *demoRun) setup() []step {
	return []step{
		{"daemon answers", true, d.startDaemon},
		{"networks and apps ready", true, d.waitReady},
		{"lease of web", true, func(ctx context.Context) (string, error) { return d.lease(ctx, lab.AppWeb, d.ex.web) }},
		{"lease of client", true,
			func(ctx context.Context) (string, error) { return d.lease(ctx, lab.AppClient, d.ex.client) }},
		{"web serves", true, d.serveWeb},
	}
}

func (d *demoRun) steps() []step {
	return append(d.setup(),
		step{"name of an app", false, func(ctx context.Context) (string, error) {
			return d.resolve(ctx, "web."+d.ex.home.domain, d.webIP.String())
		}},
		step{"name out there", false,
			func(ctx context.Context) (string, error) { return d.resolve(ctx, lab.WebName, lab.WebAddr) }},
		step{"ping through NAT", false, d.ping},
		step{"HTTP through NAT", false, func(ctx context.Context) (string, error) {
			return d.fetch(ctx, "http://"+lab.WebName+"/", "you are "+lab.NodeAt+":")
		}},
		step{"HTTP from app to app", false, func(ctx context.Context) (string, error) {
			return d.fetch(ctx, "http://web."+d.ex.home.domain+"/", "hello from web")
		}},
		step{"TCP 443 is denied", false, d.denied},
		step{"daemon killed under traffic", false, d.killAndRestart},
		step{"the far side of wan dies", false, d.failover},
		step{"wan works again", false, d.failback},
		step{"client moves to another network", false, d.moved},
		step{"web is out of its reach there", false, d.isolation},
		step{"empty config leaves nothing", false, d.removed},
	)
}

func (d *demoRun) startDaemon(ctx context.Context) (string, error) {
	n, err := d.lab.StartNode(d.lab.NodeCmd())
	if err != nil {
		return "", err
	}
	d.node = n
	took, err := d.lab.WaitControl(ctx, n)
	if err != nil {
		return "", err
	}
	return "answers on its socket after " + millis(took), nil
}

func (d *demoRun) waitReady(ctx context.Context) (string, error) {
	began := time.Now()
	for _, target := range d.ex.targets() {
		if _, err := d.cli(ctx, "wait", target, "--for", "ready", "--timeout", "25s"); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("networks %s and %s and 2 apps after %s", d.ex.home.subnet, d.ex.guest.subnet,
		millis(time.Since(began))), nil
}

// lease gets a DHCP lease and compares it with the status of the adapter.
func (d *demoRun) lease(ctx context.Context, short, app string) (string, error) {
	text, err := d.cli(ctx, "get", "adapter", app+"/0", "-o", "json")
	if err != nil {
		return "", err
	}
	var adapter struct {
		Status struct{ IP, IfName string }
	}
	if err := json.Unmarshal([]byte(text), &adapter); err != nil {
		return "", fmt.Errorf("read adapter: %w", err)
	}
	got, err := d.lab.DHCP(ctx, short, adapter.Status.IfName)
	if err != nil {
		return "", err
	}
	if got.IP.String() != adapter.Status.IP {
		return "", fmt.Errorf("udhcpc got %s, the daemon says %s", got.IP, adapter.Status.IP)
	}
	if app == d.ex.web {
		d.webIP = got.IP
	} else {
		d.ip = got.IP
	}
	return fmt.Sprintf("%s/%s on %s, DNS %s", got.IP, got.Mask, adapter.Status.IfName, got.DNS), nil
}

func (d *demoRun) serveWeb(ctx context.Context) (string, error) {
	addr := netip.AddrPortFrom(d.webIP, 80).String()
	if err := d.lab.HTTPServer(ctx, lab.AppWeb, addr, "hello from web"); err != nil {
		return "", err
	}
	return "http://" + addr, nil
}

func (d *demoRun) resolve(ctx context.Context, name, want string) (string, error) {
	out, err := d.inClient(ctx, "dig", "+short", "+tries=1", "+time=3", name)
	if err != nil {
		return "", err
	}
	if out != want {
		return "", fmt.Errorf("%s is %q, not %s", name, out, want)
	}
	return name + " is " + out, nil
}

func (d *demoRun) ping(ctx context.Context) (string, error) {
	out, err := d.inClient(ctx, "ping", "-n", "-q", "-c", "5", "-i", "0.2", "-W", "2", lab.WebAddr)
	if err != nil {
		return out, err
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "packets transmitted") {
			if !strings.Contains(line, " 5 received") {
				return "", errors.New(strings.TrimSpace(line))
			}
			return lab.WebAddr + ": " + strings.TrimSpace(line), nil
		}
	}
	return "", fmt.Errorf("ping says %q", out)
}

func (d *demoRun) fetch(ctx context.Context, url, want string) (string, error) {
	out, err := d.inClient(ctx, "curl", "-sS", "-m", "5", url)
	if err != nil {
		return "", err
	}
	if !strings.Contains(out, want) {
		return "", fmt.Errorf("%s says %q, without %q", url, out, want)
	}
	return out, nil
}

// denied shows that a flow is dropped, and that the ACL drops it: the same server answers the node itself.
func (d *demoRun) denied(ctx context.Context) (string, error) {
	url := "http://" + lab.WebAddr + ":443/"
	r, err := d.lab.Exec(ctx, "node", "curl", "-sS", "-m", "5", url)
	if err != nil {
		return "", err
	}
	if r.Code != 0 {
		return "", fmt.Errorf("the server does not answer the node either: status %d: %s", r.Code, r.Err)
	}
	if err := d.unanswered(ctx, url); err != nil {
		return "", err
	}
	return "no answer in 2 s, and the node itself gets one", nil
}

// unanswered checks that the client's packets are dropped.
func (d *demoRun) unanswered(ctx context.Context, url string) error {
	const timedOut = 28 // curl(1) ends with this after a dropped packet, but not after a rejected one
	r, err := d.lab.Exec(ctx, lab.AppClient, "curl", "-sS", "-m", "2", url)
	switch {
	case err != nil:
		return err
	case r.Code == 0:
		return fmt.Errorf("client got through to %s: %s", url, r.Out)
	case r.Code != timedOut:
		return fmt.Errorf("curl %s ended with %d and no timeout: %s", url, r.Code, r.Err)
	}
	return nil
}

// killAndRestart kills the daemon with SIGKILL and restarts it while pings and DNS queries are sent, and checks that
// none is lost.
func (d *demoRun) killAndRestart(ctx context.Context) (string, error) {
	pings, err := d.lab.PingLoop(lab.AppClient, netip.MustParseAddr(lab.WebAddr), trafficEvery)
	if err != nil {
		return "", err
	}
	names, err := d.lab.DNSLoop(lab.AppClient, d.ex.home.gateway, "web."+d.ex.home.domain, d.webIP, trafficEvery)
	if err != nil {
		pings.Stop()
		return "", err
	}
	took, err := d.restart(ctx, pings, names)
	p, q := pings.Stop(), names.Stop()
	seen := fmt.Sprintf("%d of %d pings and %d of %d answers lost, in control again after %s",
		p.Lost+p.Wrong, p.Sent, q.Lost+q.Wrong, q.Sent, millis(took))
	switch {
	case err != nil:
		return seen, err
	case p.Good != p.Sent || q.Good != q.Sent:
		return seen, errors.New("none may be lost")
	case took > outOfControl:
		return seen, fmt.Errorf("must be at most %s", outOfControl)
	}
	return seen, nil
}

func (d *demoRun) restart(ctx context.Context, loops ...*lab.Loop) (time.Duration, error) {
	flow := func() error {
		for _, l := range loops {
			if err := l.WaitGood(ctx, 100); err != nil {
				return err
			}
		}
		return nil
	}
	if err := flow(); err != nil {
		return 0, err
	}
	if err := d.node.Kill(); err != nil {
		return 0, err
	}
	if err := flow(); err != nil { // traffic also flows without a daemon
		return 0, err
	}
	began := time.Now()
	n, err := d.lab.StartNode(d.lab.NodeCmd())
	if err != nil {
		return 0, err
	}
	d.node = n
	if _, err := d.lab.WaitControl(ctx, n); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if _, err := d.waitReady(ctx); err != nil {
		return took, err
	}
	return took, flow()
}

// removed applies the empty config and looks for leftovers.
func (d *demoRun) removed(ctx context.Context) (string, error) {
	if err := d.apply(ctx, "{}"); err != nil {
		return "", err
	}
	for _, target := range d.ex.targets() {
		if _, err := d.cli(ctx, "wait", target, "--for", "absent", "--timeout", "20s"); err != nil {
			return "", err
		}
	}
	return nothingLeft(ctx, d.lab)
}

// nothingLeft waits until nothing of edgespan is left in a lab's node. No status shows when the host's own chains and
// sysctls are removed, which happens after the last network.
func nothingLeft(ctx context.Context, l *lab.Lab) (string, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last := "not checked yet"
	for {
		left, err := leftovers(ctx, l)
		switch {
		case err == nil && left == "":
			return "no link, rule or process of edgespan is left", nil
		case err == nil:
			last = left
		case ctx.Err() == nil: // else the deadline interrupted the search
			return "", err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("still there: %s", last)
		}
	}
}

// leftovers lists the objects of edgespan in the namespace of a lab's node.
func leftovers(ctx context.Context, l *lab.Lab) (string, error) {
	const look = `ip -o link | grep -oE ' (es|evpn)[0-9][a-z0-9]*' ; ip rule | grep -E '^2[0-2][0-9]{3}:' ;
iptables-save | grep -E '^(:|-A )ES' ; nft list tables bridge | grep ' es[0-9]' ;
for p in $(ip netns pids "$1"); do grep -qsx dnsmasq /proc/$p/comm && echo dnsmasq $p; done; :`
	r, err := l.Exec(ctx, "node", "sh", "-c", look, "sh", l.NS("node"))
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("status %d: %s", r.Code, strings.TrimSpace(r.Err))
	}
	if err != nil {
		return "", fmt.Errorf("look for leftovers: %w", err)
	}
	return strings.Join(strings.Fields(r.Out), " "), nil
}

func (d *demoRun) apply(ctx context.Context, doc string) error {
	_, err := command(ctx, d.lab, doc, "apply", "-f", "-")
	return err
}

// cli runs this program's command line against the lab's daemon.
func (d *demoRun) cli(ctx context.Context, args ...string) (string, error) {
	return command(ctx, d.lab, "", args...)
}

// command runs this program's command line against the daemon of a lab.
func command(ctx context.Context, l *lab.Lab, stdin string, args ...string) (string, error) {
	r, err := l.CLIWith(ctx, stdin, args...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("edgespan %s: exit %d: %s", strings.Join(args, " "), r.Code, strings.TrimSpace(r.Err))
	}
	return r.Out, err
}

func (d *demoRun) inClient(ctx context.Context, argv ...string) (string, error) {
	r, err := d.lab.Exec(ctx, lab.AppClient, argv...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s: status %d: %s", strings.Join(argv, " "), r.Code, strings.TrimSpace(r.Err))
	}
	return strings.TrimSpace(r.Out), err
}

func millis(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
