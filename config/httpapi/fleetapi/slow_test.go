package fleetapi

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/rest"
)

// slowly is a backend whose backup takes longer than a whole answer may.
type slowly struct {
	*fake
	took time.Duration
}

func (s slowly) Backup(context.Context, string) (func(context.Context, io.Writer) error, error) {
	return func(ctx context.Context, w io.Writer) error {
		for range 3 {
			if _, err := io.WriteString(w, strings.Repeat("x", 2*rest.AnswerPart)); err != nil {
				return err
			}
			time.Sleep(s.took) // the test is about the time that has passed by then
		}
		_, err := io.WriteString(w, "end")
		return err
	}, nil
}

// A backup over a slow line is complete, however long it takes.
func TestALongBackupIsNotCutOff(t *testing.T) {
	const limit = 50 * time.Millisecond
	s := NewServer(Handler(slowly{&fake{}, 2 * limit}, WithNoAuth()))
	s.WriteTimeout = limit
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	defer s.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/api/v1/fleet/backup",
		nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 || len(text) != 6*rest.AnswerPart+3 {
		t.Errorf("%d: %d bytes: %v", r.StatusCode, len(text), err)
	}
}
