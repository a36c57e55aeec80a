package ipsec

import (
	"errors"
	"fmt"
	"net"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
)

// dropKernel removes what an ended charon has left of a network's tunnel by the kernel: the link, and the states and
// policies that belong to it alone (if_id).
func (t *Tunnels) dropKernel(number int, link string) error {
	h, ns, err := t.host()
	if err != nil {
		return err
	}
	defer ns.Close()
	defer h.Close()
	l, err := h.LinkByName(link)
	x, ok := l.(*netlink.Xfrmi)
	if err != nil || !ok || x.Alias != netstate.VPNAlias(number) && x.Alias != "" { // none before setUp
		return nil
	}
	if err := dropStates(ns, int(x.Ifid)); err != nil {
		return err
	}
	if err := h.LinkDel(l); err != nil {
		return fmt.Errorf("remove link %s: %w", link, err)
	}
	return nil
}

func dropStates(ns netns.NsHandle, id int) error {
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_XFRM)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	if err := h.SetSocketTimeout(askTime); err != nil {
		return err
	}
	policies, err := h.XfrmPolicyList(nl.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list policies of IPsec: %w", err)
	}
	for _, p := range policies {
		if p.Ifid == id {
			if err := h.XfrmPolicyDel(&p); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("remove a policy of IPsec: %w", err)
			}
		}
	}
	states, err := h.XfrmStateList(nl.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list states of IPsec: %w", err)
	}
	for _, s := range states {
		if s.Ifid == id {
			if err := h.XfrmStateDel(&s); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("remove a state of IPsec: %w", err)
			}
		}
	}
	return nil
}

// probed returns what carries packets here: the kernel if it has all that a tunnel needs, which is tried out in an
// empty network namespace.
func (t *Tunnels) probed() string {
	t.probe.Do(func() {
		t.carrier = byKernel
		if t.lacks = probeKernel(); t.lacks != nil {
			t.carrier = byProcess
		}
	})
	return t.carrier
}

func probeKernel() error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine, and the namespace with it
		done <- func() error {
			if unix.Gettid() == unix.Getpid() {
				defer runtime.UnlockOSThread()
				return probeKernel() // the main thread can't end
			}
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("new network namespace: %w", err)
			}
			h, err := netlink.NewHandle(unix.NETLINK_ROUTE, unix.NETLINK_XFRM)
			if err != nil {
				return fmt.Errorf("open netlink: %w", err)
			}
			defer h.Close()
			if err := h.SetSocketTimeout(askTime); err != nil {
				return err
			}
			attrs := netlink.NewLinkAttrs()
			attrs.Name = "probe"
			if err := h.LinkAdd(&netlink.Xfrmi{LinkAttrs: attrs, Ifid: 1}); err != nil {
				return fmt.Errorf("xfrm interface: %w", err)
			}
			err = h.XfrmStateAdd(&netlink.XfrmState{
				Src: net.IPv4(127, 0, 0, 1), Dst: net.IPv4(127, 0, 0, 2), Proto: netlink.XFRM_PROTO_ESP,
				Mode: netlink.XFRM_MODE_TUNNEL, Spi: 0x1000, Reqid: 1, ReplayWindow: 32, Ifid: 1,
				Aead: &netlink.XfrmStateAlgo{Name: "rfc4106(gcm(aes))", Key: make([]byte, 20), ICVLen: 128},
			})
			if err != nil {
				return fmt.Errorf("state of ESP: %w", err)
			}
			return nil
		}()
	}()
	return <-done
}
