package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/rest"
)

const (
	niID  = "6f1c2f30-0000-4000-8000-00000000000a"
	appID = "6f1c2f30-0000-4000-8000-00000000000b"
)

func populated() *fakeBackend {
	return &fakeBackend{
		checks: []Check{{Name: "config", OK: true}},
		items: map[string][]Resource{
			"ni": {{ID: niID, Kind: "ni", Spec: map[string]any{"type": "local"},
				Status: map[string]any{"state": "Present"}}},
			"adapter": {{ID: appID + "/0", Kind: "adapter"}, {ID: appID + "/1", Kind: "adapter"}},
			"port":    {{ID: "a b/ü", Kind: "port"}},
		},
		ready:  Readiness{Why: "Creating"},
		looker: looker{logged: []FlowRecord{{Kind: FlowEnded, Adapter: "adapter/" + appID + "/0", Rule: "out"}}},
	}
}

func ask(t *testing.T, b Backend, method, target, body string) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	Handler(b, WithVersion("v1.2.3")).ServeHTTP(rec, httptest.NewRequest(method, target, strings.NewReader(body)))
	if !json.Valid(rec.Body.Bytes()) {
		t.Errorf("%s %s: answer is not JSON: %q", method, target, rec.Body)
	}
	want := "application/json"
	if rec.Code != http.StatusOK {
		want = "application/problem+json"
		var p rest.Problem
		if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil || p.Status != rec.Code || p.Title == "" || p.Type == "" ||
			p.Detail == "" {
			t.Errorf("%s %s: no complete problem: %s", method, target, rec.Body)
		}
	}
	if got := rec.Header().Get("Content-Type"); got != want {
		t.Errorf("%s %s: Content-Type %q, want %q", method, target, got, want)
	}
	return rec
}

func TestRoutes(t *testing.T) {
	for _, c := range []struct {
		name, method, target string
		code                 int
		body, asked          string // part of the answer; the backend's record
	}{
		{"apply", "POST", "/v1/apply", 200, `{"warnings":[]}`, "apply"},
		{"apply with dryRun=0", "POST", "/v1/apply?dryRun=0", 200, `{"warnings":[]}`, "apply"},
		{"plan", "POST", "/v1/apply?dryRun=1", 200, `{"changes":[]}`, "plan"},
		{"a dryRun that is neither", "POST", "/v1/apply?dryRun=yes", 400, "must be 0 or 1", ""},
		{"apply is no GET", "GET", "/v1/apply", 404, "must be one of ni app adapter port tunnel lease dns param actor config pending", ""},
		{"list", "GET", "/v1/ni", 200, `"id":"` + niID, "list ni"},
		{"an empty list is [] and not null", "GET", "/v1/param", 200, `{"items":[]}`, "list param"},
		{"unknown kind", "GET", "/v1/pod", 404, "must be one of ni app adapter port tunnel lease dns param actor config pending", ""},
		{"one object", "GET", "/v1/ni/" + niID, 200, `{"id":"` + niID, "list ni"},
		{"a uuid in capitals", "GET", "/v1/ni/" + strings.ToUpper(niID), 200, `{"id":"` + niID, "list ni"},
		{"an adapter's id has a slash", "GET", "/v1/adapter/" + appID + "/1", 200, `{"id":"` + appID + `/1"`, "list adapter"},
		{"an escaped id", "GET", "/v1/port/a%20b%2F%C3%BC", 200, `"id":"a b/ü"`, "list port"},
		{"only ids of uuids ignore case", "GET", "/v1/port/A%20b%2F%C3%BC", 404, "not found", "list port"},
		{"unknown id", "GET", "/v1/ni/nobody", 404, "get ni nobody: not found", "list ni"},
		{"readiness", "GET", "/v1/ni/" + niID + "/ready", 200, `{"ready":false,"absent":false,"why":"Creating"}`,
			"ready ni " + niID},
		{"readiness of an app", "GET", "/v1/app/x/ready", 200, `"why":"Creating"`, "list app,ready app x"},
		{"readiness of what has none", "GET", "/v1/port/x/ready", 404, "must be one of ni app", ""},
		{"version", "GET", "/v1/version", 200, `{"version":"v1.2.3"}`, ""},
		{"livez asks nobody", "GET", "/livez", 200, "ok", ""},
		{"the flow log of a port", "GET", "/v1/flows?of=port/x", 400, "must be ni, app or adapter", ""},
		{"too many lines", "GET", "/v1/flows?last=10001", 400, "must be 0 to 10000", ""},
		{"readyz", "GET", "/readyz", 200, `{"status":"ok"}`, "list ni"},
		{"readyz with its checks", "GET", "/readyz?verbose", 200,
			`{"status":"ok","checks":[{"name":"config","ok":true},{"name":"networks","ok":true}]}`, "list ni"},
		{"no metrics without a page", "GET", "/metrics", 404, "no such route", ""},
		{"no such route", "GET", "/v2/ni", 404, "no such route", ""},
		{"wrong method", "POST", "/v1/ni", 405, "must be GET", ""},
		{"wrong method on apply", "PUT", "/v1/apply", 405, "POST", ""},
		{"an unclean path is no redirect", "GET", "/v1//ni", 404, "no such route", ""},
		{"a path with dots", "GET", "/v1/ni/../app", 404, "no such route", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := populated()
			rec := ask(t, b, c.method, c.target, "{}")
			if rec.Code != c.code || !strings.Contains(rec.Body.String(), c.body) {
				t.Errorf("got %d %s\nwant %d with %s", rec.Code, rec.Body, c.code, c.body)
			}
			if got := strings.Join(b.asked, ","); got != c.asked {
				t.Errorf("backend was asked %q, want %q", got, c.asked)
			}
			if c.code == 405 && rec.Header().Get("Allow") == "" {
				t.Error("405 without Allow (RFC 9110 §15.5.6)")
			}
		})
	}
}

func TestApplyHandsTheDocumentOverUnchanged(t *testing.T) {
	b := populated()
	doc := "# a comment\nports: {}\n"
	ask(t, b, "POST", "/v1/apply", doc)
	ask(t, b, "POST", "/v1/apply?dryRun=1", doc)
	if len(b.docs) != 2 || string(b.docs[0]) != doc || string(b.docs[1]) != doc {
		t.Errorf("backend got %q", b.docs)
	}
}

func TestErrorsHaveTheirStatus(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{&rest.Rejected{Faults: []string{"a: b", "c: d"}}, 422},
		{fmt.Errorf("apply: %w", &rest.Rejected{Faults: []string{"a: b"}}), 422},
		{fmt.Errorf("apply: %w", rest.ErrConflict), 409},
		{fmt.Errorf("apply: %w", rest.ErrBusy), 503},
		{fmt.Errorf("apply: %w", rest.ErrNotFound), 404},
		{fmt.Errorf("apply: %w", rest.ErrPermission), 403},
		{fmt.Errorf("ask router: %w", context.DeadlineExceeded), 504},
		{errors.New("disk is full"), 500},
	} {
		for _, target := range []string{"POST /v1/apply", "POST /v1/apply?dryRun=1", "GET /v1/ni", "GET /v1/ni/x",
			"GET /v1/ni/x/ready"} {
			method, path, _ := strings.Cut(target, " ")
			rec := ask(t, &fakeBackend{err: c.err}, method, path, "{}")
			if rec.Code != c.code {
				t.Errorf("%s with %q: got %d, want %d", target, c.err, rec.Code, c.code)
			}
		}
	}
}

func TestEveryFaultIsListed(t *testing.T) {
	rec := ask(t, &fakeBackend{err: &rest.Rejected{Faults: []string{"a: b", "c: d"}}}, "POST", "/v1/apply", "{}")
	var faults []string
	p := rest.Problem{Errors: &faults}
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil || !slices.Equal(faults, []string{"a: b", "c: d"}) {
		t.Errorf("got %s", rec.Body)
	}
}

func TestABodyAboveTheLimitIs413AndNeverReachesTheBackend(t *testing.T) {
	for _, n := range []int{MaxDocument, MaxDocument + 1} {
		b := populated()
		rec := ask(t, b, "POST", "/v1/apply", strings.Repeat(" ", n))
		if n <= MaxDocument && (rec.Code != 200 || len(b.docs) != 1) {
			t.Errorf("%d octets: got %d", n, rec.Code)
		}
		if n > MaxDocument && (rec.Code != 413 || len(b.docs) != 0) {
			t.Errorf("%d octets: got %d, %d documents", n, rec.Code, len(b.docs))
		}
	}
}

func TestAnIncompleteListSaysWhatIsMissing(t *testing.T) {
	b := populated()
	b.err = &rest.Incomplete{Missing: []string{"ni-2: no answer in 1s"}}
	if rec := ask(t, b, "GET", "/v1/ni", ""); rec.Code != 200 ||
		!strings.Contains(rec.Body.String(), `"missing":["ni-2: no answer in 1s"]`) {
		t.Errorf("got %d %s", rec.Code, rec.Body)
	}
	if rec := ask(t, b, "GET", "/v1/ni/"+niID, ""); rec.Code != 200 {
		t.Errorf("the part that is there: got %d", rec.Code)
	}
	if rec := ask(t, b, "GET", "/v1/ni/ni-2", ""); rec.Code != 503 {
		t.Errorf("what may be in the missing part is not 'not found': got %d", rec.Code)
	}
}

func TestReadyzFailsWhereNetworksCannotBeListed(t *testing.T) {
	if rec := ask(t, &fakeBackend{err: errors.New("no router")}, "GET", "/readyz", ""); rec.Code != 503 {
		t.Errorf("got %d", rec.Code)
	}
	sick := &fakeBackend{checks: []Check{{Name: "config", OK: true}, {Name: "host", Detail: "iptables: not found"}}}
	for target, want := range map[string]string{
		"/readyz":         `"detail":"host: iptables: not found"}`,
		"/readyz?verbose": `"errors":[{"name":"config","ok":true},{"name":"host","ok":false,"detail":"iptables: not found"},`,
	} {
		if rec := ask(t, sick, "GET", target, ""); rec.Code != 503 || !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d %s", target, rec.Code, rec.Body)
		}
	}
	if rec := ask(t, &fakeBackend{err: errors.New("no router")}, "GET", "/livez", ""); rec.Code != 200 {
		t.Errorf("livez: got %d", rec.Code)
	}
}

type panicking struct{ fakeBackend }

func (*panicking) List(context.Context, string) ([]Resource, error) { panic("no such thing") }

func TestAPanicIsAnAnswer(t *testing.T) {
	if rec := ask(t, &panicking{}, "GET", "/v1/ni", ""); rec.Code != 500 ||
		!strings.Contains(rec.Body.String(), "no such thing") {
		t.Errorf("got %d %s", rec.Code, rec.Body)
	}
}

func TestAStatusThatJSONCannotHoldIsAnError(t *testing.T) {
	b := &fakeBackend{items: map[string][]Resource{"ni": {{ID: "x", Kind: "ni", Status: make(chan int)}}}}
	if rec := ask(t, b, "GET", "/v1/ni", ""); rec.Code != 500 {
		t.Errorf("got %d %s", rec.Code, rec.Body)
	}
}

// self is the caller that the daemon's end of a connection of this process knows.
func self() string { return fmt.Sprintf("uid %d", os.Getuid()) }

func TestHowAConfigIsAppliedTravels(t *testing.T) {
	b := populated()
	socket, _ := start(t, b)
	c := client(t, socket)
	how := ApplyOptions{Local: true, Confirm: 90 * time.Second, By: "ann & co", Caller: self()}
	if _, err := c.Apply(t.Context(), []byte("{}"), how); err != nil || b.how != how {
		t.Errorf("applied as %+v, %v; want %+v", b.how, err, how)
	}
	for _, wrong := range []ApplyOptions{{Confirm: time.Millisecond}, {Confirm: 25 * time.Hour}, {Confirm: -time.Second}} {
		if _, err := c.Apply(t.Context(), []byte("{}"), wrong); err == nil ||
			!strings.Contains(err.Error(), "confirm: invalid value") {
			t.Errorf("%+v is answered with %v", wrong, err)
		}
	}
}

func TestWhoRulesIsSaidByWords(t *testing.T) {
	b := populated()
	b.held = true
	socket, _ := start(t, b)
	c := client(t, socket)
	if err := c.Confirm(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if held, err := c.Release(t.Context()); err != nil || !held {
		t.Errorf("release: %v, %v", held, err)
	}
	if got := strings.Join(b.asked, ","); got != "confirm,rollback,release" {
		t.Errorf("asked was %s", got)
	}
	b.asked, b.until = nil, time.Unix(1<<30, 0).UTC()
	until, err := c.Drain(t.Context(), "wan.1", DrainOptions{For: time.Hour, By: "a&b"})
	if err != nil || !until.Equal(b.until) {
		t.Errorf("drain: %v, %v", until, err)
	}
	if was, err := c.Undrain(t.Context(), "wan.1"); err != nil || !was {
		t.Errorf("undrain: %v, %v", was, err)
	}
	b.until = time.Time{}
	if until, err := c.Drain(t.Context(), "wan.1", DrainOptions{}); err != nil || !until.IsZero() {
		t.Errorf("drain without an end: %v, %v", until, err)
	}
	for _, wrong := range []string{"0s", "-1s", "721h", "soon", "1"} {
		if got := ask(t, b, "POST", "/v1/port/wan/drain?for="+wrong, ""); got.Code != http.StatusBadRequest ||
			!strings.Contains(got.Body.String(), "for: invalid value") {
			t.Errorf("drain for %s: %d %s", wrong, got.Code, got.Body)
		}
	}
	if got := strings.Join(b.asked, ","); got !=
		"drain wan.1 for 1h0m0s by a&b,undrain wan.1,drain wan.1 for 0s by " {
		t.Errorf("asked was %s", got)
	}
	b.err = fmt.Errorf("%w: nothing is pending", rest.ErrConflict)
	if err := c.Confirm(t.Context()); !errors.Is(err, rest.ErrConflict) ||
		!strings.Contains(err.Error(), "nothing is pending") {
		t.Errorf("a refusal is %v", err)
	}
}
