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
	checkEvery      = time.Second     // interval of checks of the file
	timeout         = 5 * time.Second // time limit of the wait for a computation
	longestPassword = 1024            // bytes that are checked; bcrypt itself uses the first 72
)

// Errors of Check.
var (
	ErrDenied = errors.New("check password: wrong user or password")
	ErrBusy   = errors.New("check password: too many checks in progress")
)

// File is a file of users. It is safe for concurrent use.
type File struct {
	path  string
	roles []string
	fault func(error) // may be nil
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

// Open reads the file. roles are the permitted roles. fault is called once for each faulty state of the file later on.
func Open(path string, roles []string, fault func(error)) (*File, error) {
	f := &File{path: path, roles: roles, fault: fault, turns: make(chan struct{}, runtime.GOMAXPROCS(0))}
	if _, err := rand.Read(f.key[:]); err != nil {
		return nil, err
	}
	f.table.Store(&table{})
	return f, f.Reload()
}

// Reload reads the file. After an error the previous content remains valid.
func (f *File) Reload() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read("")
}

// read reads the file unless its stamp is known.
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
		// The new stamp makes sure that a fault is reported once; the previous users remain.
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

// text returns the text of the file, unless its stamp is known. The stamp of an unreadable file is the error.
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

// Check returns the role of a user with a password. It returns ErrDenied if they are wrong, and ErrBusy if no
// computation was possible in time.
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
	if u.matches(sum) { // another check has computed it meanwhile
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

// Known is Check for a password that was correct before. It computes no bcrypt hash.
func (f *File) Known(name, password string) (role string, known bool) {
	f.reload()
	u := f.table.Load().users[name]
	if len(password) > longestPassword || !u.matches(f.sum(name, password)) {
		return "", false
	}
	return u.role, true
}

// sum returns the HMAC of a name and a password; the password itself is not stored.
func (f *File) sum(name, password string) (out [sha256.Size]byte) {
	mac := hmac.New(sha256.New, f.key[:])
	_, _ = io.WriteString(mac, strings.Join([]string{name, password}, "\x00")) // a hash accepts any write
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

// reload rereads the file if it changed, at most once per checkEvery. One caller reads while the others use the
// previous content.
func (f *File) reload() {
	if time.Now().UnixNano()-f.looked.Load() < int64(checkEvery) || !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	if err := f.read(f.table.Load().stamp); err != nil && f.fault != nil {
		f.fault(err)
	}
}
