package term

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"edgespan/config"
	"edgespan/config/httpapi/rest"
	"edgespan/platform/confdir"
)

func TestAnErrorCarriesItsExitClass(t *testing.T) {
	broken := &confdir.Broken{File: "network.json", Faults: config.Faults{{}}}
	missing := Unreadable(fmt.Errorf("open: %w", fs.ErrNotExist))
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"none":            {nil, ExitOK},
		"without a class": {errors.New("x"), ExitError},
		"usage":           {Usagef("x"), ExitUsage},
		"wrapped": {fmt.Errorf("read: %w", WithClass(ExitNotFound, errors.New("x"))),
			ExitNotFound},
		"a file that is missing":             {missing, ExitNotFound},
		"a file that is not named by a user": {fs.ErrNotExist, ExitError},
		"a file that may not be read":        {Unreadable(fs.ErrPermission), ExitPermission},
		"missing and broken: judged first":   {errors.Join(missing, broken), ExitRejected},
		"usage before all":                   {errors.Join(broken, Usagef("x")), ExitUsage},
		"conflict before not found":          {errors.Join(missing, WithClass(ExitConflict, errors.New("x"))), ExitConflict},
		"of the daemon":                      {fmt.Errorf("ask: %w", rest.ErrTimeout), ExitTimeout},
		"another program's":                  {errors.Join(broken, StatusError(42)), 42},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%s: exit %d, want %d", name, got, c.want)
		}
	}
}

func TestPrintableTextStaysOnItsLineAndInItsOrder(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ümläut, 日本語, שלום, 👩‍💻": "plain, ümläut, 日本語, שלום, 👩‍💻",
		"two\nlines":                    "two; lines",
		"up\x1b[A":                      "up\ufffd[A",
		"c1\u0085\u009b":                "c1\ufffd\ufffd",
		"lines\u2028\u2029":             "lines\ufffd\ufffd",
		"not UTF-8 \xff":                "not UTF-8 \ufffd",
		"edge\u202etxt.exe\u2066\u061c": "edge\ufffdtxt.exe\ufffd\ufffd",
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
