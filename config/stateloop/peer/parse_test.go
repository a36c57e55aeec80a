package peer

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"edgespan/config"
)

func document(t *testing.T, text string) config.Object {
	t.Helper()
	doc, faults := config.ReadObjectWithLists([]byte(text))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return doc
}

func TestAPeerIsReadAsItIsWritten(t *testing.T) {
	p, faults := ParsePeer(document(t, `
kind: PeerDescriptor
metadata: {name: bench-1, id: 6f1c9f0e-0000-4000-8000-000000000001}
spec:
  interfaces: {dut: {ifName: eth1, kind: ethernet}, can: {ifName: eth2}}
  executors:
    collect: {command: [/usr/bin/collect, --all], env: {LEVEL: debug}, dir: /srv, restart: never}
    agent: {unit: agent@7.service}
  underlays: {wan: {port: wan0}, fixed: {address: 192.0.2.7}}
`))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	want := Peer{
		Name: "bench-1", ID: uuid.MustParse("6f1c9f0e-0000-4000-8000-000000000001"),
		Interfaces: map[string]Interface{"dut": {"eth1", "ethernet"}, "can": {"eth2", "ethernet"}},
		Executors: map[string]Executor{
			"collect": {Command: []string{"/usr/bin/collect", "--all"}, Env: map[string]string{"LEVEL": "debug"}, Dir: "/srv",
				Restart: RestartNever},
			"agent": {Unit: "agent@7.service"},
		},
		Underlays: map[string]Underlay{"wan": {Port: "wan0"}, "fixed": {Address: netip.MustParseAddr("192.0.2.7")}},
	}
	if d := cmp.Diff(want, p, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestAllFaultsOfADescriptorAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		parse func(config.Object) config.Faults
		text  string
		want  string
	}{
		"peer": {func(o config.Object) config.Faults { _, f := ParsePeer(o); return f }, `
kind: ClusterDescriptor
metadata: {name: "a b", id: 7}
spec:
  colour: red
  interfaces: {a: {ifName: eth0}, b: {ifName: eth0}, c: {ifName: "../../etc"}, d: 7}
  executors: {x: {}, y: {unit: "a;b.service", command: [top]}, z: {unit: a.service, dir: rel}}
  underlays: {u: {}, v: {address: 224.0.0.1}}
`, `kind: invalid value "ClusterDescriptor": must be PeerDescriptor
metadata.id: invalid type int64: must be a string
metadata.name: invalid value "a b": must be up to 253 octets without spaces, ',' and '/'
spec.colour: unknown field: must be interfaces, executors or underlays
spec.executors.x: unit and command, or neither: must be either unit or command
spec.executors.y: unit and command, or neither: must be either unit or command
spec.executors.y.command: begins with "top": must be the absolute path of a program
spec.executors.y.unit: invalid value "a;b.service": must be the name of a unit, such as collector.service
spec.executors.z: env, dir or restart with a unit: only a command has them
spec.executors.z.dir: invalid value "rel": must be an absolute path
spec.interfaces.b.ifName: duplicate value "eth0", also of a: must be unique
spec.interfaces.c.ifName: invalid interface name: must be 1 to 15 letters, digits, '.', '_' and '-'
spec.interfaces.d: invalid type int64: must be a mapping
spec.underlays.u: 0 of port, address and network: must be one of port, address and network
spec.underlays.v.address: invalid value "224.0.0.1": must be a unicast address of IPv4 or IPv6`},
		"cluster": {func(o config.Object) config.Faults { _, f := ParseCluster(o); return f }, `
kind: ClusterDescriptor
metadata: {id: x}
spec: {leader: z, topology: ring, members: {a: {interfaces: "i,i"}}}
`, `metadata.id: invalid value "x": must be a UUID
metadata.name: required: must be a string
spec.leader: invalid value "z", which is not a member: must be a member
spec.members: invalid number of members 1: must be 2 to 256
spec.members.a.interfaces: duplicate interface "i": must be unique
spec.members.a.underlay: required: must be a string
spec.topology: invalid value "ring": must be star or mesh`},
		"an underlay that is not built": {func(o config.Object) config.Faults { _, f := ParsePeer(o); return f }, `
kind: PeerDescriptor
metadata: {name: a}
spec: {underlays: {u: {vpn: office}, v: {network: 0a000000-0000-4000-8000-000000000001, port: wan}, w: {type: ` +
			`gre, address: 192.0.2.1}}}
`, `spec.underlays.u: 0 of port, address and network: must be one of port, address and network
spec.underlays.u.vpn: unknown field: must be port, address or network
spec.underlays.v: 2 of port, address and network: must be one of port, address and network
spec.underlays.w.type: invalid value "gre": no type of tunnel is to be named, all are vxlan`},
		"a network that is none": {func(o config.Object) config.Faults { _, f := ParsePeer(o); return f }, `
kind: PeerDescriptor
metadata: {name: a}
spec: {underlays: {u: {network: office}}}
`, `spec.underlays.u.network: invalid value "office": must be the UUID of a network of type vpn`},
		"an encryption that is not built": {func(o config.Object) config.Faults { _, f := ParseCluster(o); return f }, `
kind: ClusterDescriptor
metadata: {name: c}
spec: {leader: a, encryption: macsec, members: {a: {underlay: u}, b: {underlay: u}}}
`, `spec.encryption: invalid value "macsec": must be none or wireguard`},
		"a tunnel that is not built": {func(o config.Object) config.Faults { _, f := ParseCluster(o); return f }, `
kind: ClusterDescriptor
metadata: {name: c}
spec: {leader: a, tunnel: {type: wireguard}, members: {a: {underlay: u, tunnelType: gre}, b: {underlay: u}}}
`, `spec.members.a.tunnelType: invalid value "gre": no type of tunnel is to be named, all are vxlan
spec.tunnel: invalid value {"type": "wireguard"}: no type of tunnel is to be named, all are vxlan`},
		"nothing": {func(o config.Object) config.Faults { _, f := ParseCluster(o); return f }, `{}`,
			`kind: required: must be a string
metadata: required: must be a mapping
spec: required: must be a mapping
spec.leader: required: must be a string
spec.members: invalid number of members 0: must be 2 to 256`},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.parse(document(t, c.text)).Error()
			if d := cmp.Diff(strings.Split(c.want, "\n"), strings.Split(got, "\n")); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"kind":"PeerDescriptor","metadata":{"name":"a"},"spec":{"interfaces":{"x":{"ifName":"eth0"}}}}`)
	f.Add(`{"kind":"ClusterDescriptor","metadata":{"name":"a"},"spec":{"leader":"x","members":{"x":{},"y":{}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		doc, faults := config.ParseObject([]byte(text))
		if len(faults) > 0 {
			return
		}
		if p, faults := ParsePeer(doc); len(faults) == 0 {
			for _, i := range p.Interfaces {
				if !isWord(i.IfName) {
					t.Errorf("link %q", i.IfName)
				}
			}
		}
		if c, faults := ParseCluster(doc); len(faults) == 0 && (len(c.Members) < 2 || c.ID == uuid.Nil) {
			t.Errorf("%+v", c)
		}
		_, _ = ParseDeployment(doc)
		_, _ = Decode([]byte(text))
	})
}
