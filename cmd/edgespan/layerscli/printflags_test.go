package layerscli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"

	"pgregory.net/rapid"
)

// flagsFile makes a file in the test's folder and answers with its name.
func flagsFile(t testing.TB, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Seed, "E2E Configuration": a script reads a configuration file and returns the
// command-line flags as a formatted string.
func TestSeed_PrintFlags(t *testing.T) {
	for _, c := range []struct {
		doc  string
		want clitest.Said
	}{
		{`{"flags": {"v": "2", "x.config_staged_rollout_enabled": true, "listen": "[::1]:1"}}`,
			clitest.Said{Code: 0, Out: "--config_staged_rollout_enabled=true --listen='[::1]:1' --v=2\n", Err: ""}},
		{`{}`, clitest.Said{Code: 0, Out: "", Err: ""}},
		{`{"flags": {}}`, clitest.Said{Code: 0, Out: "", Err: ""}},
		{`{"flags": {"a b": "1", "c": "x\ny", "d": []}}`,
			clitest.Said{Code: 4, Out: "",
				Err: `FILE: flags."a b": invalid name of a flag: must be letters, digits and _ after a prefix that ends in a '.'` +
					"\nFILE: flags.d: invalid type array: must be a string; a number or a boolean becomes one\n"}},
		{`{"flags": {"c": "x\ny"}}`, clitest.Said{Code: 4,
			Out: "", Err: "FILE: flags.c: line end or NUL in the value: must be a single line\n"}},
		{`{"flags": `, clitest.Said{Code: 4, Out: "", Err: ""}},
	} {
		file := flagsFile(t, "controller_config.json", c.doc)
		got := cli(t, nil, "", "layers", "print-flags", file)
		got.Err = strings.ReplaceAll(got.Err, file, "FILE")
		if c.want.Err == "" && c.want.Code == 4 {
			got.Err = ""
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.doc, got, c.want)
		}
	}
	if got := cli(t, nil, `{"flags": {"v": "1"}}`, "layers", "print-flags",
		"-"); got != (clitest.Said{Code: 0, Out: "--v=1\n", Err: ""}) {
		t.Errorf("from stdin: %+v", got)
	}
	if got := cli(t, nil, "", "layers", "print-flags", filepath.Join(t.TempDir(), "none")); got.Code != 10 {
		t.Errorf("a missing file: %+v", got)
	}
	if got := cli(t, nil, "", "layers", "print-flags"); got.Code != 2 {
		t.Errorf("without a file: %+v", got)
	}
}

// A real shell takes every flag for what the file says, whatever its value has in it, and
// runs nothing of it.
func TestAShellTakesTheFlagsAsTheyWereMeant(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh")
	}
	value := rapid.StringOf(rapid.OneOf(
		rapid.RuneFrom([]rune("'\"$`\\ \t\r!~*?[]{}()<>|&;#%=^-aZ09\x01\x7f")),
		rapid.Rune().Filter(func(r rune) bool { return r != 0 && r != '\n' }),
	))
	file := filepath.Join(t.TempDir(), "c.json")
	rapid.Check(t, func(r *rapid.T) {
		flags := rapid.MapOfN(rapid.StringMatching(`[A-Za-z0-9_]{1,8}`), value, 1, 20).Draw(r, "flags")
		text, err := json.Marshal(map[string]any{"flags": flags})
		if err != nil {
			r.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			r.Fatal(err)
		}
		line := cli(t, nil, "", "layers", "print-flags", file)
		if line.Code != 0 || strings.Count(line.Out, "\n") != 1 {
			r.Fatalf("%+v", line)
		}
		script := `eval "set -- $1"; for flag; do printf '%s\0' "$flag"; done`
		out, err := exec.CommandContext(t.Context(), sh, "-c", script, "sh", line.Out).Output()
		if err != nil {
			r.Fatalf("%s: %v", line.Out, err)
		}
		words := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		if len(words) != len(flags) {
			r.Fatalf("%d words of %d flags: %q", len(words), len(flags), words)
		}
		last := ""
		for _, word := range words {
			name, now, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
			if want, has := flags[name]; !has || now != want || name <= last {
				r.Fatalf("%q after %s, want --%s=%q", word, last, name, want)
			}
			last = name
		}
	})
}
