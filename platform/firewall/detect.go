package firewall

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-iptables/iptables"
)

// detectDeadline bounds Backend; the answer takes 2 ms where nothing hangs.
const detectDeadline = 3 * time.Second

// Backend is the iptables that the host has, and what it can do.
type Backend struct {
	Version     string // as "1.8.9"
	Mode        string // "nf_tables" or "legacy"
	Wait        bool   // it can wait for the lock of the tables (-w), since 1.4.20
	RandomFully bool   // MASQUERADE knows --random-fully, since 1.6.2
}

// String is as iptables itself says it, and what it lacks; "" of none.
func (b Backend) String() string {
	if b.Version == "" {
		return ""
	}
	s := fmt.Sprintf("iptables v%s (%s)", b.Version, b.Mode)
	if !b.Wait {
		s += " without -w"
	}
	if !b.RandomFully {
		s += " without --random-fully"
	}
	return s
}

// detector asks go-iptables, which runs a command by itself and without a deadline:
// in a goroutine that is abandoned at its deadline, one at most (ADR 0011).
type detector struct {
	mu    sync.Mutex
	call  *detection // under way, also if nobody waits for it any more
	known *Backend
}

type detection struct {
	done chan struct{}
	b    Backend
	err  error
}

// Backend says which iptables the host has, or why none can be used. The first
// success is kept. A call that hangs is waited for until ctx ends, at most for
// detectDeadline, and no second one is made beside it.
func (f *Firewall) Backend(ctx context.Context) (Backend, error) {
	d := &f.detect
	d.mu.Lock()
	if d.known != nil {
		defer d.mu.Unlock()
		return *d.known, nil
	}
	call := d.call
	if call == nil {
		call = &detection{done: make(chan struct{})}
		d.call = call
		go d.run(call)
	}
	d.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, detectDeadline)
	defer cancel()
	select {
	case <-ctx.Done():
		return Backend{}, fmt.Errorf("detect iptables: iptables --version timed out: %w", ctx.Err())
	case <-call.done:
	}
	if call.err != nil {
		return Backend{}, fmt.Errorf("detect iptables: %w", call.err)
	}
	b := call.b
	var err error
	if b.Mode, err = f.mode(ctx); err != nil {
		return Backend{}, fmt.Errorf("detect mode of iptables: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known = &b
	return b, nil
}

// run makes the call and, if it failed, lets the next caller make another.
func (d *detector) run(call *detection) {
	defer close(call.done)
	ipt, err := iptables.New()
	d.mu.Lock()
	defer d.mu.Unlock()
	if call.err = err; err != nil {
		d.call = nil
		return
	}
	v1, v2, v3 := ipt.GetIptablesVersion()
	call.b = Backend{
		Version: fmt.Sprintf("%d.%d.%d", v1, v2, v3), RandomFully: ipt.HasRandomFully(),
		// go-iptables knows it and does not tell.
		Wait: v1 > 1 || v1 == 1 && (v2 > 4 || v2 == 4 && v3 >= 20),
	}
}

// mode is the one thing that go-iptables reads and keeps to itself.
func (f *Firewall) mode(ctx context.Context) (string, error) {
	out, err := f.run.Run(ctx, "", "iptables", "-V")
	if err != nil {
		return "", err
	}
	if strings.Contains(out, "nf_tables") {
		return "nf_tables", nil
	}
	return "legacy", nil // those before 1.8 know no other and don't name it
}
