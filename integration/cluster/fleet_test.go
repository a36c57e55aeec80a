package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
)

// nodes is the number of simulated nodes of a drill.
const nodes = 30

// process is a program that was started, and may be started again.
type process struct {
	testing.TB
	name  string
	log   string // file of its output
	cmd   *exec.Cmd
	ended chan struct{}
}

// start starts the program.
func (p *process) start(path string, args ...string) {
	p.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		p.Fatal(err)
	}
	defer log.Close()
	cmd, ended := exec.Command(path, args...), make(chan struct{})
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.cmd, p.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // it was killed
		close(ended)
	}()
}

func (p *process) signal(s os.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.Fatalf("%s: %v: %s", p.name, err, p.complaints())
	}
}

// kill ends the program as a power cut does.
func (p *process) kill() {
	p.Helper()
	select {
	case <-p.ended:
		p.Errorf("%s has ended by itself: %s", p.name, p.complaints())
	default:
		p.signal(syscall.SIGKILL)
	}
	<-p.ended
}

func (p *process) complaints() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}

// replica is one controller.
type replica struct {
	process
	dir        string
	etcd       []string     // the addresses through which it reaches the members
	api, nodes atomic.Value // where it listens now, a string
	apiAt      string       // the address for clients
	nodesAt    string       // the address for nodes
}

// fleet is three members of etcd, three controllers on them, and simulated nodes. Every connection between two of them
// passes through a wire.
type fleet struct {
	*cluster
	path     string
	replicas [3]*replica
	sim      *process
	peers    [3][3]*wire // between members: from the one that connects to the other
	stores   [3][3]*wire // from a controller to a member
	apis     [3]*wire    // from the clients to a controller
	links    [3]*wire    // from the nodes to a controller
	balancer string      // an address that directs each connection to the next controller
}

// beginFleet starts everything and waits until every node is in sync.
func beginFleet(t testing.TB, more ...string) *fleet {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{path: path}
	f.cluster = f.mesh(t)
	for i := range f.replicas {
		f.replicas[i] = f.replica(i)
	}
	for i, r := range f.replicas {
		if i > 0 {
			f.sharesAuthority(r)
		}
		f.run(r, more...)
	}
	f.balance()
	f.manage()
	f.join()
	return f
}

// mesh starts the members with a wire for each direction of each pair: the member that connects to another one names
// itself in its first request.
func (f *fleet) mesh(t testing.TB) *cluster {
	t.Helper()
	var shown []string
	c := beginWith(t, func(m *member) string {
		to := len(shown)
		for from := range f.peers {
			f.peers[from][to] = newWire("m%d to m%d", from, to)
		}
		nobody := newWire("probes to m%d", to)
		shown = append(shown, leadBy(t, func() string { return m.peer }, func(c net.Conn) (*wire, []byte, error) {
			said, err := headOf(c)
			for from, at := range shown {
				if strings.Contains(string(said), at) && strings.Contains(strings.ToLower(string(said)), "x-peerurls: http://"+at) {
					return f.peers[from][to], said, err
				}
			}
			return nobody, said, err
		}))
		return shown[to]
	})
	return c
}

// replica creates a controller with its wires.
func (f *fleet) replica(i int) *replica {
	f.Helper()
	r := &replica{dir: filepath.Join(f.TempDir(), fmt.Sprint("c", i))}
	r.process = process{TB: f.TB, name: fmt.Sprint("c", i), log: r.dir + ".log"}
	r.api.Store("")
	r.nodes.Store("")
	for j, m := range f.members {
		f.stores[i][j] = newWire("c%d to m%d", i, j)
		r.etcd = append(r.etcd, "http://"+lead(f, f.stores[i][j], func() string { return m.client }))
	}
	f.apis[i], f.links[i] = newWire("clients to c%d", i), newWire("nodes to c%d", i)
	r.apiAt = lead(f, f.apis[i], func() string { return r.api.Load().(string) })
	r.nodesAt = lead(f, f.links[i], func() string { return r.nodes.Load().(string) })
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		f.Fatal(err)
	}
	return r
}

// sharesAuthority copies what a controller's first start needs from the first controller's folder.
func (f *fleet) sharesAuthority(r *replica) {
	f.Helper()
	ca, err := os.ReadFile(filepath.Join(f.replicas[0].dir, "ca.pem"))
	if err == nil {
		err = os.WriteFile(filepath.Join(r.dir, "ca.pem"), ca, 0o600)
	}
	if err != nil {
		f.Fatal(err)
	}
}

// run starts a controller, for the first time or again, and waits until it serves.
func (f *fleet) run(r *replica, more ...string) {
	f.Helper()
	said, _ := os.ReadFile(r.log)
	args := []string{
		"--data-dir", r.dir, "--etcd", strings.Join(r.etcd, ","), "--replica", r.name, "--auth", "none",
		"--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0", "--joins-per-second", "1000",
	}
	first := r.cmd == nil
	r.start(f.path, append(append(args, flags...), more...)...)
	if first {
		f.Cleanup(func() {
			_ = r.cmd.Process.Kill() // it may have ended
			<-r.ended
			if f.Failed() {
				f.Logf("%s: %s", r.name, r.complaints())
			}
		})
	}
	f.until(r.name+" runs", func(context.Context) bool {
		select {
		case <-r.ended:
			f.Fatalf("%s has ended: %s", r.name, r.complaints())
		default:
		}
		text, err := os.ReadFile(r.log)
		if err != nil {
			f.Fatal(err)
		}
		lines := bufio.NewScanner(strings.NewReader(string(text[len(said):])))
		for lines.Scan() {
			var now struct{ Msg, API, Nodes string }
			if json.Unmarshal(lines.Bytes(), &now) == nil && now.Msg == "controller runs" {
				r.api.Store(now.API)
				r.nodes.Store(now.Nodes)
				return true
			}
		}
		return false
	})
}

// flags make a change go out in many small batches, with a short interval between a node's configs.
var flags = []string{
	"--config-staged-rollout-enabled", "--config-rollout-stages", "7,14,21,28,35,42,49,56,63,70,77,84,91",
	"--consecutive-reconfig-delay-s", "0", "--config-batch-timeout-s", "120",
}

// balance opens the address of a plain TCP balancer.
func (f *fleet) balance() {
	var next atomic.Int64
	f.balancer = lead(f, newWire("clients to the balancer"), func() string {
		return f.replicas[int(next.Add(1))%len(f.replicas)].apiAt
	})
}

// client returns a client of an address, with connections of its own.
func (f *fleet) client(address string) *fleetapi.Client {
	f.Helper()
	c, err := fleetapi.NewClient(fleetapi.Options{URL: "http://" + address, Transport: &http.Transport{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	return c
}

// write retries a write until it is acknowledged.
func (f *fleet) write(c *fleetapi.Client, w ops.Write, message string) (revision uint64) {
	f.Helper()
	var last error
	f.until(message+" is written", func(ctx context.Context) bool {
		out, err := c.Write(ctx, w, fleetapi.WriteOptions{Message: message})
		revision, last = out.Revision, err
		return err == nil
	})
	if last != nil {
		f.Error(last)
	}
	return revision
}

// manage puts the nodes under management.
func (f *fleet) manage() {
	f.Helper()
	f.write(f.client(f.balancer), ops.SetNetwork{Modify: true,
		Overrides: config.Object{"sysParams": config.Object{"managedConfig": true}}}, "manage")
}

// join makes all nodes join at the first controller, and connect to all three in turn.
func (f *fleet) join() {
	f.Helper()
	dir := f.TempDir()
	simulate := []string{"simulate", "--nodes", fmt.Sprint(nodes), "--controller", "http://" + f.balancer, "--dir", dir,
		"--report-interval", "1s"}
	joining := &process{TB: f.TB, name: "joining", log: filepath.Join(dir, "joining.log")}
	joining.start(f.path, append(simulate, "--until", "converged", "--duration", "50s")...)
	select {
	case <-joining.ended:
	case <-time.After(timeout):
		f.Fatalf("the nodes don't join: %s", joining.complaints())
	}
	if code := joining.cmd.ProcessState.ExitCode(); code != 0 {
		f.Fatalf("the nodes don't join: exit code %d: %s", code, joining.complaints())
	}
	files, err := filepath.Glob(filepath.Join(dir, "nodes", "*", "controller"))
	if err != nil || len(files) != nodes {
		f.Fatalf("%d nodes know their controller: %v", len(files), err)
	}
	for i, name := range files {
		var all []string
		for j := range f.replicas {
			all = append(all, f.replicas[(i+j)%len(f.replicas)].nodesAt)
		}
		if err := os.WriteFile(name, []byte(strings.Join(all, ",")), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	f.sim = &process{TB: f.TB, name: "nodes", log: filepath.Join(dir, "nodes.log")}
	f.sim.start(f.path, append(simulate, "--duration", "1h")...)
	f.Cleanup(func() {
		_ = f.sim.cmd.Process.Kill()
		<-f.sim.ended
	})
	f.inSync()
}

// inSync waits until every controller shows every node online and in sync.
func (f *fleet) inSync() {
	f.Helper()
	for _, r := range f.replicas {
		c := f.client(r.apiAt)
		var waits []string
		f.until("all nodes are in sync at "+r.name, func(ctx context.Context) bool {
			all, err := c.Nodes(ctx)
			if waits = nil; err != nil {
				waits = append(waits, err.Error())
				return false
			}
			in := 0
			for _, n := range all {
				if n.Online && n.State == "InSync" {
					in++
				} else {
					waits = append(waits, fmt.Sprintf("%s: %s: %s", n.Name, n.State, n.Why))
				}
			}
			return in == nodes
		}, func() string { return strings.Join(waits, "\n") })
	}
}
