// Package cores owns what recordings know of a node's cores: which kinds there are, the types of what they are told and
// decide, and which of their texts are secrets.
//
// It never steps a core of a running node: actors do, by tape.Step, and package pubsub/tape records.
package cores

import (
	"net/netip"
	"strings"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/config/layers/redact"
	"edgespan/config/stateloop/peer/task"
	"edgespan/netinst"
	"edgespan/netinst/addressing"
	"edgespan/netinst/dhcpclient"
	"edgespan/netinst/manager"
	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
	"edgespan/netinst/registry"
	"edgespan/pubsub/tape"
)

// The kinds of cores.
const (
	Network    = "network"    // manager.Manager, of each network instance
	Uplinks    = "uplinks"    // probe.Chooser, of each network instance
	App        = "app"        // appnet.Machine, of each app
	Registry   = "registry"   // registry.Registry
	Addressing = "addressing" // addressing.Machine
	DHCP       = "dhcp"       // dhcpclient.Client, of each port
	Tasks      = "tasks"      // task.Machine
	Compare    = "compare"    // Comparison, of each owner of objects on the host
)

// Comparison is the core of an applier: it compares what is on the host with what is desired.
type Comparison struct{}

// Compared is what a Comparison is told.
type Compared struct{ Have, Want netstate.State }

// Step returns the ops that lead from the one to the other, in order.
func (Comparison) Step(e Compared) []netstate.Op { return netstate.Diff(e.Have, e.Want) }

// Kinds returns the kinds of cores by name, to replay them.
func Kinds() map[string]tape.Kind {
	return map[string]tape.Kind{
		Network:    tape.KindOf[*manager.Manager, manager.Event, manager.Effect](nil),
		Uplinks:    tape.KindOf[*probe.Chooser, probe.Event, probe.Effect](nil),
		App:        tape.KindOf[*appnet.Machine, appnet.Event, appnet.Effect](nil),
		Registry:   tape.KindOf[*registry.Registry, registry.Event, registry.Effect](nil),
		Addressing: tape.KindOf[*addressing.Machine, addressing.Event, addressing.Effect](nil),
		DHCP:       tape.KindOf[*dhcpclient.Client, dhcpclient.Event, dhcpclient.Effect](nil),
		Tasks:      tape.KindOf[*task.Machine, task.Event, task.Do](func(m *task.Machine) { m.Changed() }),
		Compare:    tape.KindOf[Comparison, Compared, netstate.Op](nil),
	}
}

// Codec returns what writes and reads the values of recordings.
func Codec() *tape.Codec {
	c := tape.NewCodec(types...)
	c.IsSecret = isSecret
	var forms redact.Redactor
	c.Mask = func(text string) string {
		if strings.IndexByte(text, '\n') < 0 && !strings.ContainsAny(text, "=:") {
			return text
		}
		return string(forms.Text([]byte(text)))
	}
	c.Transient(netinst.Memo{})
	c.Shared(netstate.State{}, netinst.NetworkInstanceConfig{}, netinst.AppAdapterConfig{}, netinst.Uplinks{},
		netinst.NetworkInstanceStatus{}, netinst.AppAdapterStatus{}, []netinst.PortStatus{}, []probe.Port{},
		map[netinst.AdapterKey][]netstate.ID{}, map[netinst.AdapterKey]netinst.Lease{}, map[string]probe.Choice{},
		netstate.Executor{}, probe.Outcomes{}, netstate.Chain{}, netstate.Set{}, netstate.File{}, netstate.Process{})
	return c
}

// isSecret reports whether a field, as Type.Field, or a key in a map has the name of a secret.
func isSecret(name string) bool {
	if name == "IPsecEnd.Key" {
		return true
	}
	return redact.IsSecretName(name[strings.LastIndexByte(name, '.')+1:])
}

// types are those of the values that interfaces hold.
var types = []any{
	uuid.UUID{}, netip.Addr{}, netip.Prefix{},

	netstate.Address{}, netstate.Link{}, netstate.File{}, netstate.Route{}, netstate.Chain{}, netstate.Process{},
	netstate.Port{}, netstate.Rule{}, netstate.Set{}, netstate.Sysctl{}, netstate.VPN{},

	manager.ConfigChanged{}, manager.ConfigGone{}, manager.AdapterChanged{}, manager.AdapterGone{},
	manager.PortsChanged{}, manager.OverlapChanged{}, manager.FlowsCapped{}, manager.Synchronized{},
	manager.AdaptersKnown{}, manager.Claimed{}, manager.HostTouched{}, manager.ProcessEnded{}, manager.ApplierReady{},
	manager.OpStarted{}, manager.Applied{}, manager.TimerDue{}, manager.AddressObserved{}, manager.LeaseObserved{},
	manager.TunnelSeen{},
	manager.PublishNetwork{}, manager.WithdrawNetwork{}, manager.PublishAdapter{}, manager.WithdrawAdapter{},
	manager.JournalLeases{}, manager.AppliedMark{}, manager.Apply{}, manager.Listen{}, manager.Timer{},
	manager.ReportApply{}, manager.Done{},

	probe.Configured{}, probe.PortsSeen{}, probe.OutcomesSeen{}, probe.Drained{}, probe.TunnelSeen{}, probe.TimerDue{},
	probe.Watch{}, probe.Choose{}, probe.Journal{}, probe.Timer{},

	appnet.ConfigChanged{}, appnet.ConfigDeleted{}, appnet.NetworkOnline{}, appnet.NetworkOffline{},
	appnet.NetworkDesired{}, appnet.NetworkForgotten{}, appnet.AdapterStatusChanged{}, appnet.AdapterStatusGone{},
	appnet.Synchronized{}, appnet.ResendDue{},
	appnet.PublishAdapterConfig{}, appnet.UnpublishAdapterConfig{}, appnet.ResendAdapterConfig{},
	appnet.PublishStatus{}, appnet.WithdrawStatus{}, appnet.Record{}, appnet.ResendAfter{}, appnet.Done{},

	registry.OwnersFound{}, registry.OwnersUnread{},
	registry.NetworkDesired{}, registry.NetworkUndesired{}, registry.NetworkWithdrawn{}, registry.ConfigKnown{},
	registry.HostApplied{}, registry.HostApplierReady{}, registry.ManagerEnded{},
	registry.HostRetryDue{}, registry.HostChanged{}, registry.ForwardingChanged{},
	registry.RecordNumber{}, registry.ForgetNumber{}, registry.ApplyHost{}, registry.TouchNetworks{},
	registry.FindOwners{}, registry.SpawnManager{}, registry.HostRetry{}, registry.HostProblem{},

	addressing.Configured{}, addressing.HostChanged{}, addressing.ApplierReady{}, addressing.Applied{}, addressing.Due{},
	addressing.Apply{}, addressing.Wait{},

	dhcpclient.LinkChanged{}, dhcpclient.Received{}, dhcpclient.Checked{}, dhcpclient.Due{}, dhcpclient.Released{},
	dhcpclient.Send{}, dhcpclient.Wait{}, dhcpclient.Check{}, dhcpclient.SetLease{}, dhcpclient.Note{},

	task.Desired{}, task.Answered{}, task.Touched{}, task.Tick{},
}
