package lab

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Fault is one way in which an uplink fails.
type Fault string

// The faults.
const (
	FarSideDead Fault = "far side dead" // the gateway answers ARP, ND and IPv4 pings; everything behind it is silent
	GatewayDead Fault = "gateway dead"  // the gateway answers nothing, not even ARP, and the link is up
	LinkDown    Fault = "link down"     // the node's interface has no carrier
	AddressLost Fault = "address lost"  // the node's interface has no address, and so no route
)

// faults are the faults of one uplink that its provider's rules make.
type faults struct {
	mu           sync.Mutex
	far, gateway bool
	loss         int // percent, in each direction
}

// Break makes an uplink fail, and has returned once the fault is in effect. Faults of several kinds add up.
func (l *Lab) Break(ctx context.Context, uplink int, f Fault) error {
	if err := l.setFault(ctx, l.providers[uplink], f, true); err != nil {
		return fmt.Errorf("break %s: %s: %w", l.providers[uplink].Dev, f, err)
	}
	return nil
}

// Repair ends a fault of Break.
func (l *Lab) Repair(ctx context.Context, uplink int, f Fault) error {
	if err := l.setFault(ctx, l.providers[uplink], f, false); err != nil {
		return fmt.Errorf("repair %s: %s: %w", l.providers[uplink].Dev, f, err)
	}
	return nil
}

// SetLoss drops so many percent of an uplink's frames in each direction, ARP included.
func (l *Lab) SetLoss(ctx context.Context, uplink, percent int) error {
	p := l.providers[uplink]
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	p.faults.loss = percent
	return l.writeRules(ctx, p)
}

// SetDelay delays the frames of an uplink by delay, plus or minus up to jitter, in each direction: frames overtake each
// other. Frames that are under way keep their time. The lab must have Options.Wires.
func (l *Lab) SetDelay(uplink int, delay, jitter time.Duration) error {
	w := l.providers[uplink].wire
	if w == nil {
		return fmt.Errorf("delay %s: the lab has no relay: must be made with Options.Wires", l.providers[uplink].Dev)
	}
	w.setDelay(delay, jitter)
	return nil
}

func (l *Lab) setFault(ctx context.Context, p *Provider, f Fault, on bool) error {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	switch f {
	case FarSideDead:
		p.faults.far = on
		return l.writeRules(ctx, p)
	case GatewayDead:
		p.faults.gateway = on
		return l.writeRules(ctx, p)
	case LinkDown:
		return l.setCarrier(ctx, p, !on)
	case AddressLost:
		verb := map[bool]string{true: "del", false: "add"}[on]
		err := command(ctx, "ip", "-n", l.NS("node"), "addr", verb, p.Node+"/24", "dev", p.Dev)
		if err == nil && !on {
			err = command(ctx, l.defaultRoute(p)...)
		}
		return err
	}
	return fmt.Errorf("unknown fault %q", f)
}

// setCarrier sets the other end of the node's link up or down, which is the relay's where there is one.
func (l *Lab) setCarrier(ctx context.Context, p *Provider, up bool) error {
	state := map[bool]string{true: "up", false: "down"}[up]
	if p.wired {
		return command(ctx, "ip", "-n", l.NS(p.wireShort()), "link", "set", wireNear, state)
	}
	return command(ctx, "ip", "-n", l.NS(p.Short), "link", "set", p.Peer, state)
}

// faultTable is a table at the provider's end of the link, before its ARP and IP: what it drops, nothing answers.
const faultTable = `table netdev lab
delete table netdev lab
table netdev lab {
	chain in { type filter hook ingress device "%[1]s" priority 0; %[2]s }
	chain out { type filter hook egress device "%[1]s" priority 0; %[3]s }
}
`

// writeRules replaces the rules of a provider in one transaction.
func (l *Lab) writeRules(ctx context.Context, p *Provider) error {
	var in, out []string
	if p.faults.gateway {
		in, out = append(in, "drop;"), append(out, "drop;")
	}
	if p.faults.far {
		const behind6 = "ip6 nexthdr != icmpv6 drop; icmpv6 type { echo-request, echo-reply, destination-unreachable } drop;"
		in = append(in, "ip daddr != "+p.Gateway+" drop;", behind6)
		out = append(out, "ip saddr != "+p.Gateway+" drop;", behind6)
	}
	if n := p.faults.loss; n > 0 {
		drop := fmt.Sprintf("numgen random mod 100 < %d drop;", n)
		in, out = append(in, drop), append(out, drop)
	}
	cmd := exec.CommandContext(ctx, "ip", "netns", "exec", l.NS(p.Short), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(faultTable, p.Peer, strings.Join(in, " "), strings.Join(out, " ")))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run nft in %s: %w: %s", p.Short, err, strings.TrimSpace(string(out)))
	}
	return nil
}
