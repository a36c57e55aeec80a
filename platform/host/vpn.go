package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"edgespan/netinst/netstate"
	"edgespan/platform/pki"
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

// byNode is the value of IPsecEnd.Auth of a tunnel that shows the node's own certificate.
const byNode = "node"

// putTunnel creates or changes a tunnel. The node's certificate is read here, so that no config and no state holds it.
func (h *Host) putTunnel(ctx context.Context, v netstate.VPN) error {
	if v.IPsec == nil || v.IPsec.Local.Auth != byNode {
		return h.vpn.Put(ctx, v)
	}
	if h.who == nil {
		return fmt.Errorf("show the node's certificate: %w", pki.ErrNotJoined)
	}
	for {
		own, err := h.who()
		if err != nil {
			return err
		}
		x := *v.IPsec
		x.Local.Auth, x.Local.Certificate, x.Local.Key = "pubkey", own.Certificate, own.Key
		x.Remote.CA, x.Files = cmp.Or(x.Remote.CA, own.CA), []string{own.Path}
		given := v
		given.IPsec = &x
		if err := h.vpn.Put(ctx, given); err != nil {
			return err
		}
		if now, err := h.who(); err != nil || now == own || ctx.Err() != nil {
			return nil // otherwise it was renewed meanwhile, and the tunnel has the old one beside the digest of the new one
		}
	}
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

// ClusterKey returns the node's public WireGuard key for encrypted clusters; the first call makes the key.
func (h *Host) ClusterKey() (string, error) { return h.vpn.PublicKey(netstate.ClustersIdentity) }

// ClusterKeys returns what is known of that key and of the one that shall replace it.
func (h *Host) ClusterKeys() (netstate.KeptKey, error) {
	return h.vpn.Keeper().Kept(netstate.ClustersIdentity)
}

// AnnounceClusterKey makes the key that shall replace the node's key for encrypted clusters, unless there is one.
func (h *Host) AnnounceClusterKey() error { return h.vpn.Keeper().Announce(netstate.ClustersIdentity) }

// DateClusterKey makes the node's key for encrypted clusters and the announced one as of now.
func (h *Host) DateClusterKey() error { return h.vpn.Keeper().Date(netstate.ClustersIdentity) }

// ReplaceClusterKey puts the announced key in the place of the node's key for encrypted clusters.
func (h *Host) ReplaceClusterKey() error { return h.vpn.Keeper().Replace(netstate.ClustersIdentity) }

// TryFormerClusterKey puts the key back that was replaced, and keeps the one that has replaced it.
func (h *Host) TryFormerClusterKey() error {
	return h.vpn.Keeper().TryFormer(netstate.ClustersIdentity)
}

// TryClusterKey undoes TryFormerClusterKey.
func (h *Host) TryClusterKey() error { return h.vpn.Keeper().TryAgain(netstate.ClustersIdentity) }

// SettleClusterKey forgets the other one of the two.
func (h *Host) SettleClusterKey() error { return h.vpn.Keeper().Settle(netstate.ClustersIdentity) }

// newTunnels opens the tunnels of this host.
func newTunnels(cfg Config, run *proc.Runner) *vpn.Tunnels {
	state := cfg.StateDir
	if state == "" {
		state = filepath.Join(cfg.RunDir, "state")
	}
	return vpn.New(cfg.RunDir, wireguard.New(run, cfg.NetnsPath, cfg.RunDir, state),
		ipsec.New(run, cfg.NetnsPath, cfg.RunDir, state))
}
