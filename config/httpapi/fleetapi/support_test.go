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
