package host

import (
	"errors"
	"strings"
	"testing"
)

func TestWhatRunsApartAnswersFailsAndPanicsAsItself(t *testing.T) {
	no := errors.New("no")
	if v, err := onOwnStack(func() (int, error) { return 7, no }); v != 7 || !errors.Is(err, no) {
		t.Errorf("%d, %v", v, err)
	}
	defer func() {
		r, _ := recover().(string)
		if !strings.HasPrefix(r, "bad\n") || !strings.Contains(r, "apart_test.go") {
			t.Errorf("panics with %q", r)
		}
	}()
	_, _ = onOwnStack(func() (int, error) { panic("bad") })
	t.Error("no panic")
}
