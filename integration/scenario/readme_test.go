package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The fleet commands of the README run as they are, with the placeholders replaced.
func TestTheFleetOfTheReadmeRuns(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## A fleet\n")
	section, _, _ = strings.Cut(section, "\n## ")
	lines := examplesIn("README.md: A fleet", section, "edgespan", "edgespan-controller")
	if !found || len(lines) < 8 || lines[0].argv[0] != "edgespan-controller" {
		t.Fatalf("README.md has no section of a fleet that begins with its controller: %v", lines)
	}
	w := newWorld(t, "web", "client")
	file := filepath.Join(w.Dir, "wanted.json")
	desired := w.overrides(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)))
	if err := os.WriteFile(file, []byte(desired), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &office{w: w, name: "lab", dir: filepath.Join(w.Dir, "fleet"), asked: lines[0].argv[1:]}
	fill := strings.NewReplacer("fleet/admin.token", filepath.Join(o.dir, "admin.token"), "node.yaml", file,
		"fleet.example.org", "192.0.2.1")
	for i, a := range o.asked {
		if o.asked[i] = fill.Replace(a); a == "fleet" {
			o.asked[i] = o.dir
		}
	}
	o.begin()
	pin := o.line("CA sha256:")
	for _, e := range lines[1:] {
		args := e.argv[1:]
		for i, a := range args {
			if args[i] = fill.Replace(a); a == "H" {
				args[i] = pin
			}
		}
		if args[0] == "node" && args[1] == "set" || args[0] == "history" && len(args) > 1 && args[1] == "rollback" {
			o.is("edge-1", "InSync")
		}
		r := o.run(args...)
		if r.Code != 0 {
			t.Fatalf("%s: exit %d: %s%s", e, r.Code, r.Out, r.Err)
		}
		switch strings.Join(args[:min(2, len(args))], " ") {
		case "nodes invite":
			if r := w.join(r.Out, "--state-dir", w.StateDir()); r.Code != 0 {
				t.Fatalf("join: %+v", r)
			}
			w.start("{}")
			o.is("edge-1", "Unmanaged")
		case "node set":
			o.is("edge-1", "InSync", ready)
			w.wait("ready", "ni/"+ni(1), "app/"+app(1))
		}
	}
	w.wait("absent", "ni/"+ni(1)) // it was rolled back
}
