package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"

	"go.uber.org/zap"
)

// Do does one op of an owner's plan. Errors are *netstate.OpError; they wrap netstate.ErrWaiting if a foreign object
// does not exist yet. An op that failed or was killed half way can be repeated, or observed and repaired. It ends at
// ctx's deadline, which comes from netstate.Op.Deadline.
func (h *Host) Do(ctx context.Context, o netstate.Owner, op netstate.Op) error {
	_, err := onOwnStack(func() (struct{}, error) { return struct{}{}, h.do(ctx, o, op) })
	if err == nil {
		return nil
	}
	e := &netstate.OpError{Op: op.String(), Err: err}
	var cmd *proc.Error
	if errors.As(err, &cmd) {
		e.Command = cmd.Command()
	}
	return e
}

func (h *Host) do(ctx context.Context, o netstate.Owner, op netstate.Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if op.Verb != netstate.Remove && o.Number > 0 {
		if err := h.markOwner(o); err != nil {
			return err
		}
	}
	var err error
	switch {
	case op.Kind == netstate.KindChain && op.Verb == netstate.Remove:
		err = h.fw.Remove(ctx, o.Number, op.Items)
	case op.Kind == netstate.KindChain:
		if err = h.fw.Apply(ctx, o.Number, op.Items); err == nil && o.Number == 0 && h.fw.LacksARP() {
			h.withoutARP.Do(func() {
				h.log.Warn("neighbours of ports may spoof gateways: nf_tables has no family arp (CONFIG_NF_TABLES_ARP)")
			})
		}
	case op.Kind == netstate.KindLink && op.Verb == netstate.Remove && o.Number == netstate.PortsNumber:
		err = h.removeVLANs(ctx, op.Items)
	case op.Kind == netstate.KindLink && op.Verb == netstate.Remove:
		err = h.removeLinks(ctx, o, op.Items)
	default:
		for i := 0; i < len(op.Items) && err == nil; i++ {
			err = h.doItem(ctx, o, op.Verb, op.Items[i])
		}
	}
	if err != nil {
		return err
	}
	// Its links go last: checking for them earlier would wait for those of others, which the kernel is removing.
	if o.Number >= 0 && op.Verb == netstate.Remove && (op.Kind == netstate.KindLink || !h.linked.has(o.Number)) {
		return h.removeRunDir(ctx, o)
	}
	return nil
}

func (h *Host) doItem(ctx context.Context, o netstate.Owner, verb netstate.Verb, it netstate.Item) error {
	obj := it.Want
	if verb == netstate.Remove {
		obj = it.Have
	}
	if obj == nil {
		return fmt.Errorf("%s %s: nothing named", verb, it.ID())
	}
	if o.Number == netstate.PortsNumber {
		return h.doPort(verb, obj)
	}
	switch obj := obj.(type) {
	case netstate.Sysctl:
		if o.Number > 0 {
			return h.setOwn(o, verb, obj)
		}
		if obj.Key == netstate.TaggedFilter && verb != netstate.Remove {
			if err := h.needBridgeFilter(ctx); err != nil {
				return err
			}
		}
		return pick(verb, func() error { return h.sys.put(obj) }, func() error { return h.closeForwarding(ctx, obj) })
	case netstate.File:
		return pick(verb, func() error { return h.putFile(o, obj) }, func() error { return h.removeFile(o, obj) })
	case netstate.Process:
		return h.doProcess(ctx, o, verb, obj)
	}
	if err := ownedByNumber(o, obj); err != nil {
		return err
	}
	switch obj := obj.(type) {
	case netstate.VPN:
		return pick(verb, func() error { return h.putTunnel(ctx, obj) }, func() error { return h.vpn.Remove(ctx, obj) })
	case netstate.Link:
		return h.doLink(ctx, verb, obj)
	case netstate.Port:
		if verb != netstate.Remove {
			if err := h.needTaggedFilter(obj); err != nil {
				return err
			}
		}
		if obj.Foreign {
			return pick(verb, func() error { return h.enslave(o, obj) }, func() error { return h.release(o, obj) })
		}
		return pick(verb, func() error { return h.kernel.SetPort(obj) }, func() error { return h.kernel.ClearPort(obj) })
	case netstate.Address:
		return pick(verb, func() error { return h.kernel.AddAddress(obj) },
			func() error { return h.kernel.RemoveAddress(obj) })
	case netstate.Route:
		return pick(verb, func() error { return h.kernel.PutRoute(obj) }, func() error { return h.kernel.RemoveRoute(obj) })
	case netstate.Set:
		return pick(verb, func() error { return h.sets.Put(obj) }, func() error { return h.sets.Remove(obj) })
	case netstate.Rule:
		if verb == netstate.Add {
			return h.kernel.AddRule(obj)
		}
		return pick(verb, func() error { return h.kernel.PutRule(obj) }, func() error { return h.kernel.RemoveRule(obj) })
	}
	return fmt.Errorf("unknown kind %s", it.ID().Kind)
}

func pick(verb netstate.Verb, put, remove func() error) error {
	if verb == netstate.Remove {
		return remove()
	}
	return put()
}

func (h *Host) doLink(ctx context.Context, verb netstate.Verb, l netstate.Link) error {
	if l.Type == netstate.Bridge {
		if err := h.needBridgeFilter(ctx); err != nil {
			return err
		}
	}
	switch verb {
	case netstate.Add:
		return h.kernel.AddLink(ctx, l)
	case netstate.Change:
		return h.kernel.ChangeLink(ctx, l)
	}
	return fmt.Errorf("%s link %s: nothing to do", verb, l.Name)
}

// removeLinks removes links together, so that they wait for the kernel only once.
func (h *Host) removeLinks(ctx context.Context, o netstate.Owner, items []netstate.Item) error {
	var names []string
	for _, it := range items {
		l, ok := it.Have.(netstate.Link)
		if !ok {
			return fmt.Errorf("remove %s: nothing named", it.ID())
		}
		if err := ownedByNumber(o, l); err != nil {
			return err
		}
		names = append(names, l.Name)
	}
	return h.kernel.RemoveLinks(ctx, names)
}

func (h *Host) doProcess(ctx context.Context, o netstate.Owner, verb netstate.Verb, p netstate.Process) error {
	name, ok := strings.CutPrefix(p.Name, fmt.Sprintf("ni/%d/", o.Number))
	if !ok || o.Number < 1 || name == "" || name == confName || strings.Contains(name, "/") || !filepath.IsLocal(name) {
		return fmt.Errorf("process %q: not owned by %d", p.Name, o.Number)
	}
	switch verb {
	case netstate.Reload:
		return h.help.Reload(ctx, p)
	case netstate.Remove:
		return h.help.Stop(ctx, p)
	}
	bridge, err := h.kernel.LinkIndex(bridgeName(o.Number))
	if err != nil {
		return err
	}
	err = h.help.Start(ctx, p, bridge)
	if err == nil {
		h.log.Debug("helper answers", zap.String("ni", o.Name), zap.String("op", string(verb)), zap.String("process", p.Name))
	}
	return err
}

func bridgeName(number int) string { return fmt.Sprintf("es%d", number) }
