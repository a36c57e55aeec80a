package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

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
	fw := n.Forwarding()
	p.Closed = registry.ClosedPorts(p.Networks, fw.Ports, fw.Forwarding)
	p.Host = overlap.HostPrefixes(n.Interfaces())
	for _, e := range t.PortStatus.All() {
		p.Ports = append(p.Ports, e.Value)
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

func compareUUID(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }
