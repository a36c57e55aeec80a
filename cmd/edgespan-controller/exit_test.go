package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/backup"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/layers"
	"edgespan/config/layers/override"
	"edgespan/platform/confdir"
	"edgespan/platform/datadir"
	"edgespan/platform/keystone"
	"edgespan/platform/store/bolt"
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
}

// TestErrorsOfEachRoomHaveTheirClass wraps what the rooms below answer with, as commands do.
func TestErrorsOfEachRoomHaveTheirClass(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{errors.New("x"), term.ExitError},
		{context.DeadlineExceeded, term.ExitTimeout},
		{os.ErrPermission, term.ExitPermission},
		{config.Faults{{}}, term.ExitRejected},
		{layers.Clashes{{}}, term.ExitRejected},
		{override.WriteFaults{{}}, term.ExitRejected},
		{&ops.Refused{}, term.ExitRejected},
		{&confdir.Broken{}, term.ExitRejected},
		{&rest.Rejected{}, term.ExitRejected},
		{history.Conflicts{{}}, term.ExitConflict},
		{fleetapi.ErrRefused, term.ExitConflict},
		{backup.ErrRestoring, term.ExitConflict},
		{datadir.ErrLocked, term.ExitConflict},
		{bolt.ErrLocked, term.ExitConflict},
		{&ops.NotFoundError{}, term.ExitNotFound},
		{keystone.ErrRefused, term.ExitPermission},
		{&keystone.Away{}, term.ExitUnreachable},
		{&rest.Incomplete{}, term.ExitPartial},
		{errors.Join(rest.ErrBusy, &rest.Incomplete{}), term.ExitError},
		{errors.Join(&ops.NotFoundError{}, &ops.Refused{}), term.ExitRejected},
	} {
		if got := term.ExitCode(errors.Join(errors.New("close"), fmt.Errorf("do: %w", c.err))); got != c.want {
			t.Errorf("%T %v: %d, want %d", c.err, c.err, got, c.want)
		}
	}
}
