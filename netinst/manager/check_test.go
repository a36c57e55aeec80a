package manager

import (
	"testing"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// A failure is reported in the seed's words: an op that failed, or a check that failed, of what should exist or of what
// should be gone. A network, its parts and its adapters use the same words.
func TestTheWordsOfFailedChecks(t *testing.T) {
	link := func(name string, f netstate.OpFailure) netstate.OpFailure {
		f.ID, f.Err = netstate.ID{Kind: netstate.KindLink, Name: name}, "x"
		return f
	}
	seen, failed, left := netstate.OpFailure{Observe: true}, netstate.OpFailure{}, netstate.OpFailure{Remove: true}
	stays := netstate.OpFailure{Observe: true, Remove: true}
	begin := func(c netinst.NetworkInstanceConfig, end Applied) *Manager {
		m := New(netstate.Owner{Name: c.UUID.String(), Number: 3}, "/run/edgespan", 7, nil)
		for _, e := range []Event{ApplierReady{}, PortsChanged{Ports: testPort()}, ConfigChanged{Config: c},
			AdapterChanged{testAdapter(appW, 1, true)}, AdaptersKnown{}, Synchronized{}} {
			m.Step(e)
		}
		end.Seq = m.flight.seq
		m.Step(end)
		return m
	}
	end := func(m *Manager, e Event, end Applied) *Manager {
		m.Step(e)
		end.Seq = m.flight.seq
		m.Step(end)
		return m
	}
	unread := Applied{Err: "dump interrupted"}
	fails := func(fs ...netstate.OpFailure) Applied { return Applied{Failures: fs} }
	network := func(m *Manager) netinst.NIState { return m.status.State }
	tunnel := func(m *Manager) netinst.NIState { return m.parts[0].State }
	adapter := func(m *Manager) netinst.NIState {
		s := m.adapters[netinst.AdapterKey{AppUUID: appW, Index: 0}].published
		switch {
		case s == nil || s.Error == "":
			return netinst.Present
		case s.CheckFailed:
			return netinst.CheckPresentFailed
		}
		return netinst.CreatingFailed
	}
	for name, c := range map[string]struct {
		is   func(*Manager) netinst.NIState
		m    *Manager
		want netinst.NIState
	}{
		"a new network that can't be read": {network, begin(testNetwork(1), unread), netinst.CheckPresentFailed},
		"a new network whose bridge failed": {network, begin(testNetwork(1), fails(link("es3", failed))),
			netinst.CreatingFailed},
		"a new network found otherwise": {network, begin(testNetwork(1), fails(link("es3", seen))),
			netinst.CheckPresentFailed},
		"one that goes and can't be read": {network, end(begin(testNetwork(1), fails()), ConfigGone{}, unread),
			netinst.CheckAbsentFailed},
		"one that goes and whose bridge stays": {network,
			end(begin(testNetwork(1), fails()), ConfigGone{}, fails(link("es3", left))), netinst.RemovingFailed},
		"one that went and is found again": {network,
			end(begin(testNetwork(1), fails()), ConfigGone{}, fails(link("es3", stays))), netinst.CheckAbsentFailed},
		"a tunnel that can't be read": {tunnel, begin(clusterConfig(1), unread), netinst.CheckPresentFailed},
		"a tunnel that failed": {tunnel, begin(clusterConfig(1), fails(link("es3v256", failed))),
			netinst.CreatingFailed},
		"a tunnel that goes and can't be read": {tunnel, end(begin(clusterConfig(1), fails()), ConfigGone{}, unread),
			netinst.CheckAbsentFailed},
		"a tunnel that does not go": {tunnel,
			end(begin(clusterConfig(1), fails()), ConfigGone{}, fails(link("es3v256", left))), netinst.RemovingFailed},
		"a tunnel that went and is found again": {tunnel,
			end(begin(clusterConfig(1), fails()), ConfigGone{}, fails(link("es3v256", stays))), netinst.CheckAbsentFailed},
		"an adapter that failed": {adapter, begin(testNetwork(1), fails(link("es3a1", failed))),
			netinst.CreatingFailed},
		"an adapter found otherwise": {adapter, begin(testNetwork(1), fails(link("es3a1", seen))),
			netinst.CheckPresentFailed},
		"an adapter that stands": {adapter, begin(testNetwork(1), fails()), netinst.Present},
	} {
		if got := c.is(c.m); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
