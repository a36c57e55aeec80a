package configdbapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
)

// fake is a Backend that records its calls and knows component 1 (fuel) with the definitions 1 (astute), 2
// (override/node) and 5 (x/values), and environment 9 with the levels role and nodes, in which node 1 (n1.example,
// certname c1, of the role r) is registered.
type fake struct {
	mu      sync.Mutex
	heard   []string
	answer  model.Answer  // nil: anAnswer
	err     error         // of every call
	same    bool          // writes change nothing
	opens   bool          // environment 9 lets nodes register themselves
	hold    chan struct{} // calls wait for it
	held    chan struct{}
	pending chan model.Record
}

var anAnswer = model.Answer{Body: []byte(`{"a":1.0}`), ETag: `"e1"`, Version: 3, Revision: 7}

func (f *fake) note(format string, args ...any) error {
	f.mu.Lock()
	f.heard = append(f.heard, fmt.Sprintf(format, args...))
	f.mu.Unlock()
	if f.hold != nil {
		f.held <- struct{}{}
		<-f.hold
	}
	return f.err
}

func (f *fake) taken() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := strings.Join(f.heard, "; ")
	f.heard = nil
	return out
}

var (
	one         int64 = 1
	definitions       = map[int64]model.Definition{
		1: {ID: 1, Name: "astute", Component: &one, Content: configdb.JSON(`{"d":1.0}`)},
		2: {ID: 2, Name: "override/node", Component: &one},
		5: {ID: 5, Name: "x/values"},
	}
	environment = model.Environment{ID: 9, Components: []int64{1}, Levels: []string{"role", "nodes"}}
	component   = model.Component{ID: 1, Name: "fuel", Definitions: []model.Definition{definitions[1], definitions[2]}}
	levels      = []model.Level{{ID: 3, Name: "role", Environment: 9},
		{ID: 4, Name: "nodes", Environment: 9, Parent: new("role"), Values: []string{"1"}}}
	nodes = []model.Node{{ID: "1", FQDN: "n1.example", Certname: "c1", Levels: map[string]string{"role": "r"}},
		{ID: "2"}}
	moment = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	record = model.Record{Revision: 7, Time: moment, Author: "ann", Message: "why", Changes: []model.Change{
		{What: "values", Did: "changed", Environment: 9, Levels: []model.LevelValue{{Level: "nodes", Value: "1"}},
			Resource: 1, Version: 3},
	}}
)

func missing(format string, args ...any) error {
	return &model.RequestError{Kind: model.NotFound, Text: fmt.Sprintf(format, args...)}
}

func (f *fake) Components(_ context.Context, _ bool) ([]model.Component, error) {
	return []model.Component{component, {ID: 2, Name: "empty"}}, f.note("Components")
}

func (f *fake) Component(_ context.Context, id int64, _ bool) (model.Component, error) {
	if err := f.note("Component %d", id); err != nil || id == 1 {
		return component, err
	}
	return model.Component{}, missing("component not found by %d", id)
}

func (f *fake) Definitions(_ context.Context, c **int64, _ bool) ([]model.Definition, error) {
	of := "all"
	if c != nil {
		of = "none"
		if *c != nil {
			of = fmt.Sprint(**c)
		}
	}
	return []model.Definition{definitions[1], definitions[2]}, f.note("Definitions %s", of)
}

func (f *fake) Definition(_ context.Context, id int64, _ bool) (model.Definition, error) {
	err := f.note("Definition %d", id)
	if d, ok := definitions[id]; ok || err != nil {
		return d, err
	}
	return model.Definition{}, missing("resource_definition not found by %d", id)
}

func (f *fake) Secrets(_ context.Context, id int64) ([]string, error) {
	return []string{"a.*"}, f.note("Secrets %d", id)
}

func (f *fake) Environments(context.Context) ([]model.Environment, error) {
	return []model.Environment{environment, {ID: 10}}, f.note("Environments")
}

func (f *fake) Environment(_ context.Context, id int64) (model.Environment, error) {
	if err := f.note("Environment %d", id); err != nil || id == 9 || id == 1 {
		e := environment
		e.SelfRegistration = f.opens
		return e, err
	}
	return model.Environment{}, missing("environment not found by %d", id)
}

func (f *fake) Levels(_ context.Context, e int64) ([]model.Level, error) {
	return levels, f.note("Levels %d", e)
}

func (f *fake) Level(_ context.Context, e int64, l model.Ref) (model.Level, error) {
	if err := f.note("Level %d %+v", e, l); err != nil || l.Name == "nodes" || l.ID == 4 {
		return levels[1], err
	}
	return model.Level{}, missing("level not found")
}

func (f *fake) Nodes(_ context.Context, e int64) ([]model.Node, error) {
	return nodes, f.note("Nodes %d", e)
}

func (f *fake) Node(_ context.Context, e int64, name string) (model.Node, error) {
	if err := f.note("Node %d %s", e, name); err != nil {
		return model.Node{}, err
	}
	for _, n := range nodes {
		if e == 9 && slices.Contains([]string{n.ID, n.FQDN, n.Certname}, name) {
			return n, nil
		}
	}
	return model.Node{}, missing("node not found by %s", name)
}

func (f *fake) ResolveResource(_ context.Context, e int64, r model.Ref) (model.Definition, error) {
	if err := f.note("ResolveResource %d %+v", e, r); err != nil {
		return model.Definition{}, err
	}
	for id, d := range definitions {
		if e == 9 && (d.Name == r.Name || id == r.ID) {
			return d, nil
		}
	}
	return model.Definition{}, missing("resource_definition not found by %s in environment %d", r.Name, e)
}

func (f *fake) found(known []string) model.Answer {
	a := f.answer
	if a.Body == nil {
		a = anAnswer
	}
	if slices.Contains(known, a.ETag) {
		a.Body = nil
	}
	return a
}

func (f *fake) Answer(_ context.Context, q model.Query, known []string) (model.Answer, error) {
	if err := f.note("Answer %+v known=%q", q, known); err != nil {
		return model.Answer{}, err
	}
	return f.found(known), nil
}

func (f *fake) Keys(_ context.Context, q model.Query, e configdb.KeysEdit) (model.Answer, error) {
	return model.Answer{Body: []byte(`[1.0]`), ETag: `"k1"`, Revision: 7}, f.note("Keys %+v %s %s", q, e.Op, e.Items)
}

func (f *fake) Hiera(_ context.Context, q model.HieraQuery, known []string) (model.Answer, error) {
	if err := f.note("Hiera %+v known=%q", q, known); err != nil {
		return model.Answer{}, err
	}
	return f.found(known), nil
}

func (f *fake) Write(_ context.Context, w WriteRequest) (model.Written, error) {
	err := f.note("Write %s by=%s message=%q dry=%v", spellWrite(w.Write), w.Author, w.Message, w.DryRun)
	return model.Written{Revision: 8, Changed: !f.same, ETag: `"e2"`, Version: 4, ID: 1, Changes: record.Changes}, err
}

func spellWrite(w model.Write) string {
	text, err := json.Marshal(w)
	if err != nil {
		return err.Error()
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", w), "model.") + string(text)
}

func (f *fake) Versions(_ context.Context, q model.VersionsQuery) ([]model.Version, error) {
	return []model.Version{{Number: 3, Revision: 7, Time: moment, Author: "ann", SHA256: "ab", Size: 9}},
		f.note("Versions %+v", q)
}

func (f *fake) Records(_ context.Context, q model.RecordsQuery) ([]model.Record, error) {
	return []model.Record{record}, f.note("Records %+v", q)
}

func (f *fake) Watch(ctx context.Context, after uint64, deliver func(model.Record) error) error {
	if err := f.note("Watch %d", after); err != nil {
		return err
	}
	for {
		select {
		case r := <-f.pending:
			if err := deliver(r); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// door authenticates callers by the text of X-Auth-Token.
type door struct{}

var callers = map[string]Caller{
	"viewer": {Name: "vera", Role: Viewer}, "operator": {Name: "olga", Role: Operator},
	"admin": {Name: "ann", Role: Admin},
	"node":  {Name: "node 1", Role: Operator, Node: "1"}, "new": {Name: "node new", Role: Viewer, Node: "new"},
	"cert": {Name: "certname c1", Certname: "c1"}, "newcert": {Name: "certname c9", Certname: "c9"},
}

func (door) Authenticate(r *http.Request) (Caller, error) {
	token := r.Header.Get("X-Auth-Token")
	switch c, ok := callers[token]; {
	case ok:
		return c, nil
	case token == "busy":
		return Caller{}, &Denied{Status: 503, Text: "Keystone is away", Wait: 3 * time.Second}
	case token == "broken":
		return Caller{}, errors.New("a secret of the house")
	}
	return Caller{}, &Denied{Status: 401, Text: "a token is needed"}
}

func (door) Challenges() []string {
	return []string{`Keystone uri="http://ks"`, `Basic realm="edgespan"`}
}

// asked is one request of a test.
type asked struct {
	method, target, token, body string
	header                      map[string]string
}

// ask sends one request; a target without / is below the first prefix, one without a token uses an admin's.
func ask(h http.Handler, q asked) *httptest.ResponseRecorder {
	if !strings.HasPrefix(q.target, "/") && !strings.HasPrefix(q.target, "http") {
		q.target = Prefixes[0] + q.target
	}
	r := httptest.NewRequest(q.method, q.target, strings.NewReader(q.body))
	if q.token == "" {
		q.token = "admin"
	}
	r.Header.Set("X-Auth-Token", q.token)
	for k, v := range q.header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// msgOf returns the text of an error, which must be all that its body has.
func msgOf(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil || len(m) != 1 {
		t.Fatalf("%d %q: no {\"msg\"}: %v", w.Code, w.Body, err)
	}
	text, ok := m["msg"].(string)
	if !ok || text == "" || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %q %v: no {\"msg\"}", w.Code, w.Body, w.Header())
	}
	return text
}

var (
	_ Backend       = (*fake)(nil)
	_ Authenticator = door{}
)
