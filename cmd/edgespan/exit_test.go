package main

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"edgespan/config"
	"edgespan/config/httpapi"
	"edgespan/platform/confdir"
)

func TestAnErrorCarriesItsExitClass(t *testing.T) {
	broken := &confdir.Broken{File: "network.json", Faults: config.Faults{{}}}
	missing := unreadable(fmt.Errorf("open: %w", fs.ErrNotExist))
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"none":                               {nil, exitOK},
		"without a class":                    {errors.New("x"), exitError},
		"usage":                              {usagef("x"), exitUsage},
		"wrapped":                            {fmt.Errorf("read: %w", withClass(exitNotFound, errors.New("x"))), exitNotFound},
		"a file that is missing":             {missing, exitNotFound},
		"a file that is not named by a user": {fs.ErrNotExist, exitError},
		"a file that may not be read":        {unreadable(fs.ErrPermission), exitPermission},
		"missing and broken: judged first":   {errors.Join(missing, broken), exitRejected},
		"usage before all":                   {errors.Join(broken, usagef("x")), exitUsage},
		"conflict before not found":          {errors.Join(missing, withClass(exitConflict, errors.New("x"))), exitConflict},
		"of the daemon":                      {fmt.Errorf("ask: %w", httpapi.ErrTimeout), exitTimeout},
		"another program's":                  {errors.Join(broken, statusError(42)), 42},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%s: exit %d, want %d", name, got, c.want)
		}
	}
}
