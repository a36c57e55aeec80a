package configdbapi

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"edgespan/config/configdb/model"
)

const aHalf = "environments/9/resources/1/values"

// The table is RFC 9110 §13.1.2: weak comparison, lists, and *.
func TestIfNoneMatch(t *testing.T) {
	for header, status := range map[string]int{
		`"e1"`: 304, `W/"e1"`: 304, `"e0", "e1"`: 304, `*`: 304, ` "e0" , W/"e1" `: 304,
		`"e0"`: 200, `e1`: 200, `"e1`: 200, ``: 200,
	} {
		w := ask(Handler(&fake{}, door{}),
			asked{method: "GET", target: aHalf, header: map[string]string{"If-None-Match": header}})
		if w.Code != status || (w.Body.Len() == 0) != (status == 304) || w.Header().Get("ETag") != `"e1"` ||
			w.Header().Get(VersionHeader) != "3" || w.Header().Get(RevisionHeader) != "7" {
			t.Errorf("If-None-Match: %s: %d %q %v", header, w.Code, w.Body, w.Header())
		}
	}
	f := &fake{}
	ask(Handler(f, door{}),
		asked{method: "GET", target: aHalf, header: map[string]string{"If-None-Match": `W/"e0", "e1"`}})
	if heard := f.taken(); !strings.Contains(heard, `known=["\"e0\"" "\"e1\""]`) {
		t.Errorf("the backend is not told what is known: %s", heard)
	}
}

func TestIfMatch(t *testing.T) {
	for header, want := range map[string]string{
		`"e1"`: `"IfMatch":["\"e1\""]`, `"e0", "e1"`: `"IfMatch":["\"e0\"","\"e1\""]`, `*`: `"IfMatch":["*"]`,
		`W/"e1"`: `"IfMatch":["W/\"e1\""]`,
		`e1`:     ``, `"e1`: ``,
	} {
		for _, q := range []asked{{method: "PUT", target: aHalf, body: "{}"},
			{method: "PUT", target: aHalf + "/keys/set", body: `[["a",1]]`}, {method: "DELETE", target: aHalf}} {
			f := &fake{}
			q.header = map[string]string{"If-Match": header}
			w := ask(Handler(f, door{}), q)
			heard := f.taken()
			if want == "" && (w.Code != 400 || heard != "") || want != "" && (w.Code != 204 || !strings.Contains(heard, want)) {
				t.Errorf("%s %s If-Match: %s: %d, heard %s", q.method, q.target, header, w.Code, heard)
			}
		}
	}
	f := &fake{}
	if w := ask(Handler(f, door{}), asked{method: "PUT", target: aHalf,
		body: "{}", header: map[string]string{"If-None-Match": "*"}}); w.Code != 400 || f.taken() != "" {
		t.Errorf("If-None-Match of a write: %d", w.Code)
	}
}

func TestAWriteTellsWhatIsThereThen(t *testing.T) {
	w := ask(Handler(&fake{}, door{}), asked{method: "PUT", target: aHalf, body: `{}`})
	if h := w.Header(); w.Code != 204 || h.Get("ETag") != `"e2"` || h.Get(VersionHeader) != "4" ||
		h.Get(RevisionHeader) != "8" || h.Get("Content-Length") != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	w = ask(Handler(&fake{}, door{}), asked{method: "PUT",
		target: aHalf, body: `{}`, header: map[string]string{"Prefer": "respond-async, return=representation"}})
	if w.Code != 200 || w.Body.String() != `{"a":1.0}` || w.Header().Get("Preference-Applied") != "return=representation" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	w = ask(Handler(&fake{}, door{}),
		asked{method: "POST", target: "environments", body: `{"id":1,"components":[],"hierarchy_levels":[]}`})
	if w.Header().Get("Location") != "/api/v1/config/environments/1" {
		t.Errorf("Location: %s", w.Header().Get("Location"))
	}
}

func TestLargeAnswersAreCompressedOnce(t *testing.T) {
	body := []byte(`{"a":"` + strings.Repeat("x", 5000) + `"}`)
	h := Handler(&fake{answer: model.Answer{Body: body, ETag: `"z"`}}, door{})
	var first []byte
	for header, zipped := range map[string]bool{"gzip": true, "br, gzip;q=0.5": true, "*": true, "deflate": false,
		"gzip;q=0": false, "": false, "gzip; q=0, *": false} {
		w := ask(h, asked{method: "GET", target: aHalf, header: map[string]string{"Accept-Encoding": header}})
		if (w.Header().Get("Content-Encoding") == "gzip") != zipped || w.Header().Get("ETag") != `"z"` ||
			w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding: %s: %v", header, w.Header())
		}
		got := w.Body.Bytes()
		if zipped {
			if first == nil {
				first = got
			}
			if !bytes.Equal(first, got) {
				t.Error("another one each time")
			}
			r, err := gzip.NewReader(bytes.NewReader(got))
			if err != nil {
				t.Fatal(err)
			}
			if got, err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, body) {
			t.Errorf("Accept-Encoding: %s: %d bytes", header, len(got))
		}
	}
	if w := ask(Handler(&fake{}, door{}), asked{method: "GET", target: aHalf,
		header: map[string]string{"Accept-Encoding": "gzip"}}); w.Header().Get("Content-Encoding") != "" {
		t.Error("a small answer is compressed")
	}
}
