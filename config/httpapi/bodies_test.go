package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// feed is a body that a test sends in parts.
type feed struct {
	parts chan string
	rest  string
}

func (f *feed) Read(p []byte) (int, error) {
	for f.rest == "" {
		part, more := <-f.parts
		if !more {
			return 0, io.EOF
		}
		f.rest = part
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// What a body says of its length holds nothing: callers who declare all that there is and send nothing
// keep no other one out, and what came is held once, whatever its length.
func TestABodyHoldsWhatHasCome(t *testing.T) {
	const whole, most = 1 << 20, 8 << 20
	b := NewBodies(whole)
	type read struct {
		text []byte
		held int64
		err  error
	}
	slow := make(chan read)
	var feeds []*feed
	for i := range 32 {
		f := &feed{parts: make(chan string)}
		feeds = append(feeds, f)
		r := httptest.NewRequest("PUT", "/", f)
		r.ContentLength = most
		go func() {
			text, held, err := b.Read(httptest.NewRecorder(), r, fmt.Sprint("slow-", i), most)
			slow <- read{text, held, err}
		}()
	}
	for _, f := range feeds {
		f.parts <- "x"
	}
	want := strings.Repeat("0123456789abcdef", whole/16/16)
	for _, length := range []int64{int64(len(want)), -1} {
		r := httptest.NewRequest("PUT", "/", strings.NewReader(want))
		r.ContentLength = length
		text, held, err := b.Read(httptest.NewRecorder(), r, "ann", most)
		if err != nil || !bytes.Equal(text, []byte(want)) || held < int64(len(want)) || held > 2*int64(len(want)) || length > 0 && held != length+1 {
			t.Errorf("length %d: %d bytes, %d held, %v", length, len(text), held, err)
		}
		b.Give("ann", held)
	}
	for _, f := range feeds {
		close(f.parts)
	}
	for range feeds {
		got := <-slow
		if got.err != nil || string(got.text) != "x" || got.held > firstRoom { // the server says that it is too short; a Reader can't
			t.Errorf("%d bytes, %d held, %v", len(got.text), got.held, got.err)
		}
	}
	for i := range feeds {
		b.Give(fmt.Sprint("slow-", i), firstRoom)
	}
	if b.budget.all != 0 || len(b.budget.of) != 0 {
		t.Errorf("%d of %v is held by nobody", b.budget.all, b.budget.of)
	}
}

func TestABodyIsBounded(t *testing.T) {
	b := NewBodies(1 << 20)
	read := func(size int, length int64) error {
		r := httptest.NewRequest("PUT", "/", strings.NewReader(strings.Repeat("x", size)))
		r.ContentLength = length
		_, held, err := b.Read(httptest.NewRecorder(), r, "ann", 100_000)
		b.Give("ann", held)
		return err
	}
	for _, length := range []int64{-1, 100_000} {
		if err := read(100_000, length); err != nil {
			t.Errorf("the largest one of %d: %v", length, err)
		}
	}
	for _, length := range []int64{-1, 100_001} {
		if err := read(100_001, length); !errors.Is(err, ErrBodyTooLarge) {
			t.Errorf("a larger one of %d: %v", length, err)
		}
	}
	b.budget.Take("bob", 1<<20-60_000)
	if err := read(100_000, -1); !errors.Is(err, ErrBodyCrowded) {
		t.Errorf("beside others: %v", err)
	}
	if err := read(1000, -1); err != nil {
		t.Errorf("a short one beside others: %v", err)
	}
	if b.budget.of["ann"] != 0 {
		t.Errorf("%d are held", b.budget.of["ann"])
	}
}

// A body that does not come ends its request, and gives back what it held; the next request on a
// connection whose body came has no deadline of it.
func TestASlowBodyEnds(t *testing.T) {
	b := NewBodies(1 << 20)
	b.stall = 100 * time.Millisecond
	ended := make(chan error, 4)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, held, err := b.Read(w, r, "ann", 1<<20)
		b.Give("ann", held)
		ended <- err
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), 3*b.stall)
		defer cancel()
		<-ctx.Done() // a caller that is found gone would end it before
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer s.Close()
	if resp, err := http.Post(s.URL, "text/plain", strings.NewReader("whole")); err != nil || resp.StatusCode != 200 || <-ended != nil {
		t.Fatal(resp, err)
	}
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nnot all")
	if err := <-ended; !errors.Is(err, ErrBodyLost) {
		t.Errorf("%v", err)
	}
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	answer, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(answer), "400 Bad Request") {
		t.Errorf("the connection stays open after %q: %v", answer, err)
	}
}
