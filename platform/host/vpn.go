package host

import (
	"context"
	"errors"
	"path/filepath"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
	"edgespan/platform/vpn"
	"edgespan/platform/vpn/ipsec"
	"edgespan/platform/vpn/wireguard"
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
func newTunnels(cfg Config, run *proc.Runner) *vpn.Tunnels {
	state := cfg.StateDir
	if state == "" {
		state = filepath.Join(cfg.RunDir, "state")
	}
	return vpn.New(cfg.RunDir, wireguard.New(run, cfg.NetnsPath, cfg.RunDir, state),
		ipsec.New(run, cfg.NetnsPath, cfg.RunDir, state))
}
