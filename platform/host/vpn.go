package host

import (
	"context"
	"errors"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
	"edgespan/platform/vpn"
)

// observeTunnel adds the tunnel of a network.
func (h *Host) observeTunnel(ctx context.Context, number int, s netstate.State) error {
	v, found, err := h.vpn.Observe(ctx, number)
	if found {
		s.Add(v)
	}
	return err
}

// TunnelStatus asks the tunnel of a network for its state. It returns by ctx's
// deadline; without a tunnel the result has no Kind.
func (h *Host) TunnelStatus(ctx context.Context, o netstate.Owner) (netstate.TunnelStatus, error) {
	s, err := h.vpn.Status(ctx, o.Number)
	if errors.Is(err, vpn.ErrNone) {
		return netstate.TunnelStatus{Number: o.Number}, nil
	}
	return s, err
}

// newTunnels opens the tunnels of this host.
func newTunnels(cfg Config, _ *proc.Runner) *vpn.Tunnels {
	return vpn.New(cfg.RunDir, unavailable{}, unavailable{})
}

// unavailable is a method whose package is not part of this build.
type unavailable struct{}

func (unavailable) Put(context.Context, netstate.VPN) error {
	return errors.New("this build has no tunnels of this method")
}
func (unavailable) Remove(context.Context, netstate.VPN) error { return nil }
func (unavailable) Forget(string) error                        { return nil }
func (unavailable) Observe(context.Context, int) (netstate.VPN, bool, error) {
	return netstate.VPN{}, false, nil
}
func (unavailable) Status(context.Context, int) (netstate.TunnelStatus, error) {
	return netstate.TunnelStatus{}, vpn.ErrNone
}
func (unavailable) Ended() <-chan int { return nil }
