package rest

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

// The declared length of a body reserves nothing: callers that declare the maximum and send nothing block no other
// caller, and what arrived counts once, whatever the length.
func TestABodyHoldsWhatHasCome(t *testing.T) {
	const whole, limit = 1 << 20, 8 << 20
	b := NewBodies(whole)
	type read struct {
		text []byte
		held *Body
		err  error
	}
	slow := make(chan read)
	var feeds []*feed
	for i := range 32 {
		f := &feed{parts: make(chan string)}
		feeds = append(feeds, f)
		r := httptest.NewRequest("PUT", "/", f)
		r.ContentLength = limit
		go func() {
			text, held, err := b.Read(httptest.NewRecorder(), r, Holder{Who: fmt.Sprint("slow-", i)}, limit)
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
		text, held, err := b.Read(httptest.NewRecorder(), r, Holder{Who: "ann"}, limit)
		if err != nil || !bytes.Equal(text, []byte(want)) || held.Size() < int64(len(want)) ||
			held.Size() > 2*int64(len(want)) || length > 0 && held.Size() != length+1 {
			t.Errorf("length %d: %d bytes, %d held, %v", length, len(text), held.Size(), err)
		}
		held.Release()
	}
	for _, f := range feeds {
		close(f.parts)
	}
	for range feeds {
		got := <-slow
		// the server detects that it is too short; a Reader can't
		if got.err != nil || string(got.text) != "x" || got.held.Size() > firstRoom {
			t.Errorf("%d bytes, %d held, %v", len(got.text), got.held.Size(), got.err)
		}
		got.held.Release()
		got.held.Release()
	}
	if n := b.Held(); n != 0 || len(b.small.of)+len(b.all.of)+len(b.others.of) != 0 {
		t.Errorf("%d are held by nobody", n)
	}
}

func TestABodyIsBounded(t *testing.T) {
	b := NewBodies(1 << 20)
	read := func(size int, length int64) error {
		r := httptest.NewRequest("PUT", "/", strings.NewReader(strings.Repeat("x", size)))
		r.ContentLength = length
		_, held, err := b.Read(httptest.NewRecorder(), r, Holder{Who: "ann", Staff: true}, 100_000)
		held.Release()
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
	b.all.Acquire("bob", 1<<20-60_000)
	if err := read(100_000, -1); !errors.Is(err, ErrBodyCrowded) {
		t.Errorf("beside others: %v", err)
	}
	if err := read(1000, -1); err != nil {
		t.Errorf("a short one beside others: %v", err)
	}
	if n := b.all.has("ann") + b.small.has("ann"); n != 0 {
		t.Errorf("%d are held", n)
	}
}

// A body that does not arrive ends its request, and releases what it held; the next request on a connection whose body
// arrived has no deadline from it.
func TestASlowBodyEnds(t *testing.T) {
	b := NewBodies(1 << 20)
	b.stall = 100 * time.Millisecond
	ended := make(chan error, 4)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, held, err := b.Read(w, r, Holder{Who: "ann"}, 1<<20)
		held.Release()
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
	if resp, err := http.Post(s.URL, "text/plain", strings.NewReader("whole")); err != nil || resp.StatusCode != 200 ||
		<-ended != nil {
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

// Readers and machines that send slowly take no bytes from staff; small bodies have room of their own; a caller's only
// body may have any size.
func TestBodiesHaveAShareOfStaff(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	b := NewBodies(256 * mb)
	take := func(h Holder, size int64) bool {
		held := &Body{of: b, who: h}
		for n := int64(firstRoom); ; n *= 2 {
			n = min(n, size)
			if !held.grow(n, func() {}) {
				held.Release()
				return false
			}
			if n == size {
				return true
			}
		}
	}
	count := func(h Holder, size int64) (n int64) {
		for ; take(h, size); n++ {
		}
		return n * size / mb
	}
	if n := count(Holder{Who: "node", Machine: true}, 8*mb); n != 8 {
		t.Errorf("a machine holds %d MiB", n)
	}
	if n := count(Holder{Who: "viewer"}, mb); n != 32 {
		t.Errorf("a viewer holds %d MiB", n)
	}
	for i := range 32 {
		count(Holder{Who: fmt.Sprint("viewer-", i)}, mb)
	}
	if take(Holder{Who: "late"}, mb) {
		t.Error("room for one more that reads")
	}
	if !take(Holder{Who: "late"}, smallSize) {
		t.Error("no room for a small body")
	}
	admin := Holder{Who: "admin", Staff: true}
	if !take(admin, 16*mb) || !take(admin, mb) {
		t.Error("no room for an admin")
	}
	for i := range 64 {
		count(Holder{Who: fmt.Sprint("small-", i)}, smallSize)
	}
	if take(Holder{Who: "last"}, smallSize) || !take(admin, smallSize) {
		t.Error("small bodies have no bound, or keep out an admin's")
	}
}
