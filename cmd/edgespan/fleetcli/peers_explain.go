package fleetcli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/stateloop"
	peerpkg "edgespan/config/stateloop/peer"
)

// explanation is one parameter with all that it follows from, as `peers explain -o json` has it.
type explanation struct {
	Peer string `json:"peer"`
	fleetapi.PeerParameter
	DesiredBy []string `json:"wantedBy"` // descriptors and clusters
	Needs     []needed `json:"needs"`    // what it depends on
	NeededBy  []needed `json:"neededBy"` // what depends on it
}

// needed is a parameter on the path, with what it depends on itself.
type needed struct {
	ID     string   `json:"id"`
	Target string   `json:"target"`
	State  string   `json:"state"`
	Reason string   `json:"reason,omitempty"`
	Needs  []needed `json:"needs,omitempty"` // not repeated where it is there twice
}

// noParameter is the error of an id that a peer does not have.
func noParameter(peer, id string) error {
	return term.WithClass(term.ExitNotFound,
		fmt.Errorf("parameter %s: not found on %s: 'edgespan peers status %s' lists its parameters", id, peer, peer))
}

// parameterOf is the one of an id, which may be spelled with short UUIDs.
func parameterOf(d fleetapi.PeerDetail, id string) (fleetapi.PeerParameter, error) {
	var short []fleetapi.PeerParameter
	for _, p := range peerParameters(d) {
		if p.ID == id {
			return p, nil
		}
		if shortIDs(p.ID) == shortIDs(id) {
			short = append(short, p)
		}
	}
	switch len(short) {
	case 0:
		return fleetapi.PeerParameter{}, noParameter(d.Name, id)
	case 1:
		return short[0], nil
	}
	return fleetapi.PeerParameter{},
		term.Usagef("ID: ambiguous value %s: must be %s", config.Quote(id), config.OrList(idsOf(short)))
}

func explainPeer(c *fleetCall) error {
	d, err := c.client.Peer(c.ctx, c.args[0])
	if err != nil {
		return err
	}
	clusters, err := c.clustersOf(d.Clusters)
	if err != nil {
		return err
	}
	x := explainer{d, clusters}
	if len(c.args) == 2 {
		p, err := parameterOf(d, c.args[1])
		if err != nil {
			return err
		}
		one := x.explain(p)
		return c.showExplanation(one, []explanation{one})
	}
	all := x.unfinished(func(fleetapi.PeerParameter) bool { return true })
	if err := c.showExplanation(all, all); err != nil {
		return err
	}
	c.a.Printf("%s", term.Printable(peerLine(d.Peer)))
	return nil
}

// explainCluster explains what of its members' parts of a cluster is not as it is wanted.
func explainCluster(c *fleetCall) error {
	d, err := c.client.Cluster(c.ctx, c.args[0])
	if err != nil {
		return err
	}
	all := []explanation{}
	for _, member := range d.Members {
		p, err := c.client.Peer(c.ctx, member)
		if err != nil {
			return err
		}
		x := explainer{p, []fleetapi.ClusterDetail{d}}
		all = append(all, x.unfinished(func(one fleetapi.PeerParameter) bool {
			return slices.Contains(x.desiredBy(one), "cluster "+d.Name)
		})...)
	}
	if err := c.showExplanation(all, all); err != nil {
		return err
	}
	c.a.Printf("%s", term.Printable(clusterLine(d.Cluster)))
	return nil
}

// clustersOf asks for clusters, to know what each wants.
func (c *fleetCall) clustersOf(names []string) ([]fleetapi.ClusterDetail, error) {
	var out []fleetapi.ClusterDetail
	for _, name := range names {
		d, err := c.client.Cluster(c.ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// explainer knows a peer and the clusters that count for it.
type explainer struct {
	peer     fleetapi.PeerDetail
	clusters []fleetapi.ClusterDetail
}

// unfinished explains what is not in its final state, or for review.
func (x explainer) unfinished(which func(fleetapi.PeerParameter) bool) []explanation {
	out := []explanation{}
	for _, p := range peerParameters(x.peer) {
		final := stateloop.State(p.State).Class() == stateloop.Final && !strings.HasPrefix(p.Reason, stateloop.StaleReport) ||
			p.State == string(stateloop.Ignored)
		if (!final || p.Review != string(stateloop.No)) && which(p) {
			out = append(out, x.explain(p))
		}
	}
	// What the others wait for comes first: it is what somebody may have to do something about.
	slices.SortStableFunc(out, func(a, b explanation) int { return cmp.Compare(waits(a.Needs), waits(b.Needs)) })
	return out
}

// waits is how long the longest path of what is not there yet is.
func waits(needs []needed) int {
	longest := 0
	for _, n := range needs {
		if stateloop.State(n.State).Class() != stateloop.Final {
			longest = max(longest, 1+waits(n.Needs))
		}
	}
	return longest
}

func (x explainer) explain(p fleetapi.PeerParameter) explanation {
	out := explanation{Peer: x.peer.Name, PeerParameter: p, DesiredBy: x.desiredBy(p),
		Needs: x.needs(p, map[string]bool{p.ID: true}), NeededBy: []needed{}}
	for _, other := range x.peer.Parameters {
		if slices.Contains(other.Dependencies, p.ID) {
			out.NeededBy = append(out.NeededBy,
				needed{ID: other.ID, Target: other.Target, State: other.State, Reason: other.Reason})
		}
	}
	return out
}

// needs is what a parameter depends on, all the way, each with its own path once.
func (x explainer) needs(p fleetapi.PeerParameter, reported map[string]bool) []needed {
	out := []needed{}
	for _, id := range p.Dependencies {
		at := slices.IndexFunc(x.peer.Parameters, func(other fleetapi.PeerParameter) bool { return other.ID == id })
		if at < 0 {
			out = append(out, needed{ID: id, State: "unknown"})
			continue
		}
		on := x.peer.Parameters[at]
		n := needed{ID: id, Target: on.Target, State: on.State, Reason: on.Reason}
		if !reported[id] {
			reported[id] = true
			n.Needs = x.needs(on, reported)
		}
		out = append(out, n)
	}
	return out
}

// desiredBy is who wants a parameter. Its id says that: an executor is of the descriptor, what
// carries the network of a cluster on this node is the cluster's, the rest the config's.
func (x explainer) desiredBy(p fleetapi.PeerParameter) []string {
	if p.State == string(stateloop.Ignored) || p.Target != string(stateloop.ToBePresent) {
		return []string{}
	}
	kind, rest, _ := strings.Cut(p.ID, "/")
	if kind == "executor" {
		return []string{"descriptor of " + x.peer.Name}
	}
	node, _ := uuid.Parse(x.peer.ID) // of one that has not joined there are no parameters
	out := []string{}
	for _, d := range x.clusters {
		id, err := uuid.Parse(d.ID)
		if err != nil {
			continue
		}
		network, _, _ := strings.Cut(rest, "/")
		if kind == "interface" {
			is, _ := peerpkg.ParseCluster(d.Descriptor) // with faults it has no members
			if slices.Contains(is.Members[x.peer.Name].Interfaces, rest) {
				out = append(out, "cluster "+d.Name)
			}
		} else if network == peerpkg.NetworkOf(id, node).String() {
			out = append(out, "cluster "+d.Name)
		}
	}
	if len(out) == 0 && (p.Kind == peerpkg.KindNetwork || p.Kind == peerpkg.KindAdapter || p.Kind == "") {
		return []string{"config of " + x.peer.Name}
	}
	return out
}

func (c *fleetCall) showExplanation(data any, all []explanation) error {
	s := term.Shown{Data: data}
	for _, x := range all {
		s.Names = append(s.Names, x.ID)
	}
	if c.output != "table" && c.output != "wide" {
		return c.a.Show(s, c.output)
	}
	var b strings.Builder
	for i, x := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		writeExplanation(&b, x)
	}
	_, err := io.WriteString(c.a.Out, b.String())
	return err
}

func writeExplanation(b *strings.Builder, x explanation) {
	fmt.Fprintf(b, "%s: %s: %s\n", term.Printable(x.Peer), term.Printable(shortIDs(x.ID)), term.Printable(x.State))
	desired := x.Target
	if len(x.DesiredBy) > 0 {
		desired += ", by " + strings.Join(x.DesiredBy, " and ")
	} else {
		desired = strings.TrimPrefix(desired+", by none", ", ")
	}
	reported := "nothing"
	if x.Reported != "" {
		reported = x.Reported
		if x.Since != nil {
			reported += " since " + term.Moment(x.Since)
		}
	}
	tries := ""
	if x.Attempts > 0 {
		if tries = fmt.Sprintf("%d failed", x.Attempts); x.NextTry != nil {
			tries += ", next " + term.Moment(x.NextTry)
		}
	}
	for _, f := range []fact{
		{"id", idText(x.ID)}, {"kind", x.Kind}, {"value", x.Describes}, {"wanted", desired}, {"reported", reported},
		{"reason", shortIDs(x.Reason)}, {"review", reviewText(x.Review)}, {"tries", tries},
	} {
		if f.text != "" {
			fmt.Fprintf(b, "  %-9s %s\n", f.what, term.Printable(f.text))
		}
	}
	writeNeeded(b, "  needs     ", "            ", x.Needs)
	writeNeeded(b, "  needed by ", "            ", x.NeededBy)
}

// idText is an id that stands above in short.
func idText(id string) string {
	if shortIDs(id) == id {
		return ""
	}
	return id
}

func reviewText(review string) string {
	switch stateloop.Review(review) {
	case stateloop.Yes:
		return "yes: it does not resolve itself"
	case stateloop.Maybe:
		return "maybe: check it by hand"
	case stateloop.No:
		return "no"
	}
	return review
}

// writeNeeded writes parameters below each other, what they need indented.
func writeNeeded(b *strings.Builder, first, rest string, all []needed) {
	for i, n := range all {
		lead := rest
		if i == 0 {
			lead = first
		}
		text := n.ID + ": " + n.State
		if n.Reason != "" {
			text += ": " + n.Reason
		}
		fmt.Fprintf(b, "%s%s\n", lead, term.Printable(shortIDs(text)))
		writeNeeded(b, rest+"  ", rest+"  ", n.Needs)
	}
}

// pause waits for a moment, false where ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
