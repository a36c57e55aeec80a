package peer

import (
	"strings"

	"edgespan/config"
)

// RenameInPeer returns a PeerDescriptor under another name.
func RenameInPeer(doc config.Object, to string) config.Object {
	return config.Set(doc, []string{"metadata", "name"}, to)
}

// RenameInCluster returns a ClusterDescriptor in which a member has another name; same reports that it has no such
// member.
func RenameInCluster(doc config.Object, from, to string) (renamed config.Object, same bool) {
	member, ok := config.Lookup(doc, []string{"spec", "members", from})
	if !ok {
		return doc, true
	}
	doc = config.Set(config.Unset(doc, []string{"spec", "members", from}), []string{"spec", "members", to}, member)
	if leader, _ := config.Lookup(doc, []string{"spec", "leader"}); leader == from {
		doc = config.Set(doc, []string{"spec", "leader"}, to)
	}
	return doc, false
}

// RenameInDeployment returns a deployment's document in which a member has another name: its tunnels keep their
// numbers.
func RenameInDeployment(doc config.Object, from, to string) (renamed config.Object, same bool) {
	vnis, _ := doc["vnis"].(config.Object)
	out, same := config.Object{}, true
	for pair, n := range vnis {
		a, b, _ := strings.Cut(pair, " ")
		switch from {
		case a:
			pair, same = TunnelName(to, b), false
		case b:
			pair, same = TunnelName(a, to), false
		}
		out[pair] = n
	}
	if same {
		return doc, true
	}
	return config.Set(doc, []string{"vnis"}, out), false
}
