package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/nodeconf"
	"edgespan/netinst"
	"edgespan/netinst/doctor"
	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
	"edgespan/netinst/registry"
)

// FactsReader reads what can go wrong with the machine: platform/facts. It returns by its context's deadline.
type FactsReader interface {
	Read(ctx context.Context) (netstate.Facts, error)
}

// examineTimeout limits the time to read the machine.
const examineTimeout = 30 * time.Second

// Doctor lists the problems of the node, as seen from its own network namespace and with its own rights.
func (n *Reader) Doctor(ctx context.Context) ([]nodeapi.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	f, err := n.Facts.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the machine: %w", err)
	}
	node, err := n.doctorView()
	if err != nil {
		f.Unknown = append(f.Unknown, "config file: "+err.Error())
	}
	var out []nodeapi.Finding
	for _, x := range doctor.Examine(f, node) {
		out = append(out, nodeapi.Finding(x))
	}
	return out, nil
}

// doctorView returns the node as the doctor examines it.
func (n *Reader) doctorView() (doctor.Node, error) {
	t := n.Topics
	s, _ := t.Source.Get("", "node")
	h, _ := t.Storage.Get("", "node")
	p := doctor.Node{Source: s.Source, Refused: s.Error, State: doctor.State{
		Fault: h.Fault, Unsaved: h.Unsaved, Tight: h.Tight, Found: h.Notes, Base: s.Keep, Warning: n.Warning,
	}}
	p.Networks = slices.SortedFunc(maps.Values(t.NetworkConfig.List("")),
		func(a, b netinst.NetworkInstanceConfig) int { return compareUUID(a.UUID, b.UUID) })
	for _, c := range p.Networks {
		if s, _ := t.NetworkStatus.Get("", c.UUID.String()); strings.Contains(s.Error, netstate.ErrNoVLANFilter.Error()) {
			p.Unfiltered = append(p.Unfiltered, c)
		}
	}
	p.Tunnels = n.doctorTunnels(p.Networks)
	p.Rules = activeRules(t.AppConfig.List(""))
	fw := n.Forwarding()
	p.Closed = registry.ClosedPorts(p.Networks, fw.Ports, fw.Forwarding)
	p.Host = overlap.HostPrefixes(n.Interfaces())
	for _, e := range t.PortStatus.All() {
		p.Ports = append(p.Ports, e.Value)
		if fault := n.portFault(e.Key); fault != "" {
			p.PortFaults = append(p.PortFaults, doctor.PortFault{Label: e.Key, Text: fault})
		}
	}
	for _, e := range t.Drains.All() {
		if e.Value.Until.IsZero() {
			p.Drained = append(p.Drained, e.Key)
		}
	}
	data, name, err := n.File()
	p.File = name
	switch {
	case name == "" || errors.Is(err, fs.ErrNotExist):
		return p, nil // a node that is configured by apply only
	case err != nil:
		return p, err
	}
	_, cfg, err := nodeconf.Read(data)
	p.Differs = err != nil || cfg.MD5 != s.MD5
	return p, nil
}

// activeRules are the access rules of all apps that the config activates, in order.
func activeRules(apps map[string]appnet.AppNetworkConfig) (out []doctor.AdapterRule) {
	for _, id := range slices.Sorted(maps.Keys(apps)) {
		for _, index := range slices.Sorted(maps.Keys(apps[id].Adapters)) {
			a := apps[id].Adapters[index]
			for _, r := range a.ACL {
				if apps[id].Activate {
					path := fmt.Sprintf("appNetworks.%s.adapters.%d.acl.%s", id, index, r.Name)
					out = append(out, doctor.AdapterRule{Path: path, Network: a.NetworkInstance, ACLRule: r})
				}
			}
		}
	}
	return out
}

func compareUUID(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }
