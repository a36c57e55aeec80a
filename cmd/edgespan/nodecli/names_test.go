package nodecli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

const otherApp = "a0000000-0000-4000-8000-000000000002"

// named is a daemon with one network, "lab", and an app of each name.
func named(apps ...string) *clitest.Daemon {
	f := clitest.Filled()
	f.Items["ni"][0].Status.(clitest.Obj)["displayName"] = "lab"
	f.Items["app"], f.Items["adapter"] = nil, nil
	for i, name := range apps {
		id := fmt.Sprintf("a0000000-0000-4000-8000-%012x", i+1)
		f.Items["app"] = append(f.Items["app"], nodeapi.Resource{ID: id, Kind: "app", Spec: clitest.Obj{"displayName": name}})
		f.Items["adapter"] = append(f.Items["adapter"], nodeapi.Resource{ID: id + "/0", Kind: "adapter"})
	}
	f.Explains = func(kind, id string) (nodeapi.Explanation, error) {
		return nodeapi.Explanation{Object: kind + "/" + id, Name: apps[0], Summary: "ready"}, nil
	}
	f.DiffOf = func(string) ([]nodeapi.Difference, error) { return nil, nil }
	f.Happens = []nodeapi.Event{{Object: "app/" + otherApp, Name: apps[0], Text: "x"}}
	return f
}

// A display name stands for its UUID in each command that takes one.
func TestACommandTakesADisplayName(t *testing.T) {
	t.Parallel()
	f := named("db", "web")
	f.Asks = make(chan nodeapi.EventQuery, 1)
	socket := clitest.ServeDaemon(t, f)
	for args, want := range map[string]string{
		"get ni lab -o name":        "ni/" + clitest.NiID,
		"get ni/lab -o name":        "ni/" + clitest.NiID,
		"get app web -o name":       "app/" + otherApp,
		"get adapter web/0 -o name": "adapter/" + otherApp + "/0",
		"explain app/web":           "app/" + otherApp,
		"explain app/web/0":         "app/" + otherApp + "/0",
		"explain adapter web/0":     "adapter/" + otherApp + "/0",
		"explain ni/lab -o name":    "ni/" + clitest.NiID,
		"diff ni/lab":               "",
		"wait app/web":              "",
		"wait ni lab --for ready":   "",
		"events app/web -o name":    "app/" + otherApp,
	} {
		got := cli(t, clitest.At(socket), "", strings.Fields(args)...)
		if got.Code != 0 || !strings.HasPrefix(got.Out, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if q := <-f.Asks; q.Of != "app/"+otherApp {
		t.Errorf("events of %q", q.Of)
	}
	for _, id := range []string{otherApp, clitest.NiID} {
		if !slices.ContainsFunc(f.Requests(), func(asked string) bool { return strings.HasSuffix(asked, " "+id) }) {
			t.Errorf("wait did not ask for %s: %q", id, f.Requests())
		}
	}
	for args, want := range map[string]int{
		"get app nobody": term.ExitNotFound, "explain app/nobody": term.ExitNotFound, "events ni/nobody": term.ExitNotFound,
		"watch app nobody": term.ExitNotFound, "get app nobody -w": term.ExitNotFound, "diff ni/nobody": term.ExitNotFound,
	} {
		got := cli(t, clitest.At(socket), "", strings.Fields(args)...)
		if got.Code != want || !strings.Contains(got.Err, "nobody: not found: no ") || got.Out != "" {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// A name that several have is refused by each command, with what to type in its place; its UUIDs go on to work.
func TestANameOfSeveralIsRefused(t *testing.T) {
	t.Parallel()
	socket := clitest.ServeDaemon(t, named("web", "web"))
	for _, args := range []string{"get app web", "get app/web", "get adapter web/0", "get app web -w", "watch app web",
		"explain app/web", "explain app/web/0", "events app/web", "wait app/web --timeout 5s"} {
		got := cli(t, clitest.At(socket), "", strings.Fields(args)...)
		if got.Code != term.ExitConflict ||
			!strings.Contains(got.Err, "app web: matches 2 apps: use one of UUIDs "+clitest.AppID+", "+otherApp) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := cli(t, clitest.At(socket), "", "get", "app", otherApp, "-o", "name"); got.Out != "app/"+otherApp+"\n" {
		t.Errorf("by UUID: %+v", got)
	}
}

// What is waited for loses its name with its config: from then on it is asked for by its UUID, not taken for absent.
func TestWaitKeepsTheUUIDOfAName(t *testing.T) {
	t.Parallel()
	f := named("web")
	f.ReadyAt = func(asked int) (nodeapi.Readiness, error) {
		if asked == 1 {
			f.Items["app"] = nil // as it is being removed
		}
		return nodeapi.Readiness{Absent: asked == 3}, nil
	}
	socket := clitest.ServeDaemon(t, f)
	got := cli(t, clitest.At(socket), "", "wait", "app/web", "--for", "absent", "--timeout", "10s")
	if asked := f.Requests(); got.Code != 0 || f.ReadyN != 3 || asked[len(asked)-1] != "ready app "+clitest.AppID {
		t.Errorf("%+v after %d questions: %q", got, f.ReadyN, asked)
	}
}

// A watch by a name is of the object that had it when it began.
func TestAWatchTakesADisplayName(t *testing.T) {
	t.Parallel()
	f := named("db", "web")
	now := time.Unix(1<<30, 0)
	f.Stream = []nodeapi.Observed{{Time: now, Change: nodeapi.Synchronized}}
	for _, kind := range []string{"app", "adapter"} {
		for i := range f.Items[kind] {
			f.Stream = append(f.Stream, nodeapi.Observed{Time: now, Change: nodeapi.Modified, Object: &f.Items[kind][i]})
		}
	}
	for args, want := range map[string]string{"watch app web": "app/" + otherApp, "get adapter web/0 -w": "adapter/" +
		otherApp + "/0"} {
		socket := clitest.ServeDaemon(t, f)
		if got := until(t, socket, 1, append(strings.Fields(args), "-o", "name")...); strings.TrimSpace(got.Out) != want {
			t.Errorf("%s: %+v, want %s", args, got, want)
		}
	}
}

// Display names are what others chose: no command prints what moves a cursor, and completion offers only those that are
// one word to a shell, of one object each.
func TestHostileDisplayNamesInCommands(t *testing.T) {
	t.Parallel()
	hostile := []string{"\x1b[2J\r\n\x9b1m", "a b", "..", "../x", "a/b", "$(reboot)", "`id`", "-rf", "a;b", "a\tb", "*",
		strings.Repeat("x", 10<<10), "\u202egnp", "{" + otherApp + "}", "A0000000-0000-4000-8000-000000000009", "twice",
		"twice", "größe",
		"web-1.lan_x"}
	socket := clitest.ServeDaemon(t, named(hostile...))
	clean := func(what string, got clitest.Said) {
		t.Helper()
		if text := strings.ReplaceAll(got.Out+got.Err, "\n", " "); term.Printable(text) != text {
			t.Errorf("%s prints %q", what, got.Out+got.Err)
		}
	}
	for _, args := range []string{"get app", "get app -o wide", "get app -o name", "get app -o yaml", "events",
		"events -o name"} {
		clean(args, cli(t, clitest.At(socket), "", strings.Fields(args)...))
	}
	for i, name := range hostile[:13] {
		id := fmt.Sprintf("a0000000-0000-4000-8000-%012x", i+1)
		for _, args := range [][]string{{"get", "app", "--", name}, {"explain", "--", "app/" + name},
			{"get", "app", "--", name + "!"}} {
			got := cli(t, clitest.At(socket), "", args...)
			clean(fmt.Sprintf("%.40q", args), got)
			if args[0] == "get" && strings.HasSuffix(args[3], "!") {
				if got.Code != term.ExitNotFound || len(got.Err) > 400 {
					t.Errorf("%.40q: %d %.400s", args, got.Code, got.Err)
				}
			} else if got.Code != 0 || !strings.Contains(got.Out, id) {
				t.Errorf("%.40q: %d %.200s %.200s", args, got.Code, got.Out, got.Err)
			}
		}
	}
	for line, want := range map[string][]string{
		"get app ":     {"größe", "web-1.lan_x"},
		"get adapter ": {"größe/0", "web-1.lan_x/0"},
		"explain app/": {"app/größe", "app/web-1.lan_x"},
	} {
		got := cli(t, clitest.At(socket), "", append([]string{"__complete"}, strings.Split(line, " ")...)...)
		offered := strings.Fields(got.Out)
		offered = slices.DeleteFunc(offered, func(w string) bool { return strings.Contains(w, "a0000000-") })
		if want = append(want, ":4"); !slices.Equal(offered, want) {
			t.Errorf("%q offers %.300q, want %q", line, offered, want)
		}
	}
}
