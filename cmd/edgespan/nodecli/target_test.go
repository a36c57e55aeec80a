package nodecli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/config/httpapi/nodeapi"
)

// What -o name prints names the same object in every command that takes one.
func TestAnObjectIsNamedAsOneWordOrTwo(t *testing.T) {
	socket := clitest.ServeDaemon(t, clitest.Filled())
	for _, args := range []string{
		"get ni " + clitest.NiID, "get ni/" + clitest.NiID, "get ni ni/" + clitest.NiID,
		"get adapter " + clitest.AppID + "/0", "get adapter/" + clitest.AppID + "/0",
		"wait ni " + clitest.NiID, "wait ni/" + clitest.NiID, "wait app " + clitest.AppID,
	} {
		if got := cli(t, clitest.At(socket), "", strings.Fields(args)...); got.Code != 0 || got.Err != "" {
			t.Errorf("%s: exit %d: %s", args, got.Code, got.Err)
		}
	}
	for _, kind := range nodeapi.Kinds() {
		for _, name := range strings.Fields(cli(t, clitest.At(socket), "", "get", kind, "-o", "name").Out) {
			if got := cli(t, clitest.At(socket), "", "get", name); got.Code != 0 {
				t.Errorf("get %s: exit %d: %s", name, got.Code, got.Err)
			}
		}
	}
}

func TestATableShowsTheCauseOfAnError(t *testing.T) {
	f := clitest.Filled()
	long := "add process ni/1/dnsmasq: dnsmasq --conf-file=" + strings.Repeat("/very/long", 30) +
		": executable file not found; next retry in 200ms"
	f.Items["ni"][0].Status.(clitest.Obj)["error"] = long
	socket := clitest.ServeDaemon(t, f)
	got := cli(t, clitest.At(socket), "", "get", "ni").Out
	for _, part := range []string{"add process ni/1/dnsmasq: ", "…", "executable file not found; next retry in 200ms"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in\n%s", part, got)
		}
	}
	for _, line := range strings.Split(got, "\n") {
		if n := utf8.RuneCountInString(line); n > 100+110 {
			t.Errorf("a line has %d characters", n)
		}
	}
	if got := cli(t, clitest.At(socket), "", "get", "ni", "-o", "wide").Out; !strings.Contains(got, long) {
		t.Errorf("-o wide cuts: %s", got)
	}
}

func TestATableShowsANetworksWarningWhereThereIsNoError(t *testing.T) {
	f := clitest.Filled()
	st := f.Items["ni"][0].Status.(clitest.Obj)
	st["warning"] = "route lab is left out: no port"
	socket := clitest.ServeDaemon(t, f)
	if got := cli(t, clitest.At(socket), "", "get", "ni").Out; !strings.HasSuffix(got,
		"  3    warning: route lab is left out: no port\n") {
		t.Errorf("a warning alone:\n%s", got)
	}
	st["error"] = "no bridge"
	if got := cli(t, clitest.At(socket), "", "get", "ni").Out; !strings.HasSuffix(got, "  3    no bridge\n") {
		t.Errorf("an error beside it:\n%s", got)
	}
}

func TestAPlanInEveryForm(t *testing.T) {
	f := clitest.Filled()
	f.Changes = []nodeapi.Change{{Op: "add", Kind: "link", ID: "es1", Owner: clitest.NiID}}
	socket := clitest.ServeDaemon(t, f)
	for form, want := range map[string]string{
		"yaml": "changes:\n- op: add\n  kind: link\n  id: es1\n  owner: " + clitest.NiID + "\n",
		"name": "link/es1\n",
		"wide": "OP   KIND  ID   OWNER\nadd  link  es1  " + clitest.NiID + "\n",
	} {
		if got := cli(t, clitest.At(socket), "{}", "plan", "-f", "-", "-o",
			form); got != (clitest.Said{Code: 0, Out: want, Err: ""}) {
			t.Errorf("-o %s: %+v", form, got)
		}
	}
}
