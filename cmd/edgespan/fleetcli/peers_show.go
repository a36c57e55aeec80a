package fleetcli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/stateloop/peer"
)

func statusOfPeer(c *fleetCall) error {
	if c.watch {
		return c.watchPeer()
	}
	d, err := c.client.Peer(c.ctx, c.args[0])
	if err != nil {
		return err
	}
	all := peerParameters(d)
	s := term.Shown{Data: d, Names: idsOf(all), Empty: "no parameters",
		Table: func(wide bool) *term.Table { return peerParameterTable(d, wide) }}
	if err := c.a.Show(s, c.output); err != nil {
		return err
	}
	c.a.Printf("%s", term.Printable(peerLine(d.Peer)))
	return nil
}

var anID = regexp.MustCompile(`([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// shortIDs truncates each UUID in a text to its first octets, for people; explain accepts such IDs of parameters. -o
// wide, json and name print full UUIDs.
func shortIDs(text string) string { return anID.ReplaceAllString(text, "$1") }

// peerLine describes the state of a peer in one line.
func peerLine(p fleetapi.Peer) string {
	word := "ready"
	if !p.Ready {
		word = "not ready"
	}
	text := fmt.Sprintf("%s: %s, %s", p.Name, p.Health, word)
	if p.Why != "" {
		text += ": " + shortIDs(p.Why)
	}
	return text
}

// clusterLine describes the state of a cluster in one line.
func clusterLine(x fleetapi.Cluster) string {
	word := "ready"
	if !x.Ready {
		word = "not ready"
	}
	text := fmt.Sprintf("%s: %s, %s, %s", x.Name, x.State, x.Health, word)
	if x.Why != "" {
		text += ": " + shortIDs(x.Why)
	}
	return text
}

// peerParameters returns the desired parameters, then those that only the node has.
func peerParameters(d fleetapi.PeerDetail) []fleetapi.PeerParameter {
	return slices.Concat(d.Parameters, d.Ignored)
}

func peerParameterTable(d fleetapi.PeerDetail, wide bool) *term.Table {
	t := &term.Table{Head: []string{"PARAMETER", "TARGET", "STATE", "REVIEW", "SINCE", "REASON"}, Wide: wide}
	if wide {
		t.Head = []string{"PARAMETER", "KIND", "TARGET", "STATE", "REVIEW", "SINCE", "TRIES", "NEXT TRY", "VALUE", "REASON"}
	}
	for _, p := range peerParameters(d) {
		if !wide {
			t.Add(shortIDs(p.ID), p.Target, p.State, p.Review, term.FormatTime(p.Since), shortIDs(p.Reason))
			continue
		}
		tries := ""
		if p.Attempts > 0 {
			tries = fmt.Sprint(p.Attempts)
		}
		t.Add(p.ID, p.Kind, p.Target, p.State, p.Review, term.FormatTime(p.Since), tries, term.FormatTime(p.NextTry),
			p.Describes,
			p.Reason)
	}
	return t
}

func describePeer(c *fleetCall) error {
	d, err := c.client.Peer(c.ctx, c.args[0])
	if err != nil {
		return err
	}
	if c.output != "table" && c.output != "wide" {
		return c.a.Show(term.Shown{Data: d, Names: []string{d.Name}}, c.output)
	}
	descriptor := "none: run 'edgespan apply -f FILE' to write one"
	if d.Described {
		descriptor = fmt.Sprintf("of revision %d", d.Revision)
	}
	last := ""
	if d.LastReport != nil {
		last = term.FormatTime(d.LastReport) + ", " + reportAge(d.Peer)
	}
	return describe(c, peerLine(d.Peer), []fact{
		{"id", cmp.Or(d.ID, "none: not joined")},
		{"descriptor", descriptor},
		{"clusters", strings.Join(d.Clusters, ", ")},
		{"connected", term.YesNo(d.Online)},
		{"desired", d.Desired},
		{"applied", d.Applied},
		{"last report", last},
		{"parameters", countsText(d.Counts)},
	}, append(descriptorTables(d), peerParameterTable(d, c.output == "wide"))...)
}

// fact is a line of a description.
type fact struct{ what, text string }

// describe prints a head, facts and tables, without the empty ones.
func describe(c *fleetCall, head string, facts []fact, tables ...*term.Table) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", term.Printable(head))
	for _, f := range facts {
		if f.text != "" {
			fmt.Fprintf(&b, "%-12s %s\n", f.what, term.Printable(f.text))
		}
	}
	for _, t := range tables {
		if len(t.Rows) == 0 {
			continue
		}
		b.WriteByte('\n')
		if err := t.Write(&b, c.a.Color); err != nil {
			return err
		}
	}
	_, err := io.WriteString(c.a.Out, b.String())
	return err
}

func countsText(counts map[string]int) string {
	var out []string
	for _, s := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%d %s", counts[s], s))
	}
	return strings.Join(out, ", ")
}

// descriptorTables returns the contents of a peer's descriptor as tables. A descriptor that another version wrote and
// this one can't read is only printed by get.
func descriptorTables(d fleetapi.PeerDetail) []*term.Table {
	links := &term.Table{Head: []string{"INTERFACE", "LINK", "KIND"}}
	underlays := &term.Table{Head: []string{"UNDERLAY", "PORT", "ADDRESS"}}
	executors := &term.Table{Head: []string{"EXECUTOR", "RUNS", "RESTART"}}
	p, faults := peer.ParsePeer(d.Descriptor)
	if len(faults) > 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.Interfaces)) {
		links.Add(name, p.Interfaces[name].IfName, p.Interfaces[name].Kind)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Underlays)) {
		address := ""
		if a := p.Underlays[name].Address; a.IsValid() {
			address = a.String()
		}
		underlays.Add(name, p.Underlays[name].Port, address)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Executors)) {
		x := p.Executors[name]
		executors.Add(name, cmp.Or(x.Unit, strings.Join(x.Command, " ")), x.Restart)
	}
	return []*term.Table{links, underlays, executors}
}

func statusOfCluster(c *fleetCall) error {
	if c.watch {
		return c.watchCluster()
	}
	d, err := c.client.Cluster(c.ctx, c.args[0])
	if err != nil {
		return err
	}
	s := term.Shown{Data: d, Names: d.Members, Table: func(wide bool) *term.Table { return memberTable(d, wide) }}
	if err := c.a.Show(s, c.output); err != nil {
		return err
	}
	c.a.Printf("%s", term.Printable(clusterLine(d.Cluster)))
	return nil
}

// memberTable lists the members of a cluster; wide adds how each member joins it.
func memberTable(d fleetapi.ClusterDetail, wide bool) *term.Table {
	t := &term.Table{Head: []string{"MEMBER", "ROLE", "CONNECTED", "READY", "HEALTH", "PARAMETERS", "REPORT", "REASON"},
		Wide: wide}
	if wide {
		t.Head = []string{"MEMBER", "ROLE", "CONNECTED", "READY", "HEALTH", "PARAMETERS", "REPORT", "INTERFACES", "UNDERLAY",
			"REASON"}
	}
	cluster, _ := peer.ParseCluster(d.Descriptor) // faults leave out columns
	for _, p := range d.Peers {
		role := "member"
		if p.Name == d.Leader {
			role = "leader"
		}
		row := []string{p.Name, role, term.YesNo(p.Online), term.YesNo(p.Ready), p.Health, done(p.Counts), reportAge(p)}
		if wide {
			row = append(row, strings.Join(cluster.Members[p.Name].Interfaces, ","), cluster.Members[p.Name].Underlay)
		}
		t.Add(append(row, shortIDs(p.Why))...)
	}
	return t
}

func tunnelTable(d fleetapi.ClusterDetail, wide bool) *term.Table {
	t := &term.Table{Head: []string{"FROM", "STATE", "TO", "STATE", "VNI", "REASON"}, Wide: wide}
	for _, x := range d.Tunnels {
		t.Add(x.Between[0], x.States[0], x.Between[1], x.States[1], fmt.Sprint(x.VNI), shortIDs(x.Reason))
	}
	return t
}

func describeCluster(c *fleetCall) error {
	d, err := c.client.Cluster(c.ctx, c.args[0])
	if err != nil {
		return err
	}
	if c.output != "table" && c.output != "wide" {
		return c.a.Show(term.Shown{Data: d, Names: []string{d.Name}}, c.output)
	}
	return describe(c, clusterLine(d.Cluster), []fact{
		{"id", d.ID}, {"descriptor", fmt.Sprintf("of revision %d", d.Revision)}, {"deployed", term.YesNo(d.Deployed)},
		{"topology", d.Topology}, {"leader", d.Leader},
	}, memberTable(d, true), tunnelTable(d, c.output == "wide"))
}
