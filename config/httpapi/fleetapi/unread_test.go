package fleetapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
)

// largely is a backend whose layers are large.
type largely struct {
	*fake
	size int
}

func (l largely) Layer(context.Context, ops.LayerQuery) (ops.DocumentAnswer, error) {
	return ops.DocumentAnswer{Object: config.Object{"key": strings.Repeat("x", l.size)}, Revision: 5}, nil
}

// unread requests from a handler's server over one connection of HTTP/2, where an answer is in flight until its body is
// read.
func unread(t *testing.T, h http.Handler) func(path, token string) (*http.Response, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, both := NewServer(h), &http.Protocols{}
	both.SetUnencryptedHTTP2(true)
	s.Protocols = both
	s.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return rest.WithAdmit(ctx, func(string, bool, bool) bool { return true })
	}
	go s.Serve(l)
	client := &http.Transport{Protocols: both, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1}}
	t.Cleanup(func() { client.CloseIdleConnections(); s.Close() })
	return func(path, token string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return client.RoundTrip(r)
	}
}

// A viewer that does not read its answers gets a few of them, and keeps no admin from its own.
func TestAnswersThatAreNotReadAreBounded(t *testing.T) {
	t.Parallel()
	get := unread(t, Handler(largely{&fake{}, 1 << 20}, WithTokens(fakeHash), rest.WithAnswers(rest.NewAnswers(32<<20))))
	status := func(token string) int {
		resp, err := get(Prefix+"layers/network", token)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp.StatusCode
	}
	codes := ""
	for range 6 {
		codes += fmt.Sprint(status("t-viewer"), " ")
	}
	if codes != "200 200 200 503 503 503 " {
		t.Errorf("answers of 1 MiB that nobody reads: %s", codes)
	}
	if code := status("t-admin"); code != 200 {
		t.Errorf("an admin beside them: %d", code)
	}
}

// An unauthenticated client has at most four unread answers on a connection.
func TestAnswersOfAnUnknownClientAreBounded(t *testing.T) {
	t.Parallel()
	get := unread(t, Handler(&fake{}, WithTokens(fakeHash)))
	var held []*http.Response
	for i, path := range []string{"/livez", "/livez?" + strings.Repeat("~", 60_000), Prefix + "nodes", "/nothing",
		"/livez", "/livez"} {
		resp, err := get(path, "")
		if (err == nil) != (i < 4) {
			t.Errorf("answer %d: %v", i, err)
		}
		if err == nil {
			held = append(held, resp)
			defer resp.Body.Close()
		}
	}
	if _, err := io.ReadAll(held[0].Body); err != nil {
		t.Fatal(err)
	}
	resp, err := get("/livez", "")
	if err != nil {
		t.Fatalf("once one is read: %v", err)
	}
	resp.Body.Close()
}

// A client whose connection accepts no bytes at all is disconnected: no window of HTTP/2 would show it.
func TestALineThatTakesNothingEnds(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	s := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		for range 1000 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}))
	if s.HTTP2.WriteByteTimeout <= 0 || s.HTTP2.WriteByteTimeout > time.Minute || s.HTTP2.MaxReadFrameSize != 16<<10 {
		t.Fatalf("%+v", s.HTTP2)
	}
	s.HTTP2.WriteByteTimeout /= 600
	s.Protocols = &http.Protocols{}
	s.Protocols.SetUnencryptedHTTP2(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	defer s.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// RFC 9113: the preface; SETTINGS with the largest window of a stream; that of the connection; GET http /.
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+
		"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x7f\xff\xff\xff"+
		"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\x00\x00\x00"+
		"\x00\x00\x06\x01\x05\x00\x00\x00\x01\x82\x86\x84\x41\x01a"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("an answer waits for a line that takes nothing")
	}
}
