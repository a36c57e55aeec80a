package nodecli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
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
		for _, p := range splitDocuments([]byte(text)) {
			kind, ok := p.object["kind"].(string)
			switch {
			case len(p.faults) > 0:
				kind = "faults"
			case !ok:
				kind = "-"
			}
			got = append(got, fmt.Sprintf("%d:%d %s", p.number, p.line, kind))
		}
		if now := strings.Join(got, ", "); now != want {
			t.Errorf("%q: %s, wanted %s", text, now, want)
		}
	}
}

// TestAConfigIsNotReadBeforeItIsSent tells the config of a node from descriptors by its keys alone: the node reads it.
func TestAConfigIsNotReadBeforeItIsSent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"ports: {}\nappNetworks:\n  a:\n    attach:\n      kind: veth\n": true,
		"# c\n---\nports:\n\tbroken\n...\n":                              true,
		`{"ports":{},"appNetworks":{"a":{"kind":"x"}}}`:                  true,
		"":                             true,
		"kind: A\n":                    false,
		"ports: {}\n---\nkind: B\n":    false,
		"ports: {}\n'kind': B\n":       false,
		"ports: {}\n\"\\x6bind\": B\n": false,
		"ports: {}\n? kind\n: B\n":     false,
		"  kind: A\n":                  false,
		"ports: {}\n---\n  kind: A\n":  false,
		"--- {kind: A}\n":              false,
		"{kind: A}\n":                  false,
		"{ports: {}, \"kind\": A}":     false,
		`{"ports":{}} {"kind":"A"}`:    false,
		`{"ports":{}`:                  false,
		"ports: {}\r---\rkind: A\r":    true,
		"ports: {a: 1,\nkind: b}\n":    false,
		"%YAML 1.1\n---\nports: {}\n":  false,
		"ports: {}\n...\n{kind: A}\n":  false,
		"\ufeffkind: A\n":              false,
		"- kind: A\n":                  false,
	} {
		if got := hasNoKind([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
		if docs, _ := descriptors("f", []byte(text)); want && docs != nil {
			t.Errorf("%q has documents", text)
		}
	}
}

// TestApplyNeverMixes refuses a file that has both descriptors and a node's config, whole, and
// flags of the one with the other. Nobody is asked.
func TestApplyNeverMixes(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	for _, c := range []struct {
		name, text, args string
		code             int
		err              string
	}{
		{
			"both", "kind: PeerDescriptor\nmetadata: {name: a}\n---\nnetworkInstances: {}\n---\nkind: ClusterDescriptor\n", "",
			4,
			"FILE: document 2 (line 4): no kind, as in the config of a node, next to document 1 (line 1), PeerDescriptor a; " +
				"document 3 (line 6): " +
				"must be either descriptors for the controller, or the config of one node\n",
		},
		{"JSON", `{"kind":"PeerDescriptor"} {"ports":{}}`, "", 4, "FILE: document 2 (line 1): no kind"},
		{"broken ones", "kind: PeerDescriptor\nkind: x\n---\nkind: [\n", "", 4, "FILE: document 2 (line 4): "},
		{"local", "kind: PeerDescriptor\n", "--local --confirm 60s", 2,
			"--confirm: FILE contains documents for the controller"},
		{"a message for a node", "ports: {}\n", "-m x", 2, "--message: FILE is the config of this node"},
		{"a controller for a node", "ports: {}\n", "--controller http://[::1]", 2, "--controller: FILE is"},
		{"a form that is none", "kind: PeerDescriptor\n", "-o xml", 2, "xml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got := cli(t, env, "", append([]string{"apply", "-f", file}, strings.Fields(c.args)...)...)
			said := strings.ReplaceAll(got.Err, file, "FILE")
			if got.Code != c.code || !strings.Contains(said, c.err) || len(f.TakeRequests()) > 0 {
				t.Errorf("exit %d: %s", got.Code, said)
			}
		})
	}
	got := cli(t, env, "kind: PeerDescriptor\n", "plan", "-f", "-")
	if got.Code != term.ExitUsage || !strings.Contains(got.Err, "edgespan apply --dry-run -f -") {
		t.Errorf("plan: %+v", got)
	}
}
