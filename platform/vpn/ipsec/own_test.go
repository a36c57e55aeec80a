package ipsec

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/platform/proc"
)

// listen listens at a socket in a new folder, as this process. It returns the octets that each connection brings.
func listen(t *testing.T) (path string, heard <-chan string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "own") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "vici")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	all := make(chan string, 8)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(200 * time.Millisecond))
			text, _ := io.ReadAll(c)
			_ = c.Close()
			all <- string(text)
		}
	}()
	return path, all
}

// another starts a process that lives as long as the test.
func another(t *testing.T) proc.Ident {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		all, err := proc.List() // without it for a moment, while it has no command line yet
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(all, func(p proc.Process) bool { return p.Pid == cmd.Process.Pid }); i >= 0 {
			return all[i].Ident
		}
	}
	t.Fatal("the process is missing")
	return proc.Ident{}
}

func self(t *testing.T) proc.Ident {
	t.Helper()
	id, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestTheControlSocketIsThatOfItsCharon(t *testing.T) {
	path, _ := listen(t)
	conn, err := dialOwn(t.Context(), path, self(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	dir := filepath.Dir(path)
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := errors.Join(os.Symlink(path, link), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	before := self(t)
	before.Start-- // an ended process had the same id
	for name, c := range map[string]struct {
		path    string
		charon  proc.Ident
		foreign bool
		says    string
	}{
		"a link to the right one":    {link, self(t), true, "it is a link"},
		"a file":                     {file, self(t), true, "it is no socket"},
		"that of another process":    {path, another(t), true, "process "},
		"that of a later process":    {path, before, false, "charon has ended"},
		"that of a charon not known": {path, proc.Ident{}, true, "charon is process 0"},
		"none":                       {filepath.Join(dir, "none"), self(t), false, "no such file"},
	} {
		conn, err := dialOwn(t.Context(), c.path, c.charon)
		if err == nil {
			_ = conn.Close()
			t.Errorf("%s is accepted", name)
			continue
		}
		if errors.Is(err, errForeign) != c.foreign || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want one that says %q", name, err, c.says)
		}
	}
}

// Secrets go to no other program, whatever has the name of the control socket.
func TestSecretsGoToNoForeignSocket(t *testing.T) {
	path, heard := listen(t)
	charon := another(t)
	link := filepath.Join(filepath.Dir(path), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	secrets, err := secretsOf(sample().IPsec)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []client{{path, charon}, {link, charon}, {link, self(t)}} {
		if err := c.load(t.Context(), secrets); !errors.Is(err, errForeign) {
			t.Errorf("load: %v, want %v", err, errForeign)
		}
		select {
		case text := <-heard:
			if text != "" {
				t.Errorf("the foreign program has got %d octets", len(text))
			}
		case <-time.After(300 * time.Millisecond): // a link is not even opened
		}
	}
}
