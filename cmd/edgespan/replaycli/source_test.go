package replaycli

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// archive makes a support archive with these files.
func archive(t *testing.T, headers ...tar.Header) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "edgespan-support-n.tar.gz")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	zip := gzip.NewWriter(file)
	w := tar.NewWriter(zip)
	for _, h := range headers {
		size := h.Size
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(w, zeros{}, size); err != nil {
			t.Fatal(err)
		}
	}
	if w.Close() != nil || zip.Close() != nil || file.Close() != nil {
		t.Fatal("the archive is not written")
	}
	return name
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// Of an archive, segments alone are read, into memory: whatever their folders, links and sizes are.
func TestAHostileArchive(t *testing.T) {
	const ok = "x/recording/000000001.tape.gz"
	name := archive(t,
		tar.Header{Name: "x/recording/", Typeflag: tar.TypeDir}, tar.Header{Name: "x/recording/../../../etc/passwd", Size: 3},
		tar.Header{Name: "x/recording/000000002.tape.gz", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"},
		tar.Header{Name: "x/recording/000000003.tape.gz", Typeflag: tar.TypeFifo},
		tar.Header{Name: "x/recording/lock", Size: 3}, tar.Header{Name: "../../recording/000000004.tape.gz", Size: 4},
		tar.Header{Name: ok, Size: 5}, tar.Header{Name: "x/other/000000005.tape.gz", Size: 6})
	got, err := find([]string{name})
	if err != nil || len(got) != 2 || len(got[0].text) != 4 || len(got[1].text) != 5 {
		t.Errorf("%d segments, %v", len(got), err)
	}
	if _, err := find([]string{archive(t, tar.Header{Name: "x/recording/", Typeflag: tar.TypeDir})}); err == nil ||
		!strings.Contains(err.Error(), "has no recording") {
		t.Errorf("a folder is a recording: %v", err)
	}
	var many []tar.Header
	for range 3000 {
		many = append(many, tar.Header{Name: ok})
	}
	for what, name := range map[string]string{
		"many segments": archive(t, many...), "a large one": archive(t, tar.Header{Name: ok, Size: archiveLimit + 1}),
		"many large ones": archive(t, tar.Header{Name: ok, Size: archiveLimit/2 + 1}, tar.Header{Name: ok, Size: archiveLimit / 2}),
	} {
		if got, err := find([]string{name}); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: %d segments, %v", what, len(got), err)
		}
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, whole[:len(whole)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := find([]string{name}); err == nil {
		t.Error("a part of an archive is a whole one")
	}
}
