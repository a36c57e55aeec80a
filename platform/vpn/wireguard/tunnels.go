package wireguard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"edgespan/netinst/netstate"
	"edgespan/platform/dump"
	"edgespan/platform/proc"
)

// Tunnels are the WireGuard tunnels of one run directory in one network namespace. It is safe for concurrent use.
type Tunnels struct {
	run     *proc.Runner
	netns   string
	dir     string
	program string // whose command helper.Command runs a helper
	keys    keys
	links   *links
	procs   *dump.Shared[[]proc.Process]
	group   *proc.Groups
	guard   proc.Guard[int] // by number of the network instance
	ended   chan int
	closed  chan struct{}
	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)
	// processOnly makes new tunnels of processes even if the kernel has WireGuard.
	processOnly bool
	looks       looks

	mu       sync.Mutex
	each     map[int]*tunnel // by number of the network instance
	kernel   map[int]bool    // numbers of tunnels of the kernel's
	steering func()          // ends steering, nil while there was none
}

// tunnel is what is known of one network's tunnel beside its record.
type tunnel struct {
	change sync.Mutex // held during Put and Remove

	mu     sync.Mutex
	tend   func() // ends tending, nil while nothing is tended
	wake   chan struct{}
	ends   map[key]*end // of peers with an endpoint
	counts map[key]*count
	// follows means that successors of peers are waited for.
	follows  bool
	attended uint64 // how often attend was called
}

// New returns the Tunnels whose folders are below runDir, and whose kept keys are below stateDir.
func New(run *proc.Runner, netnsPath, runDir, stateDir string) *Tunnels {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	return &Tunnels{
		run: run, netns: netnsPath, dir: runDir, program: strings.TrimSuffix(program, " (deleted)"),
		procs: dump.New(listTime, func(context.Context) ([]proc.Process, error) { return proc.List() }),
		keys:  keys(filepath.Join(stateDir, "wireguard")), links: &links{netns: netnsPath}, group: proc.NewGroups(runDir),
		ended: make(chan int), closed: make(chan struct{}),
		lookup: resolver(netnsPath), each: map[int]*tunnel{}, kernel: map[int]bool{},
	}
}

// Close ends what New began, and leaves the tunnels as they are.
func (t *Tunnels) Close() {
	t.mu.Lock()
	for _, one := range t.each {
		one.leave()
	}
	if t.steering != nil {
		t.steering()
	}
	t.mu.Unlock()
	t.guard.Close()
	close(t.closed)
	t.group.Close()
	t.links.close()
}

// Ended emits the numbers of networks whose process has ended by itself. Each process that was put or observed is
// watched.
func (t *Tunnels) Ended() <-chan int { return t.ended }

// watch watches the process of a network.
func (t *Tunnels) watch(number int, id proc.Ident) {
	t.guard.Watch(number, id, func() {
		select {
		case t.ended <- number:
		case <-t.closed:
		}
	})
}

// PublicKey returns the public half of the key that the node keeps under an identity; it makes one if there is none.
func (t *Tunnels) PublicKey(identity string) (string, error) {
	private, err := t.keys.get(identity)
	if err != nil {
		return "", err
	}
	public, err := private.public()
	if err != nil {
		return "", err
	}
	return public.base64(), nil
}

// Forget deletes the kept key of a deleted network.
func (t *Tunnels) Forget(uuid string) error { return t.keys.forget(uuid) }

func (t *Tunnels) folder(number int) string { return filepath.Join(t.dir, netstate.VPNName(number)) }

// numberOf is the network's number in the name of its tunnel, ni/<n>/vpn.
func numberOf(name string) (int, error) {
	words := strings.Split(name, "/")
	if len(words) == 3 && words[0] == "ni" && words[2] == "vpn" {
		if n, err := strconv.Atoi(words[1]); err == nil && n > 0 {
			return n, nil
		}
	}
	return 0, fmt.Errorf("tunnel %q: must be named ni/NUMBER/vpn", name)
}

func (t *Tunnels) tunnel(number int) *tunnel {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.each[number]
	if one == nil {
		one = &tunnel{wake: make(chan struct{}, 1), ends: map[key]*end{}, counts: map[key]*count{}}
		t.each[number] = one
	}
	return one
}

func (t *Tunnels) device(r record, number int) device {
	if r.Kernel {
		return kernelDevice{netns: t.netns, link: r.Link}
	}
	return socket(t.folder(number))
}

// Put creates a tunnel or changes it to v, in place where it stands. It returns when the link exists and is configured;
// peers may answer later.
func (t *Tunnels) Put(ctx context.Context, v netstate.VPN) error {
	number, err := numberOf(v.Name)
	if err != nil {
		return err
	}
	if v.WireGuard == nil {
		return fmt.Errorf("tunnel %s: is not WireGuard's", v.Name)
	}
	one := t.tunnel(number)
	one.change.Lock()
	defer one.change.Unlock()
	private, err := t.privateKey(*v.WireGuard)
	if err != nil {
		return err
	}
	want, err := desired(v, private)
	if err != nil {
		return err
	}
	r, err := t.begin(v, number)
	if err != nil {
		return err
	}
	if err := t.stand(ctx, &r, v, number); err != nil {
		return err
	}
	if err := t.configure(ctx, &r, v, want, number); err != nil {
		return err
	}
	if !r.Kernel {
		t.limit(ctx, &r, number, v.Limits)
		t.watch(number, r.Ident)
	} else {
		r.Limits = v.Limits
	}
	r.Whole = true
	if err := r.write(t.folder(number)); err != nil {
		return err
	}
	t.attend(one, number, r)
	return nil
}

func (t *Tunnels) privateKey(w netstate.WireGuard) (key, error) {
	if w.PrivateKey == "" {
		return t.keys.get(w.Identity)
	}
	k, err := parseKey(w.PrivateKey)
	if err != nil {
		return key{}, fmt.Errorf("private key: %w", err)
	}
	return k, nil
}

// begin makes the folder of a tunnel, and returns its record, or a new one.
func (t *Tunnels) begin(v netstate.VPN, number int) (record, error) {
	folder := t.folder(number)
	if err := errors.Join(os.MkdirAll(filepath.Dir(folder), 0o755), os.MkdirAll(folder, 0o700),
		os.Chmod(folder, 0o700)); err != nil {
		return record{}, fmt.Errorf("make folder: %w", err)
	}
	r, err := readRecord(folder)
	if err != nil || r.Link != v.Link { // missing or unreadable: processes are found by their command lines
		r = record{Link: v.Link}
	}
	if r.Salt == "" {
		r.Salt = rand.Text()
	}
	return r, nil
}

// stand makes the link of a tunnel and its process, as far as they are missing.
func (t *Tunnels) stand(ctx context.Context, r *record, v netstate.VPN, number int) error {
	at, err := t.links.find(v.Link, number)
	if err != nil {
		return err
	}
	if at.Link != nil && !at.own && !r.Making {
		return fmt.Errorf("link %s: was made by others: remove or rename it", v.Link)
	}
	fresh := at.Link == nil // and no process runs
	if fresh {
		if at, err = t.addLink(ctx, r, v, number); err != nil {
			return err
		}
	}
	r.Kernel = at.kernel
	if err := t.links.setUp(at, v, number); err != nil {
		return err
	}
	r.Making = false
	switch {
	case r.Kernel:
		return nil
	case fresh:
		return t.start(ctx, r, number)
	}
	return t.process(ctx, r, number)
}

// addLink makes the link of a tunnel. A process whose link is gone is about to end.
func (t *Tunnels) addLink(ctx context.Context, r *record, v netstate.VPN, number int) (link, error) {
	old, err := t.helpers(ctx, t.folder(number))
	if err != nil {
		return link{}, err
	}
	if err := t.stop(ctx, number, old); err != nil {
		return link{}, err
	}
	r.Making, r.Whole = true, false
	if err := r.write(t.folder(number)); err != nil {
		return link{}, err
	}
	err = errNoKernel
	if !t.processOnly {
		err = t.links.add(v.Link, true)
	}
	if errors.Is(err, errNoKernel) {
		err = t.links.add(v.Link, false)
	}
	if err != nil {
		r.Making = false // a link of this name is not ours
		return link{}, errors.Join(err, r.write(t.folder(number)))
	}
	at, err := t.links.find(v.Link, number)
	if err == nil && at.Link == nil {
		err = fmt.Errorf("link %s: is gone again", v.Link)
	}
	return at, err
}

// configure makes the interface's configuration the desired one, with what differs only.
func (t *Tunnels) configure(ctx context.Context, r *record, v netstate.VPN, want config, number int) error {
	one, dev := t.tunnel(number), t.device(*r, number)
	have, err := dev.get(ctx)
	if err != nil {
		return err
	}
	endpoints := map[key]string{}
	for _, p := range v.WireGuard.Peers {
		public, _ := parseKey(p.PublicKey) // desired has parsed it
		endpoints[public] = p.Endpoint
		if w := want.peers[public]; p.Endpoint != "" && !w.endpoint.IsValid() {
			w.endpoint = one.resolved(public, p.Endpoint)
			want.peers[public] = w
		}
	}
	want = succeed(have, want, v.WireGuard.Peers)
	c := diff(have, want, func(public key) bool { return r.endpoint(public) != endpoints[public] })
	if !r.Whole && want.port != 0 { // wireguard-go shows the port of a failed change, without a socket
		c.port = &want.port
	}
	own, err := want.private.public()
	if err != nil {
		return err
	}
	if !c.empty() {
		r.Whole = false
		if err := r.write(t.folder(number)); err != nil {
			return err
		}
		if err := dev.set(ctx, c); err != nil {
			return fmt.Errorf("configure link %s: %w", v.Link, err)
		}
	}
	r.MTU, r.Mark, r.Generation, r.Identity = v.MTU, v.Mark, v.Generation, v.WireGuard.Identity
	r.PublicKey, r.ListenPort, r.Replaced = own.base64(), want.port, v.WireGuard.PublicKey != ""
	r.Digest, r.Peers = want.digest(r.Salt, want.port == 0), nil
	for _, p := range v.WireGuard.Peers {
		r.Peers = append(r.Peers, recordedPeer{Name: p.Name, PublicKey: p.PublicKey, Endpoint: p.Endpoint,
			Succeeds: p.Succeeds})
	}
	return nil
}

// Remove removes a tunnel with its process, its link and its folder, but not a kept key. A missing one is no error.
func (t *Tunnels) Remove(ctx context.Context, v netstate.VPN) error {
	number, err := numberOf(v.Name)
	if err != nil {
		return err
	}
	one := t.tunnel(number)
	one.change.Lock()
	defer one.change.Unlock()
	one.leave()
	folder := t.folder(number)
	r, err := readRecord(folder)
	if err == nil && t.running(r, folder) {
		err = t.stop(ctx, number, []proc.Ident{r.Ident})
	} else if err != nil || !r.Kernel || !r.Whole {
		var found []proc.Ident
		if found, err = t.helpers(ctx, folder); err == nil {
			err = t.stop(ctx, number, found)
		}
	}
	if err != nil {
		return err
	}
	name := r.Link
	if name == "" {
		name = v.Link
	}
	at, err := t.links.find(name, number)
	if err == nil && (at.own || at.Link != nil && r.Making) {
		err = t.links.remove(at)
	}
	if err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("remove folder: %w", err)
	}
	t.mu.Lock()
	delete(t.each, number)
	delete(t.kernel, number)
	t.mu.Unlock()
	return t.group.Remove(netstate.VPNName(number))
}
