package configdbapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"edgespan/config/httpapi/rest"
)

func TestAnswersUnderWayAreBounded(t *testing.T) {
	answers := rest.NewAnswers(1 << 20)
	h := Handler(&fake{}, door{}, rest.WithAnswers(answers))
	get := asked{method: "GET", target: "environments/9/resources/1/values", token: "viewer"}
	for range 100 { // each releases what it held
		if w := ask(h, get); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	vera := rest.HolderOf("vera", Viewer, "")
	for _, room := answers.Acquire(vera, 1); room; _, room = answers.Acquire(vera, 1) {
	}
	if w := ask(h, get); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	get.token = "admin"
	if w := ask(h, get); w.Code != 200 {
		t.Errorf("an admin beside one who does not read: %d %s", w.Code, w.Body)
	}
}

// An unauthenticated client with unread answers gets no more on the same connection.
func TestAnswersOfAnUnknownClientAreBounded(t *testing.T) {
	answers := rest.NewAnswers(1 << 20)
	h := Handler(&fake{}, door{}, rest.WithAnswers(answers))
	r := httptest.NewRequest("GET", Prefixes[0]+"environments", nil)
	r = r.WithContext(rest.WithAdmit(r.Context(), func(string, bool, bool) bool { return true }))
	serve := func() (code int, aborted bool) {
		w := httptest.NewRecorder()
		defer func() {
			err, _ := recover().(error)
			code, aborted = w.Code, errors.Is(err, http.ErrAbortHandler)
		}()
		h.ServeHTTP(w, r)
		return
	}
	if code, aborted := serve(); code != 401 || aborted {
		t.Errorf("%d, aborted %t", code, aborted)
	}
	for _, room := answers.Refuse(r.Context(), ""); room; _, room = answers.Refuse(r.Context(), "") {
	}
	if _, aborted := serve(); !aborted {
		t.Error("an answer beside those that nobody reads")
	}
	r.Header.Set("X-Auth-Token", "admin")
	if code, aborted := serve(); code != 200 || aborted {
		t.Errorf("an admin: %d, aborted %t", code, aborted)
	}
}
