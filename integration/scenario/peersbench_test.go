package scenario

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkDeployACluster deploys a cluster of three peers, with a tunnel from each to the leader and a real
// controller, and measures from the start of the command until each device has pinged each other one. Each run starts
// on hosts without the cluster.
func BenchmarkDeployACluster(b *testing.B) {
	f := newField(b, 3)
	f.apply(f.describePeers() + "---\n" + f.describeCluster(f.peers[0], "star"))
	var command, crossed, reported []time.Duration
	for b.Loop() {
		began := time.Now()
		pings := f.pingAll()
		f.ok("clusters", "deploy", "yard")
		command = append(command, time.Since(began))
		f.w.eventually("a ping between all", func() bool {
			for _, l := range pings {
				if l.Count().Good == 0 {
					return false
				}
			}
			return true
		})
		crossed = append(crossed, time.Since(began))
		f.untilReady()
		reported = append(reported, time.Since(began))
		for _, l := range pings {
			l.Stop()
		}
		f.ok("clusters", "undeploy", "yard")
		f.w.eventually("the end of the cluster", func() bool { return f.cluster().State == "undeployed" })
	}
	b.ReportMetric(0, "ns/op") // everything else that the benchmark does
	for _, x := range []struct {
		what string
		took []time.Duration
	}{{"command", command}, {"ping", crossed}, {"ready", reported}} {
		slices.Sort(x.took)
		b.ReportMetric(x.took[len(x.took)/2].Seconds()*1000, x.what+"-ms")
		b.ReportMetric(x.took[len(x.took)-1].Seconds()*1000, x.what+"-ms-most")
	}
}
