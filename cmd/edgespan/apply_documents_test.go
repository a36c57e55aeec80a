package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/httpapi/fleetapi"
)

// TestDocumentsOfAFile takes files apart; each piece has its number, its line and its kind.
func TestDocumentsOfAFile(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"# nothing\n---\n\n# more\n": "",
		"a: 1\n":                     "1:1 -",
		"kind: A\n---\nkind: B\n":    "1:1 A, 2:3 B",
		"---\nkind: A\n--- # B\n\nkind: B\n...\n": "1:2 A, 2:3 B",
		"--- {kind: A}\n--- {kind: B}\n":          "1:1 A, 2:2 B",
		"kind: A\r\n---\r\nkind: B\r\n":           "1:1 A, 2:3 B",
		"a: |\n  x\n  ---\n  y\n":                 "1:1 -", // inside a text
		`{"kind":"A"}`:                            "1:1 A",
		"{\"kind\":\"A\"}\n\n{\"kind\":\"B\"}\n":  "1:1 A, 2:3 B",
		"{kind: A}\n---\n{kind: B}\n":             "1:1 A, 2:3 B", // YAML
		"[1]":                                     "1:1 faults",
		"kind: A\n---\nkind: B\nkind: B\n":        "1:1 A, 2:3 faults",
	} {
		var got []string
		for _, p := range pieces([]byte(text)) {
			kind, is := p.object["kind"].(string)
			switch {
			case len(p.faults) > 0:
				kind = "faults"
			case !is:
				kind = "-"
			}
			got = append(got, fmt.Sprintf("%d:%d %s", p.number, p.line, kind))
		}
		if is := strings.Join(got, ", "); is != want {
			t.Errorf("%q: %s, wanted %s", text, is, want)
		}
	}
}

// TestApplyNeverMixes refuses a file that has both descriptors and a node's config, whole, and
// flags of the one with the other. Nobody is asked.
func TestApplyNeverMixes(t *testing.T) {
	f := smallFleet()
	env := serveFleet(t, f)
	for _, c := range []struct {
		name, text, args string
		code             int
		err              string
	}{
		{
			"both", "kind: PeerDescriptor\nmetadata: {name: a}\n---\nnetworkInstances: {}\n---\nkind: ClusterDescriptor\n", "", 4,
			"FILE: document 2 (line 4): has no kind, as the config of a node, beside document 1 (line 1), PeerDescriptor a; document 3 (line 6): " +
				"a file of descriptors, which the controller takes, or the config of one node is allowed\n",
		},
		{"JSON", `{"kind":"PeerDescriptor"} {"ports":{}}`, "", 4, "FILE: document 2 (line 1): has no kind"},
		{"broken ones", "kind: PeerDescriptor\nkind: x\n---\nkind: [\n", "", 4, "FILE: document 2 (line 4): "},
		{"local", "kind: PeerDescriptor\n", "--local --confirm 60s", 2, "--confirm: is given, and FILE has documents for the controller"},
		{"a message for a node", "ports: {}\n", "-m x", 2, "--message: is given, and FILE is the config of this node"},
		{"a controller for a node", "ports: {}\n", "--controller http://[::1]", 2, "--controller: is given"},
		{"a form that is none", "kind: PeerDescriptor\n", "-o xml", 2, "xml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got := cli(t, env, "", append([]string{"apply", "-f", file}, strings.Fields(c.args)...)...)
			said := strings.ReplaceAll(got.err, file, "FILE")
			if got.code != c.code || !strings.Contains(said, c.err) || len(f.heard()) > 0 {
				t.Errorf("exit %d: %s", got.code, said)
			}
		})
	}
	got := cli(t, env, "kind: PeerDescriptor\n", "plan", "-f", "-")
	if got.code != term.ExitUsage || !strings.Contains(got.err, "edgespan apply --dry-run -f -") {
		t.Errorf("plan: %+v", got)
	}
}

// TestWhatIsNotBuiltIsRefusedByName gives descriptors with an underlay and with tunnels of types
// that there are none of to the real operations, by the command and by the route: both name the
// place and what is allowed there, all at once, and nothing is written.
func TestWhatIsNotBuiltIsRefusedByName(t *testing.T) {
	env := serveFleet(t, newPeersBackend(t))
	const text = `kind: PeerDescriptor
metadata: {name: edge-1}
spec: {underlays: {office: {vpn: office}, wan: {port: wan0, type: gre}}}
---
kind: ClusterDescriptor
metadata: {name: lab}
spec: {leader: edge-1, tunnel: wireguard, members: {edge-1: {underlay: wan}, edge-2: {underlay: wan}}}
`
	wants := []struct{ path, detail, allowed string }{
		{"peer/edge-1.spec.underlays.office.vpn", "names a network, and none can be an underlay", "port or address is allowed, also the address of a VPN that the host itself has"},
		{"peer/edge-1.spec.underlays.wan.type", `is "gre"`, "no type of tunnel is to be named, all are vxlan"},
		{"cluster/lab.spec.tunnel", `is "wireguard"`, "no type of tunnel is to be named, all are vxlan"},
	}
	got := cli(t, env, text, "apply", "-f", "-")
	for _, w := range wants {
		if line := w.path + ": " + w.detail + ": " + w.allowed; !strings.Contains(got.err, line) {
			t.Errorf("no %q in\n%s", line, got.err)
		}
	}
	if got.code != term.ExitRejected || got.out != "" {
		t.Errorf("exit %d, %q", got.code, got.out)
	}

	var docs []string
	for _, p := range pieces([]byte(text)) {
		docs = append(docs, config.OneLine(p.object))
	}
	status, answer := askRoute(t, env, http.MethodPost, fleetapi.Prefix+"documents", `{"documents":[`+strings.Join(docs, ",")+`]}`)
	var problem struct {
		Errors []struct{ Path, Detail, Allowed string }
	}
	if err := json.Unmarshal([]byte(answer), &problem); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	for _, w := range wants {
		if !slices.ContainsFunc(problem.Errors, func(e struct{ Path, Detail, Allowed string }) bool {
			return e.Path == w.path && e.Detail == w.detail && e.Allowed == w.allowed
		}) {
			t.Errorf("no %+v in %+v", w, problem.Errors)
		}
	}
	if status != http.StatusUnprocessableEntity {
		t.Errorf("status %d", status)
	}
	if got := cli(t, env, "", "peers", "get", "edge-1"); got.code != term.ExitNotFound {
		t.Errorf("it was written: %+v", got)
	}
}
