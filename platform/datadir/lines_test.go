package datadir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func stored(t *testing.T, l *Lines) (list []string) {
	t.Helper()
	read, err := l.Stored()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Write([]byte("after\n")); err != nil && !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if err := read(t.Context(), func(line []byte) error { list = append(list, string(line)); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestLinesAreRotatedAndReadInOrder(t *testing.T) {
	l := &Lines{Path: filepath.Join(t.TempDir(), "flows.jsonl"), Limit: 60, Keep: 2}
	if got := stored(t, l); got != nil {
		t.Errorf("of no file: %q", got)
	}
	for n := range 30 {
		if err := l.Write(fmt.Appendf(nil, "line %02d\n", n)); err != nil {
			t.Fatal(err)
		}
	}
	got := stored(t, l)
	if first := slices.Index(got, "line 13"); first != 0 || got[len(got)-1] != "line 29" || len(got) != 17 {
		t.Errorf("%q", got)
	}
	for _, name := range []string{"", ".kept.1", ".kept.2", ".kept.3"} {
		info, err := os.Stat(l.Path + name)
		if (err == nil) != (name != ".kept.3") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (info.Size() > l.Limit || info.Mode().Perm() != 0o600) {
			t.Errorf("%s: %d bytes, mode %v", name, info.Size(), info.Mode())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	read, err := l.Stored()
	if err != nil {
		t.Fatal(err)
	}
	if err := read(ctx, func([]byte) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader who has gone: %v", err)
	}
}

// TestAHalfLineIsCutOff is a crash in the middle of a write.
func TestAHalfLineIsCutOff(t *testing.T) {
	l := &Lines{Path: filepath.Join(t.TempDir(), "flows.jsonl"), Limit: 1 << 20, Keep: 1}
	if err := os.WriteFile(l.Path, []byte("whole\nhal"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Write([]byte("next\n")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(stored(t, l), ","); got != "whole,next" {
		t.Error(got)
	}
	l.Close()
	if got := strings.Join(stored(t, l), ","); got != "whole,next,after" {
		t.Error(got)
	}
}

// TestLinesLeaveTheDiskToOthers asks for more room than any disk has.
func TestLinesLeaveTheDiskToOthers(t *testing.T) {
	l := &Lines{Path: filepath.Join(t.TempDir(), "flows.jsonl"), Limit: 1 << 20, Keep: 1, Spare: 1 << 62}
	err := l.Write([]byte("x\n"))
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "the disk has ") {
		t.Errorf("%v", err)
	}
	if got := stored(t, l); got != nil {
		t.Errorf("%q", got)
	}
}
