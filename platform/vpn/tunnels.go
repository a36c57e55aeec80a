package vpn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"edgespan/netinst/netstate"
)

// Method makes the tunnels of one method. Every call returns by its context's deadline.
type Method interface {
	// Put creates a tunnel or changes it, in place where that is possible. It does not wait for a peer.
	Put(ctx context.Context, v netstate.VPN) error
	// Remove removes a tunnel with its process, link and folder. A missing one is no error.
	Remove(ctx context.Context, v netstate.VPN) error
	// Observe returns the tunnel of a network, with the Text of the one that was put last if nothing has changed since.
	Observe(ctx context.Context, number int) (v netstate.VPN, found bool, err error)
	// Status returns the state of a network's tunnel. The error of one that the method has not made is fs.ErrNotExist.
	Status(ctx context.Context, number int) (netstate.TunnelStatus, error)
	// Ended delivers the numbers of networks whose process has ended by itself.
	Ended() <-chan int
	// Close ends what the daemon does for tunnels, and leaves them as they are.
	Close()
}

// Keeper is a method that keeps something of a network beyond its tunnel.
type Keeper interface {
	Method
	// Forget deletes what is kept of a network that is deleted.
	Forget(uuid string) error
	// PublicKey returns the public half of the node's own key of an identity, which is made if it does not exist.
	PublicKey(identity string) (string, error)
	// The next ones are for a key that is replaced once its successor is known elsewhere.
	Kept(identity string) (netstate.KeptKey, error)
	Announce(identity string) error
	Date(identity string) error
	Replace(identity string) error
	TryFormer(identity string) error
	TryAgain(identity string) error
	Settle(identity string) error
}

// ErrNone is the error of a network without a tunnel.
var ErrNone = errors.New("the network has no tunnel")

// Tunnels are the tunnels of all methods.
type Tunnels struct {
	dir     string // run directory
	methods [2]Method
	keeper  Keeper
}

// The indexes of the methods, in the order in which they are asked: IPsec knows its tunnels by their records, WireGuard
// also by the type of their links, which those of IPsec in userspace have too.
const (
	ipsec = iota
	wireGuard
)

// New returns the tunnels whose folders are below a run directory.
func New(runDir string, wireguard Keeper, ipsecs Method) *Tunnels {
	return &Tunnels{dir: runDir, methods: [2]Method{ipsecs, wireguard}, keeper: wireguard}
}

// Close ends what the daemon does for tunnels, and leaves them as they are.
func (t *Tunnels) Close() {
	for _, m := range t.methods {
		m.Close()
	}
}

// Put creates or changes a tunnel. One of another method is removed first: they share the link's name.
func (t *Tunnels) Put(ctx context.Context, v netstate.VPN) error {
	want := wireGuard
	if v.IPsec != nil {
		want = ipsec
	}
	n, is := netstate.VPNNumber(v.Link)
	if !is || v.Name != netstate.VPNName(n) || (v.WireGuard != nil) == (v.IPsec != nil) {
		return fmt.Errorf("tunnel %s on %s: must be of one network and one method", v.Name, v.Link)
	}
	for i, m := range t.methods {
		old, found, err := m.Observe(ctx, n)
		if found && i != want {
			err = m.Remove(ctx, old)
		}
		if err != nil && i != want {
			return fmt.Errorf("replace the tunnel of another method: %w", err)
		}
		if found {
			break
		}
	}
	return t.methods[want].Put(ctx, v)
}

// Remove removes a tunnel: by the method that has made it, because the others would delete its folder and leave the
// process; by all methods if none knows what a crash has left.
func (t *Tunnels) Remove(ctx context.Context, v netstate.VPN) error {
	n, is := netstate.VPNNameNumber(v.Name)
	if !is {
		return fmt.Errorf("tunnel %s: must be of a network", v.Name)
	}
	for _, m := range t.methods {
		if _, found, _ := m.Observe(ctx, n); found { // one that does not answer is found, with an error
			return m.Remove(ctx, v)
		}
	}
	return errors.Join(t.methods[ipsec].Remove(ctx, v), t.methods[wireGuard].Remove(ctx, v))
}

// PublicKey returns the public half of the node's own key of an identity, which is made if it does not exist.
func (t *Tunnels) PublicKey(identity string) (string, error) { return t.keeper.PublicKey(identity) }

// Keeper returns the method that keeps keys.
func (t *Tunnels) Keeper() Keeper { return t.keeper }

// Forget deletes what is kept of a network that is deleted.
func (t *Tunnels) Forget(uuid string) error { return t.keeper.Forget(uuid) }

// folder is the run folder of the tunnel of a network; without it there is none.
func (t *Tunnels) folder(number int) bool {
	_, err := os.Stat(filepath.Join(t.dir, netstate.VPNName(number)))
	return !errors.Is(err, os.ErrNotExist)
}

// Observe returns the tunnel of a network, false for none.
func (t *Tunnels) Observe(ctx context.Context, number int) (netstate.VPN, bool, error) {
	if !t.folder(number) {
		return netstate.VPN{}, false, nil
	}
	for _, m := range t.methods {
		v, found, err := m.Observe(ctx, number)
		if found || err != nil {
			return v, found, err
		}
	}
	// What a crash has left of a tunnel: it differs from every desired one, and can be removed.
	return netstate.VPN{Name: netstate.VPNName(number), Link: netstate.VPNLink(number)}, true, nil
}

// Status asks the tunnel of a network for its state. Without one, the error wraps ErrNone.
func (t *Tunnels) Status(ctx context.Context, number int) (netstate.TunnelStatus, error) {
	if t.folder(number) {
		for _, m := range t.methods {
			if s, err := m.Status(ctx, number); !errors.Is(err, fs.ErrNotExist) {
				return s, err
			}
		}
	}
	return netstate.TunnelStatus{}, fmt.Errorf("network %d: %w", number, ErrNone)
}

// Watch emits the number of each network whose process has ended by itself, until ctx ends.
func (t *Tunnels) Watch(ctx context.Context, emit func(number int)) {
	var all sync.WaitGroup
	for _, m := range t.methods {
		all.Go(func() {
			for {
				select {
				case n := <-m.Ended():
					emit(n)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	all.Wait()
}
