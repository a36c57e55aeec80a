package rest

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// over2 requests from a server over HTTP/2 with a window of some bytes: an answer is in flight until its body is read.
func over2(t *testing.T, window int, h http.HandlerFunc) (get func() (*http.Response, error)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var both http.Protocols
	both.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: h, Protocols: &both, ReadHeaderTimeout: time.Minute}
	go s.Serve(l)
	transport := &http.Transport{Protocols: &both, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window}}
	t.Cleanup(func() { transport.CloseIdleConnections(); s.Close() })
	return func() (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/?a=b", nil)
		if err != nil {
			t.Fatal(err)
		}
		return transport.RoundTrip(r)
	}
}

// A client that does not read its answer loses it, however small it is; one that reads slowly gets all of it.
func TestAnAnswerWaitsForItsReaderAWhile(t *testing.T) {
	t.Parallel()
	const wait = 500 * time.Millisecond
	for _, c := range []struct {
		size    int
		refusal bool
		reads   bool
	}{{3, false, false}, {3, true, false}, {1 << 20, false, false}, {1 << 20, true, false},
		{4 * AnswerPart, false, true}} {
		a := NewAnswers(8 << 20)
		a.wait, a.refusal = time.Hour, wait
		if !c.refusal {
			a.wait, a.refusal = wait, time.Hour
		}
		ended, took := make(chan *http.Request, 1), time.Duration(0)
		window := 1
		if c.reads {
			window = AnswerPart / 4
		}
		get := over2(t, window, func(w http.ResponseWriter, r *http.Request) {
			begun := time.Now()
			a.Write(w, r, bytes.Repeat([]byte("x"), c.size), c.refusal)
			took = time.Since(begun)
			ended <- r
		})
		resp, err := get()
		if err != nil {
			t.Fatal(err)
		}
		part := make([]byte, AnswerPart)
		for n := 0; c.reads && n < c.size; n += len(part) {
			if _, err := io.ReadFull(resp.Body, part); err != nil {
				t.Fatalf("a slow reader is cut off: %v", err)
			}
			time.Sleep(wait * 2 / 5) // the whole answer takes longer than a part may
		}
		select {
		case r := <-ended:
			if took < wait {
				t.Errorf("%+v: it counts for %s, and is held for longer", c, took)
			}
			if r.RequestURI != "" || r.URL.RawQuery != "" || len(r.Header) > 0 {
				t.Errorf("what was asked is held with its answer: %s %v", r.URL, r.Header)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%+v: the answer still waits", c)
		}
		resp.Body.Close()
	}
}

// Answers that are not read use up their caller's room: staff, other callers and small answers have room of their own.
func TestAnswersOfEachCaller(t *testing.T) {
	const mb = 1 << 20
	a := NewAnswers(256 * mb)
	hold := func(h Holder, size int) (held int) {
		for held < 100_000 {
			if _, room := a.Acquire(h, size); !room {
				return held
			}
			held++
		}
		return held
	}
	reader := func(name string) Holder { return HolderOf(name, Viewer, ViaToken) }
	if n := hold(reader("v1"), 8*mb); n != 3 {
		t.Errorf("one reader holds %d answers of 8 MiB", n)
	}
	if n := hold(HolderOf("node", Viewer, ViaCertificate), mb); n != 7 {
		t.Errorf("a machine holds %d answers of 1 MiB", n)
	}
	for i := range 20 {
		hold(reader(string(rune('a'+i))), 8*mb)
		hold(reader(string(rune('a'+i))), 1)
	}
	if _, room := a.Acquire(reader("late"), 8*mb); room {
		t.Error("readers have more than their part of all")
	}
	if n := hold(HolderOf("ann", Admin, ViaToken), 8*mb); n < 3 {
		t.Errorf("beside readers who take nothing an admin has %d answers", n)
	}
	b := NewAnswers(256 * mb)
	for range 4 {
		if release, room := b.Acquire(HolderOf("ann", Admin, ViaToken), 400*mb); !room {
			t.Error("what has more than all of it never goes out")
		} else {
			release()
		}
	}
	if b.all.all != 0 || len(b.all.of) != 0 || b.others.all != 0 || b.small.all != 0 {
		t.Errorf("%+v is held", b.all)
	}
}

// A connection without authentication has few answers in flight, and so has a caller without room.
func TestRefusalsUnderWayAreBounded(t *testing.T) {
	a := NewAnswers(1 << 20)
	ctx := WithAdmit(context.Background(), func(string, bool, bool) bool { return true })
	for who, limit := range map[string]int{"": maxUnknown, "token:ann": maxRefusals} {
		var last func()
		for i := range limit {
			release, room := a.Refuse(ctx, who)
			if !room {
				t.Fatalf("%q: no room for refusal %d", who, i)
			}
			last = release
		}
		if _, room := a.Refuse(ctx, who); room {
			t.Errorf("%q: more than %d refusals", who, limit)
		}
		last()
		if _, room := a.Refuse(ctx, who); !room {
			t.Errorf("%q: what was read still counts", who)
		}
	}
	if _, room := a.Refuse(WithAdmit(context.Background(), nil), ""); !room {
		t.Error("another connection pays for it")
	}
}
