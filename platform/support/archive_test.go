package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config/layers/redact"
)

var testTime = time.Date(2026, 11, 25, 23, 0, 0, 0, time.UTC)

func text(s string) func(context.Context, io.Writer) error {
	return func(_ context.Context, w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

// made writes an archive and returns its index and the content of its files.
func made(t *testing.T, o Options, parts ...Part) (Manifest, map[string]string) {
	t.Helper()
	o.Node, o.Now = "edge 1/..", testTime
	if o.Redactor == nil {
		o.Redactor = &redact.Redactor{}
	}
	var b bytes.Buffer
	m, err := Write(t.Context(), &b, o, parts)
	if err != nil {
		t.Fatal(err)
	}
	checked, err := Check(bytes.NewReader(b.Bytes()))
	if err != nil || len(checked.Files) != len(m.Files) {
		t.Fatalf("Check: %v, %+v", err, checked)
	}
	zip, err := gzip.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for in := tar.NewReader(zip); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return m, files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil || h.Mode != 0o600 {
			t.Fatalf("%s: mode %o, %v", h.Name, h.Mode, err)
		}
		files[strings.TrimPrefix(h.Name, "edgespan-support-edge-1----20261125T230000Z/")] = string(content)
	}
}

func TestAnArchiveListsWhatItHasAndWhatItLacks(t *testing.T) {
	t.Parallel()
	m, files := made(t, Options{},
		Part{Name: "a.txt", About: "first", Collect: text("one\n")},
		Part{Name: "b.txt", About: "second", Missing: "no reason"},
		Part{Name: "c.txt", About: "third", Collect: func(context.Context, io.Writer) error { return errors.New("broken") }},
		Part{Name: "d.txt", About: "fourth", Collect: func(_ context.Context, w io.Writer) error {
			_, _ = io.WriteString(w, "half\n")
			return errors.New("http://u:hunter2@h: broken")
		}},
		Part{Name: "e.txt", About: "fifth", Collect: func(context.Context, io.Writer) error { panic("oops") }},
		Part{Name: "f.json", About: "sixth", JSON: true, Collect: text(`{"token":"canary","n":1}`)},
		Part{Name: "g.txt", About: "seventh", Collect: text("the canary\n")},
		Part{Name: "h.json", About: "eighth", Mask: func([]byte) ([]byte, error) { return nil, errors.New("unreadable") },
			Collect: text("raw")})
	want := []string{"MANIFEST.json", "README.txt", "a.txt", "d.txt", "f.json", "g.txt"}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("files %q", got)
	}
	if files["a.txt"] != "one\n" || files["d.txt"] != "half\n" || files["g.txt"] != "the [redacted]\n" {
		t.Errorf("%q", files)
	}
	if len(m.LeftOut) != 4 || m.Files[1].Fault != "http://[redacted]@h: broken" {
		t.Errorf("%+v", m)
	}
	for _, line := range []string{"b.txt", "no reason", "broken", "panic: oops", "unreadable", "        4  a.txt"} {
		if !strings.Contains(files["README.txt"], line) {
			t.Errorf("README.txt lacks %q:\n%s", line, files["README.txt"])
		}
	}
	for name, content := range files {
		if strings.Contains(content, "canary") || strings.Contains(content, "hunter2") {
			t.Errorf("%s: %s", name, content)
		}
	}
}

func TestPartsAreBoundedInSize(t *testing.T) {
	t.Parallel()
	lines := func(_ context.Context, w io.Writer) error {
		for i := 0; ; i++ { // without an end
			if _, err := fmt.Fprintf(w, "line %d\n", i); err != nil {
				return err
			}
			if i == 1_000_000 {
				return nil
			}
		}
	}
	m, files := made(t, Options{MaxBytes: 3000},
		Part{Name: "head", Limit: 100, Collect: lines},
		Part{Name: "tail", Limit: 100, Tail: true, Collect: lines},
		Part{Name: "one.json", Limit: 100, JSON: true, Collect: text(`{"env":{"A":"` + strings.Repeat("x", 200) + `"}}`)},
		Part{Name: "many.json", Limit: 100, JSON: true, Collect: lines},
		Part{Name: "rest", Collect: lines},
		Part{Name: "none", Collect: text("x")})
	if !strings.HasPrefix(files["head"], "line 0\n") || !strings.HasSuffix(files["head"], "\n") || len(files["head"]) > 100 {
		t.Errorf("head %q", files["head"])
	}
	if !strings.HasPrefix(files["tail"], "line ") || !strings.HasSuffix(files["tail"], "line 1000000\n") ||
		len(files["tail"]) > 100 {
		t.Errorf("tail %q", files["tail"])
	}
	if n := len(files["head"]) + len(files["tail"]) + len(files["rest"]); n > 3000 || n < 2900 {
		t.Errorf("%d bytes", n)
	}
	if _, there := files["one.json"]; there || !m.Files[0].Cut || !m.Files[1].Cut || len(m.LeftOut) != 2 {
		t.Errorf("%+v", m)
	}
}

func TestAPartThatHangsDelaysTheOthersForItsTimeOnly(t *testing.T) {
	t.Parallel()
	block := make(chan struct{})
	defer close(block)
	m, files := made(t, Options{}, Part{Name: "hangs", Timeout: time.Millisecond,
		Collect: func(_ context.Context, w io.Writer) error {
			_, _ = io.WriteString(w, "whole\nhal")
			<-block
			_, err := io.WriteString(w, "late")
			return err
		}}, Part{Name: "after", Collect: text("ok")})
	if files["hangs"] != "whole\n" && files["hangs"] != "" || files["after"] != "ok" {
		t.Errorf("%q, %+v", files, m)
	}
	m, _ = made(t, Options{MaxTime: time.Nanosecond}, Part{Name: "never", Collect: text("x")})
	if len(m.LeftOut) != 1 || !strings.Contains(m.LeftOut[0].Why, "time") {
		t.Errorf("%+v", m)
	}
}

func TestAnArchiveEndsWithItsReader(t *testing.T) {
	t.Parallel()
	var o Options
	o.Redactor = &redact.Redactor{}
	in, out := io.Pipe()
	_ = in.Close()
	if _, err := Write(t.Context(), out, o, []Part{{Name: "a", Collect: text("x")}}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Write(gone, io.Discard, o, []Part{{Name: "a", Collect: text("x")}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// forged packs files as a hostile node could.
func forged(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	out := tar.NewWriter(zip)
	for _, h := range headers {
		if err := out.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(out, zeros{}, h.Size); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(out.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestAnArchiveOfAHostileNodeIsRefused(t *testing.T) {
	t.Parallel()
	good := tar.Header{Name: "edgespan-support-a/x", Typeflag: tar.TypeReg, Mode: 0o600}
	entry := func(name string, size int64) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: size}
	}
	many := slices.Repeat([]tar.Header{good}, maxNumber+1)
	for want, data := range map[string][]byte{
		"is no archive":         []byte("<html>garbage"),
		"must be a file below":  forged(t, entry("edgespan-support-a/../../etc/passwd", 0)),
		`"/etc/passwd"`:         forged(t, entry("/etc/passwd", 0)),
		`"edgespan-support-b/x`: forged(t, good, entry("edgespan-support-b/x", 0)),
		`"edgespan-support-a/l`: forged(t, tar.Header{Name: "edgespan-support-a/l", Typeflag: tar.TypeSymlink, Linkname: "/"}),
		`\x1b`:                  forged(t, entry("edgespan-support-a/\x1b[2J", 0)),
		"mode 4755":             forged(t, tar.Header{Name: "edgespan-support-a/su", Typeflag: tar.TypeReg, Mode: 0o4755}),
		"SCHILY.xattr.security.capability": forged(t, tar.Header{Name: "edgespan-support-a/c", Typeflag: tar.TypeReg,
			Mode: 0o600, Format: tar.FormatPAX, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "x"}}),
		"has no index":         forged(t, good),
		"damaged index":        forged(t, entry("edgespan-support-a/MANIFEST.json", 0)),
		"more than 1000 files": forged(t, many...),
		"unpacks to more than": forged(t, slices.Repeat([]tar.Header{entry("edgespan-support-a/bomb", maxUnpacked/2)}, 2)...),
		"is damaged: ":         forged(t, good)[:60],
	} {
		if _, err := Check(bytes.NewReader(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	var whole bytes.Buffer
	if _, err := Write(t.Context(), &whole, Options{Node: "a", Redactor: &redact.Redactor{}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(io.MultiReader(&whole, strings.NewReader("more"))); err == nil ||
		!strings.Contains(err.Error(), "behind its end") {
		t.Errorf("%v", err)
	}
}

func TestTheEndOfAHugeLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1 << 40); err != nil { // sparse
		t.Skip("this file system has no large files: " + err.Error())
	}
	if _, err := f.WriteAt([]byte("\nlast line\n"), 1<<40); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	p := Host{Log: path}.LogPart()
	p.Limit = 1000
	m, files := made(t, Options{}, p)
	if files["log.txt"] != "last line\n" || !m.Files[0].Cut {
		t.Errorf("%q %+v", files["log.txt"], m)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if m, _ = made(t, Options{}, Host{Log: link}.LogPart()); len(m.LeftOut) != 1 {
		t.Errorf("a link: %+v", m)
	}
}

// The parts of the host are read without a daemon, too.
func TestTheHostIsReadFromOutside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := WriteDaemon(Daemon{Node: "edge-1", RunDir: dir, Socket: "/s"}); err != nil {
		t.Fatal(err)
	}
	d, err := ReadDaemon("/s", t.TempDir(), dir)
	if err != nil || d.Process.Pid != os.Getpid() || d.Node != "edge-1" {
		t.Fatalf("%+v, %v", d, err)
	}
	if _, err := ReadDaemon("/other", dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the daemon of another socket: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key.pem"), []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, files := made(t, Options{}, Host{Daemon: d.Process, RunDir: dir, StateDir: dir}.Parts()...)
	for name, want := range map[string]string{"host/disk.txt": "key.pem", "host/machine.txt": "MemTotal",
		"host/sysctl.txt": "net.ipv4.ip_forward = ", "host/daemon-threads.txt": "thread "} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %q: %s", name, want, files[name])
		}
	}
	if strings.Contains(files["host/disk.txt"], "canary") {
		t.Error("the content of a file")
	}
	text, err := os.ReadFile(filepath.Join(dir, daemonFile))
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(text), `"start":`, `"start":1`, 1) // the process id belongs to another one by now
	if err := os.WriteFile(filepath.Join(dir, daemonFile), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err := ReadDaemon("/s", t.TempDir(), dir); err != nil || d.Process.Pid != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}
