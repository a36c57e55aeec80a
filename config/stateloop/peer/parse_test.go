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
			"collect": {Command: []string{"/usr/bin/collect", "--all"}, Env: map[string]string{"LEVEL": "debug"}, Dir: "/srv", Restart: RestartNever},
			"agent":   {Unit: "agent@7.service"},
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
`, `kind: is "ClusterDescriptor": PeerDescriptor is allowed
metadata.id: is 7: a string is allowed
metadata.name: is "a b": up to 253 octets without spaces, ',' and '/' are allowed
spec.colour: is unknown: interfaces, executors or underlays is allowed
spec.executors.x: has unit and command, or neither: either unit or command is required
spec.executors.y: has unit and command, or neither: either unit or command is required
spec.executors.y.command: begins with "top": the absolute path of a program is allowed
spec.executors.y.unit: is "a;b.service": the name of a unit is allowed, such as collector.service
spec.executors.z: has env, dir or restart beside a unit: they are of a command
spec.executors.z.dir: is "rel": an absolute path is allowed
spec.interfaces.b.ifName: is "eth0", as that of a: each link once is allowed
spec.interfaces.c.ifName: is no interface name: 1 to 15 letters, digits, '.', '_' and '-' are allowed
spec.interfaces.d: is 7: a mapping is allowed
spec.underlays.u: has port and address, or neither: either port or address is required
spec.underlays.v.address: is "224.0.0.1": a unicast address of IPv4 or IPv6 is allowed`},
		"cluster": {func(o config.Object) config.Faults { _, f := ParseCluster(o); return f }, `
kind: ClusterDescriptor
metadata: {id: x}
spec: {leader: z, topology: ring, members: {a: {interfaces: "i,i"}}}
`, `metadata.id: is "x": a UUID is allowed
metadata.name: is missing: a string is required
spec.leader: is "z", which is no member: a member is allowed
spec.members: has 1 members: 2 to 256 are allowed
spec.members.a.interfaces: has "i" twice: each interface once is allowed
spec.members.a.underlay: is missing: a string is required
spec.topology: is "ring": star and mesh are allowed`},
		"an underlay that is not built": {func(o config.Object) config.Faults { _, f := ParsePeer(o); return f }, `
kind: PeerDescriptor
metadata: {name: a}
spec: {underlays: {u: {vpn: office}, v: {network: 0a000000-0000-4000-8000-000000000001, port: wan}, w: {type: gre, address: 192.0.2.1}}}
`, `spec.underlays.u.vpn: names a network, and none can be an underlay: port or address is allowed, also the address of a VPN that the host itself has
spec.underlays.v.network: names a network, and none can be an underlay: port or address is allowed, also the address of a VPN that the host itself has
spec.underlays.w.type: is "gre": no type of tunnel is to be named, all are vxlan`},
		"a tunnel that is not built": {func(o config.Object) config.Faults { _, f := ParseCluster(o); return f }, `
kind: ClusterDescriptor
metadata: {name: c}
spec: {leader: a, tunnel: {type: wireguard}, members: {a: {underlay: u, tunnelType: gre}, b: {underlay: u}}}
`, `spec.members.a.tunnelType: is "gre": no type of tunnel is to be named, all are vxlan
spec.tunnel: is {"type": "wireguard"}: no type of tunnel is to be named, all are vxlan`},
		"nothing": {func(o config.Object) config.Faults { _, f := ParseCluster(o); return f }, `{}`, `kind: is missing: a string is required
metadata: is missing: a mapping is required
spec: is missing: a mapping is required
spec.leader: is missing: a string is required
spec.members: has 0 members: 2 to 256 are allowed`},
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
				if !word(i.IfName) {
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
