package api

import (
	"github.com/google/uuid"

	"edgespan/actors/node/metrics"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/watched"
)

// Snapshot returns the part of a snapshot for metrics that is on topics.
func (n *Reader) Snapshot() metrics.Snapshot {
	t := n.Topics
	s := metrics.Snapshot{Ready: true, Hits: n.Hits,
		Networks: t.NetworkConfig.List(""), NetworkStatuses: t.NetworkStatus.List(""), Apps: t.AppConfig.List(""),
		Ports: t.PortConfig.List(""), PortStatuses: t.PortStatus.List(""), Choices: t.Uplinks.List(""),
		Tunnels:  t.Tunnels.List(""),
		Adapters: map[netinst.AdapterKey]netinst.AppAdapterStatus{}, Watched: map[string]watched.Counts{},
	}
	n.Watched(func(ni uuid.UUID, net *watched.Network) { s.Watched[ni.String()] = net.Counts() })
	source, _ := t.Source.Get("", "node")
	s.Generation, s.Fault = source.Generation, source.Error
	for _, e := range t.AdapterStatus.All() {
		s.Adapters[e.Value.Key()] = e.Value
	}
	for _, o := range t.ProbeOutcomes.List("") {
		s.Outcomes = append(s.Outcomes, o)
	}
	for _, trouble := range t.Trouble.List("") {
		s.Failing += len(trouble.Failing)
	}
	for _, c := range n.Checks() {
		s.Ready = s.Ready && c.OK
	}
	return s
}

// Checks returns what /readyz checks. Trouble of one network, or of the state folder, without which the node works, is
// no reason to be unready: `get ni` and `doctor` show it.
func (n *Reader) Checks() []nodeapi.Check {
	_, configured := n.Topics.Source.Get("", "node")
	checks := []nodeapi.Check{{Name: "config", OK: configured}, {Name: "host", OK: true}, {Name: "actors", OK: !n.Stuck()}}
	if !configured {
		checks[0].Detail = "no config is published yet"
	}
	if why := n.Host(); why != "" {
		checks[1].OK, checks[1].Detail = false, why
	} else if _, written := n.Topics.Trouble.Get("", netstate.HostOwner); !written {
		checks[1].OK, checks[1].Detail = false, "the host's own chains are not written yet"
	}
	if !checks[2].OK {
		checks[2].Detail = "an actor that the node can't run without does not answer"
	}
	return checks
}
