// Package datadir manages the data folder of a controller: the lock that excludes a second controller, the name of the
// replica, the key of masked digests, the file of the first admin token, and the audit log.
//
// It never knows what a token may do and never decides what is audited. The store and the certificates are in the same
// folder but belong to other packages.
package datadir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"edgespan/config"
	"edgespan/platform/store"
)

// ErrLocked reports that another controller uses the folder.
var ErrLocked = config.Conflict.NewError("in use by another controller: stop it first")

// The files of this package.
const (
	lockFile    = "lock"
	replicaFile = "replica"
	maskFile    = "mask.key"
	tokenFile   = "admin.token"
)

// MaskKey is the length of the key of masked digests, in bytes.
const MaskKey = 32

// Dir is the locked data folder of one controller.
type Dir struct {
	path string
	lock *os.File
}

// Open creates the folder if it is missing, locks it, and removes temporary files that a crash left. The error of a
// locked folder wraps ErrLocked and names the lock file.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	// The kernel releases the lock when the process ends, however that happens.
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, errors.Join(fmt.Errorf("lock data folder: %w: %s", err, lock.Name()), lock.Close())
	}
	if err := store.Sweep(path); err != nil {
		return nil, errors.Join(fmt.Errorf("open data folder: %w", err), lock.Close())
	}
	return &Dir{path: path, lock: lock}, nil
}

// Close releases the folder.
func (d *Dir) Close() error { return d.lock.Close() }

// Path returns the path of a file in the folder.
func (d *Dir) Path(file string) string { return filepath.Join(d.path, file) }

// replicaName matches a valid name: it is a segment of keys and of layer names.
var replicaName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Replica returns the name of this controller in its fleet. At first it is the machine's name with four random bytes,
// and it is stored. A desired name replaces the stored one; settings under the old name keep that name.
func (d *Dir) Replica(desired string) (string, error) {
	path := d.Path(replicaFile)
	if desired != "" && !replicaName.MatchString(desired) {
		return "", fmt.Errorf("name this replica: invalid value %.80q: must be 1 to 63 letters, digits, '.', '-' and '_'",
			desired)
	}
	text, err := os.ReadFile(path)
	kept := strings.TrimSpace(string(text))
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("name this replica: %w", err)
	case err == nil && !replicaName.MatchString(kept):
		return "", fmt.Errorf("name this replica: %s: invalid value %.80q: must be 1 to 63 letters, digits, '.', '-' and '_'",
			path,
			kept)
	case err == nil && (desired == "" || desired == kept):
		return kept, nil
	case desired == "":
		if desired, err = newReplica(); err != nil {
			return "", fmt.Errorf("name this replica: %w", err)
		}
	}
	if err := store.WriteFile(path, []byte(desired+"\n"), 0o644); err != nil {
		return "", fmt.Errorf("name this replica: %w", err)
	}
	return desired, nil
}

func newReplica() (string, error) {
	host, err := os.Hostname()
	host, _, _ = strings.Cut(host, ".")
	if err != nil || !replicaName.MatchString(host) || len(host) > 50 {
		host = "controller"
	}
	random := make([]byte, 4)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	return host + "-" + hex.EncodeToString(random), nil
}

// Mask returns the key of the digests that replace MD5s where secrets are masked. It is created once, so that digests
// remain comparable after a restart.
func (d *Dir) Mask() ([]byte, error) {
	path := d.Path(maskFile)
	text, err := readSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		key := make([]byte, MaskKey)
		if _, err := rand.Read(key); err != nil {
			return nil, fmt.Errorf("make mask key: %w", err)
		}
		return key, d.write(maskFile, hex.EncodeToString(key))
	}
	if err != nil {
		return nil, fmt.Errorf("read mask key: %w", err)
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != MaskKey {
		return nil, fmt.Errorf("read mask key: %s: invalid content: must be %d hexadecimal digits", path,
			hex.EncodedLen(MaskKey))
	}
	return key, nil
}

// TokenFile returns the path of the first admin token.
func (d *Dir) TokenFile() string { return d.Path(tokenFile) }

// Token returns the first admin token. Before it is created, the error wraps fs.ErrNotExist.
func (d *Dir) Token() (string, error) {
	text, err := readSecret(d.TokenFile())
	if err != nil {
		return "", fmt.Errorf("read admin token: %w", err)
	}
	return text, nil
}

// KeepToken writes the first admin token, readable only by its owner.
func (d *Dir) KeepToken(text string) error { return d.write(tokenFile, text) }

func (d *Dir) write(file, text string) error {
	if err := store.WriteFile(d.Path(file), []byte(text+"\n"), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

// readSecret reads a one-line file that only its owner may read.
func readSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return "", fmt.Errorf("%s holds a secret and has mode %04o: others may not read it: chmod 600", path, mode)
	}
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}
