package rest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestALineOfTheAuditLogIsShort(t *testing.T) {
	r := httptest.NewRequest("GET", "/"+strings.Repeat("ä", 30000), nil)
	r.Method = strings.Repeat("X", 60000)
	e := NewEntry(r, time.Now())
	if len(e.Path) > longestPath+len("…") || len(e.Method) > longestMethod+len("…") || !strings.HasSuffix(e.Path, "…") ||
		!utf8.ValidString(e.Path) {
		t.Errorf("path of %d bytes, method of %d", len(e.Path), len(e.Method))
	}
	if e := NewEntry(httptest.NewRequest("GET", "/a/b?secret=1", nil), time.Now()); e.Path != "/a/b" || e.Method != "GET" {
		t.Errorf("%+v", e)
	}
}

// TestNobodyFillsTheAuditLogWithRefusals causes refusals from one address, and then from thousands, as fast as
// possible.
func TestNobodyFillsTheAuditLogWithRefusals(t *testing.T) {
	now := time.Now()
	try := func(r *Refusals, n int, entry func(int) Entry) (written, leftOut int) {
		for i := range n {
			e := entry(i)
			e.Time = now.Add(time.Duration(i) * time.Millisecond)
			if r.ShouldWrite(&e) {
				written++
				leftOut += e.LeftOut
			}
		}
		return written, leftOut
	}
	for name, c := range map[string]struct {
		entry func(int) Entry
		limit int
	}{
		"one address": {func(int) Entry { return Entry{Status: 401, Remote: "192.0.2.1:99"} }, 23},
		"one network": {func(i int) Entry { return Entry{Status: 403, Remote: fmt.Sprintf("[2001:db8::%x]:99", i)} }, 23},
		"one caller": {func(i int) Entry {
			return Entry{Status: 403, Caller: "bob", Remote: fmt.Sprintf("192.0.2.%d:1", i%250)}
		}, 23},
		"one node that sends what is no value": {func(int) Entry { return Entry{Status: 400, Caller: "node-1"} }, 23},
		"one caller beyond its rate":           {func(int) Entry { return Entry{Status: 429, Caller: "bob"} }, 0},
		"many": {func(i int) Entry {
			return Entry{Status: 421, Remote: fmt.Sprintf("10.%d.%d.%d:9", i>>16, i>>8&255, i&255)}
		}, 251},
	} {
		r := NewRefusals()
		written, left := try(r, 10_000, c.entry)
		if written > c.limit || written < c.limit-3 || c.limit == 0 && written > 0 {
			t.Errorf("%s: %d lines in 10 s, want %d at most", name, written, c.limit)
		}
		now = now.Add(time.Hour)
		e := Entry{Status: 401, Remote: "198.51.100.7:1", Time: now}
		if !r.ShouldWrite(&e) || left+e.LeftOut != 10_000-written {
			t.Errorf("%s: %d of %d left out are counted", name, left+e.LeftOut, 10_000-written)
		}
	}
	// the request may have taken effect
	for _, status := range []int{http.StatusOK, http.StatusPermanentRedirect, http.StatusInternalServerError} {
		if written, _ := try(NewRefusals(), 10_000,
			func(int) Entry { return Entry{Status: status, Caller: "ann"} }); written != 10_000 {
			t.Errorf("of 10,000 acts that end with %d %d are written", status, written)
		}
	}
}

func TestLinesOfALogAreBounded(t *testing.T) {
	lines, left := 0, 0
	l := NewLines(func(line string, out int) {
		if line != "bad handshake" {
			t.Errorf("%q", line)
		}
		lines, left = lines+1, left+out
	})
	for range 1000 {
		if n, err := l.Write([]byte("bad handshake\n")); n != 14 || err != nil {
			t.Fatal(n, err)
		}
	}
	if lines > 52 || lines < 50 {
		t.Errorf("%d lines", lines)
	}
}
