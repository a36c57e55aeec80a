package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"edgespan/config/httpapi/rest"
)

// hostile are display names that mean something to a URL, a terminal, or a shell, or are very long.
var hostile = []string{"..", ".", "/", "a/../b", "web/0", "x/ready", " ", "a b", "\x1b[31m\n\x00", "?a=b#c", "%2e%2e",
	"größe",
	"ni/web", strings.Repeat("long ", 2<<10)}

const (
	idA = "a0000000-0000-4000-8000-000000000001"
	idB = "a0000000-0000-4000-8000-000000000002"
)

// calling returns a daemon with an app for each of these names.
func calling(names ...string) *fakeBackend {
	b := &fakeBackend{items: map[string][]Resource{}}
	for i, name := range names {
		id := fmt.Sprintf("a0000000-0000-4000-8000-%012x", i+1)
		b.items["app"] = append(b.items["app"], Resource{ID: id, Kind: "app", Spec: AppSpec{DisplayName: name}})
		b.items["adapter"] = append(b.items["adapter"], Resource{ID: id + "/0", Kind: "adapter"})
		b.items["ni"] = append(b.items["ni"], Resource{ID: id, Kind: "ni", Status: NetworkStatus{DisplayName: name}})
	}
	b.explain = func(kind, id string) (Explanation, error) { return Explanation{Object: kind + "/" + id}, nil }
	b.diff = func(of string) ([]Difference, error) { return []Difference{{Owner: of}}, nil }
	return b
}

func TestAnObjectIsFoundByItsDisplayName(t *testing.T) {
	t.Parallel()
	many := make([]string, 12)
	for i := range many {
		many[i] = "web"
	}
	for _, c := range []struct {
		sentence string
		names    []string
		of, want string // the object that is found, or its error
		err      error
	}{
		{"a name of its own", []string{"db", "web"}, "app/web", "app/" + idB, nil},
		{"a network has one too", []string{"db", "web"}, "ni/web", "ni/" + idB, nil},
		{"an adapter by that of its app", []string{"db", "web"}, "adapter/web/0", "adapter/" + idB + "/0", nil},
		{"as app/NAME/INDEX too", []string{"db", "web"}, "app/web/0", "app/" + idB + "/0", nil},
		{"which no other app's name shadows", []string{"web", "web/0"}, "app/web/0", "app/" + idA + "/0", nil},
		{"a name with a slash where no app has the part before it", []string{"db", "web/0"}, "app/web/0", "app/" + idB, nil},
		{"what is no index belongs to the name", []string{"..", "../x"}, "app/../x", "app/" + idB, nil},
		{"letters count", []string{"Web"}, "app/web", "not found", rest.ErrNotFound},
		{"nothing has it", []string{"db"}, "app/web", "app web: not found: no app has this UUID or display name",
			rest.ErrNotFound},
		{"none has no name", []string{"", ""}, "app/", "app/", nil},
		{"two have it", []string{"web", "web"}, "app/web", "app web: matches 2 apps: use one of UUIDs " + idA + ", " + idB,
			rest.ErrConflict},
		{"two networks have it", []string{"web", "web"}, "ni/web", "ni web: matches 2 network instances: use one of UUIDs " +
			idA,
			rest.ErrConflict},
		{"many have it", many, "adapter/web/0", "00a and 2 more", rest.ErrConflict},
		{"a name that is spelled as a UUID stands for nothing", []string{idB, "db"}, "app/" + idB, "app/" + idB, nil},
		{"nor does one of a UUID that is none", []string{"A0000000-0000-4000-8000-0000000000ff"},
			"app/A0000000-0000-4000-8000-0000000000ff", "app/A0000000-0000-4000-8000-0000000000ff", nil},
		{"a spelling that UUIDs do not have is a name", []string{"db", "{" + idA + "}"}, "app/{" + idA + "}", "app/" + idB,
			nil},
		{"ports have no other name", []string{"db"}, "port/db", "port/db", nil},
		{"all objects", []string{"db"}, "", "", nil},
	} {
		got, err := identified(t.Context(), calling(c.names...), c.of)
		if !errors.Is(err, c.err) || err == nil && got != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v", c.sentence, got, err)
		}
	}
	missing := calling("db")
	missing.err = &rest.Incomplete{Missing: []string{"app " + idB}}
	if _, err := identified(t.Context(), missing, "app/web"); !errors.Is(err, rest.ErrBusy) {
		t.Errorf("what did not answer may have the name: %v", err)
	}
	if got, err := identified(t.Context(), missing, "app/db"); got != "app/"+idA || err != nil {
		t.Errorf("one that did answer: %s, %v", got, err)
	}
}

// Whatever a display name contains, its object is found by it on every route, and no other object is.
func TestHostileDisplayNames(t *testing.T) {
	t.Parallel()
	b := calling(append([]string{"other"}, hostile...)...)
	srv := httptest.NewServer(Handler(b))
	t.Cleanup(srv.Close)
	c := NewClient("unused")
	c.Base, c.Transport = srv.URL, srv.Client().Transport
	ctx := t.Context()
	for i, name := range hostile {
		id := b.items["app"][i+1].ID
		for kind, want := range map[string]string{"app": id, "ni": id, "adapter": id + "/0"} {
			asked := name
			if kind == "adapter" {
				asked += "/0"
			}
			if got, err := c.Get(ctx, kind, asked); err != nil || got.ID != want {
				t.Errorf("get %s %.20q: %s, %v", kind, asked, got.ID, err)
			}
			if got, err := c.Explain(ctx, kind, asked); err != nil || got.Object != kind+"/"+want {
				t.Errorf("explain %s %.20q: %s, %v", kind, asked, got.Object, err)
			}
		}
		b.asked = nil
		// net/http treats a segment that is a slash as the end of the path: wait resolves the UUID first.
		if _, err := c.Ready(ctx, "app", name); name != "/" && (err != nil || b.asked[len(b.asked)-1] != "ready app "+id) {
			t.Errorf("wait %.20q: asked %q, %v", name, b.asked, err)
		}
		if got, err := c.Diff(ctx, "ni/"+name); err != nil || got[0].Owner != "ni/"+id {
			t.Errorf("diff %.20q: %v, %v", name, got, err)
		}
		q := make(chan EventQuery, 1)
		b.asks = q
		if err := c.Events(ctx, EventQuery{Of: "app/" + name}, nil); err != nil || (<-q).Of != "app/"+id {
			t.Errorf("events %.20q: %v", name, err)
		}
		_, err := c.Get(ctx, "app", name+"!")
		if !errors.Is(err, rest.ErrNotFound) || len(err.Error()) > 300 ||
			strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Errorf("get %.20q!: %v", name, err)
		}
	}
	b.items["app"] = append(b.items["app"], b.items["app"]...)
	for _, of := range []string{"explain?of=app%2Fother", "events?of=adapter%2Fother%2F0", "app/other", "adapter/other/0",
		"app/other/ready", "diff?of=app%2Fother"} {
		if rec := ask(t, b, "GET", "/v1/"+of, ""); rec.Code != 409 || !strings.Contains(rec.Body.String(), "matches 2 apps") {
			t.Errorf("%s: %d %s", of, rec.Code, rec.Body)
		}
	}
}

// A UUID is not looked up among the names: that would list all objects for each request of wait.
func TestAUUIDIsNotLookedFor(t *testing.T) {
	t.Parallel()
	b := calling("web")
	for _, of := range []string{"ni/" + idA, "app/" + strings.ToUpper(idA), "app/" + idA + "/0", "adapter/" + idA + "/0",
		"host",
		"config", "port/wan", "actor/router"} {
		if got, err := identified(context.Background(), b, of); got != of || err != nil || len(b.asked) > 0 {
			t.Errorf("%s: %s, %v, asked %q", of, got, err, b.asked)
		}
	}
	if rec := ask(t, b, "GET", "/v1/explain?of="+url.QueryEscape("app/nobody"), ""); rec.Code != 404 {
		t.Errorf("nothing has this name: %d %s", rec.Code, rec.Body)
	}
}
