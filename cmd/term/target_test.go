package term

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheClientOfAController(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pin := strings.Repeat("ab", 32)
	for _, one := range []struct {
		target Target
		code   int
		text   string // of the error, none where it is made
	}{
		{Target{Controller: "https://[2001:db8::1]:8443", TokenFile: file("token", "secret\n"), CASHA256: pin}, ExitOK, ""},
		{Target{Controller: "http://127.0.0.1:1"}, ExitOK, ""},
		{Target{Controller: "http://192.0.2.1:1"}, ExitUsage, "plain http"},
		{Target{Controller: "https://u:p@192.0.2.1:1"}, ExitUsage, "--controller"},
		{Target{}, ExitUsage, "--controller"},
		{Target{Controller: "https://a", CASHA256: pin, CAFile: "ca"}, ExitUsage, "mutually exclusive"},
		{Target{Controller: "https://a", CASHA256: "1234"}, ExitUsage, "--ca-sha256"},
		{Target{Controller: "https://a", TokenFile: file("empty", " \n")}, ExitUsage, "no token"},
		{Target{Controller: "https://a", TokenFile: filepath.Join(dir, "none")}, ExitNotFound, "read token"},
		{Target{Controller: "https://a", CAFile: filepath.Join(dir, "none")}, ExitNotFound, "read CA"},
		{Target{Controller: "https://a", CAFile: file("ca", "")}, ExitUsage, "empty file"},
		{Target{Controller: "https://a", CAFile: file("text", "secret")}, ExitUsage, "--ca-file"},
	} {
		c, err := one.target.Client()
		switch {
		case ExitCode(err) != one.code, err != nil && !strings.Contains(err.Error(), one.text):
			t.Errorf("%+v: %v", one.target, err)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%+v: quotes the file: %v", one.target, err)
		case err == nil:
			c.Close()
		}
	}
}
