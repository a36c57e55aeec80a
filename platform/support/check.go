package support

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Limits of an archive that another machine sends. maxNumber is the number of its files.
const (
	maxUnpacked = 2 * MaxBytes
	maxNumber   = 1000
	maxManifest = 1 << 20
)

// Check reads an archive to its end and returns its index. Its error says why it is not a complete archive, or not a
// harmless one: it could come from a node that somebody else controls. It stops at the first fault.
func Check(r io.Reader) (Manifest, error) {
	in := bufio.NewReader(r)
	zip, err := gzip.NewReader(in)
	if err != nil {
		return Manifest{}, fmt.Errorf("is no archive: %w", err)
	}
	zip.Multistream(false)
	unpacked := &io.LimitedReader{R: zip, N: maxUnpacked}
	m, err := checkFiles(tar.NewReader(unpacked))
	if err == nil {
		_, err = io.Copy(io.Discard, unpacked) // the padding of the tar, and the checksum of the compression
	}
	if unpacked.N <= 0 {
		return m, fmt.Errorf("unpacks to more than %d bytes", maxUnpacked)
	}
	if err != nil {
		return m, err
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return m, errors.New("has data behind its end")
	}
	return m, nil
}

// checkFiles reads the files of an archive; the index is the last of them.
func checkFiles(files *tar.Reader) (Manifest, error) {
	var m Manifest
	folder, last := "", ""
	for n := 0; ; n++ {
		h, err := files.Next()
		switch {
		case errors.Is(err, io.EOF) && last == ManifestName:
			return m, nil
		case errors.Is(err, io.EOF):
			return m, errors.New("is incomplete: it has no index")
		case err != nil:
			return m, fmt.Errorf("is damaged: %w", err)
		case n >= maxNumber:
			return m, fmt.Errorf("has more than %d files", maxNumber)
		}
		top, name, _ := strings.Cut(h.Name, "/")
		if folder == "" {
			folder = top
		}
		if h.Typeflag != tar.TypeReg || top != folder || !strings.HasPrefix(top, "edgespan-support-") || name == "" ||
			path.Clean(h.Name) != h.Name || strings.ContainsFunc(h.Name, func(c rune) bool { return c < ' ' || c > '~' }) {
			return m, fmt.Errorf("has the entry %q: must be a file below one folder", h.Name)
		}
		if err := checkHeader(h); err != nil {
			return m, err
		}
		if last = name; name != ManifestName {
			continue
		}
		m = Manifest{}
		if err := json.NewDecoder(io.LimitReader(files, maxManifest)).Decode(&m); err != nil {
			return m, fmt.Errorf("has a damaged index: %w", err)
		}
	}
}

// checkHeader refuses what would make more of a file than its content when root unpacks it, or when it is read: a mode
// such as set-user-ID, another owner, capabilities, or a hole of any size.
func checkHeader(h *tar.Header) error {
	if h.Mode != fileMode || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" {
		return fmt.Errorf("has the entry %q with mode %o and owner %d:%d: must be %o and 0:0", h.Name, h.Mode, h.Uid, h.Gid,
			fileMode)
	}
	for name := range h.PAXRecords {
		if !slices.Contains([]string{"mtime", "path", "size"}, name) {
			return fmt.Errorf("has the entry %q with the attribute %.40q: must have none", h.Name, name)
		}
	}
	return nil
}
