package reach

import (
	"path/filepath"
	"testing"

	"edgespan/cmd/term"
)

// A name that is a number for YAML 1.2 stands in the file without quotes.
func TestContextsComeBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "contexts.yaml")
	a := &App{}
	a.Env = func(key string) string { return map[string]string{"EDGESPAN_CONTEXTS": path}[key] }
	for _, name := range []string{"lab", "09", "1e3", "true", "a: b"} {
		want := term.Target{Controller: "https://[::1]:8443", TokenFile: name}
		if err := a.writeContexts(contextFile{Current: name, Contexts: map[string]term.Target{name: want}}); err != nil {
			t.Fatal(err)
		}
		got, err := a.readContexts()
		if err != nil || got.Current != name || got.Contexts[name] != want {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}
