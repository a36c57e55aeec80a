package configdbapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// serving is a client of a handler over a connection.
func serving(t *testing.T, b Backend, token string, opts ...Option) *Client {
	t.Helper()
	s := httptest.NewServer(Handler(b, door{}, opts...))
	t.Cleanup(s.Close)
	c, err := NewClient(Options{URL: s.URL, Authorize: WithToken(token)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var here = Place{Environment: 9, Levels: []model.LevelValue{{Level: "role", Value: "a/b"},
	{Level: "nodes", Value: "1"}}, Resource: "override/node"}

// Each method of the client has a route, and sends all its parameters.
func TestTheClientAsksWhatItIsAsked(t *testing.T) {
	f := &fake{}
	c := serving(t, f, "admin")
	ctx := t.Context()
	why := WriteOptions{Message: "why & <how>"}
	five := int64(5)
	var none *int64
	name := "n"
	const place = `"Environment":9,"Levels":[{"level":"role","value":"a/b"},{"level":"nodes","value":"1"}]`
	const by = ` by=ann message="why & <how>" dry=false`
	do := func(_ any, err error) error { return err }
	for _, step := range []struct {
		err   error
		heard string
	}{
		{do(c.Components(ctx)), `Components`},
		{do(c.Component(ctx, 1)), `Component 1`},
		{do(c.CreateComponent(ctx,
			NewComponent{ID: &five, Name: "a<b", Definitions: []NewDefinition{{Name: "x", Content: configdb.JSON(`{"a":1.0}`)}}},
			why)), `Write CreateComponent{"ID":5,"Name":"a\u003cb","Definitions":[{"id":0,"name":"x","component_id":null,"content":{"a":1.0}}]}` + by + `; Component 1`},
		{do(c.CreateComponent(ctx, NewComponent{Name: "a"}, WriteOptions{DryRun: true})),
			`Write CreateComponent{"ID":null,"Name":"a","Definitions":null} by=ann message="" dry=true`},
		{c.EditComponent(ctx, 1, ComponentEdit{Name: &name, Definitions: &[]ByID{{2}}}, why),
			`Write EditComponent{"ID":1,"Name":"n","Definitions":[2]}` + by},
		{c.DeleteComponent(ctx, 1, why), `Write DeleteComponent{"ID":1}` + by},
		{do(c.Definitions(ctx, nil)), `Definitions all`},
		{do(c.Definitions(ctx, &none)), `Definitions none`},
		{do(c.Definition(ctx, 2)), `Definition 2`},
		{do(c.CreateDefinition(ctx, NewDefinition{Name: "x", Component: &five}, why)),
			`Write CreateDefinition{"ID":null,"Name":"x","Component":5,"Content":null}` + by + `; Definition 1`},
		{c.EditDefinition(ctx, 2, DefinitionEdit{Component: &none, Content: configdb.JSON("null")}, why),
			`Write EditDefinition{"ID":2,"Name":null,"Component":null,"Content":null}` + by},
		{c.DeleteDefinition(ctx, 2, why), `Write DeleteDefinition{"ID":2}` + by},
		{do(c.Secrets(ctx, 2)), `Secrets 2`},
		{c.DeclareSecrets(ctx, 2, nil, why), `Write DeclareSecrets{"ID":2,"Keys":[]}` + by},
		{do(c.Environments(ctx)), `Environments`},
		{do(c.Environment(ctx, 9)), `Environment 9`},
		{do(c.CreateEnvironment(ctx, NewEnvironment{Components: []configdb.JSON{configdb.JSON("1"), configdb.JSON(`"1"`)}},
			why)), `Write CreateEnvironment{"ID":null,"Components":[{"ID":1,"Name":""},{"ID":0,"Name":"1"}],"Levels":[]}` + by +
			`; Environment 1`},
		{c.EditEnvironment(ctx, 9, EnvironmentEdit{Levels: &[]string{"a"}}, why),
			`Write EditEnvironment{"ID":9,"Components":null,"Levels":["a"]}` + by},
		{c.DeleteEnvironment(ctx, 9, why), `Write DeleteEnvironment{"ID":9}` + by},
		{do(c.Levels(ctx, 9)), `Levels 9`},
		{do(c.Level(ctx, 9, "nodes")), `Level 9 {ID:0 Name:nodes}`},
		{c.RenameLevel(ctx, 9, "a/b", "c", why),
			`Write RenameLevel{"Environment":9,"Level":{"ID":0,"Name":"a/b"},"Name":"c"}` + by},
		{do(c.Nodes(ctx, 9)), `Nodes 9`},
		{do(c.Node(ctx, 9, "c1")), `Node 9 c1`},
		{c.PutNode(ctx, 9, model.Node{ID: "..", FQDN: "f", Certname: "c"}, why),
			`Write PutNode{"Environment":9,"Node":{"id":"..","fqdn":"f","certname":"c"}}` + by},
		{c.DeleteNode(ctx, 9, "x y", why), `Write DeleteNode{"Environment":9,"ID":"x y"}` + by},
		{do(c.Read(ctx, here, model.Values,
			Read{Effective: true, Lookup: true, Deep: true, Key: "a.b", Version: 2, Revision: 3, Known: `"e0"`})),
			`Answer {Target:{Environment:9 Levels:[{Level:role Value:a/b} {Level:nodes Value:1}] Resource:{ID:0 ` +
				`Name:override/node}} Kind:values Effective:true Lookup:true Key:[a b] Version:2 Revision:3 Deep:true ` +
				`Reveal:true} known=["\"e0\""]`},
		{do(c.Put(ctx, here, model.Overrides, configdb.JSON(`{"a":"<1.0>"}`),
			WriteOptions{Message: "why & <how>", IfMatch: `"e1"`})), `ResolveResource 9 {ID:0 Name:override/node}; Write Put{` +
			place + `,"Resource":{"ID":2,"Name":""},"Kind":"overrides","Value":{"a":"\u003c1.0\u003e"},"IfMatch":["\"e1\""],"Register":false}` + by},
		{do(c.Remove(ctx, here, model.Values, why)), `Write Remove{` + place +
			`,"Resource":{"ID":0,"Name":"override/node"},"Kind":"values","IfMatch":null}` + by},
		{do(c.EditKeys(ctx, here, model.Values,
			configdb.KeysEdit{Op: configdb.KeysDelete, Items: [][]configdb.JSON{{configdb.JSON(`"a"`)}}}, why)),
			`Write EditKeys{` + place +
				`,"Resource":{"ID":0,"Name":"override/node"},"Kind":"values","Edit":{"Op":"delete","Items":[["a"]]},"IfMatch":null,"Register":false}` + by},
		{do(c.Versions(ctx, here, model.Values, 5, 2)),
			`Versions {Target:{Environment:9 Levels:[{Level:role Value:a/b} {Level:nodes Value:1}] Resource:{ID:0 ` +
				`Name:override/node}} Kind:values Before:5 Limit:2}`},
		{do(c.Rollback(ctx, here, model.Values, RollbackBody{Version: 2}, why)), `Write Rollback{` + place +
			`,"Resource":{"ID":0,"Name":"override/node"},"Kind":"values","Version":2,"Revision":0}` + by},
		{do(c.RollbackPlace(ctx, here, 3, why)), `Write Rollback{` + place +
			`,"Resource":{"ID":0,"Name":""},"Kind":"","Version":0,"Revision":3}` + by},
		{do(c.Bulk(ctx, here,
			BulkBody{Resources: map[string]BulkResource{"x": {Values: Document{"a": configdb.JSON("1.0")}}}}, why)),
			`Write Bulk{"Writes":[{` + place +
				`,"Resource":{"ID":0,"Name":"x"},"Kind":"values","Value":{"a":1.0},"IfMatch":null,"Register":true}]}` + by},
		{do(c.HieraData(ctx, here, []string{"a/b", "c"},
			configdb.MergeOptions{Strategy: configdb.MergeDeep, KnockoutPrefix: "--", SortMergedArrays: true,
				MergeHashArrays: true}, "")),
			`Hiera {Environment:9 Levels:[{Level:role Value:a/b} {Level:nodes Value:1}] Resources:[a/b c] ` +
				`Merge:{Strategy:deep KnockoutPrefix:-- SortMergedArrays:true MergeHashArrays:true} Keys:[] Reveal:true} known=[]`},
		{do(c.HieraLookup(ctx, here, LookupBody{Keys: []string{"k"}, Resources: []string{"r"}, Merge: "hash"})),
			`Hiera {Environment:9 Levels:[{Level:role Value:a/b} {Level:nodes Value:1}] Resources:[r] Merge:{Strategy:hash ` +
				`KnockoutPrefix: SortMergedArrays:false MergeHashArrays:false} Keys:[k] Reveal:true} known=[]`},
		{do(c.History(ctx, model.RecordsQuery{Environment: 9, Before: 5, Limit: 2})),
			`Records {Environment:9 Before:5 Limit:2}`},
		{do(c.Revision(ctx, 7)), `Records {Environment:0 Before:8 Limit:1}`},
	} {
		f.mu.Lock()
		heard := f.heard
		f.mu.Unlock()
		if step.err != nil {
			t.Errorf("%s: %v", step.heard, step.err)
			continue
		}
		n := strings.Count(step.heard, "; ") + 1
		if got := strings.Join(heard[:min(n, len(heard))], "; "); got != step.heard {
			t.Errorf("heard\n%s\nwant\n%s", got, step.heard)
		}
		f.mu.Lock()
		f.heard = heard[min(n, len(heard)):]
		f.mu.Unlock()
	}
}

func TestWhatTheClientReads(t *testing.T) {
	f := &fake{}
	c := serving(t, f, "admin")
	got, err := c.Read(t.Context(), here, model.Values, Read{})
	if err != nil || got.Body.String() != `{"a":1.0}` || got.ETag != `"e1"` || got.Version != 3 || got.Revision != 7 {
		t.Errorf("%+v %v", got, err)
	}
	if got, err = c.Read(t.Context(), here, model.Values, Read{Known: got.ETag}); err != nil || got.Body != nil ||
		got.ETag != `"e1"` {
		t.Errorf("what is known already: %+v %v", got, err)
	}
	stored, err := c.Put(t.Context(), here, model.Values, configdb.JSON(`{}`), WriteOptions{})
	if err != nil || stored.ETag != `"e2"` || stored.Version != 4 || stored.Revision != 8 {
		t.Errorf("%+v %v", stored, err)
	}
	if stored, err = c.Put(t.Context(), here, model.Values, configdb.JSON(`{}`), WriteOptions{DryRun: true}); err != nil ||
		!stored.Changed || len(stored.Changes) != 1 {
		t.Errorf("%+v %v", stored, err)
	}
	if ops, err := c.Diff(t.Context(), here, model.Values, 0, 3); err != nil || len(ops) != 1 || ops[0].Op != "add" ||
		ops[0].Path != "/a" || ops[0].Value.String() != "1.0" {
		t.Errorf("%+v %v", ops, err)
	}
	if vs, err := c.GetKeys(t.Context(), here, model.Values, [][]configdb.JSON{{configdb.JSON(`"a"`)}}); err != nil ||
		len(vs) != 1 || vs[0].String() != "1.0" {
		t.Errorf("%s %v", vs, err)
	}
	if d, err := c.Definition(t.Context(), 1); err != nil || d.Content.String() != `{"d":1.0}` || *d.Component != 1 {
		t.Errorf("%+v %v", d, err)
	}
}

func TestErrorsOfTheClient(t *testing.T) {
	for token, want := range map[string]error{"guess": rest.ErrPermission, "busy": rest.ErrBusy} {
		if _, err := serving(t, &fake{}, token).Components(t.Context()); !errors.Is(err, want) {
			t.Errorf("%s: %v", token, err)
		}
	}
	_, err := serving(t, &fake{}, "admin").Component(t.Context(), 4)
	var e *Error
	if !errors.As(err, &e) || e.Status != 404 || e.Msg != "component not found by 4" ||
		!errors.Is(err, rest.ErrNotFound) {
		t.Errorf("%#v", err)
	}
	for kind, want := range map[model.ErrorKind]error{model.Conflict: rest.ErrConflict,
		model.Stale: rest.ErrConflict, model.NotFound: rest.ErrNotFound} {
		c := serving(t, &fake{err: &model.RequestError{Kind: kind, Text: "why"}}, "admin")
		if err := c.DeleteComponent(t.Context(), 1, WriteOptions{}); !errors.Is(err, want) || err.Error() != "why" {
			t.Errorf("%d: %v", kind, err)
		}
	}
	s := httptest.NewServer(http.NotFoundHandler())
	c, err := NewClient(Options{URL: s.URL + "/somewhere"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Components(t.Context()); err == nil || !strings.Contains(err.Error(), "is it ConfigDB?") {
		t.Errorf("%v", err)
	}
	s.Close()
	if _, err := c.Components(t.Context()); !errors.Is(err, rest.ErrUnreachable) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, err := c.Components(ctx); !errors.Is(err, rest.ErrTimeout) {
		t.Errorf("%v", err)
	}
	for _, u := range []string{"", "host", "ftp://host", "http://u:p@host", "http://host?x"} {
		if _, err := NewClient(Options{URL: u}); err == nil {
			t.Errorf("%s: is allowed", u)
		}
	}
}

// A redirect is followed with the caller's credentials and the complete request, and never to another host.
func TestRedirectsStayWithTheHost(t *testing.T) {
	var asked []string
	var to string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 100)
		n, _ := r.Body.Read(body)
		asked = append(asked, fmt.Sprint(r.Method, " ", r.URL,
			" ", r.Header.Get("X-Auth-Token"), " ", r.Header.Get("If-Match"), " ", strings.TrimSpace(string(body[:n]))))
		if len(asked) == 1 || to == "again" {
			w.Header().Set("Location", strings.ReplaceAll(to, "HOST", r.Host))
			w.WriteHeader(308)
			_, _ = w.Write([]byte("<html>"))
			return
		}
		w.WriteHeader(204)
	}))
	t.Cleanup(s.Close)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("another host is asked: %s %v", r.URL, r.Header)
		w.WriteHeader(204)
	}))
	t.Cleanup(other.Close)
	c, err := NewClient(Options{URL: s.URL + "/api/config/", Authorize: WithToken("t")})
	if err != nil {
		t.Fatal(err)
	}
	for location, ok := range map[string]bool{
		"https://HOST/api/config/x/5/values?message=m": true, "/api/config/x/5/values": true, "5": true,
		other.URL + "/api/config/x/5/values": false, "": false, "again": false, "://": false,
	} {
		asked, to = nil, location
		_, err := c.Put(t.Context(), here, model.Values, configdb.JSON(`{"a":1}`), WriteOptions{Message: "m", IfMatch: `"e"`})
		if (err == nil) != ok {
			t.Errorf("%q: %v", location, err)
		}
		if ok && (len(asked) != 2 || !strings.HasPrefix(asked[1], "PUT /api/config/") ||
			!strings.HasSuffix(asked[1], ` t "e" {"a":1}`)) {
			t.Errorf("%q: asked %q", location, asked)
		}
		if len(asked) > 4 {
			t.Errorf("%q: asked %d times", location, len(asked))
		}
	}
}
