package firewall

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-iptables/iptables"
)

// detectDeadline bounds Backend, which takes 2 ms unless a command hangs.
const detectDeadline = 3 * time.Second

// Backend describes the host's iptables and its features.
type Backend struct {
	Version     string // for example "1.8.9"
	Mode        string // "nf_tables" or "legacy"
	Wait        bool   // supports waiting for the xtables lock (-w), since 1.4.20
	RandomFully bool   // MASQUERADE supports --random-fully, since 1.6.2
}

// String returns the version as iptables prints it and the missing features; "" without an iptables.
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

// detector calls go-iptables, which runs a command without a deadline: at most one call, in a goroutine that is
// abandoned at detectDeadline (ADR 0011).
type detector struct {
	mu    sync.Mutex
	call  *detection // in progress, also once no caller waits for it
	known *Backend
}

type detection struct {
	done chan struct{}
	b    Backend
	err  error
}

// Backend returns the host's iptables, or why it can't be used. The first success is cached. A caller waits for a
// hanging call until ctx ends, at most for detectDeadline, and no second call starts meanwhile.
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

// run makes the call; if it fails, the next caller makes another.
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
		// go-iptables does not export this.
		Wait: v1 > 1 || v1 == 1 && (v2 > 4 || v2 == 4 && v3 >= 20),
	}
}

// mode returns the backend that go-iptables detects but does not export.
func (f *Firewall) mode(ctx context.Context) (string, error) {
	out, err := f.run.Run(ctx, "", "iptables", "-V")
	if err != nil {
		return "", err
	}
	if strings.Contains(out, "nf_tables") {
		return "nf_tables", nil
	}
	return "legacy", nil // versions before 1.8 have only legacy and don't name it
}
