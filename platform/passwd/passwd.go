package passwd

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const (
	checkEvery      = time.Second     // at the file
	timeout         = 5 * time.Second // for a turn to compute
	longestPassword = 1024            // octets that are looked at; bcrypt itself counts the first 72
)

// Why a password is not taken.
var (
	ErrDenied = errors.New("check password: wrong user or password")
	ErrBusy   = errors.New("check password: too many checks in progress")
)

// File is a file of users in force. It may be used from several goroutines.
type File struct {
	path  string
	roles []string
	fault func(error) // nil: nobody hears
	key   [32]byte
	turns chan struct{}
	table atomic.Pointer[table]

	mu     sync.Mutex // one reads the file
	looked atomic.Int64
}

// table is the content of a file.
type table struct {
	users map[string]*user
	noUser,
	stamp string
}

// Open reads the file. Roles are the words that may stand in it; fault hears, once for each
// state of the file, why it can't be taken later on.
func Open(path string, roles []string, fault func(error)) (*File, error) {
	f := &File{path: path, roles: roles, fault: fault, turns: make(chan struct{}, runtime.GOMAXPROCS(0))}
	if _, err := rand.Read(f.key[:]); err != nil {
		return nil, err
	}
	f.table.Store(&table{})
	return f, f.Reload()
}

// Reload reads the file. With an error what was read before stays in force.
func (f *File) Reload() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read("")
}

// read takes the file over unless it is in the state that is known.
func (f *File) read(known string) error {
	f.looked.Store(time.Now().UnixNano())
	have := f.table.Load()
	stamp, text, err := f.text(known)
	if stamp == known {
		return nil
	}
	var users map[string]*user
	if err == nil {
		users, err = parse(f.path, text, f.roles)
	}
	if err != nil {
		// The stamp is kept, so that a fault is told once; what was in force stays.
		f.table.Store(&table{users: have.users, noUser: have.noUser, stamp: stamp})
		return fmt.Errorf("read passwords: %w", err)
	}
	next := &table{users: users, stamp: stamp}
	dearest := 0
	for name, u := range users {
		if was := have.users[name]; was != nil && string(was.hash) == string(u.hash) {
			u.right.Store(was.right.Load())
		}
		if u.cost > dearest {
			dearest, next.noUser = u.cost, string(u.hash)
		}
	}
	f.table.Store(next)
	return nil
}

// text is the file's, unless its stamp is the known one. A file that can't be read has its
// error as its stamp.
func (f *File) text(known string) (stamp string, text []byte, err error) {
	file, err := os.Open(f.path)
	if err != nil {
		return err.Error(), nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err.Error(), nil, err
	}
	stamp = fmt.Sprint(info.ModTime().UnixNano(), info.Size(), info.Mode(), inode(info))
	switch {
	case stamp == known:
		return stamp, nil, nil
	case !info.Mode().IsRegular():
		return stamp, nil, fmt.Errorf("%s: must be a regular file", f.path)
	case info.Mode().Perm()&0o007 != 0:
		return stamp, nil, fmt.Errorf("%s: has mode %04o: others may not read or write it: chmod 640", f.path,
			info.Mode().Perm())
	case info.Size() > largestFile:
		return stamp, nil, fmt.Errorf("%s: %d bytes: must be at most %d", f.path, info.Size(), largestFile)
	}
	text, err = io.ReadAll(io.LimitReader(file, largestFile))
	return stamp, text, err
}

// Check finds the role of a user with a password. ErrDenied says that there is none, ErrBusy
// that nobody could look in time.
func (f *File) Check(ctx context.Context, name, password string) (role string, err error) {
	f.reload()
	if len(password) > longestPassword {
		return "", ErrDenied
	}
	t := f.table.Load()
	u := t.users[name]
	sum := f.sum(name, password)
	if u.matches(sum) {
		return u.role, nil
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case f.turns <- struct{}{}:
		defer func() { <-f.turns }()
	case <-late.C:
		return "", ErrBusy
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if u.matches(sum) { // somebody computed it meanwhile
		return u.role, nil
	}
	hash := t.noUser
	if u != nil {
		hash = string(u.hash)
	}
	if hash == "" || bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) != nil || u == nil {
		return "", ErrDenied
	}
	u.right.Store(&sum)
	return u.role, nil
}

// Known is Check of a password that was right before: it computes no hash.
func (f *File) Known(name, password string) (role string, known bool) {
	f.reload()
	u := f.table.Load().users[name]
	if len(password) > longestPassword || !u.matches(f.sum(name, password)) {
		return "", false
	}
	return u.role, true
}

// sum is what is remembered of a password; no text of a password stays.
func (f *File) sum(name, password string) (out [sha256.Size]byte) {
	mac := hmac.New(sha256.New, f.key[:])
	_, _ = io.WriteString(mac, strings.Join([]string{name, password}, "\x00")) // a hash takes all
	copy(out[:], mac.Sum(nil))
	return out
}

func (u *user) matches(sum [sha256.Size]byte) bool {
	if u == nil {
		return false
	}
	was := u.right.Load()
	return was != nil && hmac.Equal(was[:], sum[:])
}

// reload reads the file anew if it changed, at most once in lookEvery, and by one caller while
// the others go on with what is there.
func (f *File) reload() {
	if time.Now().UnixNano()-f.looked.Load() < int64(checkEvery) || !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	if err := f.read(f.table.Load().stamp); err != nil && f.fault != nil {
		f.fault(err)
	}
}
