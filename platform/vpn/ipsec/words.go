package ipsec

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
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

// read reads the new lines and reports whether any is about the tunnel itself, not only about those who call. A log
// that can't be read now can be at the next time.
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
	own := false
	l.words.callers.left = callerLines
	for _, line := range lines[:len(lines)-1] {
		own = l.words.hear(string(line)) || own
	}
	if l.at > logMax && f.Truncate(0) == nil { // charon appends
		l.at, l.rest = 0, nil
	}
	return own
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

	own     map[uint64]bool // the numbers of the IKE_SAs that are no stranger's
	callers callers
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
	begins      = regexp.MustCompile(`^initiating IKE_SA ` + connName + `\[(\d+)\] to `)
	stands      = regexp.MustCompile(`^IKE_SA ` + connName + `\[(\d+)\] (established|rekeyed) between `)
)

// entry is a line of charon's log.
type entry struct {
	at     time.Time
	group  string // what of charon it is from, such as IKE
	number uint64 // of the IKE_SA that it is about
	tagged bool   // there is one
	text   string
}

// entryOf takes a line apart: "1795767858 16[IKE] <net|1> tried 1 shared key". An IKE_SA that another has begun has no
// name until charon has found a connection for it: "<1>". ok is false for what is no line of a log.
func entryOf(line string) (e entry, ok bool) {
	head, text, ok := strings.Cut(line, "] ")
	if !ok {
		return e, false
	}
	var seconds string
	seconds, e.group, _ = strings.Cut(head, " ")
	if n, err := strconv.ParseInt(seconds, 10, 64); err == nil {
		e.at = time.Unix(n, 0)
	}
	_, e.group, _ = strings.Cut(e.group, "[")
	e.text = text
	if rest, found := strings.CutPrefix(text, "<"); found {
		tag, rest, _ := strings.Cut(rest, "> ")
		number, err := strconv.ParseUint(strings.TrimPrefix(tag, connName+"|"), 10, 64)
		if err == nil {
			e.number, e.tagged, e.text = number, true, rest
		}
	}
	return e, true
}

// hear takes one line of the log into account, and reports whether it is about the tunnel itself, not about a caller.
func (w *words) hear(line string) bool {
	e, ok := entryOf(line)
	if !ok {
		return false
	}
	for _, r := range []*regexp.Regexp{begins, stands} {
		if f := r.FindStringSubmatch(e.text); f != nil {
			n, err := strconv.ParseUint(f[1], 10, 64)
			if err == nil && (n == e.number || !e.tagged || w.isOwn(e.number)) {
				w.setOwn(n)
			}
		}
	}
	if e.tagged && !w.isOwn(e.number) {
		w.callers.hear(w, e.number, e.at, e.group, e.text)
		return false
	}
	w.hearOwn(e.text)
	return true
}

// hearOwn takes a line into account that is not about a caller.
func (w *words) hearOwn(line string) {
	switch {
	case begins.MatchString(line):
		w.rank = 0
		return
	case stands.MatchString(line):
		if strings.Contains(line, " rekeyed between ") {
			w.rekeys++
			return
		}
		if w.rank = 0; !w.child {
			w.said, w.silent = "", false
		}
		return
	case strings.HasPrefix(line, "outbound CHILD_SA ") && strings.Contains(line, " established "):
		w.rekeys++
		return
	case strings.HasPrefix(line, "CHILD_SA ") && strings.Contains(line, " established "):
		w.said, w.rank, w.child, w.silent = "", 0, false, false
		w.callers.clear()
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
