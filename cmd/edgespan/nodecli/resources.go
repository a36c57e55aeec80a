package nodecli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

// cell is a resource's value in one column.
type cell struct {
	head, text string
	wide       bool // only with -o wide
}

// cellsOf returns the function that makes the cells of a resource of a kind, in order.
func cellsOf(kind string) func(nodeapi.Resource) []cell {
	switch kind {
	case "ni":
		return networkCells
	case "app":
		return appCells
	case "adapter":
		return adapterCells
	case "port":
		return portCells
	case "tunnel":
		return tunnelCells
	case "lease":
		return leaseCells
	case "dns":
		return answerCells
	case "param":
		return paramCells
	case "config":
		return configCells
	case "pending":
		return pendingCells
	default:
		return actorCells
	}
}

func resourceTable(kind string, items []nodeapi.Resource, wide bool) *term.Table {
	t := &term.Table{Wide: wide}
	cells := cellsOf(kind)
	for _, c := range cells(nodeapi.Resource{}) {
		if wide || !c.wide {
			t.Head = append(t.Head, c.head)
		}
	}
	if kind == "dns" {
		items = eachAnswer(items)
	}
	for _, it := range items {
		var row []string
		for _, c := range cells(it) {
			if wide || !c.wide {
				row = append(row, c.text)
			}
		}
		t.Add(row...)
	}
	return t
}

// common are the fields that several kinds have.
type common struct {
	DisplayName string `json:"displayName"`
	Error       string `json:"error"`
}

func displayName(r nodeapi.Resource) string {
	return cmp.Or(nodeapi.As(r.Status, common{}).DisplayName, nodeapi.As(r.Spec, common{}).DisplayName)
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

// known formats an address or a subnet, or returns "" if it is invalid.
func known[T interface {
	IsValid() bool
	String() string
}](a T) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func networkCells(r nodeapi.Resource) []cell {
	s := nodeapi.As(r.Status, nodeapi.NetworkStatus{})
	// A switch has neither.
	c := nodeapi.As(r.Spec, nodeapi.NetworkSpec{IPv4: &nodeapi.IPv4Spec{}, DNS: &nodeapi.DNSSpec{}})
	fault := s.Error
	if fault == "" && s.Warning != "" {
		fault = "warning: " + s.Warning // a network with a warning is Present
	}
	return []cell{
		{head: "NAME", text: cmp.Or(s.DisplayName, c.DisplayName)},
		{head: "ID", text: r.ID},
		{head: "STATE", text: s.State},
		{head: "BRIDGE", text: s.Bridge},
		{head: "SUBNET", text: known(c.IPv4.Subnet)},
		{head: "PORT", text: cmp.Or(s.Port, c.Port)},
		{head: "GEN", text: number(s.Generation)},
		{head: "GATEWAY", text: known(c.IPv4.Gateway), wide: true},
		{head: "DOMAIN", text: c.DNS.Domain, wide: true},
		{head: "ERROR", text: fault},
	}
}

// unknownApp is the status of an app that has none yet: it waits for its networks.
var unknownApp = nodeapi.AppStatus{Pending: true}

func appCells(r nodeapi.Resource) []cell {
	s := nodeapi.As(r.Status, unknownApp)
	active, ips := 0, []string{}
	for _, a := range s.Adapters {
		if a.Activated {
			active++
		}
		if a.IP != "" {
			ips = append(ips, a.IP)
		}
	}
	return []cell{
		{head: "NAME", text: displayName(r)},
		{head: "ID", text: r.ID},
		{head: "STATE", text: appState(s)},
		{head: "VERSION", text: number(s.TargetVersion)},
		{head: "ADAPTERS", text: fmt.Sprintf("%d/%d", active, len(s.Adapters))},
		{head: "IPS", text: strings.Join(ips, ","), wide: true},
		{head: "ERROR", text: s.Error},
	}
}

func appState(s nodeapi.AppStatus) string {
	switch {
	case s.Pending:
		return "pending"
	case s.Activated:
		return "ready"
	}
	return "inactive"
}

func adapterCells(r nodeapi.Resource) []cell {
	s := nodeapi.As(r.Status, nodeapi.AdapterStatus{})
	app, index, _ := strings.Cut(r.ID, "/")
	return []cell{
		{head: "APP", text: app},
		{head: "INDEX", text: index},
		{head: "NETWORK", text: s.NetworkInstance},
		{head: "IP", text: s.IP},
		{head: "MAC", text: s.MAC},
		{head: "IFNAME", text: s.IfName},
		{head: "HOSTIF", text: s.HostIfName},
		{head: "STATE", text: adapterState(s)},
		{head: "VERSION", text: number(s.TargetVersion), wide: true},
		{head: "LEASE", text: s.Lease, wide: true},
		{head: "ERROR", text: s.Error},
	}
}

func adapterState(s nodeapi.AdapterStatus) string {
	switch {
	case s.Error != "" && s.State == "WaitingForDependencies":
		return "waiting"
	case s.Error != "":
		return "failed"
	case s.Activated:
		return "active"
	}
	return "inactive"
}

func portCells(r nodeapi.Resource) []cell {
	c := nodeapi.As(r.Spec, nodeapi.PortSpec{})
	s := nodeapi.As(r.Status, nodeapi.PortStatus{Exists: true}) // not missing before the daemon has looked
	state := "down"
	switch {
	case !s.Exists:
		state = "missing"
	case s.Up:
		state = "up"
	}
	return []cell{
		{head: "LABEL", text: r.ID},
		{head: "IFNAME", text: c.IfName},
		{head: "STATE", text: state},
		{head: "UPLINK", text: strconv.FormatBool(c.Uplink)},
		{head: "COST", text: strconv.Itoa(c.Cost), wide: true},
		{head: "MTU", text: strconv.Itoa(s.MTU), wide: true},
		{head: "ADDRESSES", text: strings.Join(s.Addresses, ",")},
		{head: "DEFAULT ROUTE", text: s.DefaultRoute},
		{head: "DNS", text: s.DNSServers},
		{head: "GATEWAYS", text: s.Gateways, wide: true},
		{head: "DNS SOURCE", text: s.DNSSource, wide: true},
		{head: "DNS SKIPPED", text: s.DNSSkipped, wide: true},
		{head: "PROBE", text: probeWord(s), wide: true},
		{head: "LOSS", text: lossOf(s), wide: true},
		{head: "LATENCY", text: latencyOf(s), wide: true},
		{head: "CHANGED", text: changedAgo(s, time.Now()), wide: true},
		{head: "USED BY", text: joined(s.UsedBy), wide: true},
		{head: "ERROR", text: s.Error},
	}
}

// probeWord is how networks judge a port. A port that does not work or that no network may use is no drained one to
// them, but it is to the operator who drained it.
func probeWord(s nodeapi.PortStatus) string {
	const drained = "drained"
	switch {
	case !s.Drained || strings.Contains(s.Probe, drained):
		return s.Probe
	case s.Probe == "":
		return drained
	}
	return s.Probe + ", " + drained
}

// lossOf formats the loss of a port, "" if nothing was measured.
func lossOf(s nodeapi.PortStatus) string {
	if s.Loss == 0 && s.LatencyMs == 0 {
		return ""
	}
	return strconv.Itoa(s.Loss) + "%"
}

func latencyOf(s nodeapi.PortStatus) string {
	if s.LatencyMs == 0 {
		return ""
	}
	return latency(s.LatencyMs)
}

// changedAgo formats how long ago the judgement of a port changed.
func changedAgo(s nodeapi.PortStatus, now time.Time) string {
	if s.Changed.IsZero() {
		return ""
	}
	return span(s.Changed, now) + " ago"
}

func joined[T fmt.Stringer](xs []T) string {
	out := make([]string, len(xs))
	for i, x := range xs {
		out[i] = x.String()
	}
	return strings.Join(out, ",")
}

func paramCells(r nodeapi.Resource) []cell {
	s := nodeapi.As(r.Status, nodeapi.ParamStatus{})
	return []cell{
		{head: "ID", text: r.ID},
		{head: "TARGET", text: cmp.Or(nodeapi.As(r.Spec, nodeapi.ParamSpec{}).Target, s.Target)},
		{head: "STATE", text: s.State},
		{head: "ERROR", text: s.Error},
	}
}

func configCells(r nodeapi.Resource) []cell {
	s := nodeapi.As(r.Status, nodeapi.SourceStatus{})
	return []cell{
		{head: "SOURCE", text: s.Source},
		{head: "GEN", text: number(s.Generation)},
		{head: "MD5", text: s.MD5},
		{head: "JOURNAL", text: s.Journal},
		{head: "FILE DIGEST", text: s.FileDigest, wide: true},
		{head: "ERROR", text: s.Error},
	}
}

func pendingCells(r nodeapi.Resource) []cell {
	s := nodeapi.As(r.Status, nodeapi.Pending{})
	return []cell{
		{head: "PENDING", text: strconv.FormatBool(s.Pending)},
		{head: "GENERATION", text: s.Generation},
		{head: "SOURCE", text: s.Source},
		{head: "REMAINING", text: s.Remaining},
		{head: "SETTLED", text: strconv.FormatBool(s.Settled)},
		{head: "MANAGED", text: strconv.FormatBool(s.Managed)},
		{head: "CURRENT", text: s.InForce, wide: true},
		{head: "CONTROLLER", text: s.Controller, wide: true},
		{head: "CONNECTED", text: strconv.FormatBool(s.Linked), wide: true},
		{head: "LOCAL HOLD", text: s.Held},
		{head: "UNDONE", text: s.Undone},
	}
}

func actorCells(r nodeapi.Resource) []cell {
	s := nodeapi.As(r.Status, nodeapi.ActorStatus{})
	return []cell{
		{head: "ID", text: r.ID},
		{head: "STATE", text: s.State},
		{head: "RESTARTS", text: strconv.Itoa(s.Crashes)},
		{head: "WAITING", text: strconv.Itoa(s.Waiting), wide: true},
		{head: "NOW", text: s.Now, wide: true},
		{head: "ERROR", text: s.Last},
	}
}
