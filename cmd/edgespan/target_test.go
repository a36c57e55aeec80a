package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"edgespan/config/httpapi"
)

// What -o name prints names the same object in every command that takes one.
func TestAnObjectIsNamedAsOneWordOrTwo(t *testing.T) {
	socket := serve(t, filled())
	for _, args := range []string{
		"get ni " + niID, "get ni/" + niID, "get ni ni/" + niID,
		"get adapter " + appID + "/0", "get adapter/" + appID + "/0",
		"wait ni " + niID, "wait ni/" + niID, "wait app " + appID,
	} {
		if got := cli(t, at(socket), "", strings.Fields(args)...); got.code != 0 || got.err != "" {
			t.Errorf("%s: exit %d: %s", args, got.code, got.err)
		}
	}
	for _, kind := range httpapi.Kinds() {
		for _, name := range strings.Fields(cli(t, at(socket), "", "get", kind, "-o", "name").out) {
			if got := cli(t, at(socket), "", "get", name); got.code != 0 {
				t.Errorf("get %s: exit %d: %s", name, got.code, got.err)
			}
		}
	}
}

func TestATableShowsTheCauseOfAnError(t *testing.T) {
	f := filled()
	long := "add process ni/1/dnsmasq: dnsmasq --conf-file=" + strings.Repeat("/very/long", 30) + ": executable file not found; next retry in 200ms"
	f.items["ni"][0].Status.(obj)["error"] = long
	socket := serve(t, f)
	got := cli(t, at(socket), "", "get", "ni").out
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
	if got := cli(t, at(socket), "", "get", "ni", "-o", "wide").out; !strings.Contains(got, long) {
		t.Errorf("-o wide cuts: %s", got)
	}
}

func TestATableShowsANetworksWarningWhereThereIsNoError(t *testing.T) {
	f := filled()
	st := f.items["ni"][0].Status.(obj)
	st["warning"] = "route lab is left out: no port"
	socket := serve(t, f)
	if got := cli(t, at(socket), "", "get", "ni").out; !strings.HasSuffix(got, "  3    warning: route lab is left out: no port\n") {
		t.Errorf("a warning alone:\n%s", got)
	}
	st["error"] = "no bridge"
	if got := cli(t, at(socket), "", "get", "ni").out; !strings.HasSuffix(got, "  3    no bridge\n") {
		t.Errorf("an error beside it:\n%s", got)
	}
}

func TestAPlanInEveryForm(t *testing.T) {
	f := filled()
	f.changes = []httpapi.Change{{Op: "add", Kind: "link", ID: "es1", Owner: niID}}
	socket := serve(t, f)
	for form, want := range map[string]string{
		"yaml": "changes:\n- op: add\n  kind: link\n  id: es1\n  owner: " + niID + "\n",
		"name": "link/es1\n",
		"wide": "OP   KIND  ID   OWNER\nadd  link  es1  " + niID + "\n",
	} {
		if got := cli(t, at(socket), "{}", "plan", "-f", "-", "-o", form); got != (said{0, want, ""}) {
			t.Errorf("-o %s: %+v", form, got)
		}
	}
}
