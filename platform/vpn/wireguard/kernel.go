package wireguard

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"time"

	"edgespan/platform/proc"

	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// kernelDevice is a link of the kernel's WireGuard. The calls are short: the kernel answers at once.
type kernelDevice struct{ netns, link string }

func (d kernelDevice) with(f func(*wgctrl.Client) error) error {
	err := proc.In(d.netns, func() error {
		c, err := wgctrl.New()
		if err != nil {
			return err
		}
		defer c.Close()
		return f(c)
	})
	if err != nil {
		return fmt.Errorf("ask the kernel for link %s: %w", d.link, err)
	}
	return nil
}

func (d kernelDevice) get(context.Context) (config, error) {
	c := config{peers: map[key]peer{}}
	err := d.with(func(client *wgctrl.Client) error {
		dev, err := client.Device(d.link)
		if err != nil {
			return err
		}
		c.private, c.port, c.mark = key(dev.PrivateKey), dev.ListenPort, uint32(dev.FirewallMark)
		for _, p := range dev.Peers {
			one := peer{
				preshared: key(p.PresharedKey), keepalive: int(p.PersistentKeepaliveInterval / time.Second),
				received: uint64(p.ReceiveBytes), sent: uint64(p.TransmitBytes),
			}
			if p.LastHandshakeTime.Unix() > 0 {
				one.handshake = p.LastHandshakeTime
			}
			if p.Endpoint != nil {
				a := p.Endpoint.AddrPort()
				one.endpoint = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
			}
			for _, n := range p.AllowedIPs {
				if a, ok := netip.AddrFromSlice(n.IP); ok {
					ones, _ := n.Mask.Size()
					one.allowed = append(one.allowed, netip.PrefixFrom(a.Unmap(), ones))
				}
			}
			one.allowed = sorted(one.allowed)
			c.peers[key(p.PublicKey)] = one
		}
		return nil
	})
	return c, err
}

func (d kernelDevice) set(_ context.Context, c change) error {
	cfg, err := c.forKernel()
	if err != nil {
		return err
	}
	return d.with(func(client *wgctrl.Client) error { return client.ConfigureDevice(d.link, cfg) })
}

func (kernelDevice) notes(context.Context) (notes, error) { return notes{}, nil }

// forKernel is a change for the kernel. It can take an allowed IP from a peer only since Linux 6.16, and replacing all
// of a peer leaves a moment without any. So they are given to a peer that is removed at once.
func (c change) forKernel() (wgtypes.Config, error) {
	var cfg wgtypes.Config
	if c.private != nil {
		k := wgtypes.Key(*c.private)
		cfg.PrivateKey = &k
	}
	if c.mark != nil {
		m := int(*c.mark)
		cfg.FirewallMark = &m
	}
	cfg.ListenPort = c.port
	var dropped []net.IPNet
	for _, p := range c.peers {
		one := wgtypes.PeerConfig{PublicKey: wgtypes.Key(p.public), Remove: p.remove, AllowedIPs: ipNets(p.add)}
		if p.preshared != nil {
			k := wgtypes.Key(*p.preshared)
			one.PresharedKey = &k
		}
		if p.endpoint.IsValid() {
			one.Endpoint = net.UDPAddrFromAddrPort(p.endpoint)
		}
		if p.keepalive != nil {
			t := time.Duration(*p.keepalive) * time.Second
			one.PersistentKeepaliveInterval = &t
		}
		dropped = append(dropped, ipNets(p.drop)...)
		cfg.Peers = append(cfg.Peers, one)
	}
	if len(dropped) > 0 {
		var nobody wgtypes.Key
		if _, err := rand.Read(nobody[:]); err != nil {
			return cfg, err
		}
		cfg.Peers = append(cfg.Peers, wgtypes.PeerConfig{PublicKey: nobody, AllowedIPs: dropped},
			wgtypes.PeerConfig{PublicKey: nobody, Remove: true})
	}
	return cfg, nil
}

func ipNets(ps []netip.Prefix) []net.IPNet {
	var out []net.IPNet
	for _, p := range ps {
		out = append(out, net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())})
	}
	return out
}
