package field

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"edgespan/integration/soak/guest"
)

// What lines of a log say that must not be there, in a syntax that grep has, too: a crash of a process, or of one of
// its actors, which goes on; and of a node's journal a daemon that ended by itself, or did not feed its watchdog.
const (
	crashed = `panic:|fatal error:|DATA RACE|"msg":"panic"`
	bad     = `edgespan.*(` + crashed + `)|` +
		`edgespan\.service: (Watchdog timeout|Main process exited, code=(exited|dumped))`
)

// maxTold is how many such lines are told of each look.
const maxTold = 3

// readJournal prints the bad lines that are new in the journal: all of it takes minutes after some hours. A line of its
// own proves that what it reads goes up to now.
var readJournal = fmt.Sprintf(`logger -t soak "look $$ ."; journalctl --sync
new=$(journalctl --no-pager -q --cursor-file=/var/lib/soak-cursor)
printf '%%s\n' "$new" | grep -qF "look $$ ." || { echo "the journal lacks its last line"; exit 9; }
printf '%%s\n' "$new" | grep -E '%s' | head -%d`, bad, maxTold)

// inspect judges what other programs own, and what the journal says.
func (r *run) inspect(ctx context.Context, m *machine) {
	short, cancel := context.WithTimeout(ctx, r.limit(time.Minute))
	defer cancel()
	foreign, foreignErr := m.sh(short, "sh "+guest.Dir+"/foreign.sh")
	found, journalErr := m.sh(short, readJournal)
	was := r.foreign[m.node-1]
	switch {
	case ctx.Err() != nil || errors.Is(foreignErr, errCut):
		return
	case foreignErr != nil:
		r.referee.violated(nodeName(m.node), "nothing foreign is touched", foreignErr.Error())
	case foreign != was:
		r.referee.violated(nodeName(m.node), "nothing foreign is touched", fmt.Sprintf("%q was %q", foreign, was))
	}
	switch {
	case journalErr != nil: // what is not read is not judged
		r.referee.violated("soak", "the soak itself works", journalErr.Error())
	case found != "":
		r.referee.violated(nodeName(m.node), "the watchdog is fed, nothing crashes", found)
	}
}

// crashes returns lines of the controller's log that must not be there, of those since the last call.
func (l *lab) crashes() (lines []string) {
	text, err := readFrom(filepath.Join(l.dir, "controller.log"), l.logRead)
	if err != nil {
		return []string{err.Error()}
	}
	l.logRead += int64(len(text))
	of := regexp.MustCompile(crashed)
	for line := range bytes.Lines(text) {
		if len(lines) < maxTold && of.Match(line) {
			lines = append(lines, string(bytes.TrimSpace(line[:min(len(line), 500)])))
		}
	}
	return lines
}

func readFrom(path string, offset int64) ([]byte, error) {
	f, err := os.Open(path) // #nosec G304 -- the run's folder
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}
