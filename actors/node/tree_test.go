package node

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// branch matches an actor of the tree in doc.go.
var branch = regexp.MustCompile(`(?m)^//\t( *)/(\S+)`)

// drawn returns the paths of the tree in doc.go; <uuid> and <id> stand for any name.
func drawn(t *testing.T) []string {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var out, above []string
	for _, m := range branch.FindAllStringSubmatch(string(text), -1) {
		above = append(above[:len(m[1])/2], m[2])
		out = append(out, strings.Join(above, "/"))
	}
	return out
}

// shape returns a path without the names of networks, apps and parameters.
func shape(id string) string {
	parts := strings.Split(id, "/")
	for i := 1; i < len(parts); i++ {
		switch parts[i-1] {
		case "ni", "app":
			parts[i] = "<uuid>"
		case "dhcp":
			return strings.Join(append(parts[:i:i], "<label>", "<interface>"), "/")
		case "exec":
			return strings.Join(append(parts[:i:i], "<id>"), "/")
		}
	}
	return strings.Join(parts, "/")
}

// The tree in doc.go is the tree that runs.
func TestTheTreeIsAsItIsDrawn(t *testing.T) {
	onDisk(t, func(r *rig, _ *memEvents) {
		r.netns("ns1")
		dhcp := strings.Replace(doc(1, 1), "  wan: ", "  lan: {ifName: eth7, addressing: dhcp}\n  wan: ", 1)
		_, tunnel, _ := strings.Cut(vpnDoc(2), "networkInstances:\n")
		_, tunnel, _ = strings.Cut(tunnel, "\n") // of the second network
		dhcp = strings.Replace(dhcp, "appNetworks:\n", tunnel+"appNetworks:\n", 1)
		r.pushBoth(1, dhcp, encoded(t, runs("job", "/bin/job")))
		r.ready(time.Minute, "ni/"+niID(1), "ni/"+niID(2), "app/"+appID(1))
		runs := map[string]bool{}
		for _, a := range r.node.d.census.List() {
			runs[shape(a.ID)] = true
		}
		if got, want := slices.Sorted(maps.Keys(runs)), slices.Sorted(slices.Values(drawn(t))); !slices.Equal(got, want) {
			t.Errorf("run\n%s\ndrawn\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}
