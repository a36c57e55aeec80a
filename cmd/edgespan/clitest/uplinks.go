package clitest

import (
	"time"

	"edgespan/config/httpapi/nodeapi"
)

// FarSideDead returns a daemon whose port wan has had a dead far side for two hours, so that its network uses lte.
func FarSideDead() *Daemon {
	f := Filled()
	f.Held, f.Until = true, time.Date(2026, 11, 23, 19, 0, 0, 0, time.UTC)
	failed := time.Now().Add(-123 * time.Minute)
	f.Flow = func(nodeapi.FlowQuery) (nodeapi.FlowVerdict, error) { return webToFarSide(), nil }
	f.Explains = func(kind, id string) (nodeapi.Explanation, error) {
		const why = "dns 198.51.100.53: no answer"
		return nodeapi.Explanation{Object: kind + "/" + id, Name: "uplink0", Ready: true,
			Summary: "ready: up with 192.0.2.2/24 via 192.0.2.1, used by 0 of 1 networks that may use it",
			Port: &nodeapi.PortDetail{IfName: "uplink0",
				Probes: []nodeapi.ProbeState{
					{Method: "arp", IntervalMs: 1000, Target: "192.0.2.1", State: nodeapi.ProbeAnswers, LatencyMs: 0.3},
					{Method: "dns", IntervalMs: 1000, Target: "198.51.100.53", State: nodeapi.ProbeFails, Failures: 12, Loss: 38,
						LastError: "no answer", FailedAt: failed}},
				Networks: []nodeapi.PortUse{{NetworkName: nodeapi.NetworkName{ID: NiID, Name: "shop"}, Selector: "uplink",
					Since: failed, Instead: "lte", Failed: 2, FailedAt: failed, Score: nodeapi.PortScore{Port: "wan",
						Class: "no target answers", Since: failed, Loss: 38, Why: why}}}}}, nil
	}
	return f
}

// webToFarSide is the answer about a request of an app to a web server.
func webToFarSide() nodeapi.FlowVerdict {
	const adapter = "20000000-0000-4000-8000-000000000001/0"
	return nodeapi.FlowVerdict{Adapter: adapter, Name: "web", Packets: []nodeapi.PacketVerdict{{
		From: "10.1.0.128", To: "198.51.100.80", Protocol: "tcp", Port: 80, Verdict: "translate",
		Checks:  []nodeapi.FlowCheck{{Adapter: adapter, Name: "web", Direction: "egress", Rule: "https", Allows: true}},
		Route:   &nodeapi.PacketRoute{Destination: "0.0.0.0/0", Gateway: "192.0.2.1", Port: "wan"},
		Arrives: "outside", Source: "192.0.2.2", NATPort: "wan"}}}
}
