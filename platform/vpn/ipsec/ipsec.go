// Package ipsec makes, changes, observes and removes the tunnels of networks of type vpn that use IPsec: one charon
// (strongSwan's IKE daemon) per network, which outlives the daemon and is adopted by the next one.
//
// A charon runs in a network namespace of its own, and only its UDP sockets are in that of the host (proc.Apart). What
// it sees there is a single address, the one that packets to its peer leave by: so it neither wakes at each change of
// the host nor tells the peer the host's other addresses, and when the uplink moves, the new address makes it move by
// MOBIKE. The rules, routes and addresses that it makes end with that namespace.
//
// All of the connection's configuration goes to it over VICI, and so no secret is in a file or on a command line. No
// other configuration of strongSwan is read, and no other charon of the host is touched.
//
// Read ipsec.go first, then charon.go and keeper.go.
package ipsec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

const (
	recordFile = "charon.json"
	configFile = "strongswan.conf"
	outFile    = "out" // of the process, before its log is open
	ownFolder  = "own" // what is charon's own: it may write nowhere else
	logFile    = ownFolder + "/log"
	socketFile = ownFolder + "/vici" // its control socket
	dnsFile    = ownFolder + "/resolv.conf"
	stopGrace  = time.Second
	askTime    = 3 * time.Second // for one answer of a charon
	maxSocket  = 107             // bytes of the path of a socket, unix(7)
)

// Tunnels are the IPsec tunnels of one run directory.
type Tunnels struct {
	run   *proc.Runner
	netns string // path, "" for the process's own
	dir   string
	group *proc.Groups
	guard proc.Guard[int] // by number of the network
	ended chan int
	done  chan struct{}

	mu     sync.Mutex
	ends   sync.WaitGroup // of the goroutines that send to ended
	closed bool
	all    map[int]*tunnel
	taken  map[int]ports // by number of the network

	probe   sync.Once
	carrier string // what carries the packets
	lacks   error  // why it is not the kernel
}

// tunnel is what the daemon knows of one network's tunnel.
type tunnel struct {
	op sync.Mutex // held by Put and Remove

	mu     sync.Mutex
	keeper *keeper
}

// New returns the tunnels whose folders are below the run directory.
func New(run *proc.Runner, netns, runDir, _ string) *Tunnels {
	return &Tunnels{
		run: run, netns: netns, dir: runDir, group: proc.NewGroups(runDir),
		ended: make(chan int), done: make(chan struct{}), all: map[int]*tunnel{},
		taken: map[int]ports{},
	}
}

// Close ends what the daemon does for tunnels. They stay as they are.
func (t *Tunnels) Close() {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return
	}
	t.closed = true
	close(t.done)
	all := t.all
	t.all = map[int]*tunnel{}
	t.mu.Unlock()
	t.guard.Close()
	for _, x := range all {
		x.leave()
	}
	t.ends.Wait()
	t.group.Close()
}

// Ended delivers the numbers of networks whose charon has ended by itself or does not answer.
func (t *Tunnels) Ended() <-chan int { return t.ended }

func (t *Tunnels) emit(number int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.ends.Add(1)
	go func() {
		defer t.ends.Done()
		select {
		case t.ended <- number:
		case <-t.done:
		}
	}()
}

func (t *Tunnels) tunnel(number int) *tunnel {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.all[number]
	if x == nil {
		x = &tunnel{}
		if !t.closed {
			t.all[number] = x
		}
	}
	return x
}

func (t *Tunnels) folder(name string) string { return filepath.Join(t.dir, name) }

func numberOf(name string) (int, error) {
	parts := strings.Split(name, "/")
	if len(parts) == 3 && parts[0] == "ni" && parts[2] == "vpn" {
		if n, err := strconv.Atoi(parts[1]); err == nil && n > 0 {
			return n, nil
		}
	}
	return 0, fmt.Errorf("tunnel %q: not the name of a tunnel", name)
}

// Put makes the tunnel of a network or changes it to v. It returns when the link exists and charon has the
// configuration. A change of secrets or certificates disturbs nothing, one of the connection makes the peers connect
// anew, and one of what charon was started with replaces it.
func (t *Tunnels) Put(ctx context.Context, v netstate.VPN) error {
	number, err := numberOf(v.Name)
	if err != nil {
		return err
	}
	if v.IPsec == nil {
		return fmt.Errorf("tunnel %s: not one of IPsec", v.Name)
	}
	files := filesOf(v.IPsec) // before they are read: one that changes in between is read again
	secrets, err := secretsOf(v.IPsec)
	if err != nil {
		return err
	}
	by := t.probed()
	want := record{
		Number: number, Name: v.Name, Link: v.Link, MTU: v.MTU, Mark: v.Mark, Generation: v.Generation, Limits: v.Limits,
		By: by, Peer: peerOf(v.IPsec), Conn: connOf(v, by), Files: files,
	}
	folder := t.folder(v.Name)
	if len(filepath.Join(folder, socketFile)) > maxSocket {
		return fmt.Errorf("path of the run folder %s: longer than a socket's may be", t.dir)
	}
	x := t.tunnel(number)
	x.op.Lock()
	defer x.op.Unlock()
	x.rest()
	have, err := read(folder)
	if want.Ports, err = t.portsOf(v, have, err == nil); err != nil {
		return err
	}
	want.Config = configText(folder, v.Mark, by, want.Ports)
	stands := have.Number == number && have.Config == want.Config && have.By == by && have.Link == v.Link &&
		have.Alive() && t.works(ctx, have) == nil
	if stands {
		want.Ident = have.Ident
	} else {
		t.guard.Leave(number)
		x.leave()
		if err := t.stop(ctx, v.Name); err != nil {
			return err
		}
		if err := t.movePorts(&want, v); err != nil {
			return err
		}
		if want.Ident, err = t.start(ctx, want); err != nil {
			return err
		}
	}
	if err := t.configure(ctx, want, have, stands, secrets); err != nil {
		return err
	}
	t.keep(x, want)
	return nil
}

// configure gives a charon that runs what it must have, and records it.
func (t *Tunnels) configure(ctx context.Context, want, have record, stands bool, secrets []request) error {
	if want.Limits != (netstate.ProcessLimits{}) {
		_ = t.group.Put(groupOf(want.Name), want.Ident, want.Limits) // proc.Groups.Missing tells
	}
	if err := t.setUp(want); err != nil {
		return err
	}
	c := t.client(want)
	if err := c.load(ctx, secrets); err != nil {
		return fmt.Errorf("load secrets: %w", err)
	}
	if !stands || !reflect.DeepEqual(normal(have.Conn), normal(want.Conn)) || have.Peer.Address != want.Peer.Address {
		at, _ := t.lookUp(ctx, want.Peer.Address) // the keeper repeats it, and tells why it fails
		if err := c.loadConn(ctx, want.Conn, at); err != nil {
			return fmt.Errorf("load connection: %w", err)
		}
	}
	if stands && !reflect.DeepEqual(withoutCerts(have.Conn), withoutCerts(want.Conn)) {
		if err := c.terminate(ctx); err != nil {
			return fmt.Errorf("end the old connection: %w", err)
		}
	}
	return write(t.folder(want.Name), want)
}

// Remove ends the charon of a network and removes its link and its folder. A missing one is no error.
func (t *Tunnels) Remove(ctx context.Context, v netstate.VPN) error {
	number, err := numberOf(v.Name)
	if err != nil {
		return err
	}
	x := t.tunnel(number)
	x.op.Lock()
	defer x.op.Unlock()
	t.guard.Leave(number)
	x.leave()
	t.mu.Lock()
	delete(t.all, number)
	delete(t.taken, number)
	t.mu.Unlock()
	if err := t.stop(ctx, v.Name); err != nil {
		return err
	}
	if err := os.RemoveAll(t.folder(v.Name)); err != nil {
		return fmt.Errorf("remove folder: %w", err)
	}
	return t.group.Remove(groupOf(v.Name))
}

// Observe returns the tunnel of a network as it stands. Whatever keeps it from working makes its text differ from that
// of any desired one.
func (t *Tunnels) Observe(ctx context.Context, number int) (netstate.VPN, bool, error) {
	name := netstate.VPNName(number)
	r, err := read(t.folder(name))
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(t.folder(name), configFile)); err != nil {
			return netstate.VPN{}, false, nil // not one of IPsec
		}
		return netstate.VPN{Name: name, IPsec: &netstate.IPsec{}}, true, nil
	}
	if err != nil { // unreadable: the text of an empty one differs, so it is replaced
		return netstate.VPN{Name: name, IPsec: &netstate.IPsec{}}, true, nil
	}
	v := netstate.VPN{
		Name: r.Name, Link: r.Link, MTU: r.MTU, Mark: r.Mark, Generation: r.Generation, Limits: r.Limits,
		IPsec: &netstate.IPsec{},
	}
	if r.Limits != (netstate.ProcessLimits{}) && !t.group.Has(groupOf(name), r.Ident) {
		v.Limits = netstate.ProcessLimits{}
	}
	if err := t.works(ctx, r); err != nil {
		if ctx.Err() != nil {
			return netstate.VPN{}, false, ctx.Err()
		}
		v.Link = "" // no desired one is like that
		return v, true, nil
	}
	if mtu, up := t.linkState(r); !up || mtu != r.MTU {
		v.MTU = -1
	}
	if r.isRenewed() {
		v.Generation = 0 // no desired one is like that
	}
	t.keep(t.tunnel(number), r)
	return v, true, nil
}

// works returns why a recorded charon does not work, nil if it does.
func (t *Tunnels) works(ctx context.Context, r record) error {
	if !r.Alive() {
		return errors.New("charon has ended")
	}
	if err := t.hasLink(r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return t.client(r).hasConn(ctx)
}

// keep starts the keeper of a tunnel, unless one with the same record runs.
func (t *Tunnels) keep(x *tunnel, r record) {
	t.mu.Lock()
	closed := t.closed
	t.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if closed {
		return
	}
	t.guard.Watch(r.Number, r.Ident, func() { t.emit(r.Number) })
	if x.keeper != nil && x.keeper.serves(r) {
		return
	}
	old := x.keeper
	if old != nil {
		old.stop()
	}
	x.keeper = newKeeper(t, r, old)
}

// rest ends the work of a keeper, which knows an older configuration, and keeps what it knows for the next.
func (x *tunnel) rest() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.keeper != nil {
		x.keeper.stop()
		<-x.keeper.done
	}
}

// leave ends what the daemon does for a tunnel.
func (x *tunnel) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.keeper != nil {
		x.keeper.stop()
		x.keeper = nil
	}
}

// groupOf is the group of a charon: its own, since removing one ends all that is in it.
func groupOf(name string) string { return name }
