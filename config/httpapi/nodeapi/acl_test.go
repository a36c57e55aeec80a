package nodeapi

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAskingAboutAFlow(t *testing.T) {
	t.Parallel()
	var asked FlowQuery
	b := calling("web")
	b.flow = func(q FlowQuery) (FlowVerdict, error) { asked = q; return FlowVerdict{}, nil }
	id := b.items["app"][0].ID + "/0"
	for query, want := range map[string]FlowQuery{
		"to=8.8.8.8":                             {Remote: "8.8.8.8"},
		"to=h&port=443":                          {Remote: "h", Port: 443},
		"from=h&in=wan&protocol=udp&port=9":      {Remote: "h", Incoming: true, In: "wan", Protocol: "udp", Port: 9},
		"from=h&port=9&sourcePort=7&protocol=17": {Remote: "h", Incoming: true, Port: 9, SourcePort: 7, Protocol: "17"},
	} {
		want.Adapter = id
		if rec := ask(t, b, "GET", "/v1/acl/explain?adapter=web/0&"+query, ""); rec.Code != 200 || asked != want {
			t.Errorf("%s: %d %s, asks %+v", query, rec.Code, rec.Body, asked)
		}
	}
	for query, code := range map[string]int{"": 400, "to=a&from=b": 400, "to=a&in=wan": 400, "to=a&port=0": 400,
		"to=a&port=x": 400, "to=a&port=1&sourcePort=65536": 400, "to=a&protocol=tcp": 400, "to=a&protocol=99&port=1": 400} {
		if rec := ask(t, b, "GET", "/v1/acl/explain?adapter=web/0&"+query, ""); rec.Code != code {
			t.Errorf("%s: %d %s", query, rec.Code, rec.Body)
		}
	}
	if rec := ask(t, b, "GET", "/v1/acl/explain?adapter=nobody/0&to=a", ""); rec.Code != 404 {
		t.Errorf("an unknown app: %d %s", rec.Code, rec.Body)
	}
}

func TestAskingForRules(t *testing.T) {
	t.Parallel()
	asked := ""
	b := calling("web")
	b.rules = func(app, index string) (AppRules, error) { asked = app + " " + index; return AppRules{}, nil }
	id := b.items["app"][0].ID
	for of, want := range map[string]string{"app/web": id + " ", "app/web/0": id + " 0", "app/" + id + "/7": id + " 7"} {
		if rec := ask(t, b, "GET", "/v1/acl/rules?of="+of, ""); rec.Code != 200 || asked != want {
			t.Errorf("%s: %d %s, asks %q", of, rec.Code, rec.Body, asked)
		}
	}
	for of, code := range map[string]int{"": 400, "app/": 400, "ni/web": 400, "app/nobody": 404} {
		if rec := ask(t, b, "GET", "/v1/acl/rules?of="+of, ""); rec.Code != code {
			t.Errorf("%q: %d %s", of, rec.Code, rec.Body)
		}
	}
}

func TestEnforceTravels(t *testing.T) {
	b := populated()
	want := Enforced{Config: "a:7", Adapters: []string{appID + "/0"}, Warnings: []string{"the file"},
		Flows: FlowChanges{List: []FlowChange{{Verdict: "deny", From: "adapter/x/0", To: "outside", Flows: []string{"any"}}},
			LeftOut: 3, Incomplete: true}}
	b.enforced = want
	socket, _ := start(t, b)
	c := client(t, socket)
	got, err := c.Enforce(t.Context(), appID, "0", EnforceOptions{DryRun: true})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	how := EnforceOptions{Replaces: "a:7", Confirm: time.Minute, By: "ann & co", Caller: "uid 4711"} // which no one believes
	if _, err := c.Enforce(t.Context(), strings.ToUpper(appID), "", how); err != nil {
		t.Error(err)
	}
	how.Caller = self()
	if want := []string{fmt.Sprintf("enforce %s %q %+v", appID, "0",
		EnforceOptions{DryRun: true, Caller: self()}),
		fmt.Sprintf("enforce %s %q %+v", appID, "", how)}; !slices.Equal(b.asked, want) {
		t.Errorf("asked was %q, want %q", b.asked, want)
	}
	b.enforced = Enforced{}
	if rec := ask(t, b, "POST", "/v1/acl/enforce?of=app/"+appID, ""); strings.Contains(rec.Body.String(), "null") {
		t.Errorf("%s", rec.Body)
	}
	b.asked = nil
	for _, wrong := range []string{"of=ni/" + appID, "of=app/", "", "of=app/" + appID + "&dryRun=2",
		"of=app/" + appID + "&confirm=1", "of=app/" + appID + "&local=1"} {
		if rec := ask(t, b, "POST", "/v1/acl/enforce?"+wrong, ""); rec.Code != http.StatusBadRequest || len(b.asked) > 0 {
			t.Errorf("%s: %d %s", wrong, rec.Code, rec.Body)
		}
	}
	if rec := ask(t, b, "POST", "/v1/acl/enforce?of=app/nobody", ""); rec.Code != http.StatusNotFound {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}
