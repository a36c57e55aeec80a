package fleetapi

import (
	"net/http"
	"strings"
	"testing"

	"edgespan/config/httpapi/rest"
)

// An archive is for operators, its flow log for admins; each is in the audit log before it is sent.
func TestWhoGetsASupportArchive(t *testing.T) {
	t.Parallel()
	var audited []Entry
	f := &fake{}
	h := Handler(f, WithTokens(fakeHash), rest.WithAudit(func(e Entry) { audited = append(audited, e) }))
	for _, c := range []struct {
		token, query string
		code         int
		asks         string
	}{
		{"t-viewer", "", http.StatusForbidden, ""},
		{"", "", http.StatusUnauthorized, ""},
		{"t-operator", "?since=2h&noLogs=1", http.StatusOK, "Since:2h0m0s NoLogs:true Flows:false"},
		{"t-operator", "?flows=1", http.StatusForbidden, ""},
		{"t-admin", "?flows=1", http.StatusOK, "Flows:true"},
		{"t-operator", "?since=-2h", http.StatusBadRequest, ""},
	} {
		audited = nil
		f.taken()
		w := ask(h, asked{method: "POST", target: Prefix + "nodes/edge-1/support" + c.query, token: c.token})
		took := f.taken()
		if w.Code != c.code || !strings.Contains(took, c.asks) || (c.asks == "") == strings.Contains(took, "Support edge-1") {
			t.Errorf("%+v: %d %s, asks %q", c, w.Code, w.Body, took)
		}
		if c.code == http.StatusOK && (w.Body.String() != "archive" || w.Header().Get("Content-Type") != "application/gzip" ||
			!strings.Contains(took, "Support closed")) {
			t.Errorf("%+v: %s %v %s", c, w.Body, w.Header(), took)
		}
		if c.code != http.StatusBadRequest && (len(audited) != 1 || audited[0].Status != c.code) {
			t.Errorf("%+v: audit %+v", c, audited)
		}
	}
}

// A command of a debug shell is for operators, a fault for admins; the audit has the command and its caller.
func TestAShellsCommandHasARoleAndAnAudit(t *testing.T) {
	var audited []Entry
	f := &fake{}
	h := Handler(f, WithTokens(fakeHash), rest.WithAudit(func(e Entry) { audited = append(audited, e) }))
	for _, c := range []struct {
		token, body string
		code        int
		asks, said  string
	}{
		{"t-viewer", `{"op": "tree"}`, http.StatusForbidden, "", ""},
		{"", `{"op": "tree"}`, http.StatusUnauthorized, "", ""},
		{"t-operator", `{"op": "reconcile", "args": ["web"], "write": true}`, http.StatusOK,
			"Shell edge-1 {Op:reconcile Args:[web] Write:true By:operator-1}", "reconcile web"},
		{"t-operator", `{"op": "fault", "args": ["hang"], "write": true}`, http.StatusForbidden, "", "fault hang"},
		{"t-admin", `{"op": "fault", "args": ["hang"], "write": true}`, http.StatusOK, "Shell edge-1", "fault hang"},
		{"t-operator", `{"op": "tree", "more": 1}`, http.StatusUnprocessableEntity, "", ""},
	} {
		audited = nil
		f.taken()
		w := ask(h, asked{method: "POST", target: Prefix + "nodes/edge-1/shell", token: c.token, body: c.body})
		took := f.taken()
		if w.Code != c.code || !strings.Contains(took, c.asks) || (c.asks == "") == strings.Contains(took, "Shell edge-1") {
			t.Errorf("%+v: %d %s, asks %q", c, w.Code, w.Body, took)
		}
		if c.code == http.StatusOK && (w.Body.String() != "{\"end\":true}\n" ||
			w.Header().Get("Content-Type") != rest.JSONLines || !strings.Contains(took, "Shell closed")) {
			t.Errorf("%+v: %s %v %s", c, w.Body, w.Header(), took)
		}
		if len(audited) != 1 || audited[0].Status != c.code || audited[0].Message != c.said {
			t.Errorf("%+v: audit %+v", c, audited)
		}
	}
}
