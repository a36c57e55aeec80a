package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"edgespan/cmd/term"
)

func TestExitCodes(t *testing.T) {
	for args, want := range map[string]int{
		"version":                        term.ExitOK,
		"--help":                         term.ExitOK,
		"serve":                          term.ExitUsage,
		"--nonsense":                     term.ExitUsage,
		"--auth x":                       term.ExitUsage,
		"version extra":                  term.ExitUsage,
		"import":                         term.ExitUsage,
		"import --cfg-dir x -o yaml":     term.ExitUsage,
		"token add":                      term.ExitUsage,
		"token add x --role king":        term.ExitUsage,
		"invite n --life -1s":            term.ExitUsage,
		"import --cfg-dir /nonexistent":  term.ExitNotFound,
		"token add x --controller ftp:x": term.ExitUsage,
		"token add x --controller http://127.0.0.1:1":                               term.ExitUnreachable,
		"export --cfg-dir x --controller http://127.0.0.1:1 --data-dir y":           term.ExitUsage,
		"token add x --controller http://127.0.0.1:1 --token-file /nonexistent":     term.ExitNotFound,
		"token add x --controller http://127.0.0.1:1 --ca-sha256 00":                term.ExitUsage,
		"token add x --controller http://127.0.0.1:1 --ca-file /nonexistent/ca.pem": term.ExitNotFound,
	} {
		if code, _, said := program.Command(t, strings.Fields(args)...); code != want {
			t.Errorf("%s: %d, want %d: %s", args, code, want, said)
		}
	}
	for _, c := range []struct {
		err  error
		want int
	}{{errors.New("x"), term.ExitError}, {context.DeadlineExceeded, term.ExitTimeout},
		{os.ErrPermission, term.ExitPermission}} {
		if got := term.ExitCode(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}
