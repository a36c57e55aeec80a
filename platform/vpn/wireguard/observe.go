package wireguard

import (
	"context"

	"edgespan/netinst/netstate"
)

// Observe returns what stands of a network's tunnel. It equals the desired one exactly if nothing must be done: a
// difference that no field shows makes its Generation 0.
func (t *Tunnels) Observe(ctx context.Context, number int) (v netstate.VPN, found bool, err error) {
	v = netstate.VPN{Name: netstate.VPNName(number), Link: netstate.VPNLink(number), WireGuard: &netstate.WireGuard{}}
	r, err := readRecord(t.folder(number))
	lost := missing(err)
	if err != nil && !lost {
		r = record{} // unreadable: all is different
	}
	if r.Link != "" {
		v.Link = r.Link
	}
	at, err := t.links.find(v.Link, number)
	if err != nil {
		return v, true, err
	}
	if lost && !at.own {
		return netstate.VPN{}, false, nil
	}
	v.MTU, v.Mark, v.Limits = at.mtu, r.Mark, r.Limits
	v.WireGuard.Identity, v.WireGuard.ListenPort = r.Identity, r.ListenPort
	if r.Replaced {
		v.WireGuard.PublicKey = r.PublicKey
	}
	for _, p := range r.Peers {
		v.WireGuard.Peers = append(v.WireGuard.Peers, netstate.WireGuardPeer(netstate.WireGuardPeer{
			Name: p.Name, PublicKey: p.PublicKey, Endpoint: p.Endpoint, Succeeds: p.Succeeds}))
	}
	if lost || !r.Whole || !at.own || !at.up || at.kernel != r.Kernel {
		return v, true, nil
	}
	if !r.Kernel {
		if !t.running(r, t.folder(number)) {
			return v, true, nil
		}
		t.watch(number, r.Ident)
		if r.Limits != (netstate.ProcessLimits{}) && !t.group.Has(netstate.VPNName(number), r.Ident) {
			v.Limits = netstate.ProcessLimits{} // somebody took it out of its group
		}
	}
	ask, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	have, err := t.device(r, number).get(ask)
	if err != nil {
		return v, true, ctx.Err() // one that does not answer is replaced
	}
	if v.Mark = have.mark; have.mark == r.Mark && have.digest(r.Salt, r.ListenPort == 0) == r.Digest {
		v.Generation = r.Generation
	}
	t.attend(t.tunnel(number), number, r)
	return v, true, nil
}
