package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// quarantineInfix separates the name of a damaged file from the time at which it was set aside.
const quarantineInfix = ".corrupt-"

// maxQuarantined is how many damaged files of one name are kept: the oldest, which is the closest to the lost data, and
// the newest ones.
const maxQuarantined = 4

// salvage reads every whole frame of a log, skips everything between them, and counts the gaps. A different header is a
// gap, too. From a frame with a record of an unknown form it takes the records before that one.
func salvage(log []byte) (records []record, gaps int) {
	at := headerSize
	if _, err := scanHeader(log); err != nil {
		gaps++
		at = 0
	}
	for at < len(log) {
		payload, ok := cutFrame(log, at)
		if !ok {
			next := nextFrame(log, at+1)
			if next < 0 {
				return records, gaps + 1
			}
			if at > 0 || gaps == 0 { // the header's gap is counted
				gaps++
			}
			at = next
			continue
		}
		whole, fault := parseRecords(payload)
		if fault != nil {
			gaps++
		}
		records = append(records, whole...)
		at += frameHead + len(payload)
	}
	return records, gaps
}

// nextFrame returns where the next whole frame begins, -1 for nowhere.
func nextFrame(log []byte, from int) int {
	for at := from; at < len(log); at++ {
		next := bytes.Index(log[at:], []byte(frameMagic))
		if next < 0 {
			return -1
		}
		at += next
		if _, ok := cutFrame(log, at); ok {
			return at
		}
	}
	return -1
}

// quarantine gives a damaged file a second name in the same folder, which remains when the file is replaced, and
// returns that name. The file itself stays until then, so that a power failure in between leaves it in place. A file
// that already has such a name gets no other.
func quarantine(path string, unix int64) (string, error) {
	file, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("set %s aside: %w", path, err)
	}
	for _, name := range Quarantined(path) {
		if kept, err := os.Lstat(name); err == nil && os.SameFile(file, kept) {
			return name, nil
		}
	}
	for ; ; unix++ {
		name := fmt.Sprintf("%s%s%d", path, quarantineInfix, unix)
		err := os.Link(path, name)
		if errors.Is(err, fs.ErrExist) {
			continue // another file was set aside in this second
		} else if err != nil {
			return "", fmt.Errorf("set %s aside: %w", path, err)
		}
		pruneQuarantine(path)
		return name, nil
	}
}

// CopyAside copies both files of a slot to names in the same folder, as far as the disk allows. Slots are overwritten
// in place, so a second name would preserve nothing.
func CopyAside(slot string) {
	for i := range 2 {
		path := fmt.Sprintf("%s.%d", slot, i)
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		last, when := "", time.Now().Unix()
		if names := Quarantined(path); len(names) > 0 {
			last = names[len(names)-1]
			when = max(when, quarantinedAt(path, last)+1)
		}
		if kept, err := os.ReadFile(last); err == nil && bytes.Equal(kept, text) {
			continue // by the previous start
		}
		_ = WriteFile(fmt.Sprintf("%s%s%d", path, quarantineInfix, when), text, 0o600)
		pruneQuarantine(path)
	}
}

// pruneQuarantine bounds the disk space of damaged files.
func pruneQuarantine(path string) {
	names := Quarantined(path)
	for ; len(names) > maxQuarantined; names = slices.Delete(names, 1, 2) {
		_ = os.Remove(names[1]) // one more or less doesn't matter
	}
}

// Quarantined returns the copies of a damaged file that were set aside, the oldest first.
func Quarantined(path string) []string {
	entries, _ := os.ReadDir(filepath.Dir(path))
	var names []string
	for _, e := range entries {
		if name := filepath.Join(filepath.Dir(path), e.Name()); quarantinedAt(path, name) >= 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(quarantinedAt(path, a), quarantinedAt(path, b)) })
	return names
}

// quarantinedAt returns the time in the name of a copy of path, -1 if name is none.
func quarantinedAt(path, name string) int64 {
	digits, ok := strings.CutPrefix(name, path+quarantineInfix)
	if n, err := strconv.ParseInt(digits, 10, 64); ok && err == nil {
		return n
	}
	return -1
}

// acquireAnyLock locks the journal's lock file or, if the disk allows no new file, the folder itself. A folder that
// can't even be opened has nothing that two processes could damage.
func acquireAnyLock(dir string) (*os.File, error) {
	lock, err := acquireLock(filepath.Join(dir, lockName))
	if err == nil || errors.Is(err, ErrLocked) {
		return lock, err
	}
	folder, openErr := os.Open(dir)
	if openErr != nil {
		return nil, nil
	}
	if flock := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(flock, unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("lock journal folder %s: %w", dir, ErrLocked), folder.Close())
	}
	return folder, nil
}

// isDiskFull reports whether an error means a full disk or quota, which is temporary.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
