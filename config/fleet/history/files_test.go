package history

import (
	"errors"
	"strings"
	"testing"

	"edgespan/config"
)

func TestFilesGoInAndComeOutUnchanged(t *testing.T) {
	files := Files{
		Network:  doc(t, `{"sysParams":{"managedConfig":true},"old":{"deprecated":1,"readOnly":[]}}`),
		Nodes:    doc(t, `{"n/1":{"a":null},"":{}}`),
		Auto:     doc(t, `{"n1":{"topologyInfo":{"nodeName":"n1"}}}`),
		Topology: doc(t, strings.TrimPrefix(line, "topology=")),
		Metadata: doc(t, `{"sysParams":{"managedConfig":{"type":"BOOLEAN"}}}`),
		E2E:      map[string]config.Object{"controller": doc(t, `{"flags":{"v":"1"}}`), "aggregator": doc(t, `{}`)},
	}
	s := told(t, `ann: node/gone={}; auto/gone={}; e2e/controller%2Freplica={"own":1}`)
	s.write(t, ok(s.head(t).Import(files))(t))
	out := ok(s.head(t).Export())(t)
	for name, pair := range map[string][2]config.Object{
		"network": {files.Network, out.Network}, "nodes": {files.Nodes, out.Nodes}, "auto": {files.Auto, out.Auto},
		"topology": {files.Topology, out.Topology}, "metadata": {files.Metadata, out.Metadata},
		"controller": {files.E2E["controller"], out.E2E["controller"]},
		"aggregator": {files.E2E["aggregator"], out.E2E["aggregator"]},
	} {
		equal(t, name, short(pair[1]), short(pair[0]))
	}
	equal(t, "files of the controller", len(out.E2E), 2)
	equal(t, "a replica's own", ok(s.head(t).Layer(Layer{E2E, "controller/replica"}))(t).Revision, 1)
	again := ok(s.head(t).Plan(signed(ok(s.head(t).Import(out))(t))))(t)
	equal(t, "once more", len(again.Txns), 0)
}

func TestAFileThatThereIsNotChangesNothing(t *testing.T) {
	s := told(t, `ann: network={"a":1}; node/n1={}; topology={}`)
	s.write(t, ok(s.head(t).Import(Files{Auto: config.Object{}}))(t))
	equal(t, "state", tell(t, s.head(t)), `network={"a":1}; node/n1={}; topology={}`)
	s.write(t, ok(s.head(t).Import(Files{Nodes: config.Object{}}))(t))
	equal(t, "an empty file", tell(t, s.head(t)), `network={"a":1}; topology={}`)
}

func TestAllFaultsOfFilesAreTold(t *testing.T) {
	_, err := newStore().head(t).Import(Files{Nodes: doc(t, `{"n1":5}`), Auto: doc(t, `{"n2":[]}`),
		Topology: doc(t, `{"nodes":5}`)})
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) != 3 {
		t.Fatal(err)
	}
	equal(t, "paths", config.FormatPath(faults[0].Path)+" "+config.FormatPath(faults[1].Path)+" "+
		config.FormatPath(faults[2].Path), "auto.n2 node.n1 topology.nodes")
}
