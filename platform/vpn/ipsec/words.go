package ipsec

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os"
	"regexp"
	"strings"
)

// logMax is the size at which a log is cut; charon's limit (confinement) is larger.
const logMax = 256 << 10

// logReader reads what charon adds to its log and bounds it.
type logReader struct {
	path  string
	at    int64
	rest  []byte // an incomplete line
	words words
}

// read reads the new lines and reports whether there are any. A log that can't be read now can be at the next time.
func (l *logReader) read() bool {
	f, err := openOwn(l.path, os.O_RDWR)
	if err != nil {
		return false
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return false
	}
	if st.Size() < l.at {
		l.at, l.rest = 0, nil
	}
	text, err := io.ReadAll(io.NewSectionReader(f, l.at, min(st.Size()-l.at, int64(confinement.FileSize))))
	l.at += int64(len(text))
	if err != nil {
		return false
	}
	lines := bytes.Split(append(l.rest, text...), []byte{'\n'})
	l.rest = bytes.Clone(lines[len(lines)-1])
	for _, line := range lines[:len(lines)-1] {
		l.words.hear(string(line))
	}
	if l.at > logMax && f.Truncate(0) == nil { // charon appends
		l.at, l.rest = 0, nil
	}
	return len(text) > 0
}

// words turn the log of a charon into one sentence about what keeps its tunnel from working.
type words struct {
	peer   peer
	said   string // the sentence, "" for none
	rank   int    // of said within the current try: a more exact cause has a higher one
	silent bool   // said is about the silence of the peer
	child  bool   // said is about a child, not about the connection
	rekeys int
	lacks  netip.Prefix // charon has no address within this selector
}

// name is how people know the peer.
func (w *words) name() string {
	switch {
	case w.peer.Address != "":
		return w.peer.Address
	case w.peer.RemoteID != "":
		return w.peer.RemoteID
	}
	return "(any)"
}

var (
	retransmits = regexp.MustCompile(`retransmit \d+ of request`)
	noAddress   = regexp.MustCompile(`error installing route with policy (\S+) === `)
)

// hear takes one line of the log into account.
func (w *words) hear(line string) {
	_, line, ok := strings.Cut(line, "] ")
	if !ok {
		return
	}
	switch {
	case strings.Contains(line, "initiating IKE_SA "), strings.HasPrefix(line, "parsed IKE_SA_INIT request"):
		w.rank = 0
		return
	case strings.Contains(line, "IKE_SA ") && strings.Contains(line, " established between "):
		if !w.child {
			w.said, w.rank = "", 0
		}
		return
	case strings.Contains(line, " rekeyed between "):
		w.rekeys++
		return
	case strings.HasPrefix(line, "outbound CHILD_SA ") && strings.Contains(line, " established "):
		w.rekeys++
		return
	case strings.HasPrefix(line, "CHILD_SA ") && strings.Contains(line, " established "):
		w.said, w.rank, w.child, w.silent = "", 0, false, false
		return
	case strings.HasPrefix(line, "parsed "):
		if w.silent {
			w.said, w.silent = "", false
		}
		return
	case retransmits.MatchString(line):
		w.said, w.silent, w.child = fmt.Sprintf("the peer %s does not answer", w.name()), true, false
		return
	}
	if f := noAddress.FindStringSubmatch(line); f != nil {
		if p, err := netip.ParsePrefix(f[1]); err == nil {
			w.lacks = p
		}
		return
	}
	for _, c := range causes {
		if f := c.line.FindStringSubmatch(line); f != nil {
			if c.rank >= w.rank {
				w.said, w.rank, w.child, w.silent = c.means(w, f), c.rank, c.child, false
			}
			return
		}
	}
}
