package field

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"edgespan/integration/soak/guest"
	"edgespan/integration/soak/model"
)

// starts are the processes to start. They end with the thread that has started them, so that is one which does not end.
var starts = make(chan func())

func init() {
	go func() {
		runtime.LockOSThread()
		for do := range starts {
			do()
		}
	}()
}

// start starts a process that ends with this one.
func start(cmd *exec.Cmd) error {
	// In groups of their own, so that Ctrl-C ends this process alone, which then lets nodes leave what they know.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	starts <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return nil
}

// lab is all that is not a node: both providers, the server outside, and the controller, in one network namespace of
// this machine.
type lab struct {
	dir, namespace, bin string
	segments            []*segment
	outside             *appLine
	daemons             []*exec.Cmd
	logRead             int64 // how much of the controller's log was judged

	mu         sync.Mutex
	controller *exec.Cmd
	pin        string // of the controller's CA
}

// ctl is where operators reach the controller, in the namespace.
const ctl = "127.0.0.1:8443"

// upLab makes the namespace and starts what is in it.
// What the server outside sees is told to watch.
func upLab(ctx context.Context, dir, bin string, segments []*segment,
	watch func(to model.Endpoint, s guest.Sighting),
) (*lab, error) {
	l := &lab{dir: dir, bin: bin, namespace: fmt.Sprintf("essoak%d", os.Getpid()), segments: segments,
		outside: &appLine{endpoint: model.Outside, watch: watch}}
	if err := guest.Command("ip", "netns", "add", l.namespace); err != nil {
		return nil, err
	}
	err := l.fill(ctx)
	if err != nil {
		err = errors.Join(err, l.down())
	}
	return l, err
}

func (l *lab) fill(ctx context.Context) error {
	steps := [][]string{{"link", "set", "lo", "up"}}
	for _, a := range []string{model.ServerAddr, model.DNSAddr, model.ControllerAddr} {
		steps = append(steps, []string{"addr", "add", a + "/32", "dev", "lo"})
	}
	for i, s := range l.segments {
		name := fmt.Sprintf("isp%d", i)
		tap, err := guest.TapIn(l.namespace, name)
		if err != nil {
			return err
		}
		s.connectRouter(tap)
		steps = append(steps, []string{"addr", "add", model.Segments[i] + ".1/24", "dev", name},
			[]string{"link", "set", name, "up"})
	}
	for _, s := range steps {
		if err := guest.Command(append([]string{"ip", "-n", l.namespace}, s...)...); err != nil {
			return err
		}
	}
	if err := l.startServers(); err != nil {
		return err
	}
	if err := l.startController(); err != nil {
		return err
	}
	return l.remember(ctx)
}

func (l *lab) in(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", l.namespace}, argv...)...) // #nosec G204
	cmd.Env = append(os.Environ(), "EDGESPAN_CONTEXTS="+filepath.Join(l.dir, "contexts.yaml"))
	return cmd
}

// startServers starts DHCP of the second provider, DNS, and the server that answers beacons.
func (l *lab) startServers() error {
	argv := []string{"dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
		"--pid-file=", "--user=root", "--log-facility=" + filepath.Join(l.dir, "provider.log"), "--bind-dynamic",
		"--dhcp-leasefile=" + filepath.Join(l.dir, "provider.leases"), "--dhcp-authoritative", "--no-ping",
		fmt.Sprintf("--dhcp-range=isp1,%s.11,%s.99,2m", model.Segments[1], model.Segments[1]),
		"--no-dhcp-interface=isp0", "--address=/server.example/" + model.ServerAddr}
	for node := 1; node <= 9; node++ {
		argv = append(argv, fmt.Sprintf("--dhcp-host=%s,%s", nicMAC(node, 1), model.Uplink(node, 1)))
	}
	cmd := l.in(context.Background(), argv...)
	if err := start(cmd); err != nil {
		return err
	}
	l.daemons = append(l.daemons, cmd)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	outside := l.in(context.Background(), self, "app", model.Outside.String(), "")
	read, err := outside.StdoutPipe()
	if err == nil {
		_, err = outside.StdinPipe() // it ends with its input
	}
	if err != nil {
		return err
	}
	if err := start(outside); err != nil {
		return err
	}
	l.daemons = append(l.daemons, outside)
	go l.outside.hear(json.NewDecoder(read))
	return nil
}

// startController starts the controller, or starts it again.
func (l *lab) startController() error {
	log, err := os.OpenFile(filepath.Join(l.dir, "controller.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := l.in(context.Background(), filepath.Join(l.bin, "edgespan-controller"), "--data-dir",
		filepath.Join(l.dir, "fleet"), "--listen", ctl, "--node-listen", model.ControllerAddr+":8444", "--node-host",
		model.ControllerAddr, "--consecutive-reconfig-delay-s", "1")
	cmd.Stdout, cmd.Stderr = log, log
	if err := start(cmd); err != nil {
		return err
	}
	l.mu.Lock()
	l.controller = cmd
	l.mu.Unlock()
	return nil
}

// killController kills the controller. ip has become it by exec.
func (l *lab) killController() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.controller.Process.Kill()
	_ = l.controller.Wait()
}

// remember stores the controller as the operator's context.
func (l *lab) remember(ctx context.Context) error {
	for range 300 {
		text, err := os.ReadFile(filepath.Join(l.dir, "controller.log"))
		if err != nil {
			return err
		}
		if _, after, ok := strings.Cut(string(text), "CA sha256:"); ok && strings.Contains(after, "\n") {
			l.pin = strings.TrimSpace(strings.SplitN(after, "\n", 2)[0])
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if l.pin == "" {
		return fmt.Errorf("the controller did not start:\n%s", tail(filepath.Join(l.dir, "controller.log"), 2000))
	}
	if _, err := l.operator(ctx, "", "context", "add", "soak", "--controller", "https://"+ctl, "--token-file",
		filepath.Join(l.dir, "fleet", "admin.token"), "--ca-sha256", l.pin); err != nil {
		return err
	}
	return l.eventually(ctx, time.Minute, func() error {
		_, err := l.operator(ctx, "", "nodes", "list")
		return err
	})
}

// eventually repeats what fails until it does not.
func (l *lab) eventually(ctx context.Context, limit time.Duration, do func() error) error {
	for begin := time.Now(); ; time.Sleep(500 * time.Millisecond) {
		err := do()
		if err == nil || ctx.Err() != nil || time.Since(begin) > limit {
			return err
		}
	}
}

// operator runs a command of edgespan with the controller as its context.
func (l *lab) operator(ctx context.Context, in string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := l.in(ctx, append([]string{filepath.Join(l.bin, "edgespan")}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("edgespan %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// down ends all that upLab has started.
func (l *lab) down() error {
	l.mu.Lock()
	all := append([]*exec.Cmd{l.controller}, l.daemons...)
	l.mu.Unlock()
	for _, cmd := range all {
		if cmd != nil && cmd.Process != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	return guest.Command("ip", "netns", "del", l.namespace)
}

// appLine hears one app, and gives it orders.
type appLine struct {
	endpoint model.Endpoint
	order    func(string) // nil for the server outside
	watch    func(to model.Endpoint, s guest.Sighting)

	mu     sync.Mutex // of all below
	addr   netip.Addr
	sent   map[string]int // since the last reset, by target and port
	echoed map[string]int
	heard  map[string]int // since the last reset, by sender and port
	total  map[string]beacons
	before map[string]beacons // at the last look
}

// beacons are how many went one way.
type beacons struct{ sent, echoed int }

// tell gives an app orders.
func (a *appLine) tell(o guest.Orders) {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and numbers
	}
	a.order(string(text))
}

// hear reads what an app tells until it ends.
func (a *appLine) hear(in *json.Decoder) {
	for {
		var t guest.Told
		if in.Decode(&t) != nil {
			return
		}
		a.took(t)
	}
}

func (a *appLine) took(t guest.Told) {
	if t.Err != "" { // it hears or sends less than it should, and so proves less
		fmt.Printf("          app %v: %s\n", a.endpoint, t.Err)
	}
	a.mu.Lock()
	a.addr, _ = netip.ParseAddr(t.Addr) // none: it has no lease
	if a.sent == nil {
		a.sent, a.echoed, a.heard, a.total = map[string]int{}, map[string]int{}, map[string]int{}, map[string]beacons{}
	}
	for k, n := range t.Sent {
		a.sent[k] += n
		a.total[k] = beacons{a.total[k].sent + n, a.total[k].echoed}
	}
	for k, n := range t.Echoed {
		a.echoed[k] += n
		a.total[k] = beacons{a.total[k].sent, a.total[k].echoed + n}
	}
	for _, s := range t.Seen {
		a.heard[wayOf(s.From, s.Port)] += s.N
	}
	watch := a.watch
	a.mu.Unlock()
	for _, s := range t.Seen {
		if watch != nil {
			watch(a.endpoint, s)
		}
	}
}
