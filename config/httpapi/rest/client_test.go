package rest

import (
	"bufio"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

// Events are parsed wherever the connection splits them; an incomplete event does not count.
func TestEventsInPieces(t *testing.T) {
	t.Parallel()
	text := "event: state\ndata: {\"a\":\"\\n\"}\n\n: nothing new\n\nevent: state\ndata: 2\n\ndata: 3"
	var got []string
	for data, err := range Events(iotest.OneByteReader(strings.NewReader(text)), 100) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(data))
	}
	if len(got) != 2 || got[0] != `{"a":"\n"}` || got[1] != "2" {
		t.Fatalf("%q", got)
	}
	for _, err := range Events(strings.NewReader("data: "+strings.Repeat("x", 100)), 100) {
		if !errors.Is(err, bufio.ErrTooLong) {
			t.Errorf("one that is too long: %v", err)
		}
	}
	for _, err := range Events(iotest.ErrReader(errors.ErrUnsupported), 100) {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("one that fails: %v", err)
		}
	}
}
