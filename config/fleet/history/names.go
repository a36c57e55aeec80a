package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/topology"
	"edgespan/config/kv"
	"edgespan/config/stateloop/peer"
)

// Token is an open join token. It is bound to one name, that of its key, and follows the name when a node is renamed.
type Token struct {
	Name    string    `json:"name"`
	Hash    string    `json:"hash"` // of the token, in hex: the token itself is not stored
	Author  string    `json:"author"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// JoinedNode is the stored record of a joined node. Its other fields belong to other packages and are kept.
type JoinedNode struct {
	ID     string    `json:"id"`
	Name   string    `json:"name"`
	Joined time.Time `json:"joined"`
}

// Rename returns the change that renames a node everywhere at once: in the topology with its links, in its layers, in
// the clusters that it is a member of, in the record of the joined node and in its open join token. It returns
// config.Faults for an unknown name, and for a new name that is in use.
func (s State) Rename(from, to string) (Change, error) {
	if to == "" || from == to {
		return Change{}, config.Faults{{Path: []string{"name"}, Problem: config.Invalid(to),
			Expectation: "must be another name"}}
	}
	return s.rename(from, to)
}

// rename is Rename, but also allows a node that came from a file without a name to get the empty name back.
func (s State) rename(from, to string) (Change, error) {
	if err := NameKey(to).Check(); err != nil {
		return Change{}, fmt.Errorf("rename: %w", err)
	}
	topologyLayer := Layer{Kind: Topology}
	versions, err := s.Layers(topologyLayer, Layer{Node, from}, Layer{Auto, from}, Layer{Peer, from}, Layer{Node, to},
		Layer{Auto, to}, Layer{Peer, to})
	if err != nil {
		return Change{}, err
	}
	c := Change{
		Message: "rename " + config.Quote(from) + " to " + config.Quote(to),
		Layers:  map[Layer]config.Object{}, Renamed: []Rename{{from, to}},
	}
	moved, known, err := s.moveNames(map[string]string{from: to})
	if err != nil {
		return Change{}, err
	}
	c.names = moved
	var faults config.Faults
	for i := 1; i <= 3; i++ {
		old, place := versions[i], versions[i+3]
		if place.Document != nil {
			faults.Add([]string{place.Layer.String()}, "exists already", "must be a name without overrides")
		}
		if old.Document == nil {
			continue
		}
		known = true
		c.Layers[old.Layer], c.Layers[place.Layer] = nil, old.Document
		if old.Layer.Kind == Peer {
			if !peer.IsName(to) {
				faults.Add([]string{"name"}, config.Invalid(to)+", of a peer", peer.NameAllowed)
			}
			c.Layers[place.Layer] = peer.RenameInPeer(old.Document, to)
		}
	}
	if err := s.renameInClusters(c, from, to); err != nil {
		return Change{}, err
	}
	if doc := versions[0].Document; doc != nil {
		renamed, there, wrong := renameInTopology(doc, from, to)
		known = known || there
		if faults = append(faults, wrong...); there {
			c.Layers[topologyLayer] = renamed
		}
	}
	if !known {
		faults.Add([]string{"name"}, "has no "+config.Quote(from), "must be a known node")
	}
	if len(faults) > 0 {
		return Change{}, faults
	}
	return c, nil
}

// renameInClusters renames a member and its tunnels.
func (s State) renameInClusters(c Change, from, to string) error {
	for kind, renamed := range map[Kind]func(doc config.Object, from, to string) (config.Object, bool){
		Cluster: peer.RenameInCluster, Deployment: peer.RenameInDeployment,
	} {
		all, err := s.LayersOfKind(kind)
		if err != nil {
			return err
		}
		for _, v := range all {
			if doc, same := renamed(v.Document, from, to); !same {
				c.Layers[v.Layer] = doc
			}
		}
	}
	return nil
}

func renameInTopology(doc config.Object, from, to string) (renamed config.Object, there bool, faults config.Faults) {
	t, faults := topology.FromDocument(doc)
	if len(faults) > 0 {
		return nil, true, faults
	}
	node, there := t.Node(from)
	if !there {
		if _, taken := t.Node(to); taken {
			faults.Add([]string{"topology", "nodes"}, "has "+config.Quote(to)+" already", "must be a name that no node has")
		}
		return nil, false, faults
	}
	node.Name = to
	next, faults := topology.State{Topology: t}.EditNode(from, node)
	if len(faults) > 0 {
		return nil, true, faults
	}
	return next.Topology.Document(), true, nil
}

// moveNames returns the part of a transaction that renames joined nodes and open join tokens, all of them at once: two
// nodes may swap names. known reports whether there was anything to rename. The transaction compares all that was read,
// so that a node that joins meanwhile is not missed.
func (s State) moveNames(to map[string]string) (txn kv.Txn, known bool, err error) {
	touched := maps.Clone(to)
	for _, name := range to {
		if _, moves := touched[name]; !moves {
			touched[name] = name
		}
	}
	m := mover{state: s, puts: map[kv.Key][]byte{}, gone: map[kv.Key]bool{}}
	for _, from := range sortedKeys(touched) {
		if err := m.move(from, touched[from]); err != nil {
			return kv.Txn{}, false, err
		}
	}
	if len(m.faults) > 0 {
		return kv.Txn{}, false, m.faults
	}
	txn.Compares = m.compares
	for _, k := range sortedKeys(m.gone) {
		if _, again := m.puts[k]; !again {
			txn.Then = append(txn.Then, kv.Delete(k))
		}
	}
	for _, k := range sortedKeys(m.puts) {
		txn.Then = append(txn.Then, kv.Put(k, m.puts[k]))
	}
	return txn, len(m.gone) > 0, nil
}

// mover collects the moves.
type mover struct {
	state    State
	compares []kv.Compare
	puts     map[kv.Key][]byte
	gone     map[kv.Key]bool // where something moved away
	faults   config.Faults
}

// move renames the node and the token of a name. The new name must be free.
func (m *mover) move(from, to string) error {
	entries, err := m.state.reader.Get(NameKey(from), TokenKey(from))
	if err != nil {
		return fmt.Errorf("read the names of nodes: %w", err)
	}
	for i, place := range []kv.Key{NameKey(to), TokenKey(to)} {
		e := entries[i]
		m.compares = append(m.compares, kv.AtRevision(e.Key, e.ModRevision))
		if !e.Exists() {
			continue
		}
		if from == to {
			m.faults.Add([]string{string(place)}, "exists already", "must be a name that no node and no join token has")
			continue
		}
		m.gone[e.Key] = true
		if place == NameKey(to) {
			m.puts[place] = e.Value
			err = m.rename(NodeKey(string(e.Value)), to)
		} else {
			m.puts[place], err = withName(e, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rename renames the node of a key.
func (m *mover) rename(node kv.Key, to string) error {
	entries, err := m.state.reader.Get(node)
	if err != nil {
		return fmt.Errorf("read %s: %w", node, err)
	}
	if !entries[0].Exists() {
		return fmt.Errorf("read %s: not found, though a name leads to it", node)
	}
	m.compares = append(m.compares, kv.AtRevision(node, entries[0].ModRevision))
	m.puts[node], err = withName(entries[0], to)
	return err
}

// withName returns a value with another name and all else unchanged.
func withName(e kv.Entry, name string) ([]byte, error) {
	var fields map[string]json.RawMessage
	err := json.Unmarshal(e.Value, &fields)
	if err == nil && fields == nil {
		err = errors.New("is not an object")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", e.Key, err)
	}
	if fields["name"], err = json.Marshal(name); err != nil {
		return nil, fmt.Errorf("write %s: %w", e.Key, err)
	}
	return json.Marshal(fields)
}
