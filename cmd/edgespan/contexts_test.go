package main

import (
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/platform/pki"
)

// whoAsks is a controller that notes the token it is asked with and knows no nodes.
func whoAsks(tokens *[]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*tokens = append(*tokens, r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("[]"))
	})
}

func TestAContextIsKeptUsedShownAndRemoved(t *testing.T) {
	env := map[string]string{"HOME": t.TempDir()}
	token := clitest.File(t, "secret\n")
	for _, step := range []struct {
		args []string
		code int
		out  string
		err  string
	}{
		{args: []string{"context", "list"}, err: "no contexts\n"},
		{args: []string{"context", "show"}, code: 10,
			err: "context \"\": not found: run 'edgespan context add' to create it\n"},
		{
			args: []string{"context", "add", "lab", "--controller", "https://lab:8443", "--token-file", token, "--ca-sha256",
				strings.Repeat("ab", 32)},
			err: "context lab: written; current context: lab\n",
		},
		{args: []string{"--controller", "http://127.0.0.1:1", "context", "add", "bench"},
			err: "context bench: written; current context: lab\n"},
		{args: []string{"context", "use", "nowhere"}, code: 10,
			err: "context \"nowhere\": not found: must be one of bench lab\n"},
		{args: []string{"context", "use", "bench"}, err: "current context: bench: http://127.0.0.1:1\n"},
		{args: []string{"context", "list", "-o", "name"}, out: "bench\nlab\n"},
		{
			args: []string{"context", "show", "-o", "json"},
			out:  "{\n  \"name\": \"bench\",\n  \"inUse\": true,\n  \"controller\": \"http://127.0.0.1:1\"\n}\n",
		},
		{args: []string{"__complete", "context", "use", ""}, out: "bench\nlab\n:4\n",
			err: "Completion ended with directive: ShellCompDirectiveNoFileComp\n"},
		{args: []string{"context", "remove", "bench"}, err: "context bench: removed\n"},
		{args: []string{"nodes", "list"}, code: 2,
			err: "--controller: required: or set EDGESPAN_CONTROLLER, or run 'edgespan context add NAME --controller URL'\n"},
		{args: []string{"context", "remove", "bench"}, code: 10, err: "context \"bench\": not found: must be one of lab\n"},
		{args: []string{"context", "add", "x"}, code: 2,
			err: "--controller: required: https://HOST:PORT\n"},
	} {
		got := cli(t, env, "", step.args...)
		if got.Code != step.code || got.Out != step.out || got.Err != step.err {
			t.Errorf("%q: exit %d\n%s%s", step.args, got.Code, got.Out, got.Err)
		}
	}
	kept := filepath.Join(env["HOME"], ".config", "edgespan", "contexts.yaml")
	info, err := os.Stat(kept)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 || strings.Contains(string(text), "secret") {
		t.Errorf("%s has mode %v and\n%s", kept, info.Mode(), text)
	}
}

func TestAContextFileThatCannotBeReadStaysAsItIs(t *testing.T) {
	const text = "contexts: {lab: {controler: https://lab:8443}}\n"
	name := clitest.File(t, text)
	got := cli(t, map[string]string{"EDGESPAN_CONTEXTS": name}, "", "context", "add", "x", "--controller", "https://x:1")
	if now, err := os.ReadFile(name); err != nil || string(now) != text || got.Code != term.ExitUsage ||
		!strings.Contains(got.Err, "controler") {
		t.Errorf("exit %d, %s\nfile: %s %v", got.Code, got.Err, now, err)
	}
}

func TestFlagStandsAboveEnvironmentAboveContext(t *testing.T) {
	var flagged, environment, context []string
	urls := map[*[]string]string{}
	for _, seen := range []*[]string{&flagged, &environment, &context} {
		s := httptest.NewServer(whoAsks(seen))
		defer s.Close()
		urls[seen] = s.URL
	}
	base := map[string]string{"HOME": t.TempDir()}
	kept, other := clitest.File(t, "kept"), clitest.File(t, "other")
	if got := cli(t, base, "", "context", "add", "c", "--controller", urls[&context], "--token-file",
		kept); got.Code != 0 {
		t.Fatal(got.Err)
	}
	for _, c := range []struct {
		name  string
		env   map[string]string
		args  []string
		asked *[]string
		token string
	}{
		{name: "context alone", asked: &context, token: "Bearer kept"},
		{name: "environment", env: map[string]string{"EDGESPAN_CONTROLLER": urls[&environment]}, asked: &environment,
			token: ""},
		{
			name: "environment with token", asked: &environment, token: "Bearer other",
			env: map[string]string{"EDGESPAN_CONTROLLER": urls[&environment], "EDGESPAN_TOKEN_FILE": other},
		},
		{name: "flag", env: map[string]string{"EDGESPAN_CONTROLLER": urls[&environment]},
			args: []string{"--controller", urls[&flagged]}, asked: &flagged, token: ""},
		{name: "flag names the context's controller", args: []string{"--controller", urls[&context]}, asked: &context,
			token: "Bearer kept"},
		{name: "token by a flag", args: []string{"--token-file", other}, asked: &context, token: "Bearer other"},
		{name: "context by its name", args: []string{"--context", "c"}, asked: &context, token: "Bearer kept"},
	} {
		for _, seen := range []*[]string{&flagged, &environment, &context} {
			*seen = nil
		}
		env := map[string]string{"HOME": base["HOME"]}
		for k, v := range c.env {
			env[k] = v
		}
		got := cli(t, env, "", append(c.args, "nodes", "list")...)
		if got.Code != 0 || len(flagged)+len(environment)+len(context) != 1 || len(*c.asked) != 1 ||
			(*c.asked)[0] != c.token {
			t.Errorf("%s: exit %d, %s: flag %q, environment %q, context %q", c.name, got.Code, got.Err, flagged, environment,
				context)
		}
	}
}

func TestWhatCannotBeAController(t *testing.T) {
	pin := strings.Repeat("ab", 32)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--controller", "http://192.0.2.1:8443"}, term.ExitUsage, "plain http"},
		{[]string{"--controller", "http://localhost.example:8443"}, term.ExitUsage, "plain http"},
		{[]string{"--controller", "ftp://127.0.0.1"}, term.ExitUsage, "https://HOST:PORT"},
		{[]string{"--controller", "https://me:secret@c:1"}, term.ExitUsage, "https://HOST:PORT"},
		{[]string{"--controller", "c:8443"}, term.ExitUsage, "https://HOST:PORT"},
		{[]string{"--controller", "https://c:1", "--ca-file", "x", "--ca-sha256", pin}, term.ExitUsage, "mutually exclusive"},
		{[]string{"--controller", "https://c:1", "--ca-sha256", "12"}, term.ExitUsage, "--ca-sha256"},
		{[]string{"--controller", "https://c:1", "--ca-file", "/nowhere/ca.pem"}, term.ExitNotFound, "/nowhere/ca.pem"},
		{[]string{"--controller", "https://c:1", "--ca-file", clitest.File(t, "no PEM")}, term.ExitUsage, "PEM"},
		{[]string{"--controller", "https://c:1", "--ca-file", clitest.File(t, "")}, term.ExitUsage, "empty file"},
		{[]string{"--controller", "https://c:1", "--token-file", "/nowhere/token"}, term.ExitNotFound, "/nowhere/token"},
		{[]string{"--controller", "https://c:1", "--token-file", clitest.File(t, " \n")}, term.ExitUsage, "no token"},
		{[]string{"--controller", "https://c:1", "--token-file", clitest.File(t, "a\nb")}, term.ExitUsage, "no token"},
		{[]string{"--controller", "http://127.0.0.1:1"}, term.ExitUnreachable, "not reachable"},
		{[]string{"--context", "nowhere"}, term.ExitNotFound, "nowhere"},
	} {
		got := cli(t, map[string]string{"HOME": t.TempDir()}, "", append([]string{"nodes", "list"}, c.args...)...)
		if got.Code != c.code || !strings.Contains(got.Err, c.says) || strings.Contains(got.Err, "secret") &&
			!strings.Contains(c.args[1], "secret") {
			t.Errorf("%q: exit %d: %s", c.args, got.Code, got.Err)
		}
	}
}

func TestACommandThatAsksNoControllerRefusesItsFlags(t *testing.T) {
	for _, args := range [][]string{{"get", "ni"}, {"node"}, {"layers", "md5"}, {"version"}} {
		got := cli(t, nil, "", append([]string{"--controller", "http://127.0.0.1:1"}, args...)...)
		if got.Code != term.ExitUsage || !strings.Contains(got.Err, "--controller: not a flag of") {
			t.Errorf("%q: exit %d: %s", args, got.Code, got.Err)
		}
	}
}

func TestTheControllersCertificateIsCheckedByFileOrPin(t *testing.T) {
	authority, err := pki.Open(pki.Options{Dir: t.TempDir(), Names: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	address := clitest.ServeTLS(t, authority, whoAsks(&asked))
	ca := clitest.File(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Roots()[0]})))
	pin := authority.Pin()
	for _, c := range []struct {
		name string
		args []string
		code int
	}{
		{"its file", []string{"--ca-file", ca}, term.ExitOK},
		{"its pin", []string{"--ca-sha256", hex.EncodeToString(pin[:])}, term.ExitOK},
		{"another pin", []string{"--ca-sha256", strings.Repeat("00", 32)}, term.ExitUnreachable},
		{"the system's", nil, term.ExitUnreachable},
	} {
		asked = nil
		args := append([]string{"nodes", "list", "--controller", "https://" + address, "--token-file",
			clitest.File(t, "secret")}, c.args...)
		got := cli(t, map[string]string{"HOME": t.TempDir()}, "", args...)
		if got.Code != c.code || (len(asked) > 0) != (c.code == term.ExitOK) {
			t.Errorf("%s: exit %d, asked %q: %s", c.name, got.Code, asked, got.Err)
		}
	}
}
