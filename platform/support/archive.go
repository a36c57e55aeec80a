package support

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"edgespan/config/layers/redact"
)

// Limits of an archive, in bytes before the compression, and in time. One part after the other is collected in memory.
const (
	PartLimit   = 2 << 20
	MaxBytes    = 48 << 20 // all parts
	PartTimeout = 10 * time.Second
	MaxTime     = 2 * time.Minute // all parts; after it the others are left out
)

// Names of the index in an archive. It comes last: an archive without it is incomplete.
const (
	ManifestName = "MANIFEST.json"
	ReadmeName   = "README.txt"
)

// fileMode is the mode of each file in an archive.
const fileMode = 0o600

// Part is one file of an archive.
type Part struct {
	Name    string // below the archive's folder
	About   string // what it is, in a few words
	Missing string // why it is left out; "" if Collect returns it
	Limit   int    // bytes; 0: PartLimit
	Timeout time.Duration
	// Opaque is a content that Collect has checked for secrets: it is no text, and stays as it is.
	Opaque bool
	Tail   bool // its end counts when it is too long, not its beginning
	JSON   bool // JSON values, which are masked by the names of their keys
	// Mask returns the content without the secrets that only its form shows; nil: none. Of a content that is cut, or that
	// it has an error for, nothing is kept. It must not quote the content in its error.
	Mask func(text []byte) ([]byte, error)
	// Collect writes the content. It may write in vain after its context has ended. What it wrote before an error is kept.
	Collect func(ctx context.Context, w io.Writer) error
}

// File is one part in the index.
type File struct {
	Name  string `json:"name"`
	About string `json:"about"`
	Bytes int    `json:"bytes"`
	Cut   bool   `json:"cut,omitempty"` // longer than its limit: the rest is missing
	Fault string `json:"fault,omitempty"`
}

// LeftOut is a part that is not in the archive.
type LeftOut struct {
	Name  string `json:"name"`
	About string `json:"about"`
	Why   string `json:"why"`
}

// Manifest is the index of an archive.
type Manifest struct {
	Node    string    `json:"node"`
	Created time.Time `json:"created"`
	Version string    `json:"version"` // of the program that made it
	Command string    `json:"command"` // what was asked for
	Files   []File    `json:"files"`
	LeftOut []LeftOut `json:"leftOut"`
}

// Options are the settings of an archive.
type Options struct {
	Node, Version, Command string
	Redactor               *redact.Redactor
	Now                    time.Time
	MaxBytes               int           // 0: MaxBytes
	MaxTime                time.Duration // 0: MaxTime
}

// Folder returns the name of the folder that an archive contains.
func Folder(node string, at time.Time) string {
	return "edgespan-support-" + word(node) + "-" + at.UTC().Format("20060102T150405Z")
}

// word returns a text as a part of a file name.
func word(s string) string {
	s = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			return c
		}
		return '-'
	}, s)
	return cmp.Or(s[:min(len(s), 64)], "node")
}

// Write writes an archive of the parts in their order: a part's secrets are known to the parts behind it. An error is
// one of w or of ctx; faults of parts are in the index.
func Write(ctx context.Context, w io.Writer, o Options, parts []Part) (Manifest, error) {
	zip := gzip.NewWriter(w)
	a := &archive{o: o, zip: zip, tar: tar.NewWriter(zip), room: cmp.Or(o.MaxBytes, MaxBytes)}
	a.index = Manifest{Node: o.Node, Created: o.Now.UTC(), Version: o.Version, Command: o.Command, Files: []File{},
		LeftOut: []LeftOut{}}
	all, cancel := context.WithTimeout(ctx, cmp.Or(o.MaxTime, MaxTime))
	defer cancel()
	for _, p := range parts {
		if err := ctx.Err(); err != nil {
			return a.index, err
		}
		if err := a.add(all, p); err != nil {
			return a.index, err
		}
	}
	return a.index, a.finish()
}

type archive struct {
	o     Options
	zip   *gzip.Writer
	tar   *tar.Writer
	room  int
	index Manifest
}

// add collects one part and writes it.
func (a *archive) add(ctx context.Context, p Part) error {
	switch {
	case p.Missing != "":
	case a.room <= 0:
		p.Missing = "the archive has reached its size"
	case ctx.Err() != nil:
		p.Missing = "the time for the whole archive was over"
	}
	if p.Missing != "" {
		a.leaveOut(p)
		return nil
	}
	got := collect(ctx, p, min(cmp.Or(p.Limit, PartLimit), a.room))
	text, fault := got.text, got.fault
	switch {
	case (p.Mask != nil || p.Opaque) && (got.cut || fault != ""):
		text = nil
	case p.Mask != nil:
		var err error
		if text, err = p.Mask(text); err != nil {
			text, fault = nil, err.Error()
		}
	case p.JSON:
		var err error
		if text, err = a.o.Redactor.JSON(text); err != nil && fault == "" && !got.cut {
			fault = "no valid JSON: " + err.Error()
		}
	}
	if a.o.Redactor.Forgotten() > 0 {
		text, fault = nil, "there are too many secrets to find all of them in it"
	}
	if !p.Opaque {
		text = a.o.Redactor.Text(text)
	}
	if len(text) == 0 && (fault != "" || got.cut) {
		p.Missing = cmp.Or(fault, "larger than its limit")
		a.leaveOut(p)
		return nil
	}
	a.room -= len(text)
	fault = string(a.o.Redactor.Text([]byte(fault)))
	a.index.Files = append(a.index.Files, File{Name: p.Name, About: p.About, Bytes: len(text), Cut: got.cut, Fault: fault})
	return a.put(p.Name, text)
}

func (a *archive) leaveOut(p Part) {
	a.index.LeftOut = append(a.index.LeftOut,
		LeftOut{Name: p.Name, About: p.About, Why: string(a.o.Redactor.Text([]byte(p.Missing)))})
}

// put writes one file. Each one is flushed, so that a reader sees progress.
func (a *archive) put(name string, text []byte) error {
	err := a.tar.WriteHeader(&tar.Header{Name: path.Join(Folder(a.o.Node, a.o.Now), name), Mode: fileMode,
		Size: int64(len(text)), ModTime: a.o.Now, Typeflag: tar.TypeReg, Format: tar.FormatPAX})
	if err == nil {
		_, err = a.tar.Write(text)
	}
	return errors.Join(err, a.tar.Flush(), a.zip.Flush())
}

// finish writes the index.
func (a *archive) finish() error {
	text, err := json.MarshalIndent(a.index, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(a.put(ReadmeName, a.index.readme()), a.put(ManifestName, append(text, '\n')), a.tar.Close(),
		a.zip.Close())
}

// readme returns the index for people.
func (m Manifest) readme() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Support archive of the edgespan node %s, made %s by edgespan %s (%s).\n\n", m.Node,
		m.Created.Format(time.RFC3339), m.Version, m.Command)
	b.WriteString("Secrets are replaced by {\"$masked\": true} or " + redact.Mark + ". Names, addresses and the " +
		"texts of logs are as they are:\ngive the archive only to people who may see them.\n\n")
	for _, f := range m.Files {
		fmt.Fprintf(&b, "%9d  %-32s %s", f.Bytes, f.Name, f.About)
		if f.Cut {
			b.WriteString("; longer than its limit, the rest is missing")
		}
		if f.Fault != "" {
			b.WriteString("; incomplete: " + oneLine(f.Fault))
		}
		b.WriteByte('\n')
	}
	if len(m.LeftOut) > 0 {
		b.WriteString("\nLeft out:\n")
	}
	for _, l := range m.LeftOut {
		fmt.Fprintf(&b, "           %-32s %s: %s\n", l.Name, l.About, oneLine(l.Why))
	}
	return b.Bytes()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
