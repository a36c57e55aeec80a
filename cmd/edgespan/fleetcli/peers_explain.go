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

// explanation is one parameter with everything that it depends on, as `peers explain -o json` prints it.
type explanation struct {
	Peer string `json:"peer"`
	fleetapi.PeerParameter
	DesiredBy []string `json:"wantedBy"` // descriptors and clusters
	Needs     []needed `json:"needs"`    // its dependencies
	NeededBy  []needed `json:"neededBy"` // the parameters that depend on it
}

// needed is a parameter on the path of dependencies, with its own dependencies.
type needed struct {
	ID     string   `json:"id"`
	Target string   `json:"target"`
	State  string   `json:"state"`
	Reason string   `json:"reason,omitempty"`
	Needs  []needed `json:"needs,omitempty"` // given once if the parameter occurs twice
}

// noParameter returns the error for an ID that the peer does not have.
func noParameter(peer, id string) error {
	return term.WithClass(term.ExitNotFound,
		fmt.Errorf("parameter %s: not found on %s: 'edgespan peers status %s' lists its parameters", id, peer, peer))
}

// parameterOf returns the parameter with an ID, which may contain short UUIDs.
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

// explainCluster explains which parts of the cluster's members are not in their desired state.
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

// clustersOf reads clusters, to find out what each desires.
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

// explainer has a peer and the clusters that it is a member of.
type explainer struct {
	peer     fleetapi.PeerDetail
	clusters []fleetapi.ClusterDetail
}

// unfinished explains the parameters that are not in their final state or need a review.
func (x explainer) unfinished(which func(fleetapi.PeerParameter) bool) []explanation {
	out := []explanation{}
	for _, p := range peerParameters(x.peer) {
		final := stateloop.State(p.State).Class() == stateloop.Final && !strings.HasPrefix(p.Reason, stateloop.StaleReport) ||
			p.State == string(stateloop.Ignored)
		if (!final || p.Review != string(stateloop.ReviewNo)) && which(p) {
			out = append(out, x.explain(p))
		}
	}
	// The parameters that others wait for come first: they are the cause.
	slices.SortStableFunc(out, func(a, b explanation) int { return cmp.Compare(waits(a.Needs), waits(b.Needs)) })
	return out
}

// waits returns the length of the longest path of dependencies that are not in their final state.
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

// needs returns the dependencies of a parameter, recursively; each parameter's own dependencies appear once.
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

// desiredBy returns who desires a parameter, which follows from its ID: the descriptor desires executors, a cluster
// its network on this node, and the config everything else.
func (x explainer) desiredBy(p fleetapi.PeerParameter) []string {
	if p.State == string(stateloop.Ignored) || p.Target != string(stateloop.ToBePresent) {
		return []string{}
	}
	kind, rest, _ := strings.Cut(p.ID, "/")
	if kind == "executor" {
		return []string{"descriptor of " + x.peer.Name}
	}
	node, _ := uuid.Parse(x.peer.ID) // a peer that has not joined has no parameters
	out := []string{}
	for _, d := range x.clusters {
		id, err := uuid.Parse(d.ID)
		if err != nil {
			continue
		}
		network, _, _ := strings.Cut(rest, "/")
		if kind == "interface" {
			cluster, _ := peerpkg.ParseCluster(d.Descriptor) // a broken one has no members
			if slices.Contains(cluster.Members[x.peer.Name].Interfaces, rest) {
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
			reported += " since " + term.FormatTime(x.Since)
		}
	}
	tries := ""
	if x.Attempts > 0 {
		if tries = fmt.Sprintf("%d failed", x.Attempts); x.NextTry != nil {
			tries += ", next " + term.FormatTime(x.NextTry)
		}
	}
	for _, f := range []fact{
		{"id", idText(x.ID)}, {"kind", x.Kind}, {"value", x.Describes}, {"desired", desired}, {"reported", reported},
		{"reason", shortIDs(x.Reason)}, {"review", reviewText(x.Review)}, {"tries", tries},
	} {
		if f.text != "" {
			fmt.Fprintf(b, "  %-9s %s\n", f.what, term.Printable(f.text))
		}
	}
	writeNeeded(b, "  needs     ", "            ", x.Needs)
	writeNeeded(b, "  needed by ", "            ", x.NeededBy)
}

// idText returns the full ID if the line above shows a short form of it, else "".
func idText(id string) string {
	if shortIDs(id) == id {
		return ""
	}
	return id
}

func reviewText(review string) string {
	switch stateloop.Review(review) {
	case stateloop.ReviewYes:
		return "yes: it does not resolve itself"
	case stateloop.ReviewMaybe:
		return "maybe: check it by hand"
	case stateloop.ReviewNo:
		return "no"
	}
	return review
}

// writeNeeded writes parameters, each with its dependencies indented below it.
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

// pause waits for d. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
